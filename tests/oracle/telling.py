"""How stories are told: steps of a scenario, drawn from a seed, each as often as its kind says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

__all__ = ["PARTITIONS", "Kind", "mostly", "told", "wait_for_the_end"]

LENGTH = 24
PARTITIONS = ("t-0", "t-1")
ENDED = "until transaction_state!=PrepareCommit transaction_state!=PrepareAbort"
Value = TypeVar("Value")


@dataclass(frozen=True)
class Kind:
    """What stories of a kind begin with, which nothing leaves out, how they go on, and what is looked at in the end."""

    begin: Callable[[Random], list[str]]
    tell: Callable[[Random], Iterator[str]]
    end: Sequence[str]

    def story(self, seed: int) -> tuple[list[str], list[str]]:
        """The beginning of the story of this seed, and its steps."""
        dice = Random(seed)
        return self.begin(dice), list(self.tell(dice))


def told(dice: Random, steps: Mapping[Callable[[], Iterator[str]], int], length: int = LENGTH) -> Iterator[str]:
    """Steps one after the other, each as often as it says."""
    for step in dice.choices(list(steps), list(steps.values()), k=length):
        yield from step()


def mostly(dice: Random, usual: Value, *others: Value, weight: int = 12) -> Value:
    """The usual one, seldom another."""
    return dice.choices((usual, *others), (weight, *(1 for _ in others)))[0]


def wait_for_the_end(name: str) -> str:
    """Until no markers are owed any more."""
    return f"DescribeTransactions v0 {name} {ENDED}"
