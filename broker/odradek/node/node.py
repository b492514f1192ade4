"""One broker: `step(event, now) -> effects` is its whole border.

All machines, flows and connections live inside; a driver feeds it and carries out its effects.
`now` is wall time in milliseconds, which the driver never lets go back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

from odradek.log.machine import Fact, Refused
from odradek.log.replica import Replica
from odradek.metadata.features import TRANSACTION_VERSION
from odradek.node.events import (
    Clogged,
    Command,
    Computed,
    Connected,
    Dialled,
    Disconnected,
    Drained,
    Effect,
    Event,
    Hangup,
    Hold,
    MetadataAdvanced,
    Received,
    Resume,
    Send,
    Started,
    Stopping,
    Tick,
    Turn,
)
from odradek.node.fetch_sessions import FetchSessions
from odradek.node.hosting import replicas
from odradek.node.hosting.controller import Controlling, StartRefused
from odradek.node.hosting.coordinators import Coordinators
from odradek.node.hosting.producer_ids import ProducerIdSupply
from odradek.node.hosting.replication import Replication
from odradek.node.housekeeping import Housekeeping
from odradek.node.kernel.aside import Aside
from odradek.node.kernel.flow import Kernel
from odradek.node.kernel.purgatory import Purgatory
from odradek.node.kernel.timers import Timers
from odradek.node.kernel.turns import Turns
from odradek.node.metrics import Metrics
from odradek.node.transport.connection import Connection
from odradek.node.transport.entrance import Entrance
from odradek.node.transport.peers import Peers
from odradek.node.transport.router import Router
from odradek.wire.codecs import PLAIN
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from random import Random

    from odradek.config.table import Config
    from odradek.log.log_store import LogStore
    from odradek.log.partition import Partition
    from odradek.metadata.image import MetadataImage
    from odradek.node.authority import Authority
    from odradek.node.cluster_spec import ClusterSpec
    from odradek.node.faults import Faults
    from odradek.node.verification import Verification
    from odradek.txn.rules import Rules
    from odradek.wire.registry import ApiKey

__all__ = ["EventSink", "Logger", "Node"]

R = TypeVar("R", bound=Struct)

READABLE = "readable"
"""First part of the purgatory key of fetches that wait for a partition to grow."""
LOGGED_FACTS = frozenset(
    {
        "log_segment_dropped",
        "replication_factor_lowered",
        "metadata_fault",
        "group_record_skipped",
        "broker_fenced",
        "log_truncated",
    }
)
"""Facts that an operator should see without an event log."""


class Logger(Protocol):
    """What the node logs to: structlog's bound logger, or a fake."""

    def debug(self, event: str, **fields: Any) -> Any: ...
    def info(self, event: str, **fields: Any) -> Any: ...
    def warning(self, event: str, **fields: Any) -> Any: ...
    def error(self, event: str, **fields: Any) -> Any: ...


class Pumped(Hashable, Protocol):
    """Something that has works to start."""

    def pump(self) -> None: ...


class EventSink(Protocol):
    """Takes the facts of a node for the event log."""

    def emit(self, node_id: int, facts: Iterable[Fact]) -> None: ...


class Node:
    """A broker of a cluster, and its controller if it is the one that the cluster names."""

    def __init__(
        self,
        *,
        node_id: int,
        config: Config,
        store: LogStore,
        cluster: ClusterSpec,
        random: Random,
        log: Logger,
        now: int,
        events: EventSink | None = None,
        calls_itself: bool = False,
        secrets: Random | None = None,
    ) -> None:
        self.node_id = node_id
        self.static_config = config
        self.config = config
        self.store = store
        self.cluster = cluster
        self.random = random
        self.secrets = secrets or random
        """What nobody may foresee is drawn from here."""
        self.logins_refused = 0
        self.log = log
        self.now = now
        self.events = events
        self.calls_itself = calls_itself
        """Whether what it asks of itself takes the short way, without bytes and without delay."""
        self.effects: list[Effect] = []
        self.dirty: list[Connection] = []
        self.kernel = Kernel()
        self.timers = Timers()
        self.turns = Turns(self.kernel)
        self.aside = Aside(self.kernel)
        self.purgatory = Purgatory(self.kernel)
        self.release = config.release
        self.codecs = self.release.codecs or PLAIN
        self.authority = _authority(config)
        """Who decides what clients may do; None lets everybody do everything, and nobody is asked."""
        self.router = Router(
            self.release,
            unstable_versions=config.unstable_api_versions_enable,
            guard=None if self.authority is None else self.authority.guarded,
        )
        self.faults: Faults | None = None
        self.start_refused: StartRefused | None = None
        """Why the node cannot serve, once it was told to start."""
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, random)
        self.entrance = Entrance(self)
        self.peers = Peers(self)
        self.producer_ids = ProducerIdSupply(self)
        self.metrics = Metrics(self)
        self.connections: dict[int, Connection] = {}
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.coordinators = Coordinators(self)
        self.replication = Replication(self)
        self.controlling = Controlling(self)
        self.housekeeping = Housekeeping(self)
        self._pump: deque[Pumped] = deque()
        self._steps: dict[type, Callable[[Any], None]] = {
            Started: self._started,
            Connected: self._connected,
            Dialled: self._dialled,
            Received: self._received,
            Disconnected: self._disconnected,
            Clogged: self._clogged,
            Drained: self._drained,
            MetadataAdvanced: self._metadata_advanced,
            Stopping: self._stopping,
            Command: self._command,
            Computed: self._computed,
            Tick: self._tick,
            Turn: self._turn,
        }

    def inherit(self, before: Node) -> None:
        """Keep what a test has set of the node that this one takes the place of: rules, slow coordinators."""
        self.coordinators.load_ms = before.coordinators.load_ms
        self.faults = None if before.faults is None else before.faults.of(self)

    # ------------------------------------------------------------------ the border

    def step(self, event: Event, now: int) -> list[Effect]:
        """Take one event at this time (ms); what the driver has to do, in order.

        No exception leaves it: what has failed ends by itself, and everything else that belongs to the step happens.
        """
        self.now = now
        effects: list[Effect] = []
        self.effects = effects
        try:
            self._steps[type(event)](event)
        except Exception as error:
            self.broken(error)
        ready = self.kernel.ready
        while ready or self._pump:
            try:
                self.kernel.run_ready()
                while self._pump:
                    self._pump.popleft().pump()
            except Exception as error:
                self.broken(error)
        if self.dirty:
            for connection in self.dirty:
                effects.append(Send(connection.conn, connection.out))
                connection.out = []
                connection.out_bytes = 0
            self.dirty.clear()
        self.turns.ask(effects)
        self.aside.ask(effects)
        return effects

    def broken(self, error: Exception) -> None:
        """Something has failed that no flow or connection answers for."""
        self.log.error("step_failed", node=self.node_id, exc_info=error)

    def wake_at(self) -> int | None:
        """When the node wants a `Tick` (ms), or None."""
        deadline = self.kernel.wake_at()
        timer = self.timers.wake_at()
        if deadline is None or (timer is not None and timer < deadline):
            return timer
        return deadline

    # ------------------------------------------------------------------ events

    def _started(self, event: Started) -> None:
        try:
            self.controlling.start()
        except StartRefused as refused:
            self.start_refused = refused
            return
        self.producer_ids.pump()
        self.housekeeping.adopt()

    def _connected(self, event: Connected) -> None:
        peer = self.entrance.peer(event)
        if peer is None:
            self.log.warning("certificate_unmapped", node=self.node_id, listener=event.listener, name=event.certified)
            self.effects.append(Hangup(event.conn))
            return
        self.connections[event.conn] = Connection(
            self, event.conn, host=event.host, port=event.port, broker=event.broker, peer=peer
        )
        gate = self.entrance.gate(event)
        if gate is not None:
            self.connections[event.conn].guard(gate)

    def _dialled(self, event: Dialled) -> None:
        self.peers.dialled(event.conn)

    def _received(self, event: Received) -> None:
        conn = event.conn
        if conn > 0:
            connection = self.connections.get(conn)
            if connection is not None:
                connection.received(event.data)
        else:
            self.peers.received(conn, event.data)

    def _disconnected(self, event: Disconnected) -> None:
        if event.conn < 0:
            self.peers.disconnected(event.conn)
            return
        connection = self.connections.pop(event.conn, None)
        if connection is not None:
            connection.gone()

    def _clogged(self, event: Clogged) -> None:
        connection = self.connections.get(event.conn)
        if connection is not None:
            connection.clogged()

    def _drained(self, event: Drained) -> None:
        connection = self.connections.get(event.conn)
        if connection is not None:
            connection.drained()

    def _metadata_advanced(self, event: MetadataAdvanced) -> None:
        self.controlling.advance(event.offset)

    def _stopping(self, event: Stopping) -> None:
        if self.faults is not None:
            self.faults.end()
        self.coordinators.end_all()
        for connection in list(self.connections.values()):
            connection.disconnected()
            self.hang_up(connection)

    def _command(self, event: Command) -> None:
        event.act()

    def _computed(self, event: Computed) -> None:
        event.work.done()

    def _tick(self, event: Tick) -> None:
        self.kernel.expire(self.now)
        self.timers.run(self.now)

    def _turn(self, event: Turn) -> None:
        self.turns.run()

    # ------------------------------------------------------------------ for connections

    def hang_up(self, connection: Connection) -> None:
        """Close a connection after what it was sent."""
        if connection.out:
            self.effects.append(Send(connection.conn, connection.out))
            connection.out = []
            self.dirty.remove(connection)
        self.effects.append(Hangup(connection.conn))

    def hold(self, connection: Connection) -> None:
        """Read nothing more from it for now."""
        self.effects.append(Hold(connection.conn))

    def resume(self, connection: Connection) -> None:
        """Read from it again."""
        self.effects.append(Resume(connection.conn))

    # ------------------------------------------------------------------ for routes

    @property
    def image(self) -> MetadataImage:
        """The metadata this broker has published to itself."""
        return self.controlling.image

    def partition(self, topic: str, index: int) -> Partition | Refused:
        """A partition this node leads, and not one that it believes to lead still."""
        partition = self.partitions.get((topic, index))
        if partition is not None and partition.is_leader:
            return partition
        if self.image.partition(topic, index) is None:
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def partition_in(self, topic: str, index: int, leader_epoch: int) -> Partition | Refused:
        """A partition this node leads, for who believes that this is its leader epoch (KIP-320); -1 believes nothing.

        A replica that does not lead judges the epoch first, too.
        """
        partition = self.partition(topic, index)
        judge = self.replica(topic, index) if isinstance(partition, Refused) else partition
        if not isinstance(judge, Refused) and (error := judge.check_leader_epoch(leader_epoch)) is not ErrorCode.NONE:
            return Refused(error)
        return partition

    def replica(self, topic: str, index: int) -> Replica | Refused:
        """A partition of which this node has a replica, whoever leads it."""
        registered = self.image.partition(topic, index)
        if registered is None:
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self.node_id not in registered.replicas:
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = self.store.find(self.image.topics[topic].id, index)
        return Replica(log, registered.leader_epoch, self.node_id)

    def appended(self, partition: Partition) -> None:
        """Something was appended: wake who waits for it, fold where a machine does what is committed."""
        if partition.log.mark is not None:
            self.replication.appended(partition)
        key = (partition.topic, partition.index)
        self.purgatory.wake((READABLE, key))
        shard = self.coordinators.at(partition.topic, partition.index)
        if shard is not None:
            shard.advance()
        if partition.facts:
            facts, partition.facts = partition.facts, []
            self.emit(facts)
        if self.store.facts:
            facts, self.store.facts = self.store.facts, []
            self.emit(facts)

    def sleep(self, milliseconds: int) -> Any:
        """Something to await that takes this long."""
        return self.kernel.wait(deadline=self.now + milliseconds)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start a flow of the node's own."""
        self.kernel.start(coroutine, self._spawned)

    def _spawned(self, value: object, error: BaseException | None) -> None:
        if error is not None:
            self.log.error("flow_failed", node=self.node_id, exc_info=error)

    @property
    def transaction_version(self) -> int:
        """The finalized level of transaction.version, as this broker knows it."""
        return self.image.feature(TRANSACTION_VERSION)

    @cached_property
    def rules(self) -> Rules:
        """The tables of transactions; imported by the first transaction."""
        from odradek.txn.rules import rules_of

        return rules_of(self.release)

    @property
    def verifies_records(self) -> bool:
        """Whether a client's records wait for their coordinator (KIP-890, part 1)."""
        return self.config.transaction_partition_verification_enable and self.release.verification.records

    @property
    def verifies_offsets(self) -> bool:
        """The same for the offsets of a transaction."""
        return self.config.transaction_partition_verification_enable and self.release.verification.offsets

    async def create_internal_topic(self, topic: str) -> None:
        """Have a coordinator's topic created; whoever asked is told to ask again."""
        await self.controlling.create_internal_topic(topic)

    async def controller_call(self, api_key: ApiKey, request: Struct, version: int, answer: type[R]) -> R | None:
        """Have the controller serve a request; None if it cannot be reached in time."""
        deadline = self.now + self.config.request_timeout_ms
        return await self.peers.call(self.cluster.controller_id, api_key, version, request, answer, deadline=deadline)

    @cached_property
    def verification(self) -> Verification:
        """The questions to transaction coordinators; imported by the first transaction."""
        from odradek.node.verification import Verification

        return Verification(self)

    # ------------------------------------------------------------------ shards

    def pump_soon(self, shard: Pumped) -> None:
        """Ask the shard's machine again what it owes, before this step ends."""
        self._pump.append(shard)

    def wake_shard_at(self, shard: Pumped, at: int | None) -> None:
        """Pump the shard at this time (ms)."""
        self.timers.set(shard, at, partial(self.pump_soon, shard))

    def emit(self, facts: Sequence[Fact]) -> None:
        """Pass facts to the event log, and those that matter to an operator to the log."""
        for fact in facts:
            if fact.kind in LOGGED_FACTS:
                self.log.warning(fact.kind, node=self.node_id, **fact.fields)
        if self.events is not None:
            self.events.emit(self.node_id, facts)

    # ------------------------------------------------------------------ housekeeping

    def image_changed(self, before: MetadataImage, after: MetadataImage) -> None:
        """A new image was published: take up and give up leaderships, and adopt changed configs."""
        if self.authority is not None:
            self.authority.adopt(before, after)
        replicas.adopt(self, before, after)


def _authority(config: Config) -> Authority | None:
    settings = config.security()
    if not settings.authorizer_class_name:
        return None
    from odradek.node.authority import Authority  # most clusters have none

    return Authority(settings)
