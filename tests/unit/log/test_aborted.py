"""The index of aborted transactions: which of them a committed read is told of."""

from __future__ import annotations

from odradek.log.aborted import AbortedIndex, AbortedTransaction


def index(*entries: tuple[int, int, int, int]) -> AbortedIndex:
    aborted = AbortedIndex()
    for entry in entries:
        aborted.append(AbortedTransaction(*entry))
    return aborted


def test_transactions_that_reach_into_the_range() -> None:
    aborted = index((1, 0, 4, 5), (2, 6, 9, 10), (3, 12, 15, 16))
    assert [(1, 0), (2, 6)] == aborted.overlapping(start=0, until=10)
    assert [(2, 6)] == aborted.overlapping(start=5, until=12)
    assert [(3, 12)] == aborted.overlapping(start=10, until=13)
    assert [] == aborted.overlapping(start=16, until=20)


def test_a_long_transaction_is_found_from_its_middle() -> None:
    assert [(1, 0)] == index((1, 0, 100, 101)).overlapping(start=50, until=60)


def test_search_goes_on_while_something_was_open_before() -> None:
    # Producer 1 was open from offset 0 on, so the marker at 3 left offset 0 as the stable one.
    aborted = index((2, 1, 3, 0), (1, 0, 4, 5))
    assert [(2, 1), (1, 0)] == aborted.overlapping(start=0, until=4)


def test_search_ends_where_all_is_stable() -> None:
    # The second entry could not be: it begins below what the first says is decided. It shows that nobody looks at it.
    aborted = index((1, 0, 4, 5), (2, 2, 9, 10))
    assert [(1, 0)] == aborted.overlapping(start=0, until=5)


def test_truncations_go_by_the_marker() -> None:
    aborted = index((1, 0, 4, 5), (2, 6, 9, 10), (3, 12, 15, 16))
    aborted.truncate_end(15)
    aborted.truncate_start(5)
    assert [2] == [entry.producer_id for entry in aborted.entries]


def test_remove_by_marker() -> None:
    aborted = index((1, 0, 4, 5), (2, 6, 9, 10))
    aborted.remove({4})
    assert [(2, 6)] == aborted.overlapping(start=0, until=20)
