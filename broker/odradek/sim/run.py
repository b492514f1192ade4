"""A run of a schedule: producers of both styles, consumers, members of groups and a nemesis; then the checks."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import chain, islice
from typing import Any

from msgspec import Struct
from msgspec.msgpack import encode

from odradek.core.machine import Fact
from odradek.log.partition import Partition
from odradek.releases.dialects.load import load, producer_class
from odradek.releases.dialects.producer import Producer as Core
from odradek.sim.checks.at_rest import PARTITIONS, TIMEOUT_CHECKS_MS, Checks
from odradek.sim.checks.descriptions import silent_problems, watchers_problems
from odradek.sim.checks.groups import offset_problems, rebalance_problems
from odradek.sim.checks.lookups import epoch_problems, lookup_problems, metadata_images
from odradek.sim.checks.offsets import shared_offset_problems, told_at_rest, used_groups
from odradek.sim.checks.ownership import owners_problems
from odradek.sim.checks.share_groups import dead_letter_problems, dead_letters, share_problems
from odradek.sim.checks.share_work import share_work_problems
from odradek.sim.checks.writes import LAG_MAX_MS, write_problems
from odradek.sim.clients.aborting_admins import Aborter
from odradek.sim.clients.consumers import Consumer, read_committed
from odradek.sim.clients.describing_admins import Group, Watcher
from odradek.sim.clients.dialect_producers import Speaker, Store
from odradek.sim.clients.directories import Lookups
from odradek.sim.clients.group_workers import Member
from odradek.sim.clients.idempotent_producers import Idempotent
from odradek.sim.clients.lookup_clients import Looker
from odradek.sim.clients.offset_committers import Committer
from odradek.sim.clients.producers import Producer, Transaction
from odradek.sim.clients.share_consumers import SHARE_CONFIG, Sharer, share_group_settings
from odradek.sim.clients.share_workers import COPIES, SHARE_WORK_CONFIG, ShareWorker, share_work_settings
from odradek.sim.clients.workers import SESSION_MS, WORK_GROUP, Worker
from odradek.sim.model.model import Model, ReadBatch
from odradek.sim.model.promises import PROMISES, Problem, Violation
from odradek.sim.schedules.nemesis import Nemesis
from odradek.sim.schedules.schedule import REMADE, Player, Schedule
from odradek.sim.world.actors import Asked, Stage
from odradek.sim.world.dice import Dice
from odradek.sim.world.disk import SimDisk
from odradek.sim.world.world import Livelock, World
from odradek.wire.registry import ApiKey

__all__ = ["Report", "Run", "run"]

TopicPartition = tuple[str, int]
PEACE_MS = 60_000
"""Longer than every timeout of the run."""
PROBLEMS_MAX = 20
DAYS_AHEAD = "set a clock days ahead"
AHEAD = frozenset({"set a clock ahead", DAYS_AHEAD})
KEPT_MS = 2**31 - 1
"""Retention where a clock is set days ahead, for everything but offsets of groups."""


class Report(Struct):
    """The result of a run that kept every promise."""

    digest: str
    """Hash of the whole trace."""
    transactions: int
    committed: int
    aborted: int
    unknown: int
    met: Counter[str]
    """Errors in the answers to producers, and how often each came."""
    deeds: list[tuple[int, str]]
    virtual_ms: int


class Run:
    """One run; its journal, events and requests stay readable after it, however it ended."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.model = Model()
        """Judges every event and every read."""
        self.calm = False
        """Whether the nemesis has finished."""
        dialect = None if schedule.dialect is None else load(schedule.dialect)
        has_levels = dialect is None or dialect.has_transaction_version
        config: dict[str, object] = {
            **({"odradek.transaction.version": schedule.levels[0]} if has_levels else {}),
            "transaction.state.log.num.partitions": 3,
            "offsets.topic.num.partitions": 3,
            "transaction.state.log.replication.factor": schedule.replicas,
            "offsets.topic.replication.factor": schedule.replicas,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": TIMEOUT_CHECKS_MS,
            "request.timeout.ms": 2_000,
            "replica.lag.time.max.ms": LAG_MAX_MS,
            "transaction.partition.verification.enable": schedule.verification,
            "group.min.session.timeout.ms": 500,
            "group.initial.rebalance.delay.ms": 0,
            "transaction.two.phase.commit.enable": schedule.dialect is not None,
        }
        if schedule.share_workers:
            config |= SHARE_WORK_CONFIG
        if schedule.sharers or schedule.share_workers:
            config |= SHARE_CONFIG | {"share.coordinator.state.topic.replication.factor": schedule.replicas}
        if schedule.rejects:
            config["default.replication.factor"] = schedule.replicas
        if schedule.heartbeats:
            config["group.consumer.assignment.interval.ms"] = 0
        if schedule.session_ms:
            config |= {
                "group.consumer.session.timeout.ms": schedule.session_ms,
                "group.consumer.min.session.timeout.ms": schedule.session_ms,
                "group.consumer.heartbeat.interval.ms": schedule.session_ms // 5,
                "group.consumer.min.heartbeat.interval.ms": schedule.session_ms // 5,
            }
        if schedule.producer_expiration_ms:
            config["producer.id.expiration.ms"] = schedule.producer_expiration_ms
            config["producer.id.expiration.check.interval.ms"] = schedule.producer_expiration_ms // 2
        if schedule.segments_ms:
            config |= {
                "log.roll.ms": schedule.segments_ms,
                "log.cleaner.backoff.ms": schedule.segments_ms,
                "log.cleaner.min.cleanable.ratio": 0,
                "log.cleaner.delete.retention.ms": schedule.segments_ms,
            }
        if schedule.lag_ms:
            config["odradek.replica.lag.ms"] = schedule.lag_ms
        if schedule.min_insync > 1:
            config["min.insync.replicas"] = schedule.min_insync
        if DAYS_AHEAD in _kinds(schedule):
            config |= {
                "log.retention.ms": -1,
                "producer.id.expiration.ms": KEPT_MS,
                "transactional.id.expiration.ms": KEPT_MS,
            }
        if schedule.id_expiration_ms:
            config["transactional.id.expiration.ms"] = schedule.id_expiration_ms
            config["transaction.remove.expired.transaction.cleanup.interval.ms"] = schedule.id_expiration_ms // 2
        self.world = World(
            brokers=schedule.brokers,
            topics=[
                f"t:3:{schedule.replicas}",
                *([f"{REMADE}:1:{schedule.replicas}"] if schedule.remakes else []),
                *([f"{COPIES}:3:{schedule.replicas}"] if schedule.share_workers else []),
            ],
            seed=schedule.seed,
            delay_ms=(0, schedule.slowest_ms),
            config=config,
            dialect=dialect,
            remembers=False,
            disk=None if schedule.disk == "none" else SimDisk(),
            sync=schedule.disk == "synced",
        )
        if schedule.sharers:
            settings = share_group_settings(has_queue=schedule.rejects > 0)
            self.world.client(self.world.spec.controller_id).ask(settings, 1)
        if schedule.share_workers:
            self.world.client(self.world.spec.controller_id).ask(share_work_settings(), 1)
        # Before anything goes wrong every broker needs its block of producer ids and the metadata.
        self.world.advance(1_000)
        self.start = self.world.now
        for node in self.world.nodes.values():
            node.coordinators.load_ms = schedule.load_ms
        self.stage = Stage(self.world, after_each=self._watch)
        self.journal: list[Transaction] = []
        self.producers: list[Producer] = []
        self.workers: list[Worker] = []
        kind = Core if schedule.dialect is None else producer_class(schedule.dialect)
        store = Store()
        for plan in schedule.players:
            how: dict[str, Any] = {
                "plan": plan,
                "timeout_ms": schedule.transaction_timeout_ms,
                "goes_on": lambda: not self.calm,
                "journal": self.journal,
            }
            producer: Producer
            if plan.speaks:
                level = min(schedule.levels) if has_levels else 0
                producer = Speaker(self.world, kind=kind, careful=schedule.careful, level=level, store=store, **how)
            else:
                producer = _kind_of(plan, schedule)(self.world, newest=kind.older, **how)
            self.producers.append(producer)
            if isinstance(producer, Worker):
                self.workers.append(producer)
            if isinstance(producer, Member):
                producer.ranges = schedule.ranges
        self.consumers = [
            Consumer(
                self.world,
                PARTITIONS[index],
                random=Dice(f"{schedule.seed} {index}"),
                calm=lambda: self.calm,
                judge=self._judge,
                sessions=schedule.sessions,
                directory=(
                    Lookups(self.world, f"{schedule.seed} {index} lookups") if schedule.consumers_look_up else None
                ),
            )
            for index in schedule.consumers
        ]
        self.sharers = [
            Sharer(
                self.world,
                f"s{number}",
                seed=f"{schedule.seed} sharer {number}",
                dawdles=schedule.dawdles,
                rejects=schedule.rejects,
            )
            for number in range(schedule.sharers)
        ]
        self.share_workers = [
            ShareWorker(
                self.world,
                f"sw{number}",
                seed=f"{schedule.seed} share worker {number}",
                level=min(schedule.levels),
                timeout_ms=schedule.transaction_timeout_ms,
                goes_on=lambda: not self.calm,
            )
            for number in range(schedule.share_workers)
        ]
        self.group = Group(WORK_GROUP, schedule.heartbeats, schedule.session_ms or SESSION_MS)
        """The group of the workers; the admins ask about it."""
        self.watchers = [
            Watcher(
                self.world,
                random=Dice(f"{schedule.seed} watcher {number}"),
                transactional_ids=sorted({plan.transactional_id for plan in schedule.players}) or [""],
                goes_on=lambda: not self.calm,
                group=self.group if schedule.watches_members else None,
            )
            for number in range(schedule.watchers)
        ]
        self.aborters = [
            Aborter(
                self.world,
                random=Dice(f"{schedule.seed} aborter {number}"),
                transactional_ids=sorted({plan.transactional_id for plan in schedule.players}),
                goes_on=lambda: not self.calm,
            )
            for number in range(schedule.aborters)
        ]
        self.committers = [
            Committer(
                self.world,
                f"c{number}",
                random=Dice(f"{schedule.seed} committer {number}"),
                groups=[group for group, count in schedule.groups.items() if count > 1],
                goes_on=lambda: not self.calm,
            )
            for number in range(schedule.committers)
        ]
        self.lookers = [
            Looker(
                self.world,
                random=Dice(f"{schedule.seed} looker {number}"),
                transactional_ids=sorted({plan.transactional_id for plan in schedule.players}),
                goes_on=lambda: not self.calm,
            )
            for number in range(schedule.lookers)
        ]
        self.nemesis = Nemesis(
            self.world,
            deeds=schedule.deeds,
            duration_ms=schedule.duration_ms,
            levels=schedule.levels,
            transactional_ids=[plan.transactional_id for plan in schedule.players if not plan.idempotent],
        )
        self._stable: dict[TopicPartition, int] = {}
        self._watched_at = -1
        self._facts: list[tuple[int, int, Fact]] = []

    @property
    def asked(self) -> list[Asked]:
        """Every request of every client, with its answer."""
        return self.stage.asked

    @property
    def facts(self) -> list[tuple[int, int, Fact]]:
        """The events of the brokers, as (virtual ms, broker id, event)."""
        world = self.world
        if len(self._facts) != len(world.facts):
            times = world.fact_times
            self._facts = [(at, node_id, fact) for at, (node_id, fact) in zip(times, world.facts, strict=True)]
        return self._facts

    def play(self) -> Report:
        """Play the schedule and check the run. Raises Violation if a promise is broken."""
        collects = gc.isenabled()
        # Garbage collection takes a quarter of the time, and all memory of a run is freed when it ends.
        gc.disable()
        try:
            self._play()
        except Violation:
            raise
        except Exception as error:
            name = "livelock" if isinstance(error, Livelock) else "failure"
            problem = Problem(name, f"{type(error).__name__}: {error}")
            raise self._violation(problem) from error
        finally:
            if collects:
                gc.enable()
        outcomes = [each.outcome for each in self.journal]
        return Report(
            digest=digest(self.facts),
            transactions=len(outcomes),
            committed=outcomes.count("committed"),
            aborted=outcomes.count("aborted"),
            unknown=outcomes.count("unknown"),
            met=sum((each.met for each in self.producers), Counter()),
            deeds=self.nemesis.deeds,
            virtual_ms=self._elapsed,
        )

    def _violation(self, *problems: Problem) -> Violation:
        """A violation with these problems and those of the model so far, in the order of the promises."""
        order = list(PROMISES)
        found = sorted((*problems, *self.model.problems[:PROBLEMS_MAX]), key=lambda each: order.index(each.name))
        return Violation(found, at_ms=self._elapsed)

    @property
    def _elapsed(self) -> int:
        return self.world.now - self.start

    def _play(self) -> None:
        stage, world = self.stage, self.world
        for producer in self.producers:
            stage.add(producer.name, producer.script())
        for consumer in self.consumers:
            stage.add(f"consumer-{consumer.partition[1]}", consumer.script())
        for worker in self.workers:
            stage.add(f"member-{worker.name}", worker.consume())
        for sharer in self.sharers:
            stage.add(f"sharer-{sharer.name}", sharer.script())
        for share_worker in self.share_workers:
            stage.add(f"share-worker-{share_worker.name}", share_worker.script())
        for number, watcher in enumerate(self.watchers):
            stage.add(f"watcher-{number}", watcher.script())
        for number, aborter in enumerate(self.aborters):
            stage.add(f"aborter-{number}", aborter.script())
        for number, committer in enumerate(self.committers):
            stage.add(f"committer-{number}", committer.script())
        for number, looker in enumerate(self.lookers):
            stage.add(f"looker-{number}", looker.script())
        nemesis = stage.add("nemesis", self.nemesis.script())
        if not stage.play([nemesis], within_ms=self.schedule.duration_ms + PEACE_MS):
            raise self._violation(Problem("no progress", "what goes wrong does not come to its end"))
        self.calm, calm_at = True, world.now
        news = world.nodes[world.spec.controller_id].image.offset
        writers = stage.actors[: len(self.producers)]
        if not stage.play(writers, within_ms=PEACE_MS):
            names = ", ".join(each.name for each in writers if not each.done)
            raise self._violation(
                Problem("no progress", f"{names} had no answer that ends it within {PEACE_MS} ms"),
            )
        # A transaction that a fenced instance left open now reaches its timeout.
        world.advance(15_000)
        for consumer in self.consumers:
            consumer.stopping = True
        for sharer in self.sharers:
            sharer.stopping = True
        for share_worker in self.share_workers:
            share_worker.stopping = True
        at_rest = stage.play(stage.actors, within_ms=PEACE_MS)
        world.advance(5_000)
        checks = Checks(
            world,
            self.producers,
            self.consumers,
            self.journal,
            refuses=_refuses(self.schedule),
            forgets=self.schedule.producer_expiration_ms > 0,
            timeout_ms=self.schedule.transaction_timeout_ms,
            deleted_at=self.nemesis.deleted_at,
            stands_still=_stands_still(self.schedule),
            days_pass=DAYS_AHEAD in _kinds(self.schedule),
        )
        found = chain(
            checks.problems(),
            share_problems(self.sharers, checks.committed, self.facts, calm_at),
            dead_letter_problems(self.sharers, dead_letters(world.store), self.facts) if self.schedule.rejects else (),
            self._share_work_problems(checks.committed),
            self._owners_problems(),
            () if _holds_joins_up(self.schedule) else rebalance_problems(self.asked, until=calm_at),
            watchers_problems(self.watchers, self.facts),
            self._silent_problems(calm_at),
            offset_problems(self.asked, WORK_GROUP) if not self.nemesis.days_passed else (),
            self._shared_offset_problems(),
            write_problems(self.asked, until=calm_at) if _one_is_silent(self.schedule) else (),
            self._lookup_problems(calm_at, news),
        )
        self._watch()
        is_remade = world.nodes[world.spec.controller_id].image.topic(REMADE) is not None
        self.model.end(deleted=() if is_remade else (REMADE,))
        problems = self.model.problems + list(islice(found if at_rest else checks.without_rest(), PROBLEMS_MAX))
        if not at_rest and not problems + self.model.problems:
            problems = [Problem("no progress", f"{[each.name for each in stage.actors if not each.done]} are stuck")]
        self._watch()
        if problems or self.model.problems:
            raise self._violation(*problems)

    def _lookup_problems(self, calm_at: int, news: int) -> Iterator[Problem]:
        """`news`: the metadata offset of the controller when the trouble ended."""
        schedule = self.schedule
        if schedule.lookers or schedule.consumers_look_up or any(each.looks_up for each in schedule.players):
            images = metadata_images(self.world.store)
            yield from lookup_problems(self.asked, images, calm_at=calm_at, news=news)
            yield from epoch_problems(self.asked)

    def _share_work_problems(self, values: Mapping[TopicPartition, Sequence[bytes | None]]) -> Iterator[Problem]:
        if self.share_workers:
            copies = [value for _, index in PARTITIONS for value in read_committed(self.world, (COPIES, index))[0]]
            yield from share_work_problems(self.share_workers, values, copies)

    def _shared_offset_problems(self) -> Iterator[Problem]:
        groups = self.schedule.groups
        at_rest = told_at_rest(self.world, used_groups(self.asked, groups), self.stage.moment)
        yield from shared_offset_problems(self.asked, self.facts, groups, at_rest, days_passed=self.nemesis.days_passed)

    def _silent_problems(self, calm_at: int) -> Iterator[Problem]:
        """Checked until the trouble is over: members rest after that."""
        if self.schedule.watches_members and not _stands_still(self.schedule):
            asked = (each for each in self.asked if each.at <= calm_at)
            yield from silent_problems(self.watchers, asked, self.facts, self.group)

    def _owners_problems(self) -> Iterator[Problem]:
        """Not checked in dialects, which have rules of their own for transactional ids."""
        schedule = self.schedule
        if schedule.dialect is None and schedule.verification:
            yield from owners_problems(
                self.asked,
                # On a clock that is ahead a transaction may time out as soon as it is open.
                timeout_ms=0 if _kinds(schedule) & AHEAD else schedule.transaction_timeout_ms,
                forced=self.nemesis.forced,
                forgets=schedule.id_expiration_ms > 0,
                forgets_bumps=0 in schedule.levels,
                is_prompt=not _stands_still(schedule),
            )

    def _judge(self, key: TopicPartition, batches: list[ReadBatch], end: int, high_watermark: int | None) -> None:
        """Called when a consumer has read, or has asked where to begin: every transaction before `end` is decided."""
        self._watch(reads=True)
        self.model.read(key, batches, end=end, high_watermark=high_watermark)

    def _watch(self, *, reads: bool = False) -> None:
        """Pass new events to the model, and check last stable offsets, once a virtual millisecond and at each read.

        The last stable offset neither goes back nor passes the high watermark.
        """
        world, model = self.world, self.model
        if len(world.facts) > model.events:
            model.take_all(world.facts[model.events :])
        if world.now == self._watched_at and not reads:
            return
        self._watched_at = world.now
        stepped, world.stepped = world.stepped, set()
        for node_id in stepped:
            partitions = world.nodes[node_id].partitions
            for key in PARTITIONS:
                partition = partitions.get(key)
                if partition is None or not partition.is_leader:
                    continue
                if partition.log.mark is not None:
                    self._watch_replicas(partition)
                stable = partition.last_stable_offset
                if not self._stable.get(key, 0) <= stable <= partition.high_watermark:
                    seen = f"that of {key[0]}-{key[1]} is {stable} after {self._stable.get(key)}"
                    raise self._violation(Problem("last stable offset", seen))
                self._stable[key] = stable

    def _watch_replicas(self, partition: Partition) -> None:
        """Every replica that the controller has in sync in this leader's term has all committed records.

        The leader counts it, too. A replica that acknowledges at once has everything.
        """
        registered = self.world.nodes[self.world.spec.controller_id].image.partition(*partition.key)
        if registered is None or registered.leader_epoch != partition.leader_epoch:
            return
        followers, behind = partition.followers, partition.log.behind
        for replica in registered.isr:
            if replica not in behind:
                continue
            is_counted = replica in followers.in_sync or replica in followers.joining
            if not is_counted or behind[replica] < partition.high_watermark:
                where = f"{partition.topic}-{partition.index}"
                seen = f"{replica} is in sync in {where}, and its leader {registered.leader} does not wait for it"
                raise self._violation(Problem("uncounted replica", seen))


def _refuses(schedule: Schedule) -> bool:
    """Whether a rule answers Produce requests with an error, so that the leader does not see the batches."""
    rules = [deed.rule for deed in schedule.deeds if deed.rule is not None]
    return any(rule.match.api == ApiKey.PRODUCE.name and rule.act.error is not None for rule in rules)


def _one_is_silent(schedule: Schedule) -> bool:
    """Whether silent replicas are the only fault, and enough other replicas are left."""
    return schedule.min_insync == 1 and {deed.kind for deed in schedule.deeds} <= {"silence a replica"}


def _kinds(schedule: Schedule) -> set[str]:
    """The kinds of all deeds of the schedule, those that follow from rules included."""
    return {each for deed in schedule.deeds for each in (deed.kind, deed.then)}


def _stands_still(schedule: Schedule) -> bool:
    """Whether a broker stops for a while, or waits for replicas that have stopped.

    A leader that has not heard that a replica is gone waits for it.
    """
    kinds = _kinds(schedule)
    if "deafen a broker" in kinds and not kinds.isdisjoint({"remove a broker", "crash a broker"}):
        return True
    still = {"crash a broker unnoticed", "pause a broker", "set a clock back", "change a lag", "silence a replica"}
    return not kinds.isdisjoint(still)


def _holds_joins_up(schedule: Schedule) -> bool:
    """Whether faults of brokers and of requests may make a rebalance take longer."""
    matches = [deed.rule.match.apis for deed in schedule.deeds if deed.rule is not None]
    return _stands_still(schedule) or any(apis is None or ApiKey.JOIN_GROUP in apis for apis in matches)


def digest(facts: list[tuple[int, int, Fact]]) -> str:
    """Hash of the events of the brokers: equal for equal traces."""
    told = [(at, node_id, fact.kind, fact.fields) for at, node_id, fact in facts]
    return sha256(encode(told, enc_hook=repr)).hexdigest()


def _kind_of(plan: Player, schedule: Schedule) -> type[Producer]:
    if plan.idempotent:
        return Idempotent
    if not plan.works:
        return Producer
    return Member if schedule.heartbeats else Worker


def run(schedule: Schedule) -> Report:
    """Play a schedule. Raises Violation if a promise is broken."""
    return Run(schedule).play()
