"""Heartbeats of share groups, whose assignments are computed at most once in an interval (KIP-1263)."""

from __future__ import annotations

import pytest

from odradek.records.compression import Compression
from odradek.sim import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest
from odradek.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from odradek.wire.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse

INTERVAL_MS = 1000


class Member:
    """The only member of its group; it has two topics with three partitions."""

    def __init__(self, **config: int) -> None:
        configured = {"group.share.assignment.interval.ms": INTERVAL_MS}
        configured |= {name.replace("_", "."): value for name, value in config.items()}
        self.world = World(brokers=1, config=configured)
        self.client = self.world.client()
        topics = [CreatableTopic(name=name, num_partitions=n, replication_factor=1) for name, n in (("t", 2), ("u", 1))]
        self.client.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7)
        self.epoch = 0
        self.beat("t", "u")
        while self.assigned() != 3:
            self.world.advance(100)

    def beat(self, *names: str) -> ShareGroupHeartbeatResponse:
        answer: ShareGroupHeartbeatResponse = self.client.ask(
            ShareGroupHeartbeatRequest(
                group_id="g", member_id="m", member_epoch=self.epoch, subscribed_topic_names=list(names) or None
            ),
            1,
        )
        assert ErrorCode.NONE == answer.error_code
        self.epoch = answer.member_epoch
        return answer

    def assigned(self, *names: str) -> int | None:
        """How many partitions the answer tells of; None if it tells of none that are new."""
        told = self.beat(*names).assignment
        return None if told is None else sum(len(topic.partitions) for topic in told.topic_partitions)


def test_a_topic_that_is_gone_is_taken_away_before_the_next_assignment() -> None:
    member = Member()
    epoch = member.epoch
    member.client.ask(DeleteTopicsRequest(topic_names=["u"], timeout_ms=1000), 5)

    assert (2, epoch) == (member.assigned(), member.epoch)
    member.world.advance(INTERVAL_MS)
    assert (None, epoch + 1) == (member.assigned(), member.epoch)


def test_a_topic_that_is_not_wanted_any_more_is_taken_away_before_the_next_assignment() -> None:
    member = Member()
    epoch = member.epoch

    assert (2, epoch) == (member.assigned("t"), member.epoch)
    assert (3, epoch) == (member.assigned("t", "u"), member.epoch)


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
def test_the_states_of_share_partitions_are_compressed_as_the_operator_wants(codec: Compression) -> None:
    """`share.coordinator.state.topic.compression.codec`."""
    member = Member(share_coordinator_state_topic_compression_codec=int(codec))
    partitions = member.world.nodes[1].partitions.items()
    states = [partition for (topic, _), partition in partitions if topic == "__share_group_state"]
    written = [batch for partition in states for batch in partition.committed_since(0)]
    assert {codec} == {batch.compression for batch in written}
