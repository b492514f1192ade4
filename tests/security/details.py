"""What permissions mean beyond one for each API: who follows, what has no name, and what is seen of a group."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.security.tokens import come_as
from tests.security.wire import Raw

from odradek.wire.messages import (
    consumer_group_describe_request,
    delete_groups_request,
    delete_topics_request,
    describe_share_group_offsets_request,
    fetch_request,
    offset_for_leader_epoch_request,
    produce_request,
    share_group_describe_request,
)
from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from odradek.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest

__all__ = ["DETAILS"]

MEMBER = "Zm9yIHRoZSBkZXRhaWxzIQ"
BEATS = 50


def _fetch(name: str, replica_id: int = -1) -> fetch_request.FetchRequest:
    m = fetch_request
    wanted = m.FetchPartition(partition=0, partition_max_bytes=1000)
    return m.FetchRequest(replica_id=replica_id, max_wait_ms=0, topics=[m.FetchTopic(topic=name, partitions=[wanted])])


def fetches_of_no_name(raw: Raw) -> None:
    for version in (4, 12):
        raw.ask(_fetch(""), version)


def fetches_of_a_follower(raw: Raw) -> None:
    for name in ("open-1", "hidden", "absent"):
        raw.ask(_fetch(name, replica_id=2), 12)


def produces_to_no_id(raw: Raw) -> None:
    m = produce_request
    data = m.TopicProduceData(topic_id=bytes(16), partition_data=[m.PartitionProduceData(index=0, records=None)])
    raw.ask(m.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]), 13)


def deletes_what_is_not_there(raw: Raw) -> None:
    """`seen-not` may be described, `absent` may not."""
    m = delete_topics_request
    for name in ("seen-not", "absent"):
        raw.ask(m.DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), 5)
        raw.ask(m.DeleteTopicsRequest(topics=[m.DeleteTopicState(name=name)], timeout_ms=1000), 6)


def epochs_for_who_may_act_for_the_cluster(raw: Raw) -> None:
    m = offset_for_leader_epoch_request
    asked = [
        m.OffsetForLeaderTopic(topic=name, partitions=[m.OffsetForLeaderPartition(partition=0, leader_epoch=0)])
        for name in ("hidden", "absent")
    ]
    for user in ("alice", "carol"):
        come_as(raw, user)
        raw.ask(m.OffsetForLeaderEpochRequest(topics=asked), 4)


def _beat_until_assigned(raw: Raw, joins: ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest) -> None:
    """Until its coordinator is there, and it has partitions."""
    topics = joins.subscribed_topic_names
    for _ in range(BEATS):
        answer = raw.ask(joins, 1)
        if answer.error_code == 0 and answer.assignment is not None and answer.assignment.topic_partitions:
            return
        time.sleep(0.2)
        joins.member_epoch = answer.member_epoch if answer.error_code == 0 else 0
        joins.subscribed_topic_names = topics if joins.member_epoch == 0 else None
        if isinstance(joins, ConsumerGroupHeartbeatRequest):
            joins.rebalance_timeout_ms = 60_000 if joins.member_epoch == 0 else -1
            joins.topic_partitions = [] if joins.member_epoch == 0 else None


def _leave_nothing_behind(raw: Raw, member: ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest) -> None:
    """Other stories of the same broker list its groups."""
    member.member_epoch, member.subscribed_topic_names = -1, None
    raw.ask(member, 1)
    raw.ask(delete_groups_request.DeleteGroupsRequest(groups_names=[member.group_id]), 2)


def offsets_that_are_shared_of_hidden_topics(raw: Raw) -> None:
    come_as(raw, "bob")
    share = ShareGroupHeartbeatRequest(
        group_id="watched-by-two", member_id=MEMBER, member_epoch=0, subscribed_topic_names=["hidden", "seen"]
    )
    _beat_until_assigned(raw, share)
    m = describe_share_group_offsets_request
    everything = m.DescribeShareGroupOffsetsRequestGroup(group_id="watched-by-two", topics=None)
    topics = [m.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0]) for name in ("hidden", "seen")]
    named = m.DescribeShareGroupOffsetsRequestGroup(group_id="watched-by-two", topics=topics)
    hidden = m.DescribeShareGroupOffsetsRequestGroup(group_id="watched-by-two", topics=topics[:1])
    barred = m.DescribeShareGroupOffsetsRequestGroup(group_id="mine", topics=topics)
    for _ in range(BEATS):  # until the share coordinator knows where the partitions begin
        answer = raw.ask(m.DescribeShareGroupOffsetsRequest(groups=[everything]), 0)
        if {topic.topic_name for topic in answer.groups[0].topics} == {"hidden", "seen"}:
            break
        time.sleep(0.2)
    raw.lines.clear()
    for user in ("bob", "alice"):
        come_as(raw, user)
        for groups in ([everything], [named], [hidden], [barred, named]):
            answer = raw.ask(m.DescribeShareGroupOffsetsRequest(groups=groups), 1)
    come_as(raw, "bob")
    _leave_nothing_behind(raw, share)


def groups_of_hidden_topics(raw: Raw) -> None:
    come_as(raw, "bob")
    beat = ConsumerGroupHeartbeatRequest(
        group_id="watched",
        member_id=MEMBER,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["hidden"],
        topic_partitions=[],
    )
    share = ShareGroupHeartbeatRequest(
        group_id="watched-too", member_id=MEMBER, member_epoch=0, subscribed_topic_names=["hidden"]
    )
    for joins in (beat, share):
        _beat_until_assigned(raw, joins)
    come_as(raw, "alice")
    raw.lines.clear()
    described = consumer_group_describe_request.ConsumerGroupDescribeRequest(group_ids=["watched"])
    raw.ask(described, 1)
    raw.ask(share_group_describe_request.ShareGroupDescribeRequest(group_ids=["watched-too"]), 1)
    come_as(raw, "bob")
    for leaves in (beat, share):
        _leave_nothing_behind(raw, leaves)


DETAILS: dict[str, Callable[[Raw], None]] = {
    story.__name__: story
    for story in (
        fetches_of_no_name,
        fetches_of_a_follower,
        produces_to_no_id,
        deletes_what_is_not_there,
        epochs_for_who_may_act_for_the_cluster,
        groups_of_hidden_topics,
        offsets_that_are_shared_of_hidden_topics,
    )
}
"""Stories that begin as alice."""
