"""Recordings of the clusters of tests: `pytest --odradek-record DIR` keeps those of tests that fail."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.net.cluster import RunningCluster
    from odradek.net.recording import Record

__all__ = ["end", "failed", "of_test", "sentence", "started", "test_is_over"]

_running: list[RunningCluster] = []
"""Clusters that are recorded because of the option, until the end of the test in which they end."""
_kept: set[Path] = set()
"""Recordings that a failed test needs."""


def of_test() -> Record | None:
    """A file for the next cluster of this test; None without the option."""
    plugin = sys.modules.get("odradek.testing.pytest_plugin")
    if plugin is None or plugin.record_folder is None:
        return None
    from odradek.net.recording import new_record  # most tests are not recorded

    return new_record(Path(plugin.record_folder), plugin.test, with_secrets=plugin.records_secrets)


def started(cluster: RunningCluster) -> None:
    """A cluster runs that is recorded because of the option."""
    _running.append(cluster)


def sentence(cluster: RunningCluster) -> str | None:
    """Where a cluster is recorded, or why it is not; None if nobody asked for it."""
    kept_in = cluster.outside.kept_in
    if kept_in is not None:
        return f"Everything that came in: {kept_in}\nAgain, answer for answer: odradek replay {kept_in}"
    return cluster.outside.not_kept


def failed() -> None:
    """The test has failed: keep the recordings of all clusters that it may have used."""
    _kept.update(path for each in _running if (path := each.outside.kept_in) is not None)


def test_is_over() -> None:
    """Delete the recordings of clusters that have ended without any failed test."""
    for each in [each for each in _running if each.outside.is_over]:
        _running.remove(each)
        _forget(each)


def end() -> None:
    """The same at the end of all tests, for all clusters."""
    while _running:
        _forget(_running.pop())


def _forget(cluster: RunningCluster) -> None:
    path = cluster.outside.kept_in
    if path is not None and path not in _kept:
        path.unlink(missing_ok=True)
