"""A topology, held against the topics that exist: the number of tasks, and the topics that the broker has to make.

KIP-1071, "Topology configuration". A topic that only the application knows has as many partitions as what is written
into it has: counts are passed on from subtopology to subtopology until nothing changes.
Kafka's `InternalTopicManager` is the reference for the order of the checks, and for its sentences.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.core.java_order import hash_order
from odradek.core.machine import Refused
from odradek.group.streams.topology import Subtopology, TopicInfo, Topology, sources_of
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics_request import CreatableTopic, CreatableTopicConfig

if TYPE_CHECKING:
    from odradek.group.consumer.topics import Topics

__all__ = ["ConfiguredSubtopology", "ConfiguredTopology", "InternalTopic", "Problem", "Status", "configured"]

SHOWN_TOPICS = 3
LIKE_THE_BROKER = -1


class Status(IntEnum):
    """Warnings in the response to a heartbeat, numbered as on the wire (KIP-1071, KIP-1284)."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class InternalTopic(Struct, frozen=True):
    """A topic of the application's own, as it has to be."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]

    def to_create(self) -> CreatableTopic:
        """The request to the controller for this topic."""
        return CreatableTopic(
            name=self.name,
            num_partitions=self.partitions,
            replication_factor=self.replication_factor or LIKE_THE_BROKER,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in self.configs],
        )


class ConfiguredSubtopology(Struct, frozen=True):
    """A subtopology whose tasks are counted."""

    tasks: int
    sources: tuple[str, ...]
    """Every topic that it reads."""
    own_sources: Mapping[str, InternalTopic]
    changelogs: Mapping[str, InternalTopic]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)


class Problem(Struct, frozen=True):
    """Why there are no tasks yet."""

    status: Status
    detail: str


class ConfiguredTopology(Struct, frozen=True):
    """The topology as of some metadata."""

    subtopologies: Mapping[str, ConfiguredSubtopology] | None = None
    """By id, in its order; None if the topics do not fit."""
    missing: Mapping[str, CreatableTopic] = {}
    """Topics that the broker has to make."""
    problem: Problem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


class _Unfit(Exception):
    """The topics do not fit; ends `configured`, which answers with it."""

    def __init__(self, problem: Problem | Refused) -> None:
        super().__init__(str(problem))
        self.problem = problem


def configured(topology: Topology, topics: Topics) -> ConfiguredTopology | Refused:
    """The topology over these topics; `Refused` if no topics could ever fit it."""
    try:
        return _configured(topology, topics)
    except _Unfit as unfit:
        return unfit.problem if isinstance(unfit.problem, Refused) else ConfiguredTopology(problem=unfit.problem)


def _configured(topology: Topology, topics: Topics) -> ConfiguredTopology:
    subtopologies = [topology.subtopologies[each] for each in hash_order(topology.subtopologies)]
    together = [group for each in subtopologies for group in _read_together(each)]
    missing = sorted({name for each in subtopologies for name in each.source_topics if topics.topic(name) is None})
    if missing:
        raise _Unfit(Problem(Status.MISSING_SOURCE_TOPICS, f"Source topics {_summary(missing)} are missing."))
    counts = _Counts(subtopologies, topics)
    for group in together:
        counts.make_equal(group)
    counts.count_changelogs()
    found = {
        subtopology_id: _counted(topology.subtopologies[subtopology_id], counts)
        for subtopology_id in sorted(topology.subtopologies)
    }
    to_make = _to_make(found, topology, topics)
    if not to_make:
        return ConfiguredTopology(found)
    detail = f"Internal topics are missing: {_summary(to_make)}"
    return ConfiguredTopology(found, to_make, Problem(Status.MISSING_INTERNAL_TOPICS, detail))


def _summary(names: Collection[str]) -> str:
    more = len(names) - SHOWN_TOPICS
    shown = ", ".join(list(names)[:SHOWN_TOPICS])
    return f"{shown} and {more} additional topics" if more > 0 else shown


def _read_together(subtopology: Subtopology) -> Iterator[list[str]]:
    """Topics whose partitions are joined with one another, and which must have the same number of them."""
    for group in subtopology.copartition_groups:
        try:
            names = [subtopology.source_topics[_index(at)] for at in group.source_topics]
            names += [subtopology.repartition_source_topics[_index(at)].name for at in group.repartition_source_topics]
        except IndexError:
            raise _Unfit(Refused(ErrorCode.UNKNOWN_SERVER_ERROR)) from None
        yield list(dict.fromkeys(names))


def _index(at: int) -> int:
    if at < 0:
        raise IndexError(at)
    return at


class _Counts:
    """The partitions of each topic: those that it has, and those that it shall have."""

    def __init__(self, subtopologies: list[Subtopology], topics: Topics) -> None:
        self._subtopologies = subtopologies
        self._topics = topics
        self._own = {topic.name: topic for each in subtopologies for topic in each.repartition_source_topics}
        self._fixed = {name for name, topic in self._own.items() if topic.partitions}
        self._decided: dict[str, int] = self._passed_on()

    def of(self, name: str) -> int:
        """The number of partitions; those of a topic that exists are what they are."""
        topic = self._topics.topic(name)
        count = self._decided.get(name) if topic is None else len(topic.partitions)
        if count is None:
            raise _Unfit(Refused(ErrorCode.UNKNOWN_SERVER_ERROR))
        return count

    def decided(self, topic: TopicInfo) -> int:
        """The partitions and configs that an internal topic of the application must have."""
        return topic.partitions or self._decided[topic.name]

    def _passed_on(self) -> dict[str, int]:
        counts = {name: self._own[name].partitions for name in self._fixed}
        waiting = True
        while waiting:
            waiting, moved = False, False
            for subtopology in self._subtopologies:
                for sink in subtopology.repartition_sink_topics:
                    if sink in counts:
                        continue
                    known = [counts[each.name] for each in subtopology.repartition_source_topics if each.name in counts]
                    known += [
                        len(topic.partitions)
                        for name in subtopology.source_topics
                        if (topic := self._topics.topic(name)) is not None
                    ]
                    if known:
                        counts[sink], moved = max(known), True
                    else:
                        waiting = True
            if waiting and not moved:
                raise _invalid(
                    "Failed to compute number of partitions for all repartition topics. There may be loops in the "
                    "topology that cannot be resolved."
                )
        if not self._own.keys() <= counts.keys():
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics, because a repartition source "
                "topic is never used as a sink topic."
            )
        return counts

    def make_equal(self, group: list[str]) -> None:
        """Have the topics of the application's own follow those that they are joined with."""
        if not group:
            return
        own = {name: self.of(name) for name in group if name in self._own}
        others = {name: self.of(name) for name in group if name not in self._own}
        if others:
            count = _the_same(others)
        elif self._fixed:
            count = _the_same({name: self.of(name) for name in self._fixed}, own)
        else:
            count = max(own.values())
        for name, before in own.items():
            self._decided[name] = count
            if name in self._fixed and before != count:
                raise _misfit(
                    f"Number of partitions [{before}] of repartition topic [{name}] doesn't match number of partitions "
                    f"[{count}] of the source topic."
                )

    def count_changelogs(self) -> None:
        """A changelog has a partition for each task."""
        for subtopology in self._subtopologies:
            counts = [self.of(name) for name in sources_of(subtopology)]
            if not counts:
                raise _invalid(f"No source topics found for subtopology {subtopology.subtopology_id}")
            for topic in subtopology.state_changelog_topics:
                self._decided[topic.name] = max(counts)


def _the_same(counts: Mapping[str, int], shown: Mapping[str, int] | None = None) -> int:
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}={count}" for name, count in sorted((shown or counts).items()))
        raise _misfit(f"Following topics do not have the same number of partitions: [{{{listed}}}]")
    return next(iter(counts.values()))


def _misfit(detail: str) -> _Unfit:
    return _Unfit(Problem(Status.INCORRECTLY_PARTITIONED_TOPICS, detail))


def _invalid(sentence: str) -> _Unfit:
    return _Unfit(Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, sentence))


def _counted(subtopology: Subtopology, counts: _Counts) -> ConfiguredSubtopology:
    sources = tuple(dict.fromkeys(sources_of(subtopology)))
    return ConfiguredSubtopology(
        tasks=max(counts.of(name) for name in sources),
        sources=sources,
        own_sources={each.name: _internal(each, counts) for each in subtopology.repartition_source_topics},
        changelogs={each.name: _internal(each, counts) for each in subtopology.state_changelog_topics},
    )


def _internal(topic: TopicInfo, counts: _Counts) -> InternalTopic:
    configs = tuple((config.key, config.value) for config in topic.topic_configs)
    return InternalTopic(topic.name, counts.decided(topic), topic.replication_factor, configs)


def _to_make(
    subtopologies: Mapping[str, ConfiguredSubtopology], topology: Topology, topics: Topics
) -> dict[str, CreatableTopic]:
    wanted = {
        name: topic
        for each in subtopologies.values()
        for name, topic in (*each.own_sources.items(), *each.changelogs.items())
    }
    for name in hash_order(sorted(topology.required_topics)):
        existing, expected = topics.topic(name), wanted.get(name)
        if existing is None or expected is None:
            continue
        if len(existing.partitions) != expected.partitions:
            raise _misfit(
                f"Existing topic {name} has different number of partitions: expected {expected.partitions}, found "
                f"{len(existing.partitions)}"
            )
        del wanted[name]
    return {name: wanted[name].to_create() for name in hash_order(wanted)}
