"""Brokers that never come to rest end a run, whether they send one another something or only want to be woken."""

from __future__ import annotations

import pytest

from odradek.sim import World
from odradek.sim.world import Livelock


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
