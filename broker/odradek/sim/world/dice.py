"""The numbers of `random.Random`, in fewer calls.

A run draws some ten thousand numbers, and Python's own class needs four calls for a number below ten.
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
        """A number from 0 to `end` - 1."""
        bits = end.bit_length()
        found = self.getrandbits(bits)
        while found >= end:
            if end < 1:
                raise IndexError("there is nothing to choose from")
            found = self.getrandbits(bits)
        return found

    def randint(self, a: int, b: int) -> int:
        return a + self.below(b - a + 1)

    def choice(self, seq: SupportsLenAndGetItem[T]) -> T:
        return seq[self.below(len(seq))]
