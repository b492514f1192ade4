"""What brokers tell of transactions is held against when what was so."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.sim.late import late_record

from odradek.log.machine import Fact
from odradek.sim.draw import draw
from odradek.sim.run import Run
from odradek.sim.watchers import Told, Watcher, watchers_problems


def fact(at: int, kind: str, **fields: Any) -> tuple[int, int, Fact]:
    return at, 1, Fact(kind, fields)


FACTS = [
    fact(10, "state_change", transactional_id="a", state_to="Empty"),
    fact(20, "state_change", transactional_id="a", state_to="Ongoing"),
    fact(25, "transaction_opened", topic="t", partition=0, producer_id=7, offset=3),
    fact(30, "state_change", transactional_id="a", state_to="PrepareCommit"),
    fact(40, "transaction_closed", topic="t", partition=0, producer_id=7, first_offset=3),
]


def problems(told: Told) -> list[str]:
    world = Run(late_record()).world
    watcher = Watcher(world, random=Random(0), transactional_ids=["a"], goes_on=lambda: False)
    watcher.told = [told]
    return [each.name for each in watchers_problems([watcher], FACTS)]


def state(asked_at: int, told_at: int, name: str) -> Told:
    return Told(asked_at, told_at, transactional_id="a", state=name)


def span(asked_at: int, told_at: int) -> Told:
    return Told(asked_at, told_at, partition=0, producer_id=7, first_offset=3)


@pytest.mark.parametrize("told", [state(12, 12, "Empty"), state(15, 25, "Ongoing"), span(25, 25), span(35, 60)])
def test_what_was_so_at_some_time_meanwhile_may_be_told(told: Told) -> None:
    assert problems(told) == []


@pytest.mark.parametrize("told", [state(35, 36, "Ongoing"), state(12, 12, "Ongoing"), span(10, 20), span(45, 50)])
def test_what_was_not_so_is_a_problem(told: Told) -> None:
    assert problems(told) == ["wrong description"]


@pytest.mark.slow
def test_watchers_of_a_run_are_told_of_open_transactions() -> None:
    run = Run(draw(1, "general"))
    run.play()
    [watcher] = run.watchers
    assert {"Ongoing", "CompleteCommit"} <= {each.state for each in watcher.told}
    assert any(each.first_offset >= 0 for each in watcher.told)
