"""Scenarios that nobody thought of: drawn from a seed, played against both brokers, and cut down where they differ.

    python -m tests.oracle explore logs topics --seed 7 --runs 100 --level 2

Where the brokers differ, steps are left out for as long as they still do; what is printed then can be put into a file
of scenarios.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.oracle.brokers import odradek, real
from tests.oracle.player import Broker, Neighbour, Player
from tests.oracle.scenario import Scenario, parse_text
from tests.oracle.stories import KINDS
from tests.oracle.transcript import Entry, difference
from tests.oracle.verbs import VERBS, warm_up

__all__ = ["Finding", "explore", "shrunk"]

STRICT = {"odradek.strict.replication": "true"}
"""A topic of more replicas than there are brokers is refused, as Kafka does it."""


@dataclass(frozen=True)
class Finding:
    """A story that the brokers tell differently, cut down."""

    kind: str
    seed: int
    level: int
    story: tuple[str, ...]
    lines: tuple[str, ...]

    def __str__(self) -> str:
        title = f"== {self.kind.capitalize()}, seed {self.seed}"
        return "\n".join((title, f"levels {self.level}", *self.story, "", *self.lines, ""))


@dataclass
class Pair:
    """Both brokers at one level, and how many stories they have been told."""

    level: int
    brokers: tuple[Broker, Broker]
    told: int = 0

    def difference(self, story: Iterable[str]) -> list[str]:
        """How Odradek's answers differ from Kafka's; empty if they do not. Names are new each time."""
        self.told += 1
        (scenario,) = parse_text("explored", "\n".join((f"== Story {self.told}", *story)))
        expected, actual = (self.play(scenario, broker) for broker in self.brokers)
        return difference(expected, actual)

    def play(self, scenario: Scenario, broker: Broker) -> list[Entry]:
        return Player(scenario, self.level, broker, VERBS).play()


def explore(kinds: Iterable[str], seeds: Sequence[int], level: int) -> Iterator[Finding]:
    """Play the stories of these seeds at one level; kinds of the same properties have the same brokers."""
    by_properties: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for kind in kinds:
        by_properties.setdefault(tuple(KINDS[kind].properties.items()), []).append(kind)
    for properties, alike in by_properties.items():
        with pair(level, dict(properties)) as brokers:
            for kind in alike:
                for seed in seeds:
                    if finding := cut_down(brokers, kind, seed):
                        yield finding


@contextmanager
def pair(level: int, properties: Mapping[str, str]) -> Iterator[Pair]:
    """Both brokers, started and warm."""
    with (
        real(level, properties, Neighbour.NONE) as kafka,
        odradek(level, {**STRICT, **properties}, Neighbour.NONE) as ours,
    ):
        (beginning,) = parse_text("explored", "== Beginning")
        for broker in (kafka, ours):
            warm_up(Player(beginning, level, broker, VERBS))
        yield Pair(level, (kafka, ours))


def cut_down(pair: Pair, kind: str, seed: int) -> Finding | None:
    """The story of this seed with no step that is not needed for a difference, if there is one each time it is told.

    Kafka assigns partitions to groups in a thread of its own, so that what a member is told first may vary.
    """
    begin, steps = KINDS[kind].story(seed, pair.level)

    def difference(steps: Iterable[str]) -> list[str]:
        return pair.difference((*begin, *steps, *KINDS[kind].end))

    if not (difference(steps) and difference(steps)):
        return None
    steps = shrunk(steps, lambda shorter: bool(difference(shorter)))
    return Finding(kind, seed, pair.level, (*begin, *steps, *KINDS[kind].end), tuple(difference(steps)))


def shrunk(story: list[str], fails: Callable[[list[str]], bool]) -> list[str]:
    """Leave out steps, the last ones first, for as long as it still fails."""
    size = len(story) // 2
    while size:
        place = len(story) - size
        while place >= 0:
            shorter = story[:place] + story[place + size :]
            if fails(shorter):
                story = shorter
            place -= size
        size //= 2
    return story
