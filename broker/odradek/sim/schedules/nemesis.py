"""The nemesis: moves leaders, breaks connections, delays messages, removes brokers and brings them back."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from odradek.broker import Node
from odradek.core.internal_topics import AT_START, CoordinatorKind, partition_for
from odradek.core.machine import Refused
from odradek.faults.armed import Armed
from odradek.faults.model import Rule, RuleError
from odradek.faults.one_line import rule
from odradek.host.call import Call
from odradek.host.events import Command
from odradek.metadata.brokers import may_lead
from odradek.sim.schedules.faults import told
from odradek.sim.schedules.schedule import REMADE, Deed
from odradek.sim.world.actors import Ask, AskAll, Script, Sleep
from odradek.sim.world.world import World
from odradek.txn.entry import EPOCH_LAST_USABLE
from odradek.txn.epochs import force_epoch
from odradek.txn.shard import TransactionShard
from odradek.txn.states import EXPIRABLE
from odradek.txn.transitions import BUMPING
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import WRITE_TXN_MARKERS
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.create_topics_response import CreateTopicsResponse
from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest
from odradek.wire.messages.delete_topics_response import DeleteTopicsResponse
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.init_producer_id_response import InitProducerIdResponse
from odradek.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.wire.messages.write_txn_markers_request import WritableTxnMarker
from odradek.wire.registry import ApiKey

__all__ = ["DEEDS", "Forced", "Nemesis"]

TICK_MS = 25
SOON_MS = 5
"""Delay of a deed that follows a rule's first hit."""
FENCES_MAX = 10
"""How often an admin asks again while a transaction is about to end."""
FENCED_TIMEOUT_MS = 8_000
ADMIN_PATIENCE_MS = 1_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
DAYS_AHEAD_MAX = 12
"""After this many days a clock moves by hours only: `Run` retains its data for 24 days."""
EPOCHS_LEFT = 4
"""At most this many epochs are left when epochs are used up."""


_OfTopics = DeleteTopicsResponse | CreateTopicsResponse | None
Outcome = str | Generator[Sleep | Ask | AskAll, Any, str]
"""A sentence about the deed, or a script that returns it in the end."""


class Forced(Struct, frozen=True):
    """The epoch of a transactional id was changed by force."""

    at: int
    transactional_id: str


class Nemesis:
    """Executes the deeds of a schedule, and repairs everything in the end."""

    def __init__(
        self,
        world: World,
        *,
        deeds: Sequence[Deed],
        duration_ms: int,
        levels: tuple[int, ...],
        transactional_ids: Sequence[str] = (),
    ) -> None:
        self.world = world
        self.random = Random(0)
        self.duration_ms = duration_ms
        self.levels = levels
        self.deeds: list[tuple[int, str]] = []
        """(Virtual ms, sentence about the deed)."""
        self.deleted_at = 0
        """When the topic that is made again was deleted last."""
        self.forced: list[Forced] = []
        """The transactional ids whose epochs were used up."""
        self.days_passed: list[int] = []
        """When a clock was set so far ahead that retention times of hours or days may be over."""
        self._schedule = deeds
        self._transactional_ids = list(dict.fromkeys(transactional_ids))
        self._follow_ups: list[tuple[Armed, Deed]] = []
        """Deeds to do when a rule has hit for the first time."""
        self._faults: list[tuple[int, Armed]] = []
        self._late_markers: dict[int, Call] = {}
        """Markers of a coordinator that was replaced since, by the identity of the rule that holds them."""
        self._gone: set[int] = set()
        """Brokers that the controller holds for dead, and that still run."""
        self._slow: set[int] = set()
        """Brokers whose replicas have another lag than the schedule's."""
        self._deaf: dict[int, int] = {}
        """Brokers that receive no metadata, and until when."""
        self._paused: dict[int, int] = {}
        """Paused brokers, and until when."""
        self._missed: dict[int, int] = {}
        """Brokers that died unnoticed, and until when."""

    def script(self) -> Script:
        """All deeds of the schedule, then the repair."""
        start = self.world.now
        end = start + self.duration_ms
        for deed in self._schedule:
            yield from self._wait(min(start + deed.at_ms, end))
            if self.world.now >= end:
                break
            self.random = Random(deed.seed)
            if deed.rule is not None:
                armed = len(self._faults)
                self._did(self._arm(deed.rule, lasts_ms=deed.lasts_ms))
                if deed.then and len(self._faults) > armed:
                    self._follow_ups.append((self._faults[-1][1], deed))
                continue
            yield from self._do_it(deed.kind)
        yield from self._wait(end)
        self._set_right()

    def _wait(self, until: int) -> Script:
        """Wait, and meanwhile end the faults whose time is over."""
        while True:
            self._end_what_is_over()
            yield from self._follow_up()
            if self.world.now >= until:
                return
            tick_ms = SOON_MS if self._follow_ups else TICK_MS
            yield Sleep(min(tick_ms, until - self.world.now))

    def _end_what_is_over(self) -> None:
        self._lift_what_is_over()
        self._let_hear(now=self.world.now)
        self._let_go_on(now=self.world.now)
        self._notice(now=self.world.now)

    def _do_it(self, kind: str) -> Script:
        done = DEEDS[kind](self)
        self._did(done if isinstance(done, str) else (yield from done))

    def _follow_up(self) -> Script:
        """Do the deeds that follow from rules that have hit. A rule that ends without a hit has none."""
        if not self._follow_ups:
            return
        armed = [fault for _, fault in self._faults]
        waiting, self._follow_ups = self._follow_ups, []
        for fault, deed in waiting:
            if fault.hits:
                self.random = Random(deed.seed + 1)
                yield from self._do_it(deed.then)
            elif fault in armed:
                self._follow_ups.append((fault, deed))

    def _did(self, deed: str) -> None:
        self.deeds.append((self.world.now, deed))

    def move_a_leader(self) -> str:
        return self._move("t")

    def move_a_coordinator(self) -> str:
        return self._move(self.random.choice([kind.topic for kind in AT_START]))

    def _move(self, topic: str, index: int | None = None) -> str:
        image = self._controller.image.topic(topic)
        assert image is not None
        if index is None:
            index = self.random.choice(sorted(image.partitions))
        partition = image.partitions[index]
        able = [
            node_id
            for node_id in self.world.running
            if self._controller.image.is_alive(node_id) and may_lead(partition, node_id)
        ]
        if not able:
            return "nobody can lead"
        to = self.random.choice(able)
        self.world.move_leader(topic, index, to)
        return f"{topic}-{index} to {to}"

    @property
    def _controller(self) -> Node:
        return self.world.nodes[self.world.spec.controller_id]

    def remove_a_broker(self) -> str:
        """The controller holds a broker for dead; it runs on, and may not know."""
        if self._gone:
            return "nobody else may go"
        node_id = self.random.choice(self.world.running)
        self._gone.add(node_id)
        self._do(partial(self._controller.controller.fence, node_id))
        return f"broker {node_id} is gone"

    def return_a_broker(self) -> str:
        for node_id in sorted(self._gone):
            self._gone.discard(node_id)
            self._do(partial(self._controller.controller.admit, self.world.spec.broker(node_id)))
            return f"broker {node_id} is back"
        return "nobody was gone"

    def crash_a_broker(self) -> str:
        """A broker, perhaps the controller, dies and loses everything that is not in a log."""
        if len(self.world.running) == 1:
            return "the last one may not die"
        node_id = self.random.choice(self.world.running)
        self._forget(node_id)
        self.world.stop_broker(node_id)
        return f"broker {node_id} dies"

    def _forget(self, node_id: int) -> None:
        """End the other faults of a broker that dies."""
        self._gone.discard(node_id)
        self._deaf.pop(node_id, None)
        self._paused.pop(node_id, None)

    def crash_a_broker_unnoticed(self) -> str:
        """A broker dies, and the others hold it for alive until its session times out."""
        # One at a time: with two silent replicas of three and min.insync.replicas 2 all writes would wait long.
        if self._missed or len(self.world.running) == 1:
            return "nobody else may die"
        node_id = self.random.choice(self.world.running)
        self._forget(node_id)
        self._missed[node_id] = self.world.now + self.random.choice((50, 300, 1_500))
        self.world.stop_broker(node_id, noticed=False)
        return f"broker {node_id} dies unnoticed"

    def _notice(self, *, now: int) -> None:
        for node_id, until in list(self._missed.items()):
            if until <= now:
                del self._missed[node_id]
                self.world.notice_crash(node_id)
                self._did(f"the death of broker {node_id} is noticed")

    def restart_a_broker(self) -> str:
        dead = sorted(self.world.nodes.keys() - set(self.world.running))
        if not dead:
            return "nobody was dead"
        node_id = self.random.choice(dead)
        self._missed.pop(node_id, None)
        load_ms = self.world.nodes[node_id].coordinators.load_ms
        self.world.start_broker(node_id)
        self.world.nodes[node_id].coordinators.load_ms = load_ms
        return f"broker {node_id} starts again"

    def kill_all_brokers(self) -> str:
        """The processes of all brokers that run end at once, and start again on their files."""
        return self._end_all(with_machine=False)

    def cut_the_power(self) -> str:
        """The machine dies, and with it what was not synced."""
        return self._end_all(with_machine=True)

    def _end_all(self, *, with_machine: bool) -> str:
        running = self.world.running
        for node_id in running:
            self._forget(node_id)
        self._missed.clear()
        load_ms = self.world.nodes[running[0]].coordinators.load_ms
        self.world.end_all(with_machine=with_machine)
        for node_id in running:
            self.world.nodes[node_id].coordinators.load_ms = load_ms
        return (
            f"the power is off and on again for brokers {running}" if with_machine else f"brokers {running} are killed"
        )

    def pause_a_broker(self) -> str:
        """A broker stops for a while, as in a long garbage collection; requests to it wait."""
        node_id = self.random.choice(self.world.running)
        if node_id in self._paused or node_id == self.world.spec.controller_id:
            return f"broker {node_id} goes on"
        self._paused[node_id] = self.world.now + self.random.choice((50, 300, 1_500))
        self.world.pause(node_id)
        return f"broker {node_id} pauses"

    def set_a_clock_ahead(self) -> str:
        """A broker's clock is set ahead, so that its timers fire at once."""
        node_id = self.random.choice(self.world.running)
        ahead_ms = self.random.choice((300, 1_000, 5_000))
        return self._set_clock(node_id, max(ahead_ms, self.world.clock_ahead(node_id)))

    def set_a_clock_back(self) -> str:
        """A broker's clock is set back: it stands still for that long, because it never goes back."""
        node_id = self.random.choice(self.world.running)
        return self._set_clock(node_id, self.world.clock_ahead(node_id) - self.random.choice((100, 500, 2_000)))

    def set_a_clock_days_ahead(self) -> str:
        """A broker's clock is set so far ahead that retention times of days are over at its next check."""
        node_id = self.random.choice(self.world.running)
        ahead_ms = self.world.clock_ahead(node_id)
        days = self.random.choice((1, 8)) if ahead_ms < DAYS_AHEAD_MAX * DAY_MS else 0
        self.days_passed.append(self.world.now)
        return self._set_clock(node_id, ahead_ms + (days * DAY_MS or HOUR_MS))

    def _set_clock(self, node_id: int, ahead_ms: int) -> str:
        self.world.set_clock(node_id, ahead_ms=max(ahead_ms, 0))
        return f"the clock of broker {node_id} is {self.world.clock_ahead(node_id)} ms ahead"

    def _let_go_on(self, *, now: int) -> None:
        for node_id, until in list(self._paused.items()):
            if until <= now:
                del self._paused[node_id]
                self.world.go_on(node_id)
                self._did(f"broker {node_id} goes on")

    def deafen_a_broker(self) -> str:
        """For a while a broker receives no metadata: it believes to lead partitions that others lead by now."""
        node_id = self.random.choice(self.world.running)
        if node_id in self._deaf or node_id == self.world.spec.controller_id:
            return f"broker {node_id} hears what it has to"
        self._deaf[node_id] = self.world.now + self.random.choice((100, 500, 2_000))
        self.world.nodes[node_id].controller.advance = _hear_nothing  # type: ignore[method-assign]
        return f"broker {node_id} is deaf"

    def _let_hear(self, *, now: int) -> None:
        for node_id, until in list(self._deaf.items()):
            if until <= now:
                del self._deaf[node_id]
                del self.world.nodes[node_id].controller.advance
                log_end = self._controller.image.offset
                self._do(partial(self.world.nodes[node_id].controller.advance, log_end), node_id=node_id)
                self._did(f"broker {node_id} hears")

    def change_a_lag(self) -> str:
        """The replicas of a broker get another lag, or acknowledge nothing for a while."""
        node_id = self.random.choice(sorted(self.world.nodes))
        return self._take(node_id, self.random.choice((0, 5, 50, 400, None)))

    def silence_a_replica(self) -> str:
        """The replicas of a broker stop to acknowledge. One that was silenced before acknowledges everything first.

        With two of three replicas silent, a topic with min.insync.replicas 2 could not be written.
        """
        for silent in sorted(self._slow):
            self._take(silent, 0)
        self._slow.clear()
        return self._take(self.random.choice(sorted(self.world.nodes)), None)

    def _take(self, node_id: int, lag_ms: int | None) -> str:
        self.world.set_replica_lag(node_id, lag_ms)
        self._slow.add(node_id)
        return f"replicas of broker {node_id} take {lag_ms} ms"

    def lose_connections(self) -> str:
        self.world.loss = self.random.choice((0.0, 0.05, 0.2))
        return f"loss {self.world.loss}"

    def hold_markers(self) -> str:
        # Only markers that the epoch identifies: a late marker could end the next transaction of an older client,
        # which KIP-890 does not cover.
        node_id = self.random.choice(self.world.running)
        times = self.random.randint(1, 3)
        return self._arm(
            rule(ApiKey.WRITE_TXN_MARKERS, broker=node_id, hold=True, times=times, matches=self._is_new),
            lasts_ms=self.random.randint(50, 3_000),
        )

    def replace_a_coordinator_amid_markers(self) -> Generator[Sleep, Any, str]:
        """A coordinator is replaced while its marker is in flight; it arrives long after the marker of the successor.

        The coordinator epoch tells the two apart, so an older client is safe from it as well.
        """
        topic = self._controller.image.topic(CoordinatorKind.TRANSACTION.topic)
        assert topic is not None
        index = self.random.choice(sorted(topic.partitions))
        leader = topic.partitions[index].leader
        shard = self.world.nodes[leader].coordinators.at(topic.name, index) if leader in self.world.running else None
        if not isinstance(shard, TransactionShard) or self._deaf:
            return "no coordinator to replace"
        producer_ids = {entry.producer_id for entry in shard.machine.entries()}
        late: list[Call] = []

        def is_late(call: Call) -> bool:
            if not all(marker.producer_id in producer_ids for marker in call.request_of(WRITE_TXN_MARKERS).markers):
                return False
            late.append(call)
            return True

        fault = self.world.arm(rule(ApiKey.WRITE_TXN_MARKERS, hold=True, times=1, matches=is_late))
        for _ in range(40):
            yield Sleep(5)
            if late:
                self._late_markers[id(fault)] = late[0]
                self._faults.append((self.world.now + self.random.randint(200, 2_000), fault))
                return f"a marker is late, {self._move(topic.name, index)}"
        self.world.disarm(fault)
        return "no marker was late"

    def repeat_a_marker_late(self) -> Generator[Sleep, Any, str]:
        """The connection of a marker in flight breaks: it is sent again, and the first one arrives long after that.

        The epoch tells it from the marker of the next transaction (KIP-890), so a newer client is safe from it.
        """
        node_id = self.random.choice(self.world.running)
        late: list[Call] = []

        def is_late(call: Call) -> bool:
            if not self._is_new(call):
                return False
            late.append(call)
            return True

        fault = self.world.arm(rule(ApiKey.WRITE_TXN_MARKERS, broker=node_id, hold=True, times=1, matches=is_late))
        for _ in range(40):
            yield Sleep(5)
            if late:
                self.world.lose_links(node_id)
                self._late_markers[id(fault)] = late[0]
                self._faults.append((self.world.now + self.random.randint(200, 2_000), fault))
                return f"a marker for broker {node_id} is late, and was sent again"
        self.world.disarm(fault)
        return "no marker was late"

    def _is_awaited(self, fault: Armed) -> bool:
        """Whether a late marker would end the next transaction of its producer, were it not for the epochs."""
        call = self._late_markers.get(id(fault))
        return call is not None and any(
            self._is_open_again(marker, (topic.name, index))
            for marker in call.request_of(WRITE_TXN_MARKERS).markers
            for topic in marker.topics
            for index in topic.partition_indexes
        )

    def _is_new(self, call: Call) -> bool:
        """Whether epochs protect the clients of all markers in a request, whatever version the markers have."""
        return all(
            marker.transaction_version >= BUMPING or self._version_of(marker.producer_id) >= BUMPING
            for marker in call.request_of(WRITE_TXN_MARKERS).markers
        )

    def _version_of(self, producer_id: int) -> int:
        """The transaction version of a client, as its coordinator knows it."""
        return max(
            (
                entry.client_transaction_version
                for node_id in self.world.running
                for shard in self.world.nodes[node_id].transaction_coordinators.led()
                for entry in shard.machine.entries()
                if entry.producer_id == producer_id
            ),
            default=0,
        )

    def _is_open_again(self, marker: WritableTxnMarker, key: tuple[str, int]) -> bool:
        for node_id in self.world.running:
            partition = self.world.nodes[node_id].partitions.get(key)
            producer = None if partition is None else partition.producers.producers.get(marker.producer_id)
            if partition is None or producer is None:
                continue
            if marker.transaction_version >= 2:
                asking = partition.producers.guards.pending.get(marker.producer_id)
                is_open = producer.first_offset >= 0 and producer.epoch >= marker.producer_epoch
                return is_open or (asking is not None and asking.producer_epoch == marker.producer_epoch)
            if producer.coordinator_epoch > marker.coordinator_epoch:
                return producer.first_offset >= 0
        return False

    def _arm(self, fault: Rule, *, lasts_ms: int) -> str:
        try:
            armed = self.world.arm(fault)
        except RuleError:
            # A dialect may have other versions of the API than the rule is written for.
            return f"nobody sends what {told(fault)} would hit"
        self._faults.append((self.world.now + lasts_ms, armed))
        return told(fault)

    def _lift_what_is_over(self) -> None:
        faults, self._faults = self._faults, []
        for until, fault in faults:
            if until <= self.world.now or self._is_awaited(fault):
                self.world.disarm(fault)
            else:
                self._faults.append((until, fault))

    def change_the_level(self) -> Generator[Ask, Any, str]:
        level = self.random.choice(self.levels)
        upgrade_type = 1 if level >= self._controller.image.transaction_version else 2
        update = FeatureUpdateKey(feature="transaction.version", max_version_level=level, upgrade_type=upgrade_type)
        response = yield Ask(
            self.world.spec.controller_id, UpdateFeaturesRequest(timeout_ms=1000, feature_updates=[update]), 1
        )
        if response is None:
            return f"transaction.version {level} was not answered"
        assert response.error_code == ErrorCode.NONE, response
        return f"transaction.version {level}"

    def use_up_epochs(self) -> str:
        """An idle transactional id gets an epoch close to the last one, as if its producer had run for long."""
        tid = self.random.choice(self._transactional_ids)
        epoch = EPOCH_LAST_USABLE - self.random.randint(0, EPOCHS_LEFT)
        for node_id in self.world.running:
            shard = self.world.nodes[node_id].transaction_coordinators.of(tid)
            entry = None if isinstance(shard, Refused) else shard.machine.entry(tid)
            if isinstance(shard, Refused) or entry is None:
                continue
            # The next epoch would be the one that its producer gets when it retries the end of its transaction.
            if entry.state in EXPIRABLE and entry.producer_epoch + 1 < epoch:
                before = len(self.forced)
                self._do(partial(self._force_if_idle, shard, tid, epoch), node_id=node_id)
                if len(self.forced) > before:
                    return f"{tid} has epoch {epoch}"
        return f"{tid} is at work"

    def _force_if_idle(self, shard: TransactionShard, tid: str, epoch: int) -> None:
        # Requests that were in flight come first: a transaction may be open by now.
        with suppress(LookupError, ValueError, RuntimeError):
            force_epoch(shard, tid, epoch)
            self.forced.append(Forced(self.world.now, tid))

    def fence_a_producer(self) -> Generator[Sleep | Ask, InitProducerIdResponse | None, str]:
        """An admin bumps the epoch of a transactional id, which fences its producer (`fenceProducers`)."""
        tid = self.random.choice(self._transactional_ids)
        apis = self.world.config.release.apis
        newest = 4 if apis is None else min(4, apis[ApiKey.INIT_PRODUCER_ID.name][1])
        for _ in range(FENCES_MAX):
            coordinators = self._controller.image.topic(CoordinatorKind.TRANSACTION.topic)
            assert coordinators is not None
            leader = coordinators.partitions[partition_for(tid, len(coordinators.partitions))].leader
            if leader in self.world.running:
                request = InitProducerIdRequest(transactional_id=tid, transaction_timeout_ms=FENCED_TIMEOUT_MS)
                response = yield Ask(leader, request, newest, ADMIN_PATIENCE_MS)
                # A broker that is paused meanwhile resumes at its time.
                self._end_what_is_over()
                if response is not None and response.error_code == ErrorCode.NONE:
                    return f"{tid} is fenced"
            yield Sleep(self.random.randint(5, 60))
        return f"{tid} could not be fenced"

    def remake_a_topic(self) -> Generator[Sleep | Ask, _OfTopics, str]:
        """The topic without consumers is deleted, and some time later made again under its name."""
        asked_at = self.world.now
        gone = yield from self._ask_for(DeleteTopicsRequest(topic_names=[REMADE], timeout_ms=1_000), 3)
        if gone:
            self.deleted_at = asked_at
            if self.random.random() < 0.3:
                # The next deed tries again.
                return f"{REMADE} is gone"
        yield Sleep(self.random.choice((0, 0, 20, 200)))
        replicas = self.random.choice((1, len(self.world.nodes)))
        topic = CreatableTopic(name=REMADE, num_partitions=1, replication_factor=replicas)
        made = yield from self._ask_for(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 4)
        return f"{REMADE} is {'made again' if gone and made else 'perhaps made again'}"

    def _ask_for(
        self, request: DeleteTopicsRequest | CreateTopicsRequest, version: int
    ) -> Generator[Sleep | Ask, _OfTopics, bool]:
        """Ask the controller until it answers; True if it has done it. A crashed one is asked again."""
        for _ in range(FENCES_MAX):
            response = yield Ask(self.world.spec.controller_id, request, version, ADMIN_PATIENCE_MS)
            self._end_what_is_over()
            if isinstance(response, DeleteTopicsResponse):
                return response.responses[0].error_code == ErrorCode.NONE
            if response is not None:
                return response.topics[0].error_code == ErrorCode.NONE
            yield Sleep(self.random.randint(5, 60))
        return False

    def _set_right(self) -> None:
        self.world.loss = 0.0
        for _, fault in self._faults:
            self.world.disarm(fault)
        self._faults = []
        self._let_hear(now=self.world.now + 60_000)
        self._let_go_on(now=self.world.now + 60_000)
        while len(self.world.running) < len(self.world.nodes):
            self._did(self.restart_a_broker())
        while self._gone:
            self._did(self.return_a_broker())
        for node_id in sorted(self._slow):
            self.world.set_replica_lag(node_id, 0)
        self._did("all is well")

    def _do(self, act: Callable[[], object], *, node_id: int | None = None) -> None:
        def command() -> None:
            act()

        self.world.post(self.world.spec.controller_id if node_id is None else node_id, Command(command))
        self.world.run()


def _hear_nothing(offset: int) -> None:
    pass


DEEDS: Mapping[str, Callable[[Nemesis], Outcome]] = MappingProxyType(
    {
        "move a leader": Nemesis.move_a_leader,
        "move a coordinator": Nemesis.move_a_coordinator,
        "lose connections": Nemesis.lose_connections,
        "hold markers": Nemesis.hold_markers,
        "remove a broker": Nemesis.remove_a_broker,
        "return a broker": Nemesis.return_a_broker,
        "crash a broker": Nemesis.crash_a_broker,
        "crash a broker unnoticed": Nemesis.crash_a_broker_unnoticed,
        "restart a broker": Nemesis.restart_a_broker,
        "kill all brokers": Nemesis.kill_all_brokers,
        "cut the power": Nemesis.cut_the_power,
        "deafen a broker": Nemesis.deafen_a_broker,
        "replace a coordinator amid markers": Nemesis.replace_a_coordinator_amid_markers,
        "repeat a marker late": Nemesis.repeat_a_marker_late,
        "pause a broker": Nemesis.pause_a_broker,
        "set a clock ahead": Nemesis.set_a_clock_ahead,
        "set a clock back": Nemesis.set_a_clock_back,
        "set a clock days ahead": Nemesis.set_a_clock_days_ahead,
        "change a lag": Nemesis.change_a_lag,
        "silence a replica": Nemesis.silence_a_replica,
        "change the level": Nemesis.change_the_level,
        "use up epochs": Nemesis.use_up_epochs,
        "fence a producer": Nemesis.fence_a_producer,
        "remake a topic": Nemesis.remake_a_topic,
    }
)
"""The deeds besides rules, by their names in a schedule."""
