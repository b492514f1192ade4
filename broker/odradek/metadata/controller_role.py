"""The metadata log in a node: every node folds it, and the controller writes it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from odradek.config.keys import INT_MAX
from odradek.config.table import TopicConfig
from odradek.core.flow import Wait
from odradek.core.internal_topics import AT_START, INTERNAL_TOPICS, CoordinatorKind
from odradek.core.machine import Proposed, Refused
from odradek.host.shard import Shard
from odradek.log.disk import DiskError
from odradek.log.followers import NEVER
from odradek.log.partition import Guard, Partition
from odradek.metadata.brokers import NO_EPOCH, registration
from odradek.metadata.controller import WRITTEN_AT_ONCE, Activation, Controller, Fencing
from odradek.metadata.features import DIRECTORIES_SINCE, METADATA_VERSION, unsupported_levels
from odradek.metadata.image import EMPTY, REPLICA_LAG, EndpointImage, MetadataImage, PartitionImage, ResourceType
from odradek.metadata.loader import MetadataLoader
from odradek.records.control import QUORUM_RECORDS
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from odradek.wire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.create_topics_response import CreateTopicsResponse
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.config.table import Config
    from odradek.core.machine import Decision, LogRecord
    from odradek.host.cluster_spec import BrokerSpec, ClusterSpec
    from odradek.host.host import Host
    from odradek.host.peers import Peers
    from odradek.host.replicas import Replicas
    from odradek.log.log import Log
    from odradek.metadata.quorum import Controllers

__all__ = ["ControllerShard", "ControllerRole", "StartRefused", "StartTopic", "internal_topic"]


T = TypeVar("T")

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = (1).to_bytes(16, "big")
"""Kafka's reserved id of the metadata log."""
METADATA_CONFIG = TopicConfig(cleanup_policy=())
"""The metadata log is neither deleted from, nor compacted, nor dropped for memory."""
START_TIMEOUT_MS = 30_000


class StartRefused(Exception):
    """The node cannot start with its configuration; the text is one clear sentence."""


class StartTopic(Struct, frozen=True):
    """A topic that exists from the start; None leaves a number to the configuration."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None

    @classmethod
    def parse(cls, text: str) -> StartTopic:
        """`NAME`, `NAME:PARTITIONS` or `NAME:PARTITIONS:REPLICAS`. Raises ValueError for anything else."""
        name, *numbers = text.split(":")
        if not name or len(numbers) > 2 or not all(number.isdecimal() and int(number) > 0 for number in numbers):
            raise ValueError(f"a topic is NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS, not {text}")
        return cls(name, *map(int, numbers))


class ControllerRole:
    """The metadata of a node: its image, and the controller if this node has that role."""

    def __init__(
        self,
        node: Host,
        replicas: Replicas,
        peers: Peers,
        publish: Callable[[MetadataImage, MetadataImage], None],
    ) -> None:
        self._node_id = node.node_id
        self._cluster = node.cluster
        self._node = node
        self._replicas = replicas
        self._settings = node.settings
        self._clock = node.clock
        self._store = node.store
        self._peers = peers
        self._outbox = node.outbox
        self._random = node.random
        self._secrets = node.secrets
        self._publish = publish
        """Called with each new image and the one before."""
        self.image: MetadataImage = EMPTY
        self.topics_at_start: Sequence[StartTopic] = ()
        self.is_fork = False
        """Whether the brokers go on in their registrations, at other addresses."""
        self.image_at_start: MetadataImage | None = None
        """The image of the snapshot from which a fork starts, in place of the log before it; None: it reads the log."""
        self.image_found: MetadataImage = EMPTY
        """The image that the log had at the start of the node."""
        self.shard: ControllerShard | None = None
        self._loader = MetadataLoader()
        config = node.settings.at_start
        self._log_config = TopicConfig(
            cleanup_policy=METADATA_CONFIG.cleanup_policy,
            segment_bytes=config.metadata_log_segment_bytes,
            segment_ms=config.metadata_log_segment_ms,
        )
        self._log = node.store.open(METADATA_TOPIC_ID, 0, self._log_config)

    @property
    def active(self) -> ControllerShard | None:
        """The controller, if this node is it and no other one has become active since."""
        return self.shard if self.shard is not None and self.shard.partition.is_leader else None

    def start(self) -> None:
        """Read the log. The controller becomes active first, and creates the records of a new cluster.

        Raises `StartRefused` where the log has a record that makes no sense, before anything is written.
        """
        self._read_snapshot()
        self.advance(self._log.end_offset)
        if self._loader.fault is not None:
            raise StartRefused(f"The metadata log cannot be read {self._loader.fault}.")
        self.image_found = self._loader.image
        if self._cluster.controller_id != self._node_id:
            if self.image_at_start is not None and self.image.offset < self._loader.image.offset:
                self.show((self._loader.image,))
            return
        is_new = self._log.end_offset == 0
        self.activate()
        if is_new:
            for broker in self._cluster.brokers:
                self.admit(broker)
            self._create_users_at_start()
            self.create_topics_at_start()
        elif self.is_fork:
            # In one step with the image: brokers that published it first would go through all partitions twice.
            there = [each for each in self._cluster.brokers if each.node_id in self._loader.image.brokers]
            error = self.change_addresses(*there)
            assert error is ErrorCode.NONE, "the brokers of a fork are registered"

    def _read_snapshot(self) -> None:
        """Start from the snapshot of the log, if there is one; the first images to publish follow it."""
        snapshot = self._store.metadata_snapshot
        if self.image_at_start is not None:
            self._loader = MetadataLoader(self.image_at_start)
        elif snapshot is not None:
            from odradek.metadata.snapshot_file import read_snapshot  # few clusters start from one

            end_offset, epoch, data = snapshot
            self._loader.load_snapshot(read_snapshot(data), offset=end_offset - 1, epoch=epoch)
        elif self._log.end_offset:
            # In a log that Kafka has begun they come again, with its first leader.
            self._loader.begin_with(self._first_quorum())

    def _first_records(self) -> Sequence[Struct]:
        """What a directory was formatted with, if the cluster has not begun, or its beginning was not completed."""
        if self._loader.image.feature(METADATA_VERSION):
            return ()
        quorum = self._first_quorum()
        if self._store.bootstrap is None:
            return quorum
        from odradek.metadata.snapshot_file import read_snapshot  # most clusters are not formatted

        records = read_snapshot(self._store.bootstrap)
        return [*quorum, *(each for each in records if type(each).__name__ not in QUORUM_RECORDS)]

    def _first_quorum(self) -> Sequence[Struct]:
        """The voters that a directory was formatted with, and the level of kraft.version."""
        if self._store.first_quorum is None:
            return ()
        from odradek.metadata.quorum import decode_quorum  # most quorums have static voters
        from odradek.metadata.snapshot_file import read_quorum

        return decode_quorum(read_quorum(self._store.first_quorum))

    def _controllers(self) -> Controllers:
        """The voters: all brokers with the metadata log in their directories, or this one alone."""
        from odradek.metadata.api.started_with import controller_addresses, controller_listener
        from odradek.metadata.quorum import Controllers, metadata_directory

        config = self._settings.config
        addresses = controller_addresses(config)
        voters: dict[int, tuple[bytes, str, int]] = {}
        for node_id in self._store.voters or (self._node_id,):
            broker = self._cluster.broker(node_id)
            host, port = addresses.get(node_id, (broker.host, broker.port))
            directory = metadata_directory(self._store.directories_of(node_id), self._cluster.cluster_id, node_id)
            voters[node_id] = (directory, host, port)
        return Controllers(controller_listener(config).upper(), voters)

    def activate(self) -> None:
        """Become the controller: read the rest of the log, abort an open transaction, write from now on."""
        self.advance(self._log.end_offset)
        partition = Partition(
            topic=METADATA_TOPIC,
            topic_id=METADATA_TOPIC_ID,
            index=0,
            log=self._log,
            leader_epoch=self._log.leader_epoch + 1,
            config=self._log_config,
            now=self._clock.now,
            leader=self._node_id,
        )
        machine = Controller(
            node_id=self._node_id,
            cluster_id=self._cluster.cluster_id,
            config=self._settings.at_start,
            rng=self._random,
            loader=self._loader,
            controllers=self._controllers,
            first_records=self._first_records(),
        )
        self.shard = ControllerShard(
            self._node,
            self._replicas,
            partition,
            machine,
            mark=self._loader.last_offset + 1,
            show=self.show,
        )
        self.shard.load()

    def admit(self, broker: BrokerSpec, *, shut_down_cleanly: bool = False) -> None:
        """Register a broker of this process; it has read the log, so it is unfenced at once."""
        assert self.shard is not None, "only the controller registers brokers"
        machine = self.shard.machine
        before = self.image.brokers.get(broker.node_id) if shut_down_cleanly else None
        request = registration(
            broker_id=broker.node_id,
            cluster_id=self._cluster.cluster_id,
            incarnation_id=self._random.randbytes(16),
            host=broker.host,
            port=broker.port,
            features=self._settings.release.features,
            rack=broker.rack,
            endpoints=_endpoints(broker),
            previous_epoch=NO_EPOCH if before is None else before.epoch,
            log_dirs=self._store.directories_of(broker.node_id)
            if self.image.feature(METADATA_VERSION) >= DIRECTORIES_SINCE
            else (),
        )
        registered = _written(_at_once(self.shard.carry_out(machine.register_broker(request))))
        if registered.error_code != ErrorCode.NONE:
            code = ErrorCode(registered.error_code)
            reason = unsupported_levels(self.image, self._settings.release.features) or code.name
            raise StartRefused(f"Broker {broker.node_id} cannot be registered: {reason}.")
        self._renew_session(broker.node_id, registered.broker_epoch)

    def hear_from(self, node_id: int) -> None:
        """A broker that was fenced for its silence answers again: it is unfenced with its old registration."""
        broker = self.image.brokers.get(node_id)
        if broker is not None and broker.fenced:
            self._renew_session(node_id, broker.epoch)

    def _renew_session(self, node_id: int, epoch: int) -> None:
        """The heartbeat of a broker of this process, which has read the log."""
        assert self.shard is not None, "only the controller hears of brokers"
        machine = self.shard.machine
        heartbeat = BrokerHeartbeatRequest(
            broker_id=node_id, broker_epoch=epoch, current_metadata_offset=machine.loader.last_offset
        )
        self._catch_up(node_id)
        _written(_at_once(self.shard.carry_out(machine.heartbeat(heartbeat))))

    def _catch_up(self, node_id: int) -> None:
        """A broker without a delay of acknowledgement has fetched everything from the present leaders at once."""
        image = self.image
        if image.replica_lag_ms(node_id, self._settings.at_start.odradek_replica_lag_ms) != 0:
            return
        for log, partition in self._logs_of(node_id):
            if image.is_alive(partition.leader):
                log.catch_up(node_id)

    def _logs_of(self, node_id: int) -> Iterator[tuple[Log, PartitionImage]]:
        """The logs of which a broker has a replica."""
        for topic in self.image.topics.values():
            for partition in topic.partitions.values():
                log = self._store.find(topic.id, partition.index) if node_id in partition.replicas else None
                if log is not None:
                    yield log, partition

    def fence(self, node_id: int) -> None:
        """A broker is gone: other replicas lead its partitions."""
        assert self.shard is not None, "only the controller fences brokers"
        broker = self.image.brokers.get(node_id)
        if broker is not None and not broker.fenced:
            # From now on it fetches nothing. It leads its partitions until there is another leader.
            for log, partition in self._logs_of(node_id):
                if partition.leader != node_id:
                    log.behind.setdefault(node_id, log.end_offset)
                    if log.mark is None and node_id in partition.isr:
                        # The leader waits for this replica, and commits nothing more until the ISR changes.
                        log.mark = log.end_offset
            fencing = self.shard.machine.fence_broker(Fencing(broker.id, broker.epoch))
            _written(_at_once(self.shard.carry_out(fencing)))

    def change_addresses(self, *brokers: BrokerSpec) -> ErrorCode:
        """Change the addresses that clients get for these brokers."""
        assert self.shard is not None, "only the controller registers brokers"
        endpoints = {broker.node_id: _endpoints(broker) for broker in brokers}
        changed = _at_once(self.shard.carry_out(self.shard.machine.change_addresses(endpoints)))
        return changed.error if isinstance(changed, Refused) else ErrorCode.NONE

    def move_leader(self, topic: str, partition: int, to: int, *, unclean: bool = False) -> Refused | None:
        """Give a partition to another leader, or to the same one in a new leader epoch; returns the reason if that is
        refused.

        `unclean`: also to a replica that is out of sync.
        """
        assert self.shard is not None, "only the controller moves leaders"
        machine = self.shard.machine
        return _at_once(self.shard.carry_out(machine.move_leader(topic, partition, to, unclean=unclean)))

    def set_replica_lag(self, broker: int, milliseconds: int | None) -> None:
        """Set the delay (ms) with which the replicas of a broker acknowledge; None: never.

        Raises ValueError for a negative time, and for one above `INT_MAX`.
        """
        if milliseconds is not None and not 0 <= milliseconds <= INT_MAX:
            raise ValueError(f"replicas take no {milliseconds} ms to acknowledge: give 0 or more, or None for ever")
        value = str(NEVER if milliseconds is None else milliseconds)
        error = self.alter_configs(ResourceType.BROKER, str(broker), {REPLICA_LAG: value})
        assert error is None, error

    def set_feature(self, name: str, level: int) -> str | None:
        """Finalize another level of a feature; returns the reason if that is refused."""
        from odradek.metadata.feature_updates import UpgradeType  # most clusters keep their first levels
        from odradek.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

        assert self.shard is not None, "only the controller changes features"
        upgrade = level > self.image.feature(name)
        update = FeatureUpdateKey(
            feature=name,
            max_version_level=level,
            upgrade_type=UpgradeType.UPGRADE if upgrade else UpgradeType.SAFE_DOWNGRADE,
        )
        request = UpdateFeaturesRequest(feature_updates=[update])
        updated = _at_once(self.shard.carry_out(self.shard.machine.update_features(request)))
        if isinstance(updated, Refused):
            return updated.message or updated.error.name
        # Older releases answer by feature; and the text of a success is None, empty or NONE.
        of_each = ((each.error_code, each.error_message) for each in updated.results)
        for error, message in ((updated.error_code, updated.error_message), *of_each):
            if error != ErrorCode.NONE:
                return message or ErrorCode(error).name
        return None

    def _create_users_at_start(self) -> None:
        """The configured users can also log in by SCRAM (`kafka-storage format --add-scram`)."""
        if self._settings.at_start.security().odradek_sasl_users is None:
            return
        from odradek.access.jaas import configured_users
        from odradek.metadata.credentials import password_records  # most clusters have no users

        assert self.shard is not None
        salt = self._secrets.randbytes
        users = configured_users(self._settings.config)
        records = [record for user, password in users.items() for record in password_records(user, password, salt)]
        if records:
            _written(_at_once(self.shard.carry_out(self.shard.machine.put_records("Users", records))))

    def forget_tokens(self) -> None:
        """Remove expired delegation tokens, if this is the controller."""
        shard = self.active
        if shard is not None:
            _at_once(shard.carry_out(shard.machine.remove_expired_tokens(self._clock.now)))

    def elect_unclean(self) -> None:
        """Elect out-of-sync replicas where there is no leader and the topic allows it, if this is the controller."""
        shard = self.active
        if shard is not None:
            _at_once(shard.carry_out(shard.machine.elect_unclean()))

    def alter_configs(self, resource_type: ResourceType, name: str, changes: Mapping[str, str | None]) -> str | None:
        """Set configs of a resource, or delete those with the value None; returns the reason if that is refused."""
        from odradek.wire.messages.incremental_alter_configs_request import (
            AlterableConfig,
            AlterConfigsResource,
            IncrementalAlterConfigsRequest,
        )

        assert self.shard is not None, "only the controller changes configs"
        configs = [
            AlterableConfig(name=key, config_operation=1 if value is None else 0, value=value)
            for key, value in changes.items()
        ]
        resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource])
        altered = _at_once(self.shard.carry_out(self.shard.machine.incremental_alter_configs(request)))
        if isinstance(altered, Refused):
            return altered.message or altered.error.name
        [response] = altered.responses
        code = ErrorCode(response.error_code)
        return None if code is ErrorCode.NONE else response.error_message or code.name

    def create_topics_at_start(self) -> None:
        """Create the topics of the start that do not exist yet. Raises `StartRefused`."""
        assert self.shard is not None
        topics = [
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.partitions or -1,
                replication_factor=topic.replication_factor or -1,
            )
            for topic in self.topics_at_start
        ]
        if self._settings.config.odradek_internal_topics_at_start:
            topics += [internal_topic(kind, self._settings.config, self._cluster) for kind in AT_START]
        topics = [topic for topic in topics if topic.name not in self.image.topics]
        if not topics:
            return
        request = CreateTopicsRequest(topics=topics, timeout_ms=START_TIMEOUT_MS)
        decision = self.shard.machine.create_topics(request, tells_configs=False)
        created = _written(_at_once(self.shard.carry_out(decision)))
        for result in created.topics:
            if result.error_code != ErrorCode.NONE:
                reason = result.error_message or ErrorCode(result.error_code).name
                raise StartRefused(f"Topic {result.name} cannot be created: {reason}")

    async def create_internal_topic(self, topic: str) -> None:
        """Let the controller create a coordinator's topic, unless it exists."""
        assert topic in INTERNAL_TOPICS
        request = CreateTopicsRequest(
            topics=[internal_topic(CoordinatorKind(topic), self._settings.config, self._cluster)],
            timeout_ms=START_TIMEOUT_MS,
        )
        await self._peers.call_controller(ApiKey.CREATE_TOPICS, request, 7, CreateTopicsResponse)

    def advance(self, offset: int) -> None:
        """The log is committed up to this offset: fold it, unless the controller's shard does, and publish the image.

        A node that is far behind publishes only the latest image, as a starting broker does.
        """
        if self.active is not None:
            return
        if self.shard is not None:
            # Another controller has become active; its records are how this one learns of it.
            self.shard.resign()
            self.shard = None
        images: list[MetadataImage] = []
        for batch in self._log.batches(self._loader.last_offset + 1):
            images += self._loader.apply(batch)
        self._node.facts.emit(self._loader.facts)
        self._loader.facts = []
        self.show(images[-1:])

    def show(self, images: Sequence[MetadataImage]) -> None:
        """Publish each image in order; afterwards drop the logs of the topics that were removed."""
        for image in images:
            assert image.offset > self.image.offset, "an image never goes back"
            before, self.image = self.image, image
            self._publish(before, image)
        removed, self._loader.removed = self._loader.removed, []
        for topic_id in removed:
            self._store.drop(topic_id)


class Writing:
    """A long transaction that is being written."""

    def __init__(self, batches: Iterator[Sequence[LogRecord]]) -> None:
        self.batches = batches
        self.is_over = False
        self.refused: Refused | None = None
        """Why it cannot be finished: another controller writes now, or the disk has failed."""
        self.waiting: list[Wait[None]] = []
        """Flows that wait for the result, and flows that wait to decide next."""


class ControllerShard(Shard[Activation]):
    """The controller over the metadata log; long operations are appended in several batches (KIP-868)."""

    def __init__(
        self,
        node: Host,
        replicas: Replicas,
        partition: Partition,
        machine: Controller,
        *,
        mark: int,
        show: Callable[[Sequence[MetadataImage]], None],
    ) -> None:
        super().__init__(node, replicas.replication, replicas.appended, partition, machine, mark=mark)
        self.machine = machine
        self._outbox = node.outbox
        self._show = show
        self._writing: Writing | None = None
        machine.finish = self._finish

    async def perform(self, work: Activation) -> None:
        """Write the first records of a cluster, or end an open transaction of the controller before."""
        await self.carry_out(self.machine.perform(work))

    def propose(self, proposed: Proposed[T], *, guard: Guard | None = None) -> T | Refused:
        """Append batch by batch, fold, and announce; no request is served in between."""
        writing = Writing(self.machine.batches(proposed.records))
        while not writing.is_over:
            self._write(writing)
        return writing.refused or proposed.reply

    async def at_rest(self) -> None:
        """Wait until no operation is being written, so that the next decision sees all results."""
        while (writing := self._writing) is not None:
            await self._end_of(writing)

    async def ask(self, decide: Callable[[Controller], Decision[T]]) -> T | Refused:
        """Write a decision; in a long transaction other clients are served between two batches."""
        await self.at_rest()
        decision = decide(self.machine)
        if not isinstance(decision, Proposed) or len(decision.records) <= WRITTEN_AT_ONCE:
            return await self.carry_out(decision)
        writing = self._writing = Writing(self.machine.batches(decision.records))
        # If the client disconnects the transaction must still end.
        self._kernel.spawn(self._write_on(writing))
        if not writing.is_over:
            await self._end_of(writing)
        return writing.refused or decision.reply

    async def _write_on(self, writing: Writing) -> None:
        while not writing.is_over:
            self._write(writing)
            if not writing.is_over:
                await self._turns.breathe_behind()

    def _end_of(self, writing: Writing) -> Wait[None]:
        wait: Wait[None] = Wait(self._kernel)
        writing.waiting.append(wait)
        return wait

    def _finish(self) -> None:
        """A decision that cannot wait: finish the transaction now."""
        while (writing := self._writing) is not None:
            self._write(writing)

    def _write(self, writing: Writing) -> None:
        """Append the next batch, fold it, and announce it."""
        records = next(writing.batches, None)
        if records is not None:
            appended = self.partition.append_records(records, self._clock.now)
            if not isinstance(appended, Refused):
                self.advance()
                self._outbox.announce(self.partition.high_watermark)
                return
            self.settle()
            writing.refused = Refused(ErrorCode.NOT_CONTROLLER, appended.message)
        writing.is_over = True
        if self._writing is writing:
            self._writing = None
        for wait in writing.waiting:
            wait.settle(None)

    def advance(self) -> None:
        """Fold, and publish the images to the node."""
        super().advance()
        published, self.machine.published = self.machine.published, []
        self._show(published)


def internal_topic(kind: CoordinatorKind, config: Config, cluster: ClusterSpec) -> CreatableTopic:
    """A coordinator's topic, as Kafka creates it."""
    brokers = max(1, len(cluster.brokers))
    if kind is CoordinatorKind.GROUP:
        replicas = min(config.offsets_topic_replication_factor, brokers)
        partitions = config.offsets_topic_num_partitions
        settings = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(max(1_048_576, config.offsets_topic_segment_bytes)),
        }
    elif kind is CoordinatorKind.SHARE:
        wanted = config.share_coordinator_state_topic_replication_factor
        replicas = min(wanted, brokers)
        min_insync = min(config.share_coordinator_state_topic_min_isr, max(1, replicas - (replicas < wanted)))
        partitions = config.share_coordinator_state_topic_num_partitions
        settings = {
            # Its records have keys, but it is not compacted: an update depends on the ones before it.
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(min_insync),
            "retention.ms": "-1",
            "segment.bytes": str(max(1_048_576, config.share_coordinator_state_topic_segment_bytes)),
        }
    else:
        wanted = config.transaction_state_log_replication_factor
        replicas = min(wanted, brokers)
        # With fewer brokers than configured replicas one of them may still fail.
        min_insync = min(config.transaction_state_log_min_isr, max(1, replicas - (replicas < wanted)))
        partitions = config.transaction_state_log_num_partitions
        settings = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(min_insync),
            "segment.bytes": str(max(1_048_576, config.transaction_state_log_segment_bytes)),
            "unclean.leader.election.enable": "false",
        }
    return CreatableTopic(
        name=kind.topic,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in settings.items()],
    )


def _endpoints(broker: BrokerSpec) -> list[EndpointImage]:
    return [EndpointImage(e.name, e.host, e.port, e.security_protocol) for e in broker.endpoints]


def _written(outcome: T | Refused) -> T:
    """The result of a decision of the controller itself. Raises `DiskError` if the metadata cannot be written."""
    if isinstance(outcome, Refused):
        raise DiskError(outcome.message or outcome.error.name)
    return outcome


def _at_once(coroutine: Coroutine[object, None, T]) -> T:
    """The result of a flow that must not park."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise AssertionError("the controller's own decisions do not park")
