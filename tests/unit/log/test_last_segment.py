"""The last segment of a log after a clean stop: a start reads its end, and finds what was changed since."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.unit.log.helpers import NOW, TOPIC_ID, batch, values
from tests.unit.log.test_file_log import append, known, lead, log_bytes, new_log, open_store

from odradek.cli.logs import make_logger
from odradek.config.table import TopicConfig
from odradek.log.disk import DiskError
from odradek.log.file_log import FileLog
from odradek.log.file_segment import ActiveFile
from odradek.log.file_store import FileStore
from odradek.log.files.indexes import write_offset_index
from odradek.log.files.names import CLEAN_STOP
from odradek.log.partition import Appended, Partition
from odradek.net.disk import LocalDisk
from odradek.records.batch import InvalidBatch
from odradek.records.record import iterate_records
from odradek.sim.world.disk import SimDisk

CONFIG = TopicConfig(index_interval_bytes=250)
FOLDER = "topic-0"
SEGMENT = f"{FOLDER}/{0:020d}.log"
INDEX = f"{FOLDER}/{0:020d}.index"
TIME_INDEX = f"{FOLDER}/{0:020d}.timeindex"
BATCHES = 10


def stopped() -> tuple[SimDisk, Partition]:
    """A log with an entry in its index at every second batch, and a batch behind the last one, after a clean stop."""
    disk, store, partition = new_log(config=CONFIG)
    partition = lead(store, 0, CONFIG)
    for number in range(BATCHES):
        one = batch(
            b"%d" % number * 100, timestamp=NOW + (number * 7) % BATCHES, producer_id=7, epoch=0, sequence=number
        )
        assert isinstance(partition.append_client(one, now=NOW), Appended)
    store.close(broker_epoch=0)
    return disk.killed(), partition


def again(disk: SimDisk) -> tuple[FileStore, Partition]:
    store = open_store(disk)
    return store, lead(store, 1, CONFIG)


def active(partition: Partition) -> ActiveFile:
    [segment] = partition.log.segments
    assert isinstance(segment, ActiveFile)
    return segment


def put_before_the_mark(disk: SimDisk, name: str, data: bytes) -> None:
    """Bytes of a file have changed, and its time tells nothing of it."""
    disk.put(name, data)
    disk.put(CLEAN_STOP, disk.content(CLEAN_STOP))


def without_batch(disk: SimDisk, partition: Partition, number: int) -> bytes:
    """The segment with zeros in the place of this batch."""
    [segment] = partition.log.segments
    data = bytearray(disk.content(SEGMENT))
    start, end = segment.positions[number], segment.end_of(number)
    data[start:end] = bytes(end - start)
    return bytes(data)


def test_a_start_reads_the_end_and_the_first_read_the_rest() -> None:
    disk, before = stopped()
    _, partition = again(disk)
    assert not active(partition).is_read
    assert BATCHES == partition.log.end_offset
    assert before.log.size_bytes == partition.log.size_bytes
    assert max(before.log.segments[0].timestamps) == active(partition).max_timestamp
    assert known(before) == known(partition)
    assert not active(partition).is_read
    assert log_bytes(before) == log_bytes(partition)
    assert active(partition).is_read
    segment, whole = active(partition), before.log.segments[0]
    assert (whole.offsets, whole.positions, whole.timestamps) == (
        segment.offsets,
        segment.positions,
        segment.timestamps,
    )
    assert (whole.first_timestamp, whole.has_producers) == (segment.first_timestamp, segment.has_producers)
    assert not disk.warnings


def test_the_first_append_follows_the_last_batch() -> None:
    disk, before = stopped()
    store, partition = again(disk)
    append(partition, b"next")
    assert [*log_bytes(before)] == log_bytes(partition)[:BATCHES]
    assert [b"next"] == values(partition.log.read(BATCHES, max_bytes=1000, until=1 << 60))
    store.close(broker_epoch=0)
    _, third = again(disk.killed())
    assert log_bytes(partition) == log_bytes(third)


def test_a_segment_that_nobody_used_is_left_as_it_was() -> None:
    disk, before = stopped()
    files = {name: disk.content(name) for name in (SEGMENT, INDEX, TIME_INDEX)}
    for _ in range(3):
        store, partition = again(disk)
        segment = active(partition)
        store.close(broker_epoch=0)
        assert not segment.is_read
        assert files == {name: disk.content(name) for name in files}
        disk = disk.killed()
    _, partition = again(disk)
    assert log_bytes(before) == log_bytes(partition)


def test_a_file_that_was_changed_behind_the_mark_is_gone_through() -> None:
    for name in (SEGMENT, INDEX, TIME_INDEX):
        disk, before = stopped()
        disk.put(name, disk.content(name))
        _, partition = again(disk)
        assert active(partition).is_read, name
        assert log_bytes(before) == log_bytes(partition)
    disk, before = stopped()
    disk.put(SEGMENT, without_batch(disk, before, 4))
    _, partition = again(disk)
    assert 4 == partition.log.end_offset


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_segment_without_an_index_is_gone_through(suffix: str) -> None:
    disk, before = stopped()
    disk.remove(SEGMENT.removesuffix(".log") + suffix)
    _, partition = again(disk)
    assert active(partition).is_read
    assert log_bytes(before) == log_bytes(partition)


def test_after_a_kill_it_is_gone_through() -> None:
    disk, before = stopped()
    disk.remove(CLEAN_STOP)
    _, partition = again(disk)
    assert active(partition).is_read
    assert log_bytes(before) == log_bytes(partition)


@pytest.mark.parametrize(
    "entry", [(9, 0), (9, 1), (9, 5), (8, 1 << 20), (3, 1 << 30), (1 << 30, 400)], ids=lambda entry: str(entry)
)
def test_an_entry_that_is_of_no_batch_is_not_trusted(entry: tuple[int, int]) -> None:
    disk, before = stopped()
    put_before_the_mark(disk, INDEX, write_offset_index(0, [entry]))
    _, partition = again(disk)
    assert active(partition).is_read
    assert log_bytes(before) == log_bytes(partition)


def test_an_entry_with_the_offset_of_another_batch_is_not_trusted() -> None:
    disk, before = stopped()
    positions = before.log.segments[0].positions
    put_before_the_mark(disk, INDEX, write_offset_index(0, [(6, positions[7])]))
    assert active(again(disk)[1]).is_read
    disk, before = stopped()
    put_before_the_mark(disk, INDEX, write_offset_index(0, [(7, positions[7])]))
    assert not active(again(disk)[1]).is_read


@pytest.mark.parametrize("name", [INDEX, TIME_INDEX])
@pytest.mark.parametrize("data", [b"odd", b"\xa5" * 25])
def test_an_index_that_cannot_be_read_is_not_trusted(name: str, data: bytes) -> None:
    disk, before = stopped()
    put_before_the_mark(disk, name, data)
    _, partition = again(disk)
    assert active(partition).is_read
    assert log_bytes(before) == log_bytes(partition)


def test_bytes_behind_the_last_batch_are_cut_off() -> None:
    disk, before = stopped()
    put_before_the_mark(disk, SEGMENT, disk.content(SEGMENT) + b"\xa5" * 300)
    store, partition = again(disk)
    assert [(FOLDER, BATCHES, 300)] == [(folder, end, size) for folder, end, size, _ in store.cut]
    assert log_bytes(before) == log_bytes(partition)


def test_a_batch_that_is_missing_in_the_middle_is_found_at_the_first_use() -> None:
    """As in Kafka the log ends where its index says, and the next batch follows there."""
    for use in ("read", "append"):
        disk, before = stopped()
        put_before_the_mark(disk, SEGMENT, without_batch(disk, before, 4))
        _, partition = again(disk)
        assert BATCHES == partition.log.end_offset
        assert not disk.warnings
        if use == "read":
            assert log_bytes(before)[:4] == log_bytes(partition)
            assert BATCHES == active(partition).next_offset
        append(partition, b"next")
        assert [SEGMENT] == [name for name, _ in disk.warnings]
        assert log_bytes(before)[:4] == log_bytes(partition)[:-1]
        assert BATCHES + 1 == partition.log.end_offset
        assert [b"next"] == values(partition.log.read(4, max_bytes=1000, until=1 << 60))
        _, recovered = again(disk.killed())
        assert log_bytes(partition) == log_bytes(recovered)


def test_a_snapshot_of_producers_that_is_missing_is_made_of_all_batches() -> None:
    disk, before = stopped()
    disk.remove(f"{FOLDER}/{BATCHES:020d}.snapshot")
    _, partition = again(disk)
    assert known(before) == known(partition)
    assert active(partition).is_read, "it is gone through once"


def test_the_epoch_of_the_last_batch_is_known_beside_an_empty_segment() -> None:
    """A process that ended between a new segment and its first batch, and before it wrote its leader epochs."""
    disk, _ = stopped()
    disk.remove(f"{FOLDER}/leader-epoch-checkpoint")
    disk.put(f"{FOLDER}/{BATCHES:020d}.log", b"")
    log = FileStore(disk, node_id=1, now=lambda: NOW, unique=lambda: "0" * 32).find(TOPIC_ID, 0)
    assert log is not None
    assert 0 == log.epochs.latest


def test_an_append_after_segment_ms_begins_a_new_segment() -> None:
    disk, _ = stopped()
    _, partition = again(disk)
    late = batch(b"late", timestamp=NOW + CONFIG.segment_ms + 1)
    assert isinstance(partition.append_client(late, now=NOW + CONFIG.segment_ms + 1), Appended)
    assert [0, BATCHES] == [segment.base_offset for segment in partition.log.segments]


def test_the_times_of_files_tell_what_has_changed(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path, make_logger(level="error"))
    for number, name in enumerate(("a", "mark", "b")):
        disk.write(name, b"")
        os.utime(tmp_path / name, ns=(0, 1000 + number))
    assert disk.are_unchanged("a", since="mark")
    assert disk.are_unchanged("mark", since="mark")
    assert not disk.are_unchanged("a", "b", since="mark")
    assert not disk.are_unchanged("b", "a", since="mark")
    assert not disk.are_unchanged("a", "none", since="mark")
    assert not disk.are_unchanged("a", since="none")
    with pytest.raises(DiskError):
        disk.are_unchanged("a" * 300, since="mark")


def test_a_clean_stop_on_a_disk_of_the_machine_leaves_files_that_are_trusted(tmp_path: Path) -> None:
    def opened() -> FileStore:
        disk = LocalDisk(tmp_path, make_logger(level="error"))
        store = FileStore(disk, node_id=1, now=lambda: NOW, unique=lambda: "0" * 32)
        store.begin()
        return store

    store = opened()
    partition = lead(store, 0, CONFIG)
    for _ in range(BATCHES):
        append(partition, b"v" * 100)
    store.close(broker_epoch=0)
    for _ in range(2):
        store = opened()
        log = store.find(TOPIC_ID, 0)
        assert isinstance(log, FileLog)
        segment = log.segments[-1]
        assert isinstance(segment, ActiveFile)
        assert not segment.is_read
        store.close(broker_epoch=0)
    assert log_bytes(partition) == log_bytes(lead(opened(), 1, CONFIG))


@pytest.mark.parametrize("at", [0, BATCHES // 2, BATCHES - 1])
def test_a_batch_whose_magic_says_an_older_format_is_one_until_checksums_are_compared(at: int) -> None:
    disk, before = stopped()
    data = bytearray(disk.content(SEGMENT))
    data[16 + before.log.segments[0].positions[at]] = 1
    put_before_the_mark(disk, SEGMENT, bytes(data))
    _, partition = again(disk)
    assert BATCHES == partition.log.end_offset
    batches = [*partition.log.batches()]
    assert [*range(BATCHES)] == [batch.last_offset for batch in batches]
    with pytest.raises(InvalidBatch):
        list(iterate_records(batches[at]))
    # After a kill it is cut off.
    append(partition, b"next")
    _, partition = again(disk.killed())
    assert at == partition.log.end_offset
