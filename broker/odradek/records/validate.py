"""A leader's checks of the records of a Produce request, with Kafka's error for each fault.

The order is Kafka's: the request (`ProduceRequest.validateRecords`), the log (`UnifiedLog.analyzeAndValidateRecords`),
the batch and its records (`LogValidator`). The usual batch is proven right by its header and `structure.scan`, and goes
on as it came; only what that proof leaves open is read record by record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from odradek.records.batch import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Batch,
    InvalidBatch,
    TimestampType,
    parse_batch,
    record_payload,
    stamp,
    whole_size_at,
)
from odradek.records.compression import DECOMPRESSED_BYTES_MAX, Compression, Payload
from odradek.records.record import Record, build_batch, records_in
from odradek.records.structure import Extent, scan
from odradek.records.varint import Readable
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.records.message_set import Message

__all__ = ["RecordError", "Rejected", "TakesLong", "TopicRules", "Validated", "validate_produce"]

T = TypeVar("T")

RecordError = tuple[int, str]
"""Index of a record in its batch, and its error."""

_BATCHES_ONLY_VERSION = 3  # Produce v3 came with format v2 (KIP-98)
_ZSTD_VERSION = 7  # KIP-110
_SHOWN_ERRORS = 3

BYTES_AT_ONCE = 4 << 20
RECORDS_AT_ONCE = 10_000
MESSAGES_AT_ONCE_BYTES = 64 << 10
"""Limits of work of about 10 ms: decompressed bytes, records, and bytes of messages of an older format."""
COPIED_BYTES = 32 << 10
COPIED_RECORD_BYTES = 512
"""A batch from this size on, with records of this size on average, is looked at where it lies: a copy takes longer."""

_TARGETS = {
    "producer": None,
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class TopicRules(Struct, frozen=True):
    """The settings of a topic that its leaders check records against; names and defaults are Kafka's."""

    name: str = ""
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = 2**63 - 1
    message_timestamp_after_max_ms: int = 3_600_000
    compacted: bool = False
    compression_type: str = "producer"
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX


class Validated(Struct):
    """A batch to append: the view that came, unless the topic's settings demanded another."""

    batch: Batch
    log_append_time: int = NO_TIMESTAMP
    """The log append time in the response: set only if the broker sets the topic's timestamps."""


class Rejected(Struct, frozen=True):
    """Records that are refused."""

    error: ErrorCode
    message: str | None
    """The message for the client: Kafka has one only for errors of single records."""
    record_errors: tuple[RecordError, ...] = ()
    reason: str = ""
    """For the event log."""
    of_request: bool = False
    """The request itself is wrong: Kafka does not get as far as the log, and its answer has no log start offset."""


class TakesLong(Exception):
    """These records take longer to check than a broker may spend on one client while others wait."""


def validate_produce(
    records: memoryview | None,
    *,
    produce_version: int,
    topic: TopicRules,
    now: int,
    partition: int = 0,
    at_once: bool = False,
) -> Validated | Rejected:
    """The batch to append, or the error; `now` is in ms.

    Raises `TakesLong` if it must be done `at_once` and cannot.
    """
    try:
        batch = _batch_of_request(records, produce_version)
    except InvalidBatch as invalid:
        told = invalid.message if invalid.error is ErrorCode.CORRUPT_MESSAGE else None
        return Rejected(invalid.error, told, (), invalid.message, of_request=True)
    try:
        if batch is None:
            assert records is not None, "a missing set is refused"
            return _convert(records, topic, now, partition, at_once=at_once)
        _check_header(batch, topic)
        return _validate(batch, topic, now, partition, at_once=at_once)
    except InvalidBatch as invalid:
        return Rejected(invalid.error, None, (), invalid.message)


# The request


def _batch_of_request(records: memoryview | None, version: int) -> Batch | None:
    """The one batch of the request; None for messages of an older format from an older client."""
    if records is None:
        raise _invalid("Produce request without records")
    try:
        batch = parse_batch(records)
    except InvalidBatch:
        batch = None
    if batch is None or batch.batch_length + 12 != len(records):
        return _first_batch(records, version)
    if version < _ZSTD_VERSION:
        _refuse_zstd(batch, version)
    return batch


def _refuse_zstd(batch: Batch, version: int) -> None:
    if batch.attributes & 7 == Compression.ZSTD:
        reason = f"Produce requests with version {version} are not allowed to use ZStandard compression"
        raise InvalidBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, reason)


def _first_batch(records: memoryview, version: int) -> Batch | None:
    """The first batch of records that are not exactly one batch; bytes cut off at the end do not count."""
    size = whole_size_at(records, 0)
    if size is None:
        raise _invalid(f"Produce requests with version {version} must contain at least one record batch per partition")
    if records[MAGIC_AT] != MAGIC:
        if version < _BATCHES_ONLY_VERSION:
            return None
        raise _invalid(
            f"Produce requests with version {version} are only allowed to contain record batches with magic 2"
        )
    batch = parse_batch(records)
    if version < _ZSTD_VERSION:
        _refuse_zstd(batch, version)
    if whole_size_at(records, size) is not None:
        raise _invalid(f"Produce requests with version {version} are only allowed to contain exactly one record batch")
    return batch


def _invalid(reason: str) -> InvalidBatch:
    return InvalidBatch(ErrorCode.INVALID_RECORD, reason)


# The log, and the header


def _check_header(batch: Batch, topic: TopicRules) -> None:
    if batch.base_offset != 0:
        raise _invalid(f"The baseOffset of the record batch should be 0, but it is {batch.base_offset}")
    if batch.batch_length + 12 > topic.max_message_bytes:
        raise _too_large(batch.size, topic)
    if not batch.crc_is_valid():
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {batch.crc})")
    if batch.record_count != batch.last_offset_delta + 1 or batch.record_count <= 0:
        raise _invalid(
            f"Inconsistent batch offset range [0, {batch.last_offset_delta}] and count of records {batch.record_count}"
        )
    if batch.attributes & CONTROL:
        raise _invalid("Clients are not allowed to write control records")
    if batch.base_sequence < 0 and batch.producer_id >= 0:
        raise _invalid(f"Invalid sequence number {batch.base_sequence} with producerId {batch.producer_id}")


def _too_large(size: int, topic: TopicRules) -> InvalidBatch:
    reason = (
        f"The record batch size is {size} bytes which exceeds the maximum configured value of {topic.max_message_bytes}"
    )
    return InvalidBatch(ErrorCode.MESSAGE_TOO_LARGE, reason)


# The records


def _validate(batch: Batch, topic: TopicRules, now: int, partition: int, *, at_once: bool) -> Validated | Rejected:
    if at_once and (batch.record_count > RECORDS_AT_ONCE or batch.batch_length > BYTES_AT_ONCE):
        raise TakesLong
    limit = topic.decompressed_bytes_max
    data: Readable
    if not batch.attributes & COMPRESSION_MASK:
        data = batch.view[HEADER_BYTES:]
        if batch.batch_length < COPIED_BYTES or batch.batch_length < COPIED_RECORD_BYTES * batch.record_count:
            data = bytes(data)
    elif at_once:
        data = _expand_at_once(lambda most: record_payload(batch, limit=most), limit)
    else:
        data = record_payload(batch, limit=limit)
    extent = scan(data, batch.record_count, batch.max_timestamp - batch.base_timestamp)
    creates_time = topic.message_timestamp_type == "CreateTime"
    if creates_time and _is_plain(batch, extent, topic, now):
        return Validated(batch)
    if isinstance(data, memoryview):
        data = bytes(data)
    if not creates_time and not batch.attributes & LOG_APPEND_TIME and not (topic.compacted and extent.null_key):
        return _stored(batch, data, topic, now, now)
    records = list(records_in(batch, data))
    rejected = _record_errors(batch, records, topic, now, partition)
    if rejected is not None:
        return rejected
    return _stored(batch, data, topic, max(NO_TIMESTAMP, *(record.timestamp for record in records)), now)


def _expand_at_once(expand: Callable[[int], T], limit: int) -> T:
    """Expand within a limit. Raises `TakesLong` if the data exceeds `BYTES_AT_ONCE` and the limit allows more."""
    if limit <= BYTES_AT_ONCE:
        return expand(limit)
    try:
        return expand(BYTES_AT_ONCE)
    except InvalidBatch as invalid:
        if invalid.error is ErrorCode.MESSAGE_TOO_LARGE:
            raise TakesLong from None
        raise


def _is_plain(batch: Batch, extent: Extent, topic: TopicRules, now: int) -> bool:
    """Proof that no record can be at fault and that nothing has to be rewritten."""
    delta = extent.max_delta
    return (
        delta is not None
        and NO_TIMESTAMP <= batch.max_timestamp == batch.base_timestamp + delta
        and batch.max_timestamp - now <= topic.message_timestamp_after_max_ms
        and now - batch.base_timestamp - extent.min_delta <= topic.message_timestamp_before_max_ms
        and not batch.attributes & LOG_APPEND_TIME
        and not (extent.null_key and topic.compacted)
        and (topic.compression_type == "producer" or _TARGETS[topic.compression_type] == batch.attributes & 7)
    )


def _record_errors(
    batch: Batch | Message, records: Sequence[Record], topic: TopicRules, now: int, partition: int
) -> Rejected | None:
    """Every record that Kafka would refuse; one such record refuses the batch."""
    earliest = now - topic.message_timestamp_before_max_ms
    latest = now + topic.message_timestamp_after_max_ms
    create_time = topic.message_timestamp_type == "CreateTime"
    stamped = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    error = ErrorCode.INVALID_RECORD
    found: list[RecordError] = []
    for index, record in enumerate(records):
        if record.key is None and topic.compacted:
            where = f"topic partition {topic.name}-{partition}"
            found.append((index, f"Compacted topic cannot accept message without key in {where}"))
        elif create_time and record.timestamp != NO_TIMESTAMP:
            if not earliest <= record.timestamp <= latest:
                error = ErrorCode.INVALID_TIMESTAMP
                found.append((index, _out_of_range(record, earliest, latest)))
        elif stamped:
            error = ErrorCode.INVALID_TIMESTAMP
            found.append((index, _wrong_type(record)))
    return Rejected(error, _summary(error, found), tuple(found), _summary(error, found)) if found else None


def _out_of_range(record: Record, earliest: int, latest: int) -> str:
    return (
        f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. "
        f"The timestamp should be within [{earliest}, {latest}]"
    )


def _wrong_type(record: Record) -> str:
    sizes = (
        f"key={'null' if record.key is None else f'{len(record.key)} bytes'}, "
        f"value={'null' if record.value is None else f'{len(record.value)} bytes'}"
    )
    shown = f"DefaultRecord(offset={record.offset}, timestamp={record.timestamp}, {sizes})"
    return f"Invalid timestamp type in message {shown}. Producer should not set timestamp type to LogAppendTime."


def _summary(error: ErrorCode, found: Sequence[RecordError]) -> str:
    if error is ErrorCode.INVALID_TIMESTAMP:
        return "One or more records have been rejected due to invalid timestamp"
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index, text in found[:_SHOWN_ERRORS])
    return (
        f"One or more records have been rejected due to {len(found)} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )


# Records that are stored in place of those that came


def _stored(batch: Batch, data: Payload, topic: TopicRules, max_timestamp: int, now: int) -> Validated:
    """A copy of the batch with the topic's compression and timestamps."""
    stamped = topic.message_timestamp_type != "CreateTime"
    target = _TARGETS[topic.compression_type]
    if target is None or target == batch.compression:
        copy = bytearray(batch.view)
        max_timestamp = now if stamped else max_timestamp
        stamp(copy, 0, base_offset=0, leader_epoch=-1, max_timestamp=max_timestamp, log_append_time=stamped)
    else:
        copy = _rebuilt(list(records_in(batch, data)), topic, target, now, source=batch)
    return _finished(copy, topic, now)


def _rebuilt(
    records: Sequence[Record], topic: TopicRules, target: Compression, now: int, *, source: Batch | None
) -> bytearray:
    from odradek.records.legacy import renumbered

    stamped = topic.message_timestamp_type != "CreateTime"
    batch = build_batch(
        renumbered(records),
        compression=target,
        producer_id=NO_PRODUCER_ID if source is None else source.producer_id,
        producer_epoch=NO_PRODUCER_EPOCH if source is None else source.producer_epoch,
        base_sequence=NO_SEQUENCE if source is None else source.base_sequence,
        transactional=source is not None and source.is_transactional,
        timestamp_type=TimestampType.LOG_APPEND_TIME if stamped else TimestampType.CREATE_TIME,
        max_timestamp=now if stamped else None,
    )
    return bytearray(batch)


def _finished(copy: bytearray, topic: TopicRules, now: int) -> Validated:
    if len(copy) > topic.max_message_bytes:  # compressed in another way it may have grown
        raise _too_large(len(copy), topic)
    batch = parse_batch(memoryview(copy).toreadonly())
    return Validated(batch, now if batch.attributes & LOG_APPEND_TIME else NO_TIMESTAMP)


def _convert(view: memoryview, topic: TopicRules, now: int, partition: int, *, at_once: bool) -> Validated | Rejected:
    """Messages of magic 0 or 1, from clients before 0.11, as one batch."""
    from odradek.records.legacy import read_messages  # clients of today send none

    if at_once and len(view) > MESSAGES_AT_ONCE_BYTES:
        raise TakesLong
    limit = topic.decompressed_bytes_max
    if at_once:
        messages, records = _expand_at_once(lambda most: read_messages(view, limit=most), limit)
    else:
        messages, records = read_messages(view, limit=limit)
    largest = max(message.size for message in messages)
    if largest > topic.max_message_bytes:
        raise _too_large(largest, topic)
    rejected = _record_errors(messages[0], records, topic, now, partition)
    if rejected is not None:
        return rejected
    target = _TARGETS[topic.compression_type]
    target = messages[0].compression if target is None else target
    return _finished(_rebuilt(records, topic, target, now, source=None), topic, now)
