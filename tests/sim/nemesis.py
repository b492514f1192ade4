"""What goes wrong in a run: leaders move, connections break, messages are late, brokers go and come back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from tests.sim.actors import Ask, Script, Sleep

from odradek.node.coordinators import CoordinatorKind
from odradek.node.events import Command
from odradek.node.faults import Fault
from odradek.node.hosting.transactions import TransactionShard
from odradek.node.node import Node
from odradek.node.transport.router import Call
from odradek.sim import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.wire.registry import ApiKey

__all__ = ["Nemesis"]


class Nemesis:
    """Does something bad every now and then, and sets everything right in the end."""

    def __init__(self, world: World, *, random: Random, duration_ms: int, levels: tuple[int, ...]) -> None:
        self.world = world
        self.random = random
        self.duration_ms = duration_ms
        self.levels = levels
        self.deeds: list[tuple[int, str]] = []
        self._faults: list[tuple[int, Fault]] = []
        self._gone: set[int] = set()
        """Brokers that are called gone, and live."""
        self._deaf: dict[int, int] = {}
        """Brokers that hear nothing of the metadata, and until when."""

    def script(self) -> Script:
        """The whole of it."""
        deeds: list[Callable[[], str]] = [
            self._move_a_leader,
            self._move_a_leader,
            self._move_a_coordinator,
            self._move_a_coordinator,
            self._lose_connections,
            self._lose_requests,
            self._lose_answers,
            self._delay_requests,
            self._delay_records,
            self._delay_records,
            self._delay_records,
            self._hold_markers,
            self._remove_a_broker,
            self._return_a_broker,
            self._crash_a_broker,
            self._restart_a_broker,
            self._restart_a_broker,
            self._deafen_a_broker,
        ]
        end = self.world.now + self.duration_ms
        while self.world.now < end:
            self._lift_what_is_over()
            self._let_hear(now=self.world.now)
            chance = self.random.random()
            if chance < 0.08:
                yield from self._change_the_level()
            elif chance < 0.2:
                yield from self._replace_a_coordinator_amid_markers()
            else:
                self._did(self.random.choice(deeds)())
            yield Sleep(self.random.randint(20, 250))
        self._set_right()

    def _did(self, deed: str) -> None:
        self.deeds.append((self.world.now, deed))

    # ------------------------------------------------------------------ leaders

    def _move_a_leader(self) -> str:
        return self._move("t")

    def _move_a_coordinator(self) -> str:
        return self._move(self.random.choice([kind.topic for kind in CoordinatorKind]))

    def _move(self, topic: str, index: int | None = None) -> str:
        image = self._controller.image.topic(topic)
        assert image is not None
        alive = [node_id for node_id in self.world.running if self._controller.image.is_alive(node_id)]
        if not alive:
            return "nobody can lead"
        if index is None:
            index = self.random.choice(sorted(image.partitions))
        to = self.random.choice(alive)
        self.world.move_leader(topic, index, to)
        return f"{topic}-{index} to {to}"

    # ------------------------------------------------------------------ brokers

    @property
    def _controller(self) -> Node:
        return self.world.nodes[self.world.spec.controller_id]

    def _remove_a_broker(self) -> str:
        """A broker is called gone; it lives, and need not know."""
        if self._gone:
            return "nobody else may go"
        node_id = self.random.choice(self.world.running)
        self._gone.add(node_id)
        self._do(partial(self._controller.controlling.fence, node_id))
        return f"broker {node_id} is gone"

    def _return_a_broker(self) -> str:
        for node_id in sorted(self._gone):
            self._gone.discard(node_id)
            self._do(partial(self._controller.controlling.admit, self.world.spec.broker(node_id)))
            return f"broker {node_id} is back"
        return "nobody was gone"

    def _crash_a_broker(self) -> str:
        """A broker dies, the controller like any other, with everything that is not in a log."""
        if len(self.world.running) == 1:
            return "the last one may not die"
        node_id = self.random.choice(self.world.running)
        self._gone.discard(node_id)
        self._deaf.pop(node_id, None)
        self.world.stop_broker(node_id)
        return f"broker {node_id} dies"

    def _restart_a_broker(self) -> str:
        dead = sorted(self.world.nodes.keys() - set(self.world.running))
        if not dead:
            return "nobody was dead"
        node_id = self.random.choice(dead)
        load_ms = self.world.nodes[node_id].coordinators.load_ms
        self.world.start_broker(node_id)
        self.world.nodes[node_id].coordinators.load_ms = load_ms
        return f"broker {node_id} starts again"

    def _deafen_a_broker(self) -> str:
        """For a while a broker hears nothing of the metadata: it believes to lead what others lead by now."""
        node_id = self.random.choice(self.world.running)
        if node_id in self._deaf or node_id == self.world.spec.controller_id:
            return f"broker {node_id} hears what it has to"
        self._deaf[node_id] = self.world.now + self.random.choice((100, 500, 2_000))
        self.world.nodes[node_id].controlling.advance = _hear_nothing  # type: ignore[method-assign]
        return f"broker {node_id} is deaf"

    def _let_hear(self, *, now: int) -> None:
        for node_id, until in list(self._deaf.items()):
            if until <= now:
                del self._deaf[node_id]
                del self.world.nodes[node_id].controlling.advance
                log_end = self._controller.image.offset
                self._do(partial(self.world.nodes[node_id].controlling.advance, log_end), node_id=node_id)
                self._did(f"broker {node_id} hears")

    # ------------------------------------------------------------------ messages

    def _lose_connections(self) -> str:
        self.world.loss = self.random.choice((0.0, 0.05, 0.2))
        return f"loss {self.world.loss}"

    def _lose_requests(self) -> str:
        api_key = self.random.choice((ApiKey.WRITE_TXN_MARKERS, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE))
        return self._fault(Fault(api_key, disconnect=True, times=self.random.randint(1, 3)))

    def _lose_answers(self) -> str:
        api_key = self.random.choice(
            (
                ApiKey.WRITE_TXN_MARKERS,
                ApiKey.ADD_PARTITIONS_TO_TXN,
                ApiKey.ADD_OFFSETS_TO_TXN,
                ApiKey.PRODUCE,
                ApiKey.TXN_OFFSET_COMMIT,
                ApiKey.END_TXN,
                ApiKey.INIT_PRODUCER_ID,
            )
        )
        return self._fault(Fault(api_key, drop_reply=True, times=self.random.randint(1, 3)))

    def _delay_requests(self) -> str:
        # A Produce that is delayed for longer than its client waits is the late message of KIP-890.
        api_key = self.random.choice((ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT))
        delay_ms = self.random.choice((20, 200, 4_000))
        return self._fault(Fault(api_key, delay_ms=delay_ms, times=self.random.randint(1, 3), matches=_is_harmless))

    def _delay_records(self) -> str:
        delay_ms = self.random.choice((60, 200, 800))
        return self._fault(Fault(ApiKey.PRODUCE, delay_ms=delay_ms, times=self.random.randint(2, 5)))

    def _hold_markers(self) -> str:
        # Only those that the epoch protects: an older client's transaction may be ended by the late marker of the one
        # before, which is what KIP-890 cannot cure.
        return self._fault(Fault(ApiKey.WRITE_TXN_MARKERS, hold=True, times=self.random.randint(1, 3), matches=_is_new))

    def _replace_a_coordinator_amid_markers(self) -> Script:
        """A marker is on its way when its coordinator is replaced, and arrives long after that of the successor.

        The epoch of the coordinator tells it from the others, so that an older client is safe from it as well.
        """
        topic = self._controller.image.topic(CoordinatorKind.TRANSACTION.topic)
        assert topic is not None
        index = self.random.choice(sorted(topic.partitions))
        leader = topic.partitions[index].leader
        shard = self.world.nodes[leader].coordinators.at(topic.name, index) if leader in self.world.running else None
        if not isinstance(shard, TransactionShard) or self._deaf:
            return
        producer_ids = {entry.producer_id for entry in shard.machine.entries()}
        fault = Fault(
            ApiKey.WRITE_TXN_MARKERS,
            hold=True,
            times=1,
            matches=lambda call: all(marker.producer_id in producer_ids for marker in call.request.markers),
        )
        self.world.fault(fault)
        for _ in range(40):
            yield Sleep(5)
            if fault.hits:
                self._did(f"a marker is late, {self._move(topic.name, index)}")
                break
        self._faults.append((self.world.now + (self.random.randint(200, 2_000) if fault.hits else 0), fault))

    def _fault(self, fault: Fault) -> str:
        node_id = self.random.choice(self.world.running)
        self.world.fault(fault, node_id=node_id)
        self._faults.append((self.world.now + self.random.randint(50, 3_000), fault))
        what = "loses" if fault.disconnect else "answers nobody" if fault.drop_reply else "delays"
        return f"broker {node_id} {what} {fault.api_key.name}"

    def _lift_what_is_over(self) -> None:
        for until, fault in self._faults:
            if until <= self.world.now:
                self.world.lift(fault)
        self._faults = [(until, fault) for until, fault in self._faults if until > self.world.now]

    # ------------------------------------------------------------------ the cluster

    def _change_the_level(self) -> Script:
        level = self.random.choice(self.levels)
        upgrade_type = 1 if level >= self._controller.transaction_version else 2
        update = FeatureUpdateKey(feature="transaction.version", max_version_level=level, upgrade_type=upgrade_type)
        response = yield Ask(
            self.world.spec.controller_id, UpdateFeaturesRequest(timeout_ms=1000, feature_updates=[update]), 1
        )
        assert response is not None
        assert response.error_code == ErrorCode.NONE, response
        self._did(f"transaction.version {level}")

    def _set_right(self) -> None:
        self.world.loss = 0.0
        for _, fault in self._faults:
            self.world.lift(fault)
        self._faults = []
        self._let_hear(now=self.world.now + 60_000)
        while len(self.world.running) < len(self.world.nodes):
            self._did(self._restart_a_broker())
        while self._gone:
            self._did(self._return_a_broker())
        self._did("all is well")

    def _do(self, act: Callable[[], object], *, node_id: int | None = None) -> None:
        def command() -> None:
            act()

        self.world.post(self.world.spec.controller_id if node_id is None else node_id, Command(command))
        self.world.run()


def _hear_nothing(offset: int) -> None:
    pass


def _is_new(call: Call) -> bool:
    return all(marker.transaction_version >= 2 for marker in call.request.markers)


def _is_harmless(call: Call) -> bool:
    # What KIP-890 cannot cure: late requests of an older client that only its epoch could tell from those of its next
    # transaction. A Produce has its sequence besides.
    if call.api_key is ApiKey.ADD_PARTITIONS_TO_TXN:
        return call.is_broker
    return call.api_key is not ApiKey.TXN_OFFSET_COMMIT or call.version >= 5
