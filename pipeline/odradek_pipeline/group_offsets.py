"""What groups have committed, held against where the logs end: `__consumer_offsets`, partition by partition.

A group that has read further than a log reaches has read what is gone. Somebody may also have set it so, and offsets
outlive a topic that was made again, so this alone is nothing bad; it says where to look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from odradek.records.state import GROUP_RECORDS, Unknown, decode_record
from odradek.wire.errors import DecodeError
from odradek.wire.messages.offset_commit_key import OffsetCommitKey
from odradek.wire.messages.offset_commit_value import OffsetCommitValue
from odradek_pipeline.layout import FileKind, LogFile, Problem, problem
from odradek_pipeline.log_dirs import PartitionDir
from odradek_pipeline.payload import records_of
from odradek_pipeline.scan import TRANSACTIONAL, Scan, scan_segments

__all__ = ["CONSUMER_OFFSETS", "Committed", "GroupOffsets", "merged", "offsets_behind_end", "read_group_offsets"]

CONSUMER_OFFSETS = "__consumer_offsets"
Partition = tuple[str, int]
_UNREADABLE = (DecodeError, ValueError, IndexError)


@dataclass(frozen=True, slots=True)
class Committed:
    """The offset that a group goes on from, and where that was written."""

    offset: int
    group: str
    path: str
    position: int


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """Of each partition the highest offset that any group has committed last; and what could not be read of it."""

    highest: dict[Partition, Committed]
    problems: list[Problem]


def read_group_offsets(files: Iterable[LogFile]) -> GroupOffsets:
    """The groups' log. Whole partitions of it: what is committed last stands behind what it takes the place of.

    Offsets of transactions are left out: whether they count is in a marker behind them. Damage is told of by the pass
    over all segments.
    """
    latest: dict[tuple[str, str, int], Committed] = {}
    found: list[Problem] = []
    segments = [file for file in files if file.topic == CONSUMER_OFFSETS and file.kind is FileKind.SEGMENT]
    scan = Scan()
    for chunk in scan_segments(segments, scan):
        inside = chunk.columns["position"][(chunk.columns["attributes"] & TRANSACTIONAL) != 0]
        of_transactions = frozenset(inside.tolist())
        path = chunk.file.path
        for position, record in records_of(chunk, scan):
            if position in of_transactions:
                continue
            try:
                key, value = decode_record(GROUP_RECORDS, record.key or b"", record.value)
            except _UNREADABLE:
                continue
            if isinstance(key, Unknown) or isinstance(value, Unknown):
                what = f"a record of kind {key.kind}" if isinstance(key, Unknown) else _version_of(value)
                detail = f"offset {record.offset}: {what}, of a later version of Kafka or of none"
                found.append(problem(path, position, "unknown-version", detail, severity="info"))
            elif isinstance(key, OffsetCommitKey):
                at = key.group, key.topic, key.partition
                if isinstance(value, OffsetCommitValue):
                    latest[at] = Committed(value.offset, key.group, path, position)
                else:
                    latest.pop(at, None)
    return GroupOffsets(_highest(((at[1], at[2]), one) for at, one in latest.items()), found)


def _version_of(value: object) -> str:
    version = value.version if isinstance(value, Unknown) else -1
    return f"version {version} of a group's record"


def merged(parts: Iterable[GroupOffsets]) -> GroupOffsets:
    """Those of several partitions of the groups' log."""
    listed = list(parts)
    highest = _highest(one for part in listed for one in part.highest.items())
    return GroupOffsets(highest, [one for part in listed for one in part.problems])


def _highest(offsets: Iterable[tuple[Partition, Committed]]) -> dict[Partition, Committed]:
    found: dict[Partition, Committed] = {}
    for at, one in offsets:
        if at not in found or found[at].offset < one.offset:
            found[at] = one
    return found


def offsets_behind_end(
    highest: Mapping[Partition, Committed], ends: Mapping[Partition, int], audited: Iterable[PartitionDir]
) -> Iterator[Problem]:
    """Partitions that end before what a group has committed; `ends` are last offsets."""
    for one in audited:
        committed = highest.get(one.key)
        end = max(ends.get(one.key, -1) + 1, one.last_segment)
        if committed is not None and committed.offset > end:
            detail = (
                f"group {committed.group!r} goes on from offset {committed.offset} of {one.name}, which ends at {end}: "
                f"what it has read is gone, or somebody has set it so"
            )
            yield problem(committed.path, committed.position, "offset-behind-end", detail, severity="info")
