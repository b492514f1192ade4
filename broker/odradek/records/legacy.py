"""Old clients: their message sets become batches on arrival, and batches become message sets for them.

Logs hold format v2 only, as in Kafka since 4.0; the conversions follow its `LogValidator` and `RecordsUtil`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odradek.records.batch import (
    NO_TIMESTAMP,
    Batch,
    InvalidBatch,
    TimestampType,
    batches,
    parse_batch,
    whole_size_at,
)
from odradek.records.compression import DECOMPRESSED_BYTES_MAX, Compression
from odradek.records.message_set import Message, iterate_messages, message_set, parse_message
from odradek.records.record import BY_POSITION, Record, iterate_records
from odradek.wire.errors import ErrorCode

__all__ = ["down_convert", "entries", "read_messages", "renumbered"]

_MAGIC_AT = 16
_V2 = 2


def entries(view: memoryview) -> Iterator[Batch | Message]:
    """All whole batches, and whole messages of the top level, in `view`."""
    position = 0
    while (size := whole_size_at(view, position)) is not None:
        yield parse_batch(view, position) if view[position + _MAGIC_AT] == _V2 else parse_message(view, position)
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
    """Batches of a log as a message set of magic 0 or 1.

    Control batches and headers are left out: such clients know neither. Offsets stay. Uncompressed records before
    `first_offset` are left out too, compressed ones come as a whole.
    """
    out = bytearray()
    for batch in batches(view):
        if batch.is_control:
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
