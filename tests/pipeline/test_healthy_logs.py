"""What healthy clusters leave behind, and what cannot be known: nothing of it is bad."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.pipeline.corpus.__main__ import unpack
from tests.pipeline.planting import add, close, drop, is_marker, partition_batches, rewrite, segment

from odradek.records.batch import DELETE_HORIZON, Batch, batches
from odradek.records.control import end_txn_marker
from odradek.records.record import Record, build_batch
from odradek_pipeline.jobs.audit_logs import audit_logs, read_batches
from odradek_pipeline.logs.layout import find_files
from odradek_pipeline.logs.scan import scan_segments
from odradek_pipeline.logs.scanned import Scan
from odradek_pipeline.transactions.allowed import Explained
from odradek_pipeline.transactions.checks import sequence_breaks

Recorded = Callable[[str], Path]


@pytest.mark.parametrize("name", ["cleaned", "idle"])
def test_nothing_is_bad(recorded: Recorded, name: str) -> None:
    result = audit_logs([recorded(name)])
    assert not result.is_bad
    assert [] == result.problems
    assert {"allowed"} == set(result.anomalies["severity"])


@pytest.mark.parametrize("name", ["emptied", "emptied-0"])
def test_batches_without_records_are_not_bad(recorded: Recorded, name: str) -> None:
    """Of data and of markers; some of these logs have lost the last batches that were cleaned (`offset-gap`)."""
    directory = recorded(name)
    kept = [one for path in directory.glob("compaction-*") for log in path.glob("*.log") for one in batches_of(log)]
    of_markers = {one.is_control for one in kept if not one.record_count}
    assert of_markers == ({False, True} if name == "emptied" else {False})
    result = audit_logs([directory])
    assert not result.is_bad
    assert {"allowed"} == set(result.anomalies["severity"])
    assert [] == result.problems


def batches_of(log: Path) -> list[Batch]:
    return list(batches(memoryview(log.read_bytes())))


def test_a_gap_where_compaction_has_not_been_is_still_bad(recorded: Recorded) -> None:
    """The checkpoint says that the log was cleaned up to a batch before the gap.

    The cleaner of a broker that was running may have gone further than its checkpoint: there the gap is allowed.
    """
    directory = recorded("emptied")
    name = "compaction-records-without-a-key-in-a-log-that-came-to-be-compacted-t"
    checkpoint = directory / "cleaner-offset-checkpoint"
    assert f"{name} 0 7" in checkpoint.read_text()
    checkpoint.write_text(checkpoint.read_text().replace(f"{name} 0 7", f"{name} 0 6"))
    assert not audit_logs([directory]).is_bad
    close(directory)
    bad = audit_logs([directory]).anomalies
    assert [("offset-gap", 5, 7)] == [
        (row["anomaly"], row["offset"], row["end_offset"]) for row in bad.to_dict("records") if row["severity"] == "bad"
    ]


def test_markers_that_the_cleaner_has_passed_are_read(recorded: Recorded) -> None:
    """A delete horizon stands in place of the base timestamp, so the timestamp deltas take several bytes (KIP-534)."""
    scan = Scan()
    passed = 0
    for chunk in scan_segments(find_files([recorded("cleaned")]).files, scan):
        control = (chunk.columns["attributes"] & 0x20) != 0
        passed += int((control & ((chunk.columns["attributes"] & DELETE_HORIZON) != 0)).sum())
        if chunk.file.topic in ("ledger", "__consumer_offsets"):
            assert (chunk.columns["marker_type"][control] >= 0).all()
            assert (chunk.columns["coordinator_epoch"][control] >= 0).all()
    assert passed > 20
    assert [] == scan.problems


def longer_marker(batch: bytes) -> bytes:
    """A marker whose value has two bytes more than this release writes."""
    longer = bytearray(batch)
    longer[61] += 4  # the length of the record, zigzag
    longer[-8] += 4  # that of its value
    longer[-1:-1] = b"\0\0"
    longer[8:12] = (len(longer) - 12).to_bytes(4)
    return bytes(longer)


@pytest.mark.parametrize(("at", "what"), [(67, "its key"), (72, "its value")])
def test_a_marker_of_a_later_version_is_read_and_named(tmp_path: Path, at: int, what: str) -> None:
    """The version of the key and that of the value, each one ahead."""
    built = end_txn_marker(producer_id=7, producer_epoch=0, commit=True, coordinator_epoch=3, timestamp=9)
    marker = bytearray(built.view)
    assert bytes(2) == marker[at - 1 : at + 1]
    marker[at] = 1
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(longer_marker(bytes(marker)) + bytes(marker))
    scan = Scan()
    (chunk,) = scan_segments(find_files([tmp_path]).files, scan)
    assert ([1, 1], [3, 3]) == (chunk.columns["marker_type"].tolist(), chunk.columns["coordinator_epoch"].tolist())
    assert ["unknown-version"] * 2 == [found.problem for found in scan.problems]
    assert all(f"1 of {what}" in found.detail for found in scan.problems)


def test_a_producers_last_batch_outlives_its_records_and_its_marker(tmp_path: Path) -> None:
    """The cleaner keeps the batch for its sequence numbers, without records; it is no transaction that hangs."""
    batch = bytearray(
        build_batch(
            [Record(value=b"x", timestamp=1)], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
        )
    )
    empty = batch[:61]
    empty[8:12] = (61 - 12).to_bytes(4)
    empty[57:61] = bytes(4)
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(empty)
    assert not audit_logs([tmp_path]).is_bad
    assert 0 == len(audit_logs([tmp_path]).tables["open_txns"])


def test_a_marker_of_no_decision_is_still_bad(recorded: Recorded) -> None:
    """The coordinator's log has one abort; a second one, behind the commit of the same epoch, is nobody's."""
    directory = recorded("idle")
    close(directory)
    aborted = partition_batches(directory, "orders-0")[-1]
    again = bytearray(aborted.view)
    found = [bytes(batch.view) for batch in partition_batches(directory, "orders-0")]
    commit = bytearray(found[1])
    commit[:8], again[:8] = (3).to_bytes(8), (4).to_bytes(8)
    rewrite(directory, "orders-0", [*found, bytes(commit), bytes(again)])
    bad = audit_logs([directory]).anomalies
    assert [("txn-double-marker", "bad", 3), ("txn-double-marker", "bad", 4)] == [
        (row["anomaly"], row["severity"], row["offset"]) for row in bad.to_dict("records") if row["offset"] > 2
    ]


def coordinator_of(directory: Path) -> Path:
    """The partition of the coordinators' log that has records."""
    (found,) = [path.parent for path in directory.glob("__transaction_state-*/*.log") if path.stat().st_size]
    return found


@pytest.mark.parametrize("metadata", [True, False])
@pytest.mark.parametrize("name", ["tv1", "tv2", "idle"])
def test_without_one_coordinators_log_nothing_is_said_to_hang(recorded: Recorded, name: str, metadata: bool) -> None:
    """The metadata log says how many there are; without it a hole in their numbers does, or an id that lies astray."""
    directory = recorded(name)
    if name == "tv1":  # a transaction under way
        assert ["ongoing"] == audit_logs([directory]).tables["open_txns"]["status"].tolist()
    if name == "idle":
        for _ in range(2):
            drop(directory, "orders-0", is_marker, -1)
        for checkpoint in directory.glob("*-checkpoint"):
            checkpoint.unlink()  # they know that the log was longer
    gone = coordinator_of(directory)
    shutil.rmtree(gone)
    if not metadata:
        shutil.rmtree(directory / "__cluster_metadata-0")
        last = sorted(directory.glob("__transaction_state-*"))[-1].name
        assert last > gone.name or name == "tv2", "a hole that shows"
    result = audit_logs([directory])
    assert {"unknown"} == set(result.tables["open_txns"]["status"])
    assert {"info"} == set(result.anomalies["severity"])
    assert not result.is_bad


def test_a_coordinators_log_that_is_damaged_is_no_evidence(recorded: Recorded) -> None:
    directory = recorded("tv1")
    path = segment(directory, coordinator_of(directory).name)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 3] + b"\xff" * 40 + content[len(content) // 3 + 40 :])
    result = audit_logs([directory])
    assert ["unknown"] == result.tables["open_txns"]["status"].tolist()
    assert "txn-hanging" not in {
        row["anomaly"] for row in result.anomalies.to_dict("records") if row["severity"] == "bad"
    }


def test_an_id_that_lies_astray_says_that_coordinators_are_missing(recorded: Recorded) -> None:
    """Partitions 0 and 1 are there and have no hole, but among two `shop` would lie in partition 0."""
    directory = recorded("tv1")
    close(directory)
    shutil.rmtree(directory / "__cluster_metadata-0")
    end = partition_batches(directory, "orders-0")[-1].next_offset
    late = Record(value=b"late", timestamp=1)
    add(
        directory,
        "orders-0",
        build_batch([late], base_offset=end, producer_id=999, producer_epoch=0, base_sequence=0, transactional=True),
    )
    assert {"bad"} == set(audit_logs([directory]).anomalies["severity"])
    shutil.rmtree(directory / "__transaction_state-2")
    assert {"info"} == set(audit_logs([directory]).anomalies["severity"])


def test_compaction_may_end_within_a_producer_epoch(tmp_path: Path) -> None:
    """Kafka Streams' changelogs look like this: the batch behind the gap is the first that the cleaner has not seen."""
    directory = unpack("compacted_within_an_epoch", tmp_path) / "broker-1"
    upto = {"kv-1": 11884, "kv-2": 9323}
    assert {f"{topic}-{number}": at for (topic, number), at in find_files([directory]).cleaned.items()} == upto
    tree = find_files([directory])
    breaks = sequence_breaks(read_batches(tree.files, Scan()))
    first = breaks["previous_offset"] + 1
    of = [upto.get(f"{topic}-{number}", 0) for topic, number in zip(breaks["topic"], breaks["partition"], strict=True)]
    straddles = breaks[(first < of) & (breaks["offset"] >= of)]
    assert {"seq-gap", "seq-first-not-zero"} == set(straddles["anomaly"])
    rest, allowed = Explained(tree.starts(), tree.cleaned).breaks(straddles)
    assert rest.empty
    assert len(straddles) == allowed["count"].sum()
    result = audit_logs([directory])
    assert not result.is_bad
    rows = result.anomalies[result.anomalies["anomaly"].str.startswith("seq-")]
    assert {"allowed"} == set(rows["severity"])
    assert not rows.duplicated(["anomaly", "topic", "partition"]).any(), "one row for all of a kind in a partition"
    assert rows["detail"].str.contains("more like it in the partition").any()
