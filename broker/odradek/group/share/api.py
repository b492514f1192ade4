"""Members and descriptions of share groups, and their offsets (KIP-932).

- ShareGroupHeartbeat (key 76) and ShareGroupDescribe (77), version 1: before Kafka 4.1 they were a preview.
- DescribeShareGroupOffsets (90), 0 and 1: 1 tells the lag (KIP-1226).
- AlterShareGroupOffsets (91) and DeleteShareGroupOffsets (92), version 0, of groups without members.

A cluster without the feature share.version answers UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from odradek.core.machine import Refused
from odradek.group.api import decided, described, group_shard, refusal
from odradek.group.share.state_calls import begin_states, delete_states
from odradek.host.coordinators import HasCoordinators
from odradek.host.seams import HasMetadata, HasTurns
from odradek.metadata.features import SHARE_VERSION
from odradek.share.asking import AsksShares
from odradek.share.shard import summary_of_state
from odradek.share.state import NO_COUNT, NO_OFFSET, ShareKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from odradek.wire.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from odradek.wire.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from odradek.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.list_offsets_response import ListOffsetsResponse
from odradek.wire.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse
from odradek.wire.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.wire.messages.alter_share_group_offsets_request import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsRequestTopic,
    )
    from odradek.wire.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
    from odradek.wire.messages.describe_share_group_offsets_request import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
        DescribeShareGroupOffsetsRequestTopic,
    )
    from odradek.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest

__all__ = [
    "alter_share_group_offsets",
    "delete_share_group_offsets",
    "describe_share_group_offsets",
    "serves_share_groups",
    "share_group_describe",
    "share_group_heartbeat",
]


class Node(AsksShares, HasCoordinators, HasTurns, Protocol):
    """What these routes touch of their broker."""


LATEST = -1
NO_LAG = -1
UNKNOWN = "This server does not host this topic-partition."
NO_OFFSETS = "There is no offset information to delete."
UNEXPECTED = "The server experienced an unexpected error when processing the request."
UNKNOWN_PARTITION = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN)


def serves_share_groups(node: HasMetadata) -> bool:
    """Whether the cluster has share groups."""
    return node.image.feature(SHARE_VERSION) > 0


# ---------------------------------------------------------------------- members


async def share_group_heartbeat(node: Node, call: Call) -> ShareGroupHeartbeatResponse:
    """Join, stay or leave; answered with what has changed for the member."""
    request: ShareGroupHeartbeatRequest = call.request
    if not serves_share_groups(node):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    client_id, host = call.client_id or "", f"/{call.host}"
    outcome = await decided(
        node, request.group_id, lambda machine: machine.share_heartbeat(request, client_id, host, node.now)
    )
    if isinstance(outcome, Refused):
        return ShareGroupHeartbeatResponse(error_code=refusal(outcome), error_message=outcome.message)
    return outcome


async def share_group_describe(node: Node, call: Call) -> ShareGroupDescribeResponse:
    """Say who the members of groups are, and what they read from."""
    groups = await described(
        node,
        call,
        DescribedGroup,
        lambda machine, group_id: machine.describe_share_group(group_id),
        served=serves_share_groups(node),
    )
    return ShareGroupDescribeResponse(groups=groups)


# ---------------------------------------------------------------------- offsets


async def describe_share_group_offsets(node: Node, call: Call) -> DescribeShareGroupOffsetsResponse:
    """Say where groups have got to, as the share coordinator knows it."""
    request: DescribeShareGroupOffsetsRequest = call.request
    response = DescribeShareGroupOffsetsResponse()
    for group in request.groups:
        response.groups.append(await _offsets_of(node, call, group))
    return response


async def _offsets_of(
    node: Node, call: Call, asked: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    answer = DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id)
    if not serves_share_groups(node):
        answer.error_code = ErrorCode.UNSUPPORTED_VERSION
        return answer
    shard = group_shard(node, asked.group_id, empty_allowed=True)
    known = shard if isinstance(shard, Refused) else shard.machine.share.known_partitions(asked.group_id)
    if isinstance(known, Refused):
        answer.error_code, answer.error_message = refusal(known), known.message
        return answer
    if asked.topics is None:
        for topic_id, indexes in known.items():
            topic = node.image.topic_by_id(topic_id)
            if topic is not None:
                answer.topics.append(await _offsets_of_topic(node, call, asked.group_id, topic.name, sorted(indexes)))
        return answer
    if any(not topic.partitions and node.image.topic(topic.topic_name) is not None for topic in asked.topics):
        # As in Kafka, which asks the share coordinator for none of the partitions and fails.
        answer.error_code, answer.error_message = ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED
        return answer
    for name, wanted in _wanted(node, asked.topics):
        answer.topics.append(await _offsets_of_topic(node, call, asked.group_id, name, wanted))
    return answer


def _wanted(node: Node, topics: list[DescribeShareGroupOffsetsRequestTopic]) -> Iterator[tuple[str, list[int]]]:
    """What is asked for: topics that are not there one by one, the others and their partitions once each."""
    known: dict[str, dict[int, None]] = {}
    for topic in topics:
        if node.image.topic(topic.topic_name) is None:
            yield topic.topic_name, topic.partitions
        else:
            known.setdefault(topic.topic_name, {}).update(dict.fromkeys(topic.partitions))
    for name, indexes in known.items():
        yield name, list(indexes)


async def _offsets_of_topic(
    node: Node, call: Call, group_id: str, name: str, indexes: list[int]
) -> DescribeShareGroupOffsetsResponseTopic:
    topic = node.image.topic(name)
    if topic is None:
        nothing = [
            DescribeShareGroupOffsetsResponsePartition(partition_index=i, start_offset=NO_OFFSET) for i in indexes
        ]
        return DescribeShareGroupOffsetsResponseTopic(topic_name=name, partitions=nothing)
    partitions = []
    async for some in node.turns.share(call, indexes):
        partitions += [await _offset_of(node, ShareKey(group_id, topic.id, index), name) for index in some]
    return DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic.id, partitions=partitions)


async def _offset_of(node: Node, key: ShareKey, topic: str) -> DescribeShareGroupOffsetsResponsePartition:
    summary = await summary_of_state(node, key)
    if isinstance(summary, Refused):
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=key.partition,
            start_offset=NO_OFFSET,
            error_code=summary.error,
            error_message=summary.message,
        )
    answer = DescribeShareGroupOffsetsResponsePartition(
        partition_index=key.partition, start_offset=summary.start_offset, leader_epoch=summary.leader_epoch, lag=NO_LAG
    )
    if summary.start_offset != NO_OFFSET and summary.complete_count != NO_COUNT:
        end = await _end_offset(node, topic, key.partition)
        answer.lag = NO_LAG if end is None else end - summary.start_offset - summary.complete_count
    return answer


async def _end_offset(node: Node, topic: str, index: int) -> int | None:
    """Where a partition ends, wherever it is led; None if that cannot be known now."""
    registered = node.image.partition(topic, index)
    if registered is None or not node.image.is_alive(registered.leader):
        return None
    asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=index, timestamp=LATEST)])
    response = await node.peers.call(
        registered.leader,
        ApiKey.LIST_OFFSETS,
        node.router.newest(ApiKey.LIST_OFFSETS),
        ListOffsetsRequest(replica_id=-1, topics=[asked]),
        ListOffsetsResponse,
        deadline=node.now + node.config.request_timeout_ms,
    )
    if response is None:
        return None
    found = response.topics[0].partitions[0]
    return found.offset if found.error_code == ErrorCode.NONE else None


async def alter_share_group_offsets(node: Node, call: Call) -> AlterShareGroupOffsetsResponse:
    """Have a group without members begin anew at these offsets."""
    request: AlterShareGroupOffsetsRequest = call.request
    if not serves_share_groups(node):
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    shard = group_shard(node, request.group_id, empty_allowed=True)
    if isinstance(shard, Refused):
        return AlterShareGroupOffsetsResponse(error_code=refusal(shard), error_message=shard.message)
    share = shard.machine.share
    outcome = await shard.decided(share.alter_offsets(request.group_id, _known_offsets(node, request.topics)))
    if isinstance(outcome, Refused):
        return AlterShareGroupOffsetsResponse(error_code=refusal(outcome), error_message=outcome.message)
    failures = await begin_states(shard, outcome)
    answers: dict[str, AlterShareGroupOffsetsResponseTopic] = {}
    for asked in request.topics:
        topic = node.image.topic(asked.topic_name)
        if topic is None and not asked.partitions:
            continue
        topic_id = bytes(16) if topic is None else topic.id
        answer = answers.setdefault(
            asked.topic_name, AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name, topic_id=topic_id)
        )
        for partition in asked.partitions:
            index = partition.partition_index
            known = index in outcome.offsets.get(topic_id, {})
            failure = failures.get((topic_id, index)) if known else UNKNOWN_PARTITION
            answer.partitions.append(
                AlterShareGroupOffsetsResponsePartition(
                    partition_index=index,
                    error_code=ErrorCode.NONE if failure is None else failure.error,
                    error_message=None if failure is None else failure.message,
                )
            )
    return AlterShareGroupOffsetsResponse(responses=list(answers.values()))


def _known_offsets(node: Node, topics: list[AlterShareGroupOffsetsRequestTopic]) -> dict[bytes, dict[int, int]]:
    """The offsets by topic id and index, of partitions that exist; a topic that exists is there without any, too."""
    offsets: dict[bytes, dict[int, int]] = {}
    for asked in topics:
        topic = node.image.topic(asked.topic_name)
        if topic is None:
            continue
        known = offsets.setdefault(topic.id, {})
        for partition in asked.partitions:
            if partition.partition_index in topic.partitions:
                known[partition.partition_index] = partition.start_offset
    return offsets


async def delete_share_group_offsets(node: Node, call: Call) -> DeleteShareGroupOffsetsResponse:
    """Have a group without members forget these topics."""
    request: DeleteShareGroupOffsetsRequest = call.request
    if not serves_share_groups(node):
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    shard = group_shard(node, request.group_id, empty_allowed=True)
    if isinstance(shard, Refused):
        return DeleteShareGroupOffsetsResponse(error_code=refusal(shard), error_message=shard.message)
    asked = [(each.topic_name, node.image.topic(each.topic_name)) for each in request.topics]
    topic_ids = list(dict.fromkeys(topic.id for _, topic in asked if topic is not None))
    share = shard.machine.share
    outcome = await shard.decided(share.delete_offsets(request.group_id, topic_ids))
    if isinstance(outcome, Refused):
        return DeleteShareGroupOffsetsResponse(error_code=refusal(outcome), error_message=outcome.message)
    failures = await delete_states(node, outcome)
    failed = {topic_id: failure for (topic_id, _), failure in failures.items()}
    forgotten = [topic_id for topic_id in outcome.offsets if topic_id not in failed]
    if forgotten:
        await shard.decided(share.offsets_deleted(request.group_id, forgotten))
    response = DeleteShareGroupOffsetsResponse()
    deleted: dict[bytes, DeleteShareGroupOffsetsResponseTopic] = {}
    for name, topic in asked:
        answer = DeleteShareGroupOffsetsResponseTopic(topic_name=name)
        if topic is not None and topic.id in outcome.offsets:
            # Each of these is answered once, the others as often as they are named.
            deleted[topic.id] = answer
            answer.topic_id = topic.id
            if topic.id in failed:
                answer.error_code, answer.error_message = failed[topic.id].error, failed[topic.id].message
            continue
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer.error_message = UNKNOWN if topic is None else NO_OFFSETS
        response.responses.append(answer)
    response.responses += deleted.values()
    return response
