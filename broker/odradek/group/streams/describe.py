"""How a streams group looks from outside: StreamsGroupDescribe, and the endpoints of its processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.group.modern_member import in_order, listed
from odradek.group.streams.group import NO_OFFSETS
from odradek.group.streams.tasks import NO_TASKS, Tasks
from odradek.wire.messages import streams_group_heartbeat_response as answered
from odradek.wire.messages.streams_group_describe_response import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from odradek.group.consumer.topics import Topics
    from odradek.group.streams import topology as topologies
    from odradek.group.streams.configured import ConfiguredSubtopology, ConfiguredTopology, InternalTopic
    from odradek.group.streams.group import StreamsGroup
    from odradek.group.streams.member import StreamsMember

__all__ = ["described", "partitions_by_endpoint"]


def described(group: StreamsGroup, assignor: str) -> DescribedGroup:
    """The group with what its members have and what they shall have."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=[_member(group, member) for member in group.members.values()],
        assignor_name=assignor,
    )


def _topology(group: StreamsGroup) -> Topology | None:
    """The topology; of topics of the application's own, the partitions that they have once all are there."""
    if group.topology is None:
        return None
    configured = group.configured
    counted: Mapping[str, InternalTopic] = {}
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        counted = {
            name: topic
            for each in configured.subtopologies.values()
            for name, topic in (*each.own_sources.items(), *each.changelogs.items())
        }
    subtopologies = [
        Subtopology(
            subtopology_id=subtopology_id,
            source_topics=sorted(each.source_topics),
            repartition_sink_topics=sorted(each.repartition_sink_topics),
            state_changelog_topics=_topics(each.state_changelog_topics, counted),
            repartition_source_topics=_topics(each.repartition_source_topics, counted),
        )
        for subtopology_id, each in sorted(group.topology.subtopologies.items())
    ]
    return Topology(epoch=group.topology.epoch, subtopologies=subtopologies)


def _topics(topics: Iterable[topologies.TopicInfo], counted: Mapping[str, InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=counted[topic.name].partitions if topic.name in counted else topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=config.key, value=config.value) for config in topic.topic_configs],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    endpoint, offsets = member.endpoint, group.offsets.get(member.member_id, NO_OFFSETS)
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.tags],
        task_offsets=_offsets(offsets.offsets),
        task_end_offsets=_offsets(offsets.end_offsets),
        assignment=_assignment(member.assigned.plain),
        target_assignment=_assignment(group.targets.get(member.member_id, NO_TASKS)),
    )


def _offsets(offsets: Iterable[tuple[str, int, int]]) -> list[TaskOffset]:
    return [TaskOffset(subtopology_id=name, partition=index, offset=offset) for name, index, offset in offsets]


def _assignment(tasks: Tasks) -> Assignment:
    active, standby, warmup = (listed(in_order(each), TaskIds) for each in (tasks.active, tasks.standby, tasks.warmup))
    return Assignment(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)


def partitions_by_endpoint(
    members: Iterable[StreamsMember], fit: ConfiguredTopology, topics: Topics
) -> list[answered.EndpointToPartitions]:
    """The partitions that the tasks of each member read, for members with an endpoint (KIP-1071)."""
    subtopologies = fit.subtopologies or {}
    found = []
    for member in members:
        if member.endpoint is None:
            continue
        plain = member.assigned.plain
        copies = {
            name: plain.standby.get(name, frozenset()) | plain.warmup.get(name, frozenset())
            for name in sorted({*plain.standby, *plain.warmup})
        }
        found.append(
            answered.EndpointToPartitions(
                user_endpoint=answered.Endpoint(host=member.endpoint.host, port=member.endpoint.port),
                active_partitions=_partitions(plain.active, subtopologies, topics),
                standby_partitions=_partitions(copies, subtopologies, topics),
            )
        )
    return found


def _partitions(
    tasks: Mapping[str, frozenset[int]], subtopologies: Mapping[str, ConfiguredSubtopology], topics: Topics
) -> list[answered.TopicPartition]:
    found = []
    for subtopology, indexes in sorted(tasks.items()):
        configured = subtopologies.get(subtopology)
        for name in () if configured is None else configured.sources:
            topic = topics.topic(name)
            partitions = [] if topic is None else [index for index in sorted(indexes) if index in topic.partitions]
            if partitions:
                found.append(answered.TopicPartition(topic=name, partitions=partitions))
    return found
