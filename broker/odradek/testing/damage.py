"""What is missing or damaged in the data directory of a cluster, told to the author of the test."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from odradek.net.kept_warnings import line_of

if TYPE_CHECKING:
    from odradek.net.cluster import RunningCluster
    from odradek.net.recent import Recent

__all__ = ["DataDirWarning", "note_events", "warn"]

__tracebackhide__ = True
__unittest = True
"""A warning that is an error is one sentence: pytest and unittest leave these frames out."""
KINDS = frozenset({"metadata_fault", "log_truncated", "group_record_skipped"})
"""Events of a start that tell of damage; later ones are the test's own doing."""


class DataDirWarning(UserWarning):
    """Something is missing or damaged in the data directory of a cluster; the text is the line of the log."""


def note_events(cluster: RunningCluster, recent: Recent) -> None:
    """The cluster has started: what its brokers have found in their logs belongs to its warnings."""
    cluster.warnings += [
        line_of(each.fact.kind, {"node": each.node, **each.fact.fields})
        for each in recent.after(0)
        if each.fact.kind in KINDS
    ]


def warn(cluster: RunningCluster, already: int, *, stacklevel: int) -> int:
    """A Python warning for each of the cluster's beyond the first ones; how many there are now."""
    found = list(cluster.warnings)
    for line in found[already:]:
        warnings.warn(line, DataDirWarning, stacklevel=stacklevel + 1)
    return len(found)
