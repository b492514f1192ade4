"""Nobody is starved, over real sockets: one client at its worst, and how long another waits for Metadata."""

from __future__ import annotations

import pytest
from bench.starved import LOADS, beside, p99, serving, waited

pytestmark = pytest.mark.slow

BOUND_MS = 50
"""What docs/architecture.md promises on a quiet machine."""
GENEROUS = 20
"""A test's machine has other things to do."""


@pytest.mark.parametrize("partitions", [1_000, 10_000])
def test_pipelined_metadata_holds_up_nobody(partitions: int) -> None:
    with serving(partitions // 10, 10) as address, beside(address, LOADS[next(iter(LOADS))](0)):
        samples = waited(address, seconds=3)
    assert p99(samples) < BOUND_MS * GENEROUS, sorted(samples)[-5:]


@pytest.mark.parametrize("load", LOADS)
def test_each_load_of_the_measurement_is_served(load: str) -> None:
    """A load that the broker refuses would measure nothing, and look good."""
    with serving(1, 10) as address, beside(address, LOADS[load](20_000)):
        assert waited(address, seconds=0.1)
