"""What is in a store, as brokers note it (KIP-405): the first segment here may be a later one, if the rest is there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.pipeline.corpus.__main__ import audited, unpack
from tests.pipeline.corpus.edit import Log
from tests.pipeline.corpus.faults_of_stores import note
from tests.pipeline.planting import close

from odradek.records.state import Unknown, decode_remote
from odradek_pipeline.directories.cluster import read_cluster
from odradek_pipeline.directories.remote import Remote, State, _Copied, _Partition, read_remote
from odradek_pipeline.logs.layout import find_files
from odradek_pipeline.logs.log_dirs import LogDir, PartitionDir

ID = bytes(range(16))


@pytest.fixture
def tiered(tmp_path: Path) -> Path:
    """The directory of a real broker that has copied segments to a store and removed them; it was killed."""
    return unpack("tiered", tmp_path) / "broker-1"


def remote_of(directory: Path) -> Remote:
    tree = find_files([directory])
    return read_remote(tree, read_cluster(tree))


def missing(directory: Path) -> set[tuple[str, str, int, int, int]]:
    return {
        (row["severity"], row["topic"], row["partition"], row["offset"], row["end_offset"])
        for row in audited(directory.parent).anomalies.to_dict("records")
        if row["anomaly"] == "missing-segment"
    }


def test_the_notes_of_a_real_broker_have_all_that_is_not_here(tiered: Path) -> None:
    close(tiered)
    result = audited(tiered.parent)
    assert len(list(tiered.glob(f"orders-0/{0:020}.log"))) == 0
    assert not result.is_bad
    assert set() == missing(tiered)
    remote = remote_of(tiered)
    assert {} == remote.lacking
    assert remote.totals() == result.facts["in_store"]
    assert 0 < remote.totals()["segments"] <= noted(tiered).count("RemoteLogSegmentMetadataRecord")
    assert 0 < remote.totals()["bytes"]


def noted(directory: Path) -> list[str]:
    """The kinds of all notes, read with the parts of the broker alone."""
    from odradek.records.batch import batches
    from odradek.records.record import iterate_records

    return [
        type(decode_remote(record.value or b"")).__name__
        for path in directory.glob("__remote_log_metadata-*/*.log")
        for batch in batches(memoryview(path.read_bytes()))
        for record in iterate_records(batch)
    ]


@pytest.mark.parametrize("state", [State.COPY_STARTED, State.DELETE_STARTED, State.DELETE_FINISHED])
def test_what_the_store_does_not_have_either_is_missing(tiered: Path, state: State) -> None:
    note(tiered.parent, "orders", 1, 32, state)
    assert {("info", "orders", 1, 32, 36)} == missing(tiered), "its broker was not stopped"
    close(tiered)
    assert {("bad", "orders", 1, 32, 36)} == missing(tiered)
    note(tiered.parent, "orders", 1, 32, State.COPY_FINISHED)
    assert (set() if state != State.DELETE_FINISHED else {("bad", "orders", 1, 32, 36)}) == missing(tiered)


def without(*names: str) -> Callable[[Path], None]:
    def remove(directory: Path) -> None:
        for name in names:
            for path in directory.glob(name):
                shutil.rmtree(path)

    return remove


def shortened(directory: Path) -> None:
    """Retention has removed the first segment of the notes."""
    for path in directory.glob("__remote_log_metadata-*"):
        Log(directory.parent, path.name).segment_of().rename(path / f"{100:020}.log")


def later(directory: Path) -> None:
    """A note of a later release."""
    for path in directory.glob("__remote_log_metadata-*"):
        log = Log(directory.parent, path.name)
        from odradek.records.record import Record, build_batch

        log.append(build_batch([Record(value=b"\x01\x07\x00later", timestamp=1)]))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (without("__remote_log_metadata-*"), "is not here"),
        (shortened, "begins at offset 100"),
        (later, "not all of __remote_log_metadata-"),
    ],
)
def test_notes_that_do_not_tell_everything_prove_nothing(
    tiered: Path, change: Callable[[Path], None], why: str
) -> None:
    close(tiered)
    note(tiered.parent, "orders", 1, 32, State.DELETE_STARTED)
    change(tiered)
    result = audited(tiered.parent)
    found = [row for row in result.anomalies.to_dict("records") if row["anomaly"] == "missing-segment"]
    rows = [row for row in found if not row["topic"].startswith("__")]
    assert ("orders", 1) in {(row["topic"], row["partition"]) for row in rows}
    assert {"info"} == {row["severity"] for row in rows}
    assert all(why in row["detail"] or "there is no __remote_log_metadata" in row["detail"] for row in rows)


def test_without_the_metadata_log_the_notes_say_which_topics_are_tiered(tiered: Path) -> None:
    close(tiered)
    without("__cluster_metadata-0")(tiered)
    assert set() == missing(tiered)
    note(tiered.parent, "orders", 1, 32, State.DELETE_STARTED)
    assert {("bad", "orders", 1, 32, 36)} == missing(tiered)
    without("__remote_log_metadata-*")(tiered)
    assert {"bad"} == {row[0] for row in missing(tiered)}, "nothing says that there is a store"


def test_one_partition_of_the_notes_says_nothing_of_the_others(tiered: Path) -> None:
    close(tiered)
    remote = remote_of(tiered)
    of = {key: found.noted_in for key, found in remote.partitions.items()}
    assert 1 < len(set(of.values())), "the recording has notes in several partitions"
    gone = next(iter(of.values()))
    without(f"__remote_log_metadata-{gone}")(tiered)
    kept = remote_of(tiered)
    assert {key for key, number in of.items() if number != gone} == kept.partitions.keys()
    assert {gone: f"__remote_log_metadata-{gone} is not here"} == kept.lacking


def replica(*epochs: tuple[int, int]) -> PartitionDir:
    return PartitionDir("/t-0", "t", 0, LogDir("/"), 100, 100, epochs, ID)


def copies(*spans: tuple[tuple[tuple[int, int], ...], int]) -> Remote:
    segments = {bytes([at]): _Copied(epochs, end, 1, State.COPY_FINISHED) for at, (epochs, end) in enumerate(spans)}
    return Remote({(ID, 0): _Partition(0, segments)}, is_noted=True)


@pytest.mark.parametrize(
    ("spans", "gaps"),
    [
        ([(((0, 0), (1, 50)), 100)], []),
        ([(((0, 0),), 100)], [(50, 100)]),
        ([(((0, 0),), 40), (((0, 40), (1, 50)), 100)], []),
        ([(((0, 0),), 40), (((1, 50),), 100)], [(40, 50)]),
        ([(((0, 0),), 60), (((1, 60),), 100)], [(50, 60)]),  # epoch 0 ended at 50: its last ten were never committed
        ([(((2, 0),), 100)], [(0, 100)]),  # an epoch that is not of this log
        ([(((1, 50),), 120)], [(0, 50)]),
        ([(((0, 0),), 30), (((0, 20),), 50)], [(50, 100)]),
        ([], [(0, 100)]),
    ],
)
def test_only_what_is_of_the_same_history_counts(
    spans: list[tuple[tuple[tuple[int, int], ...], int]], gaps: list[tuple[int, int]]
) -> None:
    assert gaps == copies(*spans).gaps(replica((0, 0), (1, 50)), 0, 100)


def test_a_note_of_a_later_release_is_unknown() -> None:
    assert isinstance(decode_remote(b"\x01\x07\x00later"), Unknown)
