"""A simulated cluster on which a story is arranged: its rules, what follows from them, and clients with names."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any

from msgspec import Struct
from tests.kips.cluster import Cluster
from tests.kips.producer import Producer
from tests.kips.styles import NEW, Style
from tests.kips.view import OK, Pending, TopicPartition

from odradek.control.stories import read_story
from odradek.core.internal_topics import CoordinatorKind
from odradek.core.machine import Fact
from odradek.faults.armed import SeenRequest
from odradek.faults.model import Step
from odradek.sim import Answer, World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.find_coordinator_response import FindCoordinatorResponse
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic

__all__ = ["COORDINATOR", "GROUP", "GROUP_COORDINATOR", "LEADER", "ORDERS", "TILL", "Stage"]

LEADER, COORDINATOR, GROUP_COORDINATOR = 1, 2, 3
"""Who does what at the beginning of each story with three brokers: of `orders` and `copies`, of TILL, of GROUP."""
ORDERS: TopicPartition = ("orders", 0)
TILL = "till-1"
GROUP = "kitchen"
WAY_MS = 1
"""How long a message between two brokers is on its way, and a client needs between two requests."""
SETTLES_MS = 2_000
MADE_BY_CLIENTS = {"streams-member-expires": ("orders", "counts")}
"""Topics that the application of a story makes before it begins."""


class _Following(World):
    """A world that does what follows from rules when its brokers are out of their steps."""

    def __init__(self, **settings: Any) -> None:
        self.deeds: deque[Callable[[], object]] = deque()
        self._does = False
        super().__init__(**settings)

    def run(self) -> None:
        super().run()
        if self._does:
            return  # what is due in the middle of a deed comes after it
        self._does = True
        while self.deeds:
            self.deeds.popleft()()
            super().run()
        self._does = False

    def emit(self, node_id: int, facts: Iterable[Fact]) -> None:
        told = len(self.facts)
        super().emit(node_id, facts)
        shown = self.now + self.clock_ahead(node_id)
        self.fact_times[told:] = [shown] * (len(self.facts) - told)

    def set_clocks_ahead(self, milliseconds: int) -> None:
        """Let much time pass at once: what has come due is done by each broker."""
        for node_id in self.nodes:
            self.set_clock(node_id, ahead_ms=self.clock_ahead(node_id) + milliseconds)


class Stage(Cluster):
    """The cluster of a story. `named` gives the same cluster as another client sees it."""

    world: _Following

    def __init__(self, story: str) -> None:
        plan = read_story(story)
        asked = plan.cluster
        self.client_id = "client"
        self.plan = plan
        config: dict[str, object] = {
            "transaction.state.log.num.partitions": 1,
            "offsets.topic.num.partitions": 1,
            "share.coordinator.state.topic.num.partitions": 1,
            **asked.overrides,
        }
        if asked.transaction_version is not None:
            config["odradek.transaction.version"] = asked.transaction_version
        if asked.as_kafka is not None:
            config["odradek.as.kafka"] = asked.as_kafka
        self.world = _Following(
            brokers=asked.brokers,
            topics=[*asked.topics, *MADE_BY_CLIENTS.get(story, ())],
            config=config,
            delay_ms=(WAY_MS, WAY_MS),
        )
        self._cast()
        self.begins_at = len(self.world.facts)
        self.world.rules.carry_out = self._follow
        self.rules = self.world.rules.add(plan.rules)

    def _cast(self) -> None:
        """Who coordinates and leads is the same in each story, and has happened before it begins."""
        brokers = len(self.world.spec.brokers)
        for key, kind, to in ((TILL, 1, COORDINATOR), (GROUP, 0, GROUP_COORDINATOR)):
            self.find_coordinator(key, kind)
            if brokers > 1:
                self.world.move_leader(*self._internal(list(CoordinatorKind)[kind], key), to)
        for topic, registered in self.world.nodes[LEADER].image.topics.items():
            if brokers > 1 and not topic.startswith("__"):
                for index in registered.partitions:
                    self.world.move_leader(topic, index, LEADER)
        self.world.advance(SETTLES_MS)

    # ------------------------------------------------------------------ clients

    def named(self, client_id: str) -> Stage:
        """The same cluster, asked by a client of this name."""
        other = copy(self)
        other.client_id = client_id
        return other

    def till(
        self, style: Style = NEW, *, client_id: str = "till", timeout_ms: int = 60_000, starts: bool = True
    ) -> Producer:
        """A producer of TILL."""
        producer = Producer(self.named(client_id), style, tid=TILL, timeout_ms=timeout_ms)
        if starts:
            assert OK is producer.init()
        return producer

    def send(self, node_id: int, request: Struct, version: int, *, client_id: str | None = None) -> Answer:
        """Send a request on a connection of its own."""
        self.world.advance(WAY_MS)
        return self.world.client(node_id, client_id=client_id or self.client_id).send(request, version)

    def ask(self, node_id: int, request: Struct, version: int) -> Any:
        """Send a request and wait for the answer."""
        answer = self.send(node_id, request, version)
        self.world.run_until(lambda: answer.arrived or answer.lost, within_ms=60_000)
        return answer.response

    def pending(self, node_id: int, request: Struct, version: int, read: Callable[[Any], Any]) -> Pending[Any]:
        """Send a request; its answer, read as told, comes when the world runs."""
        self.world.advance(WAY_MS)
        client = self.world.client(node_id, client_id=self.client_id)
        return Pending(self.world, client, client.send(request, version), read)

    def find_coordinator(self, key: str, kind: int = 1) -> int:
        """FindCoordinator, until there is one."""
        for _ in range(100):
            found: FindCoordinatorResponse = self.ask(LEADER, FindCoordinatorRequest(key=key, key_type=kind), 1)
            if found.error_code == OK:
                return found.node_id
            self.world.advance(100)
        raise AssertionError(f"{key} has no coordinator")

    def ask_for_metadata(self, topic: str = "orders") -> None:
        """Metadata of one topic."""
        self.ask(LEADER, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 9)

    def gives_up(self, pending: Pending[Any]) -> None:
        """Wait until the connection of a request is closed, instead of an answer."""
        self.world.run_until(lambda: pending.lost, within_ms=60_000)
        assert pending.lost

    def again(self, call: Callable[[], ErrorCode], error: ErrorCode, *, every_ms: int = 200) -> ErrorCode:
        """Repeat a call while it answers this error; the last answer. It is heard once at least."""
        answer = call()
        assert answer is error, answer
        while answer is error:
            self.world.advance(every_ms)
            answer = call()
        return answer

    def until_done(self, call: Callable[[], ErrorCode], *, every_ms: int = 200) -> list[ErrorCode]:
        """Repeat a call until it succeeds; the errors before that."""
        errors = []
        while (answer := call()) is not OK:
            errors.append(answer)
            self.world.advance(every_ms)
        return errors

    # ------------------------------------------------------------------ what follows from rules

    def _follow(self, steps: Sequence[Step], request: SeenRequest) -> None:
        for step in steps:
            self.world.deeds.append(partial(self._do, step, request))

    def _do(self, step: Step, request: SeenRequest) -> None:
        does: Mapping[str, Callable[[], object]] = {
            "release": lambda: self._of_rules(step.release, self.world.release),
            "remove": lambda: self._of_rules(step.remove, self.world.disarm),
            "move_leader": lambda: self._to_the_next(self._partition_of(request)),
            "move_transaction_coordinator": lambda: self._to_the_next(self.log_of(TILL)),
            "restart_broker": lambda: self._restart(request.broker),
            "set_producer_epoch": lambda: self.force_epoch(TILL, step.set_producer_epoch or 0),
            "set_transaction_version": lambda: self._set_level(step.set_transaction_version or 0),
            "set_coordinator_load_ms": lambda: self._set_load_ms(step.set_coordinator_load_ms or 0),
            "advance_ms": lambda: self._advance(step.advance_ms or 0),
        }
        does[step.given[0]]()

    def _of_rules(self, name: str | None, act: Callable[[Any], None]) -> None:
        for armed in self.world.rules:
            if armed.name == name:
                act(armed)

    def _partition_of(self, request: SeenRequest) -> TopicPartition:
        return str(request.ids["topic"][0]), int(request.ids["partition"][0])

    def _to_the_next(self, partition: TopicPartition) -> None:
        brokers = sorted(self.world.nodes)
        self.world.move_leader(*partition, brokers[brokers.index(self.leader(partition)) - len(brokers) + 1])

    def _restart(self, node_id: int) -> None:
        self.world.stop_broker(node_id)
        self.world.start_broker(node_id)

    def _advance(self, milliseconds: int) -> None:
        if milliseconds > SETTLES_MS:
            self.world.set_clocks_ahead(milliseconds)
        else:
            self.world.advance(milliseconds)

    def _set_level(self, level: int) -> None:
        controller = self.world.nodes[self.world.spec.controller_id].controller

        def lower() -> None:
            assert controller.set_feature("transaction.version", level) is None

        self.do(lower, node_id=self.world.spec.controller_id)

    def _set_load_ms(self, milliseconds: int) -> None:
        for node in self.world.nodes.values():
            node.coordinators.load_ms = milliseconds

    # ------------------------------------------------------------------ the end

    def ends(self) -> None:
        """Whatever is still on its way arrives; the rules have seen what they expect."""
        self.world.advance(SETTLES_MS)
        assert [] == self.world.rules.complaints()
