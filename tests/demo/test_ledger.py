"""What producers said, counted."""

from __future__ import annotations

from odradek.demo.ledger import Ledger, Stage
from odradek.demo.lines import Began, Committing, Ended
from odradek.demo.transfers import Fate


def test_transactions_end_one_way_or_the_other() -> None:
    ledger = Ledger()
    ledger.hear(1, Began("a", 2, Fate.COMMIT))
    ledger.hear(2, Began("b", 3, Fate.ABORT))
    assert 2 == ledger.open
    ledger.hear(1, Committing("a"))
    assert Stage.COMMITTING is ledger.promises["a"].stage
    ledger.hear(1, Ended("a", True))
    ledger.hear(2, Ended("b", False))
    assert (1, 1, 0, 0) == (ledger.committed, ledger.aborted, ledger.open, ledger.cut_off)
    assert [Stage.COMMITTED, Stage.ABORTED] == [promise.stage for promise in ledger.promises.values()]


def test_a_crash_cuts_off_what_is_open() -> None:
    ledger = Ledger()
    ledger.hear(1, Began("a", 2, Fate.CRASH_OPEN))
    ledger.hear(2, Began("b", 2, Fate.CRASH_COMMITTING))
    ledger.hear(2, Committing("b"))
    for producer in (1, 2, 3):
        ledger.producer_is_gone(producer)
    assert (0, 2) == (ledger.open, ledger.cut_off)
    assert [False, True] == [promise.may_be_committed for promise in ledger.promises.values()]
