"""Damage that the audit did not see at first, or told under another name; each planted into a real broker's logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.pipeline.corpus.__main__ import audited, unpack
from tests.pipeline.corpus.edit import ATTRIBUTES_AT, Log, is_marker
from tests.pipeline.corpus.faults_of_logs import coordinators

from odradek.records.batch import parse_batch
from odradek.records.compression import Compression
from odradek.records.record import Record, build_batch, iterate_records
from odradek.records.state import decode_value
from odradek.wire.messages.transaction_log_value import TransactionLogValue
from odradek_pipeline.audit.result import Result
from odradek_pipeline.commands.preflight import check_log_directories
from odradek_pipeline.jobs.audit_logs import audit_logs
from odradek_pipeline.logs.layout import find_files
from odradek_pipeline.logs.payload import TransactionRecord
from odradek_pipeline.logs.scan import scan_segments
from odradek_pipeline.logs.scanned import Scan
from odradek_pipeline.transactions.steps import CLOCKS_MS, Known, told_of

CLOSED, SEGMENTS = "java_level_2_clean_stop", "deleted_records"
PREPARE_COMMIT = 2
BEGAN = 1_700_000_000_000
RECORD = TransactionRecord("log", 0, 0, 4, BEGAN + 9, "shop", 1, "Ongoing", 5, 3, 60_000, BEGAN + 9, BEGAN)


def causes(result: Result) -> list[str]:
    assert result.incidents is not None
    return result.incidents["incident"].tolist()


def test_a_decision_for_a_partition_without_records_hangs_nowhere(tmp_path: Path) -> None:
    """Its data and its marker are gone; there is nothing that could be aborted."""
    root = unpack(CLOSED, tmp_path)
    log = Log(root, "orders-2")
    found = log.read()
    markers = log.places(is_marker)
    assert markers[-1] == len(found) - 1
    log.write(found[: markers[-2] + 1])
    end = int.from_bytes(log.read()[-1][:8]) + 1
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        log.checkpoint(name, end)
    result = audited(root)
    rows = result.anomalies[result.anomalies["severity"] == "bad"]
    assert {"txn-without-marker"} == set(rows["anomaly"])
    assert {-1} == set(rows["offset"])
    assert result.incidents is not None
    assert not result.incidents["run"].str.contains("abort --topic").any()


@pytest.mark.parametrize(("start", "told"), [(BEGAN - 1, []), (BEGAN + 1, ["txn-unknown-partition"])])
def test_a_topic_may_be_made_again_during_a_transaction(start: int, told: list[str]) -> None:
    """With fewer partitions than it had when the transaction began; its record was written afterwards."""
    known = Known(topics={"orders": (1, BEGAN)})
    one = replace(RECORD, start=start, partitions=(("orders", 2),))
    assert told == [name for _, name, _ in told_of(RECORD, one, known)]


def test_a_time_of_a_transaction_that_has_not_come_when_its_record_is_written() -> None:
    ahead = replace(RECORD, start=BEGAN + 365 * 24 * 3_600_000, last_update=BEGAN + 365 * 24 * 3_600_000)
    assert ["txn-bad-times"] == [name for _, name, _ in told_of(RECORD, ahead, Known())]
    near = replace(RECORD, last_update=RECORD.timestamp + CLOCKS_MS)
    assert [] == list(told_of(RECORD, near, Known()))


def test_a_commit_that_nobody_decided(tmp_path: Path) -> None:
    """The coordinators' log is whole, and its last transaction is still under way in it."""
    root = unpack(CLOSED, tmp_path)
    log = coordinators(root)
    found = log.read()
    commits = [at for at, batch in enumerate(found) if state_of(batch) == PREPARE_COMMIT]
    log.write(found[: commits[-1]])
    end = int.from_bytes(log.read()[-1][:8]) + 1
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        log.checkpoint(name, end)
    assert "undecided-marker" in causes(audited(root))


def state_of(batch: bytearray) -> int:
    (record,) = iterate_records(parse_batch(memoryview(bytes(batch))))
    value = decode_value(record.value, TransactionLogValue) if record.value else None
    return value.transaction_status if value is not None else -1


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
@pytest.mark.parametrize("denied", [Compression.NONE, Compression.SNAPPY])
def test_records_in_a_codec_that_their_batch_denies(tmp_path: Path, codec: Compression, denied: Compression) -> None:
    records = [Record(value=b"some text " * 40, timestamp=1) for _ in range(9)]
    batch = bytearray(build_batch(records, compression=codec))
    (tmp_path / "t-0").mkdir()
    path = tmp_path / "t-0" / f"{0:020}.log"
    for attributes, told in ((codec, []), (denied, ["bad-records"])):
        batch[ATTRIBUTES_AT : ATTRIBUTES_AT + 2] = int(attributes).to_bytes(2)
        path.write_bytes(batch)
        scan = Scan()
        list(scan_segments(find_files([tmp_path]).files, scan))
        assert told == [one.problem for one in scan.problems]


@pytest.mark.parametrize("step", [2, -2])
def test_a_segment_that_follows_under_another_name(tmp_path: Path, step: int) -> None:
    """Later or earlier than its first offset: one cause, and neither its index nor its snapshot lies."""
    root = unpack(SEGMENTS, tmp_path)
    log = Log(root, "orders-2")
    second = log.segments[1]
    name = f"{int(second.stem) + step:020}"
    assert log.segments[0].stem < name < log.segments[2].stem
    for path in [*log.path.glob(f"{second.stem}.*")]:
        path.rename(path.with_name(name + path.suffix))
    result = audited(root)
    assert ["misnamed-segment"] == causes(result)
    assert result.incidents is not None
    assert "Stop the broker, remove" not in result.incidents["run"].iloc[0]


def test_zeros_in_a_closed_segment_are_damage_to_it(tmp_path: Path) -> None:
    root = unpack(SEGMENTS, tmp_path)
    first = Log(root, "orders-2").segments[0]
    content = first.read_bytes()
    first.write_bytes(content[: len(content) // 2] + bytes(len(content) - len(content) // 2))
    result = audited(root)
    assert ["damaged-segment"] == causes(result)
    assert result.incidents is not None
    assert str(first) == result.incidents["path"].iloc[0]


@pytest.mark.parametrize("circle", [False, True])
@pytest.mark.parametrize("name", ["orders-2/{segment}.log", "lost-0"])
def test_a_link_that_leads_nowhere_is_one_row(tmp_path: Path, name: str, circle: bool) -> None:
    root = unpack(CLOSED, tmp_path)
    here = root / "broker-1"
    path = here / name.format(segment=Log(root, "orders-2").segments[0].stem)
    path.unlink(missing_ok=True)
    path.symlink_to(path if circle else tmp_path / "unmounted")
    check_log_directories([here])
    result = audit_logs([here])
    assert [str(path)] == [one.path for one in result.problems if one.problem == "leads-nowhere"]
    assert {"leads-nowhere", "missing-segment"} & set(causes(result))


def test_a_missing_first_batch_is_named_by_the_one_that_is_there(tmp_path: Path) -> None:
    """Before which offset: nothing is known of the one that is missing."""
    batch = bytearray(build_batch([Record(value=b"x", timestamp=1)], producer_id=7, producer_epoch=0, base_sequence=4))
    (tmp_path / "t-0").mkdir()
    other = build_batch([Record(value=b"y", timestamp=1)])
    batch[:8] = (1).to_bytes(8)
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(other + batch)
    result = audit_logs([tmp_path])
    assert result.incidents is not None
    (row,) = result.incidents.to_dict("records")
    assert "lacks the first batches of producer 7 before offset 1: " in row["what"]


def test_files_of_one_partition_that_are_wrong_alike_are_one_incident(tmp_path: Path) -> None:
    root = unpack(SEGMENTS, tmp_path)
    log = Log(root, "orders-2")
    paths = [path for path in log.path.glob("*.snapshot") if path.stat().st_size > 20]
    assert len(paths) > 2
    for path in paths:
        path.write_bytes(path.read_bytes()[:-1] + b"\x55")
    result = audited(root)
    assert ["bad-crc"] == causes(result)
    assert result.incidents is not None
    assert "more files of this partition like it" in result.incidents["what"].iloc[0]
