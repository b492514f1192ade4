"""Facts about the transactions of a partition, for the event log."""

from __future__ import annotations

from odradek.core.machine import Fact
from odradek.log.producers import Completed
from odradek.records.batch import Batch

__all__ = ["marker_facts", "opened_fact", "stable_offset_fact"]


def opened_fact(topic: str, partition: int, batch: Batch, *, offset: int) -> Fact:
    """A transaction has begun in the partition with this batch."""
    return Fact(
        "transaction_opened",
        {
            "topic": topic,
            "partition": partition,
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "offset": offset,
        },
    )


def marker_facts(
    topic: str, partition: int, batch: Batch, *, offset: int, commit: bool, completed: Completed | None
) -> list[Fact]:
    """A marker was written, and has ended a transaction if there was one."""
    fields: dict[str, object] = {
        "topic": topic,
        "partition": partition,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "offset": offset,
        "commit": commit,
    }
    facts = [Fact("marker_written", fields)]
    if completed is not None:
        facts.append(Fact("transaction_closed", fields | {"first_offset": completed.first_offset}))
    return facts


def stable_offset_fact(topic: str, partition: int, *, high_watermark: int, last_stable_offset: int) -> Fact:
    """The last stable offset has moved."""
    return Fact("lso_moved", {"topic": topic, "partition": partition, "hw": high_watermark, "lso": last_stable_offset})
