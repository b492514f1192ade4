"""The timeline of rebalances: what waits for whom, and what time ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.group.classic.test_protocol import stable_pair, stable_static_pair
from tests.unit.group.desk import DELAY_OF_NOTHING, REBALANCE_MS, SESSION_MS, Desk

from odradek.core.machine import Refused
from odradek.group.seekers import GATHERING_MS, Seekers
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.offset_delete_request import OffsetDeleteRequest


def members_of(desk: Desk) -> list[str]:
    return [each.member_id for each in desk.machine.describe("g", 5).members]


# ---------------------------------------------------------------------- the first rebalance


def test_a_new_group_goes_on_at_once_without_an_initial_delay() -> None:
    desk = Desk()
    assert 1 == desk.enter().generation_id


def test_the_initial_delay_gathers_members() -> None:
    desk = Desk(group_initial_rebalance_delay_ms=3_000)
    first = desk.enter()
    desk.sleep(1_000)
    second = desk.enter()
    desk.sleep(1_999)
    assert "PreparingRebalance" == desk.state()
    desk.sleep(3_001)
    assert [1, 1] == [desk.reply(each).generation_id for each in (first, second)]
    assert 2 == len(desk.reply(first).members)


def test_the_initial_delay_is_prolonged_no_further_than_the_rebalance_timeout() -> None:
    desk = Desk(group_initial_rebalance_delay_ms=3_000)
    first = desk.enter(rebalance_ms=7_000)
    waiting = [first]
    for _ in range(6):
        desk.sleep(1_000)
        waiting.append(desk.enter(rebalance_ms=7_000))
    assert "PreparingRebalance" == desk.state()
    desk.sleep(1_001)
    assert 7 * [1] == [desk.reply(each).generation_id for each in waiting]


def test_nobody_in_the_initial_delay_leaves_an_empty_generation() -> None:
    desk = Desk(group_initial_rebalance_delay_ms=3_000)
    first = desk.enter()
    desk.leave(first.member_id)
    assert ErrorCode.UNKNOWN_MEMBER_ID == desk.reply(first).error_code
    desk.sleep(3_000)
    assert "Empty" == desk.state()


# ---------------------------------------------------------------------- the first rebalance without a delay


def seeking(desk: Desk, *conns: int) -> None:
    for conn in conns:
        desk.seekers.looked("g", conn, desk.now)


def test_clients_that_look_for_the_coordinator_together_have_one_generation() -> None:
    desk = Desk()
    seeking(desk, 1, 2, 3)
    waiting = [desk.enter() for _ in range(3)]
    assert [1, 1, 1] == [desk.reply(each).generation_id for each in waiting]
    assert 3 == len(desk.reply(waiting[0]).members)
    assert {} == desk.seekers.groups


def test_a_client_that_has_its_member_id_is_waited_for() -> None:
    desk = Desk()
    first, second = desk.join(), desk.join()
    waiting = desk.join(first.member_id)
    assert "PreparingRebalance" == desk.state()
    assert 1 == desk.join(second.member_id).generation_id
    assert 2 == len(desk.reply(waiting).members)


def test_a_client_that_does_not_join_is_waited_for_a_short_time() -> None:
    desk = Desk()
    seeking(desk, 1, 2)
    waiting = desk.enter()
    desk.sleep(GATHERING_MS - 1)
    assert "PreparingRebalance" == desk.state()
    desk.sleep(1)
    assert 1 == desk.reply(waiting).generation_id


def test_a_member_id_that_is_not_used_is_waited_for_a_short_time() -> None:
    desk = Desk()
    desk.join()
    waiting = desk.enter()
    desk.sleep(GATHERING_MS)
    assert 1 == desk.reply(waiting).generation_id


def test_a_client_that_has_looked_before_and_not_come_is_not_waited_for() -> None:
    desk = Desk()
    seeking(desk, 1)
    desk.sleep(GATHERING_MS)
    seeking(desk, 2)
    assert 1 == desk.enter().generation_id


def test_whoever_was_waited_for_in_vain_is_not_waited_for_again() -> None:
    desk = Desk()
    seeking(desk, 1, 2)
    first = desk.enter()
    desk.sleep(GATHERING_MS - 1)
    seeking(desk, 3)
    desk.sleep(1)
    desk.leave(desk.reply(first).member_id)
    assert "Empty" == desk.state()
    assert 2 <= desk.enter().generation_id


def test_a_client_that_looked_for_another_group_is_not_waited_for() -> None:
    desk = Desk()
    seeking(desk, 1, 2)
    desk.seekers.looked("another", 2, desk.now)
    assert 1 == desk.enter().generation_id


def test_a_client_that_looks_again_over_its_next_connection_is_one_client() -> None:
    desk = Desk()
    seeking(desk, 1, 2)
    for conn in (1, 2):
        desk.seekers.gone(conn, desk.now)
    seeking(desk, 3)
    first = desk.enter()
    assert "PreparingRebalance" == desk.state()
    seeking(desk, 4)
    assert [1, 1] == [desk.reply(each).generation_id for each in (desk.enter(), first)]


def test_a_client_alone_is_not_taken_for_two_however_often_it_looks() -> None:
    desk = Desk()
    for conn in range(1, 5):
        seeking(desk, conn)
        desk.seekers.gone(conn, desk.now)
    assert 1 == desk.enter().generation_id


def test_a_client_whose_connection_has_ended_is_waited_for_no_longer_than_another() -> None:
    desk = Desk()
    seeking(desk, 1)
    desk.sleep(1)
    desk.seekers.gone(1, desk.now)
    desk.seekers.gone(17, desk.now)
    desk.sleep(GATHERING_MS - 1)
    seeking(desk, 2)
    assert 1 == desk.enter().generation_id


def test_connections_that_have_ended_are_forgotten() -> None:
    seekers = Seekers()
    for conn in range(1, 4):
        seekers.looked(f"g-{conn}", conn, 0)
        seekers.gone(conn, conn)
    seekers.looked("h", 4, GATHERING_MS + 2)
    assert {"g-3", "h"} == set(seekers.groups)
    seekers.gone(4, GATHERING_MS + 3)
    assert {"h"} == set(seekers.groups)


@pytest.mark.parametrize(
    "ask",
    [
        lambda desk: desk.commit(1),
        lambda desk: desk.txn_commit(1, producer_id=7),
        lambda desk: desk.fetch(),
        lambda desk: desk.machine.describe("g", 5),
        lambda desk: desk.machine.delete_group("g", desk.now),
        lambda desk: desk.ask(desk.machine.delete_offsets, OffsetDeleteRequest(group_id="g"), desk.now),
    ],
)
def test_a_client_that_wants_something_else_of_the_group_is_not_waited_for(ask: Callable[[Desk], object]) -> None:
    desk = Desk()
    seeking(desk, 1)
    ask(desk)
    seeking(desk, 2)
    assert desk.enter().generation_id


def test_when_nobody_is_left_of_those_that_have_joined_the_group_is_empty() -> None:
    desk = Desk()
    seeking(desk, 1, 2)
    first = desk.enter()
    desk.leave(first.member_id)
    desk.sleep(GATHERING_MS)
    assert "Empty" == desk.state()


def test_as_in_kafka_nobody_is_waited_for_when_the_delay_is_set_to_nothing() -> None:
    desk = Desk(layers=DELAY_OF_NOTHING)
    seeking(desk, 1, 2, 3)
    desk.join()
    assert 1 == desk.enter().generation_id


def test_as_in_kafka_a_delay_ends_with_its_time_whoever_has_looked() -> None:
    desk = Desk(group_initial_rebalance_delay_ms=3_000)
    seeking(desk, 1)
    first = desk.enter()
    desk.sleep(2_999)
    assert "PreparingRebalance" == desk.state()
    desk.sleep(1)
    assert 1 == desk.reply(first).generation_id


# ---------------------------------------------------------------------- rebalances


def test_a_rebalance_waits_for_every_member() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    waiting = desk.enter()
    assert isinstance(desk.join(follower), tuple)
    assert "PreparingRebalance" == desk.state()
    assert 3 == desk.join(leader).generation_id
    assert 3 == desk.reply(waiting).generation_id


def test_who_does_not_rejoin_in_time_is_out() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    waiting = desk.join(leader)
    for _ in range(7):
        desk.sleep(REBALANCE_MS // 8)
        desk.heartbeat(follower, 2)
    assert waiting == desk.reply(waiting)
    desk.sleep(REBALANCE_MS // 8)
    assert 3 == desk.reply(waiting).generation_id
    assert [leader] == members_of(desk)


def test_another_leads_when_the_leader_does_not_rejoin() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    waiting = desk.join(follower, topics=("refunds",))
    while waiting == desk.reply(waiting):
        desk.sleep(SESSION_MS // 2)
        desk.heartbeat(leader, 2)
    assert (follower, [follower]) == (desk.reply(waiting).leader, members_of(desk))


def test_an_id_that_was_given_out_holds_the_rebalance_up_until_its_session_ends() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    required = desk.join(session_ms=6_000)
    waiting = desk.join(leader)
    desk.join(follower)
    assert "PreparingRebalance" == desk.state()
    desk.sleep(6_000)
    assert 3 == desk.reply(waiting).generation_id
    assert Refused(ErrorCode.UNKNOWN_MEMBER_ID) == desk.join(required.member_id)


def test_static_members_stay_even_if_they_do_not_rejoin() -> None:
    desk = Desk()
    leader, follower = stable_static_pair(desk)
    waiting = desk.join(leader, instance="one")
    for _ in range(2 * REBALANCE_MS // SESSION_MS):
        desk.sleep(SESSION_MS // 2)
        desk.heartbeat(follower, 2, instance="two")
    assert 3 == desk.reply(waiting).generation_id
    assert [leader, follower] == members_of(desk)


def test_a_rebalance_that_only_absent_static_members_could_join_is_put_off() -> None:
    desk = Desk()
    leader, follower = stable_static_pair(desk)
    third = desk.enter()
    desk.leave(third.member_id)
    for _ in range(3 * REBALANCE_MS // SESSION_MS):
        desk.sleep(SESSION_MS // 2)
        desk.heartbeat(leader, 2, instance="one")
        desk.heartbeat(follower, 2, instance="two")
    assert "PreparingRebalance" == desk.state()
    waiting = desk.join(follower, instance="two")
    assert 3 == desk.reply(desk.join(leader, instance="one")).generation_id
    assert 3 == desk.reply(waiting).generation_id


# ---------------------------------------------------------------------- sessions


def test_a_silent_member_is_removed_and_the_others_rebalance() -> None:
    desk = Desk()
    leader, _ = stable_pair(desk)
    desk.sleep(SESSION_MS - 1)
    assert 0 == desk.heartbeat(leader, 2)
    desk.sleep(1)
    assert "PreparingRebalance" == desk.state()
    assert [leader] == members_of(desk)
    assert 3 == desk.join(leader).generation_id


def test_a_group_whose_members_all_fall_silent_is_empty_and_the_log_knows() -> None:
    desk = Desk()
    stable_pair(desk)
    records = len(desk.records)
    desk.sleep(SESSION_MS)
    assert "Empty" == desk.state()
    assert records + 1 == len(desk.records)
    desk.fail_over()
    assert "Empty" == desk.state()


def test_a_member_that_waits_for_others_needs_no_heartbeats() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    waiting = desk.join(leader)
    for _ in range(4):
        desk.sleep(SESSION_MS // 2)
        desk.heartbeat(follower, 2)
    desk.join(follower)
    assert 3 == desk.reply(waiting).generation_id


def test_the_session_of_a_member_begins_again_with_its_assignment() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    waiting = desk.join(follower, topics=("refunds",))
    joined = desk.join(leader)
    desk.sync(desk.reply(waiting))
    for _ in range(4):
        desk.sleep(SESSION_MS // 2)
        desk.heartbeat(leader, 3)
    desk.sync(joined)
    desk.sleep(SESSION_MS - 1)
    desk.heartbeat(leader, 3)
    assert [leader, follower] == members_of(desk)
    desk.sleep(1)
    assert [leader] == members_of(desk)


def test_the_leaders_session_begins_again_with_the_assignment_that_it_brings() -> None:
    desk = Desk()
    joined = desk.enter()
    desk.sleep(SESSION_MS - 1)
    desk.sync(joined)
    desk.sleep(SESSION_MS - 1)
    assert "Stable" == desk.state()


def test_a_member_that_is_not_new_any_more_needs_no_heartbeats_while_it_waits() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    waiting = desk.join(leader, rebalance_ms=600_000)
    for _ in range(100):
        desk.sleep(SESSION_MS // 2)
        desk.heartbeat(follower, 2)
    desk.join(follower)
    assert 3 == desk.reply(waiting).generation_id


def test_a_new_member_waits_five_minutes_at_most() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    waiting = desk.enter(rebalance_ms=600_000)
    desk.join(leader, rebalance_ms=600_000)
    while waiting == desk.reply(waiting):
        desk.sleep(SESSION_MS // 2)
        desk.heartbeat(follower, 2)
    assert ErrorCode.UNKNOWN_MEMBER_ID == desk.reply(waiting).error_code


def test_a_commit_is_a_sign_of_life() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    for _ in range(4):
        desk.sleep(SESSION_MS // 2)
        assert 0 == desk.commit(1, member_id=leader, generation=2)
        assert 0 == desk.commit(1, member_id=follower, generation=2)
    assert "Stable" == desk.state()


def test_a_member_that_never_asks_for_its_assignment_is_removed() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    waiting = desk.join(follower, topics=("refunds",))
    desk.sync(desk.join(leader))
    assert 3 == desk.reply(waiting).generation_id
    for _ in range(2 * REBALANCE_MS // SESSION_MS):
        desk.sleep(SESSION_MS // 2)
        desk.heartbeat(leader, 3)
        desk.heartbeat(follower, 3)
    assert [leader] == members_of(desk)
    assert "PreparingRebalance" == desk.state()


def test_followers_do_not_wait_for_ever_for_a_leader_that_never_assigns() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    waiting = desk.join(follower, topics=("refunds",))
    desk.join(leader)
    parked = desk.sync(desk.reply(waiting))
    for _ in range(2 * REBALANCE_MS // SESSION_MS):
        desk.sleep(SESSION_MS // 2)
        desk.heartbeat(leader, 3)
    assert ErrorCode.REBALANCE_IN_PROGRESS == desk.reply(parked).error_code
    assert [follower] == members_of(desk)


def test_an_assignment_that_never_reaches_the_log_ends_with_the_sync_timeout() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    waiting = desk.join(follower, topics=("refunds",))
    joined = desk.join(leader)
    parked = desk.sync(desk.reply(waiting))
    desk.append = lambda records, producer=None: None  # type: ignore[method-assign]
    desk.sync(joined, {follower: b"lost"})
    assert "CompletingRebalance" == desk.state()
    del desk.append
    for _ in range(2 * REBALANCE_MS // SESSION_MS):
        desk.sleep(SESSION_MS // 2)
        desk.heartbeat(leader, 3)
    assert ErrorCode.REBALANCE_IN_PROGRESS == desk.reply(parked).error_code


def test_a_rebalance_that_begins_before_the_assignment_is_committed_wins() -> None:
    desk = Desk()
    joined = desk.enter()
    held: list[object] = []
    desk.append = lambda records, producer=None: held.append(records)  # type: ignore[method-assign]
    overtaken = desk.sync(joined, {joined.member_id: b"old"})
    again = desk.join(joined.member_id, topics=("refunds",))
    assert ErrorCode.REBALANCE_IN_PROGRESS == desk.reply(overtaken).error_code
    del desk.append
    desk.append(held[0])  # type: ignore[arg-type]
    assert "CompletingRebalance" == desk.state()
    assert b"new" == desk.sync(again, {joined.member_id: b"new"}).assignment


def test_a_leader_whose_assignment_is_not_written_yet_hears_of_whoever_joins_and_joins_again() -> None:
    desk = Desk()
    leader = desk.enter()
    held: list[object] = []
    desk.append = lambda records, producer=None: held.append(records)  # type: ignore[method-assign]
    overtaken = desk.sync(leader, {leader.member_id: b"all"})
    assert overtaken in desk.waiting
    waiting = desk.join(version=3)
    assert ErrorCode.REBALANCE_IN_PROGRESS == desk.reply(overtaken).error_code
    del desk.append
    again = desk.join(leader.member_id)
    desk.append(held[0])  # type: ignore[arg-type]
    assert (2, 2) == (again.generation_id, desk.reply(waiting).generation_id)
    assert 2 == len(members_of(desk))


def test_a_leader_that_waits_for_its_assignment_to_be_written_needs_no_heartbeats() -> None:
    desk = Desk()
    leader = desk.enter()
    held: list[object] = []
    desk.append = lambda records, producer=None: held.append(records)  # type: ignore[method-assign]
    waiting = desk.sync(leader, {leader.member_id: b"all"})
    desk.sleep(2 * SESSION_MS)
    del desk.append
    desk.append(held[0])  # type: ignore[arg-type]
    desk.settle()
    assert b"all" == desk.reply(waiting).assignment
    assert "Stable" == desk.state()


def test_an_abandoned_join_still_counts_and_then_fails_to_ask_for_its_assignment() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    waiting = desk.join(follower, topics=("refunds",))
    desk.machine.abandoned(waiting)
    desk.waiting.discard(waiting)
    joined = desk.join(leader)
    assert 3 == joined.generation_id
    assert [leader, follower] == members_of(desk)
    desk.sync(joined)
    desk.sleep(SESSION_MS - 1)
    desk.heartbeat(leader, 3)
    desk.sleep(1)
    assert [leader] == members_of(desk)
