"""The records that make an image: the content of a snapshot of the metadata log.

A snapshot is taken only of a published image, so it never contains a part of a metadata transaction, and no markers
(KIP-868, "Snapshots").
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from odradek.metadata.features import KRAFT_VERSION, METADATA_VERSION
from odradek.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from odradek.wire.messages.config_record import ConfigRecord
from odradek.wire.messages.feature_level_record import FeatureLevelRecord
from odradek.wire.messages.partition_record import PartitionRecord
from odradek.wire.messages.producer_ids_record import ProducerIdsRecord
from odradek.wire.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from odradek.wire.messages.topic_record import TopicRecord

__all__ = ["broker_record", "partition_record", "snapshot_records", "topic_records"]


def snapshot_records(image: MetadataImage) -> Iterator[Struct]:
    """Records that make this image from the empty one; metadata.version is first: formats depend on it.

    The level of kraft.version is not among them: it is a control record.
    """
    for name in sorted(image.features.keys() - {KRAFT_VERSION}, key=lambda name: (name != METADATA_VERSION, name)):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])
    for broker in image.brokers.values():
        yield broker_record(broker)
    for topic in image.topics.values():
        yield from topic_records(topic)
    for (resource_type, resource_name), values in image.configs.items():
        for name, value in values.items():
            yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
    if image.scram:
        from odradek.metadata.credentials import credential_record  # most clusters have none

        for (user, mechanism), credential in image.scram.items():
            yield credential_record(user, mechanism, credential)
    if image.acls:
        from odradek.metadata.permissions import acl_record  # likewise

        for acl_id, acl in image.acls.items():
            yield acl_record(acl_id, acl)
    if image.quotas:
        from odradek.metadata.client_quotas import quota_records  # likewise

        yield from quota_records(image.quotas)
    if image.tokens:
        from odradek.metadata.tokens import token_record  # likewise

        for token in image.tokens.values():
            yield token_record(token)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, next_producer_id=image.next_producer_id)


def broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in broker.endpoints
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_dirs),
    )


def topic_records(topic: TopicImage) -> Iterator[Struct]:
    """A topic and its partitions."""
    yield TopicRecord(name=topic.name, topic_id=topic.id)
    for partition in topic.partitions.values():
        yield partition_record(topic.id, partition)


def partition_record(topic_id: bytes, partition: PartitionImage) -> PartitionRecord:
    """A partition as a record."""
    return PartitionRecord(
        partition_id=partition.index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
        eligible_leader_replicas=list(partition.eligible_replicas) or None,
        last_known_elr=list(partition.last_known_eligible) or None,
    )
