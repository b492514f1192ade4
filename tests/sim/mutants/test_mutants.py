"""The simulator is worth what it finds: brokers with one defence less. `make sim-mutants` looks for all of them."""

from __future__ import annotations

import pytest
from tests.sim.mutants.__main__ import look_for, missing
from tests.sim.mutants.mutant import Mutant, NotApplicable, mutants

from odradek.sim.focus import FOCUSES
from odradek.sim.promises import PROMISES

ALL = mutants()
QUICK = [each for each in ALL if each.quick]
SEEDS, SECONDS = 20, 30.0


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_each_one_still_applies(mutant: Mutant) -> None:
    compile(mutant.source(), mutant.file, "exec")
    assert mutant.workload in FOCUSES


def test_there_are_forty_and_no_two_are_the_same() -> None:
    assert len({each.name for each in ALL}) == len(ALL) >= 40
    assert len({each.source() for each in ALL}) == len(ALL)
    assert len(QUICK) >= 12
    assert all(each.missed is None for each in QUICK)


def test_one_whose_text_is_gone_fails_loudly() -> None:
    gone = Mutant(name="gone", file="log/guards.py", workload="general", old="no such text", new="")
    with pytest.raises(NotApplicable, match="its text stands 0 times"):
        gone.source()


def test_one_that_is_there_twice_fails_loudly() -> None:
    twice = Mutant(name="twice", file="log/guards.py", workload="general", old="producer_id", new="")
    with pytest.raises(NotApplicable, match=r"stands \d+ times"):
        twice.source()


def test_what_is_imported_already_cannot_be_changed() -> None:
    import odradek.log.guards  # noqa: F401

    [mutant] = [each for each in ALL if each.name == "a guard is not looked at again"]
    with pytest.raises(NotApplicable, match="imported already"):
        mutant.install()


@pytest.mark.slow
@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_it_is_found(mutant: Mutant) -> None:
    search = look_for(mutant, seeds=SEEDS, seconds=SECONDS)
    assert search.found in PROMISES, search


def test_the_page_lists_every_one() -> None:
    assert missing() == []
