"""When times of a group's members are over, and which groups are to be looked at then."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

__all__ = ["Alarms", "Times"]

K = TypeVar("K", bound=Hashable)


class Times(Generic[K]):
    """Times (ms) by what ends then.

    A heartbeat sets one of many: who keeps the alarm of the group asks for the soonest that was set since, and not for
    the earliest of all, which takes a look at each.
    """

    __slots__ = ("_at", "_soonest")

    def __init__(self) -> None:
        self._at: dict[K, int] = {}
        self._soonest: int | None = None

    def set(self, key: K, at: int) -> None:
        """From now on at this time."""
        self._at[key] = at
        if self._soonest is None or at < self._soonest:
            self._soonest = at

    def set_if_none(self, key: K, at: int) -> None:
        """At this time, unless there is one already."""
        if key not in self._at:
            self.set(key, at)

    def drop(self, key: K) -> None:
        """Never, as far as this one is concerned."""
        self._at.pop(key, None)

    def __contains__(self, key: K) -> bool:
        return key in self._at

    def get(self, key: K) -> int | None:
        """When it ends."""
        return self._at.get(key)

    def earliest(self) -> int | None:
        """The next of all."""
        return min(self._at.values(), default=None)

    def soonest_set(self) -> int | None:
        """The earliest that was set since this was asked last, whatever has become of it."""
        soonest, self._soonest = self._soonest, None
        return soonest

    def over(self, now: int) -> list[K]:
        """Drop what has ended; it comes in the order in which it was first set."""
        ended = [key for key, at in self._at.items() if at <= now]
        for key in ended:
            del self._at[key]
        return ended


class Alarms:
    """At most one alarm for each key; `deadline(key)` is the time (ms) at which the key is really due, or None.

    A key whose deadline moves later keeps its early place in the heap, and is looked at once for nothing: a heartbeat,
    which moves a deadline a little every time, then costs nothing at all.
    """

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
