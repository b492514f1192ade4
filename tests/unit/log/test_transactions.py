"""Transactions as one partition leader sees them: KIP-98, KIP-360, and both parts of KIP-890.

The answers are those of Apache Kafka 4.4, but for the last section.
An answer of `produce` is a base offset, or an error code as a negative number.
"""

from __future__ import annotations

import pytest
from tests.unit.log.helpers import NOW, Leader, batch, error, kinds, new_partition, values

from odradek.core.machine import Refused
from odradek.log.partition import AlreadyOpen, Appended, Duplicate, Guard, ProducerDescription, ReadResult
from odradek.wire.errors import ErrorCode

OK = ErrorCode.NONE
FENCED_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH
INVALID_STATE = ErrorCode.INVALID_TXN_STATE
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
OLD, BUMPED = 0, 2
"""Transaction versions: markers with the epoch of the transaction, and with the next one."""


def guard_of(answer: object) -> Guard:
    assert isinstance(answer, Guard)
    return answer


# -- the happy path, and what follows it


def test_a_transaction_holds_the_stable_offset_until_its_marker() -> None:
    leader = Leader()
    assert 0 == leader.produce(0, 0)
    assert (0, 1) == leader.stable
    assert OK is leader.marker(OLD, 0)
    assert (2, 2) == leader.stable
    assert [(0, "data", 0), (1, "COMMIT", 0)] == kinds(leader.partition.log)
    assert [] == leader.aborted()


def test_a_batch_is_not_cut_where_it_is_not_stable() -> None:
    leader = Leader()
    partition = leader.partition
    assert isinstance(partition.append_client(batch(b"plain"), now=NOW), Appended)
    size = partition.size_bytes
    assert 1 == leader.produce(0, 0)
    for committed, length in ((False, size + 9), (True, size)):
        result = partition.read(0, max_bytes=size + 9, read_committed=committed)
        assert isinstance(result, ReadResult)
        assert length == len(result.records)


def test_an_aborted_transaction_is_listed() -> None:
    leader = Leader()
    leader.produce(0, 0)
    assert OK is leader.marker(OLD, 0, commit=False)
    assert (2, 2) == leader.stable
    assert [(7, 0)] == leader.aborted()
    assert [] == leader.aborted(2)


def test_old_style_count_continues_and_old_batches_are_recognised() -> None:
    leader = Leader()
    leader.produce(0, 0)
    leader.marker(OLD, 0)
    assert 2 == leader.produce(0, 1)
    duplicate = leader.append(0, 0)
    assert isinstance(duplicate, Duplicate)
    assert 0 == duplicate.base_offset


def test_new_style_each_transaction_has_its_own_epoch_and_count() -> None:
    leader = Leader()
    assert 0 == leader.produce(0, 0, bump=True)
    assert OK is leader.marker(BUMPED, 1)
    assert 2 == leader.produce(1, 0, bump=True)
    assert OK is leader.marker(BUMPED, 2, commit=False)
    assert [(0, "data", 0), (1, "COMMIT", 1), (2, "data", 1), (3, "ABORT", 2)] == kinds(leader.partition.log)
    assert [(7, 2)] == leader.aborted()


def test_new_style_the_first_batch_after_a_marker_has_sequence_0() -> None:
    leader = Leader()
    leader.produce(0, 0, bump=True)
    leader.marker(BUMPED, 1)
    assert -OUT_OF_ORDER == leader.produce(1, 5, bump=True)
    assert 2 == leader.produce(1, 0, bump=True)


def test_new_style_the_first_batch_ever_has_sequence_0() -> None:
    leader = Leader()
    assert -OUT_OF_ORDER == leader.produce(0, 3, bump=True)
    assert 0 == leader.produce(0, 0, bump=True)


def test_old_style_the_first_batch_ever_may_have_any_sequence() -> None:
    assert 0 == Leader().produce(0, 7, bump=False)


def test_within_a_transaction_nobody_is_asked() -> None:
    leader = Leader()
    leader.produce(0, 0)
    assert isinstance(leader.ask(0, 1), AlreadyOpen)
    assert isinstance(leader.append(0, 1), Appended)


# -- batches outside a transaction


def test_a_batch_that_nobody_verified_is_refused_without_a_message() -> None:
    leader = Leader()
    assert Refused(INVALID_STATE, None) == leader.append(0, 0)
    assert (0, 0) == leader.stable


def test_a_late_batch_of_a_finished_transaction_is_refused() -> None:
    leader = Leader()
    leader.produce(0, 0)
    leader.marker(OLD, 0, commit=False)
    # The coordinator says no, so no guard is ever used; and without one:
    guard_of(leader.ask(0, 1))
    assert INVALID_STATE is error(leader.append(0, 1))
    assert (2, 2) == leader.stable


def test_with_verification_off_a_late_batch_hangs_until_an_admin_aborts_it() -> None:
    leader = Leader(verification=False)
    leader.append(0, 0)
    leader.marker(OLD, 0, commit=False)
    assert isinstance(leader.append(0, 1), Appended)
    assert (2, 3) == leader.stable
    assert OK is leader.marker(OLD, 0, commit=False)
    assert (4, 4) == leader.stable
    assert [(7, 0), (7, 2)] == leader.aborted()


def test_new_style_a_late_batch_has_an_old_epoch() -> None:
    leader = Leader()
    leader.produce(0, 0, bump=True)
    leader.marker(BUMPED, 1)
    assert FENCED_EPOCH is error(leader.ask(0, 1, bump=True))
    assert FENCED_EPOCH is error(leader.append(0, 1))


def test_old_style_a_late_batch_may_join_the_next_transaction() -> None:
    # KIP-890: "we may include a record from the previous transaction" is what only the epoch bump cures.
    leader = Leader()
    leader.produce(0, 0)
    leader.marker(OLD, 0)
    assert 2 == leader.produce(0, 1)
    leader.marker(OLD, 0)
    result = leader.partition.read(0, max_bytes=1 << 20, read_committed=True)
    assert not isinstance(result, Refused)
    assert [b"v", b"v"] == values(result.records)


def test_a_batch_that_failed_keeps_later_ones_out() -> None:
    leader = Leader()
    leader.produce(0, 0)
    leader.append(0, 1)
    leader.marker(OLD, 0)
    # A retry of sequence 1 was refused by the coordinator: what it asked for is remembered ...
    guard_of(leader.ask(0, 1))
    # ... and the next transaction, which begins with 2, suffers from it.
    assert -OUT_OF_ORDER == leader.produce(0, 2)
    leader.partition.forget_producers(NOW + 100, after_ms=101)
    assert -OUT_OF_ORDER == leader.produce(0, 2)
    leader.now = NOW + 200
    leader.partition.forget_producers(leader.now, after_ms=101)
    assert 3 == leader.produce(0, 2)


def test_a_batch_that_failed_keeps_plain_ones_out_as_well() -> None:
    leader = Leader()
    leader.append(0, 0, transactional=False)
    leader.ask(0, 0)
    assert OUT_OF_ORDER is error(leader.append(0, 1, transactional=False))


def test_a_plain_batch_while_a_transaction_is_open() -> None:
    leader = Leader()
    leader.produce(0, 0)
    assert INVALID_STATE is error(leader.append(0, 1, transactional=False))


def test_a_plain_batch_of_a_higher_epoch_while_a_transaction_is_open() -> None:
    leader = Leader()
    leader.produce(0, 0)
    assert INVALID_STATE is error(leader.append(1, 0, transactional=False))


def test_a_refused_batch_leaves_the_guard() -> None:
    leader = Leader()
    guard = guard_of(leader.ask(0, 0, bump=True))
    assert OUT_OF_ORDER is error(leader.append(0, 4, guard=guard))
    assert isinstance(leader.append(0, 0, guard=guard), Appended)


# -- races of KIP-890, part 1


def test_marker_between_verification_and_append() -> None:
    leader = Leader()
    leader.produce(0, 0)
    leader.marker(OLD, 0)
    guard = guard_of(leader.ask(0, 1))
    leader.marker(OLD, 0, commit=False)
    assert Refused(INVALID_STATE, None) == leader.append(0, 1, guard=guard)
    assert (3, 3) == leader.stable


def test_new_style_marker_between_verification_and_append() -> None:
    leader = Leader()
    guard = guard_of(leader.ask(0, 0, bump=True))
    leader.marker(BUMPED, 1, commit=False)
    assert FENCED_EPOCH is error(leader.append(0, 0, guard=guard))


def test_guard_of_the_transaction_before_the_last() -> None:
    leader = Leader()
    first = guard_of(leader.ask(0, 0))
    leader.marker(OLD, 0, commit=False)
    second = guard_of(leader.ask(0, 0))
    assert first != second
    assert INVALID_STATE is error(leader.append(0, 0, guard=first))
    assert isinstance(leader.append(0, 0, guard=second), Appended)


def test_new_style_late_marker_leaves_the_guard_of_the_next_transaction() -> None:
    leader = Leader()
    guard = guard_of(leader.ask(1, 0, bump=True))
    assert OK is leader.marker(BUMPED, 1)
    assert isinstance(leader.append(1, 0, guard=guard), Appended)
    assert (1, 2) == leader.stable


def test_a_new_leader_asks_again_for_what_had_not_begun() -> None:
    leader = Leader()
    guard = guard_of(leader.ask(0, 0))
    moved = Leader(new_partition(leader.partition.log, leader_epoch=1))
    assert INVALID_STATE is error(moved.append(0, 0, guard=guard))
    assert 0 == moved.produce(0, 0)


def test_a_new_leader_asks_nobody_for_what_is_open() -> None:
    leader = Leader()
    leader.produce(0, 0)
    moved = Leader(new_partition(leader.partition.log, leader_epoch=1))
    assert isinstance(moved.ask(0, 1), AlreadyOpen)
    assert isinstance(moved.append(0, 1), Appended)


# -- markers


@pytest.fixture
def open_at_5() -> Leader:
    leader = Leader()
    leader.produce(5, 0)
    return leader


def test_bumped_markers(open_at_5: Leader) -> None:
    answers = [
        open_at_5.marker(BUMPED, 5),
        open_at_5.marker(BUMPED, 4),
        open_at_5.marker(BUMPED, 6),
        open_at_5.marker(BUMPED, 6),
        open_at_5.marker(BUMPED, 6, commit=False),
        open_at_5.marker(BUMPED, 5),
    ]
    assert [FENCED_EPOCH, FENCED_EPOCH, OK, OK, OK, FENCED_EPOCH] == answers
    assert [(0, "data", 5), (1, "COMMIT", 6), (2, "COMMIT", 6), (3, "ABORT", 6)] == kinds(open_at_5.partition.log)
    assert [] == open_at_5.aborted()


@pytest.mark.parametrize("version", [-1, 0, 1])
def test_markers_with_the_same_epoch(version: int, open_at_5: Leader) -> None:
    answers = [open_at_5.marker(version, epoch) for epoch in (4, 5, 5, 8)]
    assert [FENCED_EPOCH, OK, OK, OK] == answers
    assert [8] == [one.producer_epoch for one in open_at_5.partition.describe_producers()]


def test_a_coordinator_that_was_replaced(open_at_5: Leader) -> None:
    assert OK is open_at_5.marker(OLD, 5, coordinator_epoch=5)
    assert ErrorCode.TRANSACTION_COORDINATOR_FENCED is open_at_5.marker(OLD, 5, coordinator_epoch=4)
    assert OK is open_at_5.marker(OLD, 5, coordinator_epoch=6)


def test_a_marker_for_an_unknown_producer_is_written() -> None:
    leader = Leader()
    assert [OK, OK] == [leader.marker(BUMPED, 32767), leader.marker(BUMPED, 32767)]
    assert [(0, "COMMIT", 32767), (1, "COMMIT", 32767)] == kinds(leader.partition.log)


def test_a_rogue_marker_of_a_higher_epoch_keeps_the_coordinators_out(open_at_5: Leader) -> None:
    assert OK is open_at_5.marker(BUMPED, 9, commit=False)
    assert FENCED_EPOCH is open_at_5.marker(OLD, 5)


def test_a_rogue_abort_splits_a_transaction_in_two(open_at_5: Leader) -> None:
    assert OK is open_at_5.marker(OLD, 5, commit=False)
    assert 2 == open_at_5.produce(5, 1)
    assert (2, 3) == open_at_5.stable
    assert OK is open_at_5.marker(OLD, 5, commit=False)
    assert [(7, 0), (7, 2)] == open_at_5.aborted()


def test_a_marker_may_find_no_data() -> None:
    leader = Leader()
    assert OK is leader.marker(OLD, 0, commit=False)
    assert (1, 1) == leader.stable
    assert [] == leader.aborted()


# -- several producers


def test_the_oldest_open_transaction_holds_the_stable_offset() -> None:
    leader = Leader()
    for producer_id in (1, 2, 3):
        leader.produce(0, 0, producer_id=producer_id)
    leader.marker(OLD, 0, producer_id=2, commit=False)
    assert (0, 4) == leader.stable
    leader.marker(OLD, 0, producer_id=1)
    assert (2, 5) == leader.stable
    leader.marker(OLD, 0, producer_id=3, commit=False)
    assert (6, 6) == leader.stable
    assert [(2, 1), (3, 2)] == leader.aborted()
    entries = leader.partition.log.aborted.entries
    assert [(2, 3, 0), (3, 5, 6)] == [(one.producer_id, one.last_offset, one.last_stable_offset) for one in entries]


def test_a_committed_read_ends_at_the_stable_offset() -> None:
    leader = Leader()
    leader.produce(0, 0, producer_id=1)
    leader.marker(OLD, 0, producer_id=1, commit=False)
    leader.produce(0, 0, producer_id=2)
    leader.produce(0, 1, producer_id=1)
    result = leader.partition.read(0, max_bytes=1 << 20, read_committed=True)
    assert not isinstance(result, Refused)
    assert [b"v"] == values(result.records)
    assert (2, 4, [(1, 0)]) == (result.last_stable_offset, result.high_watermark, result.aborted)
    beyond = leader.partition.read(3, max_bytes=1 << 20, read_committed=True)
    assert not isinstance(beyond, Refused)
    assert (b"", []) == (bytes(beyond.records), beyond.aborted)


# -- what DescribeProducers shows, and expiry


def described(leader: Leader) -> ProducerDescription:
    (one,) = leader.partition.describe_producers()
    return one


def test_describe_an_open_transaction() -> None:
    leader = Leader()
    leader.produce(3, 0)
    leader.append(3, 1)
    assert ProducerDescription(7, 3, 1, NOW, -1, 0) == described(leader)


def test_describe_after_an_old_style_commit() -> None:
    leader = Leader()
    leader.produce(3, 0)
    leader.marker(OLD, 3, coordinator_epoch=2)
    assert ProducerDescription(7, 3, 0, NOW, 2, -1) == described(leader)


def test_describe_after_a_new_style_commit() -> None:
    leader = Leader()
    leader.produce(3, 0)
    leader.marker(BUMPED, 4, coordinator_epoch=2)
    assert ProducerDescription(7, 4, -1, NOW, 2, -1) == described(leader)


def test_open_transactions_never_expire_and_finished_producers_are_forgotten() -> None:
    leader = Leader()
    leader.produce(3, 0)
    leader.partition.forget_producers(NOW + 10_000, after_ms=1000)
    assert (0, 1) == leader.stable
    leader.now = NOW + 10_000
    leader.marker(BUMPED, 4)
    leader.partition.forget_producers(leader.now + 999, after_ms=1000)
    assert 4 == described(leader).producer_epoch
    leader.partition.forget_producers(leader.now + 1000, after_ms=1000)
    assert [] == leader.partition.describe_producers()
    # Whoever was forgotten begins as an unknown producer.
    assert 2 == leader.produce(0, 9)


# -- where a marker was lost: the one place where we do not do what Kafka does


def test_a_transaction_of_an_older_epoch_is_not_joined() -> None:
    leader = Leader()
    leader.produce(0, 0, bump=True)
    # Its marker never came. Kafka lets this batch join, and a commit would commit both.
    assert -INVALID_STATE == leader.produce(1, 0, bump=True)
    assert OK is leader.marker(BUMPED, 2, commit=False)
    assert [(7, 0)] == leader.aborted()
    assert (2, 2) == leader.stable
    assert 2 == leader.produce(2, 0, bump=True)


def test_with_verification_off_it_is_joined_as_in_kafka() -> None:
    leader = Leader(verification=False)
    leader.append(0, 0)
    assert isinstance(leader.append(1, 0), Appended)
    assert (0, 2) == leader.stable
    assert OK is leader.marker(BUMPED, 2)
    assert (3, 3) == leader.stable
    assert [] == leader.aborted()
