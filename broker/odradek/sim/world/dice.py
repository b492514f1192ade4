"""Dice that say what `random.Random` says, in fewer calls.

A run asks them some ten thousand times, and Python's own go through four functions for a number below ten.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import SupportsLenAndGetItem

__all__ = ["Dice"]

T = TypeVar("T")


class Dice(Random):
    """The same numbers for the same seed, in the same order."""

    def below(self, end: int) -> int:
        """One of 0 to `end` - 1."""
        bits = end.bit_length()
        found = self.getrandbits(bits)
        while found >= end:
            if end < 1:
                raise IndexError("there is nothing to choose from")
            found = self.getrandbits(bits)
        return found

    def randint(self, a: int, b: int) -> int:
        """One of `a` to `b`."""
        return a + self.below(b - a + 1)

    def choice(self, seq: SupportsLenAndGetItem[T]) -> T:
        """One of these."""
        return seq[self.below(len(seq))]
