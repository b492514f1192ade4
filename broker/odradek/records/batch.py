"""A record batch, format v2: its header, over a memoryview (KIP-98, "Message Format"), and the batches of brokers.

The payload stays opaque on its way through a broker; `record.py` reads it.
Only offset and leader epoch lie outside the checksum, so a leader can stamp them without computing it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from struct import Struct as Layout
from struct import error as LayoutError  # noqa: N812 - struct's own name says nothing
from typing import Protocol

from crc32c import crc32c
from msgspec import Struct

from odradek.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    Compression,
    DecompressionError,
    Payload,
)
from odradek.records.varint import write_zigzag
from odradek.wire.errors import ErrorCode

__all__ = [
    "COMPRESSION_MASK",
    "CONTROL",
    "DELETE_HORIZON",
    "HEADER",
    "HEADER_BYTES",
    "LENGTH_BASE",
    "LOG_APPEND_TIME",
    "MAGIC",
    "MAGIC_AT",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "OLD_HEADERS",
    "TRANSACTIONAL",
    "Batch",
    "InvalidBatch",
    "KeyValue",
    "TimestampType",
    "batch_of",
    "batches",
    "increment_sequence",
    "parse_batch",
    "payload_of",
    "plain_batch",
    "record_payload",
    "stamp",
    "whole_size_at",
    "write_header",
]

MAGIC = 2
HEADER_BYTES = 61

# base offset, length, leader epoch, magic, checksum, attributes, last offset delta, base and max timestamp,
# producer id and epoch, base sequence, record count
HEADER = Layout(">qiibIhiqqqhii")
_unpack_header = HEADER.unpack_from
_LENGTH = Layout(">i")
_OFFSET = Layout(">q")
_TIMES = Layout(">hiqq")
_CHECKSUM = Layout(">I")

_LENGTH_AT = 8
_EPOCH_AT = 12
MAGIC_AT = 16
"""Where the magic of a batch stands, and of an older message; the checksum of the latter covers all from there on."""
OLD_HEADERS = (Layout(">qiIbb"), Layout(">qiIbbq"))
"""Of messages of magic 0 and 1: offset, length, checksum, magic, attributes, and of magic 1 the timestamp."""
_CHECKSUM_AT = 17
_ATTRIBUTES_AT = 21  # the checksum covers everything from here on
LENGTH_BASE = 12  # the length field counts what follows it
_LENGTH_MIN = 14  # the smallest message of the oldest format

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
_SEQUENCE_MAX = 2**31 - 1


class TimestampType(IntEnum):
    """The origin of a batch's timestamps: its producer, or the broker that appended it."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class InvalidBatch(Exception):
    """Bytes that are no valid record batch, with Kafka's error code for them."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def increment_sequence(sequence: int, increment: int) -> int:
    """The sequence number `increment` steps later: 0 follows 2147483647."""
    return (sequence + increment) & _SEQUENCE_MAX


class Batch(Struct, gc=False):
    """The header fields of one batch and the view of exactly this batch."""

    view: memoryview
    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LENGTH_BASE

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & _SEQUENCE_MAX

    @property
    def compression(self) -> Compression:
        """The codec. Raises `InvalidBatch` for an unknown codec id."""
        try:
            return Compression(self.attributes & COMPRESSION_MASK)
        except ValueError:
            unknown = self.attributes & COMPRESSION_MASK
            raise InvalidBatch(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown compression type id: {unknown}") from None

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the tombstones of this batch (KIP-534); it lives in the base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    def payload(self) -> memoryview:
        """The bytes of the records, compressed if the batch is compressed."""
        return self.view[HEADER_BYTES:]

    def older_records(self, limit: int) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
        """Offset, timestamp, key and value of each record of a message of magic 0 or 1, which `OldBatch` is."""
        raise AssertionError(f"a batch of format v2, or of magic {self.magic}, is none; at most {limit} bytes")

    def crc_is_valid(self) -> bool:
        return crc32c(self.view[_ATTRIBUTES_AT:]) == self.crc


def parse_batch(view: memoryview, position: int = 0) -> Batch:
    """Parse the batch at `position`. Raises `InvalidBatch` if there is no whole batch of format v2."""
    try:
        header = _unpack_header(view, position)
    except LayoutError:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, "The record batch is shorter than its header") from None
    end = position + LENGTH_BASE + header[1]
    if header[3] != MAGIC or header[1] < HEADER_BYTES - LENGTH_BASE or end > len(view):
        raise _no_batch(header[1], header[3])
    return Batch(view[position:end], *header)


def _no_batch(length: int, magic: int) -> InvalidBatch:
    if magic != MAGIC:
        return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
    size = length + LENGTH_BASE
    if size < HEADER_BYTES:
        reason = (
            f"Record batch is corrupt (the size {size} is smaller than the minimum allowed overhead {HEADER_BYTES})"
        )
        return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, reason)
    return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"The record batch of {size} bytes is cut off")


def whole_size_at(view: memoryview, position: int) -> int | None:
    """Size of the batch (or old message) at `position`; None if it is not wholly there.

    The order of the checks is that of Kafka's `ByteBufferLogInputStream`.
    """
    remaining = len(view) - position
    if remaining < LENGTH_BASE:
        return None
    (length,) = _LENGTH.unpack_from(view, position + _LENGTH_AT)
    if length < _LENGTH_MIN:
        reason = f"Record size {length} is less than the minimum record overhead ({_LENGTH_MIN})"
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, reason)
    if remaining <= MAGIC_AT:
        return None
    magic = int.from_bytes(view[position + MAGIC_AT : position + MAGIC_AT + 1], signed=True)
    if not 0 <= magic <= MAGIC:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
    size: int = length + LENGTH_BASE
    return size if size <= remaining else None


def batches(view: memoryview) -> Iterator[Batch]:
    """All whole batches, in order; a partial one at the end is no error, as in a fetched response."""
    position = 0
    while (size := whole_size_at(view, position)) is not None:
        yield parse_batch(view, position)
        position += size


def stamp(
    buffer: bytearray | memoryview,
    position: int,
    *,
    base_offset: int,
    leader_epoch: int,
    max_timestamp: int | None = None,
    log_append_time: bool = False,
) -> None:
    """Write the fields that the leader sets into the batch at `position`.

    Without `max_timestamp` the bytes under the checksum stay; with it timestamp type and maximum are set, and the
    checksum is computed again only if they were different.
    """
    _OFFSET.pack_into(buffer, position, base_offset)
    _LENGTH.pack_into(buffer, position + _EPOCH_AT, leader_epoch)
    if max_timestamp is None:
        return
    attributes, last_offset_delta, base_timestamp, old = _TIMES.unpack_from(buffer, position + _ATTRIBUTES_AT)
    wanted = attributes | LOG_APPEND_TIME if log_append_time else attributes & ~LOG_APPEND_TIME
    if wanted == attributes and old == max_timestamp:
        return
    _TIMES.pack_into(buffer, position + _ATTRIBUTES_AT, wanted, last_offset_delta, base_timestamp, max_timestamp)
    (length,) = _LENGTH.unpack_from(buffer, position + _LENGTH_AT)
    _write_checksum(buffer, position, position + LENGTH_BASE + length)


def write_header(
    buffer: bytearray,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
) -> None:
    """Fill the first 61 bytes of a buffer that ends where the batch ends, checksum included."""
    HEADER.pack_into(
        buffer,
        0,
        base_offset,
        len(buffer) - LENGTH_BASE,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    _write_checksum(buffer, 0, len(buffer))


def _write_checksum(buffer: bytearray | memoryview, position: int, end: int) -> None:
    with memoryview(buffer) as whole, whole[position + _ATTRIBUTES_AT : end] as covered:
        checksum = crc32c(covered)
    _CHECKSUM.pack_into(buffer, position + _CHECKSUM_AT, checksum)


def record_payload(batch: Batch, *, limit: int = DECOMPRESSED_BYTES_MAX) -> Payload:
    """The decompressed bytes of a batch's records. Raises `InvalidBatch` if that fails or exceeds the limit."""
    if not batch.attributes & COMPRESSION_MASK:
        return bytes(batch.view[HEADER_BYTES:])
    from odradek.records.compressors import decompress

    try:
        return decompress(batch.compression, batch.view[HEADER_BYTES:], limit=limit)
    except DecompressionError as error:
        raise InvalidBatch(error.error, str(error)) from None


# Uncompressed, no headers, all records of one moment. Coordinators and the ends of transactions append one with every
# decision, so they are put together from ready pieces, and what was put together is not taken apart again: the header
# comes with the bytes. The bytes are those of `build_batch`, which takes every kind of batch.

_LEADER_EPOCH = -1
"""Stamped by the log."""
_NOT_COVERED, _COVERED = Layout(">qiibI"), Layout(">hiqqqhii")
"""The fields of the header up to the checksum, and those that it covers: from the attributes on."""
_SMALL = 1024


def _varint(value: int) -> bytes:
    out = bytearray()
    write_zigzag(out, value)
    return bytes(out)


_VARINTS = tuple(map(_varint, range(_SMALL)))
_NULL = _varint(-1)


class KeyValue(Protocol):
    """The key and value of a record, which are all that brokers write.

    A Protocol: records that were read and those of machines, which are in `core`, both are one.
    """

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...


def plain_batch(
    records: Sequence[KeyValue],
    *,
    timestamp: int,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    compression: Compression = Compression.NONE,
) -> Batch:
    """One batch with these records at offset 0, none of them earlier or later than `timestamp` (ms)."""
    count = len(records)
    payload = record_of(records[0]) if count == 1 else payload_of(records)
    if compression:
        attributes |= compression
        from odradek.records.compressors import compress

        payload = compress(compression, payload)
    return batch_of(payload, count, timestamp, attributes, producer_id, producer_epoch, base_sequence)


def payload_of(records: Sequence[KeyValue]) -> bytes:
    """The records as they lie in a batch."""
    return b"".join([record_of(record, delta) for delta, record in enumerate(records)])


def record_of(record: KeyValue, delta: int = 0) -> bytes:
    """A record as it lies in a batch, at this offset in it."""
    key, value = record.key, record.value
    if key is None:
        key_length, key = _NULL, b""
    else:
        size = len(key)
        key_length = _VARINTS[size] if size < _SMALL else _varint(size)
    if value is None:
        value_length, value = _NULL, b""
    else:
        size = len(value)
        value_length = _VARINTS[size] if size < _SMALL else _varint(size)
    place = _VARINTS[delta] if delta < _SMALL else _varint(delta)
    # Attributes and timestamp delta in front, the number of headers behind, are each one byte of zero.
    body = b"\0\0" + place + key_length + key + value_length + value + b"\0"
    size = len(body)
    return (_VARINTS[size] if size < _SMALL else _varint(size)) + body


def batch_of(
    payload: bytes,
    count: int,
    timestamp: int,
    attributes: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int = NO_SEQUENCE,
) -> Batch:
    """One batch with this many records, whose bytes are these."""
    last = count - 1
    covered = (
        _COVERED.pack(attributes, last, timestamp, timestamp, producer_id, producer_epoch, base_sequence, count)
        + payload
    )
    length = HEADER_BYTES - LENGTH_BASE + len(payload)
    checksum = crc32c(covered)
    return Batch(
        memoryview(_NOT_COVERED.pack(0, length, _LEADER_EPOCH, MAGIC, checksum) + covered),
        0,
        length,
        _LEADER_EPOCH,
        MAGIC,
        checksum,
        attributes,
        last,
        timestamp,
        timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
