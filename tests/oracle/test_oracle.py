"""Odradek's answers are those of the real broker, as they are recorded; and differ where a scenario says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.oracle import brokers
from tests.oracle.recorded import ANSWERS, KAFKA, ODRADEK, answers_path, recorded
from tests.oracle.scenario import Scenario, load_all
from tests.oracle.session import Stage, Stages, needs
from tests.oracle.transcript import difference

SCENARIOS = load_all()
PLAYED = [
    pytest.param(scenario, level, id=f"{scenario.path}-{level}", marks=[pytest.mark.slow] if scenario.waits else [])
    for scenario in SCENARIOS
    for level in scenario.levels
]
DIFFERING = [scenario for scenario in SCENARIOS if scenario.differs]


def stage(scenario: Scenario, level: int) -> Stage:
    return Stage([each for each in SCENARIOS if needs(each) == needs(scenario)], level, brokers.odradek)


@pytest.fixture(scope="module")
def stages() -> Iterator[Stages]:
    with Stages() as stages:
        yield stages


@pytest.mark.parametrize(("scenario", "level"), PLAYED)
def test_answers(stages: Stages, scenario: Scenario, level: int) -> None:
    expected = recorded(scenario, ODRADEK if scenario.differs else KAFKA)[level]
    actual = stages.get((level, needs(scenario)), lambda: stage(scenario, level)).play(scenario)
    assert not (lines := difference(expected, actual)), "\n".join(["", *lines])


@pytest.mark.parametrize("scenario", DIFFERING, ids=[each.path for each in DIFFERING])
def test_an_expected_difference_is_still_one(scenario: Scenario) -> None:
    kafka, odradek = recorded(scenario, KAFKA), recorded(scenario, ODRADEK)
    assert kafka.keys() == odradek.keys()
    assert any(difference(kafka[level], odradek[level]) for level in kafka), "it says `differs`, but does not"


def test_there_are_no_answers_to_scenarios_that_are_gone() -> None:
    wanted = {answers_path(scenario, KAFKA) for scenario in SCENARIOS}
    wanted |= {answers_path(scenario, ODRADEK) for scenario in DIFFERING}
    assert wanted == {path for path in ANSWERS.rglob("*") if path.is_file()}
