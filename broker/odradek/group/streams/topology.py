"""The topology of an application, as its first member has described it (KIP-1071, "Topology initialization")."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from odradek.wire.messages import streams_group_heartbeat_request as asked
from odradek.wire.messages.streams_group_topology_value import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)

__all__ = ["Subtopology", "TopicInfo", "Topology", "sources_of", "topology_value"]


class Topology:
    """Subtopologies by id, with the topics that they read, write and keep their state in."""

    def __init__(self, value: StreamsGroupTopologyValue) -> None:
        self.value = value
        self.epoch = value.epoch
        self.subtopologies: dict[str, Subtopology] = {each.subtopology_id: each for each in value.subtopologies}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topology) and self.epoch == other.epoch and self.subtopologies == other.subtopologies

    def __hash__(self) -> int:
        return hash(self.epoch)

    @cached_property
    def required_topics(self) -> frozenset[str]:
        """Every topic that must exist before there are tasks."""
        return frozenset(
            name
            for each in self.subtopologies.values()
            for name in (*sources_of(each), *(topic.name for topic in each.state_changelog_topics))
        )

    @cached_property
    def subtopology_by_source(self) -> dict[str, str]:
        """By the name of a topic that is read, the id of the subtopology that reads it."""
        return {name: subtopology for subtopology, each in self.subtopologies.items() for name in sources_of(each)}


def sources_of(subtopology: Subtopology) -> Iterator[str]:
    """The topics that a subtopology reads: those of others, and those that only the application knows."""
    yield from subtopology.source_topics
    for topic in subtopology.repartition_source_topics:
        yield topic.name


def topology_value(topology: asked.Topology) -> StreamsGroupTopologyValue:
    """The record of the topology in a request."""
    return StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=each.source_topics,
                source_topic_regex=each.source_topic_regex,
                state_changelog_topics=[_topic_info(topic) for topic in each.state_changelog_topics],
                repartition_sink_topics=each.repartition_sink_topics,
                repartition_source_topics=[_topic_info(topic) for topic in each.repartition_source_topics],
                copartition_groups=[
                    CopartitionGroup(
                        source_topics=group.source_topics,
                        source_topic_regex=group.source_topic_regex,
                        repartition_source_topics=group.repartition_source_topics,
                    )
                    for group in each.copartition_groups
                ],
            )
            for each in topology.subtopologies
        ],
    )


def _topic_info(topic: asked.TopicInfo) -> TopicInfo:
    return TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[TopicConfig(key=config.key, value=config.value) for config in topic.topic_configs],
    )
