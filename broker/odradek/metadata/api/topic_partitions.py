"""DescribeTopicPartitions (key 75), version 0 (KIP-966): partitions page by page, in the order of the topic names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from odradek.host.seams import HasConfig, HasMetadata
from odradek.metadata.api.metadata import TOPIC_OPERATIONS, offline
from odradek.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from odradek.metadata.topic_names import INTERNAL_TOPICS, invalid_name
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.wire.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest

__all__ = ["describe_topic_partitions"]


class Node(HasConfig, HasMetadata, Protocol):
    """What this route touches of its broker."""


async def describe_topic_partitions(node: Node, call: Call) -> DescribeTopicPartitionsResponse:
    """As many partitions as the page holds, and where the next page begins."""
    request: DescribeTopicPartitionsRequest = call.request
    image, cursor = node.image, request.cursor
    if any(not topic.name for topic in request.topics):
        # As Kafka, which fails with the whole request.
        return _all_failed(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    asked = sorted({topic.name for topic in request.topics} or image.topics)
    if cursor is not None:
        if cursor.partition_index < 0 or (request.topics and cursor.topic_name not in asked):
            return _all_failed(request, ErrorCode.INVALID_REQUEST)
        asked = [name for name in asked if name >= cursor.topic_name]
    room = max(1, min(request.response_partition_limit, node.config.max_request_partition_size_limit))
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
    # No error where nobody leads, unlike Metadata.
    return DescribeTopicPartitionsResponsePartition(
        partition_index=partition.index,
        leader_id=partition.leader if alive else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        # Empty, never null: Kafka's Java admin client dies of null.
        eligible_leader_replicas=list(partition.eligible_replicas),
        last_known_elr=list(partition.last_known_eligible),
        offline_replicas=offline(partition, image),
    )
