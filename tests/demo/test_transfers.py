"""Plans of transfers."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random

from odradek.demo.transfers import CRASHES, Fate, decode_posting, encode_posting, plans


def test_the_amounts_of_a_transfer_add_up_to_nothing_over_different_accounts() -> None:
    for plan in islice(plans("run", Random(1), abort_every=3, crash_every=4), 200):
        assert 0 == sum(posting.amount for posting in plan.postings)
        assert len(plan.postings) == len({posting.account for posting in plan.postings})
        assert list(range(len(plan.postings))) == [posting.part for posting in plan.postings]
        assert {(plan.transfer, len(plan.postings), plan.fate)} == {
            (posting.transfer, posting.parts, posting.fate) for posting in plan.postings
        }


def test_transfers_have_names_of_their_own() -> None:
    names = [plan.transfer for plan in islice(plans("run", Random(1), abort_every=0, crash_every=0), 3)]
    assert ["run-1", "run-2", "run-3"] == names


def test_zero_is_never() -> None:
    assert {Fate.COMMIT} == {plan.fate for plan in islice(plans("r", Random(1), abort_every=0, crash_every=0), 500)}


def test_fates_are_as_frequent_as_asked_for() -> None:
    fates = Counter(plan.fate for plan in islice(plans("r", Random(7), abort_every=5, crash_every=10), 3000))
    assert set(Fate) == set(fates)
    assert 250 < sum(fates[fate] for fate in CRASHES) < 350
    assert 480 < fates[Fate.ABORT] < 600


def test_a_posting_survives_its_record() -> None:
    plan = next(plans("r", Random(1), abort_every=0, crash_every=1))
    for posting in plan.postings:
        assert posting == decode_posting(encode_posting(posting))
