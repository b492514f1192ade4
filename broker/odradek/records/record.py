"""Single records: read from a batch, and built into one.

Brokers pass batches through unopened; coordinators, compaction, old clients and tests come here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from odradek.records.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    Batch,
    InvalidBatch,
    TimestampType,
    increment_sequence,
    record_payload,
    write_header,
)
from odradek.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    Compression,
    Payload,
)
from odradek.records.varint import read_zigzag, read_zigzag_long, write_zigzag
from odradek.wire.errors import ErrorCode

__all__ = ["BY_POSITION", "Header", "Record", "build_batch", "iterate_records", "record_size", "records_in"]

Header = tuple[str, bytes | None]

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_NULL = 1
"""The length of a null field, as it is written."""

BY_POSITION = -1
"""In place of an offset: the record follows the one before it."""


class Record(Struct, frozen=True):
    """One record; to build a batch, leave the offset out and it follows the record before."""

    offset: int = BY_POSITION
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
    sequence: int = NO_SEQUENCE


def iterate_records(batch: Batch, *, limit: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """All records of the batch. Raises `InvalidBatch` if they do not fit the header."""
    if batch.magic != MAGIC:
        return (Record(*fields) for fields in batch.older_records(limit))
    return records_in(batch, record_payload(batch, limit=limit))


def records_in(batch: Batch, data: Payload) -> Iterator[Record]:
    """The records of the batch, from a payload that is decompressed already."""
    if batch.record_count < 0:
        raise _invalid(f"Found invalid record count {batch.record_count} in magic v2 batch")
    position = 0
    for _ in range(batch.record_count):
        if position >= len(data):
            raise _invalid("Incorrect declared batch size, premature EOF reached")
        record, position = _read_record(data, position, batch)
        yield record
    if position != len(data):
        raise _invalid("Incorrect declared batch size, records still remaining in file")


def _invalid(message: str) -> InvalidBatch:
    return InvalidBatch(ErrorCode.INVALID_RECORD, message)


def _read_record(data: Payload, position: int, batch: Batch) -> tuple[Record, int]:
    # Most numbers take one byte, and are read in place.
    try:
        byte, start = data[position], position + 1
        if byte < 128:
            length = (byte >> 1) ^ -(byte & 1)
        else:
            length, start = read_zigzag(data, position)
        end = start + length
        if length < 0 or end > len(data):
            raise _invalid(f"Invalid record size: expected {length} bytes, {len(data) - start} are there")
        byte, position = data[start + 1], start + 2
        if byte < 128:
            timestamp = (byte >> 1) ^ -(byte & 1)
        else:
            timestamp, position = read_zigzag_long(data, start + 1)
        byte = data[position]
        if byte < 128:
            offset = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            offset, position = read_zigzag(data, position)
        key: bytes | None
        if data[position] == _NULL:
            key, position = None, position + 1
        else:
            key, position = _read_nullable(data, position, end)
        value, position = _read_nullable(data, position, end)
        if data[position] == 0:
            headers: tuple[Header, ...] = ()
            position += 1
        else:
            headers, position = _read_headers(data, position, end)
    except (IndexError, ValueError):
        raise _invalid("Found invalid record structure") from None
    if position != end:
        raise _invalid(f"Invalid record size: expected to read {length} bytes, but instead read {position - start}")
    if batch.attributes & LOG_APPEND_TIME:
        timestamp = batch.max_timestamp
    else:
        timestamp += batch.base_timestamp
        if not _LOWEST <= timestamp <= _HIGHEST:
            timestamp = _wrapped(timestamp)
    sequence = batch.base_sequence
    if sequence != NO_SEQUENCE:
        sequence = increment_sequence(sequence, offset)
    return Record(batch.base_offset + offset, timestamp, key, value, headers, sequence), end


def _wrapped(timestamp: int) -> int:
    """Java's overflow, for extreme timestamps."""
    if _LOWEST <= timestamp <= _HIGHEST:
        return timestamp
    return (timestamp + (1 << 63)) % (1 << 64) - (1 << 63)


def _read_nullable(data: Payload, position: int, end: int) -> tuple[bytes | None, int]:
    byte = data[position]
    if byte < 128:
        length = (byte >> 1) ^ -(byte & 1)
        position += 1
    else:
        length, position = read_zigzag(data, position)
    if length < 0:
        return None, position
    stop = position + length
    if stop > end:
        raise ValueError("a field is longer than its record")
    return data[position:stop], stop


def _read_headers(data: Payload, position: int, end: int) -> tuple[tuple[Header, ...], int]:
    count, position = read_zigzag(data, position)
    if count == 0:
        return (), position
    # A header takes two bytes at least, so a wrong count costs no memory.
    if count < 0 or count > end - position:
        raise _invalid(f"Found invalid number of record headers {count}")
    headers: list[Header] = []
    for _ in range(count):
        name, position = _read_nullable(data, position, end)
        if name is None:
            raise _invalid("Invalid negative header key size")
        value, position = _read_nullable(data, position, end)
        headers.append((name.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), position


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = -1,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    delete_horizon_ms: int | None = None,
    last_offset: int | None = None,
) -> bytes:
    """One batch with these records, byte for byte as Kafka's builder writes it.

    By default the timestamps come from the records, and the last offset is that of the last record. Compaction keeps
    the last offset of a batch that it thins out, so a batch may end behind its last record or hold none.
    """
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
    elif base_timestamp is None:
        base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    payload = bytearray()
    offset = base_offset - 1
    for record in records:
        offset = offset + 1 if record.offset == BY_POSITION else record.offset
        _write_record(payload, record, _wrapped(record.timestamp - base_timestamp), offset - base_offset)
    if compression is not Compression.NONE:
        from odradek.records.compressors import compress

        payload = bytearray(compress(compression, payload))
    batch = bytearray(HEADER_BYTES) + payload
    write_header(
        batch,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=compression
        | (LOG_APPEND_TIME if timestamp_type else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
        | (DELETE_HORIZON if delete_horizon_ms is not None else 0),
        last_offset_delta=(offset if last_offset is None else last_offset) - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return bytes(batch)


def record_size(record: Record, *, timestamp_delta: int, offset_delta: int) -> int:
    """Bytes of a record in a batch that is not compressed."""
    written = bytearray()
    _write_record(written, record, timestamp_delta, offset_delta)
    return len(written)


def _write_record(out: bytearray, record: Record, timestamp_delta: int, offset_delta: int) -> None:
    body = bytearray(1)  # attributes: none are defined
    write_zigzag(body, timestamp_delta)
    write_zigzag(body, offset_delta)
    _write_nullable(body, record.key)
    _write_nullable(body, record.value)
    write_zigzag(body, len(record.headers))
    for name, value in record.headers:
        _write_nullable(body, name.encode("utf-8", "surrogateescape"))
        _write_nullable(body, value)
    write_zigzag(out, len(body))
    out += body


def _write_nullable(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(1)  # -1
        return
    write_zigzag(out, len(data))
    out += data
