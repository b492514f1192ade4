"""Groups and their offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from odradek.access.acls import AclOperation, AclResource
from odradek.access.guards.parts import DENIED, NO_OPERATIONS, denied, resource_name, serve_part
from odradek.group.classic.api import names_no_protocol
from odradek.metadata.topic_names import INTERNAL_TOPICS, invalid_name
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.join_group_response import JoinGroupResponse
from odradek.wire.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.access.guards.parts import Node, Serve
    from odradek.host.call import Call
    from odradek.wire.messages.consumer_group_describe_response import (
        ConsumerGroupDescribeResponse,
    )
    from odradek.wire.messages.consumer_group_describe_response import (
        DescribedGroup as DescribedConsumerGroup,
    )
    from odradek.wire.messages.list_groups_response import ListGroupsResponse
    from odradek.wire.messages.share_group_describe_response import (
        DescribedGroup as DescribedShareGroup,
    )
    from odradek.wire.messages.share_group_describe_response import (
        ShareGroupDescribeResponse,
    )
    from odradek.wire.messages.streams_group_describe_response import StreamsGroupDescribeResponse

__all__ = [
    "describe_streams",
    "join",
    "list_groups",
    "of_assigned_topics",
    "of_topology",
    "offset_fetch",
    "subscribed",
    "sync_protocol",
    "with_group_operations",
]

GROUP, TOPIC = AclResource.GROUP, AclResource.TOPIC
DESCRIBE = AclOperation.DESCRIBE
GROUPS_SINCE = 8
NULL_PROTOCOL_FROM = 7
FORBIDDEN_GROUP, FORBIDDEN_TOPIC = DENIED[GROUP], DENIED[TOPIC]
HIDDEN_TOPIC = "The described group uses topics that the client is not authorized to describe."
HIDDEN_ASSIGNED_TOPIC = "The group has described topic(s) that the client is not authorized to describe."


async def list_groups(authority: Authority, node: Node, call: Call, serve: Serve) -> ListGroupsResponse:
    """All groups for who may describe the cluster, else those that may be described."""
    response: ListGroupsResponse = await serve(node, call)
    if not authority.allows(call, DESCRIBE):
        response.groups = [each for each in response.groups if authority.allows(call, DESCRIBE, GROUP, each.group_id)]
    return response


async def with_group_operations(authority: Authority, node: Node, call: Call, serve: Serve) -> Any:
    """What the sender may do to each group that is described, where it wants to know."""
    response = await serve(node, call)
    for group in response.groups:
        if group.authorized_operations != NO_OPERATIONS:
            group.authorized_operations = authority.operations(call, GROUP, group.group_id)
    return response


async def join(authority: Authority, node: Node, call: Call, serve: Serve) -> Any:
    """READ of the group; from version 7 on no protocol is null, and not empty."""
    if authority.allows(call, AclOperation.READ, GROUP, call.request.group_id):
        return await serve(node, call)
    protocol_name = None if call.version >= NULL_PROTOCOL_FROM else ""
    return JoinGroupResponse(error_code=FORBIDDEN_GROUP, protocol_name=protocol_name)


async def sync_protocol(authority: Authority, node: Node, call: Call, serve: Serve) -> Any:
    """SyncGroup is looked at before the permissions: from version 5 on it names the protocol (KIP-559)."""
    if names_no_protocol(call.request, call.version):
        return denied(call, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return await serve(node, call)


async def subscribed(authority: Authority, node: Node, call: Call, serve: Serve) -> Any:
    """The topics that a member names must be its to see."""
    names = call.request.subscribed_topic_names or ()
    if not all(authority.allows(call, DESCRIBE, TOPIC, name) for name in names):
        return denied(call, FORBIDDEN_TOPIC)
    return await serve(node, call)


async def of_topology(authority: Authority, node: Node, call: Call, serve: Serve) -> Any:
    """The topics of an application must be its member's to see; names that no topic can have are looked at before."""
    topology = call.request.topology
    subtopologies = () if topology is None else topology.subtopologies
    names = {name for each in subtopologies for name in _topics_of(each)}
    hidden = [name for name in names if not authority.allows(call, DESCRIBE, TOPIC, name)]
    if hidden and not names & INTERNAL_TOPICS and all(invalid_name(name) is None for name in names):
        return denied(call, FORBIDDEN_TOPIC)
    return await serve(node, call)


async def describe_streams(authority: Authority, node: Node, call: Call, serve: Serve) -> Any:
    """A group is described to who may describe every topic of its application, too."""
    response: StreamsGroupDescribeResponse = await serve(node, call)
    groups = []
    for group in response.groups:
        subtopologies = None if group.topology is None else group.topology.subtopologies
        names = {name for each in subtopologies or () for name in _topics_of(each)}
        if not all(authority.allows(call, DESCRIBE, TOPIC, name) for name in names):
            from odradek.wire.messages.streams_group_describe_response import DescribedGroup  # few are refused

            group = DescribedGroup(group_id=group.group_id, error_code=FORBIDDEN_TOPIC, error_message=HIDDEN_TOPIC)
        groups.append(group)
    response.groups = groups
    return response


async def of_assigned_topics(authority: Authority, node: Node, call: Call, serve: Serve) -> object:
    """A group is described to who may describe every topic that its members have, or shall have."""
    response: ConsumerGroupDescribeResponse | ShareGroupDescribeResponse = await serve(node, call)
    for group in response.groups:
        if not all(authority.allows(call, DESCRIBE, TOPIC, name) for name in {*_assigned(group)}):
            group.error_code, group.error_message = FORBIDDEN_TOPIC, HIDDEN_ASSIGNED_TOPIC
            group.group_state = group.assignor_name = ""
            group.group_epoch = group.assignment_epoch = 0
            group.members, group.authorized_operations = [], NO_OPERATIONS
    return response


def _assigned(group: DescribedConsumerGroup | DescribedShareGroup) -> Iterator[str]:
    from odradek.wire.messages.consumer_group_describe_response import Member  # most brokers refuse nothing

    for member in group.members:
        # A share group's member has one assignment: there is nothing that it is to give back.
        yield from (topic.topic_name for topic in member.assignment.topic_partitions)
        if isinstance(member, Member):
            yield from (topic.topic_name for topic in member.target_assignment.topic_partitions)


def _topics_of(subtopology: Any) -> Iterator[str]:
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
        yield topic.name


# ---------------------------------------------------------------------- OffsetFetch


async def offset_fetch(authority: Authority, node: Node, call: Call, serve: Serve) -> OffsetFetchResponse:
    """DESCRIBE of each group, and of each topic: those that are named and refused are told so, the others left out."""
    if call.version < GROUPS_SINCE:
        return await _offset_fetch_of_one(authority, node, call, serve)
    refused: list[OffsetFetchResponseGroup] = []
    kept = []
    beside: dict[str, list[OffsetFetchResponseTopics]] = {}
    for group in call.request.groups:
        if not authority.allows(call, DESCRIBE, GROUP, group.group_id):
            refused.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=FORBIDDEN_GROUP))
            continue
        if group.topics is not None:
            seen: list[Any] = []
            hidden: list[Any] = []
            for topic in group.topics:
                name = resource_name(node, topic)
                (seen if name is None or authority.allows(call, DESCRIBE, TOPIC, name) else hidden).append(topic)
            beside[group.group_id] = [
                OffsetFetchResponseTopics(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetFetchResponsePartitions(
                            partition_index=index, committed_offset=-1, metadata="", error_code=FORBIDDEN_TOPIC
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in hidden
            ]
            group = replace(group, topics=seen)
        kept.append(group)
    response: OffsetFetchResponse = (
        await serve_part(serve, node, call, "groups", kept) if kept else OffsetFetchResponse()
    )
    for answer in response.groups:
        answer.topics = [
            topic for topic in answer.topics if authority.allows(call, DESCRIBE, TOPIC, _name(node, topic))
        ]
        if answer.error_code == ErrorCode.NONE:
            answer.topics += beside.get(answer.group_id, [])
    response.groups += refused
    return response


def _name(node: Node, topic: OffsetFetchResponseTopics) -> str:
    return resource_name(node, topic) or ""


async def _offset_fetch_of_one(authority: Authority, node: Node, call: Call, serve: Serve) -> OffsetFetchResponse:
    request = call.request
    if not authority.allows(call, DESCRIBE, GROUP, request.group_id):
        return _refused_group(call)
    if request.topics is None:
        everything: OffsetFetchResponse = await serve(node, call)
        everything.topics = [
            topic for topic in everything.topics if authority.allows(call, DESCRIBE, TOPIC, topic.name)
        ]
        return everything
    hidden = [topic for topic in request.topics if not authority.allows(call, DESCRIBE, TOPIC, topic.name)]
    seen = [topic for topic in request.topics if topic not in hidden]
    response: OffsetFetchResponse = await serve_part(serve, node, call, "topics", seen)
    if response.error_code == ErrorCode.NONE:
        response.topics += [_refused(topic, FORBIDDEN_TOPIC) for topic in hidden]
    return response


def _refused_group(call: Call) -> OffsetFetchResponse:
    if call.version >= 2:
        return OffsetFetchResponse(error_code=FORBIDDEN_GROUP)
    return OffsetFetchResponse(topics=[_refused(topic, FORBIDDEN_GROUP) for topic in call.request.topics or ()])


def _refused(topic: Any, error: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, metadata="", error_code=error)
            for index in topic.partition_indexes
        ],
    )
