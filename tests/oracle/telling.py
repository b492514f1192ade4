"""How stories are told: steps of a scenario, drawn from a seed, each as often as its kind says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

__all__ = ["BEFORE_LEVELS", "PARTITIONS", "Kind", "mostly", "of_clients", "told", "wait_for_the_end"]

LENGTH = 24
PARTITIONS = ("t-0", "t-1")
ENDED = "until transaction_state!=PrepareCommit transaction_state!=PrepareAbort"
Value = TypeVar("Value")

BEFORE_LEVELS: Mapping[str, int] = {"AddPartitionsToTxn": 3, "EndTxn": 4, "Produce": 11, "TxnOffsetCommit": 4}
"""The newest versions of clients to which a transaction is one of `transaction.version` 0."""


@dataclass(frozen=True)
class Kind:
    """What stories of a kind begin with, which nothing leaves out, how they go on, and what is looked at in the end."""

    begin: Callable[[Random], list[str]]
    tell: Callable[[Random, int], Iterator[str]]
    end: Sequence[str]
    properties: Mapping[str, str] = field(default_factory=dict)
    """What the brokers are configured with."""

    def story(self, seed: int, level: int) -> tuple[list[str], list[str]]:
        """The beginning of the story of this seed at this `transaction.version`, and its steps."""
        dice = Random(seed)
        return self.begin(dice), list(self.tell(dice, level))


def told(dice: Random, steps: Mapping[Callable[[], Iterator[str]], int], length: int = LENGTH) -> Iterator[str]:
    """Steps one after the other, each as often as it says."""
    for step in dice.choices(list(steps), list(steps.values()), k=length):
        yield from step()


def mostly(dice: Random, usual: Value, *others: Value, weight: int = 12) -> Value:
    """The usual one, seldom another."""
    return dice.choices((usual, *others), (weight, *(1 for _ in others)))[0]


def of_clients(level: int, api: str, *versions: int) -> Sequence[int]:
    """Those of these versions that a client may use for a transaction at this level.

    At level 0 a real Kafka cannot write what a newer one asks for, and answers CONCURRENT_TRANSACTIONS about its id
    from then on, so that nothing more would happen in a story (`scenarios/new_clients_at_zero.txt`).
    """
    return versions if level else [each for each in versions if each <= BEFORE_LEVELS[api]]


def wait_for_the_end(name: str) -> str:
    """Until no markers are owed any more."""
    return f"DescribeTransactions v0 {name} {ENDED}"
