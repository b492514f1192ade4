"""Does the payload of a batch fit its header? Every record is checked, none is built.

Kafka refuses a batch whose count or sizes lie (`LogValidator`, which reads all records), so we look at all of them
too. In Python that costs 0.6 us a record, too much for 9,000 of them. But records of one size, as a batch mostly has,
repeat the same few structural bytes at a fixed stride. So the loop takes one record, and then compares whole columns
of its followers: `data[at::stride]` is one call, and by induction proves what reading them one by one would. Where the
size of the batch says that all its records are of one size, the first record is the only one that is read.
Records of differing sizes are compared by columns as well, at places that a short loop finds (`records/ragged.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType

from msgspec import Struct
from msgspec.structs import replace

from odradek.records.batch import InvalidBatch
from odradek.records.varint import Readable, read_zigzag, read_zigzag_long
from odradek.wire.errors import ErrorCode

__all__ = ["Extent", "scan"]

_RUN_MIN = 10  # fewer followers are read faster one by one
_WINDOW_FIRST = 256  # rows beyond the run cost one column: the first that differs ends it
_WINDOW_GROWTH = 8
_BACKOFF = 64  # records read one by one after an attempt that found no run; twice as many after the next one
_COLUMNS_MAX = 40
_RAGGED_MIN = 16  # fewer records of differing sizes are read faster one by one
_RAGGED_WINDOW_FIRST = 64  # rows beyond the run cost a step each
_RAGGED_ENOUGH = 32  # what it takes to look at so many one by one is what an attempt takes
_SHORT_OFFSETS = 64  # offset deltas of one byte

_CONTINUED = bytes(byte >= 128 for byte in range(256))
_EVEN = bytes(not byte & 1 for byte in range(256))


class _Tables(dict[int, bytes]):
    """A table of `bytes.translate` for each byte, made when it is first wanted: few of the 256 ever are."""

    def __init__(self, made: Callable[[int], bytes]) -> None:
        super().__init__()
        self._made = made

    def __missing__(self, byte: int) -> bytes:
        table = self[byte] = self._made(byte)
        return table


_EQUAL = _Tables(lambda byte: bytes(byte) + b"\1" + bytes(255 - byte))
"""For each byte the table that has 1 for this byte alone."""
_ABOVE = _Tables(lambda byte: bytes(byte + 1) + b"\1" * (255 - byte))
_EVEN_ABOVE = _Tables(lambda byte: bytes(byte + 1) + _EVEN[byte + 1 :])
_BYTES = [bytes((byte,)) for byte in range(256)]

_NO_KEY = 1  # the length -1
_NO_TAIL = b"\0"  # no headers
_NUMBER_BYTES_MAX = 2
_OFFSET_BYTES_MAX = 3
_THREE_BYTES = 1 << 14
"""From here on a number takes three bytes as it is written."""

_LOWEST = (-64, -8192)  # zigzag numbers of one and of two bytes


class Extent(Struct, gc=False):
    """Bounds over all records of a batch."""

    max_delta: int | None
    """The largest timestamp delta; None if it is not the one claimed and would have to be looked for."""
    min_delta: int
    """No timestamp delta is smaller."""
    null_key: bool
    """Some record has no key."""


def scan(data: Readable, count: int, claimed_delta: int) -> Extent:
    """Check `count` records that fill `data` exactly; `InvalidBatch` if they do not."""
    size = len(data)
    position = index = attempt_at = 0
    backoff = _BACKOFF
    top = low = None
    null_key = False
    runs: _Runs | None = None
    try:
        while index < count:
            start = position
            byte = data[position]
            position += 1
            if byte >= 128:  # the length
                if (second := data[position]) < 128:
                    byte = byte & 127 | second << 7
                    position += 1
                else:
                    length, position = read_zigzag(data, start)
                    byte = length << 1 if length >= 0 else 1
            body_at = position
            end = position + (byte >> 1)
            if byte & 1:
                raise _invalid(f"Invalid record size in record {index}")
            byte = data[position + 1]  # the timestamp delta, behind the attributes
            if byte < 128:
                delta = (byte >> 1) ^ -(byte & 1)
                position += 2
            elif (second := data[position + 2]) < 128:
                byte = byte & 127 | second << 7
                delta = (byte >> 1) ^ -(byte & 1)
                position += 3
            else:
                delta, position = read_zigzag_long(data, position + 1)
            offset_at = position
            if data[position] < 128:  # the offset delta
                position += 1
            elif data[position + 1] < 128:
                position += 2
            else:
                _, position = read_zigzag(data, position)
            key_at = position
            byte = data[position]  # the key
            position += 1
            if byte >= 128:
                length, position = read_zigzag(data, position - 1)
                byte = length << 1 if length >= 0 else 1
            key_end = position
            if byte & 1:
                null_key = True
            else:
                position += byte >> 1
            value_at = position
            byte = data[position]  # the value
            position += 1
            if byte >= 128:
                if (second := data[position]) < 128:
                    byte = byte & 127 | second << 7
                    position += 1
                else:
                    length, position = read_zigzag(data, position - 1)
                    byte = length << 1 if length >= 0 else 1
            value_end = position
            if not byte & 1:
                position += byte >> 1
            headers_at = position
            if data[position]:
                position = _skip_headers(data, position, end)
            else:
                position += 1
            if position != end:
                raise _invalid(f"Invalid record size in record {index}: it takes {position - start} bytes")
            if top is None or low is None:
                top = low = delta
            elif delta > top:
                top = delta
            elif delta < low:
                low = delta
            index += 1
            if index == 1 and count > _RUN_MIN and key_at - offset_at == 1 and not data[offset_at]:
                read = body_at, offset_at, key_at, key_end, value_at, value_end, headers_at, end
                stamps = _of_one_size(data, count, read)
                if stamps is not None:
                    runs = _Runs(data, claimed_delta)
                    runs.weigh([stamps])
                    return _extent(delta, delta, null_key, claimed_delta, runs)
            if index >= attempt_at and count - index >= _RUN_MIN:
                followers, enough = 0, _RUN_MIN
                timestamp, offset = range(body_at + 1, offset_at), range(offset_at, key_at)
                if data[end] == data[start]:
                    runs = runs or _Runs(data, claimed_delta)
                    fixed = [*range(start, body_at), *range(key_at, key_end), *range(value_at, value_end), headers_at]
                    if data[headers_at]:
                        fixed += _of_headers(data, headers_at)
                    followers = runs.follow(fixed, timestamp, offset, end - start, end, count - index)
                    position += followers * (end - start)
                if followers < _RUN_MIN and count - index >= _RAGGED_MIN and key_end - key_at == 1:
                    runs, enough = runs or _Runs(data, claimed_delta), _RAGGED_ENOUGH
                    places = start, body_at, offset_at, key_at, value_at, value_end, headers_at, end
                    ragged, position = runs.follow_ragged(places, position, count - index - followers)
                    followers += ragged
                index += followers
                if followers >= enough:
                    attempt_at = index
                else:
                    attempt_at = index + backoff
                    backoff *= 2
    except (IndexError, ValueError):
        raise _invalid("Found invalid record structure, or fewer records than declared") from None
    if position != size:
        raise _invalid("Incorrect declared batch size, records still remaining in file")
    if runs is None:
        return Extent(top or 0, low or 0, null_key)
    return _extent(top or 0, low or 0, null_key, claimed_delta, runs)


def _of_one_size(data: Readable, count: int, read: tuple[int, ...]) -> bytes | None:
    """The timestamp deltas of all records, if none but the first differs from it in size; None if any may.

    They differ in size by the byte more that the offset delta takes from the 65th on: the size of all of them says so.
    `read` are places in the first record: its body, its offset delta, key, behind the length of the key, value, behind
    its length, headers, and where it ends. Timestamp and offset delta take a byte each.
    """
    body_at, offset_at, key_at, key_end, value_at, value_end, headers_at, stride = read
    short = count if count < _SHORT_OFFSETS else _SHORT_OFFSETS
    more = count - short
    end = short * stride
    length = (stride - body_at + 1) << 1  # of a record with a longer offset delta, as it is written
    if (
        end + more * (stride + 1) != len(data)
        or offset_at != body_at + 2
        or count > _SHORT_OFFSETS * 128
        or (length < 128) is not (body_at == 1)
        or length >= _THREE_BYTES
    ):
        return None
    fixed = [*range(body_at), *range(key_at, key_end), *range(value_at, value_end), headers_at]
    if data[headers_at]:
        fixed += _of_headers(data, headers_at)
        if len(fixed) > _COLUMNS_MAX:
            return None
    for at in fixed:
        if data[at:end:stride] != _BYTES[data[at]] * short:
            return None
    evens = _even_numbers()
    stamps = bytes(data[body_at + 1 : end : stride])
    if data[offset_at:end:stride] != evens[0][:short] or not stamps.isascii():
        return None
    if not more:
        return stamps
    stride += 1
    lengths = (length,) if body_at == 1 else (length & 127 | 128, length >> 7)
    for at, byte in enumerate(lengths):
        if data[end + at :: stride] != _BYTES[byte] * more:
            return None
    for at in fixed[body_at:]:
        if data[end + at + 1 :: stride] != _BYTES[data[at]] * more:
            return None
    if data[end + offset_at :: stride] != evens[1][:more] or data[end + offset_at + 1 :: stride] != evens[2][:more]:
        return None
    last = bytes(data[end + body_at + 1 :: stride])
    return stamps + last if last.isascii() else None


@cache
def _even_numbers() -> tuple[bytes, bytes, bytes]:
    """Offset deltas as they are written: those of one byte, and of two bytes the first and the second ones."""
    short = bytes(range(0, 128, 2))
    return short, bytes(range(128, 256, 2)) * 127, b"".join([_BYTES[high] * _SHORT_OFFSETS for high in range(1, 128)])


def _invalid(message: str) -> InvalidBatch:
    return InvalidBatch(ErrorCode.INVALID_RECORD, message)


def _extent(largest: int, lowest: int, null_key: bool, claimed_delta: int, runs: _Runs) -> Extent:
    if runs.widest == 0:
        return Extent(largest, lowest, null_key)
    lowest = min(lowest, _LOWEST[runs.widest - 1])
    if runs.exceeded or largest > claimed_delta:
        return Extent(None, lowest, null_key)
    if runs.attained or largest == claimed_delta:
        return Extent(claimed_delta, lowest, null_key)
    return Extent(None, lowest, null_key)


def _skip_headers(data: Readable, position: int, end: int) -> int:
    count, position = read_zigzag(data, position)
    if count < 0:
        raise _invalid(f"Found invalid number of record headers {count}")
    for _ in range(count):
        if position >= end:
            raise _invalid(f"Found invalid number of record headers {count}")
        length, position = read_zigzag(data, position)
        if length < 0:
            raise _invalid(f"Invalid negative header key size {length}")
        length, position = read_zigzag(data, position + length)
        position += max(length, 0)
    return position


def _of_headers(data: Readable, headers_at: int) -> list[int]:
    """Where the lengths in the headers of a valid record lie, and what is behind the first byte of their count."""
    count, position = read_zigzag(data, headers_at)
    fixed = [*range(headers_at + 1, position)]
    for _ in range(2 * count):  # names and values
        if len(fixed) > _COLUMNS_MAX:
            break
        length, end = read_zigzag(data, position)
        fixed += range(position, end)
        position = end + max(length, 0)
    return fixed


class _Runs:
    """Runs of records of one shape, and how their timestamps compare with the largest that is claimed.

    A shape is where the structural bytes of a record lie. Its lengths and counts are the same bytes in each record of
    a run (`fixed`); timestamp and offset differ, but not in how many bytes they take.
    """

    def __init__(self, data: Readable, claimed_delta: int) -> None:
        self.data = data
        self.claimed = claimed_delta << 1
        self.exceeded = False
        self.attained = False
        self.widest = 0
        """Bytes of the widest timestamp delta in any run, 0 without a run."""
        self.length_bytes: int | None = None
        """How many bytes lengths take in the latest run of records of differing sizes; None: it was short."""

    def follow(self, fixed: list[int], timestamp: range, offset: range, stride: int, end: int, limit: int) -> int:
        """How many records behind the one of `stride` bytes that ends here have its shape; at most `limit`."""
        limit = min(limit, (len(self.data) - end) // stride)
        if len(timestamp) > len(_LOWEST) or len(fixed) > _COLUMNS_MAX:
            return 0
        followers = 0
        window = _WINDOW_FIRST
        while followers < limit:
            rows = min(window, limit - followers)
            alike = self._alike(fixed, timestamp, offset, stride, followers, rows)
            followers += alike
            if alike < rows:
                break
            window *= _WINDOW_GROWTH
        return followers

    def follow_ragged(self, read: tuple[int, ...], end: int, limit: int) -> tuple[int, int]:
        """How many records from `end` on have the shape of one that was read, but for their sizes, and where they end.

        `read` are places in that record: where it starts, its body, its offset delta, key and value, behind the length
        of its value, its headers, and where it ends.
        """
        ragged = _ragged()
        data = self.data
        start, body_at, offset_at, key_at, value_at, value_end, headers_at, read_end = read
        fixed = [headers_at, *(_of_headers(data, headers_at) if data[headers_at] else ())]
        widths = body_at - start, offset_at - body_at - 1, value_end - value_at
        if (
            max(widths) > _NUMBER_BYTES_MAX
            or len(fixed) > _COLUMNS_MAX
            or read_end - headers_at > ragged.TAIL_BYTES_MAX
        ):
            return 0, end
        shape = ragged.Shape(
            length_bytes=widths[0],
            timestamp_bytes=widths[1],
            offset_bytes=key_at - offset_at,
            null_key=data[key_at] == _NO_KEY,
            tail=bytes(data[headers_at:read_end]),
            fixed=tuple([place - headers_at for place in fixed]),
        )
        if shape.offset_bytes == 1:
            left = _SHORT_OFFSETS - 1 - (data[offset_at] >> 1)
            limit = min(limit, left) if left >= _RAGGED_MIN else limit  # the next one takes two bytes
        elif shape.offset_bytes > _OFFSET_BYTES_MAX:
            return 0, end
        length_bytes = self.length_bytes
        if length_bytes not in (ragged.EITHER, shape.length_bytes):
            length_bytes = ragged.length_bytes_of(data, shape, end)
        if length_bytes is None:
            return 0, end
        if length_bytes != shape.length_bytes:
            shape = replace(shape, length_bytes=length_bytes)
        followers = 0
        window = _RAGGED_WINDOW_FIRST
        while limit - followers >= _RUN_MIN:
            rows = limit - followers
            rows = rows if rows <= 2 * window else window
            found, end, stamps = ragged.alike(data, shape, end, rows)
            if found:
                self.weigh(stamps)
            followers += found
            if found < rows:
                break
            window *= _WINDOW_GROWTH
        self.length_bytes = length_bytes if followers >= _RAGGED_ENOUGH and shape.tail == _NO_TAIL else None
        return followers, end

    def _alike(self, fixed: list[int], timestamp: range, offset: range, stride: int, skipped: int, rows: int) -> int:
        """How many of these rows have the shape, counted up to the first that has not; their timestamps are weighed.

        So many rows were looked at before.
        """
        data = self.data
        first = (skipped + 1) * stride
        last = first + rows * stride
        for at in fixed:
            column = data[at + first : at + last : stride]
            if isinstance(column, memoryview):
                column = column.tobytes()
            byte = data[at]
            if column != _BYTES[byte] * rows:
                rows -= len(column.lstrip(_BYTES[byte]))
                if not rows:
                    return 0
                last = first + rows * stride
        stamps: list[bytes] = []
        for span in (offset, timestamp):
            stamps = []
            for at in span:
                column = data[at + first : at + last : stride]
                if isinstance(column, memoryview):
                    column = column.tobytes()
                stamps.append(column)
                if at == span[-1]:
                    if column.isascii():
                        continue
                    other = column.translate(_CONTINUED).find(1)
                else:
                    other = column.translate(_CONTINUED).find(0)
                if other == 0:
                    return 0
                if other > 0:
                    rows = other
                    last = first + rows * stride
        self.weigh([column[:rows] for column in stamps])
        return rows

    def weigh(self, columns: list[bytes]) -> None:
        width = len(columns)
        self.widest = max(self.widest, width)
        claimed = self.claimed
        if claimed < 0:
            self.exceeded = True
        elif width == 1:
            if claimed < 128:
                self.exceeded = self.exceeded or 1 in columns[0].translate(_EVEN_ABOVE[claimed])
                self.attained = self.attained or claimed in columns[0]
            # else: one byte cannot hold what is claimed
        elif claimed < 128:
            self.exceeded = self.exceeded or 1 in columns[0].translate(_EVEN)
        elif claimed < 16384:
            self._weigh_two(columns[0], columns[1], claimed & 127 | 128, claimed >> 7)

    def _weigh_two(self, low: bytes, high: bytes, claimed_low: int, claimed_high: int) -> None:
        same = _bits(high.translate(_EQUAL[claimed_high]))
        above = _bits(high.translate(_ABOVE[claimed_high])) & _bits(low.translate(_EVEN))
        above |= same & _bits(low.translate(_EVEN_ABOVE[claimed_low]))
        self.exceeded = self.exceeded or above != 0
        self.attained = self.attained or same & _bits(low.translate(_EQUAL[claimed_low])) != 0


@cache
def _ragged() -> ModuleType:
    from odradek.records import ragged  # not before there are such records

    return ragged


def _bits(column: bytes) -> int:
    """A column of zeros and ones as one number, so that `&` and `|` take all rows at once."""
    return int.from_bytes(column, "little")
