"""Choosing by time: segments that are older than an audit wants to look at, told by their index of times."""

from __future__ import annotations

import datetime
import os
import re
from pathlib import Path

from odradek.usage import UsageError
from odradek_pipeline.layout import CLUSTER_METADATA, TRANSACTION_STATE, FileKind, LogFile, Tree
from odradek_pipeline.sidecars import read_sidecar

__all__ = ["drop_before", "newest_of", "since_ms"]

_NEEDED = frozenset((TRANSACTION_STATE, CLUSTER_METADATA))
"""Without their beginnings nothing could be said of the others."""
_AGO = re.compile(r"(\d+)([mhd])")
_UNIT_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}


def since_ms(text: str, now_ms: int) -> int:
    """A time in milliseconds: `90m`, `24h` or `7d` ago, or what ISO 8601 has, in UTC if it says none."""
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return now_ms - int(ago[1]) * _UNIT_MS[ago[2]]
    try:
        when = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"{text} is no time: it is 24h, 7d, 2026-11-22 or 2026-11-22T06:00.") from None
    return int((when if when.tzinfo is not None else when.replace(tzinfo=datetime.UTC)).timestamp() * 1000)


def newest_of(segment: LogFile) -> int | None:
    """The newest timestamp of a closed segment, by the last entry of its index of times; None where that cannot tell.

    Entries have the newest timestamp so far, and a segment gets one for its last batch when it is closed.
    """
    path = Path(segment.path).with_suffix(FileKind.TIME_INDEX)
    try:
        size = path.stat().st_size
    except OSError:
        return None
    found = read_sidecar(
        LogFile(str(path), FileKind.TIME_INDEX, segment.topic, segment.partition, segment.base_offset, size)
    )
    return None if found.problems or not len(found.entries) else int(found.entries["timestamp"][-1])


def drop_before(tree: Tree, since: int) -> Tree:
    """Without the segments at the beginning of each replica that end before a time, as if by retention."""
    directories: dict[str, list[LogFile]] = {}
    for file in tree.of(FileKind.SEGMENT):
        directories.setdefault(os.path.dirname(file.path), []).append(file)
    starts = {path: _start(segments, since) for path, segments in directories.items()}
    kept = [
        file
        for file in tree.files
        if file.topic in _NEEDED or file.base_offset >= starts.get(os.path.dirname(file.path), 0)
    ]
    return Tree(kept, tree.problems, tree.cleaned, tree.roots)


def _start(segments: list[LogFile], since: int) -> int:
    """Where the first segment begins that may hold something as new; the last one always may."""
    for one in segments[:-1]:
        newest = newest_of(one)
        if newest is None or newest >= since:
            return one.base_offset
    return segments[-1].base_offset
