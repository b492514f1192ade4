"""Messages between the brokers of a process, on their way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from odradek.net.outside import Calls

__all__ = ["Post"]

T = TypeVar("T")

DELIVERIES_MAX = 10_000
"""The most deliveries at once while nothing waits for the loop: brokers could exchange messages for ever."""


class Post:
    """Deliveries in later turns of the loop, in the order in which they came.

    While time is advanced they are made at once, so that brokers know of each other's messages before time goes on.
    """

    def __init__(self, loop: Calls) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], object]] = deque()
        self._planned = False

    def send(self, deliver: Callable[[T], object], what: T) -> None:
        """Deliver this in the next turn."""
        self._waiting.append(partial(deliver, what))
        if not self._planned:
            self._plan()

    def deliver_all(self) -> None:
        """Deliver everything now, including what it brings about."""
        self._deliver(DELIVERIES_MAX)

    def _plan(self) -> None:
        self._planned = True
        self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Deliver all that is waiting now; what it brings about waits for another turn."""
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
            waiting.popleft()()
