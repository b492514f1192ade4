"""Compaction keeps the newest record of each key, and never more or less of what a reader may rely on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.counted import lines_of
from tests.examples import examples
from tests.unit.log.helpers import NOW, Leader, Pair, batch, kinds, new_log, new_partition, offsets_and_keys

from odradek.log.compaction import Compaction, cleanable_until, is_due
from odradek.log.log import Log
from odradek.log.partition import Appended, Duplicate, Partition, ReadResult
from odradek.records.batch import HEADER_BYTES, Batch, TimestampType, batches
from odradek.records.compression import Compression
from odradek.records.record import Record, iterate_records
from odradek.wire.errors import ErrorCode

DELETE_RETENTION_MS = 1000
A, B, C = b"a", b"b", b"c"


def compacted_log(**config: Any) -> Log:
    """A log in which every batch is a segment."""
    settings: dict[str, Any] = {"delete_retention_ms": DELETE_RETENTION_MS, "segment_bytes": 1, **config}
    return new_log(cleanup_policy=("compact",), **settings)


def write(log: Log, *groups: Sequence[Pair], timestamp: int = NOW) -> None:
    for group in groups:
        log.append(batch(*group, timestamp=timestamp), leader_epoch=0, now=timestamp)


def compact(log: Log, *, now: int = NOW, until: int | None = None, keys_max: int = 1000) -> None:
    if until is None:
        until = cleanable_until(log, now, last_stable_offset=log.end_offset)
    assert Compaction(log, now, until=until, keys_max=keys_max).step(1 << 30)


def test_the_newest_record_of_each_key_stays_at_its_offset() -> None:
    log = compacted_log()
    write(log, [(A, b"1"), (B, b"1")], [(A, b"2")], [(C, b"1"), (A, b"3")], [(B, b"9")])
    compact(log)
    # The active segment was not looked at, so its key does not count yet.
    assert [(1, B, b"1"), (3, C, b"1"), (4, A, b"3"), (5, B, b"9")] == offsets_and_keys(log)
    assert 5 == log.first_dirty_offset


def test_a_thinned_batch_keeps_its_offsets_producer_and_times() -> None:
    log = compacted_log()
    first = batch(
        Record(timestamp=NOW + 5, key=A, value=b"1"),
        Record(timestamp=NOW + 1, key=B, value=b"1", headers=(("h", b"x"),)),
        Record(timestamp=NOW + 9, key=A, value=b"2"),
        producer_id=4,
        epoch=2,
        sequence=10,
        compression=Compression.GZIP,
    )
    log.append(first, leader_epoch=6, now=NOW)
    write(log, [(A, b"3")], [(C, b"")])
    compact(log)
    thinned = next(log.batches())
    assert (0, 2, 6, 4, 2, 10, 1) == (
        thinned.base_offset,
        thinned.last_offset,
        thinned.partition_leader_epoch,
        thinned.producer_id,
        thinned.producer_epoch,
        thinned.base_sequence,
        thinned.record_count,
    )
    assert (Compression.GZIP, NOW + 1, NOW + 1) == (thinned.compression, thinned.base_timestamp, thinned.max_timestamp)
    assert thinned.crc_is_valid()
    assert (1, B, b"1") == offsets_and_keys(log)[0]


def test_records_without_a_key_go() -> None:
    log = compacted_log()
    write(log, [(None, b"1"), (A, b"1")], [(None, b"2")], [(C, b"")])
    compact(log)
    assert [1, 3] == [offset for offset, _, _ in offsets_and_keys(log)]


def test_readers_find_the_next_record_behind_a_gap() -> None:
    log = compacted_log()
    write(log, [(A, b"1")], [(A, b"2")], [(B, b"1")], [(C, b"")])
    compact(log)
    for offset, expected in ((0, 1), (1, 1), (2, 2), (3, 3)):
        view = log.read(offset, max_bytes=1 << 20, until=log.end_offset, min_one=True)
        assert expected == next(batches(view)).base_offset


def test_small_segments_become_one() -> None:
    log = compacted_log()
    write(log, *[[(b"%d" % number, b"v")] for number in range(10)])
    log.configure(type(log.config)(cleanup_policy=("compact",), segment_bytes=1 << 20))
    compact(log)
    assert 2 == len(log.segments)
    assert 10 == len(offsets_and_keys(log))
    assert log.size_bytes == log.store.bytes_held == sum(segment.size for segment in log.segments)


def test_a_thinned_segment_still_ends_where_it_ended() -> None:
    log = compacted_log()
    write(log, [(A, b"1")], [(None, b"")], [(C, b"")])
    log.configure(type(log.config)(cleanup_policy=("compact",), segment_bytes=1 << 20))
    compact(log)
    assert [0, 2] == [one.base_offset for one in log.batches()]
    assert 2 == cleanable_until(log, NOW, last_stable_offset=3)


def test_log_append_time_stays() -> None:
    log = compacted_log(message_timestamp_type="LogAppendTime")
    partition = new_partition(log)
    for records in ([(A, b"1"), (B, b"1")], [(A, b"2")], [(C, b"")]):
        partition.append_client(batch(*records, timestamp=5), now=NOW)
    compact(log)
    thinned = next(log.batches())
    assert (1, NOW, TimestampType.LOG_APPEND_TIME) == (
        thinned.record_count,
        thinned.max_timestamp,
        thinned.timestamp_type,
    )
    assert [NOW] == [record.timestamp for record in iterate_records(thinned)]


def test_segments_in_which_nothing_changed_are_left_alone() -> None:
    log = compacted_log()
    write(log, [(A, b"1")], [(B, b"1")], [(C, b"")])
    before = list(log.segments)
    compact(log)
    assert before == log.segments


def test_a_second_pass_thins_what_the_first_has_kept() -> None:
    log = compacted_log()
    write(log, [(A, b"1")], [(B, b"1")], [(C, b"1")])
    compact(log)
    write(log, [(A, b"2")], [(C, b"2")], [(B, b"")])
    compact(log)
    assert [(1, B), (3, A), (4, C), (5, B)] == [(offset, key) for offset, key, _ in offsets_and_keys(log)]


def test_more_keys_than_fit_take_several_passes() -> None:
    log = compacted_log()
    for value in (b"1", b"2"):
        write(log, *[[(b"%d" % number, value)] for number in range(4)])
    write(log, [(C, b"")])
    compact(log, keys_max=3)
    assert (3, 9) == (log.first_dirty_offset, len(offsets_and_keys(log)))
    for _ in range(2):
        compact(log, keys_max=3)
    assert [4, 5, 6, 7, 8] == [offset for offset, _, _ in offsets_and_keys(log)]


def test_a_pass_may_be_done_in_steps_while_the_log_changes() -> None:
    log = compacted_log()
    write(log, [(A, b"1")], [(A, b"2")], [(B, b"1")], [(B, b"2")], [(C, b"")])
    compaction = Compaction(log, NOW, until=4)
    steps = 0
    while not compaction.step(1):
        steps += 1
        if steps == 5:
            write(log, [(A, b"9")])
            log.advance_start(2)
    assert steps == 8
    # A segment went between two steps; the rest was compacted, what was appended stayed.
    assert [(3, B), (4, C), (5, A)] == [(offset, key) for offset, key, _ in offsets_and_keys(log)]


def test_what_was_not_looked_at_stays_as_it_is() -> None:
    log = compacted_log(segment_bytes=1 << 20)
    write(log, [(A, b"1")], [(A, b"2")], [(B, None), (None, b"")])
    log.seal()
    compact(log, until=2)
    first, second = log.batches()
    assert (1, 2, None) == (first.base_offset, second.record_count, second.delete_horizon_ms)


def test_tombstones_stay_for_a_while() -> None:
    log = compacted_log()
    write(log, [(A, b"1"), (B, b"1")], [(A, None)], [(C, b"")])
    compact(log)
    assert [(1, B, b"1"), (2, A, None), (3, C, b"")] == offsets_and_keys(log)
    horizon = [one.delete_horizon_ms for one in log.batches()]
    assert [None, NOW + DELETE_RETENTION_MS, None] == horizon
    write(log, [(C, b"2")])
    compact(log, now=NOW + DELETE_RETENTION_MS - 1)
    assert (2, A, None) in offsets_and_keys(log)
    write(log, [(C, b"3")])
    compact(log, now=NOW + DELETE_RETENTION_MS)
    assert [1, 4, 5] == [offset for offset, _, _ in offsets_and_keys(log)]


def test_timestamps_are_read_the_same_with_a_delete_horizon() -> None:
    log = compacted_log()
    write(log, [(A, None)], [(C, b"")], timestamp=NOW - 77)
    compact(log)
    partition = new_partition(log)
    assert (0, NOW - 77) == (partition.list_offset(NOW - 77).offset, partition.list_offset(NOW - 77).timestamp)


def test_what_cannot_be_read_stays() -> None:
    log = compacted_log()
    broken = batch((A, b"1"), (A, b"2"))
    damaged = bytearray(broken.view)
    damaged[61] = 0x7F
    broken.view = memoryview(bytes(damaged))
    log.append(broken, leader_epoch=0, now=NOW)
    write(log, [(A, b"3")], [(C, b"")])
    compact(log)
    assert [0, 2, 3] == [one.base_offset for one in log.batches()]


# -- how far, and when


def test_not_the_segment_in_which_a_transaction_is_open() -> None:
    log = compacted_log(segment_bytes=200)
    write(log, [(A, b"1")], [(A, b"2")], [(A, b"3")], [(A, b"4")], [(A, b"5")])
    assert [0, 2, 4] == [segment.base_offset for segment in log.segments]
    assert 2 == cleanable_until(log, NOW, last_stable_offset=3)


def test_only_sealed_segments_below_the_last_stable_offset() -> None:
    log = compacted_log()
    write(log, [(A, b"1")], [(A, b"2")], [(A, b"3")])
    assert 2 == cleanable_until(log, NOW, last_stable_offset=3)
    assert 1 == cleanable_until(log, NOW, last_stable_offset=1)
    assert 0 == cleanable_until(compacted_log(), NOW, last_stable_offset=0)


def test_young_segments_are_left_alone() -> None:
    log = compacted_log(min_compaction_lag_ms=100)
    for age in (300, 100, 99, 0):
        write(log, [(A, b"%d" % age)], timestamp=NOW - age)
    assert 2 == cleanable_until(log, NOW, last_stable_offset=4)


@pytest.mark.parametrize(("ratio", "due"), [(0.0, True), (0.49, True), (0.5, False), (1.0, False)])
def test_due_by_the_share_that_is_dirty(ratio: float, due: bool) -> None:
    log = compacted_log(min_cleanable_dirty_ratio=ratio)
    write(log, [(A, b"1")], [(B, b"1")], [(C, b"1")])
    compact(log, until=1)
    assert due is is_due(log, NOW, until=2)


def test_due_when_dirty_for_too_long() -> None:
    log = compacted_log(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=100)
    write(log, [(A, b"1")], [(B, b"1")], timestamp=NOW - 100)
    assert not is_due(log, NOW, until=1)
    assert is_due(log, NOW + 1, until=1)


def test_not_due_when_nothing_is_dirty() -> None:
    log = compacted_log(min_cleanable_dirty_ratio=0.0)
    write(log, [(A, b"1")], [(B, b"1")])
    compact(log)
    assert not is_due(log, NOW, until=1)
    assert not is_due(compacted_log(), NOW, until=0)


# -- transactions


class Writer(Leader):
    """Writes keyed transactional batches, each in a segment of its own, to a compacted partition."""

    def __init__(self) -> None:
        super().__init__(new_partition(compacted_log()), verification=False)
        self.sequences: dict[int, int] = {}

    def put(self, key: bytes, value: bytes | None, *, producer_id: int = 7, transactional: bool = True) -> None:
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + 1
        one = batch((key, value), producer_id=producer_id, epoch=0, sequence=sequence, transactional=transactional)
        self.partition.append_client(one, now=self.now, verification_enabled=False)

    def compact(self, *, after: int = 0) -> None:
        log = self.partition.log
        until = cleanable_until(log, NOW + after, last_stable_offset=self.partition.last_stable_offset)
        assert Compaction(log, NOW + after, until=until).step(1 << 30)


def test_aborted_records_go_and_hide_nothing() -> None:
    writer = Writer()
    writer.put(A, b"good", producer_id=8)
    writer.marker(0, 0, producer_id=8)
    writer.put(A, b"bad")
    writer.marker(0, 0, commit=False)
    writer.put(C, b"")
    writer.compact()
    assert [(0, A, b"good"), (4, C, b"")] == offsets_and_keys(writer.partition.log)
    assert [(7, 2)] == writer.aborted(2)


def test_open_transactions_are_not_touched() -> None:
    writer = Writer()
    writer.put(A, b"1", transactional=False, producer_id=9)
    writer.put(A, b"2", transactional=False, producer_id=9)
    writer.put(A, b"open")
    writer.put(A, b"3", transactional=False, producer_id=9)
    writer.put(C, b"")
    writer.compact()
    assert [1, 2, 3, 4] == [offset for offset, _, _ in offsets_and_keys(writer.partition.log)]


def test_a_marker_stays_until_its_records_and_the_retention_of_deletes_are_gone() -> None:
    writer = Writer()
    log = writer.partition.log
    writer.put(A, b"bad")
    writer.marker(2, 1, commit=False)
    writer.put(B, b"1", transactional=False, producer_id=9)
    writer.put(C, b"1", transactional=False, producer_id=9)
    writer.compact()
    # The records went in this pass, so the next one begins to count.
    assert ([1, 2, 3], None) == ([one.base_offset for one in log.batches()], next(log.batches()).delete_horizon_ms)
    assert [(7, 0)] == writer.aborted()
    writer.compact()
    assert NOW + DELETE_RETENTION_MS == next(log.batches()).delete_horizon_ms
    # Whoever was told of the aborted transaction still finds its marker.
    assert [] == writer.aborted()
    writer.compact(after=DELETE_RETENTION_MS - 1)
    assert (1, "ABORT", 1) == kinds(log)[0]
    writer.partition.forget_producers(NOW + 1, after_ms=1)
    writer.compact(after=DELETE_RETENTION_MS)
    assert [2, 3] == [one.base_offset for one in log.batches()]


def test_a_commit_marker_stays_as_long_as_its_records() -> None:
    writer = Writer()
    writer.put(A, b"1")
    writer.marker(0, 0)
    writer.put(C, b"")
    writer.put(C, b"")
    for _ in range(3):
        writer.compact(after=10 * DELETE_RETENTION_MS)
    assert [(0, "data", 0), (1, "COMMIT", 0)] == kinds(writer.partition.log)[:2]


def test_a_marker_that_ended_nothing_has_no_records_to_wait_for() -> None:
    writer = Writer()
    writer.put(A, b"1")
    writer.marker(0, 0)
    writer.marker(0, 0)
    writer.put(C, b"")
    writer.compact()
    assert [None, None, NOW + DELETE_RETENTION_MS, None] == [
        one.delete_horizon_ms for one in writer.partition.log.batches()
    ]


def test_producers_survive_that_their_batches_go() -> None:
    writer = Writer()
    writer.put(A, b"1", transactional=False)
    writer.put(A, b"2", transactional=False)
    writer.put(B, b"1", transactional=False, producer_id=9)
    before = writer.partition.describe_producers()
    writer.compact()
    again = new_partition(writer.partition.log, leader_epoch=1)
    assert before == again.describe_producers()
    assert [1, 2] == [offset for offset, _, _ in offsets_and_keys(again.log)]


# -- batches without records


def header(one: Batch) -> dict[str, object]:
    """What a batch without records says."""
    names = (
        "base_offset last_offset size record_count attributes producer_id producer_epoch base_sequence "
        "partition_leader_epoch base_timestamp max_timestamp"
    )
    return {name: getattr(one, name) for name in names.split()} | {"checksum": one.crc_is_valid()}


def test_the_last_batch_of_a_producer_stays_without_records() -> None:
    log = compacted_log()
    partition = new_partition(log, leader_epoch=3)
    of_producer = batch(
        Record(timestamp=NOW + 7, key=A, value=b"1"),
        Record(timestamp=NOW + 2, key=B, value=b"1"),
        producer_id=7,
        epoch=2,
        sequence=0,
        compression=Compression.GZIP,
    )
    partition.append_client(of_producer, now=NOW)
    write(log, [(A, b"2"), (B, b"2")], [(C, b"")])
    compact(log)
    emptied = next(log.batches())
    assert {
        "base_offset": 0,
        "last_offset": 1,
        "size": HEADER_BYTES,
        "record_count": 0,
        "attributes": 0,
        "producer_id": 7,
        "producer_epoch": 2,
        "base_sequence": 0,
        "partition_leader_epoch": 3,
        "base_timestamp": -1,
        "max_timestamp": NOW + 7,
        "checksum": True,
    } == header(emptied)
    assert log.size_bytes == log.store.bytes_held == sum(segment.size for segment in log.segments)
    # Its producer goes on, and a later leader knows it without the snapshots, too.
    log.snapshots.clear()
    again = new_partition(log, leader_epoch=4)
    assert partition.describe_producers() == again.describe_producers()
    assert isinstance(again.append_client(of_producer, now=NOW), Duplicate)
    next_one = batch((C, b"2"), producer_id=7, epoch=2, sequence=2)
    assert isinstance(again.append_client(next_one, now=NOW), Appended)
    # Now another batch tells the last sequence.
    write(log, [(C, b"")])
    compact(log)
    assert 2 == next(log.batches()).base_offset


def test_a_reader_passes_a_batch_without_records() -> None:
    log = compacted_log()
    partition = new_partition(log)
    partition.append_client(batch((A, b"1"), (A, b"2"), producer_id=7, epoch=0, sequence=0), now=NOW)
    write(log, [(A, b"3")], [(C, b"")])
    compact(log)
    for offset, committed in ((0, False), (1, False), (1, True)):
        result = partition.read(offset, max_bytes=1, read_committed=committed)
        assert isinstance(result, ReadResult)
        assert [(0, 1, 0)] == [(one.base_offset, one.last_offset, one.record_count) for one in batches(result.records)]
    assert (2, NOW) == (partition.list_offset(NOW).offset, partition.list_offset(NOW).timestamp)


def test_an_aborted_batch_that_stays_keeps_its_marker_and_its_place_in_the_index() -> None:
    writer = Writer()
    log = writer.partition.log
    writer.put(A, b"bad")
    writer.marker(0, 0, commit=False)
    writer.put(C, b"1", transactional=False, producer_id=9)
    for _ in range(3):
        writer.compact(after=10 * DELETE_RETENTION_MS)
        log.first_dirty_offset = 0
    assert [(0, 0), (1, 1), (2, 1)] == [(one.base_offset, one.record_count) for one in log.batches()]
    assert [(7, 0)] == writer.aborted()
    # Another leader reads the transaction as ended, and aborted.
    again = new_partition(log, leader_epoch=1)
    assert again.last_stable_offset == again.high_watermark == 3


def test_the_last_marker_of_a_producer_stays_without_its_record() -> None:
    writer = Writer()
    log = writer.partition.log
    writer.put(A, b"bad")
    writer.marker(2, 1, commit=False)
    writer.put(C, b"1", transactional=False, producer_id=9)
    for after in (0, 0, DELETE_RETENTION_MS, 3 * DELETE_RETENTION_MS):
        writer.compact(after=after)
    emptied = next(log.batches())
    assert (1, 0, True, True) == (
        emptied.base_offset,
        emptied.record_count,
        emptied.is_control,
        emptied.is_transactional,
    )
    assert (None, NOW, True) == (emptied.delete_horizon_ms, emptied.max_timestamp, emptied.crc_is_valid())
    before = writer.partition.describe_producers()
    assert before == new_partition(log, leader_epoch=1).describe_producers()


def test_a_marker_without_its_record_goes_when_its_producer_is_forgotten() -> None:
    writer = Writer()
    writer.put(A, b"bad")
    writer.marker(2, 1, commit=False)
    writer.put(C, b"1", transactional=False, producer_id=9)
    for _ in range(3):
        writer.compact(after=DELETE_RETENTION_MS)
    writer.compact(after=2 * DELETE_RETENTION_MS)
    assert [1, 2] == [one.base_offset for one in writer.partition.log.batches()]
    writer.partition.forget_producers(NOW + 1, after_ms=1)
    writer.compact(after=2 * DELETE_RETENTION_MS)
    assert [2] == [one.base_offset for one in writer.partition.log.batches()]


def test_the_last_batch_of_the_log_stays() -> None:
    log = compacted_log()
    write(log, [(A, b"1")], [(None, b"2")], [(C, b"")])
    log.truncate(2)  # what was active is gone, and nothing has been written since
    compact(log)
    assert [(0, 1), (1, 0)] == [(one.base_offset, one.record_count) for one in log.batches()]
    write(log, [(C, b"")])
    log.first_dirty_offset = 0
    compact(log)
    assert [0, 2] == [one.base_offset for one in log.batches()]


# -- a log and what a reader makes of it


def latest(log: Log) -> dict[bytes | None, bytes]:
    found: dict[bytes | None, bytes] = {}
    for _, key, value in offsets_and_keys(log):
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found


pairs = st.tuples(st.sampled_from([A, B, C, b"d"]), st.one_of(st.none(), st.binary(max_size=3)))
rounds = st.lists(
    st.tuples(st.lists(st.lists(pairs, min_size=1, max_size=4), max_size=6), st.integers(1, 400)), max_size=6
)


@examples(150)
@given(rounds=rounds, segment_bytes=st.sampled_from([1, 200, 500]), keys_max=st.sampled_from([1, 2, 1000]))
def test_a_reader_sees_the_same_table(
    rounds: list[tuple[list[list[Pair]], int]], segment_bytes: int, keys_max: int
) -> None:
    log = compacted_log(segment_bytes=segment_bytes)
    everything: dict[int, tuple[int, bytes | None, bytes | None]] = {}
    now = NOW
    for groups, delay in rounds:
        write(log, *groups, timestamp=now)
        everything |= {record[0]: record for record in offsets_and_keys(log)}
        table = latest(log)
        now += delay
        compact(log, now=now, keys_max=keys_max)
        kept = offsets_and_keys(log)
        assert table == latest(log)
        assert all(everything[record[0]] == record for record in kept)
        assert sorted({record[0] for record in kept}) == [record[0] for record in kept]
        assert log.size_bytes == log.store.bytes_held == sum(segment.size for segment in log.segments)
        for one in log.batches():
            assert one.crc_is_valid()
        seen = [key for offset, key, _ in kept if offset < log.first_dirty_offset]
        if keys_max == 1000:
            assert len(seen) == len(set(seen))


def test_a_partition_compacts_in_steps_when_it_is_due() -> None:
    partition: Partition = new_partition(compacted_log())
    for number in range(50):
        partition.append_client(batch((A, b"%d" % number)), now=NOW)
    assert partition.compact(NOW, 100)
    steps = 1
    while partition.compact(NOW, 100):
        steps += 1
    assert steps > 40
    assert [48, 49] == [offset for offset, _, _ in offsets_and_keys(partition.log)]
    assert not partition.compact(NOW)


def test_a_batch_is_not_compared_with_all_transactions_that_its_producer_has_aborted() -> None:
    assert lines_of_compacting(400) < 2.2 * lines_of_compacting(200)


def lines_of_compacting(transactions: int) -> int:
    """What it takes to compact so many transactions of one producer, half of them aborted."""
    leader = Leader(new_partition(cleanup_policy=("compact",), segment_bytes=1000))
    for number in range(transactions):
        leader.produce(0, number)
        assert ErrorCode.NONE is leader.marker(1, 0, commit=bool(number % 2))
    log = leader.partition.log
    until = cleanable_until(log, NOW, last_stable_offset=log.end_offset)
    return lines_of(lambda: Compaction(log, NOW, until=until).step(1 << 30))
