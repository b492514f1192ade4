"""What the simulator has found in our own brokers, each as the run that found it."""

from __future__ import annotations

import pytest

from odradek.sim.draw import draw
from odradek.sim.run import run

FOUND = [
    # A broker that was called gone, and did not know yet, lost what it wrote to the partitions that it led alone.
    ("swarm", 1008),
]


@pytest.mark.slow
@pytest.mark.parametrize(("workload", "seed"), FOUND)
def test_what_was_found_is_mended(workload: str, seed: int) -> None:
    assert run(draw(seed, workload)).committed > 0
