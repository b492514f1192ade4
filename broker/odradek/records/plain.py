"""Batches as brokers write them themselves: uncompressed, no headers, all records of one moment.

Coordinators and the ends of transactions append one with every decision, so they are put together from ready pieces,
and what was put together is not taken apart again: the header comes with the bytes.
The bytes are those of `build_batch`, which takes every kind of batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct as Layout
from typing import Protocol

from crc32c import crc32c

from odradek.records.batch import (
    HEADER,
    HEADER_BYTES,
    LENGTH_BASE,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Batch,
)
from odradek.records.compression import Compression, compress
from odradek.records.varint import write_zigzag

__all__ = ["KeyValue", "batch_of", "payload_of", "plain_batch"]

_LEADER_EPOCH = -1
"""Stamped by the log."""
_COVERED = Layout(">hiqqqhii")
"""The fields of the header that the checksum covers: from the attributes on."""
_SMALL = 1024


def _varint(value: int) -> bytes:
    out = bytearray()
    write_zigzag(out, value)
    return bytes(out)


_VARINTS = tuple(map(_varint, range(_SMALL)))
_NULL = _varint(-1)


class KeyValue(Protocol):
    """A record by what matters of it."""

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
    compression: Compression = Compression.NONE,
) -> Batch:
    """One batch with these records at offset 0, none of them earlier or later than `timestamp` (ms)."""
    count = len(records)
    payload = record_of(records[0]) if count == 1 else payload_of(records)
    if compression:
        attributes |= compression
        payload = compress(compression, payload)
    return batch_of(
        payload,
        count,
        timestamp=timestamp,
        attributes=attributes,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


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
    payload: bytes, count: int, *, timestamp: int, attributes: int, producer_id: int, producer_epoch: int
) -> Batch:
    """One batch with this many records, whose bytes are these."""
    last = count - 1
    covered = _COVERED.pack(attributes, last, timestamp, timestamp, producer_id, producer_epoch, NO_SEQUENCE, count)
    header = (
        0,
        HEADER_BYTES - LENGTH_BASE + len(payload),
        _LEADER_EPOCH,
        MAGIC,
        crc32c(covered + payload),
        attributes,
        last,
        timestamp,
        timestamp,
        producer_id,
        producer_epoch,
        NO_SEQUENCE,
        count,
    )
    return Batch(memoryview(HEADER.pack(*header) + payload), *header)
