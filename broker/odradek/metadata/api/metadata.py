"""Metadata and DescribeTopicPartitions: what there is in the cluster and where."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Protocol

from odradek.core.internal_topics import CoordinatorKind
from odradek.host.peers import HasPeers
from odradek.host.seams import HasConfig, HasIdentity, HasMetadata, HasTurns
from odradek.metadata.controller_role import internal_topic
from odradek.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from odradek.metadata.topic_names import INTERNAL_TOPICS, invalid_name
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.create_topics_response import CreateTopicsResponse
from odradek.wire.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.primitives import ZERO_UUID
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic

__all__ = ["CLUSTER_OPERATIONS", "TOPIC_OPERATIONS", "metadata", "offline"]


class Node(HasConfig, HasIdentity, HasMetadata, HasPeers, HasTurns, Protocol):
    """What this route touches of its broker."""


NULL_MEANS_ALL_SINCE = 1
LISTENER_NOT_FOUND_SINCE = 6
TOPIC_IDS_SINCE = 12
CREATED_MAX = 1_000
"""How many topics one request creates; those beyond it are not there, and may be asked for again."""

# Bit fields of what an unrestricted client may do, as Kafka answers them without an authorizer (KIP-430).
TOPIC_OPERATIONS = 3576
CLUSTER_OPERATIONS = 8096


async def metadata(node: Node, call: Call) -> MetadataResponse:
    """Metadata (key 3), versions 0 to 13.

    Version 0 asks for all topics with an empty list, later ones with null; 4 can forbid to create topics, 7 tells
    leader epochs, 10 topic ids, and 12 can ask by them (KIP-516).
    """
    request: MetadataRequest = call.request
    asked = request.topics
    topics: list[MetadataResponseTopic] = []
    if asked is None or (call.version < NULL_MEANS_ALL_SINCE and not asked):
        async for some in node.turns.share(call, list(node.image.topics.values())):
            # Between two turns a topic may have gone, or be another one of the same name.
            found = [node.image.topics.get(topic.name) for topic in some]
            topics += [await _topic(node, topic, call) for topic in found if topic is not None]
    elif any(_is_malformed(topic, call.version) for topic in asked):
        return _malformed(asked, call.version)
    elif call.version >= TOPIC_IDS_SINCE and any(topic.topic_id != ZERO_UUID for topic in asked):
        ids = dict.fromkeys(topic.topic_id for topic in asked if topic.topic_id != ZERO_UUID)
        async for some_ids in node.turns.share(call, list(ids)):
            topics += [await _by_id(node, topic_id, call) for topic_id in some_ids]
    else:
        names = list(dict.fromkeys(topic.name or "" for topic in asked))
        untold: Container[str] = ()
        if request.allow_auto_topic_creation and node.config.auto_create_topics_enable:
            created = await _create_missing(node, call, names)
            untold = () if node.config.odradek_auto_created_topics_at_once else created
        async for some_names in node.turns.share(call, names):
            topics += [_unknown(name) if name in untold else await _by_name(node, name, call) for name in some_names]
    return MetadataResponse(
        brokers=_brokers(node.image, call.peer.listener),
        cluster_id=node.cluster.cluster_id,
        controller_id=node.cluster.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else -(2**31)
        ),
    )


def _is_malformed(topic: MetadataRequestTopic, version: int) -> bool:
    """Versions 10 and 11 have a place for topic ids, but may not use it."""
    if version < TOPIC_IDS_SINCE:
        return topic.name is None or topic.topic_id != ZERO_UUID
    return topic.name is None and topic.topic_id == ZERO_UUID


def _malformed(asked: Iterable[MetadataRequestTopic], version: int) -> MetadataResponse:
    # A topic with neither name nor id is a case that Kafka does not expect.
    error = ErrorCode.INVALID_REQUEST if version < TOPIC_IDS_SINCE else ErrorCode.UNKNOWN_SERVER_ERROR
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id) for topic in asked
        ]
    )


def _brokers(image: MetadataImage, listener: str) -> list[MetadataResponseBroker]:
    return [
        MetadataResponseBroker(
            node_id=broker.id,
            host=broker.endpoint(listener).host,
            port=broker.endpoint(listener).port,
            rack=broker.rack,
        )
        for broker in image.brokers.values()
        if not broker.fenced
    ]


# ---------------------------------------------------------------------- topics


async def _create_missing(node: Node, call: Call, names: Iterable[str]) -> Container[str]:
    """Create what a client asks about and does not exist, and return their names.

    If that fails, they simply are not there when we look again.
    """
    missing = [name for name in names if name not in node.image.topics and invalid_name(name) is None]
    async for some in node.turns.share(call, missing[:CREATED_MAX]):
        request = CreateTopicsRequest(
            topics=[_wanted(node, name) for name in some], timeout_ms=node.config.request_timeout_ms
        )
        await node.peers.call_controller(ApiKey.CREATE_TOPICS, request, 7, CreateTopicsResponse)
    return frozenset(missing)


def _wanted(node: Node, name: str) -> CreatableTopic:
    for kind in CoordinatorKind:
        if kind.topic == name:
            return internal_topic(node, kind)
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)


async def _by_name(node: Node, name: str, call: Call) -> MetadataResponseTopic:
    topic = node.image.topic(name)
    if topic is not None:
        return await _topic(node, topic, call)
    return _unknown(name)


def _unknown(name: str) -> MetadataResponseTopic:
    bad = invalid_name(name) is not None
    error = ErrorCode.INVALID_TOPIC_EXCEPTION if bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return MetadataResponseTopic(error_code=error, name=name, is_internal=name in INTERNAL_TOPICS)


async def _by_id(node: Node, topic_id: bytes, call: Call) -> MetadataResponseTopic:
    topic = node.image.topic_by_id(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    return await _topic(node, topic, call)


async def _topic(node: Node, topic: TopicImage, call: Call) -> MetadataResponseTopic:
    """A topic as one image has it, however long that takes."""
    request: MetadataRequest = call.request
    image = node.image
    partitions: list[MetadataResponsePartition] = []
    async for some in node.turns.share(call, list(topic.partitions.values())):
        partitions += [_partition(partition, image, call.version) for partition in some]
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=TOPIC_OPERATIONS if request.include_topic_authorized_operations else -(2**31),
    )


def _partition(partition: PartitionImage, image: MetadataImage, version: int) -> MetadataResponsePartition:
    replicas, isr = list(partition.replicas), list(partition.isr)
    alive = image.is_alive(partition.leader)
    error = ErrorCode.NONE if alive else _no_leader(partition.leader, image, version)
    if version < NULL_MEANS_ALL_SINCE:
        # Version 0 names no broker that cannot be reached, and says that some are missing.
        replicas = [replica for replica in replicas if image.is_alive(replica)]
        isr = [replica for replica in isr if image.is_alive(replica)]
        if alive and (len(replicas), len(isr)) < (len(partition.replicas), len(partition.isr)):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=partition.index,
        leader_id=partition.leader if alive else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline(partition, image),
    )


def _no_leader(leader: int, image: MetadataImage, version: int) -> ErrorCode:
    if leader in image.brokers and version >= LISTENER_NOT_FOUND_SINCE:
        return ErrorCode.LISTENER_NOT_FOUND
    return ErrorCode.LEADER_NOT_AVAILABLE


def offline(partition: PartitionImage, image: MetadataImage) -> list[int]:
    """The replicas whose broker is not there."""
    return [replica for replica in partition.replicas if not image.is_alive(replica)]
