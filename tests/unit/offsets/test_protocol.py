"""Offset commits, fetches, deletions and expiry, as clients and time see them."""

from __future__ import annotations

import pytest
from tests.unit.group.classic.test_protocol import stable_pair
from tests.unit.group.desk import SESSION_MS, TOPIC_IDS, Desk

from odradek.core.machine import Refused
from odradek.group.work import ExpireOffsets
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

MINUTE_MS = 60_000
CHECK_MS = 600_000


def delete(desk: Desk, *partitions: int, group: str = "g", topic: str = "orders") -> list[int] | Refused:
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
            )
        ],
    )
    outcome = desk.ask(desk.machine.delete_offsets, request, desk.now)
    if isinstance(outcome, Refused):
        return outcome
    return [int(partition.error_code) for topic in outcome.topics for partition in topic.partitions]


# ---------------------------------------------------------------------- OffsetCommit


def test_a_consumer_without_a_group_commits_and_fetches() -> None:
    desk = Desk()
    assert 0 == desk.commit(5, metadata="note", leader_epoch=3)
    fetched = desk.fetch()
    assert (5, "note", 3, 0) == (
        fetched.committed_offset,
        fetched.metadata,
        fetched.committed_leader_epoch,
        fetched.error_code,
    )
    assert "Empty" == desk.state()


def test_metadata_may_be_missing() -> None:
    desk = Desk()
    desk.commit(5, metadata=None)
    assert "" == desk.fetch().metadata


def test_the_empty_group_id_keeps_offsets_as_it_always_has() -> None:
    desk = Desk()
    assert 0 == desk.commit(5, group="")
    assert 5 == desk.fetch(group="").committed_offset


@pytest.mark.parametrize(
    ("version", "expected"),
    [*((version, ErrorCode.ILLEGAL_GENERATION) for version in range(1, 9)), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_a_generation_of_a_group_that_is_not_there(version: int, expected: ErrorCode) -> None:
    assert expected == Desk().commit(5, generation=3, member_id="m", version=version)


def test_only_members_of_the_generation_commit_to_a_group_with_members() -> None:
    desk = Desk()
    leader, _ = stable_pair(desk)
    assert 0 == desk.commit(1, member_id=leader, generation=2)
    assert ErrorCode.ILLEGAL_GENERATION == desk.commit(1, member_id=leader, generation=1)
    assert ErrorCode.ILLEGAL_GENERATION == desk.commit(1, member_id=leader)
    assert ErrorCode.UNKNOWN_MEMBER_ID == desk.commit(1, member_id="unknown", generation=2)
    assert ErrorCode.UNKNOWN_MEMBER_ID == desk.commit(1)
    assert ErrorCode.UNKNOWN_MEMBER_ID == desk.commit(1, generation=2, instance="one")


def test_a_member_commits_while_others_join_but_not_before_it_has_its_assignment() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    waiting = desk.join(follower, topics=("refunds",))
    assert 0 == desk.commit(1, member_id=leader, generation=2)
    desk.join(leader)
    assert 3 == desk.reply(waiting).generation_id
    assert ErrorCode.REBALANCE_IN_PROGRESS == desk.commit(2, member_id=leader, generation=3)
    assert 1 == desk.fetch().committed_offset


def test_a_group_that_has_become_empty_takes_commits_of_nobody() -> None:
    desk = Desk()
    leader, follower = stable_pair(desk)
    desk.leave(leader, follower)
    assert 0 == desk.commit(9)
    assert ErrorCode.UNKNOWN_MEMBER_ID == desk.commit(9, member_id=leader, generation=2)


def test_too_much_metadata_refuses_its_partition_only() -> None:
    desk = Desk(offset_metadata_max_bytes=4)
    partitions = [
        OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="12345"),
        OffsetCommitRequestPartition(partition_index=1, committed_offset=2, committed_metadata="1234"),
    ]
    topic = OffsetCommitRequestTopic(name="orders", topic_id=TOPIC_IDS["orders"], partitions=partitions)
    response = desk.ask(desk.machine.commit, OffsetCommitRequest(group_id="g", topics=[topic]), 9, desk.now)
    errors = [partition.error_code for partition in response.topics[0].partitions]
    assert [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE] == errors
    assert {("orders", 1): 2} == desk.fetch_all()


def test_a_commit_of_which_nothing_is_left_writes_nothing() -> None:
    desk = Desk(offset_metadata_max_bytes=0)
    assert ErrorCode.OFFSET_METADATA_TOO_LARGE == desk.commit(1, metadata="x")
    assert [] == desk.log


# ---------------------------------------------------------------------- OffsetFetch


def test_a_group_that_is_not_there_has_no_offsets_and_no_error() -> None:
    desk = Desk()
    fetched = desk.fetch(group="none")
    assert (-1, -1, "", 0) == (
        fetched.committed_offset,
        fetched.committed_leader_epoch,
        fetched.metadata,
        fetched.error_code,
    )
    assert {} == desk.fetch_all(group="none")


def test_all_offsets_of_a_group() -> None:
    desk = Desk()
    desk.commit(1)
    desk.commit(2, partition=3)
    desk.commit(3, topic="refunds")
    desk.commit(4, group="other")
    assert {("orders", 0): 1, ("orders", 3): 2, ("refunds", 0): 3} == desk.fetch_all()


def test_an_offset_of_a_topic_that_was_created_again_is_not_there() -> None:
    desk = Desk()
    desk.commit(5)
    assert 5 == desk.fetch(topic_id=TOPIC_IDS["orders"]).committed_offset
    assert -1 == desk.fetch(topic_id=bytes([9] * 16)).committed_offset


# ---------------------------------------------------------------------- offsets in transactions


def test_an_offset_in_a_transaction_is_unstable_until_the_marker() -> None:
    desk = Desk()
    desk.commit(1)
    assert 0 == desk.txn_commit(5)
    assert (1, 0) == ((fetched := desk.fetch()).committed_offset, fetched.error_code)
    unstable = desk.fetch(require_stable=True)
    assert (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT) == (unstable.committed_offset, unstable.error_code)
    desk.end_transaction(7, commit=True)
    assert 5 == desk.fetch(require_stable=True).committed_offset


def test_an_aborted_transaction_leaves_the_old_offset() -> None:
    desk = Desk()
    desk.commit(1)
    desk.txn_commit(5)
    desk.end_transaction(7, commit=False)
    assert 1 == desk.fetch(require_stable=True).committed_offset


def test_pending_offsets_outlive_a_failover() -> None:
    desk = Desk()
    desk.txn_commit(5)
    desk.fail_over()
    assert ErrorCode.UNSTABLE_OFFSET_COMMIT == desk.fetch(require_stable=True).error_code
    desk.end_transaction(7, commit=True)
    desk.fail_over()
    assert 5 == desk.fetch().committed_offset


@pytest.mark.parametrize(
    ("version", "expected"),
    [*((version, ErrorCode.ILLEGAL_GENERATION) for version in range(6)), (6, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_a_transaction_with_a_generation_of_a_group_that_is_not_there(version: int, expected: ErrorCode) -> None:
    assert expected == Desk().txn_commit(5, generation=3, member_id="m", version=version)


def test_a_transaction_is_fenced_by_member_and_generation_if_it_names_them() -> None:
    desk = Desk()
    leader, _ = stable_pair(desk)
    assert 0 == desk.txn_commit(1, member_id=leader, generation=2)
    assert ErrorCode.ILLEGAL_GENERATION == desk.txn_commit(1, member_id=leader, generation=1)
    assert ErrorCode.UNKNOWN_MEMBER_ID == desk.txn_commit(1, member_id="unknown", generation=2)
    assert ErrorCode.UNKNOWN_MEMBER_ID == desk.txn_commit(1, member_id=leader, generation=2, instance="one")
    assert 0 == desk.txn_commit(1)
    assert ErrorCode.INVALID_GROUP_ID == desk.txn_commit(1, group="")


def test_a_transaction_commits_offsets_while_the_group_completes_its_rebalance() -> None:
    desk = Desk()
    joined = desk.enter()
    assert 0 == desk.txn_commit(1, member_id=joined.member_id, generation=1)


def test_a_transaction_is_told_of_too_much_metadata() -> None:
    desk = Desk(offset_metadata_max_bytes=1)
    assert ErrorCode.OFFSET_METADATA_TOO_LARGE == desk.txn_commit(1, metadata="xx")
    assert [] == desk.log


# ---------------------------------------------------------------------- OffsetDelete


def test_deleted_offsets_are_gone_after_a_failover_too() -> None:
    desk = Desk()
    desk.commit(1)
    desk.commit(2, partition=1)
    assert [0, 0] == delete(desk, 0, 7)
    desk.fail_over()
    assert {("orders", 1): 2} == desk.fetch_all()


def test_offsets_of_a_subscribed_topic_cannot_be_deleted() -> None:
    desk = Desk()
    desk.commit(1)
    desk.commit(1, topic="refunds")
    stable_pair(desk)
    assert [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC] == delete(desk, 0)
    assert [ErrorCode.NONE] == delete(desk, 0, topic="refunds")
    assert {("orders", 0): 1} == desk.fetch_all()


def test_refusals_of_a_deletion() -> None:
    desk = Desk()
    assert Refused(ErrorCode.GROUP_ID_NOT_FOUND) == delete(desk, 0)
    assert Refused(ErrorCode.INVALID_GROUP_ID) == delete(desk, 0, group="")
    desk.enter(protocol_type="connect")
    assert Refused(ErrorCode.NON_EMPTY_GROUP) == delete(desk, 0)


def test_a_deletion_reaches_into_open_transactions() -> None:
    desk = Desk()
    desk.txn_commit(5)
    assert [0] == delete(desk, 0)
    desk.end_transaction(7, commit=True)
    assert {} == desk.fetch_all()


def test_offsets_are_adopted_as_the_log_gives_them_back() -> None:
    desk = Desk()
    desk.commit(1, version=4, retention_ms=5)
    desk.commit(2, partition=1)
    desk.txn_commit(3, producer_id=7)
    adopted = desk.machine.durable_state()
    desk.fail_over()
    assert adopted == desk.machine.durable_state()


def test_offsets_of_deleted_topics_go_too() -> None:
    desk = Desk()
    desk.commit(1)
    desk.commit(1, topic="refunds")
    desk.txn_commit(5, partition=1)
    desk.ask(desk.machine.topics_deleted, [("orders", TOPIC_IDS["orders"])])
    desk.end_transaction(7, commit=True)
    assert {("refunds", 0): 1} == desk.fetch_all()
    assert [] == [*desk.machine.due(desk.now)]


# ---------------------------------------------------------------------- expiry


def expiring_desk() -> Desk:
    return Desk(offsets_retention_minutes=20)


def test_a_simple_groups_offset_expires_after_its_commit_and_the_group_with_it() -> None:
    desk = expiring_desk()
    desk.commit(1)
    desk.sleep(CHECK_MS)
    assert {("orders", 0): 1} == desk.fetch_all()
    desk.sleep(2 * CHECK_MS)
    assert {} == desk.fetch_all()
    assert "Dead" == desk.state()
    desk.fail_over()
    assert "Dead" == desk.state()


def test_an_empty_group_keeps_its_offsets_from_the_time_it_became_empty() -> None:
    desk = expiring_desk()
    desk.commit(1)
    joined = desk.enter()
    desk.sync(joined)
    for _ in range(30 * MINUTE_MS // SESSION_MS * 2):
        desk.sleep(SESSION_MS // 2)
        desk.heartbeat(joined.member_id, 1)
    desk.leave(joined.member_id)
    desk.sleep(CHECK_MS)
    assert {("orders", 0): 1} == desk.fetch_all()
    desk.sleep(2 * CHECK_MS)
    assert {} == desk.fetch_all()


def test_a_stable_group_keeps_offsets_of_what_it_reads_and_loses_others() -> None:
    desk = expiring_desk()
    joined = desk.enter()
    desk.sync(joined)
    desk.commit(1, member_id=joined.member_id, generation=1)
    desk.commit(1, topic="refunds", member_id=joined.member_id, generation=1)
    for _ in range(40 * MINUTE_MS // SESSION_MS * 2):
        desk.sleep(SESSION_MS // 2)
        desk.heartbeat(joined.member_id, 1)
    assert {("orders", 0): 1} == desk.fetch_all()
    assert "Stable" == desk.state()


def test_a_retention_time_of_an_old_client_is_honoured() -> None:
    desk = expiring_desk()
    desk.commit(1, version=4, retention_ms=CHECK_MS)
    desk.commit(2, version=4, retention_ms=100 * CHECK_MS, partition=1)
    desk.sleep(CHECK_MS)
    assert {("orders", 1): 2} == desk.fetch_all()
    desk.sleep(10 * CHECK_MS)
    assert {("orders", 1): 2} == desk.fetch_all()


def test_an_offset_with_a_pending_successor_does_not_expire() -> None:
    desk = expiring_desk()
    desk.commit(1)
    desk.txn_commit(5)
    desk.sleep(10 * CHECK_MS)
    assert {("orders", 0): 1} == desk.fetch_all()
    desk.end_transaction(7, commit=False)
    desk.sleep(CHECK_MS)
    assert {} == desk.fetch_all()


def test_a_group_that_only_an_open_transaction_knows_stays() -> None:
    desk = expiring_desk()
    desk.txn_commit(5)
    desk.sleep(10 * CHECK_MS)
    assert "Empty" == desk.state()
    desk.end_transaction(7, commit=False)
    desk.sleep(CHECK_MS)
    assert "Dead" == desk.state()


def test_a_group_that_somebody_joins_while_it_expires_lives_on() -> None:
    desk = expiring_desk()
    joined = desk.enter()
    desk.leave(joined.member_id)
    desk.now += CHECK_MS
    [work] = desk.machine.due(desk.now)
    assert isinstance(work, ExpireOffsets)
    expiry = desk.machine.expire_offsets(desk.now)
    again = desk.enter()
    desk.decide(expiry)
    desk.settle()
    assert 3 == again.generation_id
    assert "CompletingRebalance" == desk.state()
    desk.sync(again)
    desk.fail_over()
    assert "Stable" == desk.state()
