"""Brokers coming and going, and what that does to leaders (KIP-631; Kafka's `ClusterControlManager`).

A fenced broker leads nothing and is in no ISR. Partitions of which it was the only replica that was there wait for it
without a leader, although the log itself is safe: that is what clients see of a real cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from odradek.metadata.change import Failure
from odradek.metadata.features import unsupported_levels
from odradek.metadata.image import BrokerImage, EndpointImage, MetadataImage, PartitionImage, TopicImage
from odradek.metadata.placement import elect, in_sync
from odradek.metadata.snapshot import broker_record
from odradek.releases import WIDEST
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from odradek.wire.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from odradek.wire.messages.partition_change_record import PartitionChangeRecord

__all__ = ["fence", "move_leader", "register", "registration", "stale", "unfence"]

FENCE, UNFENCE = 1, -1


def registration(
    *,
    broker_id: int,
    cluster_id: str,
    incarnation_id: bytes,
    host: str,
    port: int,
    features: Mapping[str, tuple[int, int]] = WIDEST.features,
    rack: str | None = None,
    endpoints: Sequence[EndpointImage] = (),
) -> BrokerRegistrationRequest:
    """What a broker says when it registers; `features` are the lowest and highest level of each that it supports.

    Without endpoints it has one listener without encryption at this host and port.
    """
    told = endpoints or (EndpointImage("PLAINTEXT", host, port),)
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation_id,
        listeners=[
            Listener(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in told
        ],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in features.items()
        ],
        rack=rack,
    )


def register(
    request: BrokerRegistrationRequest, image: MetadataImage, *, cluster_id: str, epoch: int
) -> list[Struct] | Failure:
    """A broker comes (back): it stays fenced until its first heartbeat shows that it has read the log so far."""
    if request.cluster_id != cluster_id:
        return Failure(ErrorCode.INCONSISTENT_CLUSTER_ID)
    features = {f.name: (f.min_supported_version, f.max_supported_version) for f in request.features}
    if unsupported_levels(image, features) is not None:
        return Failure(ErrorCode.UNSUPPORTED_VERSION)
    broker = BrokerImage(
        id=request.broker_id,
        epoch=epoch,
        incarnation_id=request.incarnation_id,
        endpoints=tuple(EndpointImage(e.name, e.host, e.port, e.security_protocol) for e in request.listeners),
        features=features,
        rack=request.rack,
        log_dirs=tuple(request.log_dirs),
    )
    return [broker_record(broker), *_consequences(image, broker)]


def fence(image: MetadataImage, broker: BrokerImage) -> list[Struct]:
    """The broker is gone: it is fenced, and its partitions go to whoever else has a replica."""
    return [_flagged(broker, FENCE), *_consequences(image, replace(broker, fenced=True))]


def unfence(image: MetadataImage, broker: BrokerImage) -> list[Struct]:
    """The broker is there: it is in sync at once, and leads what had no leader."""
    return [_flagged(broker, UNFENCE), *_consequences(image, replace(broker, fenced=False))]


def stale(image: MetadataImage, *, broker_id: int, epoch: int) -> ErrorCode:
    """Why a broker that says this of itself is not listened to, or NONE."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    return ErrorCode.NONE if broker.epoch == epoch else ErrorCode.STALE_BROKER_EPOCH


def move_leader(topic: TopicImage, partition: PartitionImage, to: int, image: MetadataImage) -> PartitionChangeRecord:
    """Make a broker the leader; if it has no replica it takes the place of the present leader in the list."""
    record = PartitionChangeRecord(topic_id=topic.id, partition_id=partition.index, leader=to)
    if to not in partition.replicas:
        gone = partition.leader if partition.leader in partition.replicas else partition.replicas[0]
        record.replicas = [to if replica == gone else replica for replica in partition.replicas]
        record.isr = in_sync(record.replicas, image)
    return record


def _flagged(broker: BrokerImage, fenced: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=fenced)


def _consequences(image: MetadataImage, broker: BrokerImage) -> Iterator[PartitionChangeRecord]:
    """What changes for the partitions of a broker that has become like this."""
    after = replace(image, brokers={**image.brokers, broker.id: broker})
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            if broker.id in partition.replicas:
                record = _reelected(topic, partition, after)
                if record is not None:
                    yield record


def _reelected(topic: TopicImage, partition: PartitionImage, image: MetadataImage) -> PartitionChangeRecord | None:
    record = PartitionChangeRecord(topic_id=topic.id, partition_id=partition.index)
    # The last member of an ISR stays in it (Kafka's rule without eligible leader replicas).
    isr = in_sync(partition.replicas, image) or list(partition.isr)
    if set(isr) != set(partition.isr):
        record.isr = isr
    leader = partition.leader if image.is_alive(partition.leader) else elect(partition.replicas, image)
    if leader != partition.leader:
        record.leader = leader
    return record if record.isr is not None or leader != partition.leader else None
