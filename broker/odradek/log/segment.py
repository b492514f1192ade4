"""A segment: one buffer of bytes that batches are appended to and sliced from, with its index.

A batch is copied once, on its way in.
Readers get views of the buffer, so bytes once written are never written again, and a segment that retention
or a truncation removes is dropped, not closed: the last reader's view keeps its memory alive.

The buffer is an anonymous private mapping.
Its pages exist from the first write on, and go back to the system as soon as no view of them is left. Those of a busy
segment are kept for the next segments for a while: the first touch of a page costs more than a copy.
The size is 16 MiB: memory is freed by whole segments, so a segment must be small against the memory of all logs, and
large against a fetch, which never crosses the end of a segment.
"""

from __future__ import annotations

import mmap
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct as Layout

from odradek.core.spare_pages import SparePages, new_pages
from odradek.records.batch import MAGIC, MAGIC_AT, Batch, InvalidBatch, parse_batch, stamp

__all__ = ["SEGMENT_BYTES", "Segment"]

SEGMENT_BYTES = 16 * 1024 * 1024
"""Size of the buffer of a segment, unless `segment.bytes` is less or a single batch is more."""

_MAPPED_BYTES_MIN = 128 * 1024
_BUSY_BYTES = 1024 * 1024
"""From this size on a log gets huge pages: page faults for small ones take five times as long as the copy."""
_HUGE_PAGES: int | None = getattr(mmap, "MADV_HUGEPAGE", None)

_STAMPED = Layout(">qii")
"""The fields that a leader stamps if timestamps stay: offset, length (unchanged) and leader epoch."""
_LAST_OFFSET_DELTA = Layout(">i")
_LAST_OFFSET_DELTA_AT = 23
_OFFSET = Layout(">q")


class Segment:
    """Batches of one log, back to back, in offset order.

    The index has an entry for each batch: base offset, position, and the greatest timestamp so far, which never goes
    down, so that each of the three can be searched by bisection. Of a compressed message of magic 0 or 1, whose base
    offset is known when it is decompressed, the entry has the offset behind the message before.
    """

    __slots__ = (
        "_mapping",
        "base_offset",
        "buffer",
        "busy",
        "capacity",
        "created",
        "first_timestamp",
        "has_producers",
        "is_shared",
        "max_timestamp",
        "next_offset",
        "number",
        "offsets",
        "positions",
        "size",
        "timestamps",
    )
    is_file = False
    """Whether it has a way of its own to put bytes in place."""

    def __init__(
        self,
        base_offset: int,
        *,
        capacity: int,
        created: int,
        number: int = 0,
        busy: bool = False,
        spare: SparePages | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.capacity = capacity
        self.created = created
        self.number = number
        """Order of creation among all segments of a store."""
        self.size = 0
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.has_producers = False
        """Whether any batch has a producer id; if none has, producer state need not look at this segment."""
        self.offsets = array("q")
        self.positions = array("I")
        self.timestamps = array("q")
        self.is_shared = False
        """Whether a fork of the log has the segment too: then it never changes, and a change needs a copy."""
        self._mapping: mmap.mmap | None = None
        self.busy = False
        """Whether its memory is in huge pages, because much is written to it."""
        if capacity < _MAPPED_BYTES_MIN:
            self.buffer = memoryview(bytearray(capacity))
            return
        used = spare.take(capacity) if busy and spare is not None else None
        self._mapping = used or new_pages(capacity)
        self.buffer = memoryview(self._mapping)
        if used is not None:
            self.busy = True
        elif busy:
            self._use_huge_pages(0)

    def leave(self, spare: SparePages) -> None:
        """Its log has dropped it: another segment may have its pages, unless they are few or a fork has them."""
        if self.busy and self._mapping is not None and not self.is_shared:
            spare.keep(self._mapping)

    def append(self, batch: Batch, base_offset: int, *, size: int, leader_epoch: int, log_append_time: bool) -> None:
        """Copy a batch of this size in and stamp it; the caller has checked that it fits."""
        start = self.size
        end = start + size
        max_timestamp = batch.max_timestamp
        if self.is_file or log_append_time:
            self._put(
                batch, base_offset, start=start, end=end, leader_epoch=leader_epoch, log_append_time=log_append_time
            )
        else:
            buffer = self.buffer
            buffer[start:end] = batch.view
            _STAMPED.pack_into(buffer, start, base_offset, batch.batch_length, leader_epoch)
        self.size = end
        self.next_offset = base_offset + batch.last_offset_delta + 1
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
        self.offsets.append(base_offset)
        self.positions.append(start)
        self.timestamps.append(self.max_timestamp)
        if start == 0:
            # `segment.ms` counts from the first batch, or from now if that has no timestamp.
            self.first_timestamp = max_timestamp if max_timestamp >= 0 else self.created
        if batch.producer_id >= 0:
            self.has_producers = True
        if end > _BUSY_BYTES and not self.busy:
            self._use_huge_pages(end)

    def _put(
        self, batch: Batch, base_offset: int, *, start: int, end: int, leader_epoch: int, log_append_time: bool
    ) -> None:
        """Put the bytes of a batch in place, stamped; the usual case is in `append`."""
        self.buffer[start:end] = batch.view
        stamp(
            self.buffer,
            start,
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            max_timestamp=batch.max_timestamp,
            log_append_time=log_append_time,
        )

    def keep(self, batch: Batch) -> None:
        """Copy a batch in as it is; the caller has checked that it fits.

        A message of magic 0 or 1 has its offsets from the broker that wrote it, and where a batch has its leader epoch
        it has its checksum, so nothing is stamped.
        """
        start, end = self.size, self.size + batch.size
        self._copy(batch.view, start, end)
        self.size = end
        self.offsets.append(batch.base_offset)
        self.positions.append(start)
        self.next_offset = batch.next_offset
        self.max_timestamp = max(self.max_timestamp, batch.max_timestamp)
        self.timestamps.append(self.max_timestamp)
        if start == 0:
            self.first_timestamp = batch.max_timestamp if batch.max_timestamp >= 0 else self.created

    def _copy(self, view: memoryview, start: int, end: int) -> None:
        self.buffer[start:end] = view

    def modified(self) -> int:
        """When it was last written to (ms), as far as that is known: its age, if its records have no timestamps."""
        return self.created

    @property
    def youngest(self) -> int:
        """Kafka's `LogSegment.largestTimestamp`: the greatest timestamp, or when it was last written to (ms)."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified()

    def truncate(self, offset: int) -> int:
        """Forget the batches from the one with this offset on; returns the number of their bytes.

        The bytes stay, because readers may have views of them, and no batch is appended behind them.
        """
        first = self.index_of(offset)
        if first == len(self.offsets):
            return 0
        position = self.positions[first]
        forgotten = self.size - position
        self.next_offset = min(offset, self.offsets[first])
        del self.offsets[first:], self.positions[first:], self.timestamps[first:]
        self.size = self.capacity = position
        self.max_timestamp = self.timestamps[-1] if self.timestamps else -1
        return forgotten

    def share(self) -> None:
        """From now on another log has it, too."""
        self.is_shared = True

    def frozen(self) -> Segment:
        """The present segment, to which nothing is appended: it has an index of its own over the same bytes."""
        copy = Segment(self.base_offset, capacity=0, created=self.created, number=self.number)
        copy.buffer = self.buffer
        copy._adopt_index(self)
        copy.capacity = self.size
        copy.is_shared = True
        return copy

    def thawed(self, capacity: int) -> Segment:
        """A segment with the same batches in memory of its own, for appending."""
        copy = Segment(self.base_offset, capacity=capacity, created=self.created, number=self.number, busy=self.busy)
        copy.buffer[: self.size] = self.buffer[: self.size]
        copy._adopt_index(self)
        return copy

    def _adopt_index(self, other: Segment) -> None:
        self.offsets, self.positions, self.timestamps = other.offsets[:], other.positions[:], other.timestamps[:]
        self.size, self.next_offset = other.size, other.next_offset
        self.first_timestamp, self.max_timestamp = other.first_timestamp, other.max_timestamp
        self.has_producers = other.has_producers

    def _use_huge_pages(self, start: int) -> None:
        self.busy = True
        if self._mapping is not None and _HUGE_PAGES is not None:
            start += -start % mmap.PAGESIZE
            if start < self.capacity:
                # Advice only: a kernel without huge pages answers an error.
                try:
                    self._mapping.madvise(_HUGE_PAGES, start, self.capacity - start)
                except OSError:
                    return

    def index_of(self, offset: int) -> int:
        """Index of the first batch that ends at or behind this offset; the number of batches if none does."""
        offsets = self.offsets
        index = bisect_right(offsets, offset) - 1
        if index < 0:
            return 0
        if offsets[index] == offset:
            return index
        # Compaction leaves gaps, so the batch that begins before may also end before.
        position = self.positions[index]
        if self.buffer[position + MAGIC_AT] != MAGIC:
            # A message of magic 0 or 1 names its last offset.
            return index if _OFFSET.unpack_from(self.buffer, position)[0] >= offset else index + 1
        (delta,) = _LAST_OFFSET_DELTA.unpack_from(self.buffer, position + _LAST_OFFSET_DELTA_AT)
        return index if offsets[index] + delta >= offset else index + 1

    def end_of(self, index: int) -> int:
        """Position behind the batch of this index."""
        index += 1
        return self.positions[index] if index < len(self.positions) else self.size

    def slice(self, index: int, *, max_bytes: int, until: int, min_one: bool) -> memoryview:
        """A slice from the batch of this index on: at most `max_bytes`, all below the offset `until`.

        Like a slice of Kafka's file it may cut its last batch, but the first one is whole (KIP-74): a first batch above
        `max_bytes` is returned alone with `min_one`; without it the slice is empty.
        """
        positions = self.positions
        start = positions[index]
        if until >= self.next_offset:
            limit = self.size
        else:
            below = bisect_left(self.offsets, until)
            limit = positions[below] if below < len(positions) else self.size
        if start + max_bytes < limit:
            first = self.end_of(index)
            if start + max_bytes >= first:
                limit = start + max_bytes
            else:
                limit = min(first, limit) if min_one else start
        return self.buffer[start:limit]

    def batch(self, index: int) -> Batch:
        """The batch of this index, as it lies in the buffer. Raises `InvalidBatch`."""
        try:
            return parse_batch(self.buffer, self.positions[index])
        except InvalidBatch:
            return self.batch_at(self.positions[index])

    def batch_at(self, position: int) -> Batch:
        """The batch that begins there, which may be a message of magic 0 or 1. Raises `InvalidBatch`."""
        from odradek.records.legacy import batch_at  # few logs have any

        return batch_at(self.buffer, position)

    def first_at_or_after(self, timestamp: int) -> int:
        """Index of the first batch that holds a timestamp at least this great; the number of batches if none does."""
        return bisect_left(self.timestamps, timestamp)
