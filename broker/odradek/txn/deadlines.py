"""Times by key, so that asking costs nothing while nothing is due.

Level-triggered: a key stays due until it is put elsewhere or dropped.
`wake_at` speaks only of keys that `due` has not listed yet, so that whoever sleeps until then cannot spin.
"""

from __future__ import annotations

__all__ = ["Deadlines", "next_tick"]

_FAR = 2**63


def next_tick(at: int, interval_ms: int) -> int:
    """The first run at or after `at` of a task that runs every `interval_ms`."""
    return -(-at // interval_ms) * interval_ms


class Deadlines:
    """When to look at which key again (ms)."""

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        # Lower bounds: dropping a key leaves them be, the next look in `due` makes them true again.
        self._first = _FAR
        self._first_unlisted = _FAR

    def __len__(self) -> int:
        return len(self._at)

    def put(self, key: str, at: int) -> None:
        """Look at the key at this time, in place of the one put before."""
        self._at[key] = at
        self._first = min(self._first, at)
        self._first_unlisted = min(self._first_unlisted, at)

    def drop(self, key: str) -> None:
        """Forget the key."""
        self._at.pop(key, None)

    def due(self, now: int) -> list[str]:
        """The keys whose time has come, in the order in which they were first put."""
        if now < self._first:
            return []
        listed = [key for key, at in self._at.items() if at <= now]
        self._first_unlisted = min((at for at in self._at.values() if at > now), default=_FAR)
        self._first = now if listed else self._first_unlisted
        return listed

    def wake_at(self) -> int | None:
        """When `due` may list something new, or None."""
        return None if self._first_unlisted == _FAR else self._first_unlisted
