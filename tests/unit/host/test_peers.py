"""The channel between brokers: what waits for one answer does not wait for another, and a node may ask itself."""

from __future__ import annotations

import pytest
from msgspec import Struct
from msgspec.structs import replace

from odradek.broker import Node
from odradek.faults.one_line import rule
from odradek.host.call import Call
from odradek.host.events import Command
from odradek.host.router import Router
from odradek.metadata.controller import Controller
from odradek.releases.table import WIDEST
from odradek.sim import World
from odradek.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from odradek.wire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from odradek.wire.messages.apis import METADATA
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.metadata_response import MetadataResponse
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

    world.post(2, Command(lambda: node.kernel.spawn(ask())))
    world.run()
    return heard


@pytest.mark.parametrize("encoded", [False, True])
def test_an_api_does_not_wait_for_another(encoded: bool) -> None:
    world = World(brokers=2, encoded=encoded)
    world.arm(rule(ApiKey.METADATA, hold=True, broker=1))
    assert [] == call(world, ApiKey.METADATA, within_ms=1_000)
    assert 1 == len(call(world, ApiKey.ALLOCATE_PRODUCER_IDS, within_ms=1_000))


@pytest.mark.parametrize("encoded", [False, True])
def test_a_call_that_takes_too_long_does_not_hold_up_the_next(encoded: bool) -> None:
    world = World(brokers=2, encoded=encoded)
    world.arm(rule(ApiKey.METADATA, hold=True, broker=1))
    late = call(world, ApiKey.METADATA, within_ms=1_000)
    world.advance(999)
    assert [] == late
    world.advance(1)
    assert [None] == late
    [answer] = call(world, ApiKey.METADATA, within_ms=1_000)
    assert answer is not None


@pytest.mark.parametrize("encoded", [False, True])
def test_whoever_serves_a_request_may_change_it(encoded: bool) -> None:
    world = World(brokers=2, encoded=encoded)
    node = world.nodes[2]
    served: list[MetadataRequest] = []

    def change(call: Call) -> MetadataResponse:
        request = call.request_of(METADATA)
        assert request.topics is not None
        request.topics.clear()
        served.append(request)
        return answered

    answered = MetadataResponse(cluster_id="before")
    world.arm(rule(ApiKey.METADATA, reply=change, broker=1))
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    heard: list[MetadataResponse | None] = []

    async def ask() -> None:
        heard.append(
            await node.peers.call(1, ApiKey.METADATA, 12, request, MetadataResponse, deadline=world.now + 1_000)
        )

    world.post(2, Command(lambda: node.kernel.spawn(ask())))
    world.run()
    answered.cluster_id = "after"
    assert [MetadataRequest(topics=[])] == served
    assert [MetadataRequestTopic(name="t")] == request.topics
    [answer] = heard
    assert answer is not None
    assert "before" == answer.cluster_id


@pytest.mark.parametrize("encoded", [False, True])
def test_an_answer_that_cannot_be_written_is_one_that_says_so(encoded: bool) -> None:
    world = World(brokers=2, encoded=encoded)
    world.log.raises = False
    controller = world.nodes[1]
    serve = controller.router.handler(ApiKey.METADATA, 12, broker=True)
    assert serve is not None

    async def serves(call: Call) -> MetadataResponse:
        return MetadataResponse(cluster_id="x" * 32_768)

    serve.serve = serves
    [answer] = call(world, ApiKey.METADATA, within_ms=1_000)
    assert isinstance(answer, MetadataResponse)
    assert answer.cluster_id is None
    assert "answer_unwritable" in [line[1] for line in world.log.lines]


@pytest.mark.parametrize("encoded", [False, True])
def test_a_version_that_is_not_served_ends_the_connection(encoded: bool) -> None:
    world = World(brokers=2, encoded=encoded)
    node = world.nodes[2]
    heard: list[object] = []

    async def ask() -> None:
        request = MetadataRequest(topics=[])
        heard.append(await node.peers.call(1, ApiKey.METADATA, 2, request, MetadataResponse, deadline=world.now + 9))

    world.nodes[1].router = Router(replace(WIDEST, apis={"METADATA": (3, 12)}))
    world.post(2, Command(lambda: node.kernel.spawn(ask())))
    world.run()
    assert [None] == heard
    assert "unsupported_api" in [line[2].get("reason") for line in world.log.lines]


def asked_of_itself(world: World, *, within_ms: int) -> list[object]:
    """The broker asks itself for producer ids; what it hears, once it does."""
    node = world.nodes[1]
    heard: list[object] = []
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=node.image.brokers[1].epoch)

    async def ask() -> None:
        deadline = world.now + within_ms
        heard.append(
            await node.peers.call(
                1, ApiKey.ALLOCATE_PRODUCER_IDS, 0, request, AllocateProducerIdsResponse, deadline=deadline
            )
        )

    world.post(1, Command(lambda: node.kernel.spawn(ask())))
    world.run()
    return heard


@pytest.mark.parametrize("calls_itself", [False, True])
def test_a_node_is_answered_by_itself_whichever_way_it_asks(calls_itself: bool) -> None:
    world = World(calls_itself=calls_itself)
    [answer] = asked_of_itself(world, within_ms=100)
    assert isinstance(answer, AllocateProducerIdsResponse)
    assert 1000 == answer.producer_id_len


@pytest.mark.parametrize("calls_itself", [False, True])
@pytest.mark.parametrize("what", ["before", "after"])
def test_a_fault_takes_what_a_node_asks_of_itself(calls_itself: bool, what: str) -> None:
    world = World(calls_itself=calls_itself)
    fault = world.arm(rule(ApiKey.ALLOCATE_PRODUCER_IDS, disconnect=what))
    assert [None] == asked_of_itself(world, within_ms=100)
    assert 1 == fault.hits


@pytest.mark.parametrize("calls_itself", [False, True])
def test_a_node_gives_up_on_itself_and_the_request_goes_on(calls_itself: bool) -> None:
    world = World(calls_itself=calls_itself)
    fault = world.arm(rule(ApiKey.ALLOCATE_PRODUCER_IDS, hold=True))
    heard = asked_of_itself(world, within_ms=100)
    assert [] == heard
    world.advance(200)
    assert [None] == heard
    before = world.nodes[1].image.next_producer_id
    world.disarm(fault)
    assert before < world.nodes[1].image.next_producer_id


def test_what_fails_in_a_node_that_asks_itself_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(calls_itself=True)
    world.log.raises = False

    def broken(self: Controller, request: AllocateProducerIdsRequest) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(Controller, "allocate_producer_ids", broken)
    assert [None] == asked_of_itself(world, within_ms=100)
    assert "request_failed" in [line[1] for line in world.log.lines]
