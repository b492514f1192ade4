"""A prepared state for many tests: made once, forked for each (`Cluster(from_=…)`)."""

from __future__ import annotations

import os
from collections import OrderedDict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.net.apart import MARK
from odradek.net.snapshot import ClusterSnapshot

if TYPE_CHECKING:
    from odradek.net.prepared import Prepared

__all__ = ["Snapshot", "checked_snapshot"]

__tracebackhide__ = True
__unittest = True
"""A wrong argument is one sentence: pytest and unittest leave these frames out."""


READ_MAX = 4
_read_before: OrderedDict[tuple[Path, Path], tuple[os.stat_result, Snapshot]] = OrderedDict()
"""The last directories that were forked by their paths, which many tests do: each is read once."""


class Snapshot:
    """A cluster as it was at one moment, as `Cluster.snapshot` gives it back.

    It never changes, whatever its forks and its origin do, and is used by several tests and threads at once.
    Its memory is given back when neither it nor a fork is there any more.
    """

    def __init__(self, cluster: ClusterSnapshot, *, prepared: Prepared | None = None) -> None:
        self.cluster = cluster
        self.prepared = prepared
        """The certificates and users that the listeners have; they stay as long as the snapshot does."""

    @property
    def directory(self) -> Path | None:
        """Where it is, if it was written to a directory."""
        return self.cluster.directory

    @property
    def bytes_held(self) -> int:
        """Bytes of all record batches; forks share them."""
        return self.cluster.bytes_held

    def __repr__(self) -> str:
        return f"<Snapshot of cluster {self.cluster.cluster_id}, {self.bytes_held} bytes of batches>"


def checked_snapshot(value: object, *, data_dir: str | PathLike[str] | None) -> Snapshot:
    """The snapshot of a fork, or the one that is the directory of this path.

    Raises TypeError for anything else, ValueError where it cannot be forked there, and
    `odradek.cli.usage.UsageError` for a directory that is no snapshot.
    """
    if isinstance(value, str | PathLike):
        value = _read(Path(value))
    if not isinstance(value, Snapshot):
        raise TypeError(
            f"The argument from_ of a cluster takes what Cluster.snapshot() gave back, or its directory, not {value!r}."
        )
    if data_dir is not None and value.cluster.directory is None:
        raise ValueError(
            "A snapshot in memory is forked in memory: leave out data_dir, or take it with snapshot(DIRECTORY)."
        )
    return value


def _read(directory: Path) -> Snapshot:
    """The snapshot that is this directory. Raises `odradek.cli.usage.UsageError`."""
    key = directory, directory.absolute()
    try:
        mark = os.stat(directory / MARK)
    except OSError:
        return Snapshot(ClusterSnapshot.read(directory))  # it says what is wrong
    known = _read_before.pop(key, None)
    if known is None or not _is_same(known[0], mark):
        known = mark, Snapshot(ClusterSnapshot.read(directory))
    _read_before[key] = known
    while len(_read_before) > READ_MAX:
        _read_before.popitem(last=False)
    return known[1]


def _is_same(one: os.stat_result, other: os.stat_result) -> bool:
    return os.path.samestat(one, other) and one.st_mtime_ns == other.st_mtime_ns
