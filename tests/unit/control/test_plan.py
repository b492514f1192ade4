"""A plan is read as a whole or refused with the place of what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.control.messages.clusters import NewCluster
from odradek.control.plan import PlanError, converted, load_plan, plan_of, read_plan, rule_of
from odradek.faults.one_line import rule

PLAN = """\
rules:
  - name: late
    match: {api: PRODUCE, topic: orders, from: client}
    act: {hold: true}
    expect: {hits: 1}
  - match: {api: [EndTxn]}
    when: {after: late, times: all}
    act: {error: NOT_COORDINATOR}
    expect: none
"""
LATE = rule("PRODUCE", name="late", topic="orders", sender="client", hold=True, expect=1)
AWAY = rule(["EndTxn"], after="late", times="all", error="NOT_COORDINATOR", expect="none")


def test_a_plan() -> None:
    assert [LATE, AWAY] == read_plan(PLAN).rules


def test_a_plan_may_be_a_list() -> None:
    [_, *lines] = PLAN.splitlines()
    assert [LATE, AWAY] == read_plan("\n".join(lines)).rules


def test_json_is_yaml_and_a_body() -> None:
    body = '[{"match": {"api": "END_TXN"}, "act": {"disconnect": "after"}}]'
    assert [rule("END_TXN", disconnect="after")] == read_plan(body).rules
    assert rule("END_TXN", drop=True) == rule_of({"match": {"api": "END_TXN"}, "act": {"drop": True}})


@pytest.mark.parametrize(("before", "after", "said"), [
    ("hold: true", "hodl: true", "plan:4:17: $.rules[0].act.hodl: There is no field hodl here: did you mean hold?"),
    ("PRODUCE", "PRODUC", "plan:3:18: $.rules[0].match.api: There is no API PRODUC: did you mean PRODUCE?"),
    ("client}", "cient}", "plan:3:48: $.rules[0].match.from: Invalid enum value 'cient': it is one of client, broker"),
    ("after: late", "after: lat", "plan:7:19: $.rules[1].when.after: There is no rule lat before this one: there is"),
    ("NOT_COORDINATOR", "NOT_C", "plan:8:18: $.rules[1].act.error: There is no error NOT_C: did you mean NOT_"),
    ("times: all", "times: 0", "plan:7:32: $.rules[1].when.times: times is 1 or more, not 0."),
    ("hits: 1", "hits: x", "plan:5:20: $.rules[0].expect.hits: Expected int | null, got str."),
    ("hold: true", "delay_ms: 1e12", "$.rules[0].act.delay_ms: 1e12 is a text in YAML 1.1: write the number without"),
    ("hold: true", "hold: true, hold: true", "plan:4:23: $.rules[0].act.hold: The field hold stands here twice."),
    ("act: {hold: true}", "act: {hold: true, drop: true}", "plan:4:17: $.rules[0].act.hold: drop and hold cannot both"),
    ("    when: {after: late", "    name: late\n    when: {skip: 1", "plan:7:11: $.rules[1].name: There is a rule"),
    ("rules:", "rulez:", "plan:1:1: $.rulez: There is no field rulez here: did you mean rules?"),
    ("act: {hold", "act: {{hold", "plan:5:5: This is no YAML: "),
    ("[EndTxn]", "[EndTxn, 3]", "plan:6:27: $.rules[1].match.api[1]: Expected str, got int."),
    ("topic: orders", "topic: 2020-01-01", "plan:3:34: $.rules[0].match.topic: Expected str | null, got date."),
])  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(before: str, after: str, said: str) -> None:
    assert before in PLAN
    with pytest.raises(PlanError) as refused:
        read_plan(PLAN.replace(before, after))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("then", "said"), [
    ("{release: latter}", "plan:4:20: $[0].then[0].release: There is no rule latter: there is late."),
    ("{move_leader: next}", "plan:4:24: $[0].then[0].move_leader: END_TXN carries no topic"),
    ("{move_leader: far}", "plan:4:24: $[0].then[0].move_leader: Invalid enum value 'far': it is one of next."),
    ("{move_leder: 1}", "plan:4:23: $[0].then[0].move_leder: There is no field move_leder here: did you mean move_"),
    ("{}", "plan:4:10: $[0].then[0]: A step is one thing of release, remove, "),
])  # fmt: skip
def test_what_is_to_follow_is_checked_as_well(then: str, said: str) -> None:
    good = "- name: late\n  match: {api: END_TXN}\n  act: {hold: true}\n  then: [{release: late}]\n"
    assert 1 == len(read_plan(good).rules)
    with pytest.raises(PlanError) as refused:
        read_plan(good.replace("{release: late}", then))
    assert said in str(refused.value)


def test_a_plan_may_say_what_its_cluster_is() -> None:
    plan = read_plan(
        "cluster: {brokers: 3, config: {log.retention.ms: -1, auto.create.topics.enable: false}}\nrules: []"
    )
    assert {"log.retention.ms": "-1", "auto.create.topics.enable": "false"} == plan.cluster.overrides
    with pytest.raises(PlanError, match=r"plan:1:19: \$.cluster.broker: There is no field broker here: did you mean"):
        read_plan("cluster: {broker: 3}\nrules: []")


BOMB = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdef", "bcdefg", strict=True)
)


@pytest.mark.parametrize(("text", "said"), [
    ("", "It is empty."),
    ("3", "A plan is a list of rules, or an object with rules."),
    ("&a [*a]", "It is nested too deeply."),
    ("[" * 5000, "It is nested too deeply."),
    ("- !!python/object:x {}", "This rule does nothing"),
    ("- name: !!python/name:os.system x", "This is no YAML: could not determine a constructor"),
    (BOMB, "It has more than 50000 parts."),
    ("\x00", "This is no YAML: special characters are not allowed."),
    ("a: 1\n---\nb: 1\n", "This is no YAML: but found another document."),
    ("- {? [a] : 1}", "A field has a name."),
    ("- act: {delay_ms: 99999999999999999999999}", "delay_ms is at most 2147483647, not 9"),
])  # fmt: skip
def test_what_is_no_plan(text: str, said: str) -> None:
    with pytest.raises(PlanError) as refused:
        read_plan(text)
    assert said in str(refused.value)


def test_a_body_has_a_path_and_no_line() -> None:
    with pytest.raises(PlanError) as refused:
        plan_of({"rules": [{"match": {"api": "PRODUCE", "partition": -1}, "act": {"hold": True}}]})
    assert "body: $.rules[0].match.partition: partition is 0 or more, not -1." == str(refused.value)
    assert refused.value.line is None


def test_rules_that_are_there_may_be_named() -> None:
    body = {"match": {"api": "END_TXN"}, "when": {"after": "late"}, "act": {"drop": True}}
    assert "late" == rule_of(body, known=["late"]).when.after
    with pytest.raises(PlanError, match="There is no rule late before this one"):
        rule_of(body)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"plan.yaml: It cannot be read: No such file or directory."):
        load_plan(tmp_path / "plan.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(PlanError, match=r"It cannot be read: "):
        load_plan(tmp_path / "latin.yaml")


def test_a_wrong_value_in_a_mapping_is_in_the_mapping() -> None:
    """Under which key it stands is not said by what reads it."""
    with pytest.raises(PlanError) as refused:
        converted({"config": {"num.partitions": [1]}}, NewCluster)
    assert "$.config" == refused.value.path
