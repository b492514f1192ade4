"""A client that asks for offsets one by one, as librdkafka does, is not held back by the first partition's Fetch."""

import pytest
from tests.unit.host.helpers import batch, fetch_request, only_fetched, produce_request

from odradek.data.about_to_read import PARTITIONS_MAX, SHORT_WAIT_MS, SHORT_WAITS, AboutToRead
from odradek.sim import SimClient, World
from odradek.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

WAIT_MS = 500
EARLIEST = -2


def begins(*partitions: int, replica_id: int = -1) -> ListOffsetsRequest:
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=EARLIEST) for index in partitions]
    return ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic(name="t", partitions=wanted)])


def epoch_ends(*partitions: int, replica_id: int = -1) -> OffsetForLeaderEpochRequest:
    wanted = [OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in partitions]
    return OffsetForLeaderEpochRequest(
        replica_id=replica_id, topics=[OffsetForLeaderTopic(topic="t", partitions=wanted)]
    )


def world_of(**config: object) -> tuple[World, SimClient]:
    world = World(topics=["t:3"], config=config)
    return world, world.client()


def waits_for(world: World, client: SimClient, *partitions: int) -> int:
    """For how long (ms) a Fetch at the end of these partitions waits for records."""
    began = world.now
    waiting = client.send(fetch_request(*((index, 0) for index in partitions), max_wait_ms=WAIT_MS), 11)
    world.run()
    while not waiting.arrived:
        world.advance(1)
    return world.now - began


def test_a_fetch_waits_briefly_while_its_client_is_about_to_read_another_partition() -> None:
    world, client = world_of()
    for index in (2, 1, 0):
        client.ask(begins(index), 5)
    assert SHORT_WAIT_MS == waits_for(world, client, 2)
    assert SHORT_WAIT_MS == waits_for(world, client, 2, 0)
    assert WAIT_MS == waits_for(world, client, 2, 0, 1)
    assert WAIT_MS == waits_for(world, client, 2)


def test_whoever_checks_a_leader_epoch_is_about_to_read_that_partition() -> None:
    world, client = world_of()
    client.ask(epoch_ends(1, 17), 3)
    assert SHORT_WAIT_MS == waits_for(world, client, 0)
    assert WAIT_MS == waits_for(world, client, 0, 1)
    client.ask(epoch_ends(1, replica_id=-2), 3)
    assert WAIT_MS == waits_for(world, client, 0)


def test_what_was_fetched_with_records_counts_too() -> None:
    world, client = world_of()
    client.ask(produce_request(batch(b"one"), partition=2), 9)
    client.ask(begins(0, 2), 5)
    assert only_fetched(client.ask(fetch_request((2, 0), max_wait_ms=WAIT_MS), 11)).records
    assert SHORT_WAIT_MS == waits_for(world, client, 1)
    client.ask(fetch_request((0, 0)), 11)
    assert WAIT_MS == waits_for(world, client, 1)


def test_a_fetch_that_waits_briefly_is_answered_with_records_at_once() -> None:
    world, client = world_of()
    client.ask(begins(0, 1), 5)
    waiting = client.send(fetch_request((0, 0), max_wait_ms=WAIT_MS), 11)
    world.run()
    world.client().ask(produce_request(batch(b"one")), 9)
    assert waiting.arrived
    assert only_fetched(waiting.response).records


def test_whoever_asks_for_another_reason_waits_again_after_a_while() -> None:
    world, client = world_of()
    client.ask(begins(0, 1), 5)
    waits = [waits_for(world, client, 0) for _ in range(SHORT_WAITS + 1)]
    assert [SHORT_WAIT_MS] * SHORT_WAITS + [WAIT_MS] == waits


def test_a_client_that_waits_for_less_does_so() -> None:
    world, client = world_of()
    client.ask(begins(0, 1), 5)
    waiting = client.send(fetch_request((0, 0), max_wait_ms=3), 11)
    world.advance(3)
    assert waiting.arrived


def test_other_connections_and_other_replicas_wait() -> None:
    world, client = world_of()
    world.client().ask(begins(0, 1), 5)
    client.ask(begins(0, 1, replica_id=-2), 5)
    client.ask(begins(17), 5)
    assert WAIT_MS == waits_for(world, client, 0)


def test_as_in_kafka_it_waits_when_fetches_do_not_yield() -> None:
    world, client = world_of(**{"odradek.fetch.yields": False})
    client.ask(begins(0, 1), 5)
    assert WAIT_MS == waits_for(world, client, 0)


def test_a_connection_that_ends_is_forgotten() -> None:
    world, client = world_of()
    client.ask(begins(0, 1), 5)
    assert 1 == len(world.nodes[1].about_to_read)
    client.close()
    world.run()
    assert 0 == len(world.nodes[1].about_to_read)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_tool_that_asks_about_very_many_partitions_is_no_consumer(at_once: bool) -> None:
    about_to_read = AboutToRead()
    partitions = [("t", index) for index in range(PARTITIONS_MAX + 1)]
    for some in [partitions] if at_once else [partitions[:-1], partitions[-1:]]:
        about_to_read.listed(1, some)
    assert not about_to_read.shortens(1)
