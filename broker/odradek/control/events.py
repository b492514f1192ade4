"""The events of a cluster, the newest of them, for whoever follows; a slow reader is told what it has missed."""

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
        """The same events by kind, in order; of a kind that has become rare some that are not kept any more."""
        self._sorted = 0
        """The number of the last event that is among them: who asks for a kind has the others sorted first."""
        self._changed: asyncio.Event | None = None
        self.ended = False
        """Whether the cluster is gone: nothing follows."""

    @property
    def last(self) -> int:
        """The number of the newest event; 0 before the first."""
        return self.recent.last

    @property
    def first(self) -> int:
        """The number of the oldest event that is kept; one more than `last` if none is."""
        return self.recent.first

    def emit(self, node_id: int, facts: Iterable[Fact]) -> None:
        """Keep what a node tells."""
        self.recent.emit(node_id, facts)
        if self._of_kind and self._sorted < self.first:
            self._of_kind.clear()  # nobody has asked since, and what they were asked for is gone
        if self._changed is not None:
            self.wake()

    def _by_kind(self, kind: str) -> deque[Happened]:
        """The events of a kind; those that have happened since somebody asked last are sorted now."""
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
        """The number of the newest event of this kind that is kept; 0 if there is none."""
        events = self._by_kind(kind)
        return events[-1].seq if events and events[-1].seq >= self.first else 0

    def of_kind(self, kind: str, seq: int) -> list[Happened]:
        """The events of this kind above this number that are kept, in order; costs what there are of them."""
        above = max(seq, self.first - 1)
        newest_first = takewhile(lambda event: event.seq > above, reversed(self._by_kind(kind)))
        return list(newest_first)[::-1]

    def after(self, seq: int) -> Iterator[Happened]:
        """The events above this number that are kept, in order."""
        return self.recent.after(seq)

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


def event_body(event: Happened) -> EventBody:
    """An event for whoever looks at it: with the body of a request or response, which is made readable now."""
    fact = event.fact
    return EventBody(seq=event.seq, at_ms=event.at_ms, node=event.node, kind=fact.kind, fields=fact.fields | fact.body)
