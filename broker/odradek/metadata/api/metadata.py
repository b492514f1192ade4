"""Metadata: topics, partitions and brokers of the cluster."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import NO_OPERATIONS, asks, resource_name, serve_part
from odradek.core.internal_topics import CoordinatorKind
from odradek.host.endpoint import endpoint
from odradek.metadata.controller_role import internal_topic
from odradek.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from odradek.metadata.topic_names import INTERNAL_TOPICS, invalid_name
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import METADATA
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
    from odradek.access.authority import Authority
    from odradek.host.call import Call, Serve
    from odradek.host.host import Host
    from odradek.host.peers import Peers
    from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic

__all__ = ["MetadataApi", "CLUSTER_OPERATIONS", "TOPIC_OPERATIONS", "offline"]


NULL_MEANS_ALL_SINCE = 1
LISTENER_NOT_FOUND_SINCE = 6
TOPIC_IDS_SINCE = 12
CREATED_MAX = 1_000
"""The most topics that one request creates; further ones do not exist, and a client may ask for them again."""

# Authorized operations of an unrestricted client, as bit fields that Kafka answers without an authorizer (KIP-430).
TOPIC_OPERATIONS = 3576
CLUSTER_OPERATIONS = 8096


TOPIC, FORBIDDEN = AclResource.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED


@asks("DESCRIBE on each topic, and CREATE on it or on the cluster where it would be created")
async def _described(
    authority: Authority, call: Call[MetadataRequest], serve: Serve[MetadataRequest, MetadataResponse]
) -> MetadataResponse:
    """A request for all topics lists those that the client may describe; every other topic that it names is refused."""
    request = call.request
    asked = request.topics
    if asked is None or (call.version < NULL_MEANS_ALL_SINCE and not asked):
        response = await serve(call)
        response.topics = [each for each in response.topics if _may_describe(authority, call, each.name or "")]
        return _with_operations(authority, call, response)
    kept, refused = [], []
    for topic in asked:
        name = resource_name(authority, topic.name, topic.topic_id)
        if name and not _may_describe(authority, call, name):
            named = topic.name if topic.name else None
            refused.append(MetadataResponseTopic(error_code=FORBIDDEN, name=named, topic_id=topic.topic_id))
        elif name and request.allow_auto_topic_creation and not _may_come(authority, call, name):
            refused.append(MetadataResponseTopic(error_code=FORBIDDEN, name=name))
        else:
            kept.append(topic)
    if refused:
        response = await serve_part(serve, call, lambda request: request.topics, kept)
    else:
        response = await serve(call)
    response = _with_operations(authority, call, response)
    if not kept and call.version < NULL_MEANS_ALL_SINCE:
        response.topics = []
    response.topics += refused
    return response


def _may_describe(authority: Authority, call: Call[MetadataRequest], name: str) -> bool:
    return authority.allows(call, AclOperation.DESCRIBE, TOPIC, name)


def _may_come(authority: Authority, call: Call[MetadataRequest], name: str) -> bool:
    """Whether a topic exists, cannot be created by Metadata, or may be created by the client."""
    if authority.metadata.image.topic(name) is not None or not authority.settings.config.auto_create_topics_enable:
        return True
    return authority.allows(call, AclOperation.CREATE) or authority.allows(call, AclOperation.CREATE, TOPIC, name)


def _with_operations(authority: Authority, call: Call[MetadataRequest], response: MetadataResponse) -> MetadataResponse:
    if response.cluster_authorized_operations != NO_OPERATIONS:
        may_describe = authority.allows(call, AclOperation.DESCRIBE)
        response.cluster_authorized_operations = authority.operations(call, AclResource.CLUSTER) if may_describe else 0
    if call.request.include_topic_authorized_operations:
        for topic in response.topics:
            topic.topic_authorized_operations = authority.operations(call, TOPIC, topic.name or "")
    return response


class MetadataApi:
    """Metadata."""

    def __init__(self, node: Host, peers: Peers) -> None:
        self._metadata = node.metadata
        self._settings = node.settings
        self._cluster = node.cluster
        self._peers = peers
        self._turns = node.turns

    @endpoint(METADATA, needs=_described, in_parts=True)
    async def metadata(self, call: Call[MetadataRequest]) -> MetadataResponse:
        """Metadata (key 3), versions 0 to 13.

        Version 0 asks for all topics with an empty list, later ones with null; 4 can forbid the creation of topics, 7
        adds leader epochs, 10 topic ids, and 12 can ask by id (KIP-516).
        """
        request = call.request
        asked = request.topics
        topics: list[MetadataResponseTopic] = []
        if asked is None or (call.version < NULL_MEANS_ALL_SINCE and not asked):
            async for some in self._turns.share(call, list(self._metadata.image.topics.values())):
                # Between two turns a topic may be deleted, or created again under the same name.
                found = [self._metadata.image.topics.get(topic.name) for topic in some]
                topics += [await self._topic(topic, call) for topic in found if topic is not None]
        elif any(_is_malformed(topic, call.version) for topic in asked):
            return _malformed(asked, call.version)
        elif call.version >= TOPIC_IDS_SINCE and any(topic.topic_id != ZERO_UUID for topic in asked):
            ids = dict.fromkeys(topic.topic_id for topic in asked if topic.topic_id != ZERO_UUID)
            async for some_ids in self._turns.share(call, list(ids)):
                topics += [await self._by_id(topic_id, call) for topic_id in some_ids]
        else:
            names = list(dict.fromkeys(topic.name or "" for topic in asked))
            untold: Container[str] = ()
            if request.allow_auto_topic_creation and self._settings.config.auto_create_topics_enable:
                created = await self._create_missing(call, names)
                untold = () if self._settings.config.odradek_auto_created_topics_at_once else created
            async for some_names in self._turns.share(call, names):
                topics += [_unknown(name) if name in untold else await self._by_name(name, call) for name in some_names]
        return MetadataResponse(
            brokers=_brokers(self._metadata.image, call.peer.listener),
            cluster_id=self._cluster.cluster_id,
            controller_id=self._cluster.controller_id,
            topics=topics,
            cluster_authorized_operations=(
                CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NO_OPERATIONS
            ),
        )

    async def _create_missing(self, call: Call, names: Iterable[str]) -> Container[str]:
        """Create topics that the request names and that do not exist; return their names.

        A topic whose creation fails does not exist afterwards, and is answered so.
        """
        missing = [name for name in names if name not in self._metadata.image.topics and invalid_name(name) is None]
        async for some in self._turns.share(call, missing[:CREATED_MAX]):
            request = CreateTopicsRequest(
                topics=[self._wanted(name) for name in some], timeout_ms=self._settings.config.request_timeout_ms
            )
            await self._peers.call_controller(ApiKey.CREATE_TOPICS, request, 7, CreateTopicsResponse)
        return frozenset(missing)

    def _wanted(self, name: str) -> CreatableTopic:
        for kind in CoordinatorKind:
            if kind.topic == name:
                return internal_topic(kind, self._settings.config, self._cluster)
        return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)

    async def _by_name(self, name: str, call: Call[MetadataRequest]) -> MetadataResponseTopic:
        topic = self._metadata.image.topic(name)
        if topic is not None:
            return await self._topic(topic, call)
        return _unknown(name)

    async def _by_id(self, topic_id: bytes, call: Call[MetadataRequest]) -> MetadataResponseTopic:
        topic = self._metadata.image.topic_by_id(topic_id)
        if topic is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
        return await self._topic(topic, call)

    async def _topic(self, topic: TopicImage, call: Call[MetadataRequest]) -> MetadataResponseTopic:
        """A topic as one image has it, even if that takes several turns."""
        request = call.request
        image = self._metadata.image
        partitions: list[MetadataResponsePartition] = []
        async for some in self._turns.share(call, list(topic.partitions.values())):
            partitions += [_partition(partition, image, call.version) for partition in some]
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=partitions,
            topic_authorized_operations=TOPIC_OPERATIONS
            if request.include_topic_authorized_operations
            else NO_OPERATIONS,
        )


def _is_malformed(topic: MetadataRequestTopic, version: int) -> bool:
    """Versions 10 and 11 have a field for topic ids, and must not use it."""
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


def _unknown(name: str) -> MetadataResponseTopic:
    bad = invalid_name(name) is not None
    error = ErrorCode.INVALID_TOPIC_EXCEPTION if bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return MetadataResponseTopic(error_code=error, name=name, is_internal=name in INTERNAL_TOPICS)


def _partition(partition: PartitionImage, image: MetadataImage, version: int) -> MetadataResponsePartition:
    replicas, isr = list(partition.replicas), list(partition.isr)
    alive = image.is_alive(partition.leader)
    error = ErrorCode.NONE if alive else _no_leader(partition.leader, image, version)
    if version < NULL_MEANS_ALL_SINCE:
        # Version 0 leaves out brokers that cannot be reached, and answers that some are missing.
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
    """The replicas on brokers that are not available."""
    return [replica for replica in partition.replicas if not image.is_alive(replica)]
