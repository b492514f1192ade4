"""Messages before format v2: those of old clients, and those that lie in a log of an old broker.

What old clients send becomes batches on arrival, as in Kafka since 4.0, and batches become message sets for them; the
conversions follow its `LogValidator` and `RecordsUtil`. A directory may hold older messages, too: they stay as they
are, and each message of the top level counts as a batch, as Kafka's `AbstractLegacyRecordBatch` has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odradek.records.batch import (
    COMPRESSION_MASK,
    LENGTH_BASE,
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
    whole_size_at,
)
from odradek.records.compression import DECOMPRESSED_BYTES_MAX, Compression
from odradek.records.message_set import (
    Message,
    iterate_messages,
    message_crc_is_valid,
    message_header,
    message_set,
    parse_message,
)
from odradek.records.record import BY_POSITION, Record, iterate_records
from odradek.wire.errors import ErrorCode

__all__ = [
    "OldBatch",
    "batch_at",
    "batches_of_log",
    "down_convert",
    "entries",
    "read_messages",
    "renumbered",
]

_NO_EPOCH = -1
_KNOWN_ATTRIBUTES = (0x07, 0x07 | LOG_APPEND_TIME)
"""By magic: codec, and of magic 1 the type of its timestamp."""


class OldBatch(Batch):
    """A message of the top level as a batch: it has no leader epoch, no producer, and a checksum of its own."""

    def older_records(self, limit: int) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
        return ((each.offset, each.timestamp, each.key, each.value) for each in _records_at(self.view, limit))

    def crc_is_valid(self) -> bool:
        return message_crc_is_valid(self.view, self.crc)


def _old_batch(view: memoryview, position: int = 0, *, limit: int = DECOMPRESSED_BYTES_MAX) -> OldBatch:
    """The whole message at `position`. Raises `InvalidBatch` if it is cut off.

    A wrapper names its last offset only, so it is decompressed for the first one; if it cannot be, it counts as a batch
    of one record, and reading that fails.
    """
    message, (offset, crc, magic, attributes, timestamp) = message_header(view, position)
    first, count = offset, 1
    if attributes & COMPRESSION_MASK:
        try:
            offsets = [record.offset for record in _records_at(message, limit)]
        except InvalidBatch:
            pass
        else:
            first, count = offsets[0], len(offsets)
    return OldBatch(
        view=message,
        base_offset=first,
        batch_length=len(message) - LENGTH_BASE,
        partition_leader_epoch=_NO_EPOCH,
        magic=magic,
        crc=crc,
        attributes=attributes & _KNOWN_ATTRIBUTES[magic],
        last_offset_delta=offset - first,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=count,
    )


def _records_at(view: memoryview, limit: int) -> Iterator[Record]:
    return iterate_messages(parse_message(view), limit=limit, checks=False)


def batch_at(view: memoryview, position: int = 0) -> Batch:
    """The batch at `position` of a log, which may be an older message. Raises `InvalidBatch`."""
    magic = view[position + MAGIC_AT : position + MAGIC_AT + 1]
    return _old_batch(view, position) if magic and magic[0] < MAGIC else parse_batch(view, position)


def batches_of_log(view: memoryview) -> Iterator[Batch]:
    """All whole batches and older messages, in order; a partial one at the end is no error."""
    position = 0
    while (size := whole_size_at(view, position)) is not None:
        yield batch_at(view, position)
        position += size


def entries(view: memoryview) -> Iterator[Batch | Message]:
    """All whole batches, and whole messages of the top level, in `view`."""
    position = 0
    while (size := whole_size_at(view, position)) is not None:
        yield parse_batch(view, position) if view[position + MAGIC_AT] == MAGIC else parse_message(view, position)
        position += size


def read_messages(view: memoryview, *, limit: int = DECOMPRESSED_BYTES_MAX) -> tuple[list[Message], list[Record]]:
    """The messages of a set and all their records, with the checks of Kafka for data of producers."""
    messages: list[Message] = []
    records: list[Record] = []
    compressed = False
    for entry in entries(view):
        if isinstance(entry, Batch) or (messages and entry.magic != messages[0].magic):
            raise InvalidBatch(ErrorCode.INVALID_RECORD, "Batch magic is not the same as the first batch's magic byte")
        if not entry.crc_is_valid():
            raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {entry.crc})")
        compressed = compressed or entry.compression is not Compression.NONE
        if compressed and messages:
            raise InvalidBatch(ErrorCode.INVALID_RECORD, "Compressed outer record has more than one batch")
        messages.append(entry)
        records += iterate_messages(entry, limit=limit)
    return messages, records


def renumbered(records: Sequence[Record]) -> list[Record]:
    """The same records without offsets, so that a new batch counts them from its base offset."""
    return [
        Record(BY_POSITION, record.timestamp, record.key, record.value, record.headers, record.sequence)
        for record in records
    ]


def down_convert(view: memoryview, magic: int, *, first_offset: int = 0, limit: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Batches of a log as a message set of magic 0 or 1; messages that are no newer than that stay as they are.

    Control batches and headers are left out: such clients know neither. Offsets stay. Of what is converted,
    uncompressed records before `first_offset` are left out too, compressed ones come as a whole.
    """
    out = bytearray()
    for batch in batches_of_log(view):
        if batch.is_control:
            continue
        if batch.magic <= magic:
            out += batch.view
            continue
        compression = batch.compression
        start = 0 if compression else first_offset
        records = [record for record in iterate_records(batch, limit=limit) if record.offset >= start]
        stamped = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
        out += message_set(
            records,
            magic=magic,
            compression=compression,
            timestamp_type=batch.timestamp_type,
            log_append_time=batch.max_timestamp if stamped else NO_TIMESTAMP,
        )
    return bytes(out)
