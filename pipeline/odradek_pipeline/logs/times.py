"""Choosing by time: segments that are older or newer than an audit wants, by their index of times and first batch."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from odradek.cli.usage import UsageError
from odradek_pipeline.logs import files
from odradek_pipeline.logs.headers import DELETE_HORIZON, HEADER, HEADER_BYTES
from odradek_pipeline.logs.layout import CLUSTER_METADATA, TRANSACTION_STATE, FileKind, LogFile, Tree
from odradek_pipeline.logs.sidecars import read_sidecar

__all__ = ["Span", "drop_after", "drop_before", "first_of", "newest_of", "since_ms"]


@dataclass(frozen=True, slots=True)
class Span:
    """What is looked at, in milliseconds; None where it is open."""

    since: int | None = None
    until: int | None = None

    @classmethod
    def of(cls, since: str | None, until: str | None, now_ms: int) -> Span:
        """From what a command was told; one sentence where the end is before the beginning."""
        span = cls(*(since_ms(text, now_ms) if text is not None else None for text in (since, until)))
        if span.since is not None and span.until is not None and span.until <= span.since:
            raise UsageError(f"Nothing lies between {since} and {until}: the second is not later.")
        return span

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self == Span()

    def applied(self, tree: Tree) -> tuple[Tree, Mapping[Partition, int]]:
        """The tree without the rest; and of each partition that was cut at its end, from which time on."""
        if self.since is not None:
            tree = drop_before(tree, self.since)
        return drop_after(tree, self.until) if self.until is not None else (tree, {})


Partition = tuple[str, int]
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
        size = files.stat(path).size
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


def first_of(segment: LogFile) -> int | None:
    """The oldest timestamp of a segment's first batch; None where there is none to be read."""
    try:
        with files.opened(segment.path) as file:
            content = file.read(HEADER_BYTES)
    except OSError:
        return None
    if len(content) < HEADER_BYTES:
        return None
    header = np.frombuffer(content, HEADER)[0]
    if header["magic"] != 2:
        return None
    # The cleaner puts another time where the oldest was (KIP-534).
    return int(header["max_timestamp" if header["attributes"] & DELETE_HORIZON else "base_timestamp"])


def drop_after(tree: Tree, until: int) -> tuple[Tree, Mapping[Partition, int]]:
    """Without the segments at the end of each replica that begin after a time, as if nobody had written them yet.

    With it, of each partition that lost some, when what is left out begins.
    """
    directories: dict[str, list[LogFile]] = {}
    for file in tree.of(FileKind.SEGMENT):
        if file.topic not in _NEEDED:
            directories.setdefault(os.path.dirname(file.path), []).append(file)
    ends: dict[str, int] = {}
    cut: dict[Partition, int] = {}
    for path, segments in directories.items():
        for one in reversed(segments[1:]):
            first = first_of(one)
            if first is None or first <= until:
                break
            ends[path] = one.base_offset
            key = (one.topic, one.partition)
            cut[key] = min(cut.get(key, first), first)
    kept = [file for file in tree.files if file.base_offset < ends.get(os.path.dirname(file.path), 1 << 63)]
    return Tree(kept, tree.problems, tree.cleaned, tree.roots), cut
