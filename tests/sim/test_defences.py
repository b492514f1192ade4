"""Runs without a defence, which must fail: what the simulation does not miss, it does not check.

Which seeds need a defence depends on all that happens in them, so a change of the broker or of the workload may ask for
others: `python -m tests.sim.defences FIRST COUNT` looks for them.
"""

from __future__ import annotations

import pytest
from tests.sim.defences import DEFENCES

SEEDS: dict[str, tuple[int, ...]] = {
    "second look at the guard": (1, 2, 3),
    "sequences": (1, 2),
    "aborts of timed-out transactions": (1,),
    "epochs of coordinators": (1, 3, 6),
    "generations": (1,),
    "offsets of duplicates": (1,),
    "waiting for replicas": (3, 5, 7),
    "verification at level 0": (1, 2),
    "verification at level 1": (1, 2),
}
"""A few for each, so that not every change of what else happens asks for others; one that fails is enough."""


def test_each_defence_is_missed() -> None:
    assert SEEDS.keys() == DEFENCES.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFENCES)
def test_without_a_defence_something_does_not_hold(name: str) -> None:
    assert any(DEFENCES[name].problem(seed) for seed in SEEDS[name]), f"nothing in these runs needs it: {name}"
