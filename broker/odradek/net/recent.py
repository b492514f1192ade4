"""The newest events of a cluster, kept in memory; as lines they are the event file."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.core.event_line import event_head, event_line
from odradek.net.clock import Clock

if TYPE_CHECKING:
    from odradek.broker import EventSink
    from odradek.core.machine import Fact

__all__ = ["EVENTS_MAX", "Happened", "Recent"]

EVENTS_MAX = 10_000
NOBODY = -1
"""The node of a line that is no broker's."""


class Happened(Struct, frozen=True, gc=False):
    """An event that is kept."""

    seq: int
    """Its number, from 1."""
    ts_ns: int
    """By the monotonic clock of the process."""
    at_ms: int
    """By the brokers' clock."""
    node: int
    fact: Fact


class Recent:
    """The newest events, numbered from 1; an `EventSink` that passes everything on to `also`.

    Storing an event costs next to nothing; it is processed when it is read.
    """

    def __init__(
        self, now: Callable[[], int] | None = None, *, size: int = EVENTS_MAX, also: EventSink | None = None
    ) -> None:
        self._now = now or Clock().now
        """The current time of the brokers (ms)."""
        self._also = also
        self._size = size
        self._kept: deque[tuple[int, int, int, tuple[Fact, ...]]] = deque()
        """The facts of one step, with their times and their node."""
        self._kept_first = 1
        """The number of the first event in the first of these."""
        self._last = 0
        self.start = 0
        """The number of the last event of the cluster's start; later ones are caused by clients and tests."""
        self.newest_ms = 0
        """The times of the newest events, by the brokers' clock."""

    @property
    def last(self) -> int:
        """The number of the newest event; 0 before the first."""
        return self._last

    @property
    def first(self) -> int:
        """The number of the oldest event that is kept; one more than `last` if none is."""
        return max(self._kept_first, self._last - self._size + 1)

    def emit(self, node_id: int, facts: Iterable[Fact]) -> None:
        """Store the facts of a node."""
        facts, kept = tuple(facts), self._kept
        self.newest_ms = self._now()
        kept.append((time.monotonic_ns(), self.newest_ms, node_id, facts))
        self._last += len(facts)
        surplus = self._last - self._kept_first + 1 - self._size
        while surplus > 0 and len(kept[0][3]) <= surplus:
            count = len(kept.popleft()[3])
            self._kept_first += count
            surplus -= count
        if self._also is not None:
            self._also.emit(node_id, facts)

    def started(self, now: Callable[[], int]) -> None:
        """The cluster has started, and has this clock."""
        self._now = now
        self.start = self._last

    def behind(self, kind: str, fields: Mapping[str, object]) -> bytes:
        """Add a line behind `lines` that is no broker's, with the current time."""
        ts_ns, wall_ns = time.monotonic_ns(), time.time_ns()
        return event_line(
            event_head(ts_ns=ts_ns, wall_ns=wall_ns, seq=self.last + 1, node=NOBODY, kind=kind) | dict(fields)
        )

    def after(self, seq: int) -> Iterator[Happened]:
        """The events above this number that are kept, in order."""
        begin, number = max(seq + 1, self.first), self._last + 1
        told: list[tuple[int, tuple[int, int, int, tuple[Fact, ...]]]] = []
        # Starts at the newest: a reader that keeps up pays for the new events only.
        for each in reversed(self._kept):
            if number <= begin:
                break
            number -= len(each[3])
            told.append((number, each))
        return (
            Happened(first + index, ts_ns, at_ms, node, fact)
            for first, (ts_ns, at_ms, node, facts) in reversed(told)
            for index, fact in enumerate(facts)
            if first + index >= begin
        )

    def lines(self) -> Iterator[bytes]:
        """All stored events, as lines of an event file."""
        wall_ns = time.time_ns() - time.monotonic_ns()
        for each in self.after(0):
            head = event_head(
                ts_ns=each.ts_ns, wall_ns=each.ts_ns + wall_ns, seq=each.seq, node=each.node, kind=each.fact.kind
            )
            yield event_line(head | each.fact.fields | each.fact.body)
