"""KIP-455 and KIP-460: replicas that move, and elections that an administrator asks for."""

from __future__ import annotations

from tests.kips.helpers import OK, P
from tests.kips.test_replicas import LAG, Replicated

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from odradek.wire.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest

PREFERRED, UNCLEAN = 0, 1


def elect(cluster: Replicated, election_type: int = PREFERRED, *, broker: int = 1, everything: bool = False) -> object:
    named = None if everything else [TopicPartitions(topic="t", partitions=[0])]
    request = ElectLeadersRequest(election_type=election_type, topic_partitions=named, timeout_ms=1_000)
    results = cluster.ask(broker, request, 2).replica_election_results
    cluster.world.run()
    if everything:
        return [(each.topic, part.partition_id, part.error_code) for each in results for part in each.partition_result]
    [[result]] = [topic.partition_result for topic in results]
    return ErrorCode(result.error_code)


def reassign(cluster: Replicated, replicas: list[int] | None, *, broker: int = 1) -> ErrorCode:
    wanted = ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=replicas)])
    response = cluster.ask(broker, AlterPartitionReassignmentsRequest(topics=[wanted], timeout_ms=1_000), 1)
    assert OK == response.error_code
    cluster.world.run()
    [topic] = response.responses
    return ErrorCode(topic.partitions[0].error_code)


def ongoing(cluster: Replicated) -> list[tuple[list[int], list[int], list[int]]]:
    response = cluster.ask(1, ListPartitionReassignmentsRequest(topics=None, timeout_ms=1_000), 0)
    return [
        (each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in response.topics
        for each in topic.partitions
    ]


# ---------------------------------------------------------------------- elections


def test_the_preferred_leader_is_elected() -> None:
    cluster = Replicated()
    assert ErrorCode.ELECTION_NOT_NEEDED is elect(cluster)
    cluster.move(P, 2)
    # Any broker takes the request; the controller decides.
    assert OK is elect(cluster, broker=3)
    assert 1 == cluster.leader(P)


def test_an_election_of_everything_tells_what_has_changed() -> None:
    cluster = Replicated()
    assert [] == [each for each in elect(cluster, everything=True) if each[0] == "t"]  # type: ignore[attr-defined]
    cluster.move(P, 3)
    assert [("t", 0, 0)] == elect(cluster, everything=True)


def test_a_preferred_leader_that_is_out_of_sync_is_not_available() -> None:
    cluster = Replicated()
    cluster.move(P, 2)
    cluster.lag(LAG, 1)
    cluster.world.stop_broker(1)
    assert OK is cluster.produce(b"a").error
    cluster.world.start_broker(1)
    assert 1 not in cluster.isr
    assert ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE is elect(cluster, broker=2)
    cluster.world.advance(LAG)
    assert OK is elect(cluster, broker=2)
    assert 1 == cluster.leader(P)


def test_an_unclean_election_takes_whoever_is_there_and_loses_what_it_lacks() -> None:
    cluster = Replicated()
    assert ErrorCode.ELECTION_NOT_NEEDED is elect(cluster, UNCLEAN)
    cluster.produce(b"kept")
    cluster.world.stop_broker(2)
    cluster.world.stop_broker(3)
    assert OK is cluster.produce(b"lost").error
    cluster.world.stop_broker(1)
    cluster.world.start_broker(3)
    assert ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE is elect(cluster, broker=3)
    assert OK is elect(cluster, UNCLEAN, broker=3)
    assert (3, {3}) == (cluster.leader(P), cluster.isr)
    assert [b"kept"] == cluster.values(P)
    assert ErrorCode.ELECTION_NOT_NEEDED is elect(cluster, UNCLEAN, broker=3)


# ---------------------------------------------------------------------- reassignments


def test_replicas_move_at_once_where_they_acknowledge_at_once() -> None:
    cluster = Replicated(default_replication_factor=1)
    cluster.produce(b"a")
    assert OK is reassign(cluster, [2, 3], broker=3)
    assert ((2, 3), {2, 3}, 2) == (cluster.partition().replicas, cluster.isr, cluster.leader(P))
    assert [] == ongoing(cluster)
    assert [b"a"] == cluster.values(P)


def test_a_reassignment_waits_until_those_that_come_are_in_sync() -> None:
    cluster = Replicated(default_replication_factor=1)
    cluster.produce(b"a")
    cluster.lag(LAG, 2)
    assert OK is reassign(cluster, [2])
    assert [([2, 1], [2], [1])] == ongoing(cluster)
    assert (1, {1}) == (cluster.leader(P), cluster.isr)
    cluster.world.advance(LAG - 1)
    assert 1 == cluster.leader(P)
    cluster.world.advance(1)
    assert [] == ongoing(cluster)
    assert ((2,), {2}, 2) == (cluster.partition().replicas, cluster.isr, cluster.leader(P))
    assert [b"a"] == cluster.values(P)


def test_a_reassignment_is_cancelled() -> None:
    cluster = Replicated(default_replication_factor=1)
    assert ErrorCode.NO_REASSIGNMENT_IN_PROGRESS is reassign(cluster, None)
    cluster.lag(None, 2)
    assert OK is reassign(cluster, [2])
    assert 1 == len(ongoing(cluster))
    assert OK is reassign(cluster, None)
    assert [] == ongoing(cluster)
    assert (1,) == cluster.partition().replicas


def test_the_order_of_replicas_is_changed_and_the_leader_is_not() -> None:
    cluster = Replicated()
    assert OK is reassign(cluster, [3, 1, 2])
    assert ((3, 1, 2), 1) == (cluster.partition().replicas, cluster.leader(P))
    assert OK is elect(cluster)
    assert 3 == cluster.leader(P)


def test_the_leader_that_leaves_makes_room_in_a_new_epoch() -> None:
    cluster = Replicated()
    epoch = cluster.partition().leader_epoch
    assert OK is reassign(cluster, [1, 3])
    # Nobody leads who did not, and yet whoever has left must not be believed.
    assert (1, epoch + 1) == (cluster.leader(P), cluster.partition().leader_epoch)
    assert OK is reassign(cluster, [3])
    assert (3, epoch + 2) == (cluster.leader(P), cluster.partition().leader_epoch)
