"""Leaders that hear of their leadership late."""

from __future__ import annotations

import pytest
from tests.unit.host.helpers import batch, only, produce_request

from odradek.sim import World
from odradek.wire.errors import ErrorCode


def test_who_hears_late_of_a_leadership_that_is_over_takes_nothing_over(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(brokers=2, topics=["t"])
    with monkeypatch.context() as patch:
        patch.setattr(world.nodes[2].controller, "advance", lambda offset: None)
        world.move_leader("t", 0, to=2)
        world.move_leader("t", 0, to=1)
    assert ErrorCode.NONE == only(world.client(1).ask(produce_request(batch(b"a")), 9)).error_code
    # Now broker 2 reads of both moves, one after the other.
    world.move_leader("t", 0, to=1)
    assert ("t", 0) not in world.nodes[2].partitions
    assert ErrorCode.NONE == only(world.client(1).ask(produce_request(batch(b"b")), 9)).error_code
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == only(world.client(2).ask(produce_request(batch(b"c")), 9)).error_code


def test_a_leader_that_has_not_heard_of_its_successor_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(brokers=2, topics=["t"])
    world.move_leader("t", 0, to=2)
    monkeypatch.setattr(world.nodes[2].controller, "advance", lambda offset: None)
    world.move_leader("t", 0, to=1)
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == only(world.client(2).ask(produce_request(batch(b"a")), 9)).error_code
    assert 0 == only(world.client(1).ask(produce_request(batch(b"b")), 9)).base_offset
