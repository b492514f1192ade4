"""Adding partitions to topics (Kafka's `ReplicationControlManager.createPartitions`, rules and texts)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

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
from odradek.metadata.image import MetadataImage, TopicImage
from odradek.metadata.placement import place
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult

if TYPE_CHECKING:
    from odradek.wire.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic

__all__ = ["create_partitions", "partitions_added"]


ADDED_PER_REQUEST_MAX = 10_000
"""The partitions that all topics of a request add together."""


def create_partitions(
    request: CreatePartitionsRequest, cluster: Cluster, *, added: Callable[[MetadataImage], int] | None = None
) -> Change[CreatePartitionsResponse]:
    """Each topic grows or is refused on its own, unless all together add too many partitions.

    `added`: their number in the whole request, if this is a part of it.
    """
    change: Change[CreatePartitionsResponse] = Change(CreatePartitionsResponse())
    times = Counter(topic.name for topic in request.topics)
    if request.timeout_ms <= 0:
        if 1 in times.values():
            # As in Kafka every entry is answered; duplicates are refused only if no other topic is named.
            change.reply.results = [
                _refused(topic.name, Failure(ErrorCode.REQUEST_TIMED_OUT)) for topic in request.topics
            ]
            return change
    elif (too_many := _too_many(added or partial(partitions_added, request.topics), cluster)) is not None:
        # Topics that are named twice get this error for each entry.
        change.reply.results = [_refused(topic.name, too_many) for topic in request.topics]
        return change
    for name, topic in {topic.name: topic for topic in request.topics}.items():
        duplicate = Failure(ErrorCode.INVALID_REQUEST, "Duplicate topic name.") if times[name] > 1 else None
        outcome = duplicate or _grow(topic, cluster)
        if isinstance(outcome, Failure):
            result = _refused(name, outcome)
        else:
            result = CreatePartitionsTopicResult(name=name, error_message=None)
            change.records += outcome
        change.reply.results.append(result)
    if request.validate_only:
        change.records = []
    return change


def _refused(name: str, failure: Failure) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=failure.error, error_message=failure.message)


def partitions_added(topics: Sequence[CreatePartitionsTopic], image: MetadataImage) -> int:
    """The number of partitions that these topics add; duplicates and unknown topics add none."""
    times = Counter(topic.name for topic in topics)
    total = 0
    for topic in topics:
        old = image.topic(topic.name) if times[topic.name] == 1 else None
        if old is not None:
            total += max(topic.count - len(old.partitions), 0)
    return total


def _too_many(added: Callable[[MetadataImage], int], cluster: Cluster) -> Failure | None:
    if added(cluster.image) <= min(ADDED_PER_REQUEST_MAX, cluster.partitions_max):
        return None
    return Failure(ErrorCode.POLICY_VIOLATION, "Excessively large number of additional partitions per request.")


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
    if not cluster.spend(added):
        return Failure(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    assigned = _assign_more(topic, added, old, cluster)
    if isinstance(assigned, Failure):
        return assigned
    return list(NewPartitions(old.id, has, assigned, image))


def _assign_more(topic: CreatePartitionsTopic, added: int, old: TopicImage, cluster: Cluster) -> Assignments | Failure:
    image = cluster.image
    replicas = old.replication_factor
    if topic.assignments is not None:
        if len(topic.assignments) != added:
            return bad_assignment(
                f"Attempted to add {added} additional partition(s), but only {len(topic.assignments)} assignment(s) "
                "were specified."
            )
        for index, assignment in enumerate(topic.assignments, len(old.partitions)):
            failure = bad_replicas(assignment.broker_ids, replicas, image) or nobody_there(
                index, assignment.broker_ids, image
            )
            if failure is not None:
                return failure
        return [assignment.broker_ids for assignment in topic.assignments]
    failure = all_fenced(replicas, image)
    if failure is not None:
        return failure
    return place(image.brokers.values(), partitions=added, replicas=min(replicas, len(image.brokers)), rng=cluster.rng)
