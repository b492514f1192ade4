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
    from odradek.log.machine import Fact
    from odradek.node.node import EventSink

__all__ = ["EVENTS_MAX", "EventRing"]


class EventRing:
    """The newest events, numbered from 1; an `EventSink` that passes everything on to `also`."""

    def __init__(
        self, now: Callable[[], int] | None = None, *, size: int = EVENTS_MAX, also: EventSink | None = None
    ) -> None:
        self.recent = Recent(now, size=size, also=also)
        self._of_kind: dict[str, deque[EventBody]] = {}
        """The same events by kind, in order; of a kind that has become rare some that are not kept any more."""
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
        told = tuple(facts)
        seq = self.recent.last
        self.recent.emit(node_id, told)
        for fact in told:
            seq += 1
            self._index(
                EventBody(seq=seq, at_ms=self.recent.newest_ms, node=node_id, kind=fact.kind, fields=fact.fields)
            )
        self.wake()

    def _index(self, event: EventBody) -> None:
        events = self._of_kind.get(event.kind)
        if events is None:
            events = self._of_kind[event.kind] = deque()
        events.append(event)
        while events and events[0].seq < self.first:
            events.popleft()

    def last_of(self, kind: str) -> int:
        """The number of the newest event of this kind that is kept; 0 if there is none."""
        events = self._of_kind.get(kind)
        return events[-1].seq if events and events[-1].seq >= self.first else 0

    def of_kind(self, kind: str, seq: int) -> list[EventBody]:
        """The events of this kind above this number that are kept, in order; costs what there are of them."""
        above = max(seq, self.first - 1)
        newest_first = takewhile(lambda event: event.seq > above, reversed(self._of_kind.get(kind, ())))
        return list(newest_first)[::-1]

    def after(self, seq: int) -> Iterator[EventBody]:
        """The events above this number that are kept, in order."""
        return map(_body, self.recent.after(seq))

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


def _body(event: Happened) -> EventBody:
    fact = event.fact
    return EventBody(seq=event.seq, at_ms=event.at_ms, node=event.node, kind=fact.kind, fields=fact.fields)
