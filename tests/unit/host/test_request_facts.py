"""The facts `request` and `response`: which answer belongs to which request, what it says, and when there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec import Struct
from tests.kips.cluster import Cluster
from tests.kips.helpers import OK, P
from tests.kips.producer import Producer
from tests.unit.host.helpers import batch, fetch_request, produce_request

from odradek.core.machine import Fact
from odradek.faults.model import Rule
from odradek.faults.one_line import rule
from odradek.sim import World
from odradek.sim.run import Run
from odradek.sim.workloads.draw import draw
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.fetch_request import FetchRequest
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.metadata_response import MetadataResponse
from odradek.wire.registry import ApiKey

Pair = tuple[int, Fact, Fact | None]


def pairs(world: World, first: int = 0) -> list[Pair]:
    """Each request with its node, and its response if there is one; no two that wait are alike."""
    found: list[Pair] = []
    waiting: dict[tuple[object, ...], int] = {}
    for node, fact in world.facts[first:]:
        if fact.kind not in ("request", "response"):
            continue
        key = (node, fact.fields["connection"], fact.fields["correlation"])
        if fact.kind == "request":
            assert key not in waiting
            waiting[key] = len(found)
            found.append((node, fact, None))
        else:
            _, request, nothing = found[waiting.pop(key)]
            assert nothing is None
            assert request.fields.items() <= fact.fields.items()
            found[found.index((node, request, None))] = (node, request, fact)
    return found


def of_clients(world: World, first: int = 0) -> list[tuple[Fact, Fact | None]]:
    told = pairs(world, first)
    return [(request, response) for _, request, response in told if not request.fields["from_broker"]]


def asked(act: Callable[[World], object], *rules: Rule) -> list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
    """What is told of what a client does: the fields and bodies of requests and of their responses."""
    world = World(topics=["t"])
    for each in rules:
        world.arm(each)
    before = len(world.facts)
    act(world)
    world.run()
    return [
        (request.fields | request.body, None if response is None else response.fields | response.body)
        for request, response in of_clients(world, before)
    ]


def metadata(world: World) -> object:
    return world.client().send(MetadataRequest(topics=None), 12)


def test_a_request_and_its_response() -> None:
    [(request, response)] = asked(metadata)
    assert response is not None
    head = {"api": "METADATA", "version": 12, "correlation": 1, "client_id": "client", "from_broker": False}
    assert head.items() <= request.items()
    assert request["connection"] > 0
    assert {"topics": None, "allowAutoTopicCreation": True, "includeTopicAuthorizedOperations": False} == request[
        "body"
    ]
    assert head | {"connection": request["connection"], "error": "NONE", "duration_ns": 0} == {
        name: value for name, value in response.items() if name != "body"
    }
    assert "t" in {topic["name"] for topic in response["body"]["topics"]}


def test_requests_that_are_sent_one_behind_the_other_are_told_apart() -> None:
    def act(world: World) -> None:
        client = world.client()
        for number in range(20):
            client.send(produce_request(batch(b"%d" % number)), 9)

    told = asked(act)
    offsets = [
        response["body"]["responses"][0]["partitionResponses"][0]["baseOffset"]
        for _, response in told
        if response is not None
    ]
    assert list(range(20)) == offsets


def test_how_long_it_took_by_the_clock_of_the_broker() -> None:
    def act(world: World) -> None:
        world.client().send(fetch_request((0, 0), max_wait_ms=500), 11)
        world.advance(500)

    [(_, response)] = asked(act)
    assert response is not None
    assert 500_000_000 == response["duration_ns"]


def test_the_error_is_the_first_in_the_response() -> None:
    def act(world: World) -> None:
        client = world.client()
        client.ask(EndTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, committed=True), 3)
        client.ask(produce_request(batch(b"x"), topic="nowhere"), 9)
        client.ask(fetch_request((0, 99)), 11)

    def first_asks(world: World) -> None:
        world.client().ask(FindCoordinatorRequest(key_type=1, key="x"), 3)
        world.run()
        act(world)

    errors = [response and response["error"] for _, response in asked(first_asks)]
    assert ["NONE", "INVALID_PRODUCER_ID_MAPPING", "UNKNOWN_TOPIC_OR_PARTITION", "OFFSET_OUT_OF_RANGE"] == errors


# ---------------------------------------------------------------------- no answer


def test_what_wants_no_answer_has_none() -> None:
    [(request, response)] = asked(lambda world: world.client().send(produce_request(batch(b"x"), acks=0), 9))
    assert ("PRODUCE", 0, None) == (request["api"], request["body"]["acks"], response)


@pytest.mark.parametrize(
    "act",
    [{"drop": True}, {"disconnect": "before"}, {"disconnect": "after"}, {"hold": True}, {"answer_delay_ms": 1000}],
    ids=str,
)
def test_what_a_rule_keeps_back_has_none(act: dict[str, Any]) -> None:
    [(_, response)] = asked(metadata, rule("METADATA", **act))
    assert response is None


@pytest.mark.parametrize(
    "request_",
    [fetch_request((0, 0), max_wait_ms=500), produce_request(batch(b"x"))],
    ids=lambda each: type(each).__name__,
)
def test_a_connection_that_ends_first_has_none(request_: Struct) -> None:
    world = World(topics=["t"])
    held = world.arm(rule("PRODUCE", hold=True))
    before = len(world.facts)
    client = world.client()
    client.send(request_, 11 if isinstance(request_, FetchRequest) else 9)
    world.run()
    client.close()
    world.run()
    world.disarm(held)
    world.advance(1000)
    [(_, response)] = of_clients(world, before)
    assert response is None


def test_one_that_is_answered_later_has_its_answer_then() -> None:
    world = World()
    held = world.arm(rule("METADATA", hold=True))
    answer = world.client().send(MetadataRequest(topics=[]), 12)
    world.run()
    assert [None] == [response for _, response in of_clients(world)]
    world.advance(3000)
    world.disarm(held)
    assert answer.arrived
    [(_, response)] = of_clients(world)
    assert response is not None
    assert 3_000_000_000 == response.fields["duration_ns"]


# ---------------------------------------------------------------------- what the client gets counts


def test_an_answer_that_a_rule_gives() -> None:
    [(_, response)] = asked(metadata, rule("METADATA", error="UNKNOWN_SERVER_ERROR"))
    assert response is not None
    assert "UNKNOWN_SERVER_ERROR" == response["error"]
    [(_, response)] = asked(metadata, rule("METADATA", reply=lambda call: MetadataResponse(controller_id=77)))
    assert response is not None
    assert ("NONE", 77) == (response["error"], response["body"]["controllerId"])
    [(_, response)] = asked(metadata, rule("METADATA", throttle_ms=5))
    assert response is not None
    assert 5 == response["body"]["throttleTimeMs"]


def test_a_request_that_is_served_twice_is_answered_once() -> None:
    told = asked(lambda world: world.client().send(produce_request(batch(b"x")), 9), rule("PRODUCE", duplicate=True))
    [(_, response)] = told
    assert response is not None


def test_a_request_that_fails_inside_the_broker() -> None:
    def reply(call: object) -> object:
        raise ZeroDivisionError

    world = World()
    world.log.raises = False
    world.arm(rule("METADATA", reply=reply))
    world.client().send(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
    world.run()
    [(_, response)] = of_clients(world)
    assert response is not None
    assert "UNKNOWN_SERVER_ERROR" == response.fields["error"]


# ---------------------------------------------------------------------- between brokers


@pytest.mark.parametrize("calls_itself", [True, False])
def test_what_brokers_ask_of_one_another_is_answered(calls_itself: bool) -> None:
    cluster = Cluster(calls_itself=calls_itself)
    producer = Producer.started(cluster)
    assert OK is producer.send(P)
    assert OK is producer.commit()
    cluster.world.run()
    told = [each for each in pairs(cluster.world) if each[1].fields["from_broker"]]
    assert {"ADD_PARTITIONS_TO_TXN", "WRITE_TXN_MARKERS"} <= {request.fields["api"] for _, request, _ in told}
    for _, request, response in told:
        assert response is not None
        assert calls_itself == (request.fields["connection"] == 0)
        assert "NONE" == response.fields["error"]
        assert {"body"} == request.body.keys() == response.body.keys()


def test_of_what_comes_too_late_for_who_asked_no_answer_is_told() -> None:
    cluster = Cluster(calls_itself=True, request_timeout_ms=1000)
    producer = Producer.started(cluster)
    held = cluster.hold(ApiKey.ADD_PARTITIONS_TO_TXN, times=1)
    assert OK is not producer.send(P)
    cluster.world.advance(60_000)
    cluster.release(held)
    cluster.world.run()
    lost = [
        request
        for _, request, response in pairs(cluster.world)
        if request.fields["api"] == "ADD_PARTITIONS_TO_TXN" and response is None
    ]
    assert lost


def test_in_a_run_with_faults_each_response_has_one_request() -> None:
    run = Run(draw(3, "general"))
    run.play()
    told = pairs(run.world)
    answered = [pair for pair in told if pair[2] is not None]
    assert 1000 < len(answered) < len(told)
    assert {name for _, request, response in answered for name in (request.body | (response or request).body)} <= {
        "body",
        "body_bytes",
    }
