"""What each transition does to each field, and what none may do."""

from typing import Any

import pytest
from msgspec.structs import asdict, replace

from odradek.txn import transitions
from odradek.txn.entry import Entry
from odradek.txn.states import RESTING, Outcome, TxnState

EMPTY = transitions.created("x", 10, timeout_ms=60_000, now=100)
ONGOING = transitions.added(EMPTY, [("b", 1), ("a", 0)], client_version=2, now=200)
LAST = replace(EMPTY, producer_epoch=32766)


def changes(before: Entry, after: Entry) -> dict[str, Any]:
    old, new = asdict(before), asdict(after)
    return {field: value for field, value in new.items() if old[field] != value}


def test_created() -> None:
    assert (10, 0, -1, 10, -1) == (
        EMPTY.producer_id,
        EMPTY.producer_epoch,
        EMPTY.last_producer_epoch,
        EMPTY.previous_producer_id,
        EMPTY.start_timestamp,
    )


def test_bumped() -> None:
    after = transitions.bumped(EMPTY, timeout_ms=5, keep_last=False, now=300)
    assert {"producer_epoch": 1, "timeout_ms": 5, "last_update_timestamp": 300} == changes(EMPTY, after)
    after = transitions.bumped(EMPTY, timeout_ms=5, keep_last=True, now=300)
    assert 0 == after.last_producer_epoch


def test_rotated() -> None:
    after = transitions.rotated(LAST, 11, timeout_ms=5, keep_last=True, now=300)
    assert (11, 0, 10, 32766) == (
        after.producer_id,
        after.producer_epoch,
        after.previous_producer_id,
        after.last_producer_epoch,
    )
    assert -1 == transitions.rotated(LAST, 11, timeout_ms=5, keep_last=False, now=300).last_producer_epoch


def test_replayed_keeps_what_a_second_retry_needs() -> None:
    rotated = transitions.rotated(LAST, 11, timeout_ms=5, keep_last=True, now=300)
    after = transitions.replayed(rotated, timeout_ms=6, now=400)
    assert {"timeout_ms": 6, "last_update_timestamp": 400} == changes(rotated, after)


def test_added_opens_the_transaction_once() -> None:
    assert {
        "state": TxnState.ONGOING,
        "partitions": (("a", 0), ("b", 1)),
        "start_timestamp": 200,
        "last_update_timestamp": 200,
        "client_transaction_version": 2,
    } == changes(EMPTY, ONGOING)
    again = transitions.added(ONGOING, [("a", 5)], client_version=0, now=300)
    assert {
        "partitions": (("a", 0), ("a", 5), ("b", 1)),
        "last_update_timestamp": 300,
        "client_transaction_version": 0,
    } == changes(ONGOING, again)


def test_prepared_in_its_own_epoch() -> None:
    after = transitions.prepared(ONGOING, Outcome.COMMIT, now=300)
    assert {
        "state": TxnState.PREPARE_COMMIT,
        "last_update_timestamp": 300,
        "client_transaction_version": 0,
        "epoch_used": True,
    } == changes(ONGOING, after)


def test_prepared_with_the_bumped_epoch() -> None:
    after = transitions.prepared_bumping(ONGOING, Outcome.ABORT, next_producer_id=-1, now=300)
    assert {
        "state": TxnState.PREPARE_ABORT,
        "producer_epoch": 1,
        "last_producer_epoch": 0,
        "last_update_timestamp": 300,
    } == changes(ONGOING, after)


@pytest.mark.parametrize("state", sorted(RESTING))
def test_an_abort_of_nothing_starts_now(state: TxnState) -> None:
    before = replace(EMPTY, state=state)
    after = transitions.prepared_bumping(before, Outcome.ABORT, next_producer_id=-1, now=300)
    assert (TxnState.PREPARE_ABORT, 300, 1, 2) == (
        after.state,
        after.start_timestamp,
        after.producer_epoch,
        after.client_transaction_version,
    )


def test_overflow() -> None:
    ongoing = replace(ONGOING, producer_epoch=32766)
    prepared = transitions.prepared_bumping(ongoing, Outcome.COMMIT, next_producer_id=11, now=300)
    assert (10, 32767, 32766, 11) == (
        prepared.producer_id,
        prepared.producer_epoch,
        prepared.last_producer_epoch,
        prepared.next_producer_id,
    )
    completed = transitions.completed(prepared, 400)
    assert {
        "producer_id": 11,
        "producer_epoch": 0,
        "state": TxnState.COMPLETE_COMMIT,
        "partitions": (),
        "last_update_timestamp": 400,
        "next_producer_id": -1,
    } == changes(prepared, completed)
    assert 10 == completed.previous_producer_id


def test_fenced_forgets_the_last_epoch() -> None:
    before = replace(ONGOING, last_producer_epoch=3, producer_epoch=4)
    after = transitions.fenced(before, now=300)
    assert {
        "state": TxnState.PREPARE_ABORT,
        "producer_epoch": 5,
        "last_producer_epoch": -1,
        "last_update_timestamp": 300,
        "client_transaction_version": 0,
    } == changes(before, after)


def test_beyond_the_last_epoch_an_abort_goes_through() -> None:
    broken = replace(ONGOING, producer_epoch=32767)
    assert 32767 == transitions.fenced(broken, now=1).producer_epoch
    assert 32767 == transitions.prepared_bumping(broken, Outcome.ABORT, next_producer_id=11, now=1).producer_epoch


@pytest.mark.parametrize(
    ("before", "fields"),
    [
        (None, {"state": TxnState.ONGOING, "start_timestamp": 1}),
        (EMPTY, {"state": TxnState.COMPLETE_COMMIT, "start_timestamp": 1}),
        (EMPTY, {"state": TxnState.PREPARE_COMMIT, "start_timestamp": 1}),
        (EMPTY, {"producer_epoch": 2}),
        (replace(EMPTY, producer_epoch=3), {"producer_epoch": 2}),
        (EMPTY, {"producer_id": 11, "producer_epoch": 1}),
        (EMPTY, {"producer_id": 11, "previous_producer_id": 9}),
        (EMPTY, {"partitions": (("a", 0),)}),
        (EMPTY, {"start_timestamp": 5}),
        (ONGOING, {"state": TxnState.ONGOING, "partitions": (("a", 0),), "start_timestamp": 1}),
        (ONGOING, {"state": TxnState.ONGOING, "partitions": ONGOING.partitions, "producer_epoch": 1}),
        (ONGOING, {"state": TxnState.PREPARE_COMMIT, "partitions": (), "start_timestamp": 1}),
        (EMPTY, {"producer_id": -1}),
        (replace(EMPTY, producer_epoch=32767), {"producer_epoch": 32768}),
    ],
)
def test_what_no_transition_may_do(before: Entry | None, fields: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        transitions.check_transition(before, replace(EMPTY, **fields))
