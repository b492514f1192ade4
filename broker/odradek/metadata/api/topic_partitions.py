"""DescribeTopicPartitions (key 75), version 0 (KIP-966): partitions in pages, by topic name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import NO_OPERATIONS, asks, serve_part
from odradek.host.endpoint import endpoint
from odradek.metadata.api.metadata import TOPIC_OPERATIONS, offline
from odradek.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from odradek.metadata.topic_names import INTERNAL_TOPICS, invalid_name
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import DESCRIBE_TOPIC_PARTITIONS
from odradek.wire.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.host.call import Call, Serve
    from odradek.host.host import Host
    from odradek.wire.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest

__all__ = [
    "TopicPartitionsApi",
]


TOPIC, FORBIDDEN = AclResource.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED


@asks("DESCRIBE on each topic")
async def _described(
    authority: Authority,
    call: Call[DescribeTopicPartitionsRequest],
    serve: Serve[DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse],
) -> DescribeTopicPartitionsResponse:
    def may_describe(name: str) -> bool:
        return authority.allows(call, AclOperation.DESCRIBE, TOPIC, name)

    asked = call.request.topics
    refused = [topic for topic in asked if not may_describe(topic.name)]
    kept = [topic for topic in asked if topic not in refused]
    if asked and not kept:
        response = DescribeTopicPartitionsResponse()
    elif refused:
        response = await serve_part(serve, call, lambda request: request.topics, kept)
    else:
        response = await serve(call)
    response.topics = [each for each in response.topics if may_describe(each.name or "")]
    for topic in response.topics:
        if topic.topic_authorized_operations != NO_OPERATIONS:
            topic.topic_authorized_operations = authority.operations(call, TOPIC, topic.name or "")
    response.topics += [
        DescribeTopicPartitionsResponseTopic(error_code=FORBIDDEN, name=topic.name) for topic in refused
    ]
    return response


class TopicPartitionsApi:
    """DescribeTopicPartitions."""

    def __init__(self, node: Host) -> None:
        self._metadata = node.metadata
        self._settings = node.settings

    @endpoint(DESCRIBE_TOPIC_PARTITIONS, needs=_described)
    async def describe_topic_partitions(
        self, call: Call[DescribeTopicPartitionsRequest]
    ) -> DescribeTopicPartitionsResponse:
        """The partitions of one page, and the position at which the next one begins."""
        request = call.request
        image, cursor = self._metadata.image, request.cursor
        if any(not topic.name for topic in request.topics):
            # As in Kafka the whole request fails.
            return _all_failed(request, ErrorCode.UNKNOWN_SERVER_ERROR)
        asked = sorted({topic.name for topic in request.topics} or image.topics)
        if cursor is not None:
            if cursor.partition_index < 0 or (request.topics and cursor.topic_name not in asked):
                return _all_failed(request, ErrorCode.INVALID_REQUEST)
            asked = [name for name in asked if name >= cursor.topic_name]
        room = max(1, min(request.response_partition_limit, self._settings.config.max_request_partition_size_limit))
        response = DescribeTopicPartitionsResponse()
        for name in asked:
            topic = image.topic(name)
            first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
            if room == 0:
                response.next_cursor = Cursor(topic_name=name, partition_index=first)
                break
            if topic is None:
                response.topics.append(_unknown(name))
                continue
            page = [partition for index, partition in sorted(topic.partitions.items()) if index >= first]
            response.topics.append(_topic(topic, page[:room], image))
            if len(page) > room:
                response.next_cursor = Cursor(topic_name=name, partition_index=page[room].index)
                break
            room -= len(page)
        return response


def _all_failed(request: DescribeTopicPartitionsRequest, error: ErrorCode) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(error_code=error, name=topic.name) for topic in request.topics]
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    bad = invalid_name(name) is not None
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.INVALID_TOPIC_EXCEPTION if bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _topic(
    topic: TopicImage, partitions: list[PartitionImage], image: MetadataImage
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(partition, image) for partition in partitions],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(partition: PartitionImage, image: MetadataImage) -> DescribeTopicPartitionsResponsePartition:
    alive = image.is_alive(partition.leader)
    # Unlike Metadata, no error for a partition without a leader.
    return DescribeTopicPartitionsResponsePartition(
        partition_index=partition.index,
        leader_id=partition.leader if alive else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        # Empty, never null: Kafka's Java admin client fails on null.
        eligible_leader_replicas=list(partition.eligible_replicas),
        last_known_elr=list(partition.last_known_eligible),
        offline_replicas=offline(partition, image),
    )
