"""What a rule hits, what it counts and remembers, and what it says when it has not seen what it expects."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.host.helpers import batch, only, produce_request

from odradek.faults.armed import Armed
from odradek.faults.model import RuleError
from odradek.faults.one_line import rule
from odradek.host.call import Call
from odradek.sim import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.metadata_request import MetadataRequest
from odradek.wire.messages.metadata_response import MetadataResponse

REFUSED = ErrorCode.POLICY_VIOLATION


def codes(world: World, count: int, *, topic: str = "t", client_id: str = "client") -> list[int]:
    """How so many requests to produce are answered."""
    client = world.client(client_id=client_id)
    request = produce_request(batch(b"a"), topic=topic)
    return [only(client.ask(request, 9)).error_code for _ in range(count)]


def hit(answers: list[int]) -> list[int]:
    """Which of them, counted from 1, were refused."""
    return [number for number, code in enumerate(answers, 1) if code == REFUSED]


def refusing(world: World, **fields: Any) -> Armed:
    return world.arm(rule("PRODUCE", error=REFUSED.name, **fields))


@pytest.mark.parametrize(("when", "hits"), [
    ({}, [1]),
    ({"skip": 2}, [3]),
    ({"skip": 1, "times": 2}, [2, 3]),
    ({"times": "all", "every": 2}, [2, 4, 6]),
    ({"skip": 1, "times": 2, "every": 2}, [3, 5]),
])  # fmt: skip
def test_which_of_those_that_match_are_hit(when: dict[str, Any], hits: list[int]) -> None:
    world = World(topics=["t"])
    armed = refusing(world, **when)
    assert hits == hit(codes(world, 6))
    assert (6, len(hits), 0) == (armed.matched, armed.hits, armed.held)


@pytest.mark.parametrize(("api", "versions", "said"), [
    ("TXN_OFFSET_COMMIT", "5+", "This release of Kafka serves TXN_OFFSET_COMMIT in other versions only."),
    ("CONSUMER_GROUP_HEARTBEAT", None, "This release of Kafka does not serve CONSUMER_GROUP_HEARTBEAT, so that"),
])  # fmt: skip
def test_what_an_older_release_does_not_serve_is_refused(api: str, versions: str | None, said: str) -> None:
    world = World(config={"odradek.as.kafka": "2.8"})
    with pytest.raises(RuleError, match=said):
        world.arm(rule(api, versions=versions, drop=True))
    assert 0 == len(world.rules)
    assert world.arm(rule([api, "PRODUCE"], drop=True))
    World().arm(rule(api, versions=versions, drop=True))


def test_the_chance_comes_from_the_seed_alone() -> None:
    def played(seed: int, *, beside: bool) -> list[int]:
        world = World(topics=["t"], seed=seed)
        refusing(world, name="some", times="all", probability=0.3)
        if beside:
            world.arm(rule("METADATA", times="all", probability=0.5, drop=True))
            world.client().send(MetadataRequest(topics=None), 13)
            world.run()
        return hit(codes(world, 60))

    assert played(1, beside=False) == played(1, beside=True)
    assert played(1, beside=False) != played(2, beside=False)
    assert 8 <= len(played(1, beside=False)) <= 30


def test_a_rule_may_begin_after_another() -> None:
    world = World(topics=["t"])
    world.arm(rule("METADATA", name="first", drop=True))
    armed = refusing(world, after="first")
    assert [] == hit(codes(world, 2))
    assert "after: first has not been hit yet" == armed.requests[-1].passed
    world.client().send(MetadataRequest(topics=None), 13)
    world.run()
    assert [1] == hit(codes(world, 2))


def test_the_first_that_does_something_is_hit_and_those_that_count_see_all_before() -> None:
    world = World(topics=["t"])
    counting = world.arm(rule("PRODUCE", expect={"at_least": 2}))
    first = refusing(world)
    second = refusing(world, times="all")
    codes(world, 3)
    assert (3, 1, 2) == (counting.hits, first.hits, second.hits)
    assert [] == world.rules.verify()


@pytest.mark.parametrize(
    ("pattern", "hits"), [("t", 1), ("*", 1), ("?", 1), ("t*", 1), ("x*", 0), ("[t]", 0), ("T", 0)]
)
def test_text_may_have_stars(pattern: str, hits: int) -> None:
    world = World(topics=["t"])
    by_topic, by_client = refusing(world, topic=pattern), world.arm(rule(client_id=pattern, expect={"at_least": 0}))
    codes(world, 1)
    codes(world, 1, client_id="t")
    assert hits == by_topic.hits
    assert hits == min(by_client.hits, 1)


def test_a_rule_is_for_one_broker_or_for_those_who_ask() -> None:
    world = World(brokers=2, topics=["t"])
    here = world.arm(rule("METADATA", broker=2, error="LEADER_NOT_AVAILABLE", times="all"))
    brokers = world.arm(rule("METADATA", sender="broker", drop=True))
    for node_id in (1, 2):
        topics = world.client(node_id).ask(MetadataRequest(topics=None), 13).topics
        assert {5 if node_id == 2 else 0} == {topic.error_code for topic in topics}
    assert (1, 0) == (here.hits, brokers.hits)
    assert ["broker: it is for 1, not 2"] == here.near_misses[0].failed
    assert ["from: it is from a client"] == brokers.near_misses[0].failed


def test_a_report_has_all_of_it() -> None:
    world = World(topics=["t", "u"])
    armed = refusing(world, name="late", topic="t", skip=1, times=20)
    before = world.now
    codes(world, 12)
    world.advance(500)
    codes(world, 1)
    codes(world, 1, topic="u")
    report = armed.report()
    assert ("late", 13, 12, 0, None) == (report.name, report.matched, report.hits, report.held, report.unmet)
    assert (before, before + 500) == (report.first_ms, report.last_ms)
    assert 10 == len(report.requests)
    last = report.requests[-1]
    assert ("PRODUCE", 9, "client", "client", 1) == (last.api, last.version, last.client_id, last.sender, last.broker)
    assert {"topic": ["t"], "partition": [0]} == last.ids
    [miss] = report.near_misses
    assert ["topic: it has u, not t"] == miss.failed


def test_an_expectation_in_vain_says_what_came_nearest() -> None:
    world = World(topics=["t", "u"])
    refusing(world, name="late", topic="t", client_id="till", expect=1)
    refusing(world, name="never", topic="u", expect="none")
    codes(world, 1, topic="u", client_id="cook")
    codes(world, 1, topic="t", client_id="cook")
    late, never = world.rules.verify()
    assert (
        "Rule late expects 1 hit and had 0 hits; no request matched. "
        "Nearest: PRODUCE v9 of cook at broker 1 topic=t partition=0: client_id: it is cook, not till."
    ) == late
    assert "Rule never expects no hit and had 1 hit; 1 request matched." == never


def test_ids_that_do_not_stand_together_are_told_so() -> None:
    world = World(topics=["t:2", "u:2"])
    armed = refusing(world, topic="t", partition=1, expect=1)
    request = produce_request(batch(b"a"), topic="t")
    request.topic_data += produce_request(batch(b"a"), topic="u", partition=1).topic_data
    world.client().ask(request, 9)
    assert ["topic, partition: they do not stand together"] == armed.near_misses[0].failed


def test_one_that_matches_and_passes_says_why() -> None:
    world = World(topics=["t"])
    refusing(world, name="late", skip=3, expect={"at_least": 1})
    codes(world, 2)
    [sentence] = world.rules.verify()
    assert (
        "had 0 hits; 2 requests matched, the last one passed because of skip: it is number 2, and 3 pass." in sentence
    )


def test_a_rule_that_was_removed_still_expects() -> None:
    world = World(topics=["t"])
    armed = refusing(world, name="late", expect=1)
    world.disarm(armed)
    [sentence] = world.rules.verify()
    assert sentence.endswith("had 0 hits; no request matched. The rule was removed.")
    world.rules.clear()
    assert [] == world.rules.verify()


def test_rules_are_added_together_or_not_at_all() -> None:
    world = World(brokers=2, topics=["t"])
    good = rule("PRODUCE", name="good", drop=True)
    for bad, field, sentence in (
        (rule("PRODUCE", name="good", drop=True), "name", "There is a rule good already."),
        (
            rule("PRODUCE", after="other", drop=True),
            "when.after",
            "There is no rule other before rule-1: there is good.",
        ),
        (rule("PRODUCE", broker=3, drop=True), "match.broker", "There is no broker 3: there is 1, 2."),
    ):
        with pytest.raises(RuleError) as refused:
            world.rules.add([good, bad])
        assert (field, sentence) == (refused.value.field, str(refused.value))
        assert 0 == len(world.rules)


def test_without_rules_a_node_does_not_look() -> None:
    world = World(brokers=2)
    assert {None} == {node.faults for node in world.nodes.values()}
    armed = world.arm(rule("PRODUCE", drop=True))
    assert None not in {node.faults for node in world.nodes.values()}
    world.disarm(armed)
    assert {None} == {node.faults for node in world.nodes.values()}


def test_a_broker_that_starts_again_has_the_rules() -> None:
    world = World(brokers=2, topics=["t"])
    armed = world.arm(rule("METADATA", broker=2, error="LEADER_NOT_AVAILABLE", times="all"))
    world.stop_broker(2)
    world.start_broker(2)
    world.client(2).ask(MetadataRequest(topics=None), 13)
    assert 1 == armed.hits


def test_what_a_function_raises_is_raised_in_the_test() -> None:
    def matches(call: Call) -> bool:
        raise ZeroDivisionError("in matches")

    world = World(topics=["t"])
    world.arm(rule("PRODUCE", matches=matches, drop=True))
    with pytest.raises(ZeroDivisionError, match="in matches"):
        codes(world, 1)


@pytest.mark.parametrize(("reply", "error", "said"), [
    (lambda call: 3, TypeError, "reply gives a ProduceResponse, not 3."),
    (lambda call: MetadataResponse(), TypeError, "reply gives a ProduceResponse, not MetadataResponse"),
    (lambda call: call.request.nothing, AttributeError, "nothing"),
])  # fmt: skip
def test_a_reply_that_is_none_is_raised_in_the_test(reply: Any, error: type[Exception], said: str) -> None:
    world = World(topics=["t"])
    world.arm(rule("PRODUCE", reply=reply))
    with pytest.raises(error, match=said):
        codes(world, 1)
