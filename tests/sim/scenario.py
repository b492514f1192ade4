"""A run from a seed: producers of both styles, consumers and a nemesis against three brokers; then what must hold."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from random import Random

from msgspec import Struct
from tests.sim.actors import Stage
from tests.sim.checks import PARTITIONS, Checks
from tests.sim.consumers import Consumer
from tests.sim.focus import GENERAL, Focus
from tests.sim.nemesis import Nemesis
from tests.sim.producers import Producer, Transaction
from tests.sim.workers import Worker

from odradek.sim import World

__all__ = ["Report", "Violation", "run"]

TopicPartition = tuple[str, int]
TROUBLE_MS = 4_000
PEACE_MS = 60_000
"""Enough for every timeout there is."""


class Violation(AssertionError):
    """Something that must hold does not."""


class Report(Struct):
    """What came of a run."""

    digest: str
    """Of the whole trace."""
    transactions: int
    committed: int
    aborted: int
    unknown: int
    met: Counter[str]
    """What its producers were answered but success."""
    deeds: list[tuple[int, str]]


class _Run:
    def __init__(self, seed: int, focus: Focus, *, verifies: bool, levels: tuple[int, ...] | None) -> None:
        dice = Random(seed)
        drawn = dice.choice(focus.levels)
        self.levels: tuple[int, ...] = drawn if levels is None else levels
        level = self.levels[0]
        slowest = dice.choice(focus.slowest_ms)
        # With one, a partition has no leader while its broker is away.
        replicas = dice.choice((1, 3, 3))
        self.world = World(
            brokers=3,
            topics=[f"t:3:{replicas}"],
            seed=seed,
            delay_ms=(0, slowest),
            config={
                "odradek.transaction.version": level,
                "transaction.state.log.num.partitions": 3,
                "offsets.topic.num.partitions": 3,
                "transaction.state.log.replication.factor": replicas,
                "offsets.topic.replication.factor": replicas,
                "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
                "request.timeout.ms": 2_000,
                "transaction.partition.verification.enable": verifies,
                "group.min.session.timeout.ms": 500,
                "group.initial.rebalance.delay.ms": 0,
            },
        )
        # Every broker has to have its producer ids and its metadata before anything goes wrong.
        self.world.advance(1_000)
        for node in self.world.nodes.values():
            node.coordinators.load_ms = dice.choice((0, 0, 100))
        self.stage = Stage(self.world, after_each=self._watch)
        self.journal: list[Transaction] = []
        self.producers: list[Producer] = [
            Producer(
                self.world,
                f"p{number}",
                # The last one is a rival: another instance of the first one's id.
                tid=f"tid-{number % 4}",
                # At level 0 new clients go back to the older style.
                habits=focus.habits,
                new=0 not in self.levels and dice.random() < focus.habits.newer,
                random=Random(dice.getrandbits(32)),
                partitions=PARTITIONS,
                goes_on=lambda: not self.calm,
                journal=self.journal,
            )
            for number in range(5)
        ]
        self.workers = [
            Worker(
                self.world,
                f"w{number}",
                tid=f"work-{number}",
                habits=focus.habits,
                new=0 not in self.levels and dice.random() < focus.habits.newer,
                random=Random(dice.getrandbits(32)),
                partitions=PARTITIONS,
                goes_on=lambda: not self.calm,
                journal=self.journal,
            )
            for number in range(2)
        ]
        self.producers += self.workers
        self.consumers = [Consumer(self.world, each, random=Random(dice.getrandbits(32))) for each in PARTITIONS]
        self.nemesis = Nemesis(
            self.world,
            random=Random(dice.getrandbits(32)),
            duration_ms=TROUBLE_MS,
            levels=self.levels,
            weights=focus.weights,
        )
        self.calm = False
        """Whether the nemesis is done."""
        self._stable: dict[TopicPartition, int] = {}

    def play(self) -> Report:
        stage, world = self.stage, self.world
        for producer in self.producers:
            stage.add(producer.name, producer.script())
        for consumer in self.consumers:
            stage.add(f"consumer-{consumer.partition[1]}", consumer.script())
        for worker in self.workers:
            stage.add(f"member-{worker.name}", worker.consume())
        nemesis = stage.add("nemesis", self.nemesis.script())
        assert stage.play(lambda: nemesis.done, within_ms=10 * TROUBLE_MS)
        self.calm = True
        writers = stage.actors[: len(self.producers)]
        if not stage.play(lambda: all(each.done for each in writers), within_ms=PEACE_MS):
            raise Violation(f"not answered in time: {[each.name for each in writers if not each.done]}")
        # What a fenced instance has left open runs into its timeout.
        world.advance(15_000)
        for consumer in self.consumers:
            consumer.stopping = True
        at_rest = stage.play(lambda: all(each.done for each in stage.actors), within_ms=PEACE_MS)
        world.advance(5_000)
        checks = Checks(world, self.producers, self.consumers, self.journal)
        for problem in checks.problems() if at_rest else checks.open_ends():
            raise Violation(problem)
        if not at_rest:
            raise Violation(f"stuck: {[each.name for each in stage.actors if not each.done]}")
        outcomes = [each.outcome for each in self.journal]
        return Report(
            digest=sha256(repr(world.facts).encode()).hexdigest(),
            transactions=len(outcomes),
            committed=outcomes.count("committed"),
            aborted=outcomes.count("aborted"),
            unknown=outcomes.count("unknown"),
            met=sum((each.met for each in self.producers), Counter()),
            deeds=self.nemesis.deeds,
        )

    # ------------------------------------------------------------------ what must hold at every moment

    def _watch(self) -> None:
        """The last stable offset never goes back, and never passes the high watermark."""
        for node in (self.world.nodes[node_id] for node_id in self.world.running):
            for key, partition in node.partitions.items():
                if key[0] != "t" or not partition.is_leader:
                    continue
                stable = partition.last_stable_offset
                if not self._stable.get(key, 0) <= stable <= partition.high_watermark:
                    raise Violation(f"last stable offset of {key} at {stable} after {self._stable.get(key)}")
                self._stable[key] = stable


def run(seed: int, focus: Focus = GENERAL, *, verifies: bool = True, levels: tuple[int, ...] | None = None) -> Report:
    """Play the run of a seed; `Violation` if something does not hold.

    Without verification, or at other levels of transaction.version than the seed draws, it is another run.
    """
    return _Run(seed, focus, verifies=verifies, levels=levels).play()
