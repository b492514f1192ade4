"""The index of aborted transactions of one log, which a `read_committed` consumer must skip (KIP-98)."""

from __future__ import annotations

from bisect import bisect_left

from msgspec import Struct

__all__ = ["AbortedIndex", "AbortedTransaction"]


class AbortedTransaction(Struct, frozen=True):
    """An aborted transaction: from its first record to its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    """The last stable offset of the partition when the marker had been written."""


class AbortedIndex:
    """Aborted transactions in the order of their markers."""

    def __init__(self) -> None:
        self.entries: list[AbortedTransaction] = []
        self._last_offsets: list[int] = []

    def adopt(self, other: AbortedIndex) -> None:
        """Have the transactions that another index has."""
        self.entries, self._last_offsets = other.entries[:], other._last_offsets[:]

    def copy(self) -> AbortedIndex:
        """An index with the same transactions."""
        copy = AbortedIndex()
        copy.adopt(self)
        return copy

    def append(self, entry: AbortedTransaction) -> None:
        assert not self._last_offsets or entry.last_offset > self._last_offsets[-1]
        self.entries.append(entry)
        self._last_offsets.append(entry.last_offset)

    def overlapping(self, *, start: int, until: int) -> list[tuple[int, int]]:
        """Producer id and first offset of each transaction that reaches into the offsets from `start` to `until`.

        The search ends at a marker that left everything up to `until` stable: later transactions began behind it.
        """
        found: list[tuple[int, int]] = []
        for index in range(bisect_left(self._last_offsets, start), len(self.entries)):
            entry = self.entries[index]
            if entry.first_offset < until:
                found.append((entry.producer_id, entry.first_offset))
            if entry.last_stable_offset >= until:
                break
        return found

    def truncate_end(self, offset: int) -> None:
        """Forget the transactions whose marker lies at or behind this offset."""
        index = bisect_left(self._last_offsets, offset)
        del self.entries[index:], self._last_offsets[index:]

    def truncate_start(self, offset: int) -> None:
        """Forget the transactions whose marker lies before this offset."""
        index = bisect_left(self._last_offsets, offset)
        del self.entries[:index], self._last_offsets[:index]

    def remove(self, marker_offsets: set[int]) -> None:
        """Forget the transactions of these markers: compaction has removed their last records."""
        self.entries = [entry for entry in self.entries if entry.last_offset not in marker_offsets]
        self._last_offsets = [entry.last_offset for entry in self.entries]
