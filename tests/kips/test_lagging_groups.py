"""Groups of KIP-848 and KIP-1071 whose coordinator has replicas that lag: each decision follows from the one before."""

from __future__ import annotations

import pytest
from msgspec import Struct
from tests.kips.test_replicas import LAG, Replicated

from odradek.wire.errors import ErrorCode
from odradek.wire.messages import streams_group_heartbeat_request as streams
from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
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
def test_who_waits_for_a_turn_is_sent_to_the_next_coordinator(member) -> None:  # type: ignore[no-untyped-def]
    cluster = Replicated()
    cluster.lag(LAG)
    answers = [cluster.send(1, member(name), 1) for name in "AB"]
    cluster.world.advance(10)
    cluster.move(("__consumer_offsets", 0), 2)
    cluster.world.advance(10 * LAG)

    assert {answer.response.error_code for answer in answers} == {ErrorCode.NOT_COORDINATOR}
