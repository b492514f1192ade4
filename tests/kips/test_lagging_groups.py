"""Groups of KIP-848 and KIP-1071 whose coordinator has replicas that lag: each decision follows from the one before."""

from __future__ import annotations

import pytest
from msgspec import Struct
from tests.kips.test_replicas import LAG, Replicated

from odradek.wire.errors import ErrorCode
from odradek.wire.messages import streams_group_heartbeat_request as streams
from odradek.wire.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from odradek.wire.messages.delete_groups_request import DeleteGroupsRequest
from odradek.wire.messages.list_groups_request import ListGroupsRequest
from odradek.wire.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest


def consumer(member_id: str, epoch: int = 0) -> Struct:
    joins = epoch == 0
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=30_000 if joins else -1,
        subscribed_topic_names=["t"] if joins else None,
        topic_partitions=[] if joins else None,
    )


def thread(member_id: str, epoch: int = 0) -> Struct:
    joins = epoch == 0
    topology = streams.Topology(epoch=0, subtopologies=[streams.Subtopology(subtopology_id="0", source_topics=["t"])])
    tasks: list[streams.TaskIds] | None = [] if joins else None
    return StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=30_000 if joins else -1,
        topology=topology if joins else None,
        process_id=member_id if joins else None,
        active_tasks=tasks,
        standby_tasks=tasks,
        warmup_tasks=tasks,
    )


@pytest.mark.parametrize("member", [consumer, thread])
def test_two_members_that_join_at_once_are_both_in_the_group(member) -> None:  # type: ignore[no-untyped-def]
    cluster = Replicated(group_consumer_assignment_interval_ms=0, group_streams_assignment_interval_ms=0)
    cluster.lag(LAG)
    answers = [cluster.send(1, member(name), 1) for name in "ABC"]
    cluster.world.advance(10 * LAG)

    assert [ErrorCode.NONE] * 3 == [answer.response.error_code for answer in answers]
    assert [2, 3, 4] == [answer.response.member_epoch for answer in answers]


@pytest.mark.parametrize("member", [consumer, thread])
def test_who_has_left_is_gone_for_the_next_request(member) -> None:  # type: ignore[no-untyped-def]
    cluster = Replicated()
    joined = cluster.send(1, member("A"), 1)
    cluster.world.advance(LAG)
    cluster.lag(LAG)
    left, late = cluster.send(1, member("A", -1), 1), cluster.send(1, member("A", joined.response.member_epoch), 1)
    cluster.world.advance(10 * LAG)

    assert (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID) == (left.response.error_code, late.response.error_code)


@pytest.mark.parametrize("member", [consumer, thread])
def test_members_that_join_at_once_are_answered_when_the_last_of_them_is_committed(member) -> None:  # type: ignore[no-untyped-def]
    """Each is decided on at once, from what is not committed yet, as in Kafka's coordinator runtime."""
    cluster = Replicated()
    cluster.lag(LAG)
    answers = [cluster.send(1, member(name), 1) for name in "ABCDEFGH"]
    cluster.world.advance(LAG // 2)
    assert not any(answer.arrived for answer in answers)
    cluster.world.advance(LAG)

    assert [ErrorCode.NONE] * 8 == [answer.response.error_code for answer in answers]


@pytest.mark.parametrize("member", [consumer, thread])
def test_what_writes_nothing_waits_for_what_was_written_before_and_a_refusal_does_not(member) -> None:  # type: ignore[no-untyped-def]
    cluster = Replicated(group_consumer_assignment_interval_ms=60_000, group_streams_assignment_interval_ms=60_000)
    joined = cluster.send(1, member("A"), 1)
    cluster.world.advance(LAG)
    epoch = joined.response.member_epoch
    cluster.lag(LAG)
    cluster.send(1, member("B"), 1)
    cluster.world.run()
    beat, stranger = cluster.send(1, member("A", epoch), 1), cluster.send(1, member("X", epoch), 1)
    cluster.world.run()

    assert ErrorCode.UNKNOWN_MEMBER_ID == stranger.response.error_code
    assert not beat.arrived
    cluster.world.advance(LAG)
    assert ErrorCode.NONE == beat.response.error_code

    again = cluster.send(1, member("A", epoch), 1)
    cluster.world.run()
    assert again.arrived


def test_what_is_committed_does_not_bring_back_who_has_left_since() -> None:
    cluster = Replicated()
    cluster.lag(LAG)
    cluster.send(1, consumer("A"), 1)
    cluster.world.advance(LAG // 2)
    cluster.send(1, consumer("A", -1), 1)
    cluster.world.advance(LAG // 2 + 10)
    late = cluster.send(1, consumer("A", 2), 1)
    cluster.world.run()

    assert ErrorCode.UNKNOWN_MEMBER_ID == late.response.error_code


def states(cluster: Replicated) -> dict[str, str]:
    answer = cluster.send(1, ListGroupsRequest(), 5)
    cluster.world.run()
    return {group.group_id: group.group_state for group in answer.response.groups}


def described(cluster: Replicated) -> tuple[ErrorCode, list[str]]:
    answer = cluster.send(1, ConsumerGroupDescribeRequest(group_ids=["g"]), 1)
    cluster.world.run()
    [group] = answer.response.groups
    return ErrorCode(group.error_code), [member.member_id for member in group.members]


def test_what_is_told_of_groups_is_what_is_committed() -> None:
    cluster = Replicated()
    cluster.lag(LAG)
    cluster.send(1, consumer("A"), 1)
    cluster.world.run()
    assert ({}, (ErrorCode.GROUP_ID_NOT_FOUND, [])) == (states(cluster), described(cluster))
    cluster.world.advance(LAG)
    assert ({"g": "Stable"}, (ErrorCode.NONE, ["A"])) == (states(cluster), described(cluster))

    cluster.send(1, consumer("B"), 1)
    cluster.world.run()
    assert (ErrorCode.NONE, ["A"]) == described(cluster)
    cluster.world.advance(LAG)
    assert (ErrorCode.NONE, ["A", "B"]) == described(cluster)

    cluster.send(1, consumer("A", -1), 1)
    cluster.send(1, consumer("B", -1), 1)
    cluster.world.run()
    assert (ErrorCode.NONE, ["A", "B"]) == described(cluster)
    cluster.world.advance(LAG)
    assert ({"g": "Empty"}, (ErrorCode.NONE, [])) == (states(cluster), described(cluster))


def test_a_group_that_is_deleted_is_gone_for_the_next_member_and_begins_anew() -> None:
    cluster = Replicated()
    joined = cluster.send(1, consumer("A"), 1)
    cluster.world.advance(LAG)
    left = cluster.send(1, consumer("A", -1), 1)
    cluster.world.advance(LAG)
    assert ErrorCode.NONE == left.response.error_code
    cluster.lag(LAG)
    deleted = cluster.send(1, DeleteGroupsRequest(groups_names=["g"]), 2)
    again = cluster.send(1, consumer("B"), 1)
    cluster.world.advance(2 * LAG)

    assert ErrorCode.NONE == deleted.response.results[0].error_code
    assert joined.response.member_epoch == again.response.member_epoch
    assert (ErrorCode.NONE, ["B"]) == described(cluster)


@pytest.mark.parametrize("member", [consumer, thread])
def test_what_is_not_committed_when_the_coordinator_moves_is_asked_of_the_next(member) -> None:  # type: ignore[no-untyped-def]
    cluster = Replicated()
    cluster.lag(LAG)
    answers = [cluster.send(1, member(name), 1) for name in "AB"]
    cluster.world.advance(10)
    cluster.move(("__consumer_offsets", 0), 2)
    cluster.world.advance(10 * LAG)

    assert {answer.response.error_code for answer in answers} == {ErrorCode.NOT_COORDINATOR}
