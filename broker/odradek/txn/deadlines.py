"""Times by key, so that asking costs what has come due, and nothing while nothing has.

A key is listed once when its time has come; after that it is owed, and listed no more until it is put elsewhere or
asked for `again`.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

__all__ = ["Deadlines", "next_tick"]

_STALE_MAX = 64
LISTED_AT_ONCE = 1_000
"""How many keys are listed at a time; who asks again hears of more."""


def next_tick(at: int, interval_ms: int) -> int:
    """The first run at or after `at` of a task that runs every `interval_ms`."""
    return -(-at // interval_ms) * interval_ms


class Deadlines:
    """When to look at which key again (ms)."""

    def __init__(self) -> None:
        self._at: dict[str, tuple[int, int]] = {}
        """Time of each key and the number of the `put` that set it, which no other one has."""
        self._heap: list[tuple[int, int, str]] = []
        """What is to be listed; an entry that a later `put`, or a `drop`, has made untrue is skipped."""
        self._listed: set[str] = set()
        self._count = 0

    def __len__(self) -> int:
        return len(self._at)

    def put(self, key: str, at: int) -> None:
        """Look at the key at this time, in place of the one put before."""
        self._count += 1
        if key in self._listed:
            self._listed.remove(key)
        self._at[key] = (at, self._count)
        heappush(self._heap, (at, self._count, key))
        # Now and then is often enough: between two looks there come no more stale ones than that.
        if not self._count % _STALE_MAX and len(self._heap) > 2 * len(self._at) + _STALE_MAX:
            self._heap = [entry for entry in self._heap if self._at.get(entry[2]) == entry[:2]]
            heapify(self._heap)

    def drop(self, key: str) -> None:
        """Forget the key."""
        self._at.pop(key, None)
        self._listed.discard(key)

    def again(self, key: str) -> bool:
        """List a key that was listed and that is still there once more; whether it was."""
        if key not in self._listed:
            return False
        self.put(key, self._at[key][0])
        return True

    def due(self, now: int) -> list[str]:
        """The keys whose time has come since they were listed last, by time."""
        listed: list[str] = []
        if not self._heap or self._heap[0][0] > now:
            return listed
        room = LISTED_AT_ONCE
        while room and self._heap and self._heap[0][0] <= now:
            room -= 1
            at, count, key = heappop(self._heap)
            if self._at.get(key) == (at, count):
                listed.append(key)
        self._listed.update(listed)
        return listed

    def owed(self, now: int) -> tuple[list[str], int | None]:
        """The keys that are `due`, and when `due` lists something next."""
        heap, held = self._heap, self._at
        listed = self.due(now) if heap and heap[0][0] <= now else []
        while heap and held.get(heap[0][2]) != heap[0][:2]:
            heappop(heap)
        return listed, heap[0][0] if heap else None

    def wake_at(self) -> int | None:
        """When `due` lists something next, or None."""
        heap, held = self._heap, self._at
        while heap and held.get(heap[0][2]) != heap[0][:2]:
            heappop(heap)
        return heap[0][0] if heap else None
