"""Every dialect under the faults of the simulator; and what does not hold in a draft, with the seed that shows it."""

from __future__ import annotations

import os
from types import MappingProxyType

import pytest
from tests.sim.focus import GENERAL, Focus
from tests.sim.habits import Habits
from tests.sim.nemesis import Nemesis
from tests.sim.scenario import Violation, run

from odradek.dialects.load import load, names

SEEDS = int(os.environ.get("ODRADEK_SIM_SEEDS", "48")) // 8
LATE_MARKERS = Focus(
    MappingProxyType(
        {
            Nemesis.hold_any_markers: 6,
            Nemesis.replace_a_coordinator_amid_markers: 3,
            Nemesis.lose_requests: 1,
            Nemesis.move_a_leader: 1,
        }
    ),
    levels=((2,),),
    habits=Habits(newer=1.0),
)
"""Markers that are sent again while the first ones are on their way still, and clients of the new protocol alone."""
SEED_OF_A_LATE_MARKER = 14


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
@pytest.mark.parametrize("name", names())
def test_exactly_once_under_faults(name: str, seed: int) -> None:
    report = run(seed, GENERAL, dialect=load(name))
    assert report.committed > 0


@pytest.mark.slow
def test_a_late_marker_ends_the_next_transaction_of_kip_890_text() -> None:
    """The marker of a transaction has the epoch of the next one, and the page has leaders fence older epochs only.

    A marker that is answered too late is sent again; the first one then arrives in the middle of the next transaction
    and ends it there. Kafka 4.4 tells leaders the level with the marker, and takes no equal epoch (KIP-1228).
    """
    with pytest.raises(Violation, match="has other records than those of the committed transactions"):
        run(SEED_OF_A_LATE_MARKER, LATE_MARKERS, dialect=load("kip-890-text"))
    assert run(SEED_OF_A_LATE_MARKER, LATE_MARKERS).committed > 0
