"""What plays Kafka's own tests: the plan, the reading of results, the verdicts, the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kafka import page
from tests.kafka.__main__ import inapplicable
from tests.kafka.expectations import Expectations, Kind, Verdict
from tests.kafka.plan import CLASSES, SETTINGS, SMALL, chosen, in_turn
from tests.kafka.playing import Heard
from tests.kafka.results import Event, Outcome, Results, Test

CLASS = "kafka.api.TransactionsTest"
OTHER = "kafka.server.FetchRequestTest"
COMMITS = Test(CLASS, "commits", "#1 groupProtocol=classic")
LOOKS = Test(CLASS, "looks", "#2 Isolated")
DIFFERS = Test(CLASS, "differs")

EXPECTED = """
[reasons.threads]
kind = "jvm"
text = "Counts threads"
[reasons.promise]
kind = "differs"
text = "Keeps a promise"
[reasons.slow]
kind = "flaky"
text = "Is slow"
[tests."kafka.api.TransactionsTest"]
threads = ["looks[#2 *]"]
promise = ["differs"]
slow = ["waits"]
"""


@pytest.fixture
def expectations(tmp_path: Path) -> Expectations:
    (tmp_path / "expectations.toml").write_text(EXPECTED)
    return Expectations(tmp_path / "expectations.toml")


def event(kind: str, **fields: object) -> Event:
    defaults = {"id": "[engine]", "display": "commits()", "class_": CLASS, "method": "commits"}
    return Event(event=kind, **(defaults | fields))  # type: ignore[arg-type]


# ------------------------------------------------------------------ the plan


def test_the_smaller_set_is_a_part_of_all() -> None:
    assert set(chosen(everything=False, only=())) == set(SMALL) < set(CLASSES)
    assert list(chosen(everything=True, only=())) == list(CLASSES)


def test_classes_are_chosen_by_name_with_and_without_their_package() -> None:
    assert list(chosen(everything=False, only=["ProduceRequestTest"])) == ["kafka.server.ProduceRequestTest"]
    assert set(chosen(everything=False, only=["kafka.api.Transactions*"])) == set(SMALL[:2])
    assert list(chosen(everything=True, only=["NoSuchTest"])) == []


def test_a_class_outside_the_plan_is_tried_by_its_whole_name() -> None:
    assert list(chosen(everything=False, only=["org.example.NewTest", "org.example.*", "org.example"])) == [
        "org.example.NewTest"
    ]


def test_a_class_with_settings_has_a_jvm_of_its_own() -> None:
    one, other = SETTINGS
    assert {one, other} <= set(CLASSES)
    assert list(in_turn(["a", "b", "c", one, other, "d"], 2)) == [["a", "b"], ["c"], [one], [other], ["d"]]
    assert list(in_turn([], 2)) == []


# ------------------------------------------------------------------ names and outcomes


@pytest.mark.parametrize(
    ("display", "parameters"),
    [
        ("commits(String).groupProtocol=classic", "#3 groupProtocol=classic"),
        ('"commits(String, boolean).a=classic, isTV2Enabled=true"', "#3 a=classic, isTV2Enabled=true"),
        ("commits [3] Type=Raft-Isolated, MetadataVersion=4.4-IV0,BrokerSecurityProtocol=PLAINTEXT", "#3 Isolated"),
        ("[3] timestamp=1795299038976", "#3 timestamp=…"),
    ],
)
def test_an_invocation_is_named_by_its_number_and_its_parameters(display: str, parameters: str) -> None:
    told = event("ended", id="[method:commits]/[test-template-invocation:#3]", display=display)
    assert Test.of(told) == Test(CLASS, "commits", parameters)
    assert str(Test.of(told)) == f"TransactionsTest.commits[{parameters}]"


def test_a_plain_test_has_no_parameters() -> None:
    assert str(Test.of(event("ended"))) == "TransactionsTest.commits"


def test_an_outcome_keeps_what_was_asked_for() -> None:
    ended = event("ended", result="failed", seconds=1.26, message="not\n  found", out_of_reach="BrokerServer.metrics")
    assert Outcome.of(ended) == Outcome("failed", 1.3, "not found", "BrokerServer.metrics")
    assert Outcome.of(event("ended", result="aborted")).result == "skipped"


# ------------------------------------------------------------------ hearing a JVM


def test_what_had_begun_when_a_jvm_fell_silent_has_hung() -> None:
    heard = Heard()
    heard.note(event("begun", id="1"))
    heard.note(event("ended", id="1", result="successful"))
    heard.note(event("begun", id="2", method="hangs"))
    heard.give_up()
    assert {test.method: outcome.result for test, outcome in heard.outcomes[CLASS].items()} == {
        "commits": "passed",
        "hangs": "hung",
    }
    assert heard.played == {"1", "2"}
    assert heard.at == CLASS


def test_what_a_jvm_before_has_played_is_not_heard_again() -> None:
    heard = Heard(played={"1"})
    heard.note(event("skipped", id="1", message="left out"))
    assert not heard.outcomes
    heard.note(event("skipped", id="2", message="disabled by its author"))
    assert next(iter(heard.outcomes[CLASS].values())).result == "skipped"


def test_a_class_whose_setup_fails_counts_as_a_test() -> None:
    heard = Heard()
    heard.note(event("container", method="", result="failed", message="no"))
    assert heard.outcomes == {CLASS: {Test(CLASS, "(class)"): Outcome("failed", error="no")}}


# ------------------------------------------------------------------ verdicts


@pytest.mark.parametrize(
    ("test", "result", "verdict"),
    [
        (COMMITS, "passed", Verdict.PASSED),
        (COMMITS, "failed", Verdict.FAILED),
        (COMMITS, "hung", Verdict.FAILED),
        (LOOKS, "failed", Verdict.EXPECTED),
        (LOOKS, "passed", Verdict.SURPRISE),
        (LOOKS, "skipped", Verdict.PASSED),
        (Test(CLASS, "looks", "#3 Isolated"), "failed", Verdict.FAILED),
        (Test(OTHER, "looks", "#2 Isolated"), "failed", Verdict.FAILED),
        (DIFFERS, "failed", Verdict.EXPECTED),
        (Test(CLASS, "waits"), "passed", Verdict.PASSED),
        (Test(CLASS, "waits"), "failed", Verdict.EXPECTED),
    ],
)
def test_verdicts(expectations: Expectations, test: Test, result: str, verdict: Verdict) -> None:
    assert expectations.verdict(test, Outcome(result)) is verdict


def test_the_file_of_expectations_speaks_of_classes_that_are_played_and_has_no_idle_reason() -> None:
    told = Expectations()
    assert set(told.classes) <= set(CLASSES)
    assert {reason.name for reason in told.used()} == set(told.reasons)


# ------------------------------------------------------------------ results and page


def test_a_run_replaces_the_results_of_its_classes_and_keeps_the_others(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json")
    results.put(CLASS, {COMMITS: Outcome("passed"), LOOKS: Outcome("failed")}, real=False)
    results.put(CLASS, {COMMITS: Outcome("failed")}, real=True)
    results.put(OTHER, {Test(OTHER, "fetches"): Outcome("passed")}, real=False)
    results.put(CLASS, {DIFFERS: Outcome("passed")}, real=False)
    results.write()

    again = Results(tmp_path / "results.json")
    assert [(row.test, row.odradek, row.kafka) for row in again.of(CLASS)] == [
        (COMMITS, None, Outcome("failed")),
        (DIFFERS, Outcome("passed"), None),
    ]
    assert len(again.of(OTHER)) == 1


def test_two_runs_at_once_keep_what_the_other_has_written(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    one, other = Results(file), Results(file)
    one.put(CLASS, {COMMITS: Outcome("passed")}, real=False)
    one.write()
    other.put(CLASS, {COMMITS: Outcome("failed")}, real=True)
    other.put(OTHER, {Test(OTHER, "reads"): Outcome("passed")}, real=False)
    other.write()
    one.write()
    [row] = Results(file).of(CLASS)
    assert (row.odradek, row.kafka) == (Outcome("passed"), Outcome("failed"))
    assert [row.test.method for row in Results(file).of(OTHER)] == ["reads"]


def test_a_run_takes_away_what_its_class_has_no_more(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    before = Results(file)
    before.put(CLASS, {COMMITS: Outcome("passed"), LOOKS: Outcome("passed")}, real=False)
    before.write()
    after = Results(file)
    after.put(CLASS, {COMMITS: Outcome("passed")}, real=False)
    after.write()
    assert [row.test for row in Results(file).of(CLASS)] == [COMMITS]


def test_what_was_left_out_stays_as_it_was(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json")
    results.put(CLASS, {COMMITS: Outcome("passed"), LOOKS: Outcome("failed"), DIFFERS: Outcome("failed")}, real=False)
    results.put(CLASS, {COMMITS: Outcome("failed")}, real=False, left_out={LOOKS})
    assert {row.test: row.odradek for row in results.of(CLASS)} == {
        COMMITS: Outcome("failed"),
        LOOKS: Outcome("failed"),
    }


def test_only_what_is_known_not_to_apply_is_left_out(expectations: Expectations, tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json")
    known = {COMMITS: Outcome("passed"), LOOKS: Outcome("failed"), DIFFERS: Outcome("failed")}
    results.put(CLASS, known, real=False)
    assert inapplicable(results, expectations) == {LOOKS}


def test_the_page_counts_and_gives_reasons(expectations: Expectations, tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json")
    bad = Test(CLASS, "fails")
    outcomes = {
        COMMITS: Outcome("passed"),
        LOOKS: Outcome("failed", out_of_reach="BrokerServer.metrics"),
        DIFFERS: Outcome("failed"),
        bad: Outcome("failed", error="expected: <1>"),
    }
    results.put(CLASS, outcomes, real=False)
    results.put(CLASS, dict.fromkeys(outcomes, Outcome("passed")), real=True)
    page.write(results, expectations, tmp_path / "page.md")
    lines = (tmp_path / "page.md").read_text().splitlines()
    assert "| TransactionsTest | 1 | 1 | 1 | 1 | 4 of 4 |" in lines
    assert "Of 4 tests 1 passes, 1 fails, 1 differs on purpose, and 1 is not applicable." in lines
    assert "1 of those that fail passes with Kafka's own brokers." in lines
    assert "- `TransactionsTest.fails`: expected: &lt;1>" in lines
    assert "- TransactionsTest: looks[#2 Isolated] (BrokerServer.metrics)" in lines
    assert "Keeps a promise (1):" in lines


def test_every_kind_of_reason_has_a_place_on_the_page() -> None:
    assert set(page.TITLES) == set(Kind)
