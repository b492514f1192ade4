"""Fetched records as a read_committed consumer reads them; written from KIP-98, not from the code of the broker."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.records.batch import Batch
from odradek.records.batch import batches as batches_in
from odradek.records.control import read_marker
from odradek.records.record import iterate_records
from odradek.wire.messages.fetch_response import PartitionData

__all__ = ["batches_of", "committed_batches", "committed_values", "kind_of"]


def batches_of(data: PartitionData) -> list[Batch]:
    """The whole batches of a fetched partition."""
    return list(batches_in(memoryview(data.records or b"")))


def kind_of(batch: Batch) -> str:
    """`data`, `COMMIT` or `ABORT`."""
    if not batch.is_control:
        return "data"
    marker = read_marker(batch)
    assert marker is not None
    return "COMMIT" if marker.commit else "ABORT"


def committed_values(data: PartitionData, batches: Sequence[Batch] | None = None) -> list[bytes | None]:
    """The values of records that belong to no aborted transaction."""
    read = committed_batches(data, batches_of(data) if batches is None else batches)
    return [record.value for batch, is_seen in read if is_seen for record in iterate_records(batch)]


def committed_batches(data: PartitionData, batches: Sequence[Batch]) -> list[tuple[Batch, bool]]:
    """The data batches, each with False if the response lists its transaction as aborted."""
    waiting = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
    skipping: set[int] = set()
    read: list[tuple[Batch, bool]] = []
    for batch in batches:
        while waiting and waiting[0][0] <= batch.last_offset:
            skipping.add(waiting.pop(0)[1])
        if batch.is_control:
            if kind_of(batch) == "ABORT":
                skipping.discard(batch.producer_id)
        else:
            read.append((batch, not (batch.is_transactional and batch.producer_id in skipping)))
    return read
