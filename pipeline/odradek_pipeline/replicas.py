"""The replicas of one partition side by side: what one has and another lacks, and where they differ.

Followers copy batches byte for byte, so the checksums of two replicas agree wherever both have an offset. Above the
high watermark a follower may have what its leader never kept, and will truncate it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from odradek_pipeline.cluster import Cluster
from odradek_pipeline.layout import FileKind, LogFile, Problem, Tree, problem
from odradek_pipeline.log_dirs import HIGH_WATERMARKS, PartitionDir
from odradek_pipeline.proof import is_older_than
from odradek_pipeline.remembered import SegmentMemory
from odradek_pipeline.scan import Scan, scan_segments

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
    """What each other replica has otherwise than the audited one."""
    if tree.cleaned.get(audited.key):
        return []  # each broker compacts on its own: what is gone differs
    reference = _batches(tree, audited, memory)
    found: list[Problem] = []
    for other in others:
        found += _compare(audited, reference, other, _batches(tree, other, memory))
    return found


def _batches(tree: Tree, replica: PartitionDir, memory: SegmentMemory | None) -> pd.DataFrame:
    files = [file for file in tree.files if file.path.rpartition("/")[0] == replica.path]
    scan = Scan(memory=memory)
    chunks = [{name: chunk.columns[name] for name in _KEPT} for chunk in scan_segments(files, scan)]
    frames = [pd.DataFrame(chunk) for chunk in chunks]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=_KEPT, dtype="int64")


def _compare(audited: PartitionDir, ours: pd.DataFrame, other: PartitionDir, theirs: pd.DataFrame) -> Iterator[Problem]:
    start = max(_first(ours, audited), _first(theirs, other))
    end = min(_end(ours, audited), _end(theirs, other))
    high = max(one.log_dir.high_watermarks.get(one.key, 0) for one in (audited, other))
    here = ours[(ours["last_offset"] >= start) & (ours["base_offset"] < end)]
    there = theirs[(theirs["last_offset"] >= start) & (theirs["base_offset"] < end)]
    both = here.merge(there, how="outer", on="base_offset", suffixes=("", "_there"), indicator=True)
    for side, name, lacks in (("left_only", "replica-lacks", other), ("right_only", "replica-has-more", audited)):
        rows = both[both["_merge"] == side].sort_values("base_offset")
        if len(rows):
            offset = int(rows["base_offset"].iloc[0])
            holds = audited if lacks is other else other
            batches = f"{len(rows):,} {'batch' if len(rows) == 1 else 'batches'}"
            detail = f"{batches} from offset {offset} on, which {holds.path} has"
            severity = "bad" if offset < high else "info"
            yield problem(lacks.path, -1, name, detail, severity=severity, offset=offset)
    other_bytes = both["crc"] != both["crc_there"]
    # A checksum covers all of a batch but this.
    other_leader = both["leader_epoch"] != both["leader_epoch_there"]
    differ = both[(both["_merge"] == "both") & (other_bytes | other_leader)].sort_values("base_offset")
    if len(differ):
        offset = int(differ["base_offset"].iloc[0])
        detail = f"the batch at offset {offset} is another one in {audited.path}" + (
            f", and {len(differ) - 1} more" if len(differ) > 1 else ""
        )
        severity = "bad" if offset < high else "info"
        position = int(differ["position_there"].iloc[0])
        yield problem(other.path, position, "replica-differs", detail, severity=severity, offset=offset)
    behind = _end(theirs, other)
    acknowledged = other.log_dir.high_watermarks.get(other.key, 0)
    if behind < acknowledged:
        detail = f"it ends at offset {behind}; its own high watermark is {acknowledged}"
        last = f"{other.path}/{other.last_segment:020}{FileKind.SEGMENT}"
        is_newer = other.log_dir.is_running and is_older_than(last, Path(other.log_dir.path) / HIGH_WATERMARKS)
        severity = "info" if is_newer else "bad"
        yield problem(other.path, -1, "replica-lost-tail", detail, severity=severity, offset=behind)


def _first(rows: pd.DataFrame, replica: PartitionDir) -> int:
    return max(int(rows["base_offset"].iloc[0]) if len(rows) else 0, replica.first_segment)


def _end(rows: pd.DataFrame, replica: PartitionDir) -> int:
    return max(int(np.max(rows["last_offset"])) + 1 if len(rows) else 0, replica.last_segment)
