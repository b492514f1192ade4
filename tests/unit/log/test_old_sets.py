"""Logs with messages of magic 0 and 1, which an older broker has left: they are read, and stay as they are."""

from __future__ import annotations

from zlib import crc32

import pytest
from tests.unit.log.helpers import NOW, TOPIC_ID, new_store
from tests.unit.log.test_file_log import append, lead, open_store

from odradek.config.table import TopicConfig
from odradek.core.machine import Refused
from odradek.log.compaction import Compaction, cleanable_until
from odradek.log.file_store import FileStore
from odradek.log.files.marks import write_partition_metadata
from odradek.log.files.names import CLEAN_STOP, PARTITION_METADATA
from odradek.log.partition import Partition
from odradek.records.batch import InvalidBatch
from odradek.records.compression import Compression
from odradek.records.legacy import batches_of_log, down_convert
from odradek.records.message_set import message_set
from odradek.records.record import Record, build_batch, iterate_records
from odradek.sim.world.disk import SimDisk

FOLDER = "topic-0"
CONFIG = TopicConfig(segment_bytes=10_000, index_interval_bytes=100)
COMPACTED = TopicConfig(segment_bytes=10_000, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)
GZIP = Compression.GZIP


def some(*offsets: int, key: bytes = b"k", time: int = NOW) -> list[Record]:
    return [Record(offset, time + offset, key, b"v%d" % offset) for offset in offsets]


PLAIN = message_set(some(0, 1, 4), magic=0)
PACKED = message_set(some(5, 7, 9), magic=0, compression=GZIP)
TIMED = message_set(some(10, 12), magic=1, compression=GZIP) + message_set(some(13), magic=1)
SEGMENTS = {0: PLAIN + PACKED, 10: TIMED}
END = 14


def planted(segments: dict[int, bytes] = SEGMENTS, *, clean: bool = False) -> SimDisk:
    """The directory of a broker that has such a log, and was killed."""
    disk = SimDisk()
    store = open_store(disk)
    store.close(broker_epoch=0)
    if not clean:
        disk.remove(CLEAN_STOP)
    disk.make_folder(FOLDER)
    disk.put(f"{FOLDER}/{PARTITION_METADATA}", write_partition_metadata(TOPIC_ID))
    for base, content in segments.items():
        disk.put(f"{FOLDER}/{base:020d}.log", content)
    return disk


def opened(disk: SimDisk, *, epoch: int = 3, config: TopicConfig = CONFIG) -> tuple[FileStore, Partition]:
    store = open_store(disk)
    return store, lead(store, epoch, config)


def read(partition: Partition, offset: int) -> bytes:
    found = partition.read(offset, max_bytes=10_000)
    assert not isinstance(found, Refused)
    return bytes(found.records)


def offsets(partition: Partition) -> list[int]:
    return [record.offset for batch in partition.log.batches() for record in iterate_records(batch)]


@pytest.mark.parametrize("clean", [False, True])
def test_messages_are_read_as_they_are(clean: bool) -> None:
    _, partition = opened(planted(clean=clean))
    assert (0, END) == (partition.log.start_offset, partition.log.end_offset)
    one = len(message_set(some(0), magic=0))
    for offset in range(END):
        at = {0: 0, 1: one, 2: 2 * one, 3: 2 * one, 4: 2 * one}.get(offset, len(PLAIN))
        tail = len(message_set(some(13), magic=1))
        expected = SEGMENTS[0][at:] if offset < 10 else TIMED if offset < 13 else TIMED[-tail:]
        assert expected == read(partition, offset), offset
    assert [0, 1, 4, 5, 7, 9, 10, 12, 13] == offsets(partition)
    assert not partition.producers.producers


def test_batches_follow_and_a_start_finds_all_of_them() -> None:
    disk = planted()
    for turn, clean in enumerate((True, False, True)):
        store, partition = opened(disk, epoch=3 + turn)
        assert END + turn == partition.log.end_offset
        append(partition, b"new", producer_id=7, sequence=turn)
        assert turn == partition.producers.producers[7].last_sequence
        if clean:
            store.close(broker_epoch=0)
        disk = disk.killed()
    assert not disk.warnings
    _, partition = opened(disk, epoch=9)
    assert SEGMENTS[0] == read(partition, 0)
    assert read(partition, 10).startswith(TIMED)
    assert [*range(END, END + 3)] == offsets(partition)[-3:]


@pytest.mark.parametrize(("offset", "end"), [(14, 14), (13, 13), (11, 10), (7, 5), (5, 5), (3, 3), (1, 1), (0, 0)])
def test_a_log_is_cut_before_the_message_with_an_offset(offset: int, end: int) -> None:
    _, partition = opened(planted())
    partition.log.truncate(offset)
    kept = [each for each in (0, 1, 4, 5, 7, 9, 10, 12, 13) if each < end]
    assert kept == offsets(partition)
    assert end == partition.log.end_offset
    append(partition, b"new")
    assert len(kept) + 1 == len(offsets(partition))


@pytest.mark.parametrize(
    "last",
    [message_set(some(14, 15), magic=1, compression=GZIP), message_set(some(14), magic=0)],
    ids=["compressed", "plain"],
)
def test_a_message_that_was_not_written_wholly_is_cut_off_after_a_kill(last: bytes) -> None:
    for cut in range(1, len(last)):
        disk = planted({0: SEGMENTS[0], 10: TIMED + last[:cut]})
        _, partition = opened(disk)
        assert (END, TIMED) == (partition.log.end_offset, read(partition, 10))
        append(partition, b"new")
        assert END == offsets(partition)[-1]


def test_a_wrong_checksum_is_found_after_a_kill_and_told_to_clients_after_a_clean_stop() -> None:
    bad = bytearray(TIMED)
    bad[-1] ^= 1
    _, partition = opened(planted({0: SEGMENTS[0], 10: bytes(bad)}))
    assert 13 == partition.log.end_offset
    _, partition = opened(planted({0: SEGMENTS[0], 10: bytes(bad)}, clean=True))
    assert END == partition.log.end_offset
    assert bytes(bad) == read(partition, 10)
    *_, last = batches_of_log(memoryview(read(partition, 13)))
    assert not last.crc_is_valid()


def test_a_search_by_time_finds_records_of_magic_1_alone() -> None:
    _, partition = opened(planted({0: TIMED, 14: message_set(some(14), magic=0)}))
    found = partition.list_offset(NOW)
    assert (10, NOW + 10, -1) == (found.offset, found.timestamp, found.leader_epoch)
    found = partition.list_offset(NOW + 11)
    assert (12, NOW + 12, -1) == (found.offset, found.timestamp, found.leader_epoch)
    newest = partition.list_offset(-3)
    assert (13, NOW + 13) == (newest.offset, newest.timestamp)
    _, partition = opened(planted({0: PLAIN + PACKED}))
    assert -1 == partition.list_offset(NOW).offset
    assert -1 == partition.list_offset(-3).offset


def test_compaction_writes_batches_and_keeps_what_it_cannot_read() -> None:
    broken = bytearray(message_set([Record(11, NOW, None, b"no gzip")], magic=1))
    broken[17] = GZIP  # the codec lies
    broken[12:16] = crc32(memoryview(broken)[16:]).to_bytes(4)
    first = message_set(some(0, 1, 2, key=b"a"), magic=0, compression=GZIP) + message_set(some(5, 7, key=b"b"), magic=1)
    _, partition = opened(
        planted({0: first, 10: message_set(some(10, key=b"a"), magic=0) + broken, 12: message_set(some(12), magic=1)}),
        config=COMPACTED,
    )
    log = partition.log
    until = cleanable_until(log, NOW, last_stable_offset=log.end_offset)
    assert Compaction(log, NOW, until=until).step(1 << 30)
    left = [*log.batches()]
    assert [(2, 7, 7, -1), (2, 10, 10, -1), (1, 11, 11, -1), (1, 12, 12, -1)] == [
        (batch.magic, batch.base_offset, batch.last_offset, batch.partition_leader_epoch) for batch in left
    ]
    assert all(batch.crc_is_valid() for batch in left)
    assert bytes(broken) == bytes(left[2].view)
    with pytest.raises(InvalidBatch):
        list(iterate_records(left[2]))


def test_a_fork_in_memory_has_them() -> None:
    _, partition = opened(planted())
    copy = partition.log.fork(new_store())
    assert [bytes(one.view) for one in partition.log.batches()] == [bytes(one.view) for one in copy.batches()]


@pytest.mark.parametrize(
    ("magic", "expected"),
    [(0, [(0, None)] * 3), (1, [(0, None), (1, NOW + 1), (1, NOW + 2)])],
)
def test_messages_no_newer_than_a_fetch_wants_are_answered_as_they_are(
    magic: int, expected: list[tuple[int, int | None]]
) -> None:
    parts = [
        message_set(some(0), magic=0),
        message_set(some(1), magic=1, compression=GZIP),
        build_batch(some(2), base_offset=2),
    ]
    out = memoryview(down_convert(memoryview(b"".join(parts)), magic))
    found = [*batches_of_log(out)]
    assert [0, 1, 2] == [batch.last_offset for batch in found]
    assert expected == [(batch.magic, batch.max_timestamp if batch.magic else None) for batch in found]
    assert parts[0] == found[0].view
    assert (parts[1] == found[1].view) is (magic == 1)
