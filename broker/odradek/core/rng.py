"""Random numbers, as a node is handed them."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Rng"]


class Rng(Protocol):
    """Where random numbers come from: a seeded generator, or that of the system."""

    def randrange(self, stop: int, /) -> int: ...
    def randint(self, low: int, high: int, /) -> int: ...
    def getrandbits(self, k: int, /) -> int: ...
    def randbytes(self, n: int, /) -> bytes: ...
