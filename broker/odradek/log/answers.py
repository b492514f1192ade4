"""The answers of a partition as values; refusals are `machine.Refused`."""

from __future__ import annotations

from typing import final

from msgspec import Struct

from odradek.log.guards import Guard

__all__ = [
    "ISOLATION_LEVELS",
    "READ_COMMITTED",
    "AlreadyOpen",
    "Appended",
    "Duplicate",
    "Guard",
    "ProducerDescription",
    "ReadResult",
]


READ_UNCOMMITTED, READ_COMMITTED = 0, 1
ISOLATION_LEVELS = (READ_UNCOMMITTED, READ_COMMITTED)
"""All levels: Kafka refuses requests with any other one."""


class Appended(Struct, frozen=True, gc=False):
    """The records are in the log."""

    base_offset: int
    next_offset: int
    log_append_time: int
    log_start_offset: int


@final
class Duplicate(Struct, frozen=True, gc=False):
    """The batch is in the log already: the answer to its first append."""

    base_offset: int
    next_offset: int
    log_append_time: int
    log_start_offset: int


class AlreadyOpen(Struct, frozen=True):
    """The producer's transaction is open in this partition: append at once."""


class ReadResult(Struct, frozen=True, gc=False):
    """The result of a read; `aborted`: pairs of producer id and first offset, None if not reading committed."""

    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]] | None


class ProducerDescription(Struct, frozen=True):
    """A producer as DescribeProducers shows it; -1 stands for none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int
