"""Which process has the state of which partitions, for interactive queries (KIP-1071, "Endpoint information")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from odradek.wire.messages.streams_group_heartbeat_response import Endpoint, EndpointToPartitions, TopicPartition

if TYPE_CHECKING:
    from odradek.group.consumer.topics import Topics
    from odradek.group.streams.configured import ConfiguredSubtopology, ConfiguredTopology
    from odradek.group.streams.member import StreamsMember

__all__ = ["partitions_by_endpoint"]


def partitions_by_endpoint(
    members: Iterable[StreamsMember], fit: ConfiguredTopology, topics: Topics
) -> list[EndpointToPartitions]:
    """The partitions that the tasks of each member read, for members with an endpoint."""
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
            EndpointToPartitions(
                user_endpoint=Endpoint(host=member.endpoint.host, port=member.endpoint.port),
                active_partitions=_partitions(plain.active, subtopologies, topics),
                standby_partitions=_partitions(copies, subtopologies, topics),
            )
        )
    return found


def _partitions(
    tasks: Mapping[str, frozenset[int]], subtopologies: Mapping[str, ConfiguredSubtopology], topics: Topics
) -> list[TopicPartition]:
    found = []
    for subtopology, indexes in sorted(tasks.items()):
        configured = subtopologies.get(subtopology)
        for name in () if configured is None else configured.sources:
            topic = topics.topic(name)
            partitions = [] if topic is None else [index for index in sorted(indexes) if index in topic.partitions]
            if partitions:
                found.append(TopicPartition(topic=name, partitions=partitions))
    return found
