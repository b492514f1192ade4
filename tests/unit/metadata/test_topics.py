"""Creating topics; texts are those of a real broker."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.metadata.helpers import BROKERS, broker, cluster, image_of, topic

from odradek.metadata.assignment import Cluster
from odradek.metadata.change import Change
from odradek.metadata.image import EMPTY, MetadataImage
from odradek.metadata.topics import create_topics
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.config_record import ConfigRecord
from odradek.wire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.wire.messages.create_topics_response import CreateTopicsResponse
from odradek.wire.messages.partition_record import PartitionRecord
from odradek.wire.messages.topic_record import TopicRecord

HAND = "The manual partition assignment includes"


def create(
    *topics: CreatableTopic, at: Cluster | None = None, validate_only: bool = False, timeout_ms: int = 1000
) -> Change[CreateTopicsResponse]:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only)
    change = create_topics(request, at or cluster())
    change.add_behind()
    return change


def wanted(name: str = "t", partitions: int = 1, replicas: int = 1, **configs: str | None) -> CreatableTopic:
    entries = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=entries)


def by_hand(*lists: tuple[int, list[int]], partitions: int = -1, replicas: int = -1) -> CreatableTopic:
    assignments = [CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in lists]
    return CreatableTopic(name="t", num_partitions=partitions, replication_factor=replicas, assignments=assignments)


def outcome(change: Change[CreateTopicsResponse]) -> tuple[ErrorCode, str | None]:
    (result,) = change.reply.topics
    return ErrorCode(result.error_code), result.error_message


def after(change: Change[Any], before: MetadataImage = EMPTY) -> MetadataImage:
    return image_of(change.records, base=before)


def test_a_topic_its_configs_and_its_partitions_in_this_order() -> None:
    change = create(wanted(partitions=2, replicas=3, retention_ms="5"))

    assert [TopicRecord, ConfigRecord, PartitionRecord, PartitionRecord] == [type(record) for record in change.records]
    (result,) = change.reply.topics
    assert (ErrorCode.NONE, None) == outcome(change)
    assert (2, 3) == (result.num_partitions, result.replication_factor)
    image = after(change)
    assert result.topic_id == image.topics["t"].id
    assert {"retention.ms": "5"} == image.config(2, "t")
    assert {(1, 2, 3)} == {tuple(sorted(p.replicas)) for p in image.topics["t"].partitions.values()}
    assert all(p.leader == p.replicas[0] and p.isr == p.replicas for p in image.topics["t"].partitions.values())


def test_what_is_left_to_the_broker() -> None:
    change = create(wanted(partitions=-1, replicas=-1), at=cluster(num_partitions="4", default_replication_factor="2"))

    (result,) = change.reply.topics
    assert (4, 2) == (result.num_partitions, result.replication_factor)


def test_the_answer_tells_all_configs() -> None:
    change = create(wanted(cleanup_policy="compact, delete"), at=cluster(message_max_bytes="77"))

    told = {entry.name: (entry.value, entry.config_source) for entry in change.reply.topics[0].configs or ()}
    assert 37 == len(told)
    assert ("compact, delete", 1) == told["cleanup.policy"]
    assert ("77", 4) == told["max.message.bytes"]
    assert ("604800000", 5) == told["retention.ms"]


def test_validate_only_answers_the_same_and_writes_nothing() -> None:
    change = create(wanted(partitions=2), validate_only=True)

    assert [] == change.records
    assert (2, ErrorCode.NONE) == (change.reply.topics[0].num_partitions, outcome(change)[0])


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_no_time_at_all_is_too_little(timeout_ms: int) -> None:
    # As a real broker does, which answers librdkafka 1.4's default timeout like this and creates nothing.
    change = create(wanted(), timeout_ms=timeout_ms)

    assert (ErrorCode.REQUEST_TIMED_OUT, None) == outcome(change)
    assert [] == change.records


@pytest.mark.parametrize(
    ("topic_wanted", "error", "message"),
    [
        (wanted(name=""), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        (
            wanted(name="__cluster_metadata"),
            ErrorCode.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (wanted(name="is.there"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'is.there' already exists."),
        (
            wanted(name="is_there"),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic 'is_there' collides with existing topic: is.there",
        ),
        (
            wanted(partitions=0),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            wanted(partitions=-2),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            wanted(replicas=0, partitions=0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            wanted(partitions=1001),
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
        ),
        (wanted(nope="1"), ErrorCode.INVALID_CONFIG, "Unknown topic config name: nope"),
        (
            wanted(retention_ms=None),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            wanted(retention_ms="-2"),
            ErrorCode.INVALID_CONFIG,
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
        ),
        (
            by_hand((0, [1]), partitions=1),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            by_hand((0, [1]), replicas=1, partitions=1),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            by_hand((0, [1]), (2, [1])),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            by_hand((0, [1]), (0, [1])),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for partition 0",
        ),
        (by_hand((0, [])), ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{HAND} an empty replica list."),
        (by_hand((0, [2, 2])), ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{HAND} the broker 2 more than once."),
        (
            by_hand((0, [9])),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{HAND} broker 9, but no such broker is registered.",
        ),
        (
            by_hand((0, [1]), (1, [1, 2])),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            (
                f"{HAND} a partition with 2 replica(s), but this is not consistent with previous partitions, which "
                "have 1 replica(s)."
            ),
        ),
        (
            by_hand((0, [4])),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            (
                "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled "
                "shutdown."
            ),
        ),
    ],
)
def test_a_refused_topic(topic_wanted: CreatableTopic, error: ErrorCode, message: str) -> None:
    change = create(topic_wanted, at=cluster(BROKERS, [broker(4, fenced=True)], topic("is.there")))

    assert (error, message) == outcome(change)
    assert [] == change.records
    assert (-1, -1, []) == (
        change.reply.topics[0].num_partitions,
        change.reply.topics[0].replication_factor,
        change.reply.topics[0].configs,
    )


def test_topics_of_a_request_stand_alone() -> None:
    change = create(wanted("good"), wanted("bad", partitions=0), wanted("twice"), wanted("twice"))

    assert [("good", 0), ("bad", 37), ("twice", 42)] == [(t.name, t.error_code) for t in change.reply.topics]
    assert ["good"] == list(after(change).topics)


def test_replicas_by_hand() -> None:
    change = create(by_hand((1, [3, 1]), (0, [2, 3])))

    partitions = after(change).topics["t"].partitions
    assert [(2, (2, 3)), (3, (3, 1))] == [(p.leader, p.replicas) for p in partitions.values()]


def test_too_many_replicas_are_lowered_and_told() -> None:
    change = create(wanted(replicas=5))

    assert ErrorCode.NONE == outcome(change)[0]
    assert 3 == change.reply.topics[0].replication_factor
    assert [("replication_factor_lowered", {"topic": "t", "wanted": 5, "brokers": 3})] == [
        (fact.kind, fact.fields) for fact in change.facts
    ]


def test_too_many_replicas_are_refused_where_that_is_wanted() -> None:
    change = create(wanted(replicas=5), at=cluster(odradek_strict_replication="true"))

    assert (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        (
            "Unable to replicate the partition 5 time(s): The target replication factor of 5 cannot be reached because "
            "only 3 broker(s) are registered or some brokers have all their log directories cordoned."
        ),
    ) == outcome(change)


def test_nobody_to_lead() -> None:
    change = create(wanted(), at=cluster([broker(1, fenced=True)]))

    assert ErrorCode.INVALID_REPLICATION_FACTOR == outcome(change)[0]


def test_a_fenced_replica_is_not_in_sync_and_does_not_lead() -> None:
    change = create(by_hand((0, [4, 1])), at=cluster(BROKERS, [broker(4, fenced=True)]))

    partition = after(change).topics["t"].partitions[0]
    assert (1, (4, 1), (1,)) == (partition.leader, partition.replicas, partition.isr)


def test_leaders_of_many_topics_are_spread() -> None:
    at = cluster()

    leaders = {after(create(wanted(f"t{n}"), at=at)).topics[f"t{n}"].partitions[0].leader for n in range(20)}

    assert {1, 2, 3} == leaders


def test_the_same_dice_give_the_same_topic() -> None:
    assert create(wanted(), at=cluster()).records == create(wanted(), at=cluster()).records
