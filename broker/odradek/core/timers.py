"""Calls at a given time, or before the step ends.

One heap of times says when the node wants to be woken.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import Protocol

__all__ = ["NEVER", "PUMPED_AT_ONCE", "Alarm", "Pumped", "Pumps", "Timers"]

_STALE_MAX = 64
_REST = "rest"
PUMPED_AT_ONCE = 100
"""How often anything is pumped in one step; nearly always it is once or twice."""


NEVER = sys.maxsize
"""Later than any time (ms)."""


class Alarm:
    """The earliest time (ms) that anything was planned for since the driver has last looked.

    So a driver compares one number after each step, and asks all heaps only if it has to be woken earlier.
    """

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = NEVER


class Timers:
    """Calls by key; a key has one time, and the last one set counts."""

    def __init__(self, alarm: Alarm | None = None) -> None:
        self._alarm = alarm or Alarm()
        self._heap: list[tuple[int, int, Hashable]] = []
        self.planned: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        """Time (ms) and call by key."""
        self._count = 0

    def set(self, key: Hashable, at: int | None, call: Callable[[], None]) -> None:
        """Call at this time (ms) in place of the one set before; None: not at all."""
        if at is None:
            self.planned.pop(key, None)
            return
        known = self.planned.get(key)
        self.planned[key] = (at, call)
        if known is None or known[0] != at:
            self._count += 1
            heappush(self._heap, (at, self._count, key))
            if at < self._alarm.at:
                self._alarm.at = at
            # Now and then is often enough: between two looks there come no more stale ones than that.
            if not self._count % _STALE_MAX and len(self._heap) > 2 * len(self.planned) + _STALE_MAX:
                self._forget_stale()

    def _forget_stale(self) -> None:
        """Drop the entries of times that were set anew, or taken back: they may lie far ahead."""
        latest = {key: (at, count, key) for at, count, key in sorted(self._heap, key=itemgetter(1))}
        self._heap = [
            entry for key, entry in latest.items() if key in self.planned and self.planned[key][0] == entry[0]
        ]
        heapify(self._heap)

    def run(self, now: int) -> None:
        """Make the calls whose time has come.

        What they set is called in a later run, were its time long past: one that sets itself anew would never end.
        """
        newest = self._count
        later: list[tuple[int, int, Hashable]] = []
        try:
            while self._heap and self._heap[0][0] <= now:
                entry = at, count, key = heappop(self._heap)
                known = self.planned.get(key)
                if known is None or known[0] != at:
                    continue
                if count > newest:
                    later.append(entry)
                    continue
                del self.planned[key]
                known[1]()
        finally:
            for entry in later:
                heappush(self._heap, entry)

    def wake_at(self) -> int | None:
        """The next time (ms)."""
        heap = self._heap
        while heap:
            at, _, key = heap[0]
            known = self.planned.get(key)
            if known is not None and known[0] == at:
                return at
            heappop(heap)
        return None


class Pumped(Hashable, Protocol):
    """Something that has works to start.

    A Protocol: shards, admission and the supply of producer ids are in rooms above.
    """

    def pump(self) -> None: ...


class Pumps:
    """Whoever asked for it is pumped, first come, first served."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self.planned = timers.planned
        """Time (ms) and call by key, including those of pumped objects."""
        self.left = PUMPED_AT_ONCE
        """How many may still be pumped in this step."""
        self.waiting: deque[Pumped] = deque()
        self._rest: list[Pumped] = []
        """Left for the next step."""

    def soon(self, pumped: Pumped) -> None:
        """Ask it again what it owes, before this step ends."""
        self.waiting.append(pumped)

    def by(self, pumped: Pumped, at: int) -> None:
        """Pump it at this time (ms) at the latest.

        What was asked for before stands where it is earlier: times change with each decision, and being asked once in
        vain costs less than setting each of them.
        """
        planned = self._timers.planned.get(pumped)
        if planned is None or at < planned[0]:
            self._timers.set(pumped, at, partial(self.waiting.append, pumped))

    def run(self) -> None:
        """Pump all that wait, and those that they ask for; in a step that has pumped very many, the rest in the next.

        Something that is owed again as soon as it is done would keep the broker in one step for ever.
        """
        waiting = self.waiting
        while waiting:
            if not self.left:
                self._rest += waiting
                waiting.clear()
                self._timers.set(_REST, 0, self._go_on)
                return
            self.left -= 1
            waiting.popleft().pump()

    def _go_on(self) -> None:
        self.waiting.extend(self._rest)
        self._rest.clear()
