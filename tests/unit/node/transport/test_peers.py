"""The channel between brokers: what waits for one answer does not wait for another."""

from __future__ import annotations

from msgspec import Struct

from odradek.node.events import Command
from odradek.node.faults import Fault
from odradek.node.node import Node
from odradek.sim import World
from odradek.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from odradek.wire.messages.metadata_request import MetadataRequest
from odradek.wire.registry import ApiKey, response_type


def call(world: World, api_key: ApiKey, *, within_ms: int) -> list[object]:
    """Broker 2 asks broker 1; what it hears, once it does."""
    node: Node = world.nodes[2]
    heard: list[object] = []
    request: Struct
    if api_key is ApiKey.METADATA:
        request, version = MetadataRequest(topics=[]), 12
    else:
        request, version = AllocateProducerIdsRequest(broker_id=2, broker_epoch=-1), 0

    async def ask() -> None:
        answer = response_type(api_key)
        heard.append(await node.peers.call(1, api_key, version, request, answer, deadline=world.now + within_ms))

    world.post(2, Command(lambda: node.spawn(ask())))
    world.run()
    return heard


def test_an_api_does_not_wait_for_another() -> None:
    world = World(brokers=2)
    world.fault(Fault(ApiKey.METADATA, hold=True), node_id=1)
    assert [] == call(world, ApiKey.METADATA, within_ms=1_000)
    assert 1 == len(call(world, ApiKey.ALLOCATE_PRODUCER_IDS, within_ms=1_000))


def test_a_call_that_takes_too_long_does_not_hold_up_the_next() -> None:
    world = World(brokers=2)
    world.fault(Fault(ApiKey.METADATA, hold=True), node_id=1)
    late = call(world, ApiKey.METADATA, within_ms=1_000)
    world.advance(999)
    assert [] == late
    world.advance(1)
    assert [None] == late
    [answer] = call(world, ApiKey.METADATA, within_ms=1_000)
    assert answer is not None
