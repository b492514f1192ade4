"""The batches of a segment, from its bytes alone: for recovery, and for opening a sealed segment."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from struct import Struct as Layout
from typing import NamedTuple
from zlib import crc32

from crc32c import crc32c
from msgspec import Struct

from odradek.records.batch import HEADER, HEADER_BYTES, LENGTH_BASE, MAGIC, MAGIC_AT, NO_TIMESTAMP, OLD_HEADERS

__all__ = ["SegmentIndex", "SparseEntries", "index_of_segment", "walk", "walk_end"]

_CHECKSUMMED_AT = 21
_OLD_BYTES_MIN = (OLD_HEADERS[0].size + 8, OLD_HEADERS[1].size + 8)
"""The header, and the sizes of key and value."""
_OLD_CODEC = 0x07
_OFFSET = Layout(">q")


class SegmentIndex(Struct):
    """Where the batches of a segment lie; see `Segment`."""

    offsets: array[int]
    positions: array[int]
    timestamps: array[int]
    size: int
    """Bytes of all whole batches."""
    next_offset: int
    first_timestamp: int
    has_producers: bool
    problem: str = ""
    """Why there is no batch at `size`; empty where the bytes end there."""
    begins_at: int = 0
    """Position of the first batch that it has; those before were not read."""

    def copy(self) -> SegmentIndex:
        """The same, for a segment that is appended to."""
        return SegmentIndex(
            self.offsets[:],
            self.positions[:],
            self.timestamps[:],
            self.size,
            self.next_offset,
            self.first_timestamp,
            self.has_producers,
            self.problem,
            self.begins_at,
        )


def walk(view: memoryview, base_offset: int, *, checks: bool) -> SegmentIndex:
    """Read the headers of batches up to the first invalid one.

    With `checks` a batch is valid only if its checksum is right, as is needed after a process was killed. A message of
    magic 0 or 1 counts as a batch; see `Segment` for the offset that a compressed one has in the index.
    """
    offsets, positions, timestamps = array("q"), array("I"), array("q")
    position, length, next_offset = 0, len(view), base_offset
    newest, first_timestamp, has_producers, problem = -1, -1, False, ""
    unpack = HEADER.unpack_from
    while position < length:
        header = unpack(view, position) if length - position >= HEADER_BYTES else None
        if header is None or header[3] != MAGIC:
            found = _old_message(view, position, checks=checks)
            if isinstance(found, str):
                problem = found
                break
            offset, last_offset_delta, max_timestamp, end, producer_id = found.offset, 0, found.timestamp, found.end, -1
            if found.is_compressed and offset > next_offset:
                offset, last_offset_delta = next_offset, offset - next_offset
        else:
            offset, last_offset_delta, max_timestamp, producer_id = header[0], header[6], header[8], header[9]
            end = position + LENGTH_BASE + header[1]
            if header[1] <= 0:
                problem = "there is no batch"
                break
            if end > length or header[1] < HEADER_BYTES - LENGTH_BASE:
                problem = "the batch is cut off, or none"
                break
            if checks and crc32c(view[position + _CHECKSUMMED_AT : end]) != header[4]:
                problem = _wrong_checksum(offset)
                break
        if offset < next_offset:
            problem = f"a batch at offset {offset} follows offset {next_offset - 1}"
            break
        if max_timestamp > newest:
            newest = max_timestamp
        if not position:
            first_timestamp = max_timestamp
        if producer_id >= 0:
            has_producers = True
        offsets.append(offset)
        positions.append(position)
        timestamps.append(newest)
        next_offset = offset + last_offset_delta + 1
        position = end
    return SegmentIndex(offsets, positions, timestamps, position, next_offset, first_timestamp, has_producers, problem)


def walk_end(view: memoryview, base_offset: int, *, entry: tuple[int, int], newest: int | None) -> SegmentIndex | None:
    """Read the first batch, and those from this entry of the offset index on, as Kafka's `LogSegment.readNextOffset`.

    `newest` is the greatest timestamp by the time index, if that has any. None if the entry is not that of a batch, or
    the bytes do not end with one.
    """
    offset, position = entry
    if not HEADER_BYTES <= position <= len(view) - HEADER_BYTES:
        return None
    begin, header = HEADER.unpack_from(view), HEADER.unpack_from(view, position)
    if begin[3] != MAGIC or header[3] != MAGIC or header[0] + header[6] != offset:
        return None
    first = walk(view[: LENGTH_BASE + begin[1]], base_offset, checks=False)
    end = walk(view[position:], base_offset, checks=False)
    if first.problem or not first.size or end.problem or not end.size:
        return None
    newest = max(-1 if newest is None else newest, first.timestamps[-1])
    return SegmentIndex(
        end.offsets,
        array("I", [position + each for each in end.positions]),
        array("q", [max(newest, each) for each in end.timestamps]),
        len(view),
        end.next_offset,
        first.first_timestamp,
        has_producers=True,
        begins_at=position,
    )


class _OldMessage(NamedTuple):
    """A message of magic 0 or 1."""

    offset: int
    """Its last one, if it is compressed."""
    timestamp: int
    end: int
    """The position behind it."""
    is_compressed: bool


def _old_message(view: memoryview, position: int, *, checks: bool) -> _OldMessage | str:
    """The message at a position where there is no batch of format v2; or why there is none.

    With `checks` it may be the beginning of a batch whose machine died: zeros in the place of the magic.
    """
    room = len(view) - position
    magic = view[position + MAGIC_AT] if room > MAGIC_AT else MAGIC
    if magic >= MAGIC or room < _OLD_BYTES_MIN[magic]:
        return f"{room} bytes are no batch" if room < HEADER_BYTES else "the batch is cut off, or none"
    offset, length, checksum, _, attributes, *rest = OLD_HEADERS[magic].unpack_from(view, position)
    if length <= 0:
        return "there is no batch"
    size = LENGTH_BASE + length
    if size > room or size < _OLD_BYTES_MIN[magic]:
        return "the batch is cut off, or none"
    end = position + size
    if checks and crc32(view[position + MAGIC_AT : end]) != checksum:
        return _wrong_checksum(offset)
    return _OldMessage(offset, rest[0] if rest else NO_TIMESTAMP, end, attributes & _OLD_CODEC != 0)


def _wrong_checksum(offset: int) -> str:
    return f"the checksum of the batch at offset {offset} is not that of its bytes"


def _last_offset(view: memoryview, position: int, offset: int) -> int:
    """The last offset of the batch at this position, whose index has this offset."""
    last: int
    if view[position + MAGIC_AT] != MAGIC:
        (last,) = _OFFSET.unpack_from(view, position)
        return last
    delta: int = HEADER.unpack_from(view, position)[6]
    return offset + delta


class SparseEntries:
    """Entries of the offset index and of the time index, as Kafka's `LogSegment` makes them.

    An entry stands at the first batch behind so many bytes, and names that batch's last offset. Entries are added as
    the segment grows, so that the end of a large one takes no longer.
    """

    def __init__(self, interval_bytes: int) -> None:
        self._interval_bytes = interval_bytes
        self._since = 0
        self._by_offset: list[tuple[int, int]] = []
        self._by_time: list[tuple[int, int]] = []

    def extend(self, view: memoryview, offsets: array[int], positions: array[int], timestamps: array[int]) -> None:
        """Add what follows from the batches that are there by now."""
        while (number := bisect_right(positions, self._since + self._interval_bytes)) < len(positions):
            self._since = positions[number]
            self._by_offset.append((_last_offset(view, self._since, offsets[number]), self._since))
            _note_time(self._by_time, view, offsets, positions, timestamps, timestamps[number])

    def ended(
        self, view: memoryview, offsets: array[int], positions: array[int], timestamps: array[int]
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """All entries of a segment that ends with these batches."""
        self.extend(view, offsets, positions, timestamps)
        by_time = self._by_time[:]
        if timestamps:
            _note_time(by_time, view, offsets, positions, timestamps, timestamps[-1])
        return self._by_offset, by_time


def _note_time(
    by_time: list[tuple[int, int]],
    view: memoryview,
    offsets: array[int],
    positions: array[int],
    timestamps: array[int],
    newest: int,
) -> None:
    if newest > (by_time[-1][0] if by_time else -1):
        number = bisect_left(timestamps, newest)
        by_time.append((newest, _last_offset(view, positions[number], offsets[number])))


def index_of_segment(
    view: memoryview, index: SegmentIndex, *, interval_bytes: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Entries of the offset index and of the time index of a whole segment."""
    return SparseEntries(interval_bytes).ended(view, index.offsets, index.positions, index.timestamps)
