"""What the consumer notices by itself."""

from __future__ import annotations

import pytest
from tests.demo.samples import posting, seen

from odradek.demo.transfers import NEVER_COMMITTED, Fate
from odradek.demo.watch import Watch


def test_whole_transfers_in_any_order_are_right() -> None:
    watch = Watch()
    for record in (
        seen(4, posting("a", 1), partition=1),
        seen(0, posting("b", 0)),
        seen(2, posting("a", 0)),
        seen(9, posting("b", 1, fate=Fate.CRASH_COMMITTING), partition=1),
    ):
        assert [] == list(watch.see(record))
    assert 0 == watch.incomplete


def test_a_part_that_is_missing_may_still_come() -> None:
    watch = Watch()
    assert [] == list(watch.see(seen(0, posting("a", 0))))
    assert 1 == watch.incomplete


@pytest.mark.parametrize("fate", sorted(NEVER_COMMITTED))
def test_a_record_that_was_never_committed(fate: Fate) -> None:
    (said,) = Watch().see(seen(3, posting("a", 0, fate=fate)))
    assert f"part 0 of transfer a (0@3) was never committed: {fate}" == said


def test_a_part_that_comes_twice() -> None:
    watch = Watch()
    assert [] == list(watch.see(seen(0, posting("a", 0))))
    assert ["part 0 of transfer a (0@1) was read twice"] == list(watch.see(seen(1, posting("a", 0))))


def test_an_offset_that_goes_back() -> None:
    watch = Watch()
    assert [] == list(watch.see(seen(5, posting("a", 0))))
    assert ["part 1 of transfer a (0@5) was read after offset 5"] == list(watch.see(seen(5, posting("a", 1))))


def test_money_that_appears() -> None:
    watch = Watch()
    assert [] == list(watch.see(seen(0, posting("a", 0))))
    assert ["the amounts of transfer a add up to 1"] == list(watch.see(seen(1, posting("a", 1, amount=11))))
