"""A segment's batches, from its bytes alone: what recovery reads, and what a sealed segment is opened with."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from crc32c import crc32c
from msgspec import Struct

from odradek.log.files.damaged import DamagedFile
from odradek.records.batch import HEADER, HEADER_BYTES, LENGTH_BASE, MAGIC

__all__ = ["SegmentIndex", "index_of_segment", "walk"]

_CHECKSUMMED_AT = 21
_OLD_FORMATS = (0, 1)


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


def walk(view: memoryview, base_offset: int, *, checks: bool) -> SegmentIndex:
    """Read the headers of the batches up to the first that is none.

    With `checks` a batch is one only if its checksum is right: so the bytes that a killed process left are read.
    Raises `DamagedFile` for the message formats before v2, which are not read here.
    """
    offsets, positions, timestamps = array("q"), array("I"), array("q")
    position, length, next_offset = 0, len(view), base_offset
    newest, first_timestamp, has_producers, problem = -1, -1, False, ""
    unpack = HEADER.unpack_from
    while position < length:
        if length - position < HEADER_BYTES:
            problem = f"{length - position} bytes are no batch"
            break
        header = unpack(view, position)
        offset, magic, last_offset_delta, max_timestamp = header[0], header[3], header[6], header[8]
        end = position + LENGTH_BASE + header[1]
        if header[1] <= 0:
            problem = "there is no batch"
            break
        if magic in _OLD_FORMATS and not position:
            raise DamagedFile(f"it is of message format {magic}, and only format 2 is read")
        if magic != MAGIC or end > length or header[1] < HEADER_BYTES - LENGTH_BASE:
            problem = "the batch is cut off, or none"
            break
        if offset < next_offset:
            problem = f"a batch at offset {offset} follows offset {next_offset - 1}"
            break
        if checks and crc32c(view[position + _CHECKSUMMED_AT : end]) != header[4]:
            problem = f"the checksum of the batch at offset {offset} is not that of its bytes"
            break
        if max_timestamp > newest:
            newest = max_timestamp
        if not position:
            first_timestamp = max_timestamp
        if header[9] >= 0:
            has_producers = True
        offsets.append(offset)
        positions.append(position)
        timestamps.append(newest)
        next_offset = offset + last_offset_delta + 1
        position = end
    return SegmentIndex(offsets, positions, timestamps, position, next_offset, first_timestamp, has_producers, problem)


def index_of_segment(
    view: memoryview, index: SegmentIndex, *, interval_bytes: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Entries of the offset index and of the time index, as Kafka's `LogSegment` makes them.

    An entry stands at the first batch behind so many bytes, and names that batch's last offset.
    """
    offsets, positions, timestamps = index.offsets, index.positions, index.timestamps

    def last_offset(number: int) -> int:
        offset: int = offsets[number]
        delta: int = HEADER.unpack_from(view, positions[number])[6]
        return offset + delta

    by_offset: list[tuple[int, int]] = []
    by_time: list[tuple[int, int]] = []

    def note_time(newest: int) -> None:
        if newest > (by_time[-1][0] if by_time else -1):
            by_time.append((newest, last_offset(bisect_left(timestamps, newest))))

    since = 0
    while (number := bisect_right(positions, since + interval_bytes)) < len(positions):
        since = positions[number]
        by_offset.append((last_offset(number), since))
        note_time(timestamps[number])
    if timestamps:
        note_time(timestamps[-1])
    return by_offset, by_time
