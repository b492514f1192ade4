"""What members are answered; the timeline of a rebalance is in `test_rebalance`."""

from __future__ import annotations

import pytest
from tests.unit.group.desk import Desk, error_of

from odradek.core.machine import Refused
from odradek.wire.errors import ErrorCode


def stable_pair(desk: Desk) -> tuple[str, str]:
    """A stable group of two, in generation 2: the leader and the follower."""
    first = desk.enter()
    desk.sync(first, {first.member_id: b"all"})
    waiting = desk.enter()
    leader = desk.join(first.member_id)
    follower = desk.reply(waiting)
    parked = desk.sync(follower)
    desk.sync(leader, {leader.member_id: b"L", follower.member_id: b"F"})
    assert b"F" == desk.reply(parked).assignment
    return leader.member_id, follower.member_id


def stable_static_pair(desk: Desk, version: int = 9) -> tuple[str, str]:
    """The same, with the instance ids "one" and "two"."""
    first = desk.reply(desk.join(instance="one", version=version))
    waiting = desk.join(instance="two", version=version)
    leader = desk.join(first.member_id, instance="one", version=version)
    follower = desk.reply(waiting)
    desk.sync(leader, {leader.member_id: b"L", follower.member_id: b"F"}, instance="one")
    desk.sync(follower, instance="two")
    return leader.member_id, follower.member_id


# ---------------------------------------------------------------------- JoinGroup


@pytest.mark.parametrize("version", range(4))
def test_before_version_4_a_new_member_waits_at_once(version: int) -> None:
    desk = Desk()
    joined = desk.reply(desk.join(version=version))
    assert ("client-1", "client-1", 1) == (joined.member_id, joined.leader, joined.generation_id)


@pytest.mark.parametrize("version", range(4, 10))
def test_from_version_4_a_new_member_is_given_an_id_first(version: int) -> None:
    desk = Desk()
    required = desk.join(version=version)
    assert (ErrorCode.MEMBER_ID_REQUIRED, "client-1") == (required.error_code, required.member_id)
    assert "Empty" == desk.state()
    joined = desk.reply(desk.join("client-1", version=version))
    assert (0, "client-1", 1) == (joined.error_code, joined.leader, joined.generation_id)


def test_a_static_member_needs_no_second_request() -> None:
    joined = (desk := Desk()).reply(desk.join(instance="one"))
    assert ("one-1", 1) == (joined.member_id, joined.generation_id)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_refusals_of_a_first_join(changes: dict[str, object], expected: ErrorCode) -> None:
    assert Refused(expected) == Desk().join(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"protocols": ("other",)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "client-1", "instance": "one"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_refusals_of_a_group_that_is_there(changes: dict[str, object], expected: ErrorCode) -> None:
    desk = Desk()
    joined = desk.enter()
    desk.sync(joined)
    assert Refused(expected) == desk.join(**changes)  # type: ignore[arg-type]
    assert "Stable" == desk.state()


def test_a_member_of_an_empty_group_has_to_begin_anew() -> None:
    desk = Desk()
    joined = desk.enter()
    desk.leave(joined.member_id)
    assert "Empty" == desk.state()
    assert Refused(ErrorCode.UNKNOWN_MEMBER_ID) == desk.join(joined.member_id)


def test_only_the_leader_learns_of_the_members() -> None:
    desk = Desk()
    first = desk.enter()
    desk.sync(first)
    waiting = desk.enter(client_id="second")
    leader, follower = desk.join(first.member_id), desk.reply(waiting)
    assert [leader.member_id, follower.member_id] == [each.member_id for each in leader.members]
    assert [] == follower.members
    assert leader.member_id == follower.leader
    assert ("consumer", "range") == (leader.protocol_type, leader.protocol_name)


def test_in_a_stable_group_an_unchanged_follower_hears_the_present_generation() -> None:
    desk = Desk()
    _, follower = stable_pair(desk)
    joined = desk.join(follower)
    assert (2, []) == (joined.generation_id, joined.members)
    assert "Stable" == desk.state()


@pytest.mark.parametrize("changed", ["leader", "follower"])
def test_in_a_stable_group_the_leader_or_new_metadata_begins_a_rebalance(changed: str) -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    member_id, topics = (leader, ("orders",)) if changed == "leader" else (follower, ("refunds",))
    assert isinstance(desk.join(member_id, topics=topics), tuple)
    assert "PreparingRebalance" == desk.state()


def test_while_completing_an_unchanged_member_hears_the_present_generation() -> None:
    desk = Desk()
    joined = desk.enter()
    again = desk.join(joined.member_id)
    assert joined == again
    assert "CompletingRebalance" == desk.state()


def test_while_completing_new_metadata_begins_the_rebalance_again() -> None:
    desk = Desk()
    joined = desk.enter()
    again = desk.join(joined.member_id, topics=("refunds",))
    assert 2 == again.generation_id


def test_a_join_asked_again_over_another_connection_ends_the_first() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    first = desk.join(follower, topics=("refunds",))
    second = desk.join(follower, topics=("refunds",))
    assert ErrorCode.REBALANCE_IN_PROGRESS == desk.reply(first).error_code
    desk.join(leader)
    assert 3 == desk.reply(second).generation_id


@pytest.mark.parametrize("limit", [1, 2])
def test_a_full_group_takes_nobody_in(limit: int) -> None:
    desk = Desk(group_max_size=limit)
    first = desk.reply(desk.join(version=3))
    for _ in range(limit - 1):
        desk.join(version=3)
        desk.join(first.member_id, version=3)
    assert Refused(ErrorCode.GROUP_MAX_SIZE_REACHED) == desk.join(version=3)
    assert Refused(ErrorCode.GROUP_MAX_SIZE_REACHED) == desk.join(instance="one")


def test_the_last_of_a_group_that_has_become_too_large_has_to_go() -> None:
    desk = Desk(group_max_size=2)
    first = desk.reply(desk.join(version=3))
    desk.join(version=3)
    desk.join(version=3)
    assert Refused(ErrorCode.GROUP_MAX_SIZE_REACHED) == desk.join(first.member_id, version=3)


# ---------------------------------------------------------------------- SyncGroup


def test_followers_wait_for_the_leader_and_everybody_gets_their_own() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    described = desk.machine.describe("g", 5)
    assert {leader: b"L", follower: b"F"} == {each.member_id: each.member_assignment for each in described.members}


def test_a_member_that_the_leader_forgot_gets_nothing() -> None:
    desk = Desk()
    joined = desk.enter()
    assert b"" == desk.sync(joined, {"somebody else": b"X"}).assignment
    assert "Stable" == desk.state()


def test_a_stable_group_answers_the_assignment_again() -> None:
    desk = Desk()
    joined = desk.enter()
    assert b"A" == desk.sync(joined, {joined.member_id: b"A"}).assignment
    assert b"A" == desk.sync(joined).assignment


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group": "none"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 7}, ErrorCode.ILLEGAL_GENERATION),
        ({"instance": "one"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_refusals_of_a_sync(changes: dict[str, object], expected: ErrorCode) -> None:
    desk = Desk()
    joined = desk.enter()
    assert Refused(expected) == desk.sync(joined, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", range(5))
def test_before_version_5_a_sync_names_no_protocol(version: int) -> None:
    desk = Desk()
    assert 0 == desk.sync(desk.enter(), version=version, protocol=None, protocol_type=None).error_code


def test_a_member_that_waits_for_its_assignment_is_told_of_the_next_rebalance() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    waiting = desk.join(follower, topics=("refunds",))
    joined = desk.join(leader)
    parked = desk.sync(desk.reply(waiting))
    desk.leave(joined.member_id)
    assert ErrorCode.REBALANCE_IN_PROGRESS == desk.reply(parked).error_code
    assert Refused(ErrorCode.REBALANCE_IN_PROGRESS) == desk.sync(desk.reply(waiting))


# ---------------------------------------------------------------------- Heartbeat


def test_heartbeats_by_state() -> None:
    desk = Desk()
    joined = desk.enter()
    assert 0 == desk.heartbeat(joined.member_id, 1)
    desk.sync(joined)
    assert 0 == desk.heartbeat(joined.member_id, 1)
    desk.enter()
    assert ErrorCode.REBALANCE_IN_PROGRESS == desk.heartbeat(joined.member_id, 1)


def test_refusals_of_a_heartbeat() -> None:
    desk = Desk()
    joined = desk.enter()
    assert ErrorCode.INVALID_GROUP_ID == desk.heartbeat(joined.member_id, 1, group="")
    assert ErrorCode.UNKNOWN_MEMBER_ID == desk.heartbeat(joined.member_id, 1, group="none")
    assert ErrorCode.UNKNOWN_MEMBER_ID == desk.heartbeat("unknown", 1)
    assert ErrorCode.ILLEGAL_GENERATION == desk.heartbeat(joined.member_id, 2)
    assert ErrorCode.UNKNOWN_MEMBER_ID == desk.heartbeat(joined.member_id, 1, instance="one")


# ---------------------------------------------------------------------- LeaveGroup


@pytest.mark.parametrize("version", range(3))
def test_before_version_3_one_member_leaves_and_its_error_is_the_answer(version: int) -> None:
    desk = Desk()
    joined = desk.enter()
    left = desk.leave(joined.member_id, version=version)
    assert (0, []) == (left.error_code, left.members)
    assert ErrorCode.UNKNOWN_MEMBER_ID == desk.leave(joined.member_id, version=version).error_code
    assert ErrorCode.UNKNOWN_MEMBER_ID == desk.leave("x", version=version, group="none").error_code


def test_members_leave_together_and_each_is_answered() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    left = desk.leave(leader, "unknown", follower)
    assert (0, [0, ErrorCode.UNKNOWN_MEMBER_ID, 0]) == (left.error_code, [each.error_code for each in left.members])
    assert "Empty" == desk.state()


def test_nobody_leaves_a_group_that_is_not_there() -> None:
    left = (desk := Desk()).leave("a", "b", group="none")
    assert 2 * [ErrorCode.UNKNOWN_MEMBER_ID] == [each.error_code for each in left.members]
    assert Refused(ErrorCode.INVALID_GROUP_ID) == desk.leave("a", group="")


def test_an_id_that_was_given_out_can_be_handed_back() -> None:
    desk = Desk()
    required = desk.join()
    assert [0] == [each.error_code for each in desk.leave(required.member_id).members]
    assert Refused(ErrorCode.UNKNOWN_MEMBER_ID) == desk.join(required.member_id)


def test_a_member_that_leaves_while_it_waits_is_answered() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    waiting = desk.join(follower, topics=("refunds",))
    desk.leave(follower)
    assert ErrorCode.UNKNOWN_MEMBER_ID == desk.reply(waiting).error_code
    assert "" == desk.reply(waiting).member_id
    assert 3 == desk.join(leader).generation_id


def test_an_admin_removes_static_members_by_instance_id() -> None:
    desk = Desk()
    stable_static_pair(desk)
    left = desk.leave(instances=["one", "nobody"])
    assert [0, ErrorCode.UNKNOWN_MEMBER_ID] == [each.error_code for each in left.members]
    assert "PreparingRebalance" == desk.state()
    desk.leave(instances=["two"])
    assert "Empty" == desk.state()


# ---------------------------------------------------------------------- static members


@pytest.mark.parametrize("version", range(5, 10))
def test_a_static_follower_comes_back_without_a_rebalance(version: int) -> None:
    desk = Desk()
    leader, follower = stable_static_pair(desk)
    back = desk.join(instance="two", version=version)
    assert ("two-3", 2, False) == (back.member_id, back.generation_id, back.skip_assignment)
    assert leader == back.leader
    assert b"F" == desk.sync(back, instance="two").assignment
    assert "Stable" == desk.state()
    assert ErrorCode.FENCED_INSTANCE_ID == desk.heartbeat(follower, 2, instance="two")
    assert ErrorCode.UNKNOWN_MEMBER_ID == desk.heartbeat(follower, 2)
    assert 0 == desk.heartbeat(back.member_id, 2, instance="two")


@pytest.mark.parametrize("version", range(5, 9))
def test_before_version_9_a_static_leader_that_comes_back_is_not_told_that_it_leads(version: int) -> None:
    desk = Desk()
    leader, _ = stable_static_pair(desk, version)
    back = desk.join(instance="one", version=version)
    assert (leader, [], False) == (back.leader, back.members, back.skip_assignment)


def test_from_version_9_a_static_leader_that_comes_back_skips_the_assignment() -> None:
    desk = Desk()
    _, follower = stable_static_pair(desk)
    back = desk.join(instance="one", version=9)
    assert (back.member_id, True) == (back.leader, back.skip_assignment)
    assert [back.member_id, follower] == [each.member_id for each in back.members]
    assert b"L" == desk.sync(back, instance="one").assignment


def test_a_static_member_that_changes_the_protocol_begins_a_rebalance() -> None:
    desk = Desk()
    first = desk.reply(desk.join(instance="one", protocols=("range", "sticky")))
    desk.sync(first, instance="one")
    back = desk.join(instance="one", protocols=("sticky", "range"))
    assert (2, "sticky") == (back.generation_id, back.protocol_name)


def test_the_replaced_member_id_is_fenced_wherever_it_waits() -> None:
    desk = Desk()
    leader, follower = stable_static_pair(desk)
    waiting = desk.join(follower, instance="two", topics=("refunds",))
    back = desk.join(instance="two", topics=("refunds",))
    fenced = desk.reply(waiting)
    assert (ErrorCode.FENCED_INSTANCE_ID, follower) == (fenced.error_code, fenced.member_id)
    joined = desk.join(leader, instance="one")
    parked = desk.sync(desk.reply(back), instance="two")
    desk.join(instance="two", topics=("refunds",))
    assert ErrorCode.FENCED_INSTANCE_ID == desk.reply(parked).error_code
    assert ErrorCode.REBALANCE_IN_PROGRESS == error_of(desk.sync(joined, instance="one"))


def test_a_static_member_under_its_old_id_is_fenced() -> None:
    desk = Desk()
    leader, _ = stable_static_pair(desk)
    desk.join(instance="one")
    assert Refused(ErrorCode.FENCED_INSTANCE_ID) == desk.join(leader, instance="one")


def test_a_replaced_static_member_outlives_a_failover() -> None:
    desk = Desk()
    stable_static_pair(desk)
    back = desk.join(instance="two")
    desk.fail_over()
    assert b"F" == desk.sync(back, instance="two").assignment
