"""One broker: `step(event, now) -> effects` is its whole border.

All machines, flows and connections live inside; a driver feeds it and carries out its effects.
`now` is wall time in milliseconds, which the driver never lets go back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from odradek.access.entrance import Entrance
from odradek.core.clock import Clock
from odradek.core.flow import Kernel, Purgatory
from odradek.core.timers import PUMPED_AT_ONCE, Pumps, Timers
from odradek.core.turns import Turns
from odradek.data.fetch_sessions import FetchSessions
from odradek.host import dynamic_config
from odradek.host.aside import Aside
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
    Handed,
    LeaderAdvanced,
    MetadataAdvanced,
    Received,
    Started,
    Stopping,
    Tick,
    Turn,
)
from odradek.host.exchange import Accepted
from odradek.host.facts import Certificates, EventSink, Facts, Logger
from odradek.host.housekeeping import Housekeeping
from odradek.host.loggers import Loggers
from odradek.host.metadata import Metadata
from odradek.host.metrics import Metrics
from odradek.host.outbox import Outbox
from odradek.host.peer_connection import PeerConnection
from odradek.host.peers import Peers
from odradek.host.replicas import Replicas
from odradek.host.replication import Replication
from odradek.host.router import Router
from odradek.host.settings import Settings
from odradek.host.shard import ShardParts
from odradek.metadata.controller_role import ControllerRole, StartRefused
from odradek.metadata.image import EMPTY, MetadataImage
from odradek.txn.producer_id_supply import ProducerIdSupply
from odradek.wire.codecs import PLAIN
from odradek.wire.errors import EncodeError
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.access.api.credentials import CredentialApi
    from odradek.access.api.permissions import AclApi
    from odradek.access.api.tokens import TokenApi
    from odradek.access.authority import Authority
    from odradek.access.gate import Gate
    from odradek.access.listener_logins import SaslListener
    from odradek.access.principal import Peer
    from odradek.config.table import Config
    from odradek.core.clock import Rng
    from odradek.data.fetch import FetchApi
    from odradek.data.log_offsets import LogOffsetsApi
    from odradek.data.produce import ProduceApi
    from odradek.faults.faults import Faults
    from odradek.group.classic.api import GroupApi
    from odradek.group.consumer.api import ConsumerGroupApi
    from odradek.group.offsets.api import OffsetApi
    from odradek.group.offsets.txn_api import TxnOffsetApi
    from odradek.group.shard import GroupShard
    from odradek.group.share.api import ShareGroupApi
    from odradek.group.streams.api import StreamsGroupApi
    from odradek.group.streams.internal_topics import StreamsTopics
    from odradek.host.cluster_spec import ClusterSpec
    from odradek.host.envelopes import EnvelopeApi
    from odradek.host.forwarding import Forwarding
    from odradek.limits.api import LimitApi
    from odradek.limits.connections import ConnectionLimits
    from odradek.limits.quotas import Quotas
    from odradek.log.log_store import LogStore
    from odradek.log.partition import Partition
    from odradek.metadata.api.cluster import ClusterApi
    from odradek.metadata.api.configs import ConfigApi
    from odradek.metadata.api.features import FeatureApi
    from odradek.metadata.api.find_coordinator import FindCoordinatorApi
    from odradek.metadata.api.listener_certificates import ListenerCertificates
    from odradek.metadata.api.metadata import MetadataApi
    from odradek.metadata.api.quorum import QuorumApi
    from odradek.metadata.api.replicas import ReplicaApi
    from odradek.metadata.api.topic_partitions import TopicPartitionsApi
    from odradek.metadata.api.topics import TopicApi
    from odradek.share.fetch import ShareFetchApi
    from odradek.share.leader import Shares
    from odradek.share.shard import ShareShard
    from odradek.share.state_api import ShareStateApi
    from odradek.share.state_client import ShareStateClient
    from odradek.telemetry.api import TelemetryApi
    from odradek.telemetry.telemetry import Telemetry
    from odradek.txn.admission import Admission
    from odradek.txn.api import TransactionApi
    from odradek.txn.rules import Rules
    from odradek.txn.shard import TransactionShard
    from odradek.txn.write_markers import MarkerApi

__all__ = ["EventSink", "Logger", "Node"]


class Node:
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
        self.node_id = node_id
        self.static_config = config
        self.config = config
        self.settings = Settings(config)
        self.store = store
        self.cluster = cluster
        self.random = random
        self.secrets = secrets or random
        """What nobody may foresee is drawn from here."""
        self.thread_clock: Callable[[], int] = no_time
        """The time that the thread of the node has worked (ns); whoever runs the node may put a clock here."""
        self.certificates: Certificates | None = None
        """Those of its listeners; whoever opens them may put them here."""
        self.quotas: Quotas | None = None
        """What clients use, as soon as anything of it is limited."""
        self.connection_limits: ConnectionLimits | None = None
        self.log = Loggers(log)
        self.now = now
        self.clock = Clock(now)
        self.metadata = Metadata(EMPTY)
        """The metadata this broker has published to itself."""
        self.calls_itself = calls_itself
        """Whether what it asks of itself takes the short way, without bytes and without delay."""
        self.encodes = encodes
        """Whether what brokers say to one another is bytes, as over a socket, rather than messages."""
        self.outbox = Outbox()
        self.facts = Facts(node_id, self.log, events)
        self.kernel = Kernel()
        self.kernel.on_failure = self._flow_failed
        self.timers = Timers()
        self.turns = Turns(self.kernel)
        self.aside = Aside(self.kernel)
        self.pumps = Pumps(self.timers)
        self.purgatory = Purgatory(self.kernel)
        self.release = config.release
        self.codecs = self.release.codecs or PLAIN
        self.authority = _authority(config, self.metadata, self.settings)
        """Who decides what clients may do; None lets everybody do everything, and nobody is asked."""
        self.families = Families(self)
        self.router = Router(
            self.release,
            unstable_versions=config.unstable_api_versions_enable,
            tells_all=config.odradek_telemetry,
            node=self,
            authority=self.authority,
            family=self.families.family,
        )
        self.faults: Faults | None = None
        self.start_refused: StartRefused | None = None
        """Why the node cannot serve, once it was told to start."""
        slots, shards = config.max_incremental_fetch_session_cache_slots, self.release.fetch_session_shards
        self.fetch_sessions = FetchSessions(slots, random, shards=shards)
        self.entrance = Entrance(
            cluster.endpoints_of(node_id),
            metadata=self.metadata,
            settings=self.settings,
            secrets=self.secrets,
            log=self.log,
            gate=self.gate,
        )
        self.peers = Peers(self)
        self.producer_ids = ProducerIdSupply(
            node_id,
            self.peers,
            metadata=self.metadata,
            settings=self.settings,
            clock=self.clock,
            kernel=self.kernel,
            timers=self.timers,
        )
        self.metrics = Metrics(self)
        self.connections: dict[int, Accepted] = {}
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.replication = Replication(self)
        self.replicas = Replicas(self)
        self.shard_parts = ShardParts(
            clock=self.clock,
            settings=self.settings,
            kernel=self.kernel,
            pumps=self.pumps,
            purgatory=self.purgatory,
            turns=self.turns,
            facts=self.facts,
            counters=self.metrics,
            replication=self.replication,
            appended=self.replicas.appended,
        )
        self.coordinators = Coordinators(
            self.partitions,
            metadata=self.metadata,
            kernel=self.kernel,
            groups=self._group_shard,
            transactions=self._transaction_shard,
            shares=self._share_shard,
        )
        self.image: MetadataImage = EMPTY
        self.controller = ControllerRole(
            node_id,
            self._published,
            cluster=cluster,
            parts=self.shard_parts,
            store=store,
            peers=self.peers,
            outbox=self.outbox,
            random=random,
            secrets=self.secrets,
        )
        self.housekeeping = Housekeeping(self)
        self._steps: dict[type, Callable[[Any], None]] = {
            Started: self._started,
            Connected: self._connected,
            Dialled: self._dialled,
            Received: self._received,
            Handed: self._handed,
            Disconnected: self._disconnected,
            Clogged: self._clogged,
            Drained: self._drained,
            MetadataAdvanced: self._metadata_advanced,
            LeaderAdvanced: self._leader_advanced,
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
        self.now = self.clock.now = self.kernel.now = now
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
            connection.guard(gate)
        return True

    def gate(self, listener: SaslListener) -> Gate:
        """A login for a new connection over this listener."""
        from odradek.access.gate import Gate  # most brokers have none

        return Gate(
            listener,
            self.config.socket_request_max_bytes,
            secrets=self.secrets,
            router=self.router,
            clock=self.clock,
            timers=self.timers,
            counters=self.metrics,
            telling=self,
        )

    def limit_connections(self) -> None:
        """Take over what the configuration says of connections; without limits nobody counts them."""
        if self.connection_limits is not None:
            self.connection_limits.adopt()
        elif self.config.limits_connections:
            from odradek.limits.connections import ConnectionLimits  # most clusters limit nothing

            self.connection_limits = ConnectionLimits(
                self.connections,
                settings=self.settings,
                clock=self.clock,
                timers=self.timers,
                outbox=self.outbox,
                log=self.log,
            )

    def _turn_away(self, conn: int, wait_ms: int) -> None:
        """Too many have connected from there: this one is not heard, and hung up on a while later (KIP-612)."""
        self.outbox.hold(conn)
        self.timers.set(("turned away", conn), self.now + wait_ms, partial(self.outbox.hang_up, conn))

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
        self.coordinators.end_all()
        for connection in list(self.connections.values()):
            connection.disconnected()
            self.outbox.part_with(connection)

    def _command(self, event: Command) -> None:
        event.act()

    def _computed(self, event: Computed) -> None:
        event.work.done()

    def _tick(self, event: Tick) -> None:
        self.kernel.expire(self.now)
        self.timers.run(self.now)

    def _turn(self, event: Turn) -> None:
        self.turns.run()

    # ------------------------------------------------------------------ the parts

    @cached_property
    def rules(self) -> Rules:
        """The tables of transactions; imported by the first transaction."""
        from odradek.txn.rules import rules_of

        return rules_of(self.release)

    @cached_property
    def admission(self) -> Admission:
        """How a write gets into a transaction; imported by the first one."""
        from odradek.txn.admission import Admission

        return Admission(
            self.families.transactions,
            self.replicas,
            self.peers,
            rules=self.rules,
            metadata=self.metadata,
            settings=self.settings,
            clock=self.clock,
            kernel=self.kernel,
            purgatory=self.purgatory,
            pumps=self.pumps,
            facts=self.facts,
            version=self.router.newest(ApiKey.ADD_PARTITIONS_TO_TXN),
        )

    @cached_property
    def share_states(self) -> ShareStateClient:
        """Requests to share coordinators; imported by the first share group."""
        from odradek.share.state_client import ShareStateClient

        return ShareStateClient(
            self.peers,
            self.router,
            create_internal_topic=self.controller.create_internal_topic,
            metadata=self.metadata,
            settings=self.settings,
            clock=self.clock,
            kernel=self.kernel,
        )

    @cached_property
    def shares(self) -> Shares:
        """The share partitions that this broker leads; imported by the first member of a share group."""
        from odradek.share.leader import Shares

        return Shares(
            self.share_states,
            self.partitions,
            metadata=self.metadata,
            settings=self.settings,
            clock=self.clock,
            kernel=self.kernel,
            turns=self.turns,
            timers=self.timers,
            purgatory=self.purgatory,
        )

    @property
    def has_shares(self) -> bool:
        """Whether any were asked for."""
        return "shares" in self.__dict__

    @cached_property
    def telemetry(self) -> Telemetry:
        """This part receives the metrics of clients; the broker creates it at the first telemetry request."""
        from odradek.telemetry.telemetry import Telemetry

        return Telemetry(
            self.random,
            metadata=self.metadata,
            settings=self.settings,
            clock=self.clock,
            timers=self.timers,
            aside=self.aside,
            counters=self.metrics,
            facts=self.facts,
            log=self.log,
        )

    @property
    def has_telemetry(self) -> bool:
        """Whether any were offered."""
        return "telemetry" in self.__dict__

    @cached_property
    def streams_topics(self) -> StreamsTopics:
        """Has topics made for Kafka Streams applications; imported by the first that needs one."""
        from odradek.group.streams.internal_topics import StreamsTopics

        return StreamsTopics(self.peers, settings=self.settings, clock=self.clock, kernel=self.kernel)

    def _group_shard(self, partition: Partition) -> GroupShard:
        from odradek.group.shard import GroupShard

        return GroupShard(
            self.shard_parts,
            partition,
            metadata=self.metadata,
            random=self.random,
            share_states=lambda: self.share_states,
        )

    def _transaction_shard(self, partition: Partition) -> TransactionShard:
        from odradek.txn.shard import TransactionShard

        return TransactionShard(
            self.shard_parts,
            partition,
            metadata=self.metadata,
            peers=self.peers,
            producer_ids=self.producer_ids,
            write_here=self.families.markers.write,
            markers_version=self.router.newest(ApiKey.WRITE_TXN_MARKERS),
        )

    def _share_shard(self, partition: Partition) -> ShareShard:
        from odradek.share.shard import ShareShard

        return ShareShard(self.shard_parts, partition, metadata=self.metadata)

    @cached_property
    def listener_certificates(self) -> ListenerCertificates:
        """Judges certificates that a change of the configuration names; imported by the first change."""
        from odradek.metadata.api.listener_certificates import ListenerCertificates

        return ListenerCertificates(
            self.node_id, lambda: self.certificates, metadata=self.metadata, settings=self.settings
        )

    def _published(self, before: MetadataImage, after: MetadataImage) -> None:
        """A new image is there."""
        self.image = after
        self.metadata.publish(after)
        if self.authority is not None:
            self.authority.adopt(before, after)
        if before.quotas is not after.quotas:
            self._adopt_quotas(after)
        dynamic_config.adopt(self, before, after)
        if self.has_telemetry:
            self.telemetry.adopt(before, after)
        self.replicas.adopt(before, after)

    def _adopt_quotas(self, image: MetadataImage) -> None:
        if self.quotas is None:
            from odradek.limits.quotas import Quotas  # most clusters limit nothing

            self.quotas = Quotas(
                self.settings, clock=self.clock, router=self.router, thread_clock=lambda: self.thread_clock()
            )
        self.quotas.adopt(image.quotas)

    def _flow_failed(self, error: BaseException) -> None:
        self.log.error("flow_failed", node=self.node_id, exc_info=error)


def no_time() -> int:
    """The clock of a node that nobody measures."""
    return 0


def _authority(config: Config, metadata: Metadata, settings: Settings) -> Authority | None:
    security = config.security()
    if not security.authorizer_class_name:
        return None
    from odradek.access.authority import Authority  # most clusters have none

    return Authority(security, metadata=metadata, settings=settings)


class Families:
    """Makes each family of APIs from the parts that it may touch; imported by the first request of one of its APIs."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def family(self, name: str) -> object:
        """The family of this name; the names are those in `odradek.host.served`."""
        made: object = getattr(self, name)
        return made

    @cached_property
    def produce(self) -> ProduceApi:
        from odradek.data.produce import ProduceApi

        node = self._node
        return ProduceApi(
            node.replicas,
            node.replication,
            admission=lambda: node.admission,
            rules=lambda: node.rules,
            metadata=node.metadata,
            settings=node.settings,
            clock=node.clock,
            turns=node.turns,
            aside=node.aside,
            log=node.log,
        )

    @cached_property
    def fetch(self) -> FetchApi:
        from odradek.data.fetch import FetchApi

        node = self._node
        return FetchApi(
            node.replicas,
            node.fetch_sessions,
            node_id=node.node_id,
            authority=node.authority,
            quotas=lambda: node.quotas,
            metadata=node.metadata,
            settings=node.settings,
            clock=node.clock,
            turns=node.turns,
            purgatory=node.purgatory,
        )

    @cached_property
    def _forwarding(self) -> Forwarding:
        from odradek.host.forwarding import Forwarding

        node = self._node
        return Forwarding(
            node.controller, node.peers, turns=node.turns, settings=node.settings, quotas=lambda: node.quotas
        )

    # ------------------------------------------------------------------ the cluster

    @cached_property
    def cluster(self) -> ClusterApi:
        from odradek.metadata.api.cluster import ClusterApi

        node = self._node
        return ClusterApi(
            node.node_id,
            cluster=node.cluster,
            connections=node.connections,
            router=node.router,
            replicas=node.replicas,
            store=node.store,
            metadata=node.metadata,
            settings=node.settings,
            turns=node.turns,
        )

    @cached_property
    def quorum(self) -> QuorumApi:
        from odradek.metadata.api.quorum import QuorumApi

        node = self._node
        return QuorumApi(
            self._forwarding,
            cluster=node.cluster,
            metadata=node.metadata,
            settings=node.settings,
            clock=node.clock,
        )

    @cached_property
    def features(self) -> FeatureApi:
        from odradek.metadata.api.features import FeatureApi

        return FeatureApi(self._forwarding)

    @cached_property
    def metadata(self) -> MetadataApi:
        from odradek.metadata.api.metadata import MetadataApi

        node = self._node
        return MetadataApi(
            node.metadata, settings=node.settings, cluster=node.cluster, peers=node.peers, turns=node.turns
        )

    @cached_property
    def topic_partitions(self) -> TopicPartitionsApi:
        from odradek.metadata.api.topic_partitions import TopicPartitionsApi

        return TopicPartitionsApi(self._node.metadata, self._node.settings)

    @cached_property
    def topics(self) -> TopicApi:
        from odradek.metadata.api.topics import TopicApi

        return TopicApi(self._forwarding, metadata=self._node.metadata, turns=self._node.turns)

    @cached_property
    def replicas(self) -> ReplicaApi:
        from odradek.metadata.api.replicas import ReplicaApi

        return ReplicaApi(self._forwarding)

    @cached_property
    def configs(self) -> ConfigApi:
        from odradek.metadata.api.configs import ConfigApi
        from odradek.metadata.api.logger_levels import LoggerLevels

        node = self._node
        levels = LoggerLevels(
            node.node_id,
            loggers=node.log,
            facts=node.facts,
            coordinators=node.coordinators,
            partitions=node.partitions,
        )
        return ConfigApi(
            self._forwarding,
            levels=levels,
            certificates=node.listener_certificates,
            node_id=node.node_id,
            cluster=node.cluster,
            metadata=node.metadata,
            settings=node.settings,
            turns=node.turns,
        )

    @cached_property
    def envelopes(self) -> EnvelopeApi:
        from odradek.host.envelopes import EnvelopeApi

        return EnvelopeApi(self._node, self._node.router, self._node.settings)

    # ------------------------------------------------------------------ permissions, limits, metrics of clients

    @cached_property
    def acls(self) -> AclApi:
        from odradek.access.api.permissions import AclApi

        return AclApi(self._forwarding, authority=self._node.authority, metadata=self._node.metadata)

    @cached_property
    def credentials(self) -> CredentialApi:
        from odradek.access.api.credentials import CredentialApi

        return CredentialApi(self._forwarding, self._node.metadata)

    @cached_property
    def tokens(self) -> TokenApi:
        from odradek.access.api.tokens import TokenApi

        node = self._node
        return TokenApi(
            self._forwarding,
            authority=node.authority,
            secrets=node.secrets,
            metadata=node.metadata,
            settings=node.settings,
            clock=node.clock,
        )

    @cached_property
    def limits(self) -> LimitApi:
        from odradek.limits.api import LimitApi

        return LimitApi(self._forwarding, self._node.metadata)

    # ------------------------------------------------------------------ transactions

    @cached_property
    def log_offsets(self) -> LogOffsetsApi:
        from odradek.data.log_offsets import LogOffsetsApi

        node = self._node
        return LogOffsetsApi(
            node.replicas, node.replication, metadata=node.metadata, clock=node.clock, turns=node.turns
        )

    @cached_property
    def share_state(self) -> ShareStateApi:
        from odradek.share.state_api import ShareStateApi

        return ShareStateApi(self._node.coordinators, self._node.clock)

    @cached_property
    def share_fetch(self) -> ShareFetchApi:
        from odradek.share.fetch import ShareFetchApi

        node = self._node
        return ShareFetchApi(
            node.shares,
            node.replicas,
            authority=node.authority,
            metadata=node.metadata,
            settings=node.settings,
            clock=node.clock,
            turns=node.turns,
            purgatory=node.purgatory,
        )

    @cached_property
    def share_groups(self) -> ShareGroupApi:
        from odradek.group.share.api import ShareGroupApi

        node = self._node
        return ShareGroupApi(
            node.coordinators,
            node.share_states,
            peers=node.peers,
            router=node.router,
            metadata=node.metadata,
            settings=node.settings,
            clock=node.clock,
            turns=node.turns,
        )

    @cached_property
    def transactions(self) -> TransactionApi:
        from odradek.txn.api import TransactionApi

        node = self._node
        return TransactionApi(
            node.coordinators,
            node.producer_ids,
            rules=node.rules,
            metadata=node.metadata,
            settings=node.settings,
            clock=node.clock,
            turns=node.turns,
        )

    @cached_property
    def markers(self) -> MarkerApi:
        from odradek.txn.write_markers import MarkerApi

        node = self._node
        return MarkerApi(
            node.node_id,
            node.replicas,
            replication=node.replication,
            coordinators=node.coordinators,
            metadata=node.metadata,
            settings=node.settings,
            clock=node.clock,
            turns=node.turns,
            counters=node.metrics,
        )

    # ------------------------------------------------------------------ groups

    @cached_property
    def groups(self) -> GroupApi:
        from odradek.group.classic.api import GroupApi

        node = self._node
        return GroupApi(node.coordinators, share_states=lambda: node.share_states, clock=node.clock, turns=node.turns)

    @cached_property
    def consumer_groups(self) -> ConsumerGroupApi:
        from odradek.group.consumer.api import ConsumerGroupApi

        node = self._node
        return ConsumerGroupApi(
            node.coordinators,
            authority=node.authority,
            metadata=node.metadata,
            settings=node.settings,
            clock=node.clock,
            turns=node.turns,
        )

    @cached_property
    def streams_groups(self) -> StreamsGroupApi:
        from odradek.group.streams.api import StreamsGroupApi

        node = self._node
        return StreamsGroupApi(
            node.coordinators,
            node.streams_topics,
            authority=node.authority,
            metadata=node.metadata,
            settings=node.settings,
            clock=node.clock,
            turns=node.turns,
        )

    @cached_property
    def offsets(self) -> OffsetApi:
        from odradek.group.offsets.api import OffsetApi

        node = self._node
        return OffsetApi(node.coordinators, metadata=node.metadata, clock=node.clock, turns=node.turns)

    @cached_property
    def telemetry(self) -> TelemetryApi:
        from odradek.telemetry.api import TelemetryApi

        node = self._node
        return TelemetryApi(node.telemetry, node.connections, node.settings)

    @cached_property
    def txn_offsets(self) -> TxnOffsetApi:
        from odradek.group.offsets.txn_api import TxnOffsetApi

        node = self._node
        return TxnOffsetApi(
            node.coordinators,
            node.admission,
            rules=node.rules,
            metadata=node.metadata,
            settings=node.settings,
            clock=node.clock,
            turns=node.turns,
        )

    @cached_property
    def find_coordinator(self) -> FindCoordinatorApi:
        from odradek.metadata.api.find_coordinator import FindCoordinatorApi

        return FindCoordinatorApi(self._node.metadata, self._node.controller, self._node.turns)
