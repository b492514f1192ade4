from __future__ import annotations

from odradek.core.machine import Answered, Parked
from odradek.group.classic.group import ClassicGroup
from odradek.group.classic.member import Member
from odradek.group.classic.waits import Waits
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.join_group_response import JoinGroupResponse
from odradek.wire.messages.sync_group_response import SyncGroupResponse


def group_with_member() -> tuple[ClassicGroup, Member]:
    member = Member("m", None, "c", "/h", 1, 1, (("range", b""),))
    group = ClassicGroup("g")
    group.add(member, "consumer")
    return group, member


def test_a_wait_ends_once() -> None:
    waits = Waits()
    group, member = group_with_member()
    token = waits.begin_join(group, member)
    reply = JoinGroupResponse(generation_id=1)
    waits.end_join(member, reply)
    waits.end_join(member, reply)
    assert [(token, reply)] == waits.ended


def test_a_request_asked_again_ends_the_first() -> None:
    waits = Waits()
    group, member = group_with_member()
    first = waits.begin_sync(group, member)
    second = waits.begin_sync(group, member)
    assert first != second
    assert [(first, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))] == waits.ended
    assert second == member.sync


def test_who_completes_its_own_wait_is_answered_at_once() -> None:
    waits = Waits()
    group, member = group_with_member()
    token = waits.begin_join(group, member)
    assert Parked(token) == waits.decision(token)
    waits.end_join(member, JoinGroupResponse(generation_id=3))
    assert Answered(JoinGroupResponse(generation_id=3)) == waits.decision(token)
    assert [] == waits.ended


def test_an_abandoned_wait_keeps_the_members_place_and_tells_nobody() -> None:
    waits = Waits()
    group, member = group_with_member()
    waits.abandon(group, waits.begin_join(group, member))
    assert group.all_joined
    waits.end_join(member, JoinGroupResponse())
    assert [] == waits.ended
    waits.abandon(group, waits.begin_sync(group, member))
    assert waits.end_sync(member, SyncGroupResponse())
    assert [] == waits.ended


def test_an_old_token_abandons_nothing() -> None:
    waits = Waits()
    group, member = group_with_member()
    old = waits.begin_join(group, member)
    new = waits.begin_join(group, member)
    waits.abandon(group, old)
    assert new == member.join


def test_a_member_that_is_removed_hears_it_from_both_requests() -> None:
    waits = Waits()
    group, member = group_with_member()
    join, sync = waits.begin_join(group, member), waits.begin_sync(group, member)
    waits.end_both(member, ErrorCode.FENCED_INSTANCE_ID, member_id="m")
    expected = [
        (join, JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID, member_id="m")),
        (sync, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID)),
    ]
    assert expected == waits.ended
