"""Times at which something has to be looked at again, by key, kept lazily.

A key whose time moves later keeps its early place in the heap and is looked at once for nothing:
a heartbeat, which moves a deadline a little every time, then costs nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

__all__ = ["Alarms"]


class Alarms:
    """At most one alarm for each key; `deadline(key)` says when the key really wants to be looked at, or None."""

    def __init__(self, deadline: Callable[[str], int | None]) -> None:
        self._deadline = deadline
        self._at: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def arm(self, key: str) -> None:
        """The deadline of this key may have moved."""
        at = self._deadline(key)
        if at is not None:
            self.arm_at(key, at)

    def due(self, now: int) -> list[str]:
        """The keys whose deadline has come, in its order; each is listed once, until it is armed again."""
        heap = self._heap
        if not heap or heap[0][0] > now:
            return []
        due = []
        while heap and heap[0][0] <= now:
            at, key = heappop(heap)
            if self._at.get(key) != at:
                continue
            del self._at[key]
            actual = self._deadline(key)
            if actual is None:
                continue
            if actual <= now:
                due.append((actual, key))
            else:
                self.arm_at(key, actual)
        return [key for _, key in sorted(due)]

    def next_at(self) -> int | None:
        """No key is due before this time."""
        heap = self._heap
        while heap and self._at.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def arm_at(self, key: str, at: int) -> None:
        """A deadline of this key is set to this time; if it has an earlier alarm that stays."""
        armed = self._at.get(key)
        if armed is None or at < armed:
            self._at[key] = at
            heappush(self._heap, (at, key))
