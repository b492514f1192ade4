"""Images from records, batches of records, and a metadata log with its controller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from msgspec import Struct

from odradek.config.table import Config
from odradek.core.machine import Answered, ControlRecord, Decision, LogRecord, Proposed
from odradek.metadata.assignment import Cluster
from odradek.metadata.brokers import registration
from odradek.metadata.controller import Controller
from odradek.metadata.delta import Delta
from odradek.metadata.features import record_version
from odradek.metadata.image import EMPTY, MetadataImage
from odradek.metadata.loader import MetadataLoader
from odradek.metadata.quorum import Controllers, encode_quorum
from odradek.records.batch import Batch, parse_batch
from odradek.records.record import Record, build_batch
from odradek.records.state import encode_metadata
from odradek.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from odradek.wire.messages.config_record import ConfigRecord
from odradek.wire.messages.feature_level_record import FeatureLevelRecord
from odradek.wire.messages.k_raft_version_record import KRaftVersionRecord
from odradek.wire.messages.partition_record import PartitionRecord
from odradek.wire.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from odradek.wire.messages.topic_record import TopicRecord

NODE = 1
CLUSTER = "cluster"
LEVEL = 33
NOW = 1_000_000
CONTROLLERS = Controllers("CONTROLLER", {NODE: (b"d" * 16, "host", 9093)})


def topic_id(name: str) -> bytes:
    """An id that can be told from its name."""
    return name.encode().ljust(16, b".")[:16]


def broker(broker_id: int, *, fenced: bool = False, rack: str | None = None, **levels: int) -> RegisterBrokerRecord:
    """A registered broker that supports features up to these levels."""
    supported = {"metadata_version": 33, "transaction_version": 2, "group_version": 1} | levels
    return RegisterBrokerRecord(
        broker_id=broker_id,
        broker_epoch=100 + broker_id,
        incarnation_id=bytes([broker_id]) * 16,
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="host", port=9000 + broker_id)],
        features=[
            BrokerFeature(name=name.replace("_", "."), min_supported_version=0, max_supported_version=level)
            for name, level in supported.items()
        ],
        rack=rack,
        fenced=fenced,
    )


def topic(name: str, *replica_lists: Sequence[int]) -> list[Struct]:
    """A topic with a partition for each replica list, led by the first."""
    partitions = [
        PartitionRecord(
            partition_id=index,
            topic_id=topic_id(name),
            replicas=list(replicas),
            isr=list(replicas),
            leader=replicas[0],
            leader_epoch=0,
            partition_epoch=0,
        )
        for index, replicas in enumerate(replica_lists or ([1],))
    ]
    return [TopicRecord(name=name, topic_id=topic_id(name)), *partitions]


def override(name: str, value: str | None, *, of: str, resource_type: int = 2) -> ConfigRecord:
    """A config of a resource."""
    return ConfigRecord(resource_type=resource_type, resource_name=of, name=name, value=value)


def level(**levels: int) -> list[Struct]:
    """Feature levels."""
    return [FeatureLevelRecord(name=name.replace("_", "."), feature_level=value) for name, value in levels.items()]


BROKERS = [broker(1), broker(2), broker(3)]


def cluster(*records: Struct | Sequence[Struct], partitions_max: int = 1000, **settings: str) -> Cluster:
    """A cluster of three brokers, or of what is given, with these settings."""
    config = Config.parse({name.replace("_", "."): value for name, value in settings.items()})
    return Cluster(image_of(*(records or (BROKERS,))), config, Random(5), partitions_max)


def image_of(*records: Struct | Iterable[Struct], base: MetadataImage = EMPTY) -> MetadataImage:
    """The image that records make."""
    delta = Delta(base)
    count = base.offset
    for entry in records:
        for record in [entry] if isinstance(entry, Struct) else entry:
            delta.replay(record)
            count += 1
    return delta.build(offset=count, epoch=1)


def batch_of(records: Iterable[Struct | bytes], offset: int, *, epoch: int = 1, control: bool = False) -> Batch:
    """A batch of metadata records; bytes go in as they are."""
    values = [r if isinstance(r, bytes) else encode_metadata(r, record_version(r, LEVEL)) for r in records]
    built = build_batch(
        [Record(value=value) for value in values], base_offset=offset, leader_epoch=epoch, control=control
    )
    return parse_batch(memoryview(built))


def control_of(records: Iterable[LogRecord], offset: int, *, epoch: int = 1) -> Batch:
    """A control batch of these records."""
    made = [Record(key=record.key, value=record.value) for record in records]
    return parse_batch(memoryview(build_batch(made, base_offset=offset, leader_epoch=epoch, control=True)))


def quorum_batch(offset: int, level: int = 1, *, epoch: int = 1) -> Batch:
    """The level of kraft.version in the log."""
    return control_of(encode_quorum([KRaftVersionRecord(k_raft_version=level)]), offset, epoch=epoch)


class World:
    """A metadata log, the controller that writes it, and a broker that reads it."""

    def __init__(self, *, brokers: int = 1, seed: int = 7, **settings: str) -> None:
        self.config = Config.parse({name.replace("_", "."): value for name, value in settings.items()})
        self.log: list[Batch] = []
        self.loader = MetadataLoader()
        self.seed = seed
        self.epoch = 1
        self.controller = self.new_controller()
        if brokers:
            self.carry_out(self.controller.activate())
        for broker_id in range(1, brokers + 1):
            self.admit(broker_id)

    @property
    def image(self) -> MetadataImage:
        """What the broker sees."""
        return self.loader.image

    def new_controller(self, node_id: int = NODE) -> Controller:
        """A controller that has replayed the log."""
        controller = Controller(
            node_id=node_id,
            cluster_id=CLUSTER,
            config=self.config,
            rng=Random(self.seed),
            loader=MetadataLoader(),
            controllers=lambda: CONTROLLERS,
        )
        for batch in self.log:
            controller.apply(batch)
        return controller

    def fail_over(self) -> Controller:
        """The controller is replaced by a new one."""
        self.epoch += 1
        self.controller = self.new_controller(node_id=NODE + 1)
        return self.controller

    def append(self, records: Iterable[Struct | bytes]) -> None:
        """Append one batch and have it folded."""
        self._take(batch_of(records, self.loader.last_offset + 1, epoch=self.epoch))

    def _take(self, batch: Batch) -> None:
        self.log.append(batch)
        self.controller.apply(batch)
        self.loader.apply(batch)

    def carry_out(self, decision: Decision[Any], *, batches: int | None = None) -> Any:
        """Append what was decided, or only its first batches; the reply."""
        if isinstance(decision, Proposed):
            cut = list(self.controller.batches(decision.records))
            for records in cut[:batches]:
                if isinstance(records[0], ControlRecord):
                    self._take(control_of(records, self.loader.last_offset + 1, epoch=self.epoch))
                else:
                    self.append([record.value or b"" for record in records])
            return decision.reply
        assert isinstance(decision, Answered), decision
        return decision.reply

    def admit(self, broker_id: int) -> int:
        """Register a broker and let it in; its epoch."""
        request = registration(
            broker_id=broker_id,
            cluster_id=CLUSTER,
            incarnation_id=bytes([broker_id]) * 16,
            host="host",
            port=9000 + broker_id,
        )
        epoch: int = self.carry_out(self.controller.register_broker(request)).broker_epoch
        self.beat(broker_id, epoch)
        return epoch

    def beat(self, broker_id: int, epoch: int, *, fence: bool = False, leave: bool = False) -> Any:
        """A heartbeat of a broker that has read everything."""
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=epoch,
            current_metadata_offset=self.loader.last_offset,
            want_fence=fence,
            want_shut_down=leave,
        )
        return self.carry_out(self.controller.heartbeat(request))
