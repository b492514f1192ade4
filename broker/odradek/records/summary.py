"""Summary of records without their contents: the headers of their batches."""

from __future__ import annotations

from msgspec import Struct

from odradek.records.batch import CONTROL, HEADER, HEADER_BYTES, LENGTH_BASE, MAGIC, TRANSACTIONAL

__all__ = ["BATCHES_MAX", "RecordsSummary", "summary_of"]

BATCHES_MAX = 100
"""The headers of so many batches are read; a consumer may be given thousands."""


class RecordsSummary(Struct, frozen=True, kw_only=True, gc=False, rename="camel", omit_defaults=True):
    """The batches of one partition in a request or response, as JSON shows them.

    What is not known is absent: of batches in the formats before v2 only the bytes are.
    """

    bytes: int
    batches: int | None = None
    records: int | None = None
    base_offset: int | None = None
    """Of the first batch; 0 in requests of producers."""
    producer_id: int | None = None
    """Epoch and sequence are those of the first batch; -1 without a producer."""
    producer_epoch: int | None = None
    base_sequence: int | None = None
    transactional: bool | None = None
    """Whether a batch is."""
    control: bool | None = None
    """Whether a batch holds a marker."""
    unread_bytes: int | None = None
    """Number of bytes behind the batches that were read."""


def summary_of(records: bytes | bytearray | memoryview) -> RecordsSummary:
    """The summary of whole batches; invalid bytes, and those of an older format, are counted as unread."""
    size = len(records)
    position = batches = count = attributes = 0
    first = None
    while batches < BATCHES_MAX and position + HEADER_BYTES <= size:
        header = HEADER.unpack_from(records, position)
        if header[3] != MAGIC or header[1] < HEADER_BYTES - LENGTH_BASE:
            break
        first = first or header
        attributes |= header[5]
        count += header[12]
        batches += 1
        position += header[1] + LENGTH_BASE
    if first is None:
        return RecordsSummary(bytes=size)
    return RecordsSummary(
        bytes=size,
        batches=batches,
        records=count,
        base_offset=first[0],
        producer_id=first[9],
        producer_epoch=first[10],
        base_sequence=first[11],
        transactional=bool(attributes & TRANSACTIONAL),
        control=bool(attributes & CONTROL),
        unread_bytes=size - position if position < size else None,
    )
