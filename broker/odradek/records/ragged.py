"""Which of the records that follow one have its shape, whatever their sizes are?

Records of differing sizes (JSON) have no stride. So a loop that does nothing else goes from length to length, and cuts
the structural bytes out around each of them, a row for each record. Then all rows are compared at once, column by
column, and the sums of their sizes as one long number. A length takes one byte or two, in one record as in another.
"""

from __future__ import annotations

from functools import lru_cache
from operator import add, itemgetter

from msgspec import Struct

from odradek.records.varint import Readable, read_zigzag

__all__ = ["EITHER", "TAIL_BYTES_MAX", "Shape", "alike", "length_bytes_of"]

TAIL_BYTES_MAX = 128
EITHER = 0
"""In place of how many bytes the length of a record takes: one here and two there."""
_LANE_BITS = 16
_TRIED = 8
_SHAPES_MAX = 64  # that are remembered
_NO_TAIL = b"\0"  # no headers

_ALL = range(256)
_HALVES = bytes(byte >> 1 for byte in _ALL)
_LOW_BITS = bytes(byte & 127 for byte in _ALL)
_AHEAD_OF_ONE = tuple(1 + (byte >> 1) for byte in _ALL)
_AHEAD_OF_TWO = tuple(2 + ((byte & 127) >> 1) for byte in _ALL)
_MORE_AHEAD = tuple(byte << 6 for byte in _ALL)
"""Bytes of a record by the first byte of its length, where that takes one byte, and where it takes two; and by the
second of them."""

_CONTINUED = bytes(byte >= 128 for byte in _ALL)
_LAST = bytes(byte < 128 for byte in _ALL)
_NO_KEY = 1


class Shape(Struct, frozen=True, gc=False):
    """Which bytes of a record are structure. Nothing else has to be as in other records of the shape."""

    length_bytes: int
    """One, two, or `EITHER` if no record has headers."""
    timestamp_bytes: int
    offset_bytes: int
    null_key: bool
    """Otherwise the length of the key takes one byte."""
    tail: bytes
    """What lies behind the value, the headers; at most `TAIL_BYTES_MAX`."""
    fixed: tuple[int, ...]
    """Places in the tail whose bytes are the same in each record."""


class _Row(Struct, frozen=True, gc=False):
    """Where the bytes of a record are in its row.

    A row is what lies behind the value of the record before, and the record up to the length of its key, or without a
    key up to that of its value.
    """

    body: int
    """Behind the length."""
    timestamp: int
    key: int
    width: int
    last: tuple[int, ...]
    """Bytes that end a number."""
    continued: tuple[int, ...]
    """Bytes of numbers that go on."""
    sizes: int
    """Twice what a record takes behind its length, without its key, its value, and the second byte of the latter's
    length."""


def length_bytes_of(data: Readable, shape: Shape, at: int) -> int | None:
    """How many bytes the length of the next few records takes; None if they seem to have another shape.

    To find out that most do not have it takes long.
    """
    behind = 1 + shape.timestamp_bytes + shape.offset_bytes
    found = {shape.length_bytes}
    try:
        for _ in range(_TRIED):
            byte = data[at]
            if byte < 128:
                found.add(1)
                body, end = at + 1, at + _AHEAD_OF_ONE[byte]
            else:
                found.add(2)
                body, end = at + 2, at + _AHEAD_OF_TWO[byte] + _MORE_AHEAD[data[at + 1]]
            if (data[body + behind] == _NO_KEY) is not shape.null_key:
                return None
            at = end
    except IndexError:
        return None
    if len(found) == 1:
        return shape.length_bytes
    return EITHER if shape.tail == _NO_TAIL else None


def alike(data: Readable, shape: Shape, at: int, rows: int) -> tuple[int, int, list[bytes]]:
    """How many records from `at` on have the shape, counted up to the first that has not, and at most `rows`.

    Also where they end, and the columns of their timestamp deltas. A record of the shape lies before `at`.
    """
    row = _row(shape)
    width, body, tail = row.width, row.body, len(shape.tail)
    starts, lows, pieces, end = _rows(data, shape, row, at, rows)
    joined = b"".join(pieces)
    count = len(pieces) - (end > len(data))
    if len(joined) < count * width:
        count = next(number for number, piece in enumerate(pieces) if len(piece) < width)
    if count < len(pieces):
        joined = joined[: count * width]
    good = _numbers_of_shape(joined, row, count)
    if shape.null_key:
        good = _before_other(joined[row.key :: width], _NO_KEY, good)
    ones = int.from_bytes(b"\1\0" * count, "little")
    low, high = lows[:count] or joined[tail::width], joined[body - 1 :: width]
    if shape.length_bytes == 1:
        lengths = _lanes(high, None)
    elif shape.length_bytes == 2:
        lengths = _lanes(low, high)
    else:
        two = _lanes(low.translate(_CONTINUED), None)
        lengths = _lanes(low, None) + (_lanes(None, high) & two * (127 << 7))
        # A record ends in front of the length of the next one.
        ends_of_one, ends_of_two = joined[1::width], joined[::width]
        is_two = int.from_bytes(low.translate(_CONTINUED), "little") * 255
        wrong = int.from_bytes(ends_of_one, "little") & ~is_two | int.from_bytes(ends_of_two, "little") & is_two
        if wrong:
            good = min(good, (_lowest_bit(wrong) >> 3) - 1)
    if shape.length_bytes:
        for place in shape.fixed:
            column, byte = joined[place::width], shape.tail[place]
            if (other := _before_other(column, byte, count)) < count:
                good = min(good, other - 1)
    if good <= 0:
        return 0, at, []
    sizes = row.sizes * ones
    if shape.null_key:
        first, second = joined[row.key + 1 :: width], joined[row.key + 2 :: width]
    else:
        keys = joined[row.key :: width]
        key_sizes = _lanes(keys, None)
        if negative := key_sizes & ones:
            good = min(good, _lowest_bit(negative) // _LANE_BITS)
            if not good:
                return 0, at, []
        sizes += key_sizes
        places = map(add, starts, keys[:good].translate(_HALVES))
        if shape.length_bytes == EITHER:
            places = map(add, places, low.translate(_CONTINUED))
        gather = itemgetter(0, *places)  # 0, since of one place it takes no tuple
        behind = (shape.length_bytes or 1) + row.key + 1 - body
        try:
            first, second = bytes(gather(data[behind:])[1:]), bytes(gather(data[behind + 1 :])[1:])
        except IndexError:  # a key that would end behind the data
            return 0, at, []
    more = first.translate(_CONTINUED)
    if 0 not in more:
        sizes += _lanes(first, second) + 2 * ones
    elif 1 not in more:
        sizes += _lanes(first, None)
    else:
        longer = _lanes(more, None)
        sizes += _lanes(first, None) + 2 * longer + (_lanes(None, second) & longer * (255 << 7))
    # No length is negative.
    if wrong := lengths ^ sizes | lengths & ones:
        good = min(good, _lowest_bit(wrong) // _LANE_BITS)
    if good < len(pieces):
        end = _end_of(data, at, good)
    if good and any(data[end - tail + place] != shape.tail[place] for place in shape.fixed):
        good -= 1
        end = _end_of(data, at, good)
    stamps = [joined[place::width][:good] for place in range(row.timestamp, row.timestamp + shape.timestamp_bytes)]
    return (good, end, stamps) if good else (0, at, [])


@lru_cache(_SHAPES_MAX)
def _row(shape: Shape) -> _Row:
    tail, length_bytes = len(shape.tail), shape.length_bytes
    body = tail + (length_bytes or 2)
    timestamp = body + 1
    offset = timestamp + shape.timestamp_bytes
    key = offset + shape.offset_bytes
    last = [body - 1, offset - 1, key - 1, *(() if shape.null_key else (key,))]
    continued = [*range(timestamp, offset - 1), *range(offset, key - 1)]
    if length_bytes == 2:
        continued.append(tail)
    sizes = 2 * (key + 1 - body + 1 + tail)
    return _Row(body, timestamp, key, key + (3 if shape.null_key else 1), tuple(last), tuple(continued), sizes)


def _numbers_of_shape(joined: bytes, row: _Row, rows: int) -> int:
    """How many rows have numbers of as many bytes as the shape says."""
    for places, wrong in ((row.last, _CONTINUED), (row.continued, _LAST)):
        for place in places:
            column = joined[place :: row.width]
            if wrong is _CONTINUED and column.isascii():
                continue
            other = column.translate(wrong).find(1)
            if 0 <= other < rows:
                rows = other
    return rows


def _before_other(column: bytes, byte: int, rows: int) -> int:
    """How many rows have this byte in a column, counted up to the first that has another, and at most `rows`."""
    expected = bytes((byte,))
    return rows if column == expected * len(column) else min(rows, len(column) - len(column.lstrip(expected)))


def _rows(
    data: Readable, shape: Shape, row: _Row, at: int, rows: int
) -> tuple[list[int], bytes, list[bytes | memoryview], int]:
    """Where so many records begin by their lengths, the first byte of these, the rows, and where the last record ends.

    Fewer if the data ends before. Starts and first bytes are there only where they are needed.
    """
    starts: list[int] = []
    pieces: list[bytes | memoryview] = []
    low = bytearray()
    add_start, add_row, add_low = starts.append, pieces.append, low.append
    tail = len(shape.tail)
    second, behind = tail + 1, row.width - tail
    has_keys = not shape.null_key
    try:
        if shape.length_bytes == 2:
            for _ in range(rows):
                piece = data[at - tail : at + behind]
                ahead = _AHEAD_OF_TWO[piece[tail]] + _MORE_AHEAD[piece[second]]
                add_row(piece)
                if has_keys:
                    add_start(at)
                at += ahead
        elif shape.length_bytes == 1:
            for _ in range(rows):
                piece = data[at - tail : at + behind]
                ahead = _AHEAD_OF_ONE[piece[tail]]
                add_row(piece)
                if has_keys:
                    add_start(at)
                at += ahead
        else:
            behind -= 1  # a row has room for two bytes of a length, and the record before ends in front of both
            for _ in range(rows):
                byte = data[at]
                if byte < 128:
                    add_row(data[at - 2 : at + behind])
                    ahead = _AHEAD_OF_ONE[byte]
                else:
                    ahead = _AHEAD_OF_TWO[byte] + _MORE_AHEAD[data[at + 1]]
                    add_row(data[at - 1 : at + 1 + behind])
                add_low(byte)
                if has_keys:
                    add_start(at)
                at += ahead
    except IndexError:
        pass
    return starts, bytes(low), pieces, at


def _end_of(data: Readable, at: int, rows: int) -> int:
    """Where so many records end."""
    for _ in range(rows):
        length, at = read_zigzag(data, at)
        at += length
    return at


def _lanes(low: bytes | None, high: bytes | None) -> int:
    """A column of numbers as one long number, in which each has so much room that sums of them do not meet.

    Of the first bytes the low seven bits count, the second ones count 128 for each.
    """
    lanes = bytearray(2 * len(low if low is not None else high or b""))
    if low is not None:
        lanes[::2] = low.translate(_LOW_BITS)
    if high is None:
        return int.from_bytes(lanes, "little")
    number = int.from_bytes(lanes, "little")
    lanes[::2] = bytes(len(high))
    lanes[1::2] = high
    return number + (int.from_bytes(lanes, "little") >> 1)


def _lowest_bit(number: int) -> int:
    return (number & -number).bit_length() - 1
