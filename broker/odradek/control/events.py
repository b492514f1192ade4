"""The newest events of a cluster, for clients that follow them; a slow reader learns how many it has missed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from odradek.control.messages.events import EventBody
from odradek.net.recent import EVENTS_MAX, Happened, Recent

if TYPE_CHECKING:
    from odradek.broker import EventSink
    from odradek.core.machine import Fact

__all__ = ["EVENTS_MAX", "EventRing", "event_body"]


class EventRing:
    """The newest events, numbered from 1; an `EventSink` that passes everything on to `also`."""

    def __init__(
        self, now: Callable[[], int] | None = None, *, size: int = EVENTS_MAX, also: EventSink | None = None
    ) -> None:
        self.recent = Recent(now, size=size, also=also)
        self._of_kind: dict[str, deque[Happened]] = {}
        """The same events by kind, in order; rare kinds may have some that are no longer stored otherwise."""
        self._sorted = 0
        """The number of the last event in the index by kind: newer ones are added to it at the next question."""
        self._changed: asyncio.Event | None = None
        self.ended = False
        """Whether the cluster has ended, so that no event follows."""

    @property
    def last(self) -> int:
        """The number of the newest event; 0 before the first."""
        return self.recent.last

    @property
    def first(self) -> int:
        """The number of the oldest stored event; one more than `last` if none is stored."""
        return self.recent.first

    def emit(self, node_id: int, facts: Iterable[Fact]) -> None:
        """Store the facts of a node."""
        self.recent.emit(node_id, facts)
        if self._of_kind and self._sorted < self.first:
            self._of_kind.clear()  # no reader has asked since, and the index would only have dropped events
        if self._changed is not None:
            self.wake()

    def _by_kind(self, kind: str) -> deque[Happened]:
        """The events of a kind; first those since the last question are added to the index."""
        first = self.first
        for event in self.recent.after(self._sorted):
            self._sorted = event.seq
            events = self._of_kind.get(event.fact.kind)
            if events is None:
                events = self._of_kind[event.fact.kind] = deque()
            events.append(event)
            while events[0].seq < first:
                events.popleft()
        return self._of_kind.get(kind, deque())

    def last_of(self, kind: str) -> int:
        """The number of the newest stored event of this kind; 0 if there is none."""
        events = self._by_kind(kind)
        return events[-1].seq if events and events[-1].seq >= self.first else 0

    def of_kind(self, kind: str, seq: int) -> list[Happened]:
        """The stored events of this kind above this number, in order; the cost is proportional to their number."""
        above = max(seq, self.first - 1)
        newest_first = takewhile(lambda event: event.seq > above, reversed(self._by_kind(kind)))
        return list(newest_first)[::-1]

    def after(self, seq: int) -> Iterator[Happened]:
        """The stored events above this number, in order."""
        return self.recent.after(seq)

    def wake(self) -> None:
        """Wake all readers."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def end(self) -> None:
        """The cluster has ended: readers stop."""
        self.ended = True
        self.wake()

    async def changed(self, timeout_s: float) -> None:
        """Return when there may be something new, or after this time."""
        if self._changed is None:
            self._changed = asyncio.Event()
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return


def event_body(event: Happened) -> EventBody:
    """An event as the hub shows it; the body of a request or response is formatted now."""
    fact = event.fact
    return EventBody(seq=event.seq, at_ms=event.at_ms, node=event.node, kind=fact.kind, fields=fact.fields | fact.body)
