"""From what has happened to an outcome."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.conform.helpers import pretender, results, scenario

from odradek.cli.usage import UsageError
from odradek.conform.checks import Committed, Never, Seen, Sequences
from odradek.conform.play import Outcome
from odradek.conform.run import chosen
from odradek.conform.scenario import load, read_scenarios

RULE = 'rules = [{name = "lost", match = {api = "END_TXN"}, act = {drop = true}, expect = {hits = 1}}]'


def outcome(text: str, how: str = "", **wanted: object) -> tuple[Outcome, list[str]]:
    _, [result] = results(pretender(how), scenario(text), **wanted)
    return result.outcome, result.sentences


def test_a_hazard_that_did_not_come_about_is_not_exercised() -> None:
    told, sentences = outcome(f'{RULE}\nsteps = [{{init = "p1"}}, {{begin = "p1"}}]')
    assert Outcome.NOT_EXERCISED is told
    assert ["Rule lost expects 1 hit and had 0 hits; no request matched."] == sentences


def test_a_failure_before_the_hazard_is_unclear() -> None:
    told, sentences = outcome(f'{RULE}\nsteps = [{{init = "p1"}}, {{begin = "p1"}}]', "errors")
    assert Outcome.UNCLEAR is told
    assert "Before the hazard came about: begin of p1 ended in OUT_OF_MEMORY (unknown)" in sentences[0]


def test_a_proof_that_does_not_hold_is_not_exercised() -> None:
    proof = 'proof = [{check = "seen", api = "END_TXN", at_least = 2}]'
    told = outcome(f'{proof}\nsteps = [{{init = "p1"}}]')
    assert (Outcome.NOT_EXERCISED, ["No END_TXN was sent."]) == told


def test_without_rules_a_failure_before_the_proof_fails() -> None:
    proof = 'proof = [{check = "seen", api = "END_TXN"}]'
    told, sentences = outcome(f'{proof}\nsteps = [{{init = "p1"}}, {{begin = "p1"}}]', "errors", repeated=1)
    assert Outcome.FAIL is told
    assert ["begin of p1 ended in OUT_OF_MEMORY (unknown); it should be done."] == sentences


def test_a_judgement_that_does_not_hold_fails() -> None:
    told = outcome('steps = [{init = "p1"}]\njudge = [{check = "seen", api = "PRODUCE"}]', repeated=1)
    assert (Outcome.FAIL, ["No PRODUCE was sent."]) == told


def test_an_answer_that_should_be_an_error_fails() -> None:
    told = outcome('steps = [{init = "p1"}, {commit = "p1", expect = "fatal"}]', repeated=1)
    assert (Outcome.FAIL, ["commit of p1 was done; it should fail fatal."]) == told


def test_values_that_are_not_read_fail() -> None:
    told = outcome('steps = [{init = "c1"}, {poll = "c1", expect = {values = ["a", "b"]}}]', repeated=1)
    assert (Outcome.FAIL, ["poll of c1 gave nothing; it should give a, b."]) == told


def test_a_class_that_the_library_does_not_tell_is_unsupported_where_the_scenario_is_about_classes() -> None:
    told, sentences = outcome('steps = [{init = "p1"}, {begin = "p1", expect = "fatal, and says so"}]', "errors")
    assert Outcome.UNSUPPORTED is told
    assert ["The library does not say of which class OUT_OF_MEMORY is."] == sentences


def test_it_may_be_unknown_elsewhere() -> None:
    assert (Outcome.PASS, []) == outcome('steps = [{init = "p1"}, {begin = "p1", expect = "fatal"}]', "errors")


def test_a_failure_comes_about_three_times() -> None:
    broken = scenario('steps = [{init = "p1"}]\njudge = [{check = "seen", api = "PRODUCE"}]')
    _, [result] = results(pretender(), broken)
    assert [Outcome.FAIL] * 3 == [each.outcome for each in result.plays]


def moody(folder: Path, how: str = "") -> list[str]:
    """The first process only says hello; the second, which plays first, is the only one that answers with errors."""
    starts = folder / "starts"
    [python, program] = pretender()
    first = f"echo >> {starts}; if [ $(wc -l < {starts}) -le 2 ]; then exec {python} {program} errors; fi"
    return ["sh", "-c", f"{first}; exec {python} {program} {how}"]


def test_one_that_does_not_come_about_again_is_unclear(tmp_path: Path) -> None:
    _, [result] = results(moody(tmp_path), scenario('steps = [{init = "p1"}, {begin = "p1"}]'))
    assert Outcome.UNCLEAR is result.outcome
    assert "1 play failed, and then the outcome was pass." == result.sentences[0]
    assert Outcome.FAIL is result.shown.outcome, "its files say what went wrong, not what went well"


def test_what_a_library_cannot_do_it_could_not_do_in_the_plays_that_had_failed_before(tmp_path: Path) -> None:
    _, [result] = results(moody(tmp_path, "unable"), scenario('steps = [{init = "p1"}, {begin = "p1"}]'))
    assert [Outcome.FAIL, Outcome.UNSUPPORTED] == [each.outcome for each in result.plays]
    assert (Outcome.UNSUPPORTED, ["begin: no transactions."]) == (result.outcome, result.sentences)


def test_a_broker_that_is_not_there_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.conform.aide.WAKE_S", 0)
    with pytest.raises(UsageError, match=r"The judge's own client failed at 127\.0\.0\.1:1: "):
        results(pretender(), scenario('steps = [{init = "p1"}]'), against="127.0.0.1:1")


def test_a_judge_that_cannot_do_its_part_is_unclear() -> None:
    told, sentences = outcome('steps = [{init = "p1"}, {do = {move_leader = "nothing"}}]')
    assert Outcome.UNCLEAR is told
    assert ["The judge could not do its part: there is no partition 0 of topic nothing."] == sentences


def test_a_rule_that_cannot_do_its_part_is_unclear() -> None:
    rule = 'rules = [{match = {api = "PRODUCE"}, then = [{set_producer_epoch = 5}], expect = {hits = 1}}]'
    told, [sentence] = outcome(f'{rule}\nsteps = [{{do = {{put = ["orders", "plain"]}}}}]')
    assert Outcome.UNCLEAR is told
    assert "carries no transactional_id" in sentence


def test_what_is_waited_for_in_vain_is_not_exercised() -> None:
    wait = '{do = {wait = {transaction = {id = "t", state = "Ongoing"}, timeout_ms = 100}}}'
    assert Outcome.NOT_EXERCISED is outcome(f'steps = [{{init = "p1"}}, {wait}]')[0]


BEHIND = """steps = [
  {init = "p1"}, {begin = "p1", behind = true},
  {do = {wait = {transaction = {id = "t", state = "Ongoing"}, timeout_ms = 600000}}},
]"""


def test_what_is_waited_for_while_a_verb_runs_is_not_exercised_once_the_verb_is_over() -> None:
    sentence = "What the scenario waits for did not come before begin of p1 was over."
    assert (Outcome.NOT_EXERCISED, [sentence]) == outcome(BEHIND)


def test_a_verb_that_ends_in_an_error_while_something_is_waited_for_fails() -> None:
    told, sentences = outcome(BEHIND, "errors", repeated=1)
    assert (Outcome.FAIL, ["begin of p1 ended in OUT_OF_MEMORY (unknown); it should be done."]) == (told, sentences)


def test_a_driver_that_dies_while_something_is_waited_for_is_unclear() -> None:
    told, [sentence] = outcome(BEHIND, "dies")
    assert Outcome.UNCLEAR is told
    assert "ended with exit code 7" in sentence


def test_a_release_that_has_no_such_cluster_is_not_exercised() -> None:
    text = 'steps = [{init = "p1"}]\ncluster = {transaction_version = 2}'
    _, [result] = results(pretender(), scenario(text), releases=["3.6"])
    assert Outcome.NOT_EXERCISED is result.outcome


def test_what_cannot_become_right_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Committed records only grow; what is still missing may come until the end of the wait."""
    looks: list[str] = []
    monkeypatch.setattr("odradek.conform.play.time.sleep", lambda _: looks.append("again"))
    monkeypatch.setattr("odradek.conform.play.SETTLE_S", 0.2)
    put = 'steps = [{do = {put = ["orders", "a", "b"]}}]\njudge = [{check = "committed", values = '
    for never in ('["b", "a"]', '["a", "c", "d"]', '["a"]'):
        assert Outcome.FAIL is outcome(f"{put}{never}}}]", repeated=1)[0]
    assert not looks
    assert Outcome.FAIL is outcome(f'{put}["a", "b", "c"]}}]', repeated=1)[0]
    assert looks


# ---------------------------------------------------------------------- the scenarios that there are


def test_some_are_chosen_by_glob_and_level() -> None:
    some = chosen(load(), only=["kip-890/1/*"], level=1, anywhere=False)
    assert some
    assert all(each.kip == 890 and each.level == 1 for each in some)
    with pytest.raises(UsageError, match="No scenario is left"):
        chosen(load(), only=["kip-1/*"], level=3, anywhere=False)


def test_those_for_any_broker_have_no_rules() -> None:
    anywhere = chosen(load(), only=[], level=3, anywhere=True)
    assert len(anywhere) >= 20
    assert not any(each.rules for each in anywhere)
    assert all(check.sees_results for each in anywhere for check in each.judge)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("steps = []\ncolour = 1", "kip-1/a/b: Object contains unknown field `colour`"),
        ('steps = [{init = "p1", begin = "p1"}]', "a step is one verb, attempt, recover or do"),
        ("steps = [{wait = true}]", "a step is one verb, attempt, recover or do"),
        ('steps = [{init = "p1", expect = "luck"}]', "there is no expectation luck"),
        ('steps = []\nrules = [{match = {api = "PRODUC"}}]', "There is no API PRODUC"),
        ('steps = []\njudge = [{check = "taste"}]', "Invalid value 'taste'"),
    ],
)
def test_what_is_wrong_with_one_is_told(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        scenario(text)


def test_one_with_each_is_several() -> None:
    found = read_scenarios(
        '[[scenario]]\nid = "kip-1/a/{api-}-{n}"\nabout = "{api}"\nsteps = []\neach = {api = ["END_TXN"], n = [1, 2]}\n'
        'cluster = {transaction_version = "{n}"}',
        "test",
    )
    assert [("kip-1/a/end-txn-1", 1), ("kip-1/a/end-txn-2", 2)] == [
        (each.id, each.cluster.transaction_version) for each in found
    ]
    assert replace(found[0], id="x").about == "END_TXN"


def test_a_request_that_is_missing_before_the_hazard_says_nothing() -> None:
    judge = 'judge = [{check = "sequences", bumps = true}, {check = "seen", api = "PRODUCE"}]'
    told, _ = outcome(f'{RULE}\nsteps = [{{init = "p1"}}, {{begin = "p1"}}]\n{judge}', "errors", repeated=1)
    assert Outcome.UNCLEAR is told


def test_what_was_sent_is_judged_even_before_the_hazard() -> None:
    assert Never(api="PRODUCE").of_what_was_sent() == Never(api="PRODUCE")
    assert Sequences(bumps=True).of_what_was_sent() == Sequences()
    assert Seen(api="PRODUCE").of_what_was_sent() is None
    assert Committed(values=[]).of_what_was_sent() is None
