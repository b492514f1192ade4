"""docs/simulation.md does what it says: its schedule, its workload and its checker are played."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from odradek.sim.model.promises import PROMISES, Violation
from odradek.sim.run import run
from odradek.sim.schedules.schedule import KINDS, read_schedule
from odradek.sim.workloads.catalogue import FOCUSES
from odradek.sim.workloads.focus import Focus

PAGE = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text()


def block(language: str) -> str:
    [found] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def test_its_schedule_breaks_a_promise_and_with_verification_none() -> None:
    schedule = read_schedule(block("json"))
    with pytest.raises(Violation) as broken:
        run(schedule)
    assert "hanging transaction" in broken.value.names
    run(replace(schedule, verification=True))


def test_its_workload_and_its_checker_are_played(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block("python"), "simulation.md", "exec"), {"__name__": "page"})
    assert re.fullmatch(r"(\d \d+ of \d+ \[.*\]\n){2}", capsys.readouterr().out)


def test_it_lists_every_workload_and_every_deed() -> None:
    assert [name for name in FOCUSES if f"| `{name}` |" not in PAGE] == []
    assert [kind for kind in KINDS if kind not in PAGE] == []


def test_a_fault_that_a_workload_misspells_is_told_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match=r"^there is no fault delay recods: did you mean delay records\?$"):
        Focus({"delay recods": 1})


def test_it_names_every_promise() -> None:
    assert [name for name in PROMISES if f"`{name}`" not in PAGE] == []
