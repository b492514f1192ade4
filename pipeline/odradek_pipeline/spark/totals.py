"""What an audit wants to know of all batches of a partition, counted by the workers that read them.

A task hands on one row for each range in place of having the batches read once more from their table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from odradek.records.batch import LOG_APPEND_TIME
from odradek_pipeline.logs.headers import Chunk, digest
from odradek_pipeline.logs.layout import TRANSACTION_STATE

__all__ = ["FAR", "Totals", "by_partition"]

FAR = (1 << 63) - 1


@dataclass(slots=True)
class Totals:
    """Of the batches of a partition, or of a range; -1 where there is none of the kind."""

    end: int = -1
    """The highest last offset."""
    newest: int = -1
    """The newest time, ms."""
    oldest: int = FAR
    """The oldest time of a batch, ms."""
    clock: int = -1
    """The newest that is not later than the time on the wall."""
    written: int = -1
    """The newest of these that a broker gave."""
    producer: int = -1
    """The highest producer id."""
    batches: int = 0
    markers: int = 0
    data: int = 0
    """How many batches of data producers with ids wrote."""
    digest: int = 0
    """Which these are, and at which offsets."""

    def add(self, chunk: Chunk, not_after: int) -> None:
        """The batches of a chunk."""
        columns = chunk.columns
        times, markers = columns["max_timestamp"], columns["marker_type"] >= 0
        given = markers | ((columns["attributes"] & LOG_APPEND_TIME) != 0) | (chunk.file.topic == TRANSACTION_STATE)
        data = (columns["producer_id"] >= 0) & ~markers & (columns["record_count"] > 0)
        of_chunk = Totals(
            _highest(columns["last_offset"]),
            _highest(times),
            int(np.min(times)) if len(times) else FAR,
            _highest(times[times <= not_after]),
            _highest(times[given & (times <= not_after)]),
            _highest(columns["producer_id"]),
            len(chunk),
            int(markers.sum()),
            int(data.sum()),
            digest(columns["base_offset"][data], columns["crc"][data]),
        )
        self.join(of_chunk)

    def join(self, other: Totals) -> None:
        """Of both."""
        for name in ("end", "newest", "clock", "written", "producer"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))
        self.oldest = min(self.oldest, other.oldest)
        for name in ("batches", "markers", "data"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.digest ^= other.digest

    def text(self) -> str:
        """As a column of a table has it."""
        return json.dumps(asdict(self))


def _highest(values: Any) -> int:
    return int(np.max(values)) if len(values) else -1


def by_partition(rows: Iterable[tuple[str, int, str]]) -> dict[tuple[str, int], Totals]:
    """The totals of partitions, of those of their ranges as text."""
    found: dict[tuple[str, int], Totals] = {}
    for topic, partition, text in rows:
        found.setdefault((topic, partition), Totals()).join(Totals(**json.loads(text)))
    return found
