"""What rules cost a request that they are not about, in calls: a count is the same on every machine."""

from __future__ import annotations

import sys
from types import FrameType

from bench.rules import bytecodes
from tests.unit.host.helpers import batch, produce_request

from odradek.faults.one_line import rule
from odradek.sim import World

RATIO_MIN = 0.98
"""How fast a broker that could have rules is at least, against one that could not."""
ANOTHER_API_MAX = 12
"""Calls that a rule about another API may add to a Produce."""


def calls(world: World) -> tuple[int, set[str]]:
    """How many calls one Produce makes, and the modules that are in them."""
    client, request = world.client(), produce_request(batch(b"a"))
    client.ask(request, 9)
    count, modules = 0, set()

    def entered(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1
            modules.add(frame.f_globals.get("__name__", ""))

    sys.setprofile(entered)
    try:
        client.ask(request, 9)
    finally:
        sys.setprofile(None)
    return count, modules


def test_without_rules_there_is_nothing_of_them_in_a_request() -> None:
    world = World(topics=["t"])
    before, modules = calls(world)
    assert not {name for name in modules if name.startswith("odradek.faults") or name == "odradek.faults.interception"}
    world.disarm(world.arm(rule("PRODUCE", drop=True)))
    assert before == calls(world)[0]


def test_the_question_for_rules_is_a_few_bytecodes() -> None:
    counted = bytecodes()
    assert counted["without"] < counted["with"]
    assert counted["without"] / counted["with"] >= RATIO_MIN


def test_a_rule_about_another_api_costs_a_handful() -> None:
    world = World(topics=["t"])
    before, _ = calls(world)
    world.arm(rule("END_TXN", topic=None, drop=True))
    assert before < calls(world)[0] <= before + ANOTHER_API_MAX
