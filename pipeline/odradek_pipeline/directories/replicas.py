"""The replicas of one partition side by side: what one has and another lacks, and where they differ.

Followers copy batches byte for byte, so the checksums of two replicas agree wherever both have an offset. Above the
high watermark a follower may have what its leader never kept, and will truncate it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from odradek_pipeline.directories.cluster import Cluster
from odradek_pipeline.directories.proof import is_older_than
from odradek_pipeline.logs.layout import FileKind, LogFile, Problem, Tree, problem
from odradek_pipeline.logs.log_dirs import HIGH_WATERMARKS, PartitionDir
from odradek_pipeline.logs.remembered import SegmentMemory
from odradek_pipeline.logs.scan import scan_segments
from odradek_pipeline.logs.scanned import Scan

__all__ = ["choose_replicas", "compare_replicas"]

Partition = tuple[str, int]
_KEPT = ["base_offset", "last_offset", "crc", "leader_epoch", "position"]


def choose_replicas(replicas: Sequence[PartitionDir], files: Iterable[LogFile], cluster: Cluster | None) -> list[str]:
    """Of each partition the directory that is audited.

    It is one of those that know the newest leader epoch, as the leader does, and of these the one that reaches
    furthest; where a leader has lost its tail, its own high watermark says so. Directories of which no segment is among
    `files` are left out: those of other topics than the audit was asked for.
    """
    sizes: dict[str, tuple[int, int]] = {}
    for file in files:
        if file.kind is FileKind.SEGMENT:
            path = file.path.rpartition("/")[0]
            sizes[path] = max(sizes.get(path, (-1, -1)), (file.base_offset, file.size))
    by_key: dict[Partition, list[PartitionDir]] = {}
    for one in replicas:
        if one.path in sizes:
            by_key.setdefault(one.key, []).append(one)
    chosen: list[str] = []
    for key, of in by_key.items():
        image = None if cluster is None else cluster.image.partition(*key)
        current = [one for one in of if image is None or one.log_dir.node_id in image.replicas] or of
        epoch = max((one.epochs[-1][0] if one.epochs else -1) for one in current)
        newest = [one for one in current if (one.epochs[-1][0] if one.epochs else -1) == epoch]
        chosen.append(max(sorted(newest, key=lambda one: one.path), key=lambda one: sizes[one.path]).path)
    return chosen


def compare_replicas(
    tree: Tree, audited: PartitionDir, others: Sequence[PartitionDir], memory: SegmentMemory | None = None
) -> list[Problem]:
    """What each other replica has otherwise than the audited one; both are read side by side."""
    if tree.cleaned.get(audited.key):
        return []  # each broker compacts on its own: what is gone differs
    found: list[Problem] = []
    for other in others:
        found += _compare(audited, _Batches(tree, audited, memory), other, _Batches(tree, other, memory))
    return found


class _Batches:
    """The batches of a replica in the order of their offsets, as they are read."""

    def __init__(self, tree: Tree, replica: PartitionDir, memory: SegmentMemory | None) -> None:
        files = [file for file in tree.files if file.path.rpartition("/")[0] == replica.path]
        self.chunks = scan_segments(files, Scan(memory=memory))
        self.rows = pd.DataFrame({name: np.zeros(0, np.int64) for name in _KEPT})
        self.first = -1
        self.last = -1
        """The highest offset so far."""
        self.is_whole = False

    def more(self) -> None:
        """Read on."""
        chunk = next(self.chunks, None)
        if chunk is None:
            self.is_whole = True
            return
        frame = pd.DataFrame({name: chunk.columns[name] for name in _KEPT})
        self.first = self.first if self.first >= 0 else int(frame["base_offset"].iloc[0])
        self.last = max(self.last, int(frame["last_offset"].max()))
        self.rows = frame if self.rows.empty else pd.concat([self.rows, frame], ignore_index=True)

    def taken(self, upto: int) -> pd.DataFrame:
        """The rows that begin below an offset; they are not held any more."""
        below = self.rows["base_offset"] < upto
        taken, self.rows = self.rows[below], self.rows[~below]
        return taken

    @property
    def known_upto(self) -> int:
        """Below which offset all of its batches are in `rows`, or were taken."""
        return _END if self.is_whole else self.last + 1


_END = 1 << 62


@dataclass(slots=True)
class _Finding:
    """Batches of one kind: the first, and how many."""

    offset: int = -1
    position: int = -1
    count: int = 0

    def add(self, rows: pd.DataFrame, position: str) -> None:
        if len(rows) and not self.count:
            self.offset, self.position = int(rows["base_offset"].iloc[0]), int(rows[position].iloc[0])
        self.count += len(rows)


def _compare(audited: PartitionDir, ours: _Batches, other: PartitionDir, theirs: _Batches) -> Iterator[Problem]:
    for one in (ours, theirs):
        one.more()
    start = max(_first(ours, audited), _first(theirs, other))
    lacks, more, differs = _Finding(), _Finding(), _Finding()
    held: list[pd.DataFrame] = []
    while not (ours.is_whole and theirs.is_whole and ours.rows.empty and theirs.rows.empty):
        upto = min(ours.known_upto, theirs.known_upto)
        here, there = (one.taken(upto) for one in (ours, theirs))
        both = here.merge(there, how="outer", on="base_offset", suffixes=("", "_there"), indicator=True)
        both = both.sort_values("base_offset", kind="stable")
        last = both["last_offset"].fillna(both["last_offset_there"])
        both = both[last >= start]
        paired = both[both["_merge"] == "both"]
        # A checksum covers all of a batch but its leader epoch.
        other_bytes = paired["crc"] != paired["crc_there"]
        other_leader = paired["leader_epoch"] != paired["leader_epoch_there"]
        differs.add(paired[other_bytes | other_leader], "position_there")
        alone = both[both["_merge"] != "both"]
        if len(alone):
            held.append(alone)
        # What only one has at its end may be what the other does not reach.
        behind = min(ours.last, theirs.last)
        for rows in held:
            _sort_out(rows[rows["base_offset"] <= behind], lacks, more)
        held = [rest for rows in held if len(rest := rows[rows["base_offset"] > behind])]
        for one in sorted((ours, theirs), key=lambda one: one.known_upto):
            if not one.is_whole:
                one.more()
                break
    end = min(_end(ours, audited), _end(theirs, other))
    for rows in held:
        _sort_out(rows[rows["base_offset"] < end], lacks, more)
    yield from _told(audited, other, (lacks, more, differs))
    behind = _end(theirs, other)
    acknowledged = other.log_dir.high_watermarks.get(other.key, 0)
    if behind < acknowledged:
        detail = f"it ends at offset {behind}; its own high watermark is {acknowledged}"
        last_segment = f"{other.path}/{other.last_segment:020}{FileKind.SEGMENT}"
        is_newer = other.log_dir.is_running and is_older_than(last_segment, Path(other.log_dir.path) / HIGH_WATERMARKS)
        severity = "info" if is_newer else "bad"
        yield problem(other.path, -1, "replica-lost-tail", detail, severity=severity, offset=behind)


def _sort_out(rows: pd.DataFrame, lacks: _Finding, more: _Finding) -> None:
    lacks.add(rows[rows["_merge"] == "left_only"], "position")
    more.add(rows[rows["_merge"] == "right_only"], "position_there")


def _told(audited: PartitionDir, other: PartitionDir, found: tuple[_Finding, _Finding, _Finding]) -> Iterator[Problem]:
    high = max(one.log_dir.high_watermarks.get(one.key, 0) for one in (audited, other))
    lacks, more, differs = found
    for one, name, lacking, holds in (
        (lacks, "replica-lacks", other, audited),
        (more, "replica-has-more", audited, other),
    ):
        if one.count:
            batches = f"{one.count:,} {'batch' if one.count == 1 else 'batches'}"
            detail = f"{batches} from offset {one.offset} on, which {holds.path} has"
            severity = "bad" if one.offset < high else "info"
            yield problem(lacking.path, -1, name, detail, severity=severity, offset=one.offset)
    if differs.count:
        detail = f"the batch at offset {differs.offset} is another one in {audited.path}"
        detail += f", and {differs.count - 1} more" if differs.count > 1 else ""
        severity = "bad" if differs.offset < high else "info"
        yield problem(other.path, differs.position, "replica-differs", detail, severity=severity, offset=differs.offset)


def _first(batches: _Batches, replica: PartitionDir) -> int:
    return max(batches.first, replica.first_segment, 0)


def _end(batches: _Batches, replica: PartitionDir) -> int:
    return max(batches.last + 1, replica.last_segment)
