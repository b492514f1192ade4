"""The scenarios as data: what each of them has to have."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.conform.quotations import FOUND, digest, quoted

from odradek.conform.checks import Which
from odradek.conform.scenario import Basis, Scenario, Step, load

SCENARIOS = load()
KIPS = {98, 129, 360, 447, 588, 654, 679, 691, 890, 951, 1050}


def steps_of(scenario: Scenario) -> list[Step]:
    return [each for step in scenario.steps for each in (step, *(step.attempt or []))]


def test_there_are_more_than_a_hundred_of_eleven_kips() -> None:
    assert len(SCENARIOS) > 140
    assert KIPS == {each.kip for each in SCENARIOS}


def test_quotations_stand_in_their_kips() -> None:
    assert {digest(each) for each in quoted()} == set(FOUND.read_text().splitlines())


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: str(each.id))
def test_each_is_whole(scenario: Scenario) -> None:
    assert scenario.about.endswith(".")
    assert "{" not in scenario.id + scenario.about
    assert (scenario.says is None) is (scenario.basis is Basis.JAVA)
    assert bool(scenario.section) is (scenario.basis is not Basis.JAVA)
    # Something is judged beside that the verbs are done.
    expects = any(step.expect not in ("done", "any") for step in steps_of(scenario))
    plays = {"kip-360/epoch/idempotent-producer-goes-on", "kip-951/fetch/new-leader-from-the-answer"}
    assert scenario.judge or expects or scenario.id in plays
    # The hazard is proved: by a rule that expects hits, by a proof, or it is that of the steps themselves.
    assert all(
        rule.expect is not None for rule in scenario.rules if rule.acts and rule.name not in ("no-metadata", "not-here")
    )


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: str(each.id))
def test_marks_name_what_there_is(scenario: Scenario) -> None:
    """A mark that is mistyped would be one that is never reached."""
    named = {f"{kind}:{step.name}" for step in steps_of(scenario) if step.name for kind in ("begin", "end")}
    named |= {f"{kind}:{rule.name}" for rule in scenario.rules for kind in ("hit", "answer")}
    checks: list[Which] = [*scenario.judge, *scenario.proof]
    checks += [each.behind for each in scenario.judge if hasattr(each, "behind")]
    for check in checks:
        assert {check.after, check.before} - {None} <= named, check


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: str(each.id))
def test_rules_do_not_meet_the_judge(scenario: Scenario) -> None:
    """Its own client asks for Metadata, coordinators, offsets and records, and may be a newer producer."""
    its = {"METADATA", "FETCH", "FIND_COORDINATOR", "INIT_PRODUCER_ID", "OFFSET_FETCH", "PRODUCE"}
    for rule in scenario.rules:
        apis = {each.name for each in rule.match.apis or ()}
        assert rule.match.client_id is not None or not apis & its, rule.name


def test_names_of_marks_are_used_once() -> None:
    for scenario in SCENARIOS:
        marks = {mark for each in (*scenario.judge, *scenario.proof) for mark in (each.after, each.before)}
        for name, count in Counter(step.name for step in scenario.steps if step.name).items():
            assert count == 1 or not {f"begin:{name}", f"end:{name}"} & marks, scenario.id
