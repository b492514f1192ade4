"""The coordinator as a machine: what it folds, what it owes, and what a successor makes of its log."""

from __future__ import annotations

from tests.unit.group.classic.test_protocol import stable_pair, stable_static_pair
from tests.unit.group.desk import DELAY_OF_NOTHING, REBALANCE_MS, SESSION_MS, START, Desk

from odradek.core.machine import LogRecord, Parked, Refused
from odradek.group.modern_member import Client
from odradek.group.work import ExpireOffsets, GroupDue
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol


def test_a_machine_that_has_nothing_owes_nothing() -> None:
    machine = Desk().machine
    assert [] == list(machine.due(START))
    assert machine.wake_at() is None


def test_a_new_group_is_owed_a_record_and_its_first_generation() -> None:
    desk = Desk(layers=DELAY_OF_NOTHING)
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )
    decision = desk.machine.join(request, 3, Client("client", "/h"), START)
    assert isinstance(decision, Parked)
    assert [] == desk.machine.released
    assert [GroupDue("g")] == list(desk.machine.due(START))
    assert [] == list(desk.machine.due(START))
    desk.machine.ended(GroupDue("g"))
    assert [GroupDue("g")] == list(desk.machine.due(START)), "it has come to nothing, so it is owed still"
    desk.machine.ended(GroupDue("g"))
    desk.waiting.add(decision.token)
    desk.settle()
    assert 1 == desk.replies[decision.token].generation_id
    assert 1 == len(desk.records)


def test_the_machine_wants_to_be_woken_for_the_next_session() -> None:
    desk = Desk()
    joined = desk.enter()
    desk.sync(joined)
    assert START + SESSION_MS == desk.machine.wake_at()
    desk.now += 10
    desk.heartbeat(joined.member_id, 1)
    wake_at = desk.machine.wake_at()
    assert wake_at is not None
    assert wake_at <= START + 10 + SESSION_MS
    desk.sleep(SESSION_MS - 1)
    assert "Stable" == desk.state()
    desk.sleep(1)
    assert "Empty" == desk.state()


def test_works_have_keys_that_tell_groups_apart() -> None:
    assert GroupDue("a").key != GroupDue("b").key
    assert GroupDue("").key != ExpireOffsets().key


def test_a_successor_finds_a_stable_group_as_it_was() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    desk.fail_over()
    assert "Stable" == desk.state()
    assert 0 == desk.heartbeat(leader, 2)
    assert 0 == desk.heartbeat(follower, 2)
    assert 0 == desk.commit(1, member_id=leader, generation=2)
    assert 2 == desk.join(follower).generation_id


def test_sessions_begin_anew_with_a_successor() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    desk.sleep(SESSION_MS - 1)
    desk.fail_over()
    desk.sleep(SESSION_MS - 1)
    assert 0 == desk.heartbeat(leader, 2)
    desk.sleep(1)
    assert ErrorCode.UNKNOWN_MEMBER_ID == desk.heartbeat(follower, 2)
    assert "PreparingRebalance" == desk.state()


def test_a_rebalance_that_was_under_way_begins_again_with_a_successor() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    desk.join(follower, topics=("refunds",))
    desk.fail_over()
    assert "Stable" == desk.state()
    waiting = desk.join(follower, topics=("refunds",))
    assert 3 == desk.join(leader).generation_id
    assert 3 == desk.reply(waiting).generation_id


def test_a_generation_that_was_never_assigned_is_not_one_for_a_successor() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    desk.join(follower, topics=("refunds",))
    joined = desk.join(leader)
    assert 3 == joined.generation_id
    desk.fail_over()
    assert Refused(ErrorCode.ILLEGAL_GENERATION) == desk.sync(joined)
    assert 0 == desk.heartbeat(leader, 2)


def test_an_id_that_was_given_out_is_unknown_to_a_successor() -> None:
    desk = Desk()
    required = desk.join()
    desk.fail_over()
    assert "Empty" == desk.state()
    assert Refused(ErrorCode.UNKNOWN_MEMBER_ID) == desk.join(required.member_id)


def test_static_members_are_static_for_a_successor() -> None:
    desk = Desk()
    leader, _ = stable_static_pair(desk)
    desk.fail_over()
    back = desk.join(instance="one")
    assert (2, True) == (back.generation_id, back.skip_assignment)
    assert ErrorCode.FENCED_INSTANCE_ID == desk.heartbeat(leader, 2, instance="one")


def test_a_group_that_has_become_too_large_for_a_successor_rebalances() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    desk.config = Desk(group_max_size=1).config
    desk.fail_over()
    assert "PreparingRebalance" == desk.state()
    waiting = desk.join(leader)
    assert Refused(ErrorCode.GROUP_MAX_SIZE_REACHED) == desk.join(follower)
    desk.sleep(REBALANCE_MS)
    assert 3 == desk.reply(waiting).generation_id


def test_a_group_of_the_log_can_be_rebalanced_to_nothing() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    desk.fail_over()
    desk.leave(leader, follower)
    desk.fail_over()
    assert "Empty" == desk.state()
    assert 4 == desk.enter().generation_id


def test_records_of_unknown_kinds_and_broken_ones_do_not_stop_the_fold() -> None:
    desk = Desk()
    desk.append(
        [
            LogRecord(b"\x00\x09later", b"x"),
            LogRecord(b"\x7f\xffunknown", None),
            LogRecord(None, b"x"),
            LogRecord(b"\x00\x01\x00\x09short", b"\x00\x04"),
            LogRecord(b"\x00\x01\x00\x01g\x00\x06orders\x00\x00\x00\x00", b"\x00\x63later"),
        ]
    )
    desk.settle()
    assert 2 == sum(fact.kind == "group_record_skipped" for fact in desk.machine.facts)
    desk.commit(1)
    assert {("orders", 0): 1} == desk.fetch_all()


def test_facts_tell_every_change_of_state() -> None:
    desk = Desk()
    joined = desk.enter()
    desk.sync(joined)
    desk.leave(joined.member_id)
    desk.ask(desk.machine.delete_group, "g", desk.now)
    changes = [(fact.fields["state_from"], fact.fields["state_to"]) for fact in desk.machine.facts]
    expected = [
        ("Empty", "PreparingRebalance"),
        ("PreparingRebalance", "CompletingRebalance"),
        ("CompletingRebalance", "Stable"),
        ("Stable", "PreparingRebalance"),
        ("PreparingRebalance", "Empty"),
        ("Empty", "Dead"),
    ]
    assert expected == changes


def test_groups_of_one_machine_do_not_disturb_each_other() -> None:
    desk = Desk()
    one, two = desk.enter(group="one"), desk.enter(group="two")
    desk.sync(one, group="one")
    desk.sync(two, group="two")
    desk.sleep(SESSION_MS // 2)
    desk.heartbeat(one.member_id, 1, group="one")
    desk.sleep(SESSION_MS // 2)
    assert ("Stable", "Empty") == (desk.state("one"), desk.state("two"))
