"""Creating topics (Kafka's `ReplicationControlManager`, rules and texts)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from odradek.core.machine import Fact
from odradek.metadata.assignment import (
    Assignments,
    Cluster,
    NewPartitions,
    all_fenced,
    bad_assignment,
    bad_replicas,
    nobody_there,
)
from odradek.metadata.change import Change, Failure
from odradek.metadata.image import MetadataImage, ResourceType
from odradek.metadata.placement import place, random_id
from odradek.metadata.topic_configs import invalid_topic_configs
from odradek.metadata.topic_names import CLUSTER_METADATA, collision, invalid_name, similar_names
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.config_record import ConfigRecord
from odradek.wire.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from odradek.wire.messages.topic_record import TopicRecord

if TYPE_CHECKING:
    from odradek.metadata.describe import TopicEntries
    from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest

__all__ = ["DEFAULT", "create_topics", "partitions_wanted"]

DEFAULT = -1
"""A number of partitions, or replication factor, that the broker's configuration decides."""


def create_topics(
    request: CreateTopicsRequest,
    cluster: Cluster,
    *,
    wanted: Callable[[int], int] | None = None,
    tells_configs: bool = True,
) -> Change[CreateTopicsResponse]:
    """Each topic is created or refused on its own, except for the limit of partitions in the whole request.

    If this is a part of a request, `wanted` is the number of partitions in all of it (`partitions_wanted`).
    """
    change: Change[CreateTopicsResponse] = Change(CreateTopicsResponse())
    times = Counter(topic.name for topic in request.topics)
    if request.timeout_ms <= 0 and 1 in times.values():
        # As in Kafka every entry is answered; duplicates are refused only if no other topic is named.
        change.reply.topics = [_refused(topic.name, Failure(ErrorCode.REQUEST_TIMED_OUT)) for topic in request.topics]
        return change
    failed = _too_many(wanted or partial(partitions_wanted, request.topics), cluster)
    entries = _entries(cluster) if tells_configs else None
    similar = similar_names(cluster.image.topics)
    for name, topic in {topic.name: topic for topic in request.topics}.items():
        duplicate = Failure(ErrorCode.INVALID_REQUEST, "Duplicate topic name.") if times[name] > 1 else None
        outcome = failed or duplicate or _create(topic, similar, cluster, change, entries)
        change.reply.topics.append(_refused(name, outcome) if isinstance(outcome, Failure) else outcome)
    if request.validate_only:
        change.records, change.behind = [], ()
    return change


def _entries(cluster: Cluster) -> TopicEntries:
    from odradek.metadata.describe import TopicEntries  # a start, which tells nobody, does without it

    return TopicEntries(cluster.config)


def _refused(name: str, failure: Failure) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        error_code=failure.error,
        error_message=failure.message,
        num_partitions=-1,
        replication_factor=-1,
        configs=[],
    )


def partitions_wanted(topics: Sequence[CreatableTopic], default: int) -> int:
    """The number of partitions of these topics; `default`: for topics that leave it open."""
    total = 0
    for topic in topics:
        wanted = default if topic.num_partitions == DEFAULT else topic.num_partitions
        total += len(topic.assignments) or max(wanted, 0)
    return total


def _too_many(wanted: Callable[[int], int], cluster: Cluster) -> Failure | None:
    if wanted(cluster.config.num_partitions) <= cluster.partitions_max:
        return None
    return Failure(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def _create(
    topic: CreatableTopic,
    similar: Mapping[str, str],
    cluster: Cluster,
    change: Change[CreateTopicsResponse],
    entries: TopicEntries | None,
) -> CreatableTopicResult | Failure:
    overrides = {config.name: config.value for config in topic.configs}
    failure = _unusable_name(topic.name, similar, cluster.image) or invalid_topic_configs(overrides, cluster.config)
    assigned = failure or _assign(topic, cluster, change)
    if isinstance(assigned, Failure):
        return assigned
    if not cluster.spend(len(assigned)):
        return Failure(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    values = {name: value for name, value in overrides.items() if value is not None}
    topic_id = random_id(cluster.rng)
    change.add_behind()
    change.records.append(TopicRecord(name=topic.name, topic_id=topic_id))
    change.records += [
        ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value)
        for name, value in values.items()
    ]
    change.behind = NewPartitions(topic_id, 0, assigned, cluster.image)
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(assigned),
        replication_factor=len(assigned[0]),
        configs=[
            # The answer repeats overrides as they were written.
            CreatableTopicConfigs(name=e.name, value=values.get(e.name, e.value), config_source=e.source)
            for e in entries.of(values)
        ]
        if entries
        else [],
    )


def _unusable_name(name: str, similar: Mapping[str, str], image: MetadataImage) -> Failure | None:
    if name == CLUSTER_METADATA:
        return Failure(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    reason = invalid_name(name)
    if reason is not None:
        return Failure(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if name in image.topics:
        return Failure(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = collision(name, similar)
    if other is not None:
        return Failure(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
    return None


def _assign(topic: CreatableTopic, cluster: Cluster, change: Change[CreateTopicsResponse]) -> Assignments | Failure:
    if topic.assignments:
        return _assign_by_hand(topic, cluster.image)
    if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
        return Failure(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < DEFAULT or topic.num_partitions == 0:
        return Failure(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    config = cluster.config
    wanted = config.default_replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
    count = config.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
    replicas = _affordable(topic.name, wanted, cluster, change)
    if isinstance(replicas, Failure):
        return replicas
    return place(cluster.image.brokers.values(), partitions=count, replicas=replicas, rng=cluster.rng)


def _affordable(name: str, wanted: int, cluster: Cluster, change: Change[CreateTopicsResponse]) -> int | Failure:
    """The replication factor that the brokers allow; a test's single broker accepts a topic that wants three."""
    brokers = cluster.image.brokers
    failure = all_fenced(wanted, cluster.image)
    if failure is not None:
        return failure
    if wanted <= len(brokers):
        return wanted
    if cluster.config.odradek_strict_replication:
        return Failure(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {wanted} time(s): The target replication factor of {wanted} cannot be "
            f"reached because only {len(brokers)} broker(s) are registered or some brokers have all their log "
            "directories cordoned.",
        )
    change.facts.append(Fact("replication_factor_lowered", {"topic": name, "wanted": wanted, "brokers": len(brokers)}))
    return len(brokers)


def _assign_by_hand(topic: CreatableTopic, image: MetadataImage) -> Assignments | Failure:
    for what, value in (("replication factor", topic.replication_factor), ("numPartitions", topic.num_partitions)):
        if value != DEFAULT:
            return Failure(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    assigned: dict[int, list[int]] = {}
    for assignment in topic.assignments:
        index, replicas = assignment.partition_index, assignment.broker_ids
        if index in assigned:
            return bad_assignment(f"Found multiple manual partition assignments for partition {index}")
        first = next(iter(assigned.values()), replicas)
        failure = bad_replicas(replicas, len(first), image) or nobody_there(index, replicas, image)
        if failure is not None:
            return failure
        assigned[index] = replicas
    if sorted(assigned) != list(range(len(assigned))):
        return bad_assignment("partitions should be a consecutive 0-based integer sequence")
    return [assigned[index] for index in range(len(assigned))]
