"""What log directories prove, and what they do not.

A directory that its broker has closed is of one moment, and so are those of a cluster whose brokers have all been
stopped: what one of them lacks nobody has written elsewhere since. That is not so where a broker was started again
after the copy of its directory was made, as in a rolling restart: then that copy is older than the others. One of a
running broker is of no single moment: its files were copied, or are read, one after the other, each at its own time.
One log is then right up to where it ends; but what two files say of each other is proven only where the one that lacks
something reaches beyond the time at which it should be there. What is not proven is never `bad`, and no command that
destroys anything is told for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from odradek.records.batch import LOG_APPEND_TIME
from odradek_pipeline.directories.cluster import Cluster
from odradek_pipeline.logs import files
from odradek_pipeline.logs.layout import TRANSACTION_STATE, FileKind, LogFile, Problem
from odradek_pipeline.logs.log_dirs import PartitionDir, read_log_dir
from odradek_pipeline.logs.scan import following_segments, scan_segments
from odradek_pipeline.logs.scanned import Scan

__all__ = [
    "ABORT_MS",
    "CLOCKS_MS",
    "MAX_TIMEOUT_MS",
    "Proof",
    "closed_partitions",
    "is_older_than",
    "while_running",
    "written_until",
]

MAX_TIMEOUT_MS = 900_000
"""The default of transaction.max.timeout.ms, which `kafka-transactions find-hanging` waits for as well."""
CLOCKS_MS = 1_000
"""Coordinators and leaders have clocks of their own."""
_BESIDE = frozenset(FileKind) - {FileKind.SEGMENT}
_HALF = frozenset(("bad-crc", "bad-index", "bad-records", "bad-snapshot", "half-written"))
ABORT_MS = 30_000
"""A coordinator looks for what has timed out every 10 s, and has its markers written."""

Partition = tuple[str, int]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Proof:
    """Which partitions are of the moment at which their broker stopped, and up to when the others tell."""

    closed: frozenset[Partition] = frozenset()
    """Partitions whose audited directory was closed, by brokers that were not started again."""
    written: Mapping[Partition, int] = field(default_factory=dict)
    """The newest time in each partition that a broker gave, ms: of markers, and where brokers give the times."""
    coordinators: frozenset[int] = frozenset()
    """The partitions of the coordinators' log that are there."""

    def reaches(self, key: Partition, time: int) -> bool:
        """Whether a partition was read, or copied, after this time, ms."""
        return key in self.closed or self.written.get(key, -1) > time + CLOCKS_MS

    def coordinator_reaches(self, partition: int, time: int) -> bool:
        """The same of a partition of the coordinators' log; -1 is one that nobody knows."""
        key = (TRANSACTION_STATE, partition)
        if partition >= 0:
            return self.reaches(key, time)
        every = [(TRANSACTION_STATE, one) for one in self.coordinators]
        return all(one in self.closed for one in every) or any(self.written.get(one, -1) > time for one in every)

    def every_coordinator_reaches(self, time: int) -> bool:
        """The same of all partitions of the coordinators' log: what none of them has may be in any."""
        return all(self.reaches((TRANSACTION_STATE, one), time) for one in self.coordinators)

    def until(self) -> dict[int, int]:
        """Up to when those partitions of the coordinators' log tell that were not closed, ms."""
        keys = ((TRANSACTION_STATE, one) for one in self.coordinators)
        return {key[1]: self.written.get(key, 0) for key in keys if key not in self.closed}

    def hangs(self, row: Row, coordinator: int, segments: Iterable[LogFile], longest_ms: int) -> bool:
        """Whether an open transaction of which no coordinator knows is one that nobody will end.

        `coordinator` is the partition of the coordinators' log that it belongs to, -1 if that is not known;
        `segments` are those of its partition, `longest_ms` the longest timeout that any client has asked for. Where the
        directories were not closed, the transaction has to be older than any may get, by times that brokers gave:
        those of producers may be of whatever their records are about.
        """
        key = (row["topic"], row["partition"])
        of_coordinators = self.coordinators if coordinator < 0 else {coordinator}
        if key in self.closed and all((TRANSACTION_STATE, one) in self.closed for one in of_coordinators):
            return True
        limit = max(MAX_TIMEOUT_MS, longest_ms) + ABORT_MS
        if self.written.get(key, -1) <= limit:
            return False
        begun = first_time_behind(row["last_offset"], segments)
        if begun is None or self.written[key] <= begun + limit:
            return False
        return self.coordinator_reaches(coordinator, begun + limit)


def written_until(rows: pd.DataFrame, not_after: int | None) -> dict[Partition, int]:
    """See `Proof.written`; times that are later than the time on the wall are nobody's."""
    given = (
        (rows["marker_type"] >= 0)
        | ((rows["attributes"] & LOG_APPEND_TIME) != 0)
        | (rows["topic"] == TRANSACTION_STATE)
    )
    if not_after is not None:
        given &= rows["max_timestamp"] <= not_after
    found = rows[given].groupby(["topic", "partition"], sort=False)["max_timestamp"].max()
    return {(str(key[0]), int(key[1])): int(time) for key, time in found.items()}


def first_time_behind(offset: int, segments: Iterable[LogFile]) -> int | None:
    """The first time that a broker gave behind an offset, ms."""
    listed = list(segments)
    following = [*(file.base_offset for file in listed[1:]), 1 << 63]
    behind = [file for file, end in zip(listed, following, strict=True) if end > offset]
    for chunk in scan_segments(behind, Scan()):
        columns = chunk.columns
        given = (columns["marker_type"] >= 0) | ((columns["attributes"] & LOG_APPEND_TIME) != 0)
        at = np.flatnonzero(given & (columns["base_offset"] > offset))
        if len(at):
            return int(columns["max_timestamp"][at[0]])
    return None


def closed_partitions(audited: Iterable[PartitionDir], cluster: Cluster | None) -> frozenset[Partition]:
    """The partitions whose directory was closed, and is not older than the others."""
    return frozenset(
        one.key
        for one in audited
        if one.log_dir.was_stopped_cleanly and not (cluster is not None and cluster.has_started_since(one.log_dir))
    )


def is_older_than(data: str | Path, checkpoint: Path) -> bool:
    """Whether a checkpoint was written, or copied, after a segment: then it may know of what came later."""
    try:
        return files.stat(data).mtime_ns < files.stat(checkpoint).mtime_ns
    except OSError:
        return True


def while_running(
    problems: Iterable[Problem], replicas: Iterable[PartitionDir], segments: Iterable[LogFile]
) -> list[Problem]:
    """The same problems; those of files that a running broker was writing are `info`.

    An index or a snapshot may be copied half written, or before or behind its segment, which may have been closed
    meanwhile: that was so at most of what its broker had not noted as written to the disk. And retention may remove a
    segment before its index is copied.
    """
    running = {one.path: one.last_segment for one in replicas if one.log_dir.is_running}
    unflushed = {
        str(Path(path).with_suffix(""))
        for path, (file, following) in following_files(segments).items()
        if read_log_dir(str(Path(path).parent.parent)).is_unflushed(file, following)
    }

    def is_of_now(one: Problem) -> bool:
        path = Path(one.path)
        last = running.get(str(path.parent))
        if last is None or one.severity != "bad" or path.suffix not in _BESIDE or not path.stem.isdigit():
            return False
        is_written = int(path.stem) >= last or str(path.with_suffix("")) in unflushed
        return one.problem == "no-segment" or (one.problem in _HALF and is_written)

    return [replace(one, severity="info") if is_of_now(one) else one for one in problems]


def following_files(segments: Iterable[LogFile]) -> dict[str, tuple[LogFile, int | None]]:
    """By path each segment, and where the one behind it begins."""
    listed = list(segments)
    after = following_segments(listed)
    return {one.path: (one, after[one.path]) for one in listed}
