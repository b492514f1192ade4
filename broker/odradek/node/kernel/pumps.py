"""What is to be looked at again before the step ends, or at a later time."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from odradek.node.kernel.timers import Timers

__all__ = ["Pumped", "Pumps"]


class Pumped(Hashable, Protocol):
    """Something that has works to start."""

    def pump(self) -> None: ...


class Pumps:
    """Whoever asked for it is pumped, first come, first served."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self.waiting: deque[Pumped] = deque()

    def soon(self, pumped: Pumped) -> None:
        """Ask it again what it owes, before this step ends."""
        self.waiting.append(pumped)

    def by(self, pumped: Pumped, at: int | None) -> None:
        """Pump it at this time (ms) at the latest; None: it need not be.

        What was asked for before stands where it is earlier: times change with each decision, and being asked once in
        vain costs less than setting each of them.
        """
        if at is not None:
            planned = self._timers.planned(pumped)
            if planned is None or at < planned:
                self._timers.set(pumped, at, partial(self.waiting.append, pumped))

    def run(self) -> None:
        """Pump all that wait, and those that they ask for."""
        waiting = self.waiting
        while waiting:
            waiting.popleft().pump()
