from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.counted import lines_of
from tests.unit.group.desk import subscription

from odradek.group.classic.group import ClassicGroup
from odradek.group.classic.member import GONE, Member
from odradek.group.classic.states import GroupState
from odradek.wire.errors import ErrorCode


def member(
    member_id: str,
    protocols: Iterable[str] = ("range",),
    *,
    instance: str | None = None,
    topics: Iterable[str] = ("t",),
) -> Member:
    return Member(
        member_id=member_id,
        instance_id=instance,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=100,
        session_timeout_ms=10,
        protocols=tuple((name, subscription(topics)) for name in protocols),
    )


def group_of(*members: Member, protocol_type: str = "consumer") -> ClassicGroup:
    group = ClassicGroup("g")
    for each in members:
        group.add(each, protocol_type)
    return group


def test_the_first_member_leads_and_the_next_follows_it() -> None:
    group = group_of(member("a"), member("b"), member("c"))
    assert "a" == group.leader
    group.remove("b")
    assert "a" == group.leader
    group.remove("a")
    assert "c" == group.leader
    group.remove("c")
    assert group.leader is None


def test_an_empty_group_takes_any_protocol_but_none() -> None:
    group = ClassicGroup("g")
    assert group.supports("connect", (("sessioned", b""),))
    assert not group.supports("", (("sessioned", b""),))
    assert not group.supports("connect", ())


def test_a_group_takes_who_shares_a_protocol_with_all() -> None:
    group = group_of(member("a", ("range", "sticky")), member("b", ("sticky", "range", "own")))
    group.enter(GroupState.PREPARING_REBALANCE, 0)
    assert group.supports("consumer", (("sticky", b""),))
    assert not group.supports("consumer", (("own", b""),))
    assert not group.supports("connect", (("sticky", b""),))


def test_the_protocol_with_most_votes_is_selected() -> None:
    group = group_of(
        member("a", ("range", "sticky")), member("b", ("sticky", "range")), member("c", ("own", "sticky", "range"))
    )
    assert "sticky" == group.select_protocol()


def test_a_protocol_that_one_member_lacks_is_never_selected() -> None:
    group = group_of(member("a", ("range", "sticky")), member("b", ("range", "sticky")), member("c", ("sticky",)))
    assert "sticky" == group.select_protocol()


def test_a_generation_counts_on_and_knows_its_topics() -> None:
    group = group_of(member("a", topics=("t", "u")), member("b", topics=("v",)))
    group.enter(GroupState.PREPARING_REBALANCE, 5)
    group.begin_generation(7)
    assert (GroupState.COMPLETING_REBALANCE, 1, "range", 7) == (
        group.state,
        group.generation,
        group.protocol,
        group.state_timestamp,
    )
    assert group.is_subscribed_to("v")
    assert not group.is_subscribed_to("w")


def test_a_generation_without_members_is_empty_and_has_no_protocol() -> None:
    group = group_of(member("a"))
    group.enter(GroupState.PREPARING_REBALANCE, 5)
    group.remove("a")
    group.begin_generation(7)
    assert (GroupState.EMPTY, 1, None) == (group.state, group.generation, group.protocol)
    assert not group.is_subscribed_to("t")
    assert "consumer" == group.protocol_type


def test_members_that_are_no_consumers_subscribe_to_nothing_known() -> None:
    group = group_of(member("a"), protocol_type="connect")
    group.enter(GroupState.PREPARING_REBALANCE, 5)
    group.begin_generation(7)
    assert group.subscribed_topics is None
    assert not group.is_subscribed_to("t")


def test_a_consumer_group_whose_subscriptions_are_unreadable_may_be_subscribed_to_anything() -> None:
    unreadable = member("a")
    unreadable.protocols = (("range", b""),)
    group = group_of(unreadable)
    group.enter(GroupState.PREPARING_REBALANCE, 5)
    group.begin_generation(7)
    assert group.is_subscribed_to("anything")


def test_a_transition_that_is_not_allowed_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        ClassicGroup("g").enter(GroupState.STABLE, 0)


def test_two_static_members_with_one_instance_id_are_a_bug() -> None:
    group = group_of(member("a", instance="i"))
    with pytest.raises(AssertionError):
        group.add(member("b", instance="i"), "consumer")


def test_a_replaced_static_member_keeps_its_place_and_its_lead() -> None:
    first, second = member("a", instance="i"), member("b")
    group = group_of(first, second)
    group.replace(first, member("a2", instance="i"))
    assert ["a2", "b"] == list(group.members)
    assert "a2" == group.leader
    assert {"i": "a2"} == group.static_members


@pytest.mark.parametrize(
    ("member_id", "instance_id", "expected"),
    [
        ("a", None, None),
        ("s", "i", None),
        ("s", None, None),
        ("x", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("x", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("a", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("s", "j", ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_is_a_member(member_id: str, instance_id: str | None, expected: ErrorCode | None) -> None:
    group = group_of(member("a"), member("s", instance="i"))
    assert expected is group.refusal_of_member(member_id, instance_id)


def test_the_leader_is_elected_among_those_that_joined() -> None:
    first, second = member("a"), member("b")
    group = group_of(first, second)
    assert not group.elect_joined_leader()
    second.join = GONE
    assert group.elect_joined_leader()
    assert "b" == group.leader


def test_all_have_joined_when_no_id_given_out_is_missing() -> None:
    only = member("a")
    group = group_of(only)
    assert not group.all_joined
    only.join = GONE
    assert group.all_joined
    group.pending_joins["b"] = 99
    assert not group.all_joined


def test_the_next_deadline_is_the_earliest_of_all() -> None:
    first, second = member("a"), member("b")
    group = group_of(first, second)
    assert group.next_deadline() is None
    first.deadline = 50
    group.pending_joins["c"] = 40
    assert 40 == group.next_deadline()
    group.join_deadline = 30
    group.sync_deadline = 20
    assert 20 == group.next_deadline()
    group.record_deadline = 10
    assert 10 == group.next_deadline()


def test_sessions_begin_with_the_time_that_was_missing() -> None:
    group = group_of(member("a"), member("b"))
    group.sessions_to_begin.add("b")
    group.begin_sessions(100)
    assert [None, 110] == [each.deadline for each in group.members.values()]


def test_whether_a_member_fits_is_asked_of_no_other_member() -> None:
    many = tuple(f"p{number}" for number in range(50))
    costs = []
    for size in (10, 40):
        group = group_of(*(member(f"m{number}", many) for number in range(size)))
        group.enter(GroupState.PREPARING_REBALANCE, 0)
        costs.append(lines_of(lambda group=group: group.supports("consumer", (("other", b""), ("p49", b"")))))  # type: ignore[misc]
    assert costs[0] == costs[1]


def test_what_a_member_supports_no_more_counts_no_more() -> None:
    group = group_of(member("a", ("range", "sticky")), member("b", ("range",)))
    group.enter(GroupState.PREPARING_REBALANCE, 0)
    assert not group.supports("consumer", (("sticky", b""),))
    group.offer(group.members["b"], (("sticky", b""),))
    assert group.supports("consumer", (("sticky", b""),))
    assert not group.supports("consumer", (("range", b""),))
    group.remove("b")
    assert group.supports("consumer", (("range", b""),))
    group.members["a"].instance_id = "i"
    replacing = member("c", ("own",))
    replacing.instance_id = "i"
    group.replace(group.members["a"], replacing)
    assert group.supports("consumer", (("own", b""),))
    assert not group.supports("consumer", (("range", b""),))
    assert "own" == group.select_protocol()
