"""One broker: `step(event, now) -> effects` is its whole border.

All machines, flows and connections live inside; a driver feeds it and carries out its effects.
`now` is wall time in milliseconds, which the driver never lets go back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.access.entrance import Entrance
from odradek.core.by_type import taken
from odradek.core.internal_topics import CoordinatorKind
from odradek.core.machine import Refused
from odradek.core.timers import PUMPED_AT_ONCE
from odradek.data.fetch_sessions import FetchSessions
from odradek.host.connection import Connection
from odradek.host.coordinators import Coordinators
from odradek.host.events import (
    Clogged,
    Command,
    Computed,
    Connected,
    Dialled,
    Disconnected,
    Drained,
    Effect,
    Event,
    Gathered,
    Handed,
    LeaderAdvanced,
    MetadataAdvanced,
    Received,
    Started,
    Stopping,
    Tick,
    Turn,
)
from odradek.host.exchange import Serving
from odradek.host.facts import EventSink, Logger
from odradek.host.housekeeping import Housekeeping
from odradek.host.metrics import Metrics
from odradek.host.peer_connection import PeerConnection
from odradek.host.peers import Peers
from odradek.host.replicas import Replicas
from odradek.log.disk import DiskError
from odradek.metadata.controller_role import ControllerRole, StartRefused
from odradek.metadata.image import ResourceType
from odradek.txn.producer_id_supply import ProducerIdSupply
from odradek.wire.errors import EncodeError, ErrorCode
from odradek.wire.messages.apis import FETCH, SHARE_FETCH
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.access.gate import Gate
    from odradek.access.mechanisms import SaslListener
    from odradek.access.principal import Peer
    from odradek.config.table import Config
    from odradek.core.clock import Rng
    from odradek.data.about_to_read import AboutToRead
    from odradek.group.seekers import Seekers
    from odradek.group.shard import GroupShard
    from odradek.group.streams.internal_topics import StreamsTopics
    from odradek.host.call import Call
    from odradek.host.cluster_spec import ClusterSpec
    from odradek.host.forwarding import Forwarding
    from odradek.limits.connections import ConnectionLimits
    from odradek.log.log_store import LogStore
    from odradek.log.partition import Partition
    from odradek.metadata.image import MetadataImage
    from odradek.share.leader import Shares
    from odradek.share.shard import ShareShard
    from odradek.share.state_client import ShareStateClient
    from odradek.telemetry.receiver import Telemetry
    from odradek.txn.admission import Admission, Registration
    from odradek.txn.decision_tables import Rules
    from odradek.txn.shard import TransactionShard
    from odradek.txn.write_markers import MarkerApi

__all__ = ["FAMILIES", "EventSink", "Logger", "Node"]


class Node(Serving):
    """A broker of a cluster, and its controller if it is the one that the cluster names."""

    def __init__(
        self,
        *,
        node_id: int,
        config: Config,
        store: LogStore,
        cluster: ClusterSpec,
        random: Rng,
        log: Logger,
        now: int,
        events: EventSink | None = None,
        calls_itself: bool = False,
        encodes: bool = False,
        secrets: Rng | None = None,
    ) -> None:
        super().__init__(
            node_id=node_id,
            config=config,
            store=store,
            cluster=cluster,
            random=random,
            log=log,
            now=now,
            events=events,
            calls_itself=calls_itself,
            encodes=encodes,
            secrets=secrets,
        )
        self.kernel.on_failure = self._flow_failed
        self._families: dict[str, object] = {}
        self.start_refused: StartRefused | None = None
        """Why the node cannot serve, once it was told to start."""
        self.connection_limits: ConnectionLimits | None = None
        slots, shards = config.max_incremental_fetch_session_cache_slots, self.release.fetch_session_shards
        self.fetch_sessions = FetchSessions(slots, random, shards=shards)
        self.entrance = Entrance(self, self.gate)
        self.peers = Peers(self)
        self.coordinators = Coordinators(self)
        self.group_coordinators = self.coordinators.of_kind(CoordinatorKind.GROUP, self._group_shard)
        self.transaction_coordinators = self.coordinators.of_kind(
            CoordinatorKind.TRANSACTION, self._transaction_shard, nameless=Refused(ErrorCode.INVALID_REQUEST)
        )
        self.share_coordinators = self.coordinators.of_kind(CoordinatorKind.SHARE, self._share_shard)
        self.replicas = Replicas(self, self.peers, self.coordinators)
        self.replicas.given_up = self._given_up
        self.producer_ids = ProducerIdSupply(self, self.peers)
        self.controller = ControllerRole(self, self.replicas, self.peers, self._published)
        self.housekeeping = Housekeeping(self, self.controller)
        self.metrics = Metrics(
            self,
            self.transaction_coordinators,
            self.coordinators,
            self.replicas,
            admission=lambda: self.admission,
            telemetry=lambda: self.telemetry if self.has_telemetry else (),
        )
        self._steps = dict(
            (
                taken(Started, self._started),
                taken(Connected, self._connected),
                taken(Dialled, self._dialled),
                taken(Received, self._received),
                taken(Gathered, self._gathered),
                taken(Handed, self._handed),
                taken(Disconnected, self._disconnected),
                taken(Clogged, self._clogged),
                taken(Drained, self._drained),
                taken(MetadataAdvanced, self._metadata_advanced),
                taken(LeaderAdvanced, self._leader_advanced),
                taken(Stopping, self._stopping),
                taken(Command, self._command),
                taken(Computed, self._computed),
                taken(Tick, self._tick),
                taken(Turn, self._turn),
            )
        )

    def inherit(self, before: Node) -> None:
        """Keep what a test has set of the node that this one takes the place of: rules, slow coordinators."""
        self.coordinators.load_ms = before.coordinators.load_ms
        self.faults = None if before.faults is None else before.faults.of(self)

    def step(self, event: Event, now: int) -> list[Effect]:
        """Take one event at this time (ms); what the driver has to do, in order.

        No exception leaves it: what has failed ends by itself, and everything else that belongs to the step happens.
        """
        self.clock.now = self.kernel.now = now
        outbox = self.outbox
        outbox.effects = []
        try:
            self._steps[type(event)](event)
        except Exception as error:
            self._broken(error)
        ready, pumped, turns = self.kernel.ready, self.pumps.waiting, self.turns
        self.pumps.left = PUMPED_AT_ONCE
        while ready or pumped:
            try:
                self.kernel.run_ready()
                self.pumps.run()
            except Exception as error:
                self._broken(error)
        if outbox.dirty:
            outbox.flush()
        another_turn = bool(turns.waiting or turns.behind) and turns.wants_another()
        if another_turn or self.aside.unasked:
            outbox.ask_for(another_turn=another_turn, works=self.aside.take() if self.aside.unasked else ())
        return outbox.effects

    def _broken(self, error: Exception) -> None:
        """Something has failed that no flow or connection answers for. The disk reports its failures itself."""
        if not isinstance(error, DiskError):
            self.log.error("step_failed", node=self.node_id, exc_info=error)

    def wake_at(self) -> int | None:
        """When the node wants a `Tick` (ms), or None."""
        deadline = self.kernel.wake_at()
        timer = self.timers.wake_at()
        if deadline is None or (timer is not None and timer < deadline):
            return timer
        return deadline

    def _started(self, event: Started) -> None:
        try:
            self.controller.start()
        except StartRefused as refused:
            self.start_refused = refused
            return
        except EncodeError as error:
            # A text of the configuration is longer than a record may have it.
            self.start_refused = StartRefused(f"The brokers cannot be registered as they are configured: {error}.")
            return
        self.producer_ids.pump()
        self.housekeeping.adopt()
        self.limit_connections()

    def _connected(self, event: Connected) -> None:
        peer = self.entrance.peer(event)
        if peer is None:
            self.log.warning("certificate_unmapped", node=self.node_id, listener=event.listener, name=event.certified)
            self.outbox.hang_up(event.conn)
            return
        if self.connection_limits is None or event.broker:
            self._let_in(event, peer)
        else:
            self.connection_limits.arrived(event, partial(self._let_in, event, peer))

    def _let_in(self, event: Connected, peer: Peer) -> bool:
        """Serve a connection from now on, unless its address has made too many; whether it is served."""
        if self.quotas is not None and not event.broker and (wait_ms := self.quotas.connected(event.host)):
            self._turn_away(event.conn, wait_ms)
            return False
        if event.hands or (event.broker and not self.encodes):
            self.connections[event.conn] = PeerConnection(
                self, event.conn, host=event.host, port=event.port, broker=event.broker, peer=peer
            )
            return True
        connection = self.connections[event.conn] = Connection(
            self, event.conn, host=event.host, port=event.port, broker=event.broker, peer=peer
        )
        gate = self.entrance.gate(event)
        if gate is not None:
            connection.guard(gate.admits, gate.frame_bytes_max())
        return True

    def gate(self, listener: SaslListener) -> Gate:
        """A login for a new connection over this listener."""
        from odradek.access.gate import Gate  # most brokers have none

        return Gate(self, listener)

    def limit_connections(self) -> None:
        """Take over what the configuration says of connections; without limits nobody counts them."""
        if self.connection_limits is not None:
            self.connection_limits.adopt()
        elif self.config.limits_connections:
            from odradek.limits.connections import ConnectionLimits  # most clusters limit nothing

            self.connection_limits = ConnectionLimits(self)

    def _turn_away(self, conn: int, wait_ms: int) -> None:
        """Too many have connected from there: this one is not heard, and hung up on a while later (KIP-612)."""
        self.outbox.hold(conn)
        self.timers.set(("turned away", conn), self.clock.now + wait_ms, partial(self.outbox.hang_up, conn))

    def _dialled(self, event: Dialled) -> None:
        self.peers.dialled(event.conn)

    def _received(self, event: Received) -> None:
        conn = event.conn
        if conn > 0:
            connection = self.connections.get(conn)
            if connection is not None:
                connection.received(event.data)
            elif self.connection_limits is not None:
                self.connection_limits.received(conn, event.data)
        else:
            self.peers.received(conn, event.data)

    def _gathered(self, event: Gathered) -> None:
        connection = self.connections.get(event.conn)
        if connection is not None:
            connection.gathered(event.data)

    def _handed(self, event: Handed) -> None:
        conn = event.conn
        if conn > 0:
            connection = self.connections.get(conn)
            if connection is not None:
                connection.handed(event.messages)
        else:
            self.peers.handed(conn, event.messages)

    def _disconnected(self, event: Disconnected) -> None:
        if event.conn < 0:
            self.peers.disconnected(event.conn)
            return
        connection = self.connections.pop(event.conn, None)
        if connection is not None:
            connection.gone()
            if "about_to_read" in self.__dict__:
                self.about_to_read.gone(event.conn)
            if "seekers" in self.__dict__:
                self.seekers.gone(event.conn, self.clock.now)
            if self.has_shares:
                self.shares.disconnected(event.conn)
            if self.has_telemetry:
                self.telemetry.disconnected(event.conn)
        if self.connection_limits is not None:
            self.connection_limits.left(event.conn)

    def _clogged(self, event: Clogged) -> None:
        connection = self.connections.get(event.conn)
        if connection is not None:
            connection.clogged()

    def _drained(self, event: Drained) -> None:
        connection = self.connections.get(event.conn)
        if connection is not None:
            connection.drained()

    def _metadata_advanced(self, event: MetadataAdvanced) -> None:
        self.controller.advance(event.offset)

    def _leader_advanced(self, event: LeaderAdvanced) -> None:
        self.replicas.leader_advanced(event.topic, event.index)

    def _stopping(self, event: Stopping) -> None:
        if self.faults is not None:
            self.faults.end()
        for coordinator in self.coordinators.all():
            coordinator.resign()
        for connection in list(self.connections.values()):
            connection.disconnected()
            self.outbox.part_with(connection)

    def _command(self, event: Command) -> None:
        event.act()

    def _computed(self, event: Computed) -> None:
        event.work.done()

    def _tick(self, event: Tick) -> None:
        self.kernel.expire(self.clock.now)
        self.timers.run(self.clock.now)

    def _turn(self, event: Turn) -> None:
        self.turns.run()

    @cached_property
    def rules(self) -> Rules:
        """The tables of transactions; imported by the first transaction."""
        from odradek.txn.decision_tables import rules_of

        return rules_of(self.release)

    @cached_property
    def admission(self) -> Admission:
        """How a write gets into a transaction; imported by the first one."""
        from odradek.txn.admission import Admission

        version = self.router.newest(ApiKey.ADD_PARTITIONS_TO_TXN)
        return Admission(self, self.registration, self.replicas, self.peers, rules=self.rules, version=version)

    @cached_property
    def share_states(self) -> ShareStateClient:
        """Requests to share coordinators; imported by the first share group."""
        from odradek.share.state_client import ShareStateClient

        return ShareStateClient(self, self.peers, self.controller.create_internal_topic)

    @cached_property
    def shares(self) -> Shares:
        """The share partitions that this broker leads; imported by the first member of a share group."""
        from odradek.share.dead_letters import DeadLetterQueues
        from odradek.share.leader import Shares

        return Shares(self, self.share_states, DeadLetterQueues(self, self.peers))

    @cached_property
    def about_to_read(self) -> AboutToRead:
        from odradek.data.about_to_read import AboutToRead

        return AboutToRead()

    @cached_property
    def seekers(self) -> Seekers:
        from odradek.group.seekers import Seekers

        return Seekers()

    @property
    def has_shares(self) -> bool:
        """Whether any were asked for."""
        return "shares" in self.__dict__

    @cached_property
    def telemetry(self) -> Telemetry:
        """This part receives the metrics of clients; the broker creates it at the first telemetry request."""
        from odradek.telemetry.receiver import Telemetry

        return Telemetry(self)

    @property
    def has_telemetry(self) -> bool:
        """Whether any were offered."""
        return "telemetry" in self.__dict__

    @cached_property
    def streams_topics(self) -> StreamsTopics:
        """Has topics made for Kafka Streams applications; imported by the first that needs one."""
        from odradek.group.streams.internal_topics import StreamsTopics

        return StreamsTopics(self, self.peers)

    @cached_property
    def forwarding(self) -> Forwarding:
        """Requests that the controller decides; imported by the first."""
        from odradek.host.forwarding import Forwarding

        return Forwarding(self, self.controller, self.peers)

    @cached_property
    def registration(self) -> Registration:
        """Adds partitions to transactions; imported by the first transaction."""
        from odradek.txn.admission import Registration

        return Registration(self, self.transaction_coordinators)

    @cached_property
    def markers(self) -> MarkerApi:
        """Writes markers, for other brokers and for the coordinators here; imported by the first marker."""
        from odradek.txn.write_markers import MarkerApi

        return MarkerApi(self, self.replicas, self.coordinators)

    def _group_shard(self, partition: Partition) -> GroupShard:
        from odradek.group.shard import GroupShard

        return GroupShard(self, self.replicas, partition, share_states=lambda: self.share_states, seekers=self.seekers)

    def _transaction_shard(self, partition: Partition) -> TransactionShard:
        from odradek.txn.shard import TransactionShard

        return TransactionShard(
            self,
            self.replicas,
            partition,
            peers=self.peers,
            producer_ids=self.producer_ids,
            write_here=self.markers.write,
            markers_version=self.router.newest(ApiKey.WRITE_TXN_MARKERS),
        )

    def _share_shard(self, partition: Partition) -> ShareShard:
        from odradek.share.shard import ShareShard

        return ShareShard(self, self.replicas, partition)

    def family(self, name: str) -> object:
        made = self._families.get(name)
        if made is None:
            made = self._families[name] = FAMILIES[name]()(self)
        return made

    def in_full(self, call: Call) -> Struct:
        if call.api_key is ApiKey.FETCH:
            return self.fetch_sessions.in_full(call.request_of(FETCH))
        if call.api_key is ApiKey.SHARE_FETCH and self.has_shares:
            return self.shares.sessions.in_full(call.request_of(SHARE_FETCH))
        return call.request

    def _given_up(self, partition: Partition) -> None:
        """A partition is led here no longer."""
        if self.has_shares:
            self.shares.resign(partition)

    def _published(self, before: MetadataImage, after: MetadataImage) -> None:
        """A new image is there."""
        self.metadata.publish(after)
        if self.authority is not None:
            self.authority.adopt(before, after)
        if before.quotas is not after.quotas:
            self._adopt_quotas(after)
        if before.configs is not after.configs:
            self._adopt_config(before, after)
        if self.has_telemetry:
            self.telemetry.adopt(before, after)
        self.replicas.adopt(before, after)

    def _adopt_quotas(self, image: MetadataImage) -> None:
        if self.quotas is None:
            from odradek.limits.quotas import Quotas  # most clusters limit nothing

            self.quotas = Quotas(self, self.router)
        self.quotas.adopt(image.quotas)

    def _adopt_config(self, before: MetadataImage, after: MetadataImage) -> None:
        """Take over the configuration of an image, and plan the chores anew."""
        if self.settings.follow(after, self.node_id):
            self.housekeeping.adopt()
            self.limit_connections()
        own = (ResourceType.BROKER, str(self.node_id))
        if self.certificates is not None and after.config(*own) is not before.config(*own):
            # Whoever sets a path to what it is wants the file read again, which may have been written anew.
            self.certificates.adopt(self.config)

    def _flow_failed(self, error: BaseException) -> None:
        if not isinstance(error, DiskError):
            self.log.error("flow_failed", node=self.node_id, exc_info=error)


# Each is made from the parts that it may touch, with the first request of one of its APIs. Its function imports what it
# needs, and returns what makes it. The name of a function is that of the family in `odradek.host.served`.

Make = Callable[[Node], object]

FAMILIES: dict[str, Callable[[], Make]] = {}
"""Imports a family, by its name."""


def family(imports: Callable[[], Make]) -> Callable[[], Make]:
    """Enter a function by its name."""
    FAMILIES[imports.__name__] = imports
    return imports


@family
def produce() -> Make:
    from odradek.data.produce import ProduceApi

    return lambda node: ProduceApi(node, node.replicas, admission=lambda: node.admission)


@family
def fetch() -> Make:
    from odradek.data.fetch import FetchApi

    return lambda node: FetchApi(node, node.replicas, node.fetch_sessions, node.about_to_read)


@family
def versions() -> Make:
    from odradek.metadata.api.versions import VersionsApi

    return lambda node: VersionsApi(node)


@family
def cluster() -> Make:
    from odradek.metadata.api.cluster import ClusterApi

    return lambda node: ClusterApi(node, node.replicas)


@family
def quorum() -> Make:
    from odradek.metadata.api.quorum import QuorumApi

    return lambda node: QuorumApi(node, node.forwarding)


@family
def features() -> Make:
    from odradek.metadata.api.features import FeatureApi

    return lambda node: FeatureApi(node.forwarding)


@family
def metadata() -> Make:
    from odradek.metadata.api.metadata import MetadataApi

    return lambda node: MetadataApi(node, node.peers)


@family
def topic_partitions() -> Make:
    from odradek.metadata.api.topic_partitions import TopicPartitionsApi

    return lambda node: TopicPartitionsApi(node)


@family
def topics() -> Make:
    from odradek.metadata.api.topics import TopicApi

    return lambda node: TopicApi(node, node.forwarding)


@family
def replicas() -> Make:
    from odradek.metadata.api.replicas import ReplicaApi

    return lambda node: ReplicaApi(node.forwarding)


@family
def configs() -> Make:
    from odradek.metadata.api.configs import ConfigApi
    from odradek.metadata.api.listener_certificates import ListenerCertificates
    from odradek.metadata.api.logger_levels import LoggerLevels

    return lambda node: ConfigApi(
        node,
        node.forwarding,
        levels=LoggerLevels(node, node.transaction_coordinators),
        certificates=ListenerCertificates(node),
    )


@family
def envelopes() -> Make:
    from odradek.host.envelopes import EnvelopeApi

    return lambda node: EnvelopeApi(node)


@family
def acls() -> Make:
    from odradek.access.api.permissions import AclApi

    return lambda node: AclApi(node, node.forwarding)


@family
def credentials() -> Make:
    from odradek.access.api.credentials import CredentialApi

    return lambda node: CredentialApi(node, node.forwarding)


@family
def tokens() -> Make:
    from odradek.access.api.tokens import TokenApi

    return lambda node: TokenApi(node, node.forwarding)


@family
def limits() -> Make:
    from odradek.limits.api import LimitApi

    return lambda node: LimitApi(node, node.forwarding)


@family
def log_offsets() -> Make:
    from odradek.data.log_offsets import LogOffsetsApi

    return lambda node: LogOffsetsApi(node, node.replicas, node.about_to_read)


@family
def share_state() -> Make:
    from odradek.share.state_api import ShareStateApi

    return lambda node: ShareStateApi(node, node.share_coordinators, admission=lambda: node.admission)


@family
def share_fetch() -> Make:
    from odradek.share.fetch import ShareFetchApi

    return lambda node: ShareFetchApi(node, node.shares, node.replicas)


@family
def txn_shares() -> Make:
    from odradek.share.fetch import ShareFetchApi
    from odradek.share.txn_acknowledge import TxnShareApi

    return lambda node: TxnShareApi(
        node,
        ShareFetchApi(node, node.shares, node.replicas),
        node.share_states,
        peers=node.peers,
        admission=node.admission,
    )


@family
def share_groups() -> Make:
    from odradek.group.share.api import ShareGroupApi

    return lambda node: ShareGroupApi(node, node.group_coordinators)


@family
def share_offsets() -> Make:
    from odradek.share.offset_api import ShareOffsetApi

    return lambda node: ShareOffsetApi(node, node.group_coordinators, node.share_states, peers=node.peers)


@family
def transactions() -> Make:
    from odradek.txn.api import TransactionApi

    return lambda node: TransactionApi(
        node, node.transaction_coordinators, node.registration, node.producer_ids, rules=node.rules
    )


@family
def markers() -> Make:
    return lambda node: node.markers


@family
def groups() -> Make:
    from odradek.group.classic.api import GroupApi

    return lambda node: GroupApi(node, node.group_coordinators, share_states=lambda: node.share_states)


@family
def consumer_groups() -> Make:
    from odradek.group.consumer.api import ConsumerGroupApi

    return lambda node: ConsumerGroupApi(node, node.group_coordinators)


@family
def streams_groups() -> Make:
    from odradek.group.streams.api import StreamsGroupApi

    return lambda node: StreamsGroupApi(node, node.group_coordinators, node.streams_topics)


@family
def offsets() -> Make:
    from odradek.offsets.api import OffsetApi

    return lambda node: OffsetApi(node, node.group_coordinators)


@family
def telemetry() -> Make:
    from odradek.telemetry.api import TelemetryApi

    return lambda node: TelemetryApi(node, node.telemetry)


@family
def txn_offsets() -> Make:
    from odradek.offsets.txn_api import TxnOffsetApi

    return lambda node: TxnOffsetApi(node, node.group_coordinators, node.admission, rules=node.rules)


@family
def find_coordinator() -> Make:
    from odradek.metadata.api.find_coordinator import FindCoordinatorApi

    return lambda node: FindCoordinatorApi(node, node.controller, node.seekers.looked)
