"""Message sets: the format before record batches of format v2 (KIP-31, KIP-32; magic 0 and 1).

A message is one record with an offset of its own. Compressed, a whole set is the value of one wrapper message; the
wrapper has the offset of its last record. In a wrapper of magic 0 offsets are absolute, of magic 1 they count from 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct as Layout
from zlib import crc32

from msgspec import Struct

from odradek.records import lz4_frame
from odradek.records.batch import (
    LOG_APPEND_TIME,
    MAGIC_AT,
    NO_TIMESTAMP,
    OLD_HEADERS,
    InvalidBatch,
    TimestampType,
    whole_size_at,
)
from odradek.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    Compression,
    Data,
    DecompressionError,
)
from odradek.records.record import Record
from odradek.wire.errors import ErrorCode

__all__ = ["Message", "iterate_messages", "message_set", "parse_message"]

# offset, length, checksum, magic, attributes; of magic 1 also the timestamp
_INT = Layout(">i")
_LENGTH_BASE = 12
_CHECKSUM_AT = 12
_COMPRESSION_MASK = 0x07
_CODECS = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)
"""The codecs of the old formats, by number: zstd came later (KIP-110)."""


class Message(Struct, gc=False):
    """One message on the top level of a set: a record, or a wrapper of compressed ones."""

    view: memoryview
    offset: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: memoryview | None

    @property
    def size(self) -> int:
        return len(self.view)

    @property
    def compression(self) -> Compression:
        """The codec. Raises `InvalidBatch` for one that these formats do not have."""
        number = self.attributes & _COMPRESSION_MASK
        if number >= len(_CODECS):
            reason = f"Unknown compression type id in a message of magic {self.magic}: {number}"
            raise InvalidBatch(ErrorCode.UNKNOWN_SERVER_ERROR, reason)
        return _CODECS[number]

    @property
    def timestamp_type(self) -> TimestampType | None:
        """None for magic 0, which has no timestamps."""
        if self.magic == 0:
            return None
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME else TimestampType.CREATE_TIME

    def crc_is_valid(self) -> bool:
        return message_crc_is_valid(self.view, self.crc)


def message_crc_is_valid(message: memoryview, crc: int) -> bool:
    return crc32(message[MAGIC_AT:]) == crc


def message_header(view: memoryview, position: int = 0) -> tuple[memoryview, tuple[int, int, int, int, int]]:
    """The whole message at `position`; and its offset, checksum, magic, attributes, and timestamp (ms).

    Raises `InvalidBatch` if it is cut off, or none of magic 0 or 1.
    """
    size = whole_size_at(view, position)
    if size is None:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, "The message is cut off")
    message = view[position : position + size]
    magic = message[MAGIC_AT]
    if magic >= len(OLD_HEADERS):
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"A batch of magic {magic} among older messages")
    # The smallest message of magic 0 is as long as the header of magic 1.
    offset, _, crc, _, attributes, *rest = OLD_HEADERS[magic].unpack_from(message)
    return message, (offset, crc, magic, attributes, rest[0] if rest else NO_TIMESTAMP)


def parse_message(view: memoryview, position: int = 0) -> Message:
    """Parse the whole message at `position`. Raises `InvalidBatch` if its sizes are wrong."""
    message, (offset, crc, magic, attributes, timestamp) = message_header(view, position)
    layout = OLD_HEADERS[magic]
    if len(message) < layout.size + 2 * _INT.size:
        reason = f"Record is corrupt (a message of magic {magic} cannot have {len(message)} bytes)"
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, reason)
    key, at = _sized(message, layout.size)
    value, _ = _sized(message, at)
    return Message(message, offset, crc, magic, attributes, timestamp, None if key is None else bytes(key), value)


def _sized(message: memoryview, at: int) -> tuple[memoryview | None, int]:
    start = at + _INT.size
    if start > len(message):
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, "A field of the message has no size")
    (length,) = _INT.unpack_from(message, at)
    if length < 0:
        return None, start
    if start + length > len(message):
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"A field of {length} bytes is longer than its message")
    return message[start : start + length], start + length


def iterate_messages(message: Message, *, limit: int = DECOMPRESSED_BYTES_MAX, checks: bool = True) -> Iterator[Record]:
    """The records of one message of the top level: the message itself, or the messages in a wrapper.

    With `checks` the checksums in a wrapper have to be right, as Kafka wants it of producers; in a log it does not
    look at them.
    """
    if message.compression is Compression.NONE:
        yield Record(message.offset, message.timestamp, message.key, _bytes(message.value))
        return
    inner = _unwrap(message, limit, checks=checks)
    shift = 0
    if message.magic == 1 and inner and message.offset:
        # Some librdkafka releases leave the wrapper's offset 0.
        shift = message.offset - inner[-1].offset
    for each in inner:
        timestamp = message.timestamp if message.attributes & LOG_APPEND_TIME and message.magic else each.timestamp
        yield Record(each.offset + shift, timestamp, each.key, _bytes(each.value))


def _bytes(data: memoryview | None) -> bytes | None:
    return None if data is None else bytes(data)


def _unwrap(wrapper: Message, limit: int, *, checks: bool) -> list[Message]:
    if wrapper.value is None:
        reason = f"Found invalid compressed record set with null value (magic = {wrapper.magic})"
        raise InvalidBatch(ErrorCode.INVALID_RECORD, reason)
    from odradek.records.compressors import decompress

    codec = wrapper.compression
    data: Data = wrapper.value
    try:
        if codec is Compression.LZ4 and wrapper.magic == 0:
            data = lz4_frame.with_checksum(wrapper.value)
        view = memoryview(decompress(codec, data, limit=limit))
    except DecompressionError as error:
        raise InvalidBatch(error.error, str(error)) from None
    except ValueError as error:
        raise InvalidBatch(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None
    inner: list[Message] = []
    position = 0
    while (size := whole_size_at(view, position)) is not None:
        message = parse_message(view, position)
        _check_inner(message, wrapper)
        if checks and not message.crc_is_valid():
            raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {message.crc})")
        inner.append(message)
        position += size
    if not inner:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "Found invalid compressed record set without records")
    return inner


def _check_inner(message: Message, wrapper: Message) -> None:
    if message.magic != wrapper.magic:
        reason = f"Compressed message magic {message.magic} does not match wrapper magic {wrapper.magic}"
        raise InvalidBatch(ErrorCode.INVALID_RECORD, reason)
    if message.compression is not Compression.NONE:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "Inner record with a compression attribute set")


def message_set(
    records: Sequence[Record],
    *,
    magic: int,
    compression: Compression = Compression.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time: int = NO_TIMESTAMP,
) -> bytes:
    """These records, with their offsets, as messages of magic 0 or 1, which have no headers."""
    assert magic in (0, 1), f"messages have no magic {magic}"
    if compression not in _CODECS:
        reason = f"{compression.name.lower()} cannot be written in messages of magic {magic}"
        raise InvalidBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, reason)
    if not records:
        return b""
    stamped = timestamp_type is TimestampType.LOG_APPEND_TIME
    attributes = LOG_APPEND_TIME if magic and stamped else 0
    shift = records[0].offset if magic and compression else 0
    out = bytearray()
    for record in records:
        timestamp = log_append_time if stamped else record.timestamp
        out += _message(magic, record.offset - shift, attributes, timestamp, record.key, record.value)
    if compression is Compression.NONE:
        return bytes(out)
    from odradek.records.compressors import compress

    value: Data = compress(compression, out)
    if compression is Compression.LZ4 and magic == 0:
        value = lz4_frame.with_old_checksum(memoryview(value))
    timestamp = log_append_time if stamped else max(record.timestamp for record in records)
    return bytes(_message(magic, records[-1].offset, attributes | compression, timestamp, None, value))


def _message(
    magic: int, offset: int, attributes: int, timestamp: int, key: bytes | None, value: Data | None
) -> bytearray:
    layout = OLD_HEADERS[magic]
    out = bytearray(layout.size)
    for data in (key, value):
        out += _INT.pack(-1 if data is None else len(data))
        out += data or b""
    times = (timestamp,) if magic else ()
    layout.pack_into(out, 0, offset, len(out) - _LENGTH_BASE, 0, magic, attributes, *times)
    out[_CHECKSUM_AT:MAGIC_AT] = crc32(memoryview(out)[MAGIC_AT:]).to_bytes(4)
    return out
