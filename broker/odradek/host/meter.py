"""The resources that one request uses: its bytes, and work time of the broker's thread, without waits."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import TypeVar

__all__ = ["Meter", "Metered"]


T = TypeVar("T")


class Meter:
    """The use of one request; its clock (ns) runs while the request is worked on."""

    __slots__ = ("_clock", "_since", "_spent", "size", "told_ns")

    def __init__(self, size: int, clock: Callable[[], int]) -> None:
        self.size = size
        """Bytes of the request, with its header."""
        self.told_ns: int | None = None
        """Spent time (ns) at the first check against the quota; None: not checked yet."""
        self._clock = clock
        self._spent = 0
        self._since: int | None = clock()

    @property
    def spent_ns(self) -> int:
        return self._spent if self._since is None else self._spent + self._clock() - self._since

    def pause(self) -> None:
        """The request parks."""
        self._spent, self._since = self.spent_ns, None

    def go_on(self) -> None:
        """The request goes on."""
        if self._since is None:
            self._since = self._clock()


class Metered(Coroutine[object, None, T]):
    """A parked coroutine whose time is measured from now on."""

    def __init__(self, coroutine: Coroutine[object, None, T], meter: Meter) -> None:
        self._coroutine = coroutine
        self._meter = meter

    def send(self, value: None) -> object:
        """Go on; the clock runs until the coroutine parks again."""
        self._meter.go_on()
        wait = self._coroutine.send(value)
        self._meter.pause()
        return wait

    def throw(self, *_: object) -> object:
        """No part of Odradek raises in a flow."""
        raise NotImplementedError

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[object, None, T]:
        return self._coroutine.__await__()
