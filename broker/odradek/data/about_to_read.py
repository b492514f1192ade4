"""Partitions that a client is about to read: it has asked where they begin or diverge, and has not fetched them since.

librdkafka asks for the offset of each partition by itself and begins to fetch with the first answer; Java's consumer
asks about the epoch of a committed offset, and fetches other partitions meanwhile. At the end of those the Fetch would
wait for records, and hold back the others for `fetch.max.wait.ms` (500 ms).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from odradek.data.fetch_sessions import SessionPartition

__all__ = ["SHORT_WAIT_MS", "AboutToRead"]

SHORT_WAIT_MS = 10
"""How long a Fetch waits for records at most while its client is about to read other partitions."""
SHORT_WAITS = 10
"""So many are short; a client that has not fetched the others until then has asked for another reason."""
PARTITIONS_MAX = 1000
"""A connection that asks for more offsets is a tool, not a consumer."""


class _Listed(Struct):
    partitions: set[tuple[str, int]]
    short_waits: int = SHORT_WAITS


class AboutToRead:
    """The partitions by connection; most connections have none."""

    def __init__(self) -> None:
        self._by_conn: dict[int, _Listed] = {}

    def __len__(self) -> int:
        """The number of connections that are about to read something."""
        return len(self._by_conn)

    def listed(self, conn: int, partitions: Iterable[tuple[str, int]]) -> None:
        """The client knows where these partitions begin or end."""
        known = self._by_conn.get(conn)
        both = {*partitions} if known is None else {*partitions, *known.partitions}
        if len(both) > PARTITIONS_MAX:
            self._by_conn.pop(conn, None)
        elif both:
            self._by_conn[conn] = _Listed(both)

    def fetched(self, conn: int, partitions: Iterable[SessionPartition]) -> None:
        known = self._by_conn.get(conn)
        if known is not None:
            known.partitions.difference_update((each.topic, each.index) for each in partitions)
            if not known.partitions:
                del self._by_conn[conn]

    def shortens(self, conn: int) -> bool:
        """Whether a Fetch that is about to wait for records waits for a short time only."""
        known = self._by_conn.get(conn)
        if known is None:
            return False
        known.short_waits -= 1
        if not known.short_waits:
            del self._by_conn[conn]
        return True

    def gone(self, conn: int) -> None:
        """The connection has ended."""
        self._by_conn.pop(conn, None)
