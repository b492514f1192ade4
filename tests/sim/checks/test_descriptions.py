"""What admins were told of transactions and groups, held against the events of the brokers."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.sim.late import late_record

from odradek.core.machine import Fact
from odradek.sim.checks.descriptions import WORK_MS, silent_problems, watchers_problems
from odradek.sim.clients.describing_admins import Group, Told, Watcher
from odradek.sim.run import Run
from odradek.sim.world.actors import Asked
from odradek.wire.messages.heartbeat_request import HeartbeatRequest
from odradek.wire.messages.heartbeat_response import HeartbeatResponse


def fact(at: int, kind: str, **fields: Any) -> tuple[int, int, Fact]:
    return at, 1, Fact(kind, fields)


GROUP = Group("workers", is_modern=False, session_ms=1_500)
FACTS = [
    fact(10, "state_change", transactional_id="a", state_to="Empty"),
    fact(20, "state_change", transactional_id="a", state_to="Ongoing"),
    fact(25, "transaction_opened", topic="t", partition=0, producer_id=7, offset=3),
    fact(30, "state_change", transactional_id="a", state_to="PrepareCommit"),
    fact(50, "state_change", transactional_id="a", state_from="PrepareAbort", state_to="CompleteAbort"),
    fact(40, "transaction_closed", topic="t", partition=0, producer_id=7, first_offset=3),
    fact(40, "marker_written", topic="t", partition=0, producer_id=7, producer_epoch=5),
]


def watcher(told: Told) -> Watcher:
    world = Run(late_record()).world
    watcher = Watcher(world, random=Random(0), transactional_ids=["a"], goes_on=lambda: False)
    watcher.told = [told]
    return watcher


def problems(told: Told, *more: tuple[int, int, Fact]) -> list[str]:
    return [each.name for each in watchers_problems([watcher(told)], [*FACTS, *more])]


def state(asked_at: int, told_at: int, name: str) -> Told:
    return Told(asked_at, told_at, transactional_id="a", state=name)


def span(asked_at: int, told_at: int) -> Told:
    return Told(asked_at, told_at, partition=0, producer_id=7, first_offset=3, producer_epoch=5)


def idle(asked_at: int, epoch: int) -> Told:
    return Told(asked_at, asked_at, partition=0, producer_id=7, producer_epoch=epoch)


def silent(asked_at: int, *asked: Asked, taken_over_at: int | None = None) -> list[str]:
    facts = [] if taken_over_at is None else [fact(taken_over_at, "leadership_taken", topic="__consumer_offsets")]
    told = watcher(Told(asked_at, asked_at, members=("m",)))
    return [each.name for each in silent_problems([told], asked, facts, GROUP)]


def heard(at: int, *, answered: bool = True) -> Asked:
    response = HeartbeatResponse() if answered else None
    return Asked("w", at, 1, HeartbeatRequest("workers", 1, "m"), 3, at + 100, response)


@pytest.mark.parametrize(
    "told", [state(5, 6, "Empty"), state(12, 12, "Empty"), state(15, 25, "Ongoing"), span(25, 25), span(35, 60)]
)
def test_what_was_so_at_some_time_meanwhile_may_be_told(told: Told) -> None:
    assert problems(told) == []


def test_what_a_coordinator_found_in_its_log_is_so_though_nobody_told_of_it() -> None:
    assert problems(state(42, 45, "PrepareAbort")) == []
    assert problems(state(52, 53, "PrepareAbort")) == ["wrong description"]


@pytest.mark.parametrize("told", [state(35, 36, "Ongoing"), state(12, 12, "Ongoing"), span(10, 20), span(45, 50)])
def test_what_was_not_so_is_a_problem(told: Told) -> None:
    assert problems(told) == ["wrong description"]


def test_a_producer_has_the_epoch_of_its_marker_from_then_on() -> None:
    assert problems(idle(40, 4)) == []
    assert problems(idle(41, 5)) == []
    assert problems(idle(41, 4)) == ["wrong description"]
    assert problems(idle(41, 4), fact(41, "log_truncated", topic="t", partition=0)) == []


def test_who_is_silent_for_longer_than_its_session_is_no_member() -> None:
    latest = 1_100 + GROUP.session_ms + WORK_MS
    assert silent(latest, heard(1_000)) == []
    assert silent(latest + 1, heard(1_000)) == ["silent member"]
    assert silent(latest + 1, heard(1_000), heard(1_001, answered=False)) == []
    assert silent(latest + 1, heard(1_000), taken_over_at=1_101) == []
    assert silent(latest + 1, heard(1_000), taken_over_at=1_099) == ["silent member"]
    # Of who was never heard of nobody knows since when it is there.
    assert silent(latest + 1) == []
