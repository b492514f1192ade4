"""A log against a plain list of records, and its single parts."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.examples import examples
from tests.unit.log.helpers import GIB, NOW, batch, new_log, new_store, values

from odradek.log.aborted import AbortedTransaction
from odradek.log.log import Log
from odradek.log.offsets import LATEST, MAX_TIMESTAMP, find_offset
from odradek.log.retention import retain
from odradek.records.batch import batches
from odradek.records.record import iterate_records

UNTIL_END = 1 << 60
SEGMENT_BYTES = 400


def append(log: Log, count: int = 1, *, timestamp: int = NOW, producer_id: int = -1, now: int = NOW) -> int:
    one = batch(*[b"v"] * count, timestamp=timestamp, producer_id=producer_id, epoch=0, sequence=0)
    return log.append(one, leader_epoch=0, now=now)


def read(log: Log, offset: int, *, max_bytes: int = 1 << 20, until: int = UNTIL_END) -> list[int]:
    """Base offsets of the batches read."""
    return [one.base_offset for one in batches(log.read(offset, max_bytes=max_bytes, until=until, min_one=True))]


def test_offsets_follow_each_other() -> None:
    log = new_log()
    assert [0, 3, 4] == [append(log, count) for count in (3, 1, 2)]
    assert 6 == log.end_offset


def test_a_read_is_one_slice_of_one_segment() -> None:
    log = new_log(segment_bytes=200)
    for _ in range(5):
        append(log)
    assert 3 == len(log.segments)
    assert [[0, 1], [1], [2, 3], [4], []] == [read(log, offset) for offset in (0, 1, 2, 4, 5)]


def test_a_batch_larger_than_a_segment_has_one_of_its_own() -> None:
    log = new_log(segment_bytes=200)
    append(log)
    append(log, 200)
    append(log)
    assert [0, 1, 201] == [segment.base_offset for segment in log.segments]
    assert [1] == read(log, 150)


def test_segments_roll_by_time() -> None:
    log = new_log(segment_ms=1000)
    for timestamp in (NOW, NOW + 1000, NOW + 1001):
        append(log, timestamp=timestamp)
    assert [0, 2] == [segment.base_offset for segment in log.segments]


def test_a_log_in_which_little_is_written_is_not_taken_for_a_busy_one() -> None:
    """Its next segment would have 2 MiB of memory with its first record, in a thousand partitions of a week 2 GiB."""
    log = new_log(segment_ms=1000, segment_bytes=4 << 20)
    append(log)
    append(log, timestamp=NOW + 1001)
    assert [False, False] == [segment.busy for segment in log.segments]
    log.append(batch(b"v" * (2 << 20), timestamp=NOW + 1002), leader_epoch=0, now=NOW)
    append(log, timestamp=NOW + 5000)
    assert [False, True, True] == [segment.busy for segment in log.segments]


def test_records_without_a_timestamp_never_roll_a_segment() -> None:
    log = new_log(segment_ms=1000)
    append(log, timestamp=-1)
    append(log, timestamp=-1, now=NOW + 5000)
    assert 1 == len(log.segments)


def test_without_a_timestamp_the_clock_of_a_segment_is_the_brokers() -> None:
    log = new_log(segment_ms=1000)
    append(log, timestamp=-1, now=NOW)
    append(log, timestamp=NOW + 1000)
    append(log, timestamp=NOW + 1001)
    assert [0, 2] == [segment.base_offset for segment in log.segments]


def test_a_compacted_log_rolls_after_the_longest_lag_allowed() -> None:
    log = new_log(cleanup_policy=("compact",), max_compaction_lag_ms=1000)
    append(log, timestamp=NOW)
    append(log, timestamp=NOW + 1001)
    assert 2 == len(log.segments)


def test_a_new_segment_size_holds_for_the_active_segment() -> None:
    log = new_log()
    append(log)
    log.configure(type(log.config)(segment_bytes=100))
    append(log)
    assert 2 == len(log.segments)


def test_append_leaves_the_view_alone() -> None:
    log = new_log()
    append(log)
    data = bytearray(batch(b"x").view)
    before = bytes(data)
    one = batch(b"x")
    log.append(one, leader_epoch=9, now=NOW)
    assert before == bytes(one.view)
    assert 0 == one.base_offset


def test_batches_include_what_is_appended_meanwhile() -> None:
    log = new_log(segment_bytes=200)
    append(log)
    seen = []
    for one in log.batches():
        seen.append(one.base_offset)
        if log.end_offset < 6:
            append(log)
    assert list(range(6)) == seen


def test_the_newest_batches_are_found_across_segments() -> None:
    log = new_log(segment_bytes=200)
    assert [] == list(log.newest_batches(3))
    for count in (1, 3, 1, 1, 2):
        append(log, count)
    assert len(log.segments) > 2

    def newest(count: int) -> list[int]:
        return [one.base_offset for one in log.newest_batches(count)]

    bases = [0, 1, 4, 5, 6]
    assert [bases[-count:] for count in range(1, 6)] == [newest(count) for count in range(1, 6)]
    assert bases == newest(100)
    log.advance_start(2)
    assert [bases[1:], bases[1:]] == [newest(5), newest(100)]


def test_batches_of_producers_skip_the_others() -> None:
    log = new_log(segment_bytes=100)
    for producer_id in (-1, 5, -1, 6):
        append(log, producer_id=producer_id)
    assert [(1, 5), (3, 6)] == [(one.base_offset, one.producer_id) for one in log.batches_of_producers(0)]
    assert [3] == [one.base_offset for one in log.batches_of_producers(2)]


def test_advancing_the_start_drops_whole_segments() -> None:
    store = new_store()
    log = new_log(store, segment_bytes=200)
    for _ in range(6):
        append(log)
    size = log.segments[0].size
    log.lead(5)
    log.aborted.append(AbortedTransaction(1, 0, 1, 2))
    log.advance_start(3)
    assert [2, 4] == [segment.base_offset for segment in log.segments]
    assert (3, 2 * size) == (log.start_offset, log.size_bytes)
    assert log.size_bytes == store.bytes_held
    assert [] == log.aborted.entries
    assert [(5, 6)] == log.epochs.entries()


def test_epochs_begin_where_the_log_begins() -> None:
    log = new_log()
    for epoch in (1, 2, 3):
        log.lead(epoch)
        append(log, 2)
    log.advance_start(3)
    assert [(2, 3), (3, 4)] == log.epochs.entries()


def test_advancing_the_start_to_the_end_empties_the_log_and_it_goes_on() -> None:
    log = new_log()
    append(log, 3)
    log.advance_start(3)
    assert (3, 3, 0, []) == (log.start_offset, log.end_offset, log.size_bytes, log.segments)
    assert 3 == append(log)
    assert [3] == read(log, 3)


def test_views_survive_that_their_segment_is_dropped() -> None:
    log = new_log()
    append(log)
    view = log.read(0, max_bytes=1 << 20, until=UNTIL_END)
    log.advance_start(1)
    append(log)
    assert [b"v"] == values(view)


@pytest.mark.parametrize(("offset", "end"), [(0, 0), (1, 0), (2, 2), (3, 2), (4, 4), (5, 5), (6, 5), (7, 7), (9, 7)])
def test_truncate_forgets_from_the_batch_that_holds_the_offset(offset: int, end: int) -> None:
    store = new_store()
    log = new_log(store, segment_bytes=250)
    for count in (2, 2, 1, 2):
        append(log, count)
    log.truncate(offset)
    assert end == log.end_offset
    assert log.size_bytes == store.bytes_held == sum(segment.size for segment in log.segments)
    assert end == append(log)
    assert [end] == read(log, end)


def test_truncate_leaves_no_segment_that_only_holds_records_before_the_start() -> None:
    store = new_store()
    log = new_log(store)
    append(log)
    append(log, 5)
    log.advance_start(3)
    log.truncate(4)
    assert (1, 1, []) == (log.start_offset, log.end_offset, log.segments)
    assert 0 == log.size_bytes == store.bytes_held
    assert 1 == append(log)
    assert [1] == read(log, 1)


def test_truncate_below_the_start_begins_the_log_there() -> None:
    log = new_log(segment_bytes=200)
    for _ in range(6):
        append(log)
    log.advance_start(3)
    log.truncate(1)
    assert (1, 1, 0, []) == (log.start_offset, log.end_offset, log.size_bytes, log.segments)
    assert 1 == append(log)
    assert [1] == read(log, 0)


def test_truncate_forgets_epochs_and_aborted_transactions_too() -> None:
    log = new_log()
    log.lead(1)
    append(log, 2)
    log.lead(2)
    append(log, 2)
    log.aborted.append(AbortedTransaction(1, 0, 1, 2))
    log.aborted.append(AbortedTransaction(1, 2, 3, 4))
    log.truncate(2)
    assert [(1, 0)] == log.epochs.entries()
    assert [1] == [entry.last_offset for entry in log.aborted.entries]


def test_replace_is_refused_when_a_segment_has_gone() -> None:
    log = new_log(segment_bytes=100)
    for _ in range(3):
        append(log)
    first, second, _ = log.segments
    log.advance_start(1)
    assert not log.replace([first, second], None)
    assert log.replace([second], None)
    assert [2] == read(log, 1)


def test_aborted_in_looks_up_to_the_next_index_entry() -> None:
    log = new_log(segment_bytes=100_000, index_interval_bytes=150)
    for _ in range(8):
        append(log)
    size = log.segments[0].end_of(0)
    for first in (0, 2, 7):
        log.aborted.append(AbortedTransaction(first, first, first, first + 1))
    assert [(0, 0), (2, 2)] == log.aborted_in(0, size)
    assert [(7, 7)] == log.aborted_in(6, size)
    assert [] == log.aborted_in(0, 0)


class LogAndList(RuleBasedStateMachine):
    """Whatever is done to a log, it holds what a list would hold."""

    def __init__(self) -> None:
        super().__init__()
        self.store = new_store()
        self.log = new_log(self.store, segment_bytes=SEGMENT_BYTES)
        self.records: list[tuple[int, int]] = []
        """Timestamp of each record at its offset, and the base offset of its batch; from offset 0 on."""
        self.start = 0
        self.clock = NOW
        self.views: list[tuple[memoryview, bytes]] = []

    @rule(count=st.integers(1, 6), jitter=st.integers(-50, 50), value=st.binary(max_size=60))
    def append(self, count: int, jitter: int, value: bytes) -> None:
        self.clock += 10
        one = batch(*[value] * count, timestamp=self.clock + jitter)
        base = self.log.append(one, leader_epoch=0, now=self.clock)
        assert len(self.records) == base
        self.records += [(self.clock + jitter, base)] * count

    @precondition(lambda self: self.records)
    @rule(data=st.data(), max_bytes=st.integers(0, 1000), min_one=st.booleans())
    def read(self, data: st.DataObject, max_bytes: int, min_one: bool) -> None:
        end = len(self.records)
        offset = data.draw(st.integers(self.start, end))
        bases = sorted({base for _, base in self.records} | {end})
        until = data.draw(st.sampled_from(bases))
        view = self.log.read(offset, max_bytes=max_bytes, until=until, min_one=min_one)
        self.views.append((view, bytes(view)))
        found = list(batches(view))
        whole = sum(len(one.view) for one in found)
        assert whole == len(view) or len(view) == max_bytes, "it ends within a batch only where it may be no longer"
        assert len(view) <= max_bytes or (min_one and len(found) == 1)
        expected = self.records[offset][1] if offset < end else end
        for one in found:
            assert expected == one.base_offset
            expected = one.next_offset
            assert expected <= until
        if min_one and offset < until:
            assert found

    @precondition(lambda self: self.records)
    @rule(back=st.integers(-100, 400))
    def find_timestamp(self, back: int) -> None:
        wanted = self.clock - back
        visible = range(self.start, len(self.records))
        expected = next((offset for offset in visible if self.records[offset][0] >= wanted), -1)
        answer = find_offset(self.log, wanted, visible_end=len(self.records), leader_epoch=0)
        assert expected == answer.offset
        assert expected == -1 or self.records[expected][0] == answer.timestamp

    @rule()
    def find_latest_and_greatest(self) -> None:
        end = len(self.records)
        assert end == find_offset(self.log, LATEST, visible_end=end, leader_epoch=0).offset
        answer = find_offset(self.log, MAX_TIMESTAMP, visible_end=end, leader_epoch=0)
        if self.start < end:
            first_held = self.log.segments[0].base_offset
            greatest = max(timestamp for timestamp, _ in self.records[first_held:])
            first = next(offset for offset in range(first_held, end) if self.records[offset][0] == greatest)
            assert (first, greatest) == (answer.offset, answer.timestamp)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, len(self.records)))
        self.log.advance_start(offset)
        self.start = offset

    @rule(size=st.integers(0, 2000))
    def retain_by_size(self, size: int) -> None:
        self.log.configure(type(self.log.config)(segment_bytes=SEGMENT_BYTES, retention_ms=-1, retention_bytes=size))
        before = self.log.size_bytes
        retain(self.log, self.clock)
        assert self.log.size_bytes >= min(size, before)
        assert not self.log.segments or self.log.size_bytes - self.log.segments[0].size < size or size == 0
        self.start = self.log.start_offset

    @rule(age=st.integers(0, 300))
    def retain_by_time(self, age: int) -> None:
        self.log.configure(type(self.log.config)(segment_bytes=SEGMENT_BYTES, retention_ms=age))
        retain(self.log, self.clock)
        for timestamp, _ in self.records[self.start : self.log.start_offset]:
            assert timestamp < self.clock - age
        if self.log.segments:
            assert self.log.segments[0].max_timestamp >= self.clock - age
        self.start = self.log.start_offset

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, len(self.records)))
        if offset < len(self.records):
            del self.records[self.records[offset][1] :]
        self.log.truncate(offset)
        self.start = min(self.start, len(self.records))

    @invariant()
    def holds_the_records(self) -> None:
        assert (self.start, len(self.records)) == (self.log.start_offset, self.log.end_offset)
        found = [
            (record.timestamp, one.base_offset)
            for one in self.log.batches(self.start)
            for record in iterate_records(one)
            if record.offset >= self.start
        ]
        assert self.records[self.start :] == found
        assert all(one.crc_is_valid() for one in self.log.batches(self.start))

    @invariant()
    def holds_no_segment_for_nothing(self) -> None:
        assert all(segment.size and segment.next_offset > self.log.start_offset for segment in self.log.segments)

    @invariant()
    def accounts_for_its_bytes(self) -> None:
        assert sum(segment.size for segment in self.log.segments) == self.log.size_bytes
        assert GIB - self.store.room == self.log.size_bytes

    @invariant()
    def never_writes_over_what_was_handed_out(self) -> None:
        for view, before in self.views:
            assert before == bytes(view)


TestLogAndList = LogAndList.TestCase
TestLogAndList.settings = examples(60, steps=30)
