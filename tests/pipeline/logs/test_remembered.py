"""Audits that remember sealed segments, and that leave out old ones: what they say, and what they read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bench.audit_scale.logs import BEGAN_MS, ROUND_MS, Plan, make_logs

from odradek.cli.usage import UsageError
from odradek.records.batch import Batch, batches
from odradek.records.record import Record, build_batch
from odradek_pipeline.audit.result import Result
from odradek_pipeline.jobs.audit_logs import audit_logs
from odradek_pipeline.jobs.audit_logs_spark import audit_logs_on_spark
from odradek_pipeline.logs.layout import find_files
from odradek_pipeline.logs.remembered import open_memory
from odradek_pipeline.logs.times import Span, drop_after, drop_before, first_of, newest_of, since_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Recorded = Callable[[str], Path]
MB = 1 << 20
PLAN = Plan(12 * MB, segment_bytes=2 * MB, transactional_partitions=1, idempotent_partitions=1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("made") / "logs"
    make_logs(directory, PLAN)
    return directory


@pytest.fixture
def logs(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "logs")


def said(result: Result) -> tuple[list[dict[str, Any]], list[tuple[str, int, str]]]:
    problems = [(one.path, one.position, one.problem) for one in result.problems]
    return result.anomalies.to_dict("records"), problems


def bad(result: Result) -> list[tuple[str, int]]:
    """What is bad; that sequences begin in their middle is not."""
    rows = result.anomalies[result.anomalies["severity"] == "bad"]
    return list(zip(rows["anomaly"], rows["offset"], strict=True))


def sealed(logs: Path, partition: str = "transfers-0") -> Path:
    """A segment that is not the last of its partition."""
    return sorted((logs / partition).glob("*.log"))[1]


def test_the_second_audit_reads_what_is_not_sealed_and_says_the_same(logs: Path, tmp_path: Path) -> None:
    plain = audit_logs([logs])
    first = audit_logs([logs], state=tmp_path / "state")
    second = audit_logs([logs], state=tmp_path / "state")
    assert said(plain) == said(first) == said(second)
    for name in ("log_txns", "sequences"):
        assert plain.tables[name].equals(second.tables[name])
    assert 0 == first.facts["bytes_remembered"]
    assert plain.bytes == first.bytes
    assert second.bytes + second.facts["bytes_remembered"] == plain.bytes
    assert second.bytes < plain.bytes // 50


def batches_of(path: Path) -> list[Batch]:
    """Those of a segment."""
    return list(batches(memoryview(path.read_bytes())))


def appended(directory: Path, partition: str, count: int) -> int:
    """More batches of an idempotent producer, behind what is there; how many bytes."""
    path = max((directory / partition).glob("*.log"))
    last = batches_of(path)[-1].next_offset
    added = b"".join(
        build_batch(
            [Record(value=bytes(1000), timestamp=BEGAN_MS + 50 * ROUND_MS)],
            base_offset=last + number,
            producer_id=77,
            producer_epoch=0,
            base_sequence=number,
            leader_epoch=0,
        )
        for number in range(count)
    )
    with path.open("ab") as file:
        file.write(added)
    return len(added)


def segments_of(directory: Path) -> list[Path]:
    """Those of all topics but the coordinators' log, which is always read."""
    return [path for path in directory.rglob("*.log") if not path.parent.name.startswith("__")]


def last_of(directory: Path, name: str) -> Path:
    """The segment that is written to."""
    return max((directory / name).glob("*.log"))


@pytest.fixture(params=["here", "on Spark"])
def audit(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Result]:
    """Both ways of the audit."""
    if request.param == "here":
        return audit_logs
    spark = request.getfixturevalue("spark")
    return lambda directories, **options: audit_logs_on_spark(spark, directories, tmp_path / "out", **options)


def test_a_second_audit_with_1_percent_new_reads_1_percent(
    logs: Path, tmp_path: Path, audit: Callable[..., Result]
) -> None:
    """What it read is shown twice: by its count, and by noise where it must not look any more."""
    first = audit([logs], state=tmp_path / "state")
    assert ([], first.bytes) == (bad(first), sum(path.stat().st_size for path in logs.rglob("*.log")))
    kept = {path: batches_of(path)[-1].size for path in segments_of(logs)}
    ends = {path: path.stat().st_size for path in kept}
    new = appended(logs, "events-0", first.bytes // 100 // 1075)
    assert 0.009 < new / first.bytes < 0.011
    plain = audit([logs])
    for path, last in kept.items():
        content, now = bytearray(path.read_bytes()), path.stat()
        held = ends[path] - last  # the last batch stays: by it the others are known
        content[:held] = b"\xee" * held
        path.write_bytes(content)
        os.utime(path, ns=(now.st_atime_ns, now.st_mtime_ns))
    second = audit([logs], state=tmp_path / "state")
    assert said(plain) == said(second)
    coordinators = sum(path.stat().st_size for path in logs.glob("__transaction_state-*/*.log"))
    assert new + coordinators == second.bytes
    assert second.bytes < 0.02 * plain.bytes
    assert plain.bytes == second.bytes + second.facts["bytes_remembered"]


def test_an_open_segment_that_was_cut_back_is_read_again(logs: Path, tmp_path: Path) -> None:
    """A follower cuts off what its new leader does not have, and goes on with what that one has."""
    audit_logs([logs], state=tmp_path / "state")
    path = last_of(logs, "events-0")
    whole = path.read_bytes()
    for cut in (2, 1):
        path.write_bytes(whole[: -sum(one.size for one in batches_of(path)[-cut:])])
        appended(logs, "events-0", 40)
        plain, again = audit_logs([logs]), audit_logs([logs], state=tmp_path / "state")
        assert said(plain) == said(again)
        assert plain.facts["batches"] == again.facts["batches"]
        assert again.bytes > path.stat().st_size


def test_what_is_half_written_is_looked_at_each_time(logs: Path, tmp_path: Path) -> None:
    """Its broker is writing; in a directory that was closed it would be damage."""
    (logs / ".kafka_cleanshutdown").unlink()
    path = last_of(logs, "events-0")
    whole = path.stat().st_size
    size = appended(logs, "events-0", 1)
    os.truncate(path, whole + size - 7)
    for _ in range(3):
        result = audit_logs([logs], state=tmp_path / "state")
        assert ["half-written"] == [one.problem for one in result.problems]
    assert result.bytes < whole


def test_a_segment_that_has_been_sealed_since_is_known(logs: Path, tmp_path: Path) -> None:
    """And so is one that Spark would cut by now."""
    audit_logs([logs], state=tmp_path / "state")
    path = last_of(logs, "events-0")
    end = batches_of(path)[-1].next_offset
    appended(logs, "events-0", 3)
    (path.parent / f"{end + 3:020}.log").write_bytes(b"")
    second = audit_logs([logs], state=tmp_path / "state")
    assert second.bytes < path.stat().st_size


def test_a_sealed_segment_that_was_changed_is_read_again(logs: Path, tmp_path: Path) -> None:
    audit_logs([logs], state=tmp_path / "state")
    path = sealed(logs)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 20_000] = bytes(20_000)
    path.write_bytes(content)
    assert said(audit_logs([logs])) == said(audit_logs([logs], state=tmp_path / "state"))
    for _ in range(2):  # what is broken is not remembered as if it were whole
        result = audit_logs([logs], state=tmp_path / "state")
        assert result.is_bad
        assert str(path) in {one.path for one in result.problems}


def test_what_stands_beside_a_remembered_segment_is_checked(logs: Path, tmp_path: Path) -> None:
    audit_logs([logs], state=tmp_path / "state")
    index = sealed(logs).with_suffix(".index")
    content = bytearray(index.read_bytes())
    content[12:16] = (int.from_bytes(content[12:16]) + 5).to_bytes(4)
    index.write_bytes(content)
    result = audit_logs([logs], state=tmp_path / "state")
    assert [(str(index), "bad-index")] == [(one.path, one.problem) for one in result.problems]


def test_checksums_that_were_not_compared_are_not_taken_as_right(logs: Path, tmp_path: Path) -> None:
    audit_logs([logs], state=tmp_path / "state")
    path = sealed(logs)
    times = os.stat(path)
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # as a disk does it: nobody has written
    assert not audit_logs([logs], state=tmp_path / "state").is_bad
    result = audit_logs([logs], state=tmp_path / "state", check_crc=True)
    assert ["bad-crc"] == [one.problem for one in result.problems]
    again = audit_logs([logs], state=tmp_path / "state", check_crc=True)
    assert ["bad-crc"] == [one.problem for one in again.problems]
    assert again.facts["bytes_remembered"] > 0  # the others were compared the last time


def test_what_retention_removes_is_forgotten(logs: Path, tmp_path: Path) -> None:
    audit_logs([logs], state=tmp_path / "state")
    kept = sorted((tmp_path / "state").glob("transfers-0-*/*"))
    first = min((logs / "transfers-0").glob("*.log"))
    for path in (logs / "transfers-0").glob(f"{first.stem}.*"):
        path.unlink()
    assert not audit_logs([logs], state=tmp_path / "state").is_bad
    assert kept[1:] == sorted((tmp_path / "state").glob("transfers-0-*/*"))


def test_a_memory_that_cannot_be_read_is_read_past(logs: Path, tmp_path: Path) -> None:
    plain = audit_logs([logs], state=tmp_path / "state")
    one, other, *_ = sorted((tmp_path / "state").glob("transfers-0-*/*"))
    one.write_bytes(one.read_bytes()[:-40])
    other.write_bytes(b"")
    assert said(plain) == said(audit_logs([logs], state=tmp_path / "state"))


def test_the_memory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    open_memory(tmp_path / "state", ["one"])
    open_memory(tmp_path / "state", ["one", "two"])
    open_memory(tmp_path / "state", [""])
    with pytest.raises(UsageError, match=r"state is of another cluster: one, not two\.$"):
        open_memory(tmp_path / "state", ["two"])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "photo").touch()
    with pytest.raises(UsageError, match=r"is no memory of audits"):
        open_memory(tmp_path / "full", ["one"])
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot be a memory of audits"):
        open_memory(tmp_path / "file", ["one"])


def test_on_spark(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    plain = audit_logs([logs])
    options: dict[str, Any] = {"state": tmp_path / "state", "range_bytes": MB}
    first = audit_logs_on_spark(spark, [logs], tmp_path / "first", **options)
    second = audit_logs_on_spark(spark, [logs], tmp_path / "second", **options)
    assert said(plain) == said(first) == said(second)
    assert 0 == first.facts["bytes_remembered"]
    assert second.bytes < first.bytes // 2
    half = BEGAN_MS + 20 * ROUND_MS
    since = audit_logs_on_spark(spark, [logs], tmp_path / "since", span=Span(half), **options)
    assert said(audit_logs([logs], span=Span(half))) == said(since)
    assert since.facts["batches"] < plain.facts["batches"]
    until = audit_logs_on_spark(spark, [logs], tmp_path / "until", span=Span(until=half), **options)
    assert said(audit_logs([logs], span=Span(until=half))) == said(until)
    assert plain.facts["batches"] > until.facts["batches"] > 0


# ---------------------------------------------------------------------- times


def test_segments_that_end_before_are_left_out_as_if_by_retention(logs: Path) -> None:
    plain = audit_logs([logs])
    segments = sorted((logs / "transfers-0").glob("*.log"))
    middle = len(segments) // 2
    tree = find_files([logs / "transfers-0"])
    newest = [newest_of(one) for one in tree.files if one.path.endswith(".log")]
    since = newest[middle]
    assert since is not None
    kept = {one.path for one in drop_before(tree, since).files if one.path.endswith(".log")}
    assert {str(path) for path in segments[middle:]} == kept
    result = audit_logs([logs], span=Span(since))
    assert ([], False) == (bad(result), result.is_bad)
    assert result.facts["batches"] < plain.facts["batches"]
    everything = audit_logs([logs], span=Span(BEGAN_MS - 1))
    assert said(plain) == said(everything)
    last = audit_logs([logs], span=Span(1 << 50))
    assert ([], False) == (bad(last), last.is_bad)
    assert last.facts["batches"] > 0


def test_segments_that_begin_after_are_left_out_as_if_not_yet_written(logs: Path) -> None:
    """What was under way then has ended since, and nothing of it is missing."""
    plain = audit_logs([logs])
    segments = sorted((logs / "transfers-0").glob("*.log"))
    middle = len(segments) // 2
    tree = find_files([logs / "transfers-0"])
    first = [first_of(one) for one in tree.files if one.path.endswith(".log")]
    until = first[middle]
    assert until is not None
    kept, cut = drop_after(tree, until)
    assert {str(path) for path in segments[: middle + 1]} == {
        one.path for one in kept.files if one.path.endswith(".log")
    }
    assert {("transfers", 0): first[middle + 1]} == cut
    markers = plain.tables["log_txns"].query("topic == 'transfers' and partition == 0")["marker_offset"]
    (logs / "replication-offset-checkpoint").write_text(f"0\n1\ntransfers 0 {markers.max() + 1}\n")
    result = audit_logs([logs], span=Span(until=until))
    assert ([], False) == (bad(result), result.is_bad)
    assert result.facts["batches"] < plain.facts["batches"]
    assert said(audit_logs([logs])) == said(audit_logs([logs], span=Span(until=1 << 50)))
    between = audit_logs([logs], span=Span(until - 1, until))
    assert ([], False) == (bad(between), between.is_bad)
    assert between.facts["batches"] < result.facts["batches"]


def test_a_span_of_nothing() -> None:
    assert Span(until=5) == Span.of(None, "1970-01-01T00:00:00.005", 0)
    with pytest.raises(UsageError, match=r"^Nothing lies between 1h and 2h: the second is not later\.$"):
        Span.of("1h", "2h", 1 << 40)


def test_what_hangs_is_found_behind_a_time(tmp_path: Path) -> None:
    plan = Plan(12 * MB, segment_bytes=2 * MB, transactional_partitions=1, idempotent_partitions=0, hanging=True)
    planted = make_logs(tmp_path / "logs", plan)
    result = audit_logs([tmp_path / "logs"], span=Span(1 << 50))
    assert [("txn-hanging", planted.hanging)] == bad(result)


def test_a_segment_without_an_index_of_times_stays(logs: Path) -> None:
    tree = find_files([logs / "transfers-0"])
    assert drop_before(tree, 1 << 50).starts() != tree.starts()
    min((logs / "transfers-0").glob("*.timeindex")).unlink()
    assert drop_before(tree, 1 << 50).starts() == tree.starts()


def test_times() -> None:
    now = 1_800_000_000_000
    assert now - 90 * 60_000 == since_ms("90m", now)
    assert now - 24 * 3_600_000 == since_ms("24h", now)
    assert now - 7 * 86_400_000 == since_ms("7d", now)
    assert 1_795_305_600_000 == since_ms("2026-11-22", now)
    assert (
        1_795_305_600_000 + 6 * 3_600_000
        == since_ms("2026-11-22T06:00", now)
        == since_ms("2026-11-22T07:00+01:00", now)
    )
    for wrong in ("yesterday", "", "24", "2026-13-01", "-5m"):
        with pytest.raises(UsageError, match="is no time: it is 24h"):
            since_ms(wrong, now)


def test_healthy_logs_stay_healthy_whatever_is_left_out(recorded: Recorded, tmp_path: Path) -> None:
    for name in ("tv1", "tv2", "cleaned"):
        directory = recorded(name)
        assert not audit_logs([directory], span=Span(1 << 50)).is_bad
        shutil.rmtree(directory)
