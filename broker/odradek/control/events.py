"""The events of a cluster, the newest of them, for whoever follows; a slow reader is told what it has missed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from odradek.control.messages.events import EventBody

if TYPE_CHECKING:
    from odradek.log.machine import Fact
    from odradek.node.node import EventSink

__all__ = ["EVENTS_MAX", "EventRing"]

EVENTS_MAX = 10_000
FEW = 64


class EventRing:
    """The newest events, numbered from 1; an `EventSink` that passes everything on to `also`."""

    def __init__(self, now: Callable[[], int], *, size: int = EVENTS_MAX, also: EventSink | None = None) -> None:
        self._now = now
        self._also = also
        self._size = size
        self._events: deque[EventBody] = deque()
        self._by_kind: dict[str, deque[EventBody]] = {}
        """The same events; within a kind in the same order."""
        self._last = 0
        self._changed: asyncio.Event | None = None
        self.ended = False
        """Whether the cluster is gone: nothing follows."""

    @property
    def last(self) -> int:
        """The number of the newest event; 0 before the first."""
        return self._last

    @property
    def first(self) -> int:
        """The number of the oldest event that is kept; one more than `last` if none is."""
        return self._last - len(self._events) + 1

    def emit(self, node_id: int, facts: Iterable[Fact]) -> None:
        """Keep what a node tells."""
        listed = list(facts)
        now = self._now()
        for fact in listed:
            self._last += 1
            self._keep(EventBody(seq=self._last, at_ms=now, node=node_id, kind=fact.kind, fields=fact.fields))
        if self._also is not None:
            self._also.emit(node_id, listed)
        self.wake()

    def _keep(self, event: EventBody) -> None:
        if len(self._events) == self._size:
            oldest = self._events.popleft()
            self._by_kind[oldest.kind].popleft()
        self._events.append(event)
        of_kind = self._by_kind.get(event.kind)
        if of_kind is None:
            of_kind = self._by_kind[event.kind] = deque()
        of_kind.append(event)

    def last_of(self, kind: str) -> int:
        """The number of the newest event of this kind that is kept; 0 if there is none."""
        events = self._by_kind.get(kind)
        return events[-1].seq if events else 0

    def of_kind(self, kind: str, seq: int) -> list[EventBody]:
        """The events of this kind above this number that are kept, in order; costs what there are of them."""
        newest_first = takewhile(lambda event: event.seq > seq, reversed(self._by_kind.get(kind, ())))
        return list(newest_first)[::-1]

    def after(self, seq: int) -> Iterator[EventBody]:
        """The events above this number that are kept, in order."""
        events, last = self._events, self._last
        if last - seq <= FEW:
            # Who keeps up pays for what is new, and not for a walk along the whole ring.
            return iter([events[each - last - 1] for each in range(max(seq + 1, self.first), last + 1)])
        return islice(events, max(0, seq + 1 - self.first), None)

    def wake(self) -> None:
        """Have everybody who waits look again."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def end(self) -> None:
        """The cluster is gone: who follows stops."""
        self.ended = True
        self.wake()

    async def changed(self, timeout_s: float) -> None:
        """Return when something may have changed, or after so long."""
        if self._changed is None:
            self._changed = asyncio.Event()
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return
