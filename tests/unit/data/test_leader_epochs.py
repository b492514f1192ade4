"""Clients that name the leader epoch they believe in (KIP-320): leaders and the other replicas judge it alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.host.helpers import fetch_request, only_fetched

from odradek.sim import World
from odradek.sim.world.client import SimClient
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

FOLLOWER, LEADER, STRANGER = 1, 2, 3
EPOCH = 1


@pytest.fixture
def world() -> World:
    world = World(brokers=3, topics=["t:1:2"])
    world.move_leader("t", 0, to=LEADER)
    return world


def lists(client: SimClient, epoch: int) -> int:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=epoch)
    topic = ListOffsetsTopic(name="t", partitions=[wanted])
    return int(client.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 4).topics[0].partitions[0].error_code)


def asks_for_its_end(client: SimClient, epoch: int) -> int:
    wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[wanted])])
    return int(client.ask(request, 3).topics[0].partitions[0].error_code)


def fetches(client: SimClient, epoch: int) -> int:
    """As a consumer that does not know of racks, and is served by the leader alone (KIP-392)."""
    request = fetch_request((0, 0))
    request.topics[0].partitions[0].current_leader_epoch = epoch
    return int(only_fetched(client.ask(request, 10)).error_code)


@pytest.mark.parametrize("ask", [lists, asks_for_its_end, fetches])
@pytest.mark.parametrize(
    ("broker", "epoch", "error"),
    [
        (LEADER, EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (LEADER, EPOCH, ErrorCode.NONE),
        (LEADER, EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (LEADER, -1, ErrorCode.NONE),
        (FOLLOWER, EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (FOLLOWER, EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (FOLLOWER, EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (FOLLOWER, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (STRANGER, EPOCH - 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (STRANGER, EPOCH + 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_replica_judges_the_epoch_before_it_says_that_it_does_not_lead(
    world: World, ask: Callable[[SimClient, int], int], broker: int, epoch: int, error: ErrorCode
) -> None:
    assert ask(world.client(broker), epoch) == error
