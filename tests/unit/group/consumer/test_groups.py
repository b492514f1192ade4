"""Consumer groups (KIP-848) as a coordinator has them: stories of their members."""

from __future__ import annotations

import pytest
from tests.counted import lines_of
from tests.unit.group.consumer.desk import CONSUMER_SESSION_MS, ConsumerDesk, T, U, assigned
from tests.unit.group.desk import error_of

from odradek.core.machine import Refused
from odradek.group.classic.consumer_protocol import read_assignment
from odradek.group.classic.states import GroupState
from odradek.group.consumer.group import ConsumerGroup, ConsumerGroupState
from odradek.group.modern_member import Client, MemberState
from odradek.group.surroundings import MigrationPolicy
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest


def refused(outcome: object) -> ErrorCode:
    assert isinstance(outcome, Refused)
    return outcome.error


def pair() -> ConsumerDesk:
    """Two members that share four partitions."""
    desk = ConsumerDesk()
    desk.arrive("A")
    desk.arrive("B")
    desk.beat("A", 2, {T: range(4)})
    desk.beat("A", 2, {T: [0, 1]})
    desk.beat("B", 3)
    assert ConsumerGroupState.STABLE is desk.group.state
    return desk


# ---------------------------------------------------------------------- joining and moving


def test_the_first_member_gets_everything() -> None:
    desk = ConsumerDesk()
    joined = desk.arrive("A")
    assert (2, {T: [0, 1, 2, 3]}) == (joined.member_epoch, assigned(joined))
    assert assigned(desk.beat("A", 2, {T: range(4)})) is None


def test_a_member_of_the_first_version_is_given_an_id() -> None:
    desk = ConsumerDesk()
    assert "member-1" == desk.arrive("", version=0).member_id


def test_partitions_go_over_when_they_were_given_up() -> None:
    desk = ConsumerDesk()
    desk.arrive("A")
    assert {} == assigned(desk.arrive("B"))
    assert {T: [0, 1]} == assigned(desk.beat("A", 2, {T: range(4)}))
    assert MemberState.UNREVOKED is desk.group.members["A"].state
    assert assigned(desk.beat("B", 3)) is None
    assert 3 == desk.beat("A", 2, {T: [0, 1]}).member_epoch
    assert {T: [2, 3]} == assigned(desk.beat("B", 3))


def test_who_does_not_give_up_its_partitions_is_dropped() -> None:
    desk = ConsumerDesk()
    desk.arrive("A", rebalance_ms=5_000)
    desk.arrive("B")
    desk.beat("A", 2, {T: range(4)})
    desk.sleep(4_999)
    assert "A" in desk.group.members
    desk.sleep(1)
    assert ["B"] == list(desk.group.members)
    assert ErrorCode.UNKNOWN_MEMBER_ID == refused(desk.beat("A", 2))


def test_who_gives_up_its_partitions_in_time_stays() -> None:
    desk = ConsumerDesk()
    desk.arrive("A", rebalance_ms=5_000)
    desk.arrive("B")
    desk.beat("A", 2, {T: range(4)})
    desk.beat("A", 2, {T: [0, 1]})
    desk.sleep(10_000)
    assert ["A", "B"] == list(desk.group.members)


def test_a_silent_member_is_dropped() -> None:
    desk = ConsumerDesk()
    desk.arrive("A")
    desk.sleep(CONSUMER_SESSION_MS - 1)
    desk.beat("A", 2)
    desk.sleep(CONSUMER_SESSION_MS - 1)
    assert not desk.group.is_empty
    desk.sleep(1)
    assert desk.group.is_empty


def test_a_successor_gives_members_their_time_anew() -> None:
    desk = pair()
    desk.sleep(CONSUMER_SESSION_MS - 1)
    desk.fail_over()
    desk.sleep(CONSUMER_SESSION_MS - 1)
    assert ["A", "B"] == list(desk.group.members)
    desk.sleep(1)
    assert desk.group.is_empty


def test_a_member_that_is_to_give_up_is_dropped_by_a_successor_too() -> None:
    desk = ConsumerDesk()
    desk.arrive("A", rebalance_ms=5_000)
    desk.arrive("B")
    desk.beat("A", 2, {T: range(4)})
    desk.fail_over()
    desk.sleep(5_000)
    assert ["B"] == list(desk.group.members)


@pytest.mark.parametrize(("epoch", "owned"), [(4, [0]), (1, [0]), (2, [0, 1, 2]), (2, None)])
def test_a_member_with_another_epoch_is_fenced(epoch: int, owned: list[int] | None) -> None:
    desk = pair()
    outcome = desk.beat("A", epoch, None if owned is None else {T: owned})
    assert ErrorCode.FENCED_MEMBER_EPOCH == refused(outcome)


def test_the_epoch_before_is_taken_from_who_owns_no_more_than_it_may() -> None:
    """The answer with the new epoch may have been lost."""
    assert 3 == pair().beat("A", 2, {T: [0]}).member_epoch


def test_the_assignment_waits_for_its_interval() -> None:
    """KIP-1263: until then the targets before hold, and a new member has none."""
    desk = ConsumerDesk(assignment_interval_ms=1_000)
    desk.arrive("A")
    joined = desk.arrive("B")
    assert (2, {}) == (joined.member_epoch, assigned(joined))
    assert ConsumerGroupState.ASSIGNING is desk.group.state
    desk.sleep(999)
    desk.beat("B", 2)
    assert ConsumerGroupState.ASSIGNING is desk.group.state
    desk.sleep(1)
    assert 3 == desk.beat("B", 2).member_epoch


def test_a_topic_that_grows_is_assigned_anew() -> None:
    desk = ConsumerDesk()
    desk.arrive("A")
    desk.set_topics(orders=5)
    assert {T: [0, 1, 2, 3, 4]} == assigned(desk.beat("A", 2, {T: range(4)}))


def test_a_group_is_full() -> None:
    desk = ConsumerDesk(max_size=1)
    desk.arrive("A")
    assert ErrorCode.GROUP_MAX_SIZE_REACHED == refused(desk.arrive("B"))
    assert ErrorCode.NONE == desk.arrive("A").error_code


# ---------------------------------------------------------------------- patterns


def test_a_pattern_is_resolved_after_the_answer() -> None:
    desk = ConsumerDesk({"orders": 1, "refunds": 1, "other": 1})
    joined = desk.arrive("A", topics=None, pattern="orders|re.*")
    assert (1, {}) == (joined.member_epoch, assigned(joined))
    assert {T: [0], U: [0]} == assigned(desk.beat("A", 1))
    assert {"orders", "refunds"} == desk.group.subscribed_topics(desk.group.members.values())


def test_a_pattern_matches_what_the_member_may_see_who_asks() -> None:
    desk = ConsumerDesk({"orders": 1, "refunds": 1, "other": 1})
    desk.arrive("A", topics=None, pattern="orders|re.*", sees=lambda topic: topic != "orders")
    assert {U: [0]} == assigned(desk.beat("A", 1))
    assert {"refunds"} == desk.group.subscribed_topics(desk.group.members.values())


def test_patterns_see_new_topics_after_ten_seconds() -> None:
    desk = ConsumerDesk({"orders": 1})
    desk.arrive("A", topics=None, pattern=".*")
    desk.beat("A", 1)
    desk.set_topics(orders=1, refunds=1)
    desk.sleep(10_000)
    assert assigned(desk.beat("A", 2, {T: [0]})) is None
    desk.sleep(1)
    assert assigned(desk.beat("A", 2, {T: [0]})) is None
    assert {T: [0], U: [0]} == assigned(desk.beat("A", 2, {T: [0]}))


def test_what_is_no_pattern_changes_nothing() -> None:
    desk = ConsumerDesk()
    desk.arrive("A")
    before = desk.machine.durable_state()
    assert ErrorCode.INVALID_REGULAR_EXPRESSION == refused(desk.beat("A", 2, pattern="("))
    assert before == desk.machine.durable_state()


# ---------------------------------------------------------------------- static members


def test_a_static_member_keeps_its_place_while_it_is_away() -> None:
    desk = ConsumerDesk()
    desk.arrive("A", instance="i")
    assert ErrorCode.UNRELEASED_INSTANCE_ID == refused(desk.arrive("B", instance="i"))
    desk.beat("A", -2, instance="i")
    joined = desk.arrive("B", instance="i")
    assert (2, {T: [0, 1, 2, 3]}) == (joined.member_epoch, assigned(joined))
    assert ErrorCode.FENCED_INSTANCE_ID == refused(desk.beat("A", 2, instance="i"))


def test_a_static_member_that_stays_away_is_dropped() -> None:
    desk = ConsumerDesk()
    desk.arrive("A", instance="i")
    desk.beat("A", -2, instance="i")
    desk.sleep(CONSUMER_SESSION_MS)
    assert desk.group.is_empty


# ---------------------------------------------------------------------- migration


def classic_member(desk: ConsumerDesk) -> str:
    """A classic group with one member that has all of `orders`."""
    joined = desk.enter(topics=["orders"])
    desk.sync(joined, {joined.member_id: ASSIGNMENT})
    return str(joined.member_id)


ASSIGNMENT = bytes.fromhex("0001 00000001 0006 6f7264657273 00000004 00000000 00000001 00000002 00000003 ffffffff")


def test_a_classic_group_is_upgraded_and_downgraded_with_members_at_work() -> None:
    desk = ConsumerDesk()
    member = classic_member(desk)
    assert {} == assigned(desk.arrive("B"))
    assert {T: frozenset({0, 1, 2, 3})} == {
        key: frozenset(each) for key, each in desk.group.members[member].assigned.items()
    }
    assert ErrorCode.REBALANCE_IN_PROGRESS == desk.heartbeat(member, 1)
    desk.beat("B", -1)
    group = desk.machine._groups["g"]
    assert GroupState.PREPARING_REBALANCE is getattr(group, "state", None)
    assert ErrorCode.REBALANCE_IN_PROGRESS == desk.heartbeat(member, 2)
    rejoined = desk.reply(desk.join(member, topics=["orders"]))
    assert (ErrorCode.NONE, 3) == (rejoined.error_code, rejoined.generation_id)


def test_a_classic_member_that_waits_is_told_to_join_again() -> None:
    desk = ConsumerDesk()
    desk.config = type(desk.config)(group_initial_rebalance_delay_ms=3_000)
    desk.machine = desk.new_machine()
    waiting = desk.enter(topics=["orders"])
    desk.arrive("B")
    assert ErrorCode.REBALANCE_IN_PROGRESS == error_of(desk.reply(waiting))
    assert isinstance(desk.machine._groups["g"], ConsumerGroup)


def test_a_classic_member_fetches_what_it_was_assigned() -> None:
    desk = ConsumerDesk()
    desk.arrive("A", assignor="range")
    joined = desk.enter(topics=["orders"])
    assert 3 == joined.generation_id
    assert [] == read_assignment(desk.sync(joined).assignment).assigned_partitions
    desk.beat("A", 2, {T: range(4)})
    desk.beat("A", 2, {T: [0, 1]})
    assert ErrorCode.REBALANCE_IN_PROGRESS == desk.heartbeat(joined.member_id, 3)
    again = desk.join(joined.member_id, topics=["orders"])
    partitions = read_assignment(desk.sync(again).assignment).assigned_partitions
    assert [("orders", [2, 3])] == [(each.topic, each.partitions) for each in partitions]


@pytest.mark.parametrize("silent", ["join", "sync"])
def test_a_classic_member_that_does_not_go_on_is_dropped(silent: str) -> None:
    desk = ConsumerDesk()
    desk.arrive("A", assignor="range")
    joined = desk.enter(topics=["orders"], session_ms=1_800_000, rebalance_ms=7_000)
    if silent == "join":
        desk.sync(joined)
        desk.beat("A", 2, {T: range(4)})
        desk.beat("A", 2, {T: [0, 1]})
        assert ErrorCode.REBALANCE_IN_PROGRESS == desk.heartbeat(joined.member_id, 3)
    desk.sleep(6_999)
    assert joined.member_id in desk.group.members
    desk.sleep(1)
    assert joined.member_id not in desk.group.members


def test_a_classic_member_that_goes_on_in_the_consumer_protocol_has_nothing_to_join_any_more() -> None:
    desk = ConsumerDesk()
    desk.arrive("A", assignor="range")
    joined = desk.enter(topics=["orders"], session_ms=1_800_000, rebalance_ms=7_000)
    desk.arrive(joined.member_id)
    desk.sleep(7_000)
    assert joined.member_id in desk.group.members


def test_a_heartbeat_that_says_nothing_new_may_come_from_another_client() -> None:
    desk = ConsumerDesk()
    desk.arrive("A")
    desk.beat("A", 2)
    assert "client" == desk.group.members["A"].client_id
    desk.beat("A", 2, client_id="renamed")
    assert "renamed" == desk.group.members["A"].client_id


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_a_group_is_upgraded_only_if_it_may_be(policy: MigrationPolicy) -> None:
    desk = ConsumerDesk(migration=policy)
    classic_member(desk)
    assert ErrorCode.GROUP_ID_NOT_FOUND == refused(desk.arrive("B"))


def test_nothing_is_left_of_a_group_that_was_downgraded() -> None:
    desk = ConsumerDesk()
    member = classic_member(desk)
    desk.arrive("B")
    desk.beat("B", -1)
    before = desk.machine.durable_state()
    assert {} == before["modern_groups"]
    desk.fail_over()
    assert before == desk.machine.durable_state()
    assert ErrorCode.NONE == desk.heartbeat(member, 2)
    assert 1 == sum(value is not None for value in dict(desk.records).values()), "what compaction leaves"


@pytest.mark.parametrize("policy", [MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL])
def test_a_group_is_downgraded_only_if_it_may_be(policy: MigrationPolicy) -> None:
    desk = ConsumerDesk(migration=policy)
    classic_member(desk)
    desk.arrive("B")
    desk.beat("B", -1)
    stays = isinstance(desk.machine._groups["g"], ConsumerGroup)
    assert stays is (policy is MigrationPolicy.UPGRADE)


def test_a_group_of_either_protocol_without_members_becomes_the_other() -> None:
    desk = ConsumerDesk()
    desk.arrive("A")
    desk.beat("A", -1)
    joined = desk.enter(topics=["orders"])
    assert 1 == joined.generation_id
    desk.leave(joined.member_id)
    assert 2 == desk.arrive("B").member_epoch
    desk.fail_over()
    assert ["B"] == list(desk.group.members)


# ---------------------------------------------------------------------- offsets


def test_a_member_commits_with_its_epoch() -> None:
    desk = pair()
    assert ErrorCode.NONE == desk.commit(1, member_id="A", generation=3)
    assert ErrorCode.STALE_MEMBER_EPOCH == desk.commit(2, member_id="A", generation=4)
    assert ErrorCode.UNSUPPORTED_VERSION == desk.commit(2, member_id="A", generation=3, version=8)
    assert ErrorCode.UNKNOWN_MEMBER_ID == desk.commit(2, member_id="C", generation=3)
    assert {("orders", 0): 1} == desk.fetch_all()


def test_an_older_epoch_commits_for_what_was_the_members_then() -> None:
    """KIP-1251."""
    desk = pair()
    assert ErrorCode.NONE == desk.commit(1, member_id="A", generation=2, partition=0)
    assert ErrorCode.STALE_MEMBER_EPOCH == desk.commit(1, member_id="A", generation=1, partition=0)
    assert ErrorCode.STALE_MEMBER_EPOCH == desk.commit(1, member_id="A", generation=2, partition=2)
    assert ErrorCode.STALE_MEMBER_EPOCH == desk.commit(1, member_id="B", generation=2, partition=2)


@pytest.mark.parametrize(("version", "error"), [(5, ErrorCode.ILLEGAL_GENERATION), (6, ErrorCode.STALE_MEMBER_EPOCH)])
def test_a_transaction_is_told_in_its_own_words(version: int, error: ErrorCode) -> None:
    desk = pair()
    assert ErrorCode.NONE == desk.txn_commit(1, member_id="A", generation=3, version=version)
    assert error == desk.txn_commit(1, member_id="A", generation=4, version=version)
    assert ErrorCode.NONE == desk.txn_commit(1, version=version), "a producer that names no member"


def test_a_group_without_members_goes_when_its_offsets_expire() -> None:
    desk = ConsumerDesk()
    desk.arrive("A")
    desk.commit(1, member_id="A", generation=2)
    desk.beat("A", -1)
    desk.sleep(desk.config.offsets_retention_minutes * 60_000)
    assert {("orders", 0): 1} != desk.fetch_all()
    desk.sleep(desk.config.offsets_retention_check_interval_ms)
    assert "g" not in desk.machine._groups
    desk.fail_over()
    assert "g" not in desk.machine._groups


def test_offsets_of_topics_that_members_read_stay() -> None:
    desk = ConsumerDesk()
    desk.arrive("A")
    desk.commit(1, member_id="A", generation=2)
    for _ in range(500):
        desk.sleep(30_000)
        desk.beat("A", 2)
    desk.now += desk.config.offsets_retention_minutes * 60_000
    desk.beat("A", 2)
    desk.settle()
    assert {("orders", 0): 1} == desk.fetch_all()


# ---------------------------------------------------------------------- events


def states_told(desk: ConsumerDesk) -> list[tuple[object, object, object]]:
    facts = [fact for fact in desk.machine.facts if fact.kind == "group_state_change"]
    desk.machine.facts.clear()
    return [(fact.fields["state_from"], fact.fields["state_to"], fact.fields["generation"]) for fact in facts]


def test_a_change_of_state_is_told() -> None:
    desk = ConsumerDesk()
    first = desk.arrive("A")
    desk.beat("A", first.member_epoch, {T: range(4)})
    assert [("Dead", "Stable", 2)] == states_told(desk)

    desk.arrive("B")
    assert [("Stable", "Reconciling", 3)] == states_told(desk)
    desk.beat("B", -1)
    desk.beat("A", -1)
    assert [("Reconciling", "Assigning", 4), ("Assigning", "Empty", 5)] == states_told(desk)


def test_a_change_of_state_of_a_share_group_is_told() -> None:
    desk = ConsumerDesk()

    def beat(member_id: str, epoch: int) -> None:
        names = ["orders"] if epoch == 0 else None
        request = ShareGroupHeartbeatRequest(
            group_id="s", member_id=member_id, member_epoch=epoch, subscribed_topic_names=names
        )
        desk.decide(desk.machine.share_heartbeat(request, Client("client", "/host"), desk.now))

    beat("A", 0)
    [(before, after, epoch)] = states_told(desk)
    assert ("Dead", "Stable") == (before, after)
    beat("A", -1)
    assert [("Stable", "Empty", int(str(epoch)) + 1)] == states_told(desk)


def test_what_was_before_a_failover_is_no_news() -> None:
    desk = ConsumerDesk()
    desk.arrive("A")
    desk.fail_over()
    assert [] == states_told(desk)

    desk.beat("A", -1)
    assert [("Stable", "Empty", 3)] == states_told(desk)


def test_whether_a_topic_is_read_is_asked_of_no_member_again() -> None:
    costs = []
    for size in (2, 20):
        desk = ConsumerDesk({"orders": 4, "refunds": 1})
        for number in range(size):
            desk.arrive(f"m{number}")
        assert desk.group.is_subscribed_to("orders")
        costs.append(lines_of(lambda desk=desk: desk.group.is_subscribed_to("refunds")))  # type: ignore[misc]
        assert not desk.group.is_subscribed_to("refunds")
        desk.arrive("other", topics=["refunds"])
        assert desk.group.is_subscribed_to("refunds")
        desk.beat("other", -1)
        assert not desk.group.is_subscribed_to("refunds")
    assert costs[0] == costs[1]


def test_a_classic_member_needs_an_assignor_that_all_classic_members_have() -> None:
    desk = ConsumerDesk()
    desk.arrive("A", assignor="range")
    assert desk.group.supports_protocols("consumer", ["any"])
    assert not desk.group.supports_protocols("consumer", [])
    assert not desk.group.supports_protocols("connect", ["range"])
    joined = desk.enter(topics=["orders"])
    assert desk.group.supports_protocols("consumer", ["other", "range"])
    assert not desk.group.supports_protocols("consumer", ["other"])
    desk.leave(joined.member_id)
    assert desk.group.supports_protocols("consumer", ["other"])
