"""What rules do: what is held is served when it is released, whoever sent it and whatever else is held."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.host.helpers import batch, fetch_request, only, only_fetched, produce_request

from odradek.faults.one_line import rule
from odradek.host.call import Call
from odradek.sim import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import PRODUCE
from odradek.wire.messages.metadata_request import MetadataRequest
from odradek.wire.registry import ApiKey


def test_two_faults_that_look_the_same_are_lifted_one_by_one() -> None:
    world = World(topics=["t"])
    first = world.arm(rule(ApiKey.PRODUCE, hold=True, times="all"))
    second = world.arm(rule(ApiKey.PRODUCE, hold=True, times="all"))
    world.disarm(second)
    held = world.client().send(produce_request(batch(b"a")), 9)
    world.run()
    assert not held.arrived
    world.disarm(first)
    assert held.arrived
    assert 1 == world.client().ask(produce_request(batch(b"b")), 9).responses[0].partition_responses[0].base_offset


def test_a_request_that_is_held_outlives_its_connection() -> None:
    world = World(topics=["t"])
    fault = world.arm(rule(ApiKey.PRODUCE, hold=True))
    client = world.client()
    client.send(produce_request(batch(b"late")), 9)
    world.run()
    client.close()
    world.run()
    assert 0 == only_fetched(world.client().ask(fetch_request((0, 0)), 11)).high_watermark
    world.disarm(fault)
    assert 1 == only_fetched(world.client().ask(fetch_request((0, 0)), 11)).high_watermark


def test_a_late_answer_is_that_of_a_request_that_was_served_at_once() -> None:
    world = World(topics=["t"])
    world.arm(rule(ApiKey.PRODUCE, answer_delay_ms=500))
    answer = world.client().send(produce_request(batch(b"a")), 9)
    world.advance(499)
    assert not answer.arrived
    assert 1 == only_fetched(world.client().ask(fetch_request((0, 0)), 11)).high_watermark
    world.advance(1)
    assert answer.arrived


def values(world: World) -> int:
    """How many records the partition has."""
    return only_fetched(world.client().ask(fetch_request((0, 0)), 11)).high_watermark


def test_a_request_that_is_delayed_is_served_later() -> None:
    world = World(topics=["t"])
    world.arm(rule("PRODUCE", delay_ms=500))
    answer = world.client().send(produce_request(batch(b"a")), 9)
    world.advance(499)
    assert (False, 0) == (answer.arrived, values(world))
    world.advance(1)
    assert (True, 1) == (answer.arrived, values(world))


def test_so_many_are_released() -> None:
    world = World(topics=["t"])
    armed = world.arm(rule("PRODUCE", times="all", hold=True))
    answers = [world.client().send(produce_request(batch(b"a")), 9) for _ in range(3)]
    world.run()
    assert 3 == armed.held
    world.release(armed, 2)
    assert [True, True, False] == [answer.arrived for answer in answers]
    assert (1, 2) == (armed.held, values(world))
    world.release(armed)
    assert 0 == armed.held


def test_what_a_broker_holds_is_gone_with_it() -> None:
    world = World(brokers=2, topics=["t"])
    armed = world.arm(rule("METADATA", broker=2, times="all", hold=True))
    world.client(2).send(MetadataRequest(topics=None), 13)
    world.run()
    assert 1 == armed.held
    world.stop_broker(2)
    assert 0 == armed.held
    world.start_broker(2)
    world.release(armed)


@pytest.mark.parametrize(("acts", "appended", "closed", "answered"), [
    ({"drop": True}, 0, False, False),
    ({"disconnect": "before"}, 0, True, False),
    ({"disconnect": "after"}, 1, True, False),
    ({"error": "NOT_LEADER_OR_FOLLOWER"}, 0, False, True),
    ({"reply": {"responses": []}}, 0, False, True),
    ({"duplicate": True}, 2, False, True),
    ({"throttle_ms": 7}, 1, False, True),
])  # fmt: skip
def test_what_becomes_of_a_request(acts: dict[str, Any], appended: int, closed: bool, answered: bool) -> None:
    world = World(topics=["t"])
    armed = world.arm(rule("PRODUCE", **acts))
    client = world.client()
    answer = client.send(produce_request(batch(b"a")), 9)
    world.run()
    assert (closed, answered, 1) == (client.closed, answer.arrived, armed.hits)
    assert appended == values(world)
    assert [] == [line for line in world.log.lines if line[0] in ("error", "warning")]


def test_a_repeated_request_of_an_idempotent_producer_is_recognised() -> None:
    world = World(topics=["t"])
    world.arm(rule("PRODUCE", duplicate=True))
    first = batch(b"a", producer_id=7, producer_epoch=0, sequence=0)
    assert 0 == only(world.client().ask(produce_request(first), 9)).error_code
    assert 1 == values(world)
    second = batch(b"b", producer_id=7, producer_epoch=0, sequence=1)
    assert 0 == only(world.client().ask(produce_request(second), 9)).error_code


def test_an_answer_is_throttled_in_versions_that_can_say_so() -> None:
    world = World(topics=["t"])
    world.arm(rule("METADATA", times="all", throttle_ms=7))
    client = world.client()
    assert 7 == client.ask(MetadataRequest(topics=None), 13).throttle_time_ms
    assert client.ask(MetadataRequest(topics=[]), 0).brokers


def test_a_reply_is_the_response_in_kafkas_json() -> None:
    world = World(topics=["t"])
    partition = {"index": 3, "errorCode": "NOT_LEADER_OR_FOLLOWER", "baseOffset": 9}
    world.arm(
        rule("PRODUCE", reply={"responses": [{"name": "t", "partitionResponses": [partition]}], "nodeEndpoints": []})
    )
    answer = only(world.client().ask(produce_request(batch(b"a")), 9))
    assert (3, ErrorCode.NOT_LEADER_OR_FOLLOWER, 9) == (answer.index, answer.error_code, answer.base_offset)


def test_metadata_with_an_error_still_names_the_brokers() -> None:
    world = World(topics=["t", "u"])
    world.arm(rule("METADATA", error="LEADER_NOT_AVAILABLE"))
    answer = world.client().ask(MetadataRequest(topics=None), 12)
    assert 1 == len(answer.brokers)
    assert [ErrorCode.LEADER_NOT_AVAILABLE] * 4 == [topic.error_code for topic in answer.topics]


def test_a_repeated_request_is_the_one_that_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Routes may change the request that they are given."""
    world = World(topics=["t"])
    handler = world.nodes[1].router.handler(ApiKey.PRODUCE, 9, broker=False)
    assert handler is not None
    serve, topics = handler.serve, []

    async def changing(call: Call) -> Any:
        topics.append([topic.name for topic in call.request_of(PRODUCE).topic_data])
        response = await serve(call)
        call.request_of(PRODUCE).topic_data[0].name = "changed"
        return response

    monkeypatch.setattr(handler, "serve", changing)
    world.arm(rule("PRODUCE", duplicate=True))
    world.client().ask(produce_request(batch(b"a")), 9)
    assert [["t"], ["t"]] == topics
