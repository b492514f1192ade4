"""ListOffsets over one log: the special timestamps, and the first record at or after a time."""

from __future__ import annotations

from msgspec import Struct

from odradek.log.epochs import NO_EPOCH, NO_OFFSET
from odradek.log.log import Log
from odradek.records.batch import NO_TIMESTAMP, Batch, InvalidBatch, TimestampType
from odradek.records.record import iterate_records

__all__ = [
    "EARLIEST",
    "EARLIEST_LOCAL",
    "EARLIEST_PENDING_UPLOAD",
    "LATEST",
    "LATEST_TIERED",
    "MAX_TIMESTAMP",
    "UNKNOWN",
    "OffsetAnswer",
    "find_offset",
    "offsets_before",
]

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
"""KIP-734."""
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
"""KIP-405 and KIP-1005: without tiered storage everything is local and nothing is tiered."""
EARLIEST_PENDING_UPLOAD = -6
"""KIP-1023."""


class OffsetAnswer(Struct, frozen=True):
    """An offset with its record's timestamp and leader epoch; -1 for missing values."""

    offset: int
    timestamp: int
    leader_epoch: int


UNKNOWN = OffsetAnswer(NO_OFFSET, NO_TIMESTAMP, NO_EPOCH)


def find_offset(log: Log, timestamp: int, *, visible_end: int, leader_epoch: int) -> OffsetAnswer:
    """The answer for one timestamp; records from `visible_end` on are not visible to the reader."""
    if timestamp == LATEST:
        return OffsetAnswer(visible_end, NO_TIMESTAMP, leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return OffsetAnswer(log.start_offset, NO_TIMESTAMP, log.epochs.epoch_of(log.start_offset))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return UNKNOWN
    found = _greatest(log) if timestamp == MAX_TIMESTAMP else _first_since(log, timestamp)
    # An invisible record counts as none; the next visible one would be the wrong answer.
    return found if found.offset < visible_end else UNKNOWN


def offsets_before(log: Log, timestamp: int, *, visible_end: int) -> list[int]:
    """Offsets at which segments begin that are not younger than this, newest first; `LATEST` counts the end as one."""
    begins = [
        (max(segment.base_offset, log.start_offset), max(segment.max_timestamp, segment.created))
        for segment in log.segments
    ]
    if timestamp == LATEST or not begins:
        return [visible_end, *(offset for offset, _ in reversed(begins))]
    if timestamp == EARLIEST:
        return [log.start_offset]
    return [offset for offset, youngest in reversed(begins) if youngest <= timestamp]


def _greatest(log: Log) -> OffsetAnswer:
    batch = log.with_max_timestamp()
    if batch is None or not batch.magic:  # which has no timestamps
        return UNKNOWN
    return _first_in(batch, batch.max_timestamp, start=batch.base_offset) or UNKNOWN


def _first_since(log: Log, timestamp: int) -> OffsetAnswer:
    for batch in log.first_with_timestamp(timestamp):
        found = _first_in(batch, timestamp, start=log.start_offset)
        if found is not None:
            return found
    return UNKNOWN


def _first_in(batch: Batch, timestamp: int, *, start: int) -> OffsetAnswer | None:
    epoch = batch.partition_leader_epoch
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME and batch.record_count > batch.last_offset_delta:
        # All records of the batch have the same time and none was compacted away, so it need not be opened.
        return OffsetAnswer(max(batch.base_offset, start), batch.max_timestamp, epoch)
    try:
        for record in iterate_records(batch):
            if record.offset >= start and record.timestamp >= timestamp:
                return OffsetAnswer(record.offset, record.timestamp, epoch)
    except InvalidBatch:
        return OffsetAnswer(max(batch.base_offset, start), batch.max_timestamp, epoch)
    return None
