"""Brokers that never come to rest end a run, whether they send one another something or only want to be woken."""

from __future__ import annotations

import pytest
from msgspec import Struct

from odradek.sim import World
from odradek.sim.world.world import Livelock
from odradek.wire.messages.api_versions_request import ApiVersionsRequest


def test_a_broker_that_wants_to_be_woken_again_and_again_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(brokers=1)
    monkeypatch.setattr(world.nodes[1], "wake_at", lambda: world.now)
    with pytest.raises(Livelock, match=r"no time passes; the last 100 steps:\n.* broker 1: Tick"):
        world.advance(1)


def test_one_that_is_woken_while_time_passes_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(brokers=1)
    monkeypatch.setattr(world.nodes[1], "wake_at", lambda: world.now + 1)
    world.advance(20_000)


def test_a_timer_that_sets_itself_anew_for_a_time_that_is_past_is_told() -> None:
    world = World(brokers=1)
    node = world.nodes[1]

    def again() -> None:
        node.timers.set("again", world.now - 1, again)

    again()
    with pytest.raises(Livelock, match=r"no time passes; the last 100 steps:\n.* broker 1: Tick"):
        world.advance(1)


class Restless:
    """Owes something again as soon as it is done."""

    def __init__(self, world: World) -> None:
        self._pumps = world.nodes[1].pumps

    def pump(self) -> None:
        self._pumps.soon(self)


def test_what_is_owed_again_as_soon_as_it_is_done_is_told_and_holds_nobody_up() -> None:
    world = World(brokers=1)
    Restless(world).pump()
    answer = world.client(1).send(ApiVersionsRequest(), 0)
    world.run()
    assert answer.response.error_code == 0
    with pytest.raises(Livelock, match=r"no time passes; the last 100 steps:\n.* broker 1: Tick"):
        world.advance(1)


def test_very_many_that_owe_something_have_their_turn_in_the_next_step() -> None:
    world = World(brokers=1)
    pumped: list[int] = []

    class Owing(Struct, frozen=True):
        number: int

        def pump(self) -> None:
            pumped.append(self.number)

    node = world.nodes[1]

    def owe() -> None:
        for number in range(250):
            node.pumps.soon(Owing(number))

    node.timers.set("all", world.now, owe)
    world.advance(1)
    assert pumped == list(range(250))
