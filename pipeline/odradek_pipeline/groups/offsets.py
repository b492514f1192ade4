"""What groups have committed and acknowledged, held against where the logs end, partition by partition of their logs.

A group that has read further than a log reaches has read what is gone. Somebody may also have set it so, and offsets
outlive a topic that was made again, so this alone is nothing bad; it says where to look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from odradek.records.record import Record
from odradek.records.state import GROUP_RECORDS, SHARE_RECORDS, Unknown, decode_record
from odradek.wire.errors import DecodeError
from odradek.wire.messages.offset_commit_key import OffsetCommitKey
from odradek.wire.messages.offset_commit_value import OffsetCommitValue
from odradek_pipeline.groups.records import GroupLog, ShareLog
from odradek_pipeline.logs.layout import FileKind, LogFile, Problem, problem
from odradek_pipeline.logs.log_dirs import PartitionDir, read_log_dir
from odradek_pipeline.logs.payload import records_of
from odradek_pipeline.logs.scan import TRANSACTIONAL, scan_segments
from odradek_pipeline.logs.scanned import Scan

__all__ = [
    "CONSUMER_OFFSETS",
    "LOGS_OF_GROUPS",
    "Committed",
    "GroupOffsets",
    "merged",
    "offsets_behind_end",
    "read_group_offsets",
]

CONSUMER_OFFSETS, SHARE_GROUP_STATE = "__consumer_offsets", "__share_group_state"
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
    """Of each partition the highest offset that any group has committed last; and what is wrong with the logs."""

    highest: dict[Partition, Committed]
    problems: list[Problem]
    shared: dict[tuple[bytes, int], Committed] = field(default_factory=dict)
    """By topic id and partition how far share groups have acknowledged, at most."""


def read_group_offsets(files: Iterable[LogFile], cleaned: Mapping[Partition, int] | None = None) -> GroupOffsets:
    """The groups' logs. Whole partitions of them: what is committed last stands behind what it takes the place of.

    They are `cleaned` up to there, or up to where their checkpoints say. Offsets of transactions are left out: whether
    they count is in a marker behind them. Damage is told of by the pass over all segments.
    """
    by_partition: dict[Partition, list[LogFile]] = {}
    for file in files:
        if file.topic in LOGS_OF_GROUPS and file.kind is FileKind.SEGMENT:
            by_partition.setdefault((file.topic, file.partition), []).append(file)
    return merged([_READERS[key[0]](segments, _is_whole(segments, cleaned)) for key, segments in by_partition.items()])


def _read_groups(segments: list[LogFile], is_whole: bool) -> GroupOffsets:
    latest: dict[tuple[str, str, int], Committed] = {}
    log, told = GroupLog(is_whole), _Once()
    for path, position, record, key, value in _decoded(segments, GROUP_RECORDS, told):
        if isinstance(key, OffsetCommitKey):
            at = key.group, key.topic, key.partition
            if isinstance(value, OffsetCommitValue):
                latest[at] = Committed(value.offset, key.group, path, position)
            else:
                latest.pop(at, None)
            continue
        for name, detail in log.add(key, value):
            told.note(path, position, name, f"offset {record.offset}: {detail}")
    return GroupOffsets(_highest(((at[1], at[2]), one) for at, one in latest.items()), told.problems)


def _read_shares(segments: list[LogFile], is_whole: bool) -> GroupOffsets:
    log, told = ShareLog(is_whole), _Once()
    places: dict[tuple[bytes, int], Committed] = {}
    for path, position, record, key, value in _decoded(segments, SHARE_RECORDS, told):
        for name, detail in log.add(key, value):
            told.note(path, position, name, f"offset {record.offset}: {detail}")
        for at, (end, group) in log.ends.items():
            if at not in places or places[at].offset < end:
                places[at] = Committed(end, group, path, position)
        log.ends.clear()
    return GroupOffsets({}, told.problems, places)


_READERS = {CONSUMER_OFFSETS: _read_groups, SHARE_GROUP_STATE: _read_shares}
LOGS_OF_GROUPS = frozenset(_READERS)


@dataclass(slots=True)
class _Once:
    """Problems; of each kind in a log the first that is bad, since what is wrong once is often wrong again."""

    problems: list[Problem] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def note(self, path: str, position: int, name: str, detail: str, *, severity: str = "bad") -> None:
        if severity != "bad" or name not in self.names:
            self.problems.append(problem(path, position, name, detail, severity=severity))
        self.names.add(name)


def _is_whole(segments: list[LogFile], cleaned: Mapping[Partition, int] | None) -> bool:
    """Whether nothing was removed of a log, neither by retention nor by compaction."""
    first = segments[0]
    log_dir = read_log_dir(str(Path(first.path).parent.parent))
    return first.base_offset == 0 and not log_dir.cleaned_upto((first.topic, first.partition), cleaned)


def _decoded(
    segments: list[LogFile], kinds: Mapping[int, str], told: _Once
) -> Iterator[tuple[str, int, Record, Any, Any]]:
    """The records that do not belong to a transaction: path and position of the batch, the record, key and value."""
    scan = Scan()
    for chunk in scan_segments(segments, scan):
        inside = chunk.columns["position"][(chunk.columns["attributes"] & TRANSACTIONAL) != 0]
        of_transactions = frozenset(inside.tolist())
        path = chunk.file.path
        for position, record in records_of(chunk, scan):
            if position in of_transactions:
                continue
            try:
                key, value = decode_record(dict(kinds), record.key or b"", record.value)
            except _UNREADABLE:
                continue
            if isinstance(key, Unknown) or isinstance(value, Unknown):
                what = f"a record of kind {key.kind}" if isinstance(key, Unknown) else _version_of(value)
                detail = f"offset {record.offset}: {what}, of a later version of Kafka or of none"
                told.note(path, position, "unknown-version", detail, severity="info")
                continue
            yield path, position, record, key, value


def _version_of(value: object) -> str:
    version = value.version if isinstance(value, Unknown) else -1
    return f"version {version} of a group's record"


def merged(parts: Iterable[GroupOffsets]) -> GroupOffsets:
    """Those of several partitions of the groups' log."""
    listed = list(parts)
    highest = _highest(one for part in listed for one in part.highest.items())
    shared: dict[tuple[bytes, int], Committed] = {}
    for part in listed:
        for at, one in part.shared.items():
            if at not in shared or shared[at].offset < one.offset:
                shared[at] = one
    return GroupOffsets(highest, [one for part in listed for one in part.problems], shared)


def _highest(offsets: Iterable[tuple[Partition, Committed]]) -> dict[Partition, Committed]:
    found: dict[Partition, Committed] = {}
    for at, one in offsets:
        if at not in found or found[at].offset < one.offset:
            found[at] = one
    return found


def offsets_behind_end(
    groups: GroupOffsets, ends: Mapping[Partition, int], audited: Iterable[PartitionDir]
) -> Iterator[Problem]:
    """Partitions that end before what a group has committed, or acknowledged; `ends` are last offsets."""
    for one in audited:
        found = (groups.highest.get(one.key), groups.shared.get((one.topic_id, one.partition)))
        committed = max((each for each in found if each is not None), key=lambda each: each.offset, default=None)
        end = max(ends.get(one.key, -1) + 1, one.last_segment)
        if committed is not None and committed.offset > end:
            detail = (
                f"group {committed.group!r} goes on from offset {committed.offset} of {one.name}, which ends at {end}: "
                f"what it has read is gone, or somebody has set it so"
            )
            yield problem(committed.path, committed.position, "offset-behind-end", detail, severity="info")
