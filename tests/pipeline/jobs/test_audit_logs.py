"""The audit of log directories, on those of a real Kafka 4.4 with faults planted into copies."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd
import pytest
from tests.pipeline.conftest import DATA
from tests.pipeline.planting import (
    add,
    close,
    drop,
    is_data,
    is_marker,
    mark_not_bumped,
    partition_batches,
    repeat,
    segment,
)

from odradek.records.control import end_txn_marker
from odradek.records.record import Record, build_batch
from odradek_pipeline.audit.result import Result
from odradek_pipeline.jobs.audit_logs import audit_logs, read_batches
from odradek_pipeline.logs.layout import LogFile
from odradek_pipeline.logs.payload import TransactionRecord, transaction_log
from odradek_pipeline.logs.scanned import Scan

Recorded = Callable[[str], Path]


def found(result: Result) -> list[tuple[object, ...]]:
    """What was found, and where."""
    rows = result.anomalies.to_dict("records")
    return [(row["anomaly"], row["severity"], f"{row['topic']}-{row['partition']}", row["offset"]) for row in rows]


@pytest.mark.parametrize("name", ["tv1", "tv2"])
def test_nothing_is_found_on_undamaged_logs(recorded: Recorded, name: str) -> None:
    result = audit_logs([recorded(name)])
    assert [] == found(result)
    assert [] == result.problems
    assert not result.is_bad


@pytest.mark.parametrize("name", ["tv1", "tv2"])
def test_an_open_transaction_that_its_coordinator_knows_is_not_hanging(recorded: Recorded, name: str) -> None:
    (row,) = audit_logs([recorded(name)]).tables["open_txns"].to_dict("records")
    assert ("ongoing", "Ongoing", "shop", 16) == (
        row["status"],
        row["coordinator_state"],
        row["transactional_id"],
        row["first_offset"],
    )


def test_a_late_batch_hangs_and_kafka_finds_the_same(recorded: Recorded) -> None:
    result = audit_logs([recorded("hang")])
    assert [("txn-hanging", "bad", "orders-0", 36)] == found(result)
    headings, line = (
        [cell.strip() for cell in text.split("\t")]
        for text in (DATA / "hang.find-hanging.txt").read_text().splitlines()
    )
    kafka = dict(zip(headings, line, strict=True))
    (ours,) = result.anomalies.to_dict("records")
    assert (
        kafka["Topic"],
        int(kafka["Partition"]),
        int(kafka["ProducerId"]),
        int(kafka["ProducerEpoch"]),
        int(kafka["StartOffset"]),
    ) == (
        ours["topic"],
        ours["partition"],
        ours["producer_id"],
        ours["producer_epoch"],
        ours["offset"],
    )


def test_every_transaction_has_its_outcome(recorded: Recorded) -> None:
    txns = audit_logs([recorded("tv2")]).tables["log_txns"]
    first = txns[(txns["topic"] == "orders") & (txns["partition"] == 0)]
    assert ["commit", "commit", "abort"] * 4 == first["outcome"].tolist()
    assert [1] * 12 == (first["marker_epoch"] - first["epoch"]).tolist()  # KIP-890: the marker has the next epoch
    assert [3] * 12 == first["records"].tolist()


@pytest.mark.parametrize("name", ["tv1", "tv2"])
@pytest.mark.parametrize("number", [0, 4, -1])
def test_a_removed_marker_leaves_its_transaction_hanging(recorded: Recorded, name: str, number: int) -> None:
    directory = recorded(name)
    close(directory)
    drop(directory, "orders-0", is_marker, number)
    # Below level 2 the next transaction has the same epoch: its marker ends both, and nothing is open.
    name = "txn-without-marker" if name == "tv1" and number >= 0 else "txn-hanging"
    assert [(name, "bad", "orders-0")] == [row[:3] for row in found(audit_logs([directory]))]


@pytest.mark.parametrize(
    ("name", "number", "anomaly"), [("tv1", 5, "seq-gap"), ("tv2", 1, "seq-gap"), ("tv2", 2, "offset-gap")]
)
def test_a_dropped_batch_leaves_a_gap(recorded: Recorded, name: str, number: int, anomaly: str) -> None:
    """At level 2 the last batch of a transaction leaves none in the sequences: the next epoch begins at 0 again."""
    directory = recorded(name)
    gone = drop(directory, "orders-0", is_data, number)
    assert gone.base_sequence > 0
    assert [(anomaly, "bad", "orders-0")] == [row[:3] for row in found(audit_logs([directory]))]


def test_the_first_batch_of_an_epoch_dropped(recorded: Recorded) -> None:
    directory = recorded("tv2")
    gone = drop(directory, "orders-1", lambda batch: is_data(batch) and batch.base_sequence == 0, 1)
    result = audit_logs([directory])
    assert [("seq-first-not-zero", "bad", "orders-1")] == [row[:3] for row in found(result)]
    assert gone.base_offset <= result.anomalies["end_offset"][0]


@pytest.mark.parametrize("name", ["tv1", "tv2"])
def test_a_repeated_batch(recorded: Recorded, name: str) -> None:
    directory = recorded(name)
    repeat(directory, "orders-1", is_data, 3)
    assert [("seq-duplicate", "bad", "orders-1")] == [row[:3] for row in found(audit_logs([directory]))]


def test_a_dropped_batch_without_a_producer(recorded: Recorded) -> None:
    directory = recorded("tv2")
    drop(directory, "plain-0", lambda batch: not batch.has_producer_id, 1)
    assert [("offset-gap", "bad", "plain-0", 4)] == found(audit_logs([directory]))


def test_a_whole_transaction_dropped_but_its_marker(recorded: Recorded) -> None:
    directory = recorded("tv2")
    epoch = partition_batches(directory, "orders-2")[0].producer_epoch
    while any(is_data(batch) and batch.producer_epoch == epoch for batch in partition_batches(directory, "orders-2")):
        drop(directory, "orders-2", lambda batch: is_data(batch) and batch.producer_epoch == epoch, 0)
    assert [("txn-orphan-marker", "bad", "orders-2")] == [row[:3] for row in found(audit_logs([directory]))]


def _append_marker(directory: Path, *, commit: bool, epoch_step: int = 0) -> None:
    last = partition_batches(directory, "orders-0")[-1]
    marker = bytearray(
        end_txn_marker(
            producer_id=last.producer_id,
            producer_epoch=last.producer_epoch + epoch_step,
            commit=commit,
            coordinator_epoch=0,
            timestamp=last.max_timestamp,
        ).view
    )
    marker[:8] = last.next_offset.to_bytes(8)
    add(directory, "orders-0", bytes(marker))


@pytest.mark.parametrize(("commit", "severity"), [(False, "allowed"), (True, "bad")])
def test_a_second_marker(recorded: Recorded, commit: bool, severity: str) -> None:
    directory = recorded("tv2")
    close(directory)
    _append_marker(directory, commit=commit)  # behind an abort
    assert [("txn-double-marker", severity, "orders-0", 48)] == found(audit_logs([directory]))


def test_a_marker_of_an_older_epoch(recorded: Recorded) -> None:
    directory = recorded("tv2")
    _append_marker(directory, commit=False, epoch_step=-1)
    assert ("txn-marker-epoch-regression", "bad", "orders-0", 48) in found(audit_logs([directory]))


def test_a_marker_whose_epoch_was_not_bumped(recorded: Recorded) -> None:
    directory = recorded("tv2")
    close(directory)
    mark_not_bumped(directory, "orders-0")
    assert [("txn-epoch-not-bumped", "bad", "orders-0", 47), ("txn-without-marker", "bad", "orders-0", -1)] == found(
        audit_logs([directory])
    )


def test_without_the_coordinators_log_an_open_transaction_is_undecided(recorded: Recorded) -> None:
    result = audit_logs([recorded("hang") / "orders-0"])
    assert [("txn-hanging", "info", "orders-0", 36)] == found(result)
    assert not result.is_bad


def test_sequences_wrap_around(tmp_path: Path) -> None:
    top = 2**31 - 1
    batch = [Record(value=b"x", timestamp=1), Record(value=b"y", timestamp=1)]
    (tmp_path / "t-0").mkdir()
    content = b"".join(
        build_batch(batch, base_offset=offset, producer_id=1, producer_epoch=0, base_sequence=sequence)
        for offset, sequence in ((10, top - 3), (12, top - 1), (14, 0), (16, 2))
    )
    (tmp_path / "t-0" / f"{10:020}.log").write_bytes(content)
    assert [("seq-first-not-zero", "allowed", "t-0")] == [row[:3] for row in found(audit_logs([tmp_path]))]


def test_a_marker_that_comes_while_the_audit_reads(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """A living broker: the coordinator's log is read behind the data, and says complete."""
    directory = recorded("tv2")
    whole = segment(directory, "orders-0").read_bytes()
    drop(directory, "orders-0", is_marker, -1)
    (directory / "replication-offset-checkpoint").unlink()  # written every five seconds: it may be behind
    coordinators = sorted(directory.glob("__transaction_state-*/*.log"))
    said = {path: path.read_bytes() for path in coordinators}
    for path in coordinators:  # allocated in advance: what is written later does not make it longer
        path.write_bytes(bytes(len(said[path])))

    def read_and_go_on(files: Iterable[LogFile], scan: Scan) -> pd.DataFrame:
        """Behind the data the transaction is complete, and its marker is there."""
        rows = read_batches(files, scan)
        segment(directory, "orders-0").write_bytes(whole)
        for path, content in said.items():
            path.write_bytes(content)
        return rows

    monkeypatch.setattr("odradek_pipeline.jobs.audit_logs.read_batches", read_and_go_on)
    assert [] == found(audit_logs([directory]))


def test_the_coordinators_log_is_read_once_where_nothing_has_changed(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []

    def counting(files: Iterable[LogFile], scan: Scan) -> list[TransactionRecord]:
        reads.append(1)
        return transaction_log(files, scan)

    monkeypatch.setattr("odradek_pipeline.jobs.audit_logs.transaction_log", counting)
    audit_logs([recorded("tv2")])
    assert [1] == reads


def test_of_two_replicas_the_longer_one_is_audited(recorded: Recorded, tmp_path: Path) -> None:
    directory = recorded("tv1")
    other = tmp_path / "other"
    shutil.copytree(directory, other)
    meta = other / "meta.properties"
    own = re.sub(r"directory\.id=.*", "directory.id=BBBBBBBBBBBBBBBBBBBBEQ", meta.read_text())
    meta.write_text(re.sub(r"node\.id=\d+", "node.id=2", own))
    path = segment(other, "orders-0")
    path.write_bytes(path.read_bytes()[:500])
    result = audit_logs([directory, other])
    assert [] == found(result)
    told = {(one.problem, one.severity) for one in result.problems}
    assert {("other-replica", "info"), ("stray-partition", "info")} == told  # the metadata knows one broker
    assert str(other / "orders-0") in {one.path for one in result.problems}
    assert 1 == len(result.tables["open_txns"])


def test_the_timeline_of_each_transaction(recorded: Recorded) -> None:
    """Begin, records, decision, markers, complete: in this order, over all partitions of a transaction (level 2)."""
    result = audit_logs([recorded("tv2")])
    table = result.tables["timelines"]
    assert ["commit", "commit", "abort"] * 4 + ["open"] == table["outcome"].tolist()
    assert {2} == set(table["level"])
    assert [1, 2, 3] * 4 + [1] == table["partitions"].tolist() == table["written"].tolist()
    assert [3, 6, 9] * 4 + [1] == table["records"].tolist()
    ended = table[table["outcome"] != "open"]
    assert (ended["marker_epoch"] == ended["epoch"] + 1).all()
    for before, after in (("begin", "prepare"), ("first_record", "first_marker"), ("prepare", "complete")):
        assert (ended[before] <= ended[after]).all()
    assert (ended["prepare"] <= ended["last_marker"]).all()
    assert {-1} == set(table[table["outcome"] == "open"][["prepare", "last_marker", "complete"]].to_numpy().ravel())
    assert result.facts["delays_ms"]["begin to decision"]["p50"] > 0


def test_timelines_of_one_epoch_are_told_apart(recorded: Recorded) -> None:
    """Before level 2 all transactions of a producer have one epoch: times tell which marker is whose."""
    table = audit_logs([recorded("tv1")]).tables["timelines"]
    ended = table[(table["outcome"] != "open") & (table["written"] > 0)]
    assert len(ended) >= 10
    assert (ended["written"] == ended["partitions"]).all()
    assert (ended["first_marker"] >= ended["prepare"]).all()


@pytest.mark.parametrize("topic", ["orders", "__transaction_state"])
def test_one_topic_of_a_directory_with_a_metadata_log(recorded: Recorded, topic: str) -> None:
    """Nothing of the other partitions is listed then, also not of those that stand around it."""
    directory = recorded("tv2")
    assert (directory / "__cluster_metadata-0").is_dir()
    result = audit_logs([directory], topics=[topic])
    assert {topic} == set(result.tables["log_txns"]["topic"]) | {topic}
    assert result.files > 0
    assert not result.is_bad
