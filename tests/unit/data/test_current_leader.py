"""Whoever asks the wrong broker is told the epoch of its partition, also while nobody leads it (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import Struct
from tests.unit.host.helpers import fetch_request

from odradek.sim import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData


def produces(world: World, node_id: int) -> tuple[int, int, int, list[int]]:
    data = PartitionProduceData(index=0, records=None)
    request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData("t", partition_data=[data])])
    response = world.client(node_id).ask(request, 11)
    return told(response, response.responses[0].partition_responses[0])


def fetches(world: World, node_id: int) -> tuple[int, int, int, list[int]]:
    request = fetch_request((0, 0))
    topic = world.nodes[node_id].image.topic("t")
    assert topic is not None
    request.topics[0].topic, request.topics[0].topic_id = "", topic.id
    response = world.client(node_id).ask(request, 17)
    return told(response, response.responses[0].partitions[0])


def told(response: Struct, partition: Struct) -> tuple[int, int, int, list[int]]:
    hint = partition.current_leader  # type: ignore[attr-defined]
    endpoints = [each.node_id for each in response.node_endpoints]  # type: ignore[attr-defined]
    return partition.error_code, hint.leader_id, hint.leader_epoch, endpoints  # type: ignore[attr-defined]


@pytest.mark.parametrize("ask", [produces, fetches])
def test_who_leads_and_since_when(ask: Callable[[World, int], tuple[int, int, int, list[int]]]) -> None:
    world = World(brokers=2, topics=["t:1:1"])
    leader = world.leader_known_to(1, "t", 0)
    other = 3 - leader
    assert ask(world, other) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, leader, 0, [leader])
    world.stop_broker(leader)
    assert ask(world, other) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, 1, [])
    world.start_broker(leader)
    assert ask(world, other) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, leader, 2, [leader])
