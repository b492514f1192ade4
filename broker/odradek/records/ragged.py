"""Which of the records that follow one have its shape, whatever their sizes are?

Records of differing sizes (JSON) have no stride. So a loop that does nothing else goes from length to length, and the
structural bytes beside each of these places are joined, a row for each record. Then all rows are compared at once, as
one long number, and so are the sums of their sizes.
"""

from __future__ import annotations

from functools import lru_cache
from operator import add, itemgetter

from msgspec import Struct

from odradek.records.varint import Readable

__all__ = ["TAIL_BYTES_MAX", "Shape", "alike", "promises"]

TAIL_BYTES_MAX = 128
_LANE_BITS = 16
_TRIED = 8
_SHAPES_MAX = 64  # that are remembered

_ALL = range(256)
_HALVES = bytes(byte >> 1 for byte in _ALL)
_LOW_BITS = bytes(byte & 127 for byte in _ALL)
_AHEAD_OF_ONE = tuple(1 + (byte >> 1) for byte in _ALL)
_AHEAD_OF_TWO = tuple(2 + ((byte & 127) >> 1) for byte in _ALL)
"""Bytes of a record by the first byte of its length, where that takes one byte, and where it takes two; the second of
them counts 64 for each."""

_MASKS = {1: b"\x80", 2: b"\x80\x80", 3: b"\x80\x80\x80"}
_WANTED = {1: b"\0", 2: b"\x80\0", 3: b"\x80\x80\0"}
"""The bits that say how many bytes a number takes, and what they are."""
_CONTINUED = 128
_NO_KEY = 1
_ATTRIBUTES = b"\0"  # of a record: none has a meaning


class Shape(Struct, frozen=True, gc=False):
    """Which bytes of a record are structure. Nothing else has to be as in other records of the shape."""

    length_bytes: int
    """One or two, as for the next three."""
    timestamp_bytes: int
    offset_bytes: int
    value_length_bytes: int
    null_key: bool
    """Otherwise the length of the key takes one byte."""
    tail: bytes
    """What lies behind the value, the headers; at most `TAIL_BYTES_MAX`."""
    fixed: tuple[int, ...]
    """Places in the tail whose bytes are the same in each record."""


def promises(data: Readable, shape: Shape, at: int) -> bool:
    """Whether the next few records seem to have the shape: to find out that most do not takes long."""
    starts, _ = _starts(data, at, _TRIED, shape.length_bytes, 0)
    key = shape.length_bytes + 1 + shape.timestamp_bytes + shape.offset_bytes
    try:
        for start in starts:
            if (data[start] < _CONTINUED) is not (shape.length_bytes == 1):
                return False
            if (data[start + key] == _NO_KEY) is not shape.null_key:
                return False
            if shape.null_key and (data[start + key + 1] < _CONTINUED) is not (shape.value_length_bytes == 1):
                return False
    except IndexError:
        return False
    return True


def alike(data: Readable, shape: Shape, at: int, rows: int) -> tuple[int, int, list[bytes]]:
    """How many records from `at` on have the shape, counted up to the first that has not, and at most `rows`.

    Also where they end, and the columns of their timestamp deltas. A record of the shape lies before `at`.
    """
    mask, wanted = _patterns(shape)
    tail, width = len(shape.tail), len(mask)
    starts, end = _starts(data[tail:], at - tail, rows, shape.length_bytes, width - tail)
    joined = b"".join([data[start : start + width] for start in starts])
    rows = _rows_of_shape(joined, mask, wanted, tail)
    if rows == len(starts) and any(data[end + place] != shape.tail[place] for place in shape.fixed):
        rows -= 1
    if rows <= 0:
        return 0, at, []
    of_length, of_value = shape.length_bytes, shape.value_length_bytes
    lengths = [joined[place::width] for place in range(tail, tail + of_length)]
    constant = width - of_length
    if shape.null_key:
        sizes = _lanes([joined[place::width] for place in range(width - of_value, width)], rows)
    else:
        keys = joined[width - 1 :: width][:rows]
        gather = itemgetter(0, *map(add, starts, keys.translate(_HALVES)))  # 0, since of one place it takes no tuple
        try:
            values = [bytes(gather(data[width + place :])[1:]) for place in range(of_value)]
        except IndexError:  # a key that would end behind the data
            return 0, at, []
        for column, bits in zip(values, _WANTED[of_value], strict=True):
            rows = min(rows, _rows_of_shape(column, b"\x80", bytes((bits,)), 0))
        sizes = _lanes(values, rows) + _lanes([keys], rows)
        constant += of_value
    sizes += 2 * constant * int.from_bytes(b"\1\0" * rows, "little")
    if wrong := _lanes(lengths, rows) ^ sizes:
        rows = _lowest_bit(wrong) // _LANE_BITS
    first = tail + of_length + 1
    stamps = [joined[place::width][:rows] for place in range(first, first + shape.timestamp_bytes)]
    return rows, (starts[rows] if rows < len(starts) else end) + tail, stamps


@lru_cache(_SHAPES_MAX)
def _patterns(shape: Shape) -> tuple[bytes, bytes]:
    """Which bits of a row are the same in all rows, and what they are.

    A row is what lies behind the value of a record, and the next record up to the length of its key, or without a key
    up to that of its value.
    """
    tail = len(shape.tail)
    mask, wanted = bytearray(tail), bytearray(tail)
    for place in shape.fixed:
        mask[place], wanted[place] = 255, shape.tail[place]
    for patterns, row in ((_MASKS, mask), (_WANTED, wanted)):
        row += patterns[shape.length_bytes] + _ATTRIBUTES + patterns[shape.timestamp_bytes]
        row += patterns[shape.offset_bytes]
    mask[tail] |= 1  # no length is negative
    if shape.null_key:
        mask += b"\xff" + _MASKS[shape.value_length_bytes]
        wanted += b"\x01" + _WANTED[shape.value_length_bytes]
    else:
        mask += b"\x81"
        wanted += b"\0"
    return bytes(mask), bytes(wanted)


def _starts(data: Readable, position: int, rows: int, length_bytes: int, least: int) -> tuple[list[int], int]:
    """Where so many records begin by their lengths, and where the last ends; fewer if they do not fit into the data.

    A record takes at least so many bytes.
    """
    starts: list[int] = []
    append = starts.append
    try:
        if length_bytes == 1:
            for _ in range(rows):
                append(position)
                position += _AHEAD_OF_ONE[data[position]]
        else:
            seconds = data[1:]
            for _ in range(rows):
                append(position)
                position += _AHEAD_OF_TWO[data[position]] + (seconds[position] << 6)
    except IndexError:
        position = starts.pop()
    size = len(data)
    while starts and (position > size or starts[-1] + least > size):
        position = starts.pop()
    return starts, position


def _rows_of_shape(joined: bytes, mask: bytes, wanted: bytes, tail: int) -> int:
    """How many rows have the wanted bits where the mask has any; the `tail` of a row belongs to the row before."""
    width = len(mask)
    rows = len(joined) // width
    wrong = int.from_bytes(joined, "little") & int.from_bytes(mask * rows, "little")
    wrong ^= int.from_bytes(wanted * rows, "little")
    if not wrong:
        return rows
    row, place = divmod(_lowest_bit(wrong) >> 3, width)
    return row - (place < tail)


def _lanes(columns: list[bytes], rows: int) -> int:
    """Numbers of one or two bytes, whose low bits come first, in so many rows: as one number."""
    lanes = bytearray(2 * rows)
    lanes[::2] = columns[0][:rows].translate(_LOW_BITS)
    low = int.from_bytes(lanes, "little")
    if len(columns) == 1:
        return low
    lanes = bytearray(2 * rows)
    lanes[1::2] = columns[1][:rows]
    return low | int.from_bytes(lanes, "little") >> 1


def _lowest_bit(number: int) -> int:
    return (number & -number).bit_length() - 1
