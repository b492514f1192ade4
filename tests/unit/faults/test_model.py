"""A rule that is wrong is refused where it is made, in a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.faults.model import Act, Expect, Match, Rule, RuleError, Scripted, When
from odradek.faults.one_line import rule
from odradek.host.router import SERVED
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey


def test_one_line_is_the_same_as_the_parts() -> None:
    parts = Rule(
        name="late",
        match=Match(api="PRODUCE", topic="orders", sender="client"),
        when=When(skip=2),
        act=Act(hold=True),
        expect=Expect(hits=1),
    )
    assert parts == rule(ApiKey.PRODUCE, name="late", topic="orders", sender="client", skip=2, hold=True, expect=1)


@pytest.mark.parametrize("name", ["END_TXN", "EndTxn", "end_txn", "endtxn"])
def test_an_api_has_kafkas_name(name: str) -> None:
    assert (ApiKey.END_TXN,) == Match(api=name).apis


@pytest.mark.parametrize(("text", "versions"), [(4, range(4, 5)), ("4", range(4, 5)), ("3-5", range(3, 6))])
def test_versions(text: int | str, versions: range) -> None:
    assert versions == Match(versions=text).version_range


def test_how_often_it_is_hit_follows_from_what_it_does() -> None:
    assert 1 == rule("END_TXN", hold=True).times
    assert rule("END_TXN", expect="none").times is None
    assert rule("END_TXN", hold=True, times="all").times is None
    assert 1 == rule("END_TXN", reply=lambda _: None).times


@pytest.mark.parametrize(("wrong", "field", "sentence"), [
    ({"api": "PRODUC", "hold": True}, "api", "There is no API PRODUC: did you mean PRODUCE?"),
    ({"api": "VOTE", "hold": True}, "api", "Nobody here serves VOTE, so that no request would match"),
    ({"api": [], "hold": True}, "api", "A list of APIs holds at least one."),
    ({"api": 3, "hold": True}, "api", "Expected str | array, got int."),
    ({"api": "END_TXN", "from": "client", "hold": True}, "from", "A rule has no field from; did you mean sender?"),
    ({"api": "END_TXN", "hodl": True}, "hodl", "A rule has no field hodl; did you mean hold?"),
    ({"api": "END_TXN"}, "act", "This rule does nothing: give it an act, a then"),
    ({"api": "END_TXN", "topic": "t", "hold": True}, "topic", "END_TXN carries no topic: it carries transactional_id"),
    ({"api": "HEARTBEAT", "partition": 1, "hold": True}, "partition", "HEARTBEAT carries no partition: it carries gr"),
    ({"api": ["PRODUCE", "END_TXN"], "topic": "t", "hold": True}, "topic", "END_TXN carries no topic"),
    ({"api": "END_TXN", "versions": "9+", "hold": True}, "versions", "END_TXN is served in the versions 0 to 5."),
    ({"api": "END_TXN", "versions": "5-3", "hold": True}, "versions", "Versions go up"),
    ({"api": "END_TXN", "versions": "new", "hold": True}, "versions", "Versions are one number, 3-5 or 4+, not new."),
    ({"api": "END_TXN", "sender": "me", "hold": True}, "from", "Invalid enum value 'me'"),
    ({"api": "PRODUCE", "partition": -1, "hold": True}, "partition", "partition is 0 or more, not -1."),
    ({"api": "END_TXN", "drop": True, "hold": True}, "hold", "drop and hold cannot both happen to the same request."),
    ({"api": "END_TXN", "error": "NOT_COORDINATOR", "disconnect": "after"}, "error", "disconnect and error cannot"),
    ({"api": "END_TXN", "error": "NOT_COORD"}, "error", "There is no error NOT_COORD: did you mean NOT_COORDINATOR"),
    ({"api": "END_TXN", "error": "NONE"}, "error", "There is no error NONE"),
    ({"api": "END_TXN", "hold": True, "message": "no"}, "message", "A message goes with an error"),
    ({"api": "END_TXN", "hold": True, "times": 0}, "times", "times is 1 or more, not 0."),
    ({"api": "END_TXN", "hold": True, "every": 0}, "every", "every is 1 or more, not 0."),
    ({"api": "END_TXN", "hold": True, "skip": -1}, "skip", "skip is 0 or more, not -1."),
    ({"api": "END_TXN", "hold": True, "probability": 0.0}, "probability", "above 0 and at most 1, not 0."),
    ({"api": "END_TXN", "delay_ms": -5}, "delay_ms", "delay_ms is 0 or more, not -5."),
    ({"api": "END_TXN", "delay_ms": "5"}, "delay_ms", "delay_ms: Expected int, got str."),
    ({"api": "END_TXN", "hold": 1}, "hold", "Expected bool, got int."),
    ({"api": "END_TXN", "disconnect": True}, "disconnect", "got bool: it is one of before, after."),
    ({"api": "END_TXN", "reply": 3}, "reply", "Expected object | null, got int."),
    ({"api": "END_TXN", "reply": {"errorCod": 3}}, "act.reply", "EndTxnResponse has no field errorCod: it has throt"),
    ({"api": "END_TXN", "reply": {"errorCode": "NOPE"}}, "act.reply", "there is no error NOPE"),
    ({"api": "END_TXN", "reply": {"errorCode": 1 << 20}}, "act.reply", "This is no answer of END_TXN"),
    ({"api": "any", "reply": {"errorCode": 3}}, "act.reply", "A reply is the answer of one API"),
    ({"api": "PRODUCE", "versions": 0, "throttle_ms": 5}, "act.throttle_ms", "has no throttle time in these versions"),
    ({"api": "METADATA", "versions": 0, "matches": 3, "hold": True}, "matches", "matches is a function of the call"),
    ({"api": "END_TXN", "reply": print, "hold": True, "drop": True}, "hold", "drop and hold cannot both"),
    ({"api": "END_TXN", "reply": print, "disconnect": "after"}, "reply", "disconnect and reply cannot both"),
    ({"api": "END_TXN", "hold": True, "expect": 2}, "expect", "It expects 2 hits, and times allows 1 hit only."),
    ({"api": "END_TXN", "expect": -1}, "hits", "hits is 0 or more"),
    ({"api": "END_TXN", "expect": {"hit": 1}}, "expect", "An expectation is one of hits: N and at_least: N"),
    ({"api": "END_TXN", "expect": "some"}, "expect", "a number of hits, hits: N, at_least: N or none, not 'some'."),
    ({"api": "END_TXN", "then": [{}]}, "", "A step is one thing of release, remove, move_leader"),
    ({"api": "END_TXN", "then": [{"release": "a", "remove": "b"}]}, "", "not release and remove."),
    ({"api": "END_TXN", "then": [{"advance_ms": -1}]}, "advance_ms", "advance_ms is 0 or more"),
    (
        {"api": "END_TXN", "then": [{"stop_broker": 1, "fence_after_ms": -1}]},
        "fence_after_ms",
        "fence_after_ms is 0 or more",
    ),
    (
        {"api": "END_TXN", "then": [{"restart_broker": 1, "fence_after_ms": 1}]},
        "fence_after_ms",
        "It goes with stop_broker.",
    ),
    ({"api": "END_TXN", "then": [{"set_producer_epoch": 1 << 15}]}, "set_producer_epoch", "is at most 32767"),
    ({"api": "END_TXN", "then": [{"move_leader": "next"}]}, "then.0.move_leader", "END_TXN carries no topic"),
    ({"api": "any", "then": [{"move_leader": 1}]}, "then.0.move_leader", "It takes the topic and partition from the"),
    ({"api": "END_TXN", "then": [{"move_coordinator": 1}]}, "then", "A step has no field move_coordinator"),
    ({"api": "END_TXN", "then": 3}, "then", "What follows is a list of steps, not 3."),
    ({"api": "END_TXN", "then": ["release"]}, "then", "A step is one thing and what it is done to, as in advance_ms"),
    ({"api": "END_TXN", "hold": True, "name": " "}, "name", "A name is not empty."),
    ({"api": "END_TXN", "hold": True, "name": "a", "after": "a"}, "when.after", "a cannot begin after itself."),
])  # fmt: skip
def test_what_makes_no_rule(wrong: dict[str, Any], field: str, sentence: str) -> None:
    with pytest.raises(RuleError) as refused:
        rule(**wrong)
    assert sentence in str(refused.value)
    assert field == refused.value.field


def test_the_parts_are_checked_as_well() -> None:
    with pytest.raises(RuleError, match="skip: Expected int, got str"):
        When(skip="1")  # type: ignore[arg-type]
    with pytest.raises(RuleError, match="one of hits: N and at_least: N"):
        Expect(hits=1, at_least=1)


@pytest.mark.parametrize("wrong", [
    {"match": "END_TXN", "act": Act(hold=True)},
    {"match": Match(), "act": "hold"},
    {"match": Match(), "act": Act(hold=True), "when": 3},
    {"match": Match(), "act": Act(hold=True), "expect": 3},
    {"match": Match(), "act": Act(hold=True), "name": 3},
    {"match": Match(), "act": Act(hold=True), "then": "release"},
])  # fmt: skip
def test_a_rule_is_made_of_its_parts(wrong: dict[str, Any]) -> None:
    with pytest.raises(RuleError, match="Expected"):
        Rule(**wrong)


@pytest.mark.parametrize(
    "api_key", [served.api_key for served in SERVED if served.is_for_clients], ids=lambda key: key.name
)
def test_every_api_can_be_refused_with_any_error(api_key: ApiKey) -> None:
    assert ErrorCode.THROTTLING_QUOTA_EXCEEDED is rule(api_key, error="THROTTLING_QUOTA_EXCEEDED").act.error_code


def test_functions_are_for_python_alone() -> None:
    scripted = rule("END_TXN", matches=lambda _: True)
    assert isinstance(scripted, Scripted)
    assert not scripted.acts
