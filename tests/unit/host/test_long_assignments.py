"""A member of a group that is assigned very many partitions: how much is done for each of them, counted in calls."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from odradek.share.state_client import ShareStateClient
from odradek.sim import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from odradek.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from odradek.wire.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)

MANY = 2_000
TOPICS = 300
BEGUN_AT_ONCE = 20
"""No more share states are begun in one go."""
CONFIG = {"offsets.topic.num.partitions": 1, "odradek.internal.topics.at.start": True}


def calls_for(partitions: int, request: msgspec.Struct, version: int) -> int:
    """How many calls, those into C included, the heartbeat of a first member costs its broker."""
    world = World(topics=[f"t:{partitions}"], config=CONFIG, tells=False, calls_itself=True)
    client = world.client()
    world.run()
    node = world.nodes[1]
    step = node.step
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    def counted(*arguments: Any) -> Any:
        sys.setprofile(count)
        try:
            return step(*arguments)
        finally:
            sys.setprofile(None)

    node.step = counted  # type: ignore[method-assign, assignment]
    assert ErrorCode.NONE == client.ask(request, version).error_code
    return calls


CONSUMER = ConsumerGroupHeartbeatRequest(
    group_id="c", member_id="m", rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[]
)
STREAMS = StreamsGroupHeartbeatRequest(
    group_id="s",
    member_id="m",
    rebalance_timeout_ms=60_000,
    process_id="p",
    topology=Topology(epoch=1, subtopologies=[Subtopology(subtopology_id="0", source_topics=["t"])]),
    active_tasks=[],
    standby_tasks=[],
    warmup_tasks=[],
)


@pytest.mark.parametrize(
    ("beat", "version", "at_most"), [(CONSUMER, 1, 2), (STREAMS, 0, 16)], ids=["consumer", "streams"]
)
def test_a_partition_more_is_little_more_work(beat: msgspec.Struct, version: int, at_most: int) -> None:
    calls_for(1, beat, version)  # which imports what it needs
    few, many = (calls_for(partitions, beat, version) for partitions in (MANY, 2 * MANY))
    assert (many - few) / MANY <= at_most


def test_the_states_of_many_topics_with_a_partition_each_begin_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"t{index}" for index in range(TOPICS)]
    world = World(topics=names, config=CONFIG, calls_itself=True)
    client = world.client()
    world.run()
    node = world.nodes[1]
    step, counts = node.step, [0]

    def steps(*arguments: Any) -> Any:
        counts.append(0)
        return step(*arguments)

    initialize = ShareStateClient.initialize

    async def begins(*arguments: Any) -> Any:
        counts[-1] += 1
        return await initialize(*arguments)

    monkeypatch.setattr(node, "step", steps)
    monkeypatch.setattr(ShareStateClient, "initialize", begins)
    client.ask(ShareGroupHeartbeatRequest(group_id="s", member_id="m", subscribed_topic_names=names), 1)
    world.run()
    assert TOPICS == sum(counts)
    assert max(counts) <= BEGUN_AT_ONCE
