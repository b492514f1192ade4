"""What brokers have moved to a store (KIP-405), as they note it in `__remote_log_metadata`.

A broker notes a segment when it begins to copy it, when it is there, when somebody begins to delete it, and when it is
gone. It can be read for as long as the second is the last. The store itself is not looked at: whether it has the bytes
is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from pathlib import Path

from odradek.records.state import decode_remote
from odradek.wire.errors import DecodeError
from odradek.wire.messages.remote_log_segment_metadata_record import RemoteLogSegmentMetadataRecord
from odradek.wire.messages.remote_log_segment_metadata_update_record import RemoteLogSegmentMetadataUpdateRecord
from odradek.wire.messages.remote_partition_delete_metadata_record import RemotePartitionDeleteMetadataRecord
from odradek_pipeline.directories.cluster import Cluster
from odradek_pipeline.logs.layout import FileKind, LogFile, Tree
from odradek_pipeline.logs.log_dirs import PartitionDir, read_log_dir
from odradek_pipeline.logs.payload import records_of
from odradek_pipeline.logs.scan import scan_segments
from odradek_pipeline.logs.scanned import Scan

__all__ = ["REMOTE_LOG_METADATA", "Remote", "State", "read_remote"]

REMOTE_LOG_METADATA = "__remote_log_metadata"

Key = tuple[bytes, int]
"""Topic id and partition: a name may be given again."""
Span = tuple[int, int]
"""The first offset, and the one behind the last."""


class State(IntEnum):
    """Kafka's RemoteLogSegmentState."""

    COPY_STARTED = 0
    COPY_FINISHED = 1
    DELETE_STARTED = 2
    DELETE_FINISHED = 3


@dataclass(slots=True)
class _Copied:
    """A segment as it was copied: what it spans in each leader epoch."""

    epochs: tuple[tuple[int, int], ...]
    end: int
    """The offset behind its last one."""
    bytes: int
    state: int


@dataclass(slots=True)
class _Partition:
    """What is noted of one partition, and in which partition of the notes."""

    noted_in: int
    segments: dict[bytes, _Copied] = field(default_factory=dict)
    """By the id of the copy: what failed is copied again under another one."""

    def update(self, segment: bytes, state: int) -> None:
        """A copy has come so far, or is gone."""
        if state == State.DELETE_FINISHED:
            self.segments.pop(segment, None)
        elif segment in self.segments:
            self.segments[segment].state = state


@dataclass(slots=True)
class Remote:
    """The notes, folded."""

    partitions: dict[Key, _Partition] = field(default_factory=dict)
    lacking: dict[int, str] = field(default_factory=dict)
    """Partitions of the notes that do not tell everything, and why."""
    expected: int = 0
    """How many partitions of the notes there are; 0 if that is not known."""
    is_noted: bool = False
    """Whether there are notes at all: a cluster may keep them elsewhere."""

    def of(self, key: Key, noted_in: int) -> _Partition:
        """The notes of a partition, made where there are none yet."""
        return self.partitions.setdefault(key, _Partition(noted_in))

    def totals(self) -> dict[str, int]:
        """How many segments can be read from the store, and their bytes."""
        sizes = [
            copy.bytes
            for partition in self.partitions.values()
            for copy in partition.segments.values()
            if copy.state == State.COPY_FINISHED
        ]
        return {"segments": len(sizes), "bytes": sum(sizes)}

    def knows(self, one: PartitionDir) -> bool:
        """Whether anything of this partition was ever copied, say the notes."""
        return (one.topic_id, one.partition) in self.partitions

    def why_unknown(self, one: PartitionDir) -> str:
        """Why the notes of a partition may not be all that were written; empty where they are."""
        if not self.is_noted:
            return f"what is in the store is not known: there is no {REMOTE_LOG_METADATA}"
        found = self.partitions.get((one.topic_id, one.partition))
        if found is not None:
            return self.lacking.get(found.noted_in, "")
        if self.lacking:
            return next(iter(self.lacking.values()))
        if not self.expected:
            return f"without the metadata log nobody knows whether all of {REMOTE_LOG_METADATA} is here"
        return ""

    def gaps(self, one: PartitionDir, start: int, end: int) -> list[Span]:
        """Offsets between these that no segment in the store has, of the history that the log here is of.

        A leader that was not in sync may have copied batches of an epoch that ended earlier for everybody else: of a
        segment only what lies in its epoch here counts.
        """
        found = self.partitions.get((one.topic_id, one.partition))
        copies = [] if found is None else found.segments.values()
        spans = sorted(
            span for copy in copies if copy.state == State.COPY_FINISHED for span in _within(copy, one.epochs)
        )
        missing: list[Span] = []
        at = start
        for first, behind in spans:
            if at >= end:
                break
            if first > at:
                missing.append((at, min(first, end)))
            at = max(at, behind)
        if at < end:
            missing.append((at, end))
        return missing


def _within(copy: _Copied, epochs: tuple[tuple[int, int], ...]) -> Iterator[Span]:
    """What of a segment is of the epochs of the log here."""
    of_log = {epoch: (start, after) for (epoch, start), (_, after) in pairwise([*epochs, (-1, 1 << 63)])}
    for (epoch, first), (_, behind) in pairwise([*copy.epochs, (-1, copy.end)]):
        start, after = of_log.get(epoch, (0, 0))
        first, behind = max(first, start), min(behind, after)
        if first < behind:
            yield first, behind


def read_remote(tree: Tree, cluster: Cluster | None) -> Remote:
    """Fold the notes; of several replicas of a partition of them the one that reaches furthest."""
    replicas: dict[int, dict[str, list[LogFile]]] = {}
    for file in tree.of(FileKind.SEGMENT, topic=REMOTE_LOG_METADATA):
        replicas.setdefault(file.partition, {}).setdefault(str(Path(file.path).parent), []).append(file)
    remote = Remote(is_noted=bool(replicas))
    remote.expected = (cluster.partitions_of(REMOTE_LOG_METADATA) if cluster is not None else None) or 0
    for number in range(remote.expected):
        if number not in replicas:
            remote.lacking[number] = f"{REMOTE_LOG_METADATA}-{number} is not here"
    for number, of in sorted(replicas.items()):
        directory, segments = max(of.items(), key=lambda item: [(one.base_offset, one.size) for one in item[1]][-1])
        why = _fold(remote, number, segments)
        if not read_log_dir(str(Path(directory).parent)).was_stopped_cleanly:
            why = why or f"the broker of {REMOTE_LOG_METADATA}-{number} was not stopped"
        if why:
            remote.lacking[number] = why
    return remote


def _fold(remote: Remote, number: int, segments: list[LogFile]) -> str:
    """The notes of one partition in their order; why they are not all that were written."""
    scan, unknown = Scan(), 0
    for chunk in scan_segments(segments, scan):
        for _, record in records_of(chunk, scan):
            try:
                message = decode_remote(record.value or b"")
            except (DecodeError, ValueError, IndexError):
                unknown += 1
                continue
            if isinstance(message, RemoteLogSegmentMetadataRecord):
                of = message.remote_log_segment_id
                key = of.topic_id_partition.id, of.topic_id_partition.partition
                remote.of(key, number).segments[of.id] = _copied(message)
            elif isinstance(message, RemoteLogSegmentMetadataUpdateRecord):
                update = message.remote_log_segment_id
                key = update.topic_id_partition.id, update.topic_id_partition.partition
                remote.of(key, number).update(update.id, message.remote_log_segment_state)
            elif isinstance(message, RemotePartitionDeleteMetadataRecord):
                key = message.topic_id_partition.id, message.topic_id_partition.partition
                remote.of(key, number).segments.clear()
            else:
                unknown += 1
    name = f"{REMOTE_LOG_METADATA}-{number}"
    if segments[0].base_offset:
        return f"{name} begins at offset {segments[0].base_offset}"
    if unknown or any(one.severity == "bad" or one.problem == "vanished" for one in scan.problems):
        return f"not all of {name} could be read"
    return ""


def _copied(message: RemoteLogSegmentMetadataRecord) -> _Copied:
    return _Copied(
        tuple(sorted((one.leader_epoch, one.offset) for one in message.segment_leader_epochs)),
        message.end_offset + 1,
        message.segment_size_in_bytes,
        message.remote_log_segment_state,
    )
