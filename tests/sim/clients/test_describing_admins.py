"""Admins of a run who ask about transactions and groups get answers that say something."""

from __future__ import annotations

import pytest

from odradek.sim.run import Run
from odradek.sim.workloads.draw import draw


@pytest.mark.slow
def test_members_are_looked_at_and_silent_ones_are_left_out() -> None:
    for workload in ("silent-members", "moving-work"):
        run = Run(draw(1, workload))
        run.play()
        [watcher] = run.watchers
        assert len({member for told in watcher.told for member in told.members}) > len(run.workers), workload


@pytest.mark.slow
def test_watchers_of_a_run_are_told_of_open_transactions() -> None:
    run = Run(draw(1, "general"))
    run.play()
    [watcher] = run.watchers
    assert {"Ongoing", "CompleteCommit"} <= {each.state for each in watcher.told}
    assert any(each.first_offset >= 0 for each in watcher.told)
