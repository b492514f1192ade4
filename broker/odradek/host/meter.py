"""What one request uses: its bytes, and the time of the broker's thread, which waiting is no part of."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["Meter", "Metered"]


class Meter:
    """The use of one request; its clock (ns) runs while the request is worked on."""

    __slots__ = ("_clock", "_since", "_spent", "size", "told_ns")

    def __init__(self, size: int, clock: Callable[[], int]) -> None:
        self.size = size
        """Bytes of the request, with its header."""
        self.told_ns: int | None = None
        """What was spent when the request was first judged by it; None: it was not yet."""
        self._clock = clock
        self._spent = 0
        self._since: int | None = clock()

    @property
    def spent_ns(self) -> int:
        """The time spent so far."""
        return self._spent if self._since is None else self._spent + self._clock() - self._since

    def pause(self) -> None:
        """The request waits."""
        self._spent, self._since = self.spent_ns, None

    def go_on(self) -> None:
        """The request is worked on again."""
        if self._since is None:
            self._since = self._clock()


class Metered(Coroutine[Any, Any, Any]):
    """A coroutine that has parked, and whose time is measured from now on."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], meter: Meter) -> None:
        self._coroutine = coroutine
        self._meter = meter

    def send(self, value: Any) -> Any:
        """Run on; the clock stands still while it waits, and runs when it has ended."""
        self._meter.go_on()
        wait = self._coroutine.send(value)
        self._meter.pause()
        return wait

    def throw(self, *error: Any) -> Any:
        """Raise in it."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """End it."""
        self._coroutine.close()

    def __await__(self) -> Any:
        return self._coroutine.__await__()
