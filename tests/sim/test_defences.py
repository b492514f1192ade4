"""Runs without a defence, which must fail: what the simulation does not miss, it does not check.

Which seeds need a defence depends on all that happens in them, so a change of the broker or of the workload may ask for
others: `python -m tests.sim.defences FIRST COUNT` looks for them.
"""

from __future__ import annotations

import pytest
from tests.sim.defences import DEFENCES, broken_runs

SEEDS: dict[str, tuple[int, ...]] = {
    "without_generations": (1,),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEDS)
def test_without_a_defence_something_does_not_hold(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    DEFENCES[name](monkeypatch)
    assert list(broken_runs(SEEDS[name])), f"nothing in these runs needs it: {name}"


@pytest.mark.slow
def test_without_verification_late_records_of_older_clients_get_into_the_log() -> None:
    """KIP-890, part 1: what it is there for."""
    assert list(broken_runs((2, 3, 4), verifies=False, levels=(0,)))
    assert not list(broken_runs((2,), levels=(0,)))
