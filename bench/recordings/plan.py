"""Which client plays what on which ground: every combination, in an order that mixes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice, product
from random import Random

__all__ = ["FAMILIES", "OWN", "SCENARIOS", "Run", "runs"]

FAMILIES = ("confluent-kafka", "kafka-python", "aiokafka", "franz-go", "sarama", "java")
SCENARIOS = (
    "produce-consume",
    "idempotent",
    "transactions",
    "group",
    "consumer-protocol",
    "txn-offsets",
    "zombie",
    "txn-timeout",
    "admin",
)
OWN = {"kafka-share": ("share",), "kafka-streams": ("word-count", "streams-protocol")}
"""Families that play nothing else."""
OWN_EVERY = 24
"""One run of so many is of such a family: they take ten times as long as others."""
CONSUMER_PROTOCOL = ("confluent-kafka", "franz-go", "java")
"""The families whose newest release can join a group of KIP-848."""
BROKERS = (1, 3)
LEVELS = (0, 1, 2, 2)
"""Of transaction.version."""


@dataclass(frozen=True)
class Run:
    """One run of one client, on one kind of cluster. Its number is the seed of all that is left to chance."""

    number: int
    family: str
    scenario: str
    ground: str
    brokers: int
    level: int

    def topic(self, suffix: str = "") -> str:
        """Begins with the name of the family: so do the ACLs of secured clusters."""
        return f"{self.family}-{self.number}{suffix}"


def runs(count: int, families: Sequence[str], scenarios: Sequence[str], grounds: Sequence[str]) -> Iterator[Run]:
    """So many runs, the same ones each time: families take turns, each with all of its combinations, mixed."""
    usual = cycle(_turns([family for family in families if family not in OWN], scenarios, grounds))
    own = cycle(_turns([family for family in families if family in OWN], scenarios, grounds))
    both = islice(_every(OWN_EVERY, own, usual), count)
    for number, (family, scenario, ground) in enumerate(both, 1):
        chance = Random(number)
        yield Run(number, family, scenario, ground, chance.choice(BROKERS), chance.choice(LEVELS))


Turn = tuple[str, str, str]
"""A family, a scenario and a ground."""


def _turns(families: Sequence[str], scenarios: Sequence[str], grounds: Sequence[str]) -> list[Turn]:
    of_each = [_combinations(family, scenarios, grounds) for family in families]
    longest = max(map(len, of_each), default=0)
    return [turns[at] for at in range(longest) for turns in of_each if at < len(turns)]


def _combinations(family: str, scenarios: Sequence[str], grounds: Sequence[str]) -> list[Turn]:
    def plays(scenario: str) -> bool:
        if scenario == "consumer-protocol":
            return family in CONSUMER_PROTOCOL
        return True

    played = OWN.get(family) or [scenario for scenario in scenarios if plays(scenario)]
    turns = list(product([family], played, grounds))
    Random(family).shuffle(turns)
    return turns


def _every(period: int, seldom: Iterator[Turn], usual: Iterator[Turn]) -> Iterator[Turn]:
    """One of each period is from the first, if it has any; all are from the first if the other has none."""
    for at in cycle(range(period)):
        first, second = (seldom, usual) if at == period - 1 else (usual, seldom)
        turn = next(first, None) or next(second, None)
        if turn is None:
            return
        yield turn
