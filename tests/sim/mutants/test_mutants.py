"""The simulator is worth what it finds: brokers with one defence less. `make sim-mutants` looks for all of them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.sim.mutants import __main__ as mutants_main
from tests.sim.mutants.__main__ import Search, look_for, missing
from tests.sim.mutants.mutant import Mutant, NotApplicable, mutants

from odradek.sim.model.promises import PROMISES
from odradek.sim.workloads.catalogue import FOCUSES

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


def test_one_that_does_nothing_is_missed_and_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [mutant] = [each for each in ALL if each.name == "a guard is not looked at again"]
    monkeypatch.setattr(mutants_main, "mutants", lambda: [replace(mutant, new=mutant.old)])
    monkeypatch.setattr(mutants_main, "look_for", lambda mutant, **how: Search(mutant.name, 1, 0.1, None))
    assert mutants_main.main([]) == 1
    assert "**missed**" in capsys.readouterr().out

    def cannot(mutant: Mutant, **how: float) -> Search:
        raise RuntimeError("its text stands 0 times")

    monkeypatch.setattr(mutants_main, "look_for", cannot)
    assert mutants_main.main([]) == 1
    assert "its text stands 0 times" in capsys.readouterr().out
    monkeypatch.setattr(mutants_main, "look_for", lambda mutant, **how: Search(mutant.name, 1, 0.1, "gap"))
    assert mutants_main.main([]) == 0


def test_the_page_lists_every_one() -> None:
    assert missing() == []
