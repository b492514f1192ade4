"""Scenarios that nobody thought of: drawn from a seed, played against both brokers, and cut down where they differ.

    python -m tests.oracle explore --seed 7 --runs 100 --level 2

A story has two transactional ids, an idempotent producer, a topic of two partitions and a group; its steps are requests
of clients of all ages, with ids and epochs that are mostly right. Behind each request that may begin to end a
transaction the story waits for the end, so that its answers do not depend on how fast markers are. Where the brokers
differ, steps are left out for as long as they still do; what is printed then can be put into a file of scenarios.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from tests.oracle.brokers import odradek, real
from tests.oracle.player import Broker, Neighbour, Player
from tests.oracle.scenario import Scenario, parse_text
from tests.oracle.transcript import Entry, difference
from tests.oracle.verbs import VERBS, warm_up

__all__ = ["Finding", "explore", "tell"]

LENGTH = 24
PARTITIONS = ("t-0", "t-1")
ENDING = "until transaction_state!=PrepareCommit transaction_state!=PrepareAbort"
PREPARATION = ("topic t 2",)
EPILOGUE = (
    *(f"DescribeTransactions v0 {name} {ENDING}" for name in ("one", "two")),
    *(f"log {partition}" for partition in PARTITIONS),
    "OffsetFetch v7 g stable t-0",
)
VARIABLES: Mapping[str, tuple[str, str]] = {"one": ("x", "e"), "two": ("y", "f"), "null": ("z", "h")}
"""The transactional ids of a story, and what their producer ids and epochs are called."""

PRODUCE_VERSIONS = (9, 11, 12)
INIT_VERSIONS = (2, 3, 4, 5)
ADD_VERSIONS = (0, 2, 3)
VERIFY_VERSIONS = (4, 5)
END_VERSIONS = (1, 3, 4, 5)
OFFSET_VERSIONS = (2, 3, 4, 5)


@dataclass
class Storyteller:
    """What a story remembers while it is told: the sequences that each producer has used."""

    dice: Random
    sequences: dict[tuple[str, str], int] = field(default_factory=dict)

    def name(self) -> str:
        return self.dice.choice(("one", "one", "one", "two"))

    def identity(self, name: str) -> str:
        """Producer id and epoch, seldom those of before or of tomorrow."""
        producer_id, epoch = VARIABLES[name]
        change = self.dice.choices(("", "-1", "+1"), (14, 1, 1))[0]
        if self.dice.random() < 0.03:
            producer_id = self.dice.choice([other for other, _ in VARIABLES.values()])
        return f"{producer_id} {epoch}{change}"

    def captures(self, name: str) -> str:
        return "-> {} {}".format(*VARIABLES[name])

    def ended(self, name: str) -> str:
        return f"DescribeTransactions v0 {name} {ENDING}"

    # ------------------------------------------------------------------ the steps

    def initialize(self) -> Iterator[str]:
        name = self.name()
        known = f" {self.identity(name)}" if self.dice.random() < 0.4 else ""
        version = self.dice.choice(INIT_VERSIONS[1:] if known else INIT_VERSIONS)
        yield f"InitProducerId v{version} {name}{known} until settled {self.captures(name)}"
        self.forget(name)
        yield self.ended(name)

    def add(self) -> Iterator[str]:
        name, partition = self.name(), self.dice.choice(PARTITIONS)
        version = self.dice.choice(ADD_VERSIONS)
        yield f"AddPartitionsToTxn v{version} {name} {self.identity(name)} {partition} until settled"

    def verify(self) -> Iterator[str]:
        name, partition = self.name(), self.dice.choice(PARTITIONS)
        verify = self.dice.choice(("verify ", ""))
        version = self.dice.choice(VERIFY_VERSIONS)
        yield f"AddPartitionsToTxn v{version} {name} {self.identity(name)} {verify}{partition} until settled"

    def produce(self) -> Iterator[str]:
        name, partition = self.dice.choice(("one", "one", "two", "null")), self.dice.choice(PARTITIONS)
        used = self.sequences.get((name, partition), 0)
        sequence = self.dice.choices((used, 0, max(0, used - 1), used + 1), (12, 1, 1, 1))[0]
        self.sequences[name, partition] = sequence + 1
        version = self.dice.choice(PRODUCE_VERSIONS)
        yield f"Produce v{version} {name} {self.identity(name)} {partition} sequence={sequence} until settled"

    def end(self) -> Iterator[str]:
        name, outcome = self.name(), self.dice.choice(("commit", "abort"))
        version = self.dice.choice(END_VERSIONS)
        captures = self.captures(name) if self.dice.random() < 0.8 else ""
        yield f"EndTxn v{version} {name} {self.identity(name)} {outcome} until settled {captures}".rstrip()
        yield self.ended(name)
        if self.dice.random() < 0.5:
            self.forget(name)

    def add_group(self) -> Iterator[str]:
        name = self.name()
        yield f"AddOffsetsToTxn v{self.dice.choice((1, 3, 4))} {name} {self.identity(name)} g until settled"

    def commit_offsets(self) -> Iterator[str]:
        name, offset = self.name(), self.dice.randrange(10)
        version = self.dice.choice(OFFSET_VERSIONS)
        yield f"TxnOffsetCommit v{version} {name} g {self.identity(name)} t-0 offset={offset} until settled"

    def look(self) -> Iterator[str]:
        yield self.dice.choice(
            (
                "DescribeTransactions v0 one two",
                "DescribeProducers v0 t-0 t-1",
                "ListOffsets v8 committed t-0 at=-1",
                "OffsetFetch v7 g t-0",
                "log t-0",
            )
        )

    def mark(self) -> Iterator[str]:
        name, outcome = self.name(), self.dice.choice(("commit", "abort"))
        version = self.dice.choice(("v1", "v2", "v2"))
        level = " transaction_version=2" if version == "v2" and self.dice.random() < 0.5 else ""
        yield f"WriteTxnMarkers {version} {self.identity(name)} {outcome}{level} {self.dice.choice(PARTITIONS)}"

    def forget(self, name: str) -> None:
        """A producer that begins a new epoch counts anew."""
        for partition in PARTITIONS:
            self.sequences.pop((name, partition), None)


Steps = Callable[[Storyteller], Iterator[str]]
STEPS: Mapping[Steps, int] = {
    Storyteller.initialize: 3,
    Storyteller.add: 4,
    Storyteller.verify: 2,
    Storyteller.produce: 9,
    Storyteller.end: 6,
    Storyteller.add_group: 2,
    Storyteller.commit_offsets: 3,
    Storyteller.look: 2,
    Storyteller.mark: 1,
}
"""What a story is made of, and how often."""


def tell(seed: int, *, length: int = LENGTH) -> list[str]:
    """The steps of the story of this seed, as lines of a scenario."""
    teller = Storyteller(Random(seed))
    versions = {name: teller.dice.choice(INIT_VERSIONS) for name in VARIABLES}
    story = [f"InitProducerId v{version} {name} {teller.captures(name)}" for name, version in versions.items()]
    for step in teller.dice.choices(list(STEPS), list(STEPS.values()), k=length):
        story += step(teller)
    return story


@dataclass(frozen=True)
class Finding:
    """A story that the brokers tell differently, cut down."""

    seed: int
    level: int
    story: tuple[str, ...]
    lines: tuple[str, ...]

    def __str__(self) -> str:
        title = f"== Seed {self.seed} at {self.level}"
        return "\n".join([title, f"levels {self.level}", *PREPARATION, *self.story, *EPILOGUE, "", *self.lines, ""])


@dataclass
class Pair:
    """Both brokers at one level, and how many stories they have been told."""

    level: int
    brokers: tuple[Broker, Broker]
    told: int = 0

    def differs(self, story: Iterable[str]) -> list[str]:
        """How Odradek's answers differ from Kafka's; empty if they do not. Names are new each time."""
        self.told += 1
        text = "\n".join((f"== Story {self.told}", *PREPARATION, *story, *EPILOGUE))
        (scenario,) = parse_text("explored", text)
        expected, actual = (self.play(scenario, broker) for broker in self.brokers)
        return difference(expected, actual)

    def play(self, scenario: Scenario, broker: Broker) -> list[Entry]:
        return Player(scenario, self.level, broker, VERBS).play()


def explore(seeds: Iterable[int], level: int) -> Iterator[Finding]:
    """Play the stories of these seeds at one level; both brokers are started once."""
    with real(level, {}, Neighbour.NONE) as kafka, odradek(level, {}, Neighbour.NONE) as ours:
        (beginning,) = parse_text("explored", "== Begin")
        for broker in (kafka, ours):
            warm_up(Player(beginning, level, broker, VERBS))
        pair = Pair(level, (kafka, ours))
        for seed in seeds:
            story = tell(seed)
            if pair.differs(story):
                story = shrunk(story, lambda shorter: bool(pair.differs(shorter)))
                yield Finding(seed, level, tuple(story), tuple(pair.differs(story)))


def shrunk(story: list[str], fails: Callable[[list[str]], bool]) -> list[str]:
    """Leave out steps, the last ones first, for as long as it still fails; what sets the variables stays."""
    size = (len(story) - len(VARIABLES)) // 2
    while size:
        place = len(story) - size
        while place >= len(VARIABLES):
            shorter = story[:place] + story[place + size :]
            if fails(shorter):
                story = shorter
            place -= size
        size //= 2
    return story
