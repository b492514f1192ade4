"""What is stuck, in words that the hub and `odradek watch` share."""

from __future__ import annotations

import pytest

from odradek.stuck.sentences import (
    OpenTransaction,
    consumers_stop,
    ends_by_itself,
    is_not_at_rest,
    marker_is_missing,
    markers_in,
    open_there,
)

BEGAN = 1_700_000_000_000
NOW = BEGAN + 61_000


def till(*, ends: bool = False, aborted_at_ms: int | None = BEGAN + 73_000, name: str = "till-2") -> OpenTransaction:
    return OpenTransaction(
        transactional_id=name,
        producer_id=7,
        producer_epoch=3,
        state="PrepareCommit" if ends else "Ongoing",
        ends=ends,
        since_ms=BEGAN,
        aborted_at_ms=aborted_at_ms,
        partitions=("orders-2",),
    )


def test_where_consumers_stop_and_what_ends_it() -> None:
    assert consumers_stop("orders-2", 302, 310, open_there(till(), NOW, newest_ms=BEGAN + 1_000)) == (
        "Consumers (read_committed) of orders-2 stop at offset 302 of 310: till-2 is open there since 22:13:20.000"
        " (61.0 s); its newest record there is 60.0 s old; if its producer does not end it, the coordinator aborts it"
        " in 12.0 s."
    )


@pytest.mark.parametrize(
    ("of", "owed", "ending"),
    [
        (till(), "", "if its producer does not end it, the coordinator aborts it in 12.0 s."),
        (till(aborted_at_ms=NOW), "", "the coordinator aborts it now."),
        (till(aborted_at_ms=None), "", "it has no timeout, so that its producer alone ends it."),
        (till(ends=True), "its marker in orders-2", "3, orders-2): it waits for its marker in orders-2."),
        (till(ends=True), "", "3, orders-2): its last record is being written."),
    ],
)
def test_what_ends_a_transaction(of: OpenTransaction, owed: str, ending: str) -> None:
    sentence = is_not_at_rest(of, 2, NOW, owed=owed)
    assert sentence.startswith(f"Transaction till-2 is {of.state} for 61.0 s at broker 2 (producer 7, epoch 3")
    assert sentence.endswith(ending)


def test_rules_are_named_before_what_ends_it() -> None:
    held = "its END_TXN is held by rule commit"
    assert f"; {held}; {ends_by_itself(till(), NOW)}" in open_there(till(), NOW, by_rules=held)
    assert marker_is_missing(till(ends=True), by_rules=held).endswith(f"not written there yet; {held}")
    assert f": it waits for its marker in a-0; {held}." in is_not_at_rest(
        till(ends=True), 1, NOW, owed=markers_in(["a-0"]), by_rules=held
    )
    assert markers_in([]) == ""


@pytest.mark.parametrize("newest_ms", [-1, 0, BEGAN - 24 * 3_600_000])
def test_a_time_of_the_newest_record_that_says_nothing_is_left_out(newest_ms: int) -> None:
    assert "newest record" not in open_there(till(), NOW, newest_ms=newest_ms)


def test_a_record_may_be_older_than_its_transaction() -> None:
    """A client makes it before the coordinator has heard of the transaction."""
    assert "its newest record there is 61.1 s old" in open_there(till(), NOW, newest_ms=BEGAN - 100)


def test_names_stay_on_their_line() -> None:
    hostile = till(name="till\n2")
    assert "\n" not in open_there(hostile, NOW) + marker_is_missing(hostile) + is_not_at_rest(hostile, 1, NOW)
