"""Postings, and records of them in a log and at a consumer."""

from __future__ import annotations

from odradek.demo.ledger import Promise, Stage
from odradek.demo.lines import Seen
from odradek.demo.log import Outcome, Written
from odradek.demo.transfers import Fate, Posting

__all__ = ["posting", "promised", "seen", "written"]


def posting(
    transfer: str, part: int = 0, *, parts: int = 2, amount: int | None = None, fate: Fate = Fate.COMMIT
) -> Posting:
    """Part 0 pays 10, part 1 gets them."""
    return Posting(transfer, part, parts, f"account-{part}", (10 if part else -10) if amount is None else amount, fate)


def written(offset: int, what: Posting, outcome: Outcome = Outcome.COMMITTED, *, partition: int = 0) -> Written:
    return Written(partition, offset, what, outcome)


def seen(offset: int, what: Posting, *, partition: int = 0) -> Seen:
    return Seen(partition, offset, what)


def promised(stage: Stage) -> Promise:
    return Promise(2, stage)
