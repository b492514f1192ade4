"""The time and the random numbers of a broker, which its driver hands it."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Clock", "Rng"]


class Clock:
    """Wall time of the current step, in milliseconds; the broker sets it before each step."""

    __slots__ = ("now",)

    def __init__(self, now: int) -> None:
        self.now = now


class Rng(Protocol):
    """Where random numbers come from: a seeded generator, or that of the system.

    A Protocol: tests and the simulator pass `random.Random`, a server `random.SystemRandom`.
    """

    def randrange(self, stop: int, /) -> int: ...
    def randint(self, low: int, high: int, /) -> int: ...
    def getrandbits(self, k: int, /) -> int: ...
    def randbytes(self, n: int, /) -> bytes: ...
