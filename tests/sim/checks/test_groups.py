"""What is promised to members of groups: rebalances that end in time, and records that nobody keeps for ever."""

from __future__ import annotations

import pytest
from msgspec import Struct
from msgspec.structs import replace

from odradek.core.machine import Fact
from odradek.share.partition import DELIVERED_TOO_OFTEN, REJECTED
from odradek.sim.checks.at_rest import Checks
from odradek.sim.checks.groups import WORK_MS, offset_problems, rebalance_problems
from odradek.sim.checks.share_groups import Letter, dead_letter_problems, share_problems
from odradek.sim.clients.share_consumers import DELIVERIES_MAX, LOCK_MS, NEVER, SESSION_MS, Given, Sharer
from odradek.sim.run import Run
from odradek.sim.workloads.draw import draw
from odradek.sim.world.actors import Asked
from odradek.sim.world.world import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.heartbeat_request import HeartbeatRequest
from odradek.wire.messages.heartbeat_response import HeartbeatResponse
from odradek.wire.messages.join_group_request import JoinGroupRequest
from odradek.wire.messages.join_group_response import JoinGroupResponse
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.wire.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

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


def fetched(at: int, took_ms: int, offset: int, error: ErrorCode = ErrorCode.NONE) -> Asked:
    request = OffsetFetchRequest(group_id="workers", topics=[OffsetFetchRequestTopic("t", [0])])
    partition = OffsetFetchResponsePartition(committed_offset=offset, error_code=error)
    response = OffsetFetchResponse(topics=[OffsetFetchResponseTopic("t", [partition])])
    return Asked("w0", at, 1, request, 7, at + took_ms, response)


def went_back(*asked: Asked) -> bool:
    return [each.name for each in offset_problems(asked, "workers")] == ["wrong group offset"]


def test_an_offset_that_was_told_is_not_taken_back() -> None:
    assert went_back(fetched(0, 10, 3), fetched(11, 1, 2))
    assert went_back(fetched(0, 10, 3), fetched(11, 1, -1))
    assert not went_back(fetched(0, 10, 3), fetched(11, 1, 3))
    # Both are on their way: nobody knows which was served first.
    assert not went_back(fetched(0, 10, 3), fetched(10, 1, 2))
    assert not went_back(fetched(0, 10, 3), fetched(11, 1, -1, ErrorCode.UNSTABLE_OFFSET_COMMIT))


def kept(given: Given, *, in_vain: int, lost: int = 0) -> list[str]:
    sharer = Sharer(World(topics=["t:3:1"]), "s0", seed="1")
    sharer.given, sharer.in_vain[0], sharer.lost[0] = [given], in_vain, lost
    return [each.name for each in share_problems([sharer], {("t", 0): [b"a"]}, [], CALM_MS)]


def test_who_has_no_lock_does_not_accept_what_another_one_has() -> None:
    slow = Given("s0-0", 0, 5, b"a", 1, 0, 5, said_at=LOCK_MS + 30, accepted_at=LOCK_MS + 40)
    other = Given("s1-0", 0, 5, b"a", 2, LOCK_MS + 10, LOCK_MS + 20)
    for let_go_at, names in ((NEVER, ["broken lock"]), (LOCK_MS + 40, [])):
        sharers = Sharer(World(topics=["t:3:1"]), "s0", seed="1"), Sharer(World(topics=["t:3:1"]), "s1", seed="1")
        sharers[0].given, sharers[1].given = [slow], [replace(other, let_go_at=let_go_at)]
        assert [each.name for each in share_problems(sharers, {("t", 0): [b"a"]}, [], CALM_MS)] == names


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


LOST = Fact("dead_letters_lost", {"partition": 0, "first_offset": 4, "last_offset": 6})


@pytest.mark.parametrize(
    ("given", "letters", "facts", "names"),
    [
        (replace(GIVEN, may_be_rejected=True, rejected_at=4_020), [], [], ["lost dead letter"]),
        (replace(GIVEN, may_be_rejected=True, rejected_at=4_020), [], [LOST], []),
        (replace(GIVEN, may_be_rejected=True), [], [], []),
        (replace(GIVEN, may_be_rejected=True, rejected_at=4_020), [Letter(0, 5, 1, REJECTED)] * 2, [], []),
        (GIVEN, [Letter(0, 5, 1, REJECTED)], [], ["wrong dead letter"]),
        (replace(GIVEN, accepted_at=4_020), [Letter(0, 5, 5, DELIVERED_TOO_OFTEN)], [], ["wrong dead letter"]),
        (GIVEN, [Letter(0, 5, DELIVERIES_MAX - 1, DELIVERED_TOO_OFTEN)], [], ["wrong dead letter"]),
        (GIVEN, [Letter(0, 5, DELIVERIES_MAX, DELIVERED_TOO_OFTEN)], [], []),
    ],
)
def test_what_is_rejected_is_a_dead_letter_and_nothing_else(
    given: Given, letters: list[Letter], facts: list[Fact], names: list[str]
) -> None:
    sharer = Sharer(World(topics=["t:3:1"]), "s0", seed="1")
    sharer.given = [given]
    told = [(0, 1, fact) for fact in facts]
    assert names == [each.name for each in dead_letter_problems([sharer], letters, told)]


def test_a_rejected_record_is_not_given_again() -> None:
    again = replace(GIVEN, member="s2-0", count=2, asked_at=4_100, told_at=4_110)
    sharer = Sharer(World(topics=["t:3:1"]), "s0", seed="1")
    sharer.given = [replace(GIVEN, may_be_rejected=True, rejected_at=4_020, let_go_at=4_020), again]
    names = [each.name for each in share_problems([sharer], {("t", 0): [b"a"]}, [], CALM_MS)]
    assert names == ["delivered again"]
