"""When times of a group's members are over."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Times"]

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
