"""Adding partitions; texts are those of a real broker."""

from __future__ import annotations

import pytest
from tests.unit.metadata.helpers import BROKERS, broker, cluster, image_of, topic

from odradek.metadata.assignment import Cluster
from odradek.metadata.change import Change
from odradek.metadata.partitions import create_partitions
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.wire.messages.create_partitions_response import CreatePartitionsResponse
from odradek.wire.messages.partition_record import PartitionRecord

HAND = "The manual partition assignment includes"


def grow(
    *topics: CreatePartitionsTopic, at: Cluster | None = None, validate_only: bool = False, timeout_ms: int = 1000
) -> Change[CreatePartitionsResponse]:
    request = CreatePartitionsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only)
    return create_partitions(request, at or cluster(BROKERS, topic("t", [1, 2], [2, 3])))


def to(count: int, *lists: list[int], name: str = "t", empty: bool = False) -> CreatePartitionsTopic:
    assignments = [CreatePartitionsAssignment(broker_ids=ids) for ids in lists]
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments if lists or empty else None)


def test_a_topic_grows_with_its_replication_factor() -> None:
    at = cluster(BROKERS, topic("t", [1, 2], [2, 3]))

    change = grow(to(5), at=at)

    partitions = image_of(change.records, base=at.image).topics["t"].partitions
    assert [0, 1, 2, 3, 4] == list(partitions)
    assert {2} == {len(partition.replicas) for partition in partitions.values()}
    assert [PartitionRecord] * 3 == [type(record) for record in change.records]
    assert [(0, None)] == [(result.error_code, result.error_message) for result in change.reply.results]


def test_a_topic_grows_by_hand() -> None:
    at = cluster(BROKERS, topic("t", [1, 2], [2, 3]))

    partition = image_of(grow(to(3, [3, 1]), at=at).records, base=at.image).topics["t"].partitions[2]

    assert (3, (3, 1)) == (partition.leader, partition.replicas)


def test_growing_validated_only() -> None:
    change = grow(to(3), validate_only=True)

    assert ([], 0) == (change.records, change.reply.results[0].error_code)


@pytest.mark.parametrize(
    ("topic_wanted", "error", "message"),
    [
        (to(2), ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            to(1),
            ErrorCode.INVALID_PARTITIONS,
            "The topic t currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            to(-1),
            ErrorCode.INVALID_PARTITIONS,
            "The topic t currently has 2 partition(s); -1 would not be an increase.",
        ),
        (to(3, name="nope"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (
            to(5000),
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of additional partitions per request.",
        ),
        (
            to(4, [1, 2]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            to(3, empty=True),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 1 additional partition(s), but only 0 assignment(s) were specified.",
        ),
        (
            to(3, [9, 1]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{HAND} broker 9, but no such broker is registered.",
        ),
        (to(3, [1, 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{HAND} the broker 1 more than once."),
        (
            to(3, [1]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            (
                f"{HAND} a partition with 1 replica(s), but this is not consistent with previous partitions, which "
                "have 2 replica(s)."
            ),
        ),
    ],
)
def test_a_refused_growth(topic_wanted: CreatePartitionsTopic, error: ErrorCode, message: str | None) -> None:
    change = grow(topic_wanted)

    assert [(error, message)] == [(result.error_code, result.error_message) for result in change.reply.results]
    assert [] == change.records


def test_growing_twice_in_a_request_or_in_no_time() -> None:
    assert [42] == [result.error_code for result in grow(to(3), to(4)).reply.results]
    assert [7] == [result.error_code for result in grow(to(3), timeout_ms=0).reply.results]


def test_growing_where_nobody_is() -> None:
    at = cluster([broker(1, fenced=True)], topic("t"))

    assert [38] == [result.error_code for result in grow(to(3), at=at).reply.results]
