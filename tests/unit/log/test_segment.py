"""Segments: one copy in, slices out, and an index that finds offsets, positions and timestamps."""

from __future__ import annotations

import pytest
from tests.unit.log.helpers import NOW, batch

from odradek.core.spare_pages import SparePages
from odradek.log.segment import Segment
from odradek.records.batch import Batch, batches

UNTIL_END = 1 << 60


def filled(*sizes: int, capacity: int = 1 << 20) -> Segment:
    """A segment with a batch of so many records each."""
    segment = Segment(0, capacity=capacity, created=NOW)
    for size in sizes:
        append(segment, batch(*[b"v"] * size, timestamp=NOW + segment.next_offset))
    return segment


def append(segment: Segment, one: Batch, *, at: int | None = None) -> None:
    offset = segment.next_offset if at is None else at
    segment.append(one, offset, size=one.size, leader_epoch=3, log_append_time=False)


def test_append_stamps_offset_and_leader_epoch() -> None:
    segment = filled(2, 1)
    second = segment.batch(1)
    assert (2, 3) == (second.base_offset, second.partition_leader_epoch)
    assert second.crc_is_valid()
    assert 3 == segment.next_offset


def test_append_stamps_the_logs_own_time_and_mends_the_checksum() -> None:
    segment = Segment(0, capacity=1 << 10, created=NOW)
    one = batch(b"v", timestamp=5)
    one.max_timestamp = NOW
    segment.append(one, 0, size=one.size, leader_epoch=0, log_append_time=True)
    assert NOW == segment.batch(0).max_timestamp
    assert segment.batch(0).crc_is_valid()


@pytest.mark.parametrize("capacity", [1 << 10, 1 << 20])
def test_small_buffers_and_mapped_ones_hold_the_same(capacity: int) -> None:
    segment = filled(1, 2, capacity=capacity)
    assert [0, 1] == [one.base_offset for one in batches(segment.buffer[: segment.size])]


def test_huge_pages_change_nothing_that_is_seen() -> None:
    segment = Segment(0, capacity=4 << 20, created=NOW)
    big = batch(b"x" * 700_000)
    for _ in range(3):
        append(segment, big)
    assert all(segment.batch(index).crc_is_valid() for index in range(3))


def test_index_of_finds_the_batch_that_holds_an_offset() -> None:
    segment = filled(2, 3, 1)
    assert [0, 0, 1, 1, 1, 2, 3] == [segment.index_of(offset) for offset in range(7)]


def test_index_of_skips_gaps() -> None:
    segment = Segment(0, capacity=1 << 20, created=NOW)
    append(segment, batch(b"a", b"b"), at=4)
    append(segment, batch(b"c"), at=9)
    assert [0, 0, 0, 1, 1, 1, 2] == [segment.index_of(offset) for offset in (0, 4, 5, 6, 8, 9, 10)]


def test_a_slice_ends_at_the_limit_and_its_first_batch_is_whole() -> None:
    segment = filled(1, 1, 1)
    size = segment.end_of(0)

    def length(max_bytes: int, *, min_one: bool = True, until: int = UNTIL_END) -> int:
        view = segment.slice(0, max_bytes=max_bytes, until=until, min_one=min_one)
        assert view == segment.buffer[: len(view)]
        return len(view)

    assert 3 * size == length(4 * size)
    assert 3 * size == length(3 * size)
    assert 3 * size - 1 == length(3 * size - 1)
    assert size + 1 == length(size + 1)
    assert size == length(size)
    assert size == length(size - 1)
    assert 0 == length(size - 1, min_one=False)
    assert 0 == length(0, min_one=False)
    assert size + 7 == length(size + 7, min_one=False)
    assert 0 == length(size - 1, until=0)
    assert size == length(size - 1, until=1)
    assert size == length(size + 7, until=1)


def test_slice_stops_below_an_offset() -> None:
    segment = filled(2, 1, 1)

    def size(until: int) -> int:
        return len(segment.slice(0, max_bytes=1 << 20, until=until, min_one=True))

    assert [0, segment.end_of(0), segment.end_of(1), segment.size] == [size(until) for until in (0, 2, 3, 4)]


def test_a_slice_is_a_view_that_outlives_what_follows() -> None:
    segment = filled(1)
    view = segment.slice(0, max_bytes=1 << 20, until=UNTIL_END, min_one=True)
    before = bytes(view)
    append(segment, batch(b"other"))
    segment.truncate(0)
    del segment
    assert before == bytes(view)


def test_truncate_forgets_from_the_batch_that_holds_the_offset() -> None:
    segment = filled(2, 2, 1)
    size = segment.end_of(0)
    forgotten = segment.size - size
    assert forgotten == segment.truncate(3)
    assert (2, size, 1) == (segment.next_offset, segment.size, len(segment.offsets))
    assert NOW == segment.max_timestamp


def test_truncate_behind_the_end_forgets_nothing() -> None:
    segment = filled(2)
    assert 0 == segment.truncate(2)
    assert 2 == segment.next_offset


def test_timestamps_are_searched_by_the_greatest_so_far() -> None:
    segment = Segment(0, capacity=1 << 20, created=NOW)
    for timestamp in (5, 3, 9):
        append(segment, batch(b"v", timestamp=timestamp))
    assert [0, 0, 2, 2, 3] == [segment.first_at_or_after(timestamp) for timestamp in (3, 5, 6, 9, 10)]


def test_remembers_whether_any_batch_has_a_producer() -> None:
    segment = filled(1)
    assert not segment.has_producers
    append(segment, batch(producer_id=1, epoch=0, sequence=0))
    assert segment.has_producers


# ---------------------------------------------------------------------- the pages of a dropped segment

BIG = 4 << 20


def dropped(spare: SparePages, text: bytes = b"x", *, size: int = 1_500_000) -> Segment:
    """A segment with one batch of this size that its log has dropped."""
    segment = Segment(0, capacity=BIG, created=NOW)
    append(segment, batch(text * size))
    segment.leave(spare)
    return segment


def test_the_next_segment_has_the_pages_of_a_dropped_one_and_none_of_its_records() -> None:
    spare = SparePages(BIG)
    dropped(spare)
    assert BIG == spare.bytes_kept
    again = Segment(7, capacity=BIG, created=NOW, busy=True, spare=spare)
    assert (0, 0, 0) == (spare.bytes_kept, again.size, len(again.offsets))
    assert b"x" * 1000 in bytes(again.buffer)
    append(again, batch(b"new"), at=7)
    assert ([7], True) == (list(again.offsets), again.batch(0).crc_is_valid())


def test_pages_that_somebody_still_reads_are_not_written_to() -> None:
    spare = SparePages(BIG)
    view = dropped(spare).buffer[:1_500_000]
    before = bytes(view)
    append(Segment(7, capacity=BIG, created=NOW, busy=True, spare=spare), batch(b"y" * 1_500_000), at=7)
    assert (before, BIG) == (bytes(view), spare.bytes_kept)
    del view
    Segment(7, capacity=BIG, created=NOW, busy=True, spare=spare)
    assert 0 == spare.bytes_kept


def test_pages_of_little_use_or_too_many_of_them_are_not_kept() -> None:
    spare = SparePages(2 * BIG)
    for _ in range(3):
        dropped(spare)
    assert 2 * BIG == spare.bytes_kept
    none = SparePages(2 * BIG)
    dropped(none, size=10_000)
    shared = Segment(0, capacity=BIG, created=NOW)
    append(shared, batch(b"x" * 1_500_000))
    shared.share()
    shared.leave(none)
    assert 0 == none.bytes_kept


def test_a_segment_that_is_not_busy_or_of_another_size_takes_no_spare_pages() -> None:
    spare = SparePages(BIG)
    dropped(spare)
    Segment(0, capacity=BIG, created=NOW, spare=spare)
    Segment(0, capacity=BIG * 2, created=NOW, busy=True, spare=spare)
    assert BIG == spare.bytes_kept


def test_pages_go_back_to_the_system_when_nobody_has_needed_them_for_a_minute() -> None:
    spare = SparePages(4 * BIG)
    dropped(spare)
    spare.give_back(60_000)
    dropped(spare)
    spare.give_back(119_999)
    assert 2 * BIG == spare.bytes_kept
    spare.give_back(120_000)
    assert BIG == spare.bytes_kept
    Segment(0, capacity=BIG, created=NOW, busy=True, spare=spare)
    dropped(spare)
    spare.give_back(180_000)
    assert BIG == spare.bytes_kept
    spare.give_back(240_000)
    assert 0 == spare.bytes_kept


def test_what_retention_drops_at_once_is_kept_while_as_much_is_written() -> None:
    spare = SparePages(8 * BIG, bytes_lasting=2 * BIG)
    for _ in range(10):
        dropped(spare)
    spare.give_back(1_000)
    assert 8 * BIG == spare.bytes_kept
    for second, kept in ((2, 3), (3, 0), (4, 0)):
        for _ in range(5):
            Segment(0, capacity=BIG, created=NOW, busy=True, spare=spare)
        assert kept * BIG == spare.bytes_kept
        for _ in range(5):
            dropped(spare)
        spare.give_back(second * 1_000 - 1)
        assert (kept + 5) * BIG == spare.bytes_kept
        spare.give_back(second * 1_000)
        assert 5 * BIG == spare.bytes_kept, "what five are taken of in a second"
    spare.give_back(5_000)
    assert 2 * BIG == spare.bytes_kept, "nobody writes any more"
    for now in (6_000, 59_999, 60_000, 119_999):
        spare.give_back(now)
        assert 2 * BIG == spare.bytes_kept
    spare.give_back(120_000)
    assert 0 == spare.bytes_kept
