"""Creating and deleting topics, and adding partitions (Kafka's `ReplicationControlManager`, rules and texts)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from odradek.config import Config
from odradek.log.machine import Fact
from odradek.metadata import configs, describe
from odradek.metadata.change import Change, Failure
from odradek.metadata.image import MetadataImage, PartitionImage, ResourceType, TopicImage
from odradek.metadata.placement import Dice, elect, in_sync, place, random_id
from odradek.metadata.snapshot import topic_records
from odradek.metadata.topic_names import CLUSTER_METADATA, collision, invalid_name
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.config_record import ConfigRecord
from odradek.wire.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)

__all__ = ["DEFAULT", "PARTITIONS_PER_REQUEST_MAX", "Cluster", "create_partitions", "create_topics"]

DEFAULT = -1
"""Number of partitions, or replication factor, that is left to the broker's configuration."""

PARTITIONS_PER_REQUEST_MAX = 100_000
"""Kafka stops at 10,000, the records of one batch; a metadata transaction can hold more (KIP-868)."""

Assignments = list[list[int]]


class Cluster(Struct, frozen=True):
    """What the rules need besides the request."""

    image: MetadataImage
    config: Config
    dice: Dice
    partitions_max: int = PARTITIONS_PER_REQUEST_MAX


# ---------------------------------------------------------------------- CreateTopics


def create_topics(request: CreateTopicsRequest, cluster: Cluster) -> Change[CreateTopicsResponse]:
    """Each topic is created or refused by itself."""
    change: Change[CreateTopicsResponse] = Change(CreateTopicsResponse())
    failed = Failure(ErrorCode.REQUEST_TIMED_OUT) if request.timeout_ms <= 0 else _too_many(request.topics, cluster)
    times = Counter(topic.name for topic in request.topics)
    for name, topic in {topic.name: topic for topic in request.topics}.items():
        duplicate = Failure(ErrorCode.INVALID_REQUEST, "Duplicate topic name.") if times[name] > 1 else None
        outcome = failed or duplicate or _create(topic, cluster, change)
        if isinstance(outcome, Failure):
            outcome = CreatableTopicResult(
                name=name,
                error_code=outcome.error,
                error_message=outcome.message,
                num_partitions=-1,
                replication_factor=-1,
                configs=[],
            )
        change.reply.topics.append(outcome)
    if request.validate_only:
        change.records = []
    return change


def _too_many(topics: Sequence[CreatableTopic], cluster: Cluster) -> Failure | None:
    default = cluster.config.num_partitions
    total = 0
    for topic in topics:
        wanted = default if topic.num_partitions == DEFAULT else topic.num_partitions
        total += len(topic.assignments) or max(wanted, 0)
    if total <= cluster.partitions_max:
        return None
    return Failure(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def _create(
    topic: CreatableTopic, cluster: Cluster, change: Change[CreateTopicsResponse]
) -> CreatableTopicResult | Failure:
    overrides = {config.name: config.value for config in topic.configs}
    failure = _unusable_name(topic.name, cluster.image) or configs.invalid_topic_configs(overrides, cluster.config)
    assigned = failure or _assign(topic, cluster, change)
    if isinstance(assigned, Failure):
        return assigned
    values = {name: value for name, value in overrides.items() if value is not None}
    created = _topic(topic.name, random_id(cluster.dice), assigned, cluster.image)
    head, *partitions = topic_records(created)
    change.records.append(head)
    change.records += [
        ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value)
        for name, value in values.items()
    ]
    change.records += partitions
    return CreatableTopicResult(
        name=topic.name,
        topic_id=created.id,
        error_message=None,
        num_partitions=len(assigned),
        replication_factor=len(assigned[0]),
        configs=[
            # Overrides come back as they were written, whatever they mean.
            CreatableTopicConfigs(name=e.name, value=values.get(e.name, e.value), config_source=e.source)
            for e in describe.topic_entries(values, cluster.config)
        ],
    )


def _unusable_name(name: str, image: MetadataImage) -> Failure | None:
    if name == CLUSTER_METADATA:
        return Failure(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    reason = invalid_name(name)
    if reason is not None:
        return Failure(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if name in image.topics:
        return Failure(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = collision(name, image.topics)
    if other is not None:
        return Failure(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
    return None


def _topic(name: str, topic_id: bytes, assigned: Assignments, image: MetadataImage) -> TopicImage:
    return TopicImage(name, topic_id, {i: _partition(i, replicas, image) for i, replicas in enumerate(assigned)})


def _partition(index: int, replicas: list[int], image: MetadataImage) -> PartitionImage:
    return PartitionImage(
        index=index,
        leader=elect(replicas, image),
        leader_epoch=0,
        partition_epoch=0,
        replicas=tuple(replicas),
        isr=tuple(in_sync(replicas, image)),
    )


# ---------------------------------------------------------------------- who gets the replicas


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
    return place(cluster.image.brokers.values(), partitions=count, replicas=replicas, dice=cluster.dice)


def _affordable(name: str, wanted: int, cluster: Cluster, change: Change[CreateTopicsResponse]) -> int | Failure:
    """The replication factor there are brokers for; one broker in a test must do for a topic that asks for three."""
    brokers = cluster.image.brokers
    if not any(not broker.fenced for broker in brokers.values()):
        return Failure(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {wanted} time(s): All brokers are currently fenced.",
        )
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
            return _bad_assignment(f"Found multiple manual partition assignments for partition {index}")
        first = next(iter(assigned.values()), replicas)
        failure = _bad_replicas(replicas, len(first), image) or _nobody_there(index, replicas, image)
        if failure is not None:
            return failure
        assigned[index] = replicas
    if sorted(assigned) != list(range(len(assigned))):
        return _bad_assignment("partitions should be a consecutive 0-based integer sequence")
    return [assigned[index] for index in range(len(assigned))]


def _bad_assignment(message: str) -> Failure:
    return Failure(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _bad_replicas(replicas: list[int], expected: int, image: MetadataImage) -> Failure | None:
    if not replicas:
        return _bad_assignment("The manual partition assignment includes an empty replica list.")
    for broker in sorted(replicas):
        if replicas.count(broker) > 1:
            return _bad_assignment(f"The manual partition assignment includes the broker {broker} more than once.")
        if broker not in image.brokers:
            return _bad_assignment(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered."
            )
    if len(replicas) != expected:
        return _bad_assignment(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {expected} replica(s)."
        )
    return None


def _nobody_there(index: int, replicas: list[int], image: MetadataImage) -> Failure | None:
    if in_sync(replicas, image):
        return None
    return _bad_assignment(
        f"All brokers specified in the manual partition assignment for partition {index} are fenced or in controlled "
        "shutdown."
    )


# ---------------------------------------------------------------------- CreatePartitions


def create_partitions(request: CreatePartitionsRequest, cluster: Cluster) -> Change[CreatePartitionsResponse]:
    """Each topic grows or is refused by itself."""
    change: Change[CreatePartitionsResponse] = Change(CreatePartitionsResponse())
    late = Failure(ErrorCode.REQUEST_TIMED_OUT) if request.timeout_ms <= 0 else None
    times = Counter(topic.name for topic in request.topics)
    for name, topic in {topic.name: topic for topic in request.topics}.items():
        duplicate = Failure(ErrorCode.INVALID_REQUEST, "Duplicate topic name.") if times[name] > 1 else None
        outcome = late or duplicate or _grow(topic, cluster)
        if isinstance(outcome, Failure):
            result = CreatePartitionsTopicResult(name=name, error_code=outcome.error, error_message=outcome.message)
        else:
            result = CreatePartitionsTopicResult(name=name, error_message=None)
            change.records += outcome
        change.reply.results.append(result)
    if request.validate_only:
        change.records = []
    return change


def _grow(topic: CreatePartitionsTopic, cluster: Cluster) -> list[Struct] | Failure:
    image = cluster.image
    old = image.topic(topic.name)
    if old is None:
        return Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    has = len(old.partitions)
    added = topic.count - has
    if added == 0:
        return Failure(ErrorCode.INVALID_PARTITIONS, f"Topic already has {has} partition(s).")
    if added < 0:
        return Failure(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {has} partition(s); {topic.count} would not be an increase.",
        )
    if added > cluster.partitions_max:
        return Failure(ErrorCode.POLICY_VIOLATION, "Excessively large number of additional partitions per request.")
    assigned = _assign_more(topic, added, old, cluster)
    if isinstance(assigned, Failure):
        return assigned
    grown = TopicImage(
        old.name, old.id, {has + i: _partition(has + i, replicas, image) for i, replicas in enumerate(assigned)}
    )
    return list(_partitions_only(grown))


def _partitions_only(topic: TopicImage) -> Iterator[Struct]:
    records = topic_records(topic)
    next(records)  # the topic itself exists
    return records


def _assign_more(topic: CreatePartitionsTopic, added: int, old: TopicImage, cluster: Cluster) -> Assignments | Failure:
    image = cluster.image
    replicas = old.replication_factor
    if topic.assignments is not None:
        if len(topic.assignments) != added:
            return _bad_assignment(
                f"Attempted to add {added} additional partition(s), but only {len(topic.assignments)} assignment(s) "
                "were specified."
            )
        for index, assignment in enumerate(topic.assignments, len(old.partitions)):
            failure = _bad_replicas(assignment.broker_ids, replicas, image) or _nobody_there(
                index, assignment.broker_ids, image
            )
            if failure is not None:
                return failure
        return [assignment.broker_ids for assignment in topic.assignments]
    if not any(not broker.fenced for broker in image.brokers.values()):
        return Failure(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replicas} time(s): All brokers are currently fenced.",
        )
    return place(
        image.brokers.values(), partitions=added, replicas=min(replicas, len(image.brokers)), dice=cluster.dice
    )
