"""Every dialect under the faults of the simulator; and what does not hold in a draft, with the seed that shows it."""

from __future__ import annotations

import os

import pytest

from odradek.dialects.load import names
from odradek.node.rules.one_line import rule
from odradek.sim.draw import Settings, draw
from odradek.sim.promises import Violation
from odradek.sim.run import run

SEEDS = int(os.environ.get("ODRADEK_SIM_SEEDS", "48")) // 8
LATE_MARKERS = rule("WRITE_TXN_MARKERS", broker=1, delay_ms=2_500, times=6, every=4)
"""Markers that take longer than their sender waits: it sends them again, and the first ones still come."""
SEED_OF_A_LATE_MARKER = 6


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
@pytest.mark.parametrize("name", names())
def test_exactly_once_under_faults(name: str, seed: int) -> None:
    report = run(draw(seed, settings=Settings(dialect=name)))
    assert report.committed > 0


@pytest.mark.slow
def test_a_late_marker_ends_the_next_transaction_of_kip_890_text() -> None:
    """The marker of a transaction has the epoch of the next one, and the page has leaders fence older epochs only.

    A marker that is answered too late is sent again; the first one then arrives in the middle of the next transaction
    and ends it there. Kafka 4.4 tells leaders the level with the marker, and takes no equal epoch (KIP-1228).
    """

    def settings(dialect: str | None) -> Settings:
        return Settings(levels=(2,), rules=(LATE_MARKERS,), dialect=dialect)

    with pytest.raises(Violation, match="has other records than those of committed transactions"):
        run(draw(SEED_OF_A_LATE_MARKER, "in-flight", settings("kip-890-text")))
    assert run(draw(SEED_OF_A_LATE_MARKER, "in-flight", settings(None))).committed > 0
