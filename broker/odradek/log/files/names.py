"""Names of the files and folders in a log directory (Kafka's `LogFileUtils`, `LogManager`, `Snapshots`)."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

__all__ = [
    "BOOTSTRAP",
    "CLEANED_OFFSETS",
    "CLEAN_STOP",
    "DELETED",
    "HIGH_WATERMARKS",
    "LEADER_EPOCHS",
    "LOCK",
    "LOG_STARTS",
    "META",
    "PARTITION_METADATA",
    "QUORUM_STATE",
    "RECOVERY_POINTS",
    "Folder",
    "SegmentFile",
    "SnapshotId",
    "checkpoint_file",
    "folder_aside",
    "read_checkpoint_file",
    "read_folder",
    "read_segment_file",
    "segment_file",
]

META = "meta.properties"
LOCK = ".lock"
CLEAN_STOP = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
QUORUM_STATE = "quorum-state"
BOOTSTRAP = "00000000000000000000-0000000000.checkpoint"
"""The snapshot that a storage directory is formatted with: the records of a new cluster (KIP-1170)."""
DELETED = ".deleted"

KNOWN_NAMES = 4096
"""Names of files whose meaning is kept: the same ones stand in many folders."""
NAME_BYTES_MAX = 255
"""Of a file or a folder, in the usual file systems."""

_FOLDER = re.compile(
    r"(?P<topic>.+)-(?P<partition>0|[1-9]\d*)(?:\.(?P<unique>[0-9a-f]{32})-(?P<state>delete|future|stray))?"
)
_SEGMENT = re.compile(r"(?P<offset>\d{20})(?P<suffix>\.[a-z]+)(?P<state>\.deleted|\.cleaned|\.swap)?")
_CHECKPOINT = re.compile(r"(?P<offset>\d{20})-(?P<epoch>\d{10})\.checkpoint(?P<state>\.deleted|\.part)?")


class Folder(Struct, frozen=True):
    """A partition's folder by its name."""

    topic: str
    partition: int
    state: str = ""
    """`delete` or `stray` for a partition on its way out, `future` for a copy that another folder is to become."""


class SegmentFile(Struct, frozen=True):
    """A file of a partition that belongs to an offset."""

    base_offset: int
    suffix: str
    """`.log`, `.index`, `.timeindex`, `.txnindex` or `.snapshot`."""
    state: str = ""
    """`.deleted`, or `.cleaned` and `.swap` for output of compaction that was not in place yet."""


class SnapshotId(Struct, frozen=True, order=True):
    """A snapshot of the metadata log (KIP-630): the offset behind its last record, and that record's epoch."""

    end_offset: int
    epoch: int


def read_folder(name: str) -> Folder | None:
    """The partition whose folder has this name; None for any other folder."""
    found = _FOLDER.fullmatch(name)
    if found is None:
        return None
    return Folder(found["topic"], int(found["partition"]), found["state"] or "")


def folder_aside(topic: str, partition: int, *, unique: str, state: str) -> str:
    """The name of a partition's folder in this state. A long topic's name is cut, as Kafka cuts it."""
    rest = f"-{partition}.{unique}-{state}"
    return topic[: NAME_BYTES_MAX - len(rest)] + rest


def segment_file(base_offset: int, suffix: str) -> str:
    """Name of the file of this kind that begins at this offset."""
    return f"{base_offset:020d}{suffix}"


@lru_cache(KNOWN_NAMES)
def read_segment_file(name: str) -> SegmentFile | None:
    """The meaning of a file's name; None for one without an offset."""
    found = _SEGMENT.fullmatch(name)
    return None if found is None else SegmentFile(int(found["offset"]), found["suffix"], found["state"] or "")


def checkpoint_file(snapshot: SnapshotId) -> str:
    """Name of a snapshot of the metadata log."""
    return f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"


def read_checkpoint_file(name: str) -> SnapshotId | None:
    """The snapshot that a file of this name holds; None for other files, and for one that is not complete."""
    found = _CHECKPOINT.fullmatch(name)
    if found is None or found["state"] is not None:
        return None
    return SnapshotId(int(found["offset"]), int(found["epoch"]))
