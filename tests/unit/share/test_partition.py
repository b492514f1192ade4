"""A share partition at its leader: who gets which records, and what becomes of them."""

from __future__ import annotations

import random

import pytest
from tests.counted import lines_of

from odradek.core.machine import Refused
from odradek.share.partition import Acknowledged, AckType, Change, Limits, ReadBatch, SharePartition
from odradek.share.state import NO_COUNT, Delivery, ShareKey, ShareState, StateBatch
from odradek.wire.errors import ErrorCode

LIMITS = Limits(lock_ms=1000, deliveries=3, locks=1000)
KEY = ShareKey("g", bytes(16), 0)


def state(start: int = 0, *batches: StateBatch) -> ShareState:
    return ShareState(0, 1, 0, start, NO_COUNT, batches, 0, 0)


def partition(start: int = 0, *batches: StateBatch) -> SharePartition:
    return SharePartition(KEY, state(start, *batches), 0, start)


def acquire(
    share: SharePartition,
    member: str,
    *batches: ReadBatch,
    most: int = 500,
    size: int = 500,
    strict: bool = False,
    limits: Limits = LIMITS,
    now: int = 0,
) -> list[tuple[int, int, int]]:
    got = share.acquire(member, batches, max_records=most, batch_size=size, strict=strict, limits=limits, now=now)
    return [(each.first, each.last, each.count) for each in got]


def said(first: int, last: int, *types: AckType) -> Acknowledged:
    return Acknowledged(first, last, types)


def done(share: SharePartition, member: str, *acknowledged: Acknowledged, now: int = 0) -> list[StateBatch] | Refused:
    change = share.acknowledge(member, acknowledged, LIMITS, now)
    if isinstance(change, Refused):
        return change
    if change is None:
        return []
    share.settled(change, kept=True)
    return list(change.batches)


def test_records_are_acquired_once_and_come_again_when_they_are_released() -> None:
    share = partition()

    assert [(0, 9, 1)] == acquire(share, "a", ReadBatch(0, 9))
    assert [] == acquire(share, "b", ReadBatch(0, 9))
    assert 10 == share.next_offset
    assert [StateBatch(4, 5, Delivery.AVAILABLE, 1)] == done(share, "a", said(4, 5, AckType.RELEASE))
    assert 4 == share.next_offset
    assert [(4, 5, 2), (10, 19, 1)] == acquire(share, "b", ReadBatch(0, 9), ReadBatch(10, 19))


def test_the_start_moves_behind_what_is_done_with() -> None:
    share = partition()
    acquire(share, "a", ReadBatch(0, 9))

    done(share, "a", said(2, 3, AckType.ACCEPT))
    assert (0, 2) == (share.stretches.start, share.stretches.complete)
    done(share, "a", said(0, 1, AckType.REJECT))
    assert (4, 0) == (share.stretches.start, share.stretches.complete)


def test_whole_batches_come_unless_the_member_is_strict() -> None:
    share = partition()

    assert [(0, 9, 1)] == acquire(share, "a", ReadBatch(0, 9), ReadBatch(10, 19), most=5)
    assert [(10, 14, 1)] == acquire(share, "a", ReadBatch(10, 19), ReadBatch(20, 29), most=5, strict=True)
    assert [(15, 19, 1), (20, 20, 1)] == acquire(
        share, "b", ReadBatch(10, 19), ReadBatch(20, 29), most=6, size=1, strict=True
    )


def test_no_more_records_are_on_their_way_than_locks_allow() -> None:
    share, limits = partition(), Limits(lock_ms=1000, deliveries=3, locks=15)

    assert [(0, 19, 1)] == acquire(share, "a", ReadBatch(0, 9), ReadBatch(10, 19), ReadBatch(20, 29), limits=limits)
    assert not share.can_acquire(limits)
    done(share, "a", said(0, 9, AckType.ACCEPT))
    assert share.can_acquire(limits)


def test_what_was_aborted_is_for_nobody() -> None:
    share = partition()

    got = acquire(share, "a", ReadBatch(0, 1), ReadBatch(2, 4, aborted=True), ReadBatch(5, 6))

    assert [(0, 1, 1), (5, 6, 1)] == got
    assert done(share, "a", said(0, 1, AckType.ACCEPT)) == [StateBatch(0, 1, Delivery.ACKNOWLEDGED, 1)]
    assert 5 == share.stretches.start


def test_a_gap_before_the_first_records_is_passed() -> None:
    share = partition()

    assert [(5, 6, 1)] == acquire(share, "a", ReadBatch(5, 6), most=1)
    assert (5, 7) == (share.stretches.start, share.next_offset)


def test_a_gap_between_what_is_on_its_way_is_for_nobody() -> None:
    share = partition()
    acquire(share, "a", ReadBatch(0, 1))

    assert [(5, 6, 1)] == acquire(share, "a", ReadBatch(5, 6), most=1)
    assert 7 == share.next_offset
    for first, last, kind in ((2, 4, "first"), (3, 3, "first"), (0, 3, "last")):
        refused = done(share, "a", said(first, last, AckType.ACCEPT))
        assert isinstance(refused, Refused)
        assert f"The {kind} offset in request is past acquired records" in (refused.message or "")
    told = done(share, "a", said(1, 6, AckType.ACCEPT))
    assert [StateBatch(1, 1, Delivery.ACKNOWLEDGED, 1), StateBatch(5, 6, Delivery.ACKNOWLEDGED, 1)] == told
    assert (0, 3) == (share.stretches.start, share.stretches.complete)
    done(share, "a", said(0, 0, AckType.ACCEPT))
    assert (7, 0) == (share.stretches.start, share.stretches.complete)


def test_the_log_may_begin_within_a_gap() -> None:
    share = partition()
    acquire(share, "a", ReadBatch(0, 1))
    acquire(share, "a", ReadBatch(5, 6))

    share.stretches.begin_at(3)
    assert (3, 0) == (share.stretches.start, share.stretches.complete)
    done(share, "a", said(5, 6, AckType.ACCEPT))
    assert (3, 2) == (share.stretches.start, share.stretches.complete)
    assert given_back(share, "a") == [StateBatch(0, 1, Delivery.ARCHIVED, 1)]
    assert 7 == share.stretches.start


def given_back(share: SharePartition, member: str, *, kept: bool = True) -> list[StateBatch]:
    """What is told of the records of a member that goes."""
    change = share.release(member, LIMITS)
    assert change is not None
    assert change.complete_count == share.stretches.complete, "what lies before the start is not counted"
    share.settled(change, kept=kept)
    return list(change.batches)


def test_records_that_are_gone_are_given_back_once_and_nobody_gets_them() -> None:
    share = partition()
    acquire(share, "a", ReadBatch(0, 1))
    acquire(share, "b", ReadBatch(2, 3))
    share.stretches.begin_at(5)

    assert given_back(share, "b", kept=False) == [StateBatch(2, 3, Delivery.ARCHIVED, 1)]
    assert given_back(share, "b") == [StateBatch(2, 3, Delivery.ARCHIVED, 1)]
    assert share.release("b", LIMITS) is None
    assert 5 == share.stretches.start
    assert share.next_deadline() is not None
    # Behind the last of them, as in Kafka: whoever reads there finds the start of the log once more.
    assert given_back(share, "a") == [StateBatch(0, 1, Delivery.ARCHIVED, 1)]
    assert (4, 4) == (share.stretches.start, share.next_offset)
    assert share.next_deadline() is None
    assert share.stretches.complete == 0


def test_what_is_being_told_of_records_while_they_go_ends_their_lock() -> None:
    share = partition()
    acquire(share, "a", ReadBatch(0, 3))
    change = share.acknowledge("a", [said(0, 3, AckType.ACCEPT)], LIMITS, 0)
    assert isinstance(change, Change)
    share.stretches.begin_at(2)

    share.settled(change, kept=True)

    assert share.release("a", LIMITS) is None
    assert (4, 0) == (share.stretches.start, share.stretches.complete)


def test_records_that_were_released_and_are_compacted_away_are_for_nobody() -> None:
    share = partition()
    acquire(share, "a", ReadBatch(0, 4))
    done(share, "a", said(1, 4, AckType.RELEASE))

    assert [(3, 4, 2), (5, 5, 1)] == acquire(share, "a", ReadBatch(3, 4), ReadBatch(5, 5))
    done(share, "a", said(0, 0, AckType.ACCEPT))
    assert 3 == share.stretches.start


def test_a_batch_that_begins_before_what_is_free_leaves_no_gap() -> None:
    share = partition()
    acquire(share, "a", ReadBatch(0, 4))
    done(share, "a", said(2, 2, AckType.RELEASE))

    assert [(2, 2, 2)] == acquire(share, "a", ReadBatch(0, 4))
    assert 0 == share.stretches.start


def test_a_record_that_was_delivered_too_often_is_given_up() -> None:
    share = partition()
    for delivery in range(1, LIMITS.deliveries):
        assert [(0, 0, delivery)] == acquire(share, "a", ReadBatch(0, 0))
        assert [StateBatch(0, 0, Delivery.AVAILABLE, delivery)] == done(share, "a", said(0, 0, AckType.RELEASE))

    acquire(share, "a", ReadBatch(0, 0))

    assert [StateBatch(0, 0, Delivery.ARCHIVED, 3)] == done(share, "a", said(0, 0, AckType.RELEASE))
    assert 1 == share.stretches.start


def test_locks_end_and_are_renewed() -> None:
    share = partition()
    acquire(share, "a", ReadBatch(0, 3), now=100)

    assert 1100 == share.next_deadline()
    assert [] == done(share, "a", said(0, 1, AckType.RENEW), now=600)
    assert share.expire(LIMITS, 1099) is None
    change = share.expire(LIMITS, 1100)
    assert change is not None
    assert (StateBatch(2, 3, Delivery.AVAILABLE, 1),) == change.batches
    share.settled(change, kept=True)
    assert 1600 == share.next_deadline()


@pytest.mark.parametrize(
    ("member", "acknowledged", "error", "text"),
    [
        ("b", said(0, 9, AckType.ACCEPT), ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record"),
        ("a", said(10, 12, AckType.ACCEPT), ErrorCode.INVALID_REQUEST, "The first offset in request is past"),
        ("a", said(5, 12, AckType.ACCEPT), ErrorCode.INVALID_REQUEST, "The last offset in request is past"),
    ],
)
def test_foreign_and_unknown_records_are_refused(
    member: str, acknowledged: Acknowledged, error: ErrorCode, text: str
) -> None:
    share = partition()
    acquire(share, "a", ReadBatch(0, 9))

    refused = done(share, member, acknowledged)

    assert isinstance(refused, Refused)
    assert refused.error is error
    assert text in (refused.message or "")


def test_acknowledgements_that_overlap_change_nothing() -> None:
    share = partition()
    acquire(share, "a", ReadBatch(0, 9))

    assert isinstance(done(share, "a", said(0, 5, AckType.ACCEPT), said(5, 9, AckType.ACCEPT)), Refused)
    assert [StateBatch(0, 9, Delivery.ACKNOWLEDGED, 1)] == done(share, "a", said(0, 9, AckType.ACCEPT))


def test_what_the_coordinator_could_not_keep_stays_as_it_was() -> None:
    share = partition()
    acquire(share, "a", ReadBatch(0, 3))
    change = share.acknowledge("a", [said(0, 3, AckType.ACCEPT)], LIMITS, 0)
    assert isinstance(change, Change)
    # Meanwhile nobody may touch them, not even the clock.
    assert share.expire(LIMITS, 5000) is None

    share.settled(change, kept=False)

    assert 0 == share.stretches.start
    assert share.expire(LIMITS, 5000) is not None


@pytest.mark.parametrize("kept", [False, True])
def test_records_that_are_asked_for_while_they_are_given_back_are_not_kept_for_ever(kept: bool) -> None:
    share = partition()
    acquire(share, "a", ReadBatch(0, 9))
    change = share.expire(LIMITS, 1_000)
    assert change is not None
    assert isinstance(done(share, "a", said(4, 5, AckType.ACCEPT), now=1_100), Refused)

    share.settled(change, kept=kept)
    if not kept:
        again = share.expire(LIMITS, 1_200)
        assert again is not None
        share.settled(again, kept=True)

    assert not any(each.pending for each in share.stretches)
    assert [(0, 9, 2)] == acquire(share, "b", ReadBatch(0, 9), now=1_300)


def test_a_lot_that_is_acquired_again_in_two_parts_has_two_owners() -> None:
    share, log = partition(), (ReadBatch(0, 4), ReadBatch(5, 9))
    assert [(0, 9, 1)] == acquire(share, "a", *log)
    done(share, "a", said(0, 9, AckType.RELEASE))

    assert [(0, 4, 2)] == acquire(share, "b", *log, most=5)
    assert [(5, 9, 2)] == acquire(share, "c", *log, most=5)

    assert [StateBatch(5, 9, Delivery.ACKNOWLEDGED, 2)] == done(share, "c", said(5, 9, AckType.ACCEPT))
    assert [StateBatch(0, 4, Delivery.ACKNOWLEDGED, 2)] == done(share, "b", said(0, 4, AckType.ACCEPT))


def test_a_leader_goes_on_where_the_one_before_ended() -> None:
    share = partition(
        3, StateBatch(3, 4, Delivery.ACKNOWLEDGED, 1), StateBatch(5, 5, Delivery.AVAILABLE, 2), StateBatch(8, 9, 4, 1)
    )

    assert (5, 10) == (share.stretches.start, share.stretches.end)
    assert [(5, 5, 3), (6, 7, 1), (10, 12, 1)] == acquire(share, "a", ReadBatch(0, 12))


def test_what_is_gone_from_the_log_is_forgotten() -> None:
    share = partition()
    acquire(share, "a", ReadBatch(0, 9))

    share.stretches.begin_at(6)

    assert [] == done(share, "a", said(0, 5, AckType.ACCEPT))
    assert [StateBatch(6, 9, Delivery.ACKNOWLEDGED, 1)] == done(share, "a", said(0, 9, AckType.ACCEPT))


@pytest.mark.parametrize("seed", range(60))
def test_every_record_ends_once_whatever_happens(seed: int) -> None:
    """Members acquire, acknowledge, go away and are slow; each record is accepted once, and none is had by two."""
    roll, now = random.Random(seed), 0
    share, end = partition(), 60
    log = [ReadBatch(first, min(first + 4, end - 1)) for first in range(0, end, 5)]
    limits = Limits(lock_ms=100, deliveries=1000, locks=25)
    has: dict[int, str] = {}
    accepted: set[int] = set()
    for _ in range(2000):
        now += roll.randint(0, 30)
        member = roll.choice("abc")
        change = share.expire(limits, now)
        if change is not None:
            for begin, last, _ in change.stretches:
                for offset in range(begin, last + 1):
                    del has[offset]
            share.settled(change, kept=True)
        mine = sorted(offset for offset, holder in has.items() if holder == member)
        if mine and roll.random() < 0.6:
            first = roll.choice(mine)
            kind = roll.choice([AckType.ACCEPT, AckType.RELEASE])
            answer = share.acknowledge(member, [said(first, first, kind)], limits, now)
            assert isinstance(answer, Change)
            kept = roll.random() < 0.9
            share.settled(answer, kept=kept)
            if kept:
                del has[first]
                if kind is AckType.ACCEPT:
                    assert first not in accepted
                    accepted.add(first)
        else:
            offset = share.next_offset
            read = [batch for batch in log if batch.last >= offset]
            if not read:
                continue
            strict = roll.random() < 0.5
            got = share.acquire(
                member, read, max_records=roll.randint(1, 12), batch_size=3, strict=strict, limits=limits, now=now
            )
            for each in got:
                for offset in range(each.first, each.last + 1):
                    assert offset not in has
                    assert offset not in accepted
                    has[offset] = member
        if len(accepted) == end:
            break
    assert set(range(end)) == accepted
    assert (end, end, 0) == (share.stretches.start, share.stretches.end, share.stretches.complete)


def test_records_are_not_compared_with_all_batches_that_were_aborted() -> None:
    assert lines_of_acquiring(400) < 2.5 * lines_of_acquiring(200)


def lines_of_acquiring(count: int) -> int:
    """What it takes to acquire so many batches, half of them aborted, one by one."""
    share, batches = partition(), [ReadBatch(first, first, bool(first % 2)) for first in range(count)]
    lines = lines_of(lambda: acquire(share, "a", *batches, size=1))
    assert count == share.next_offset
    assert Delivery.ARCHIVED is share.stretches.within(1, 1)[0].state
    return lines
