"""Faults: what is held is served when it is released, whoever sent it and whatever else is held."""

from __future__ import annotations

from tests.unit.node.helpers import batch, fetch_request, only_fetched, produce_request

from odradek.node.rules.model import rule
from odradek.sim import World
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
