"""What the brokers of a process have to say to one another, on its way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Post"]

T = TypeVar("T")

DELIVERIES_MAX = 10_000
"""So many are made at once at most when nobody waits for the loop: brokers may have more to say for ever."""


class Post:
    """What is handed over in later turns of the loop, in the order in which it came.

    Or at once: while time is advanced, brokers hear of one another what has been said before it goes on.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[Callable[[Any], object], Any]] = deque()
        self._planned = False

    def send(self, deliver: Callable[[T], object], what: T) -> None:
        """Hand this over in the next turn."""
        self._waiting.append((deliver, what))
        if not self._planned:
            self._plan()

    def deliver_all(self) -> None:
        """Hand everything over now, and what follows from it."""
        self._deliver(DELIVERIES_MAX)

    def _plan(self) -> None:
        self._planned = True
        self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Hand over what has come by now; what follows from it has its own turn."""
        self._planned = False
        try:
            self._deliver(len(self._waiting))
        finally:
            if self._waiting and not self._planned:
                self._plan()

    def _deliver(self, most: int) -> None:
        waiting = self._waiting
        while waiting and most:
            most -= 1
            deliver, what = waiting.popleft()
            deliver(what)
