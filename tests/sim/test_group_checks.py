"""What is promised to members of groups: rebalances that end in time, and records that nobody keeps for ever."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from odradek.sim.actors import Asked
from odradek.sim.checks import Checks
from odradek.sim.draw import draw
from odradek.sim.group_checks import WORK_MS, rebalance_problems
from odradek.sim.run import Run
from odradek.sim.share_checks import share_problems
from odradek.sim.sharers import DELIVERIES_MAX, LOCK_MS, SESSION_MS, Given, Sharer
from odradek.sim.world import World
from odradek.wire.messages.heartbeat_request import HeartbeatRequest
from odradek.wire.messages.heartbeat_response import HeartbeatResponse
from odradek.wire.messages.join_group_request import JoinGroupRequest
from odradek.wire.messages.join_group_response import JoinGroupResponse

JOIN = JoinGroupRequest(group_id="workers", session_timeout_ms=1_500, rebalance_timeout_ms=400, member_id="")
CALM_MS = 10_000
OVER_MS = CALM_MS + 2 * LOCK_MS + SESSION_MS


def joined(took_ms: int, *, request: Struct = JOIN, response: Struct | None = None, until: int = CALM_MS) -> list[str]:
    asked = Asked("member-w0", 100, 1, request, 5, 100 + took_ms, response)
    return [each.name for each in rebalance_problems([asked], until=until)]


def test_a_rebalance_waits_for_its_timeout_and_no_longer() -> None:
    assert joined(400 + WORK_MS, response=JoinGroupResponse()) == []
    assert joined(401 + WORK_MS, response=JoinGroupResponse()) == ["slow rebalance"]
    assert joined(401 + WORK_MS, response=JoinGroupResponse(), until=500) == []


def test_who_had_no_answer_and_who_asks_for_something_else_says_nothing_of_it() -> None:
    assert joined(3_000) == []
    heartbeat = HeartbeatRequest(group_id="workers", generation_id=1, member_id="a")
    assert joined(3_000, request=heartbeat, response=HeartbeatResponse()) == []


def kept(given: Given, *, in_vain: int, lost: int = 0) -> list[str]:
    sharer = Sharer(World(topics=["t:3:1"]), "s0", seed="1")
    sharer.given, sharer.in_vain[0], sharer.lost[0] = [given], in_vain, lost
    return [each.name for each in share_problems([sharer], {("t", 0): [b"a"]}, [], CALM_MS)]


GIVEN = Given("s1-0", 0, 5, b"a", 1, 4_000, 4_010)


def test_a_record_whose_lock_is_over_goes_to_another() -> None:
    assert kept(GIVEN, in_vain=OVER_MS + 1) == ["kept for ever"]
    assert kept(replace(GIVEN, told_at=OVER_MS), in_vain=OVER_MS + 1) == []
    assert kept(GIVEN, in_vain=OVER_MS) == []


def test_a_record_that_was_accepted_or_given_up_does_not() -> None:
    assert kept(replace(GIVEN, accepted_at=4_020), in_vain=OVER_MS + 1) == []
    assert kept(replace(GIVEN, is_unsure=True), in_vain=OVER_MS + 1) == []
    assert kept(replace(GIVEN, count=DELIVERIES_MAX), in_vain=OVER_MS + 1) == []
    assert kept(replace(GIVEN, count=2), in_vain=OVER_MS + 1, lost=DELIVERIES_MAX - 2) == []


def test_a_batch_of_an_older_leader_behind_that_of_a_newer_one_is_told() -> None:
    run = Run(draw(1, "duplicates"))
    run.play()
    checks = Checks(run.world, run.producers, run.consumers, run.journal)
    assert [each.name for each in checks._older_leaders()] == []
    log = next(log for log in run.world.store.logs() if log.topic == "t" and log.end_offset)
    batches = list(log.batches())
    batches[0].view[12:16] = (99).to_bytes(4, "big")
    assert [each.name for each in checks._older_leaders()] == ["older leader"]
