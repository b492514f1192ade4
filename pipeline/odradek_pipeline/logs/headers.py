"""The headers of batches by columns (KIP-98, "Message Format"), and where in a segment they were looked for."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odradek_pipeline.logs import files
from odradek_pipeline.logs.layout import LogFile

__all__ = [
    "COLUMNS",
    "CONTROL",
    "DELETE_HORIZON",
    "HEADER",
    "HEADER_BYTES",
    "LENGTH_BASE",
    "TRANSACTIONAL",
    "ByteRange",
    "Chunk",
    "batch_begins",
    "digest",
    "index_entries",
]

HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("batch_length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
HEADER_BYTES = HEADER.itemsize
LENGTH_BASE = 12
"""The bytes before those that a batch's length counts."""

TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
"""The cleaner has passed, and the base timestamp says when tombstones and markers may go (KIP-534)."""

COLUMNS: dict[str, str] = {
    "position": "i8",
    "size": "i4",
    "base_offset": "i8",
    "last_offset": "i8",
    "leader_epoch": "i4",
    "crc": "u4",
    "attributes": "i2",
    "base_timestamp": "i8",
    "max_timestamp": "i8",
    "producer_id": "i8",
    "producer_epoch": "i2",
    "base_sequence": "i4",
    "last_sequence": "i4",
    "record_count": "i4",
    "marker_type": "i2",
    "coordinator_epoch": "i4",
}
"""The columns of a chunk and their types; `marker_type` is 0 for ABORT, 1 for COMMIT, -1 for everything else."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A part of a segment file that begins at a batch; the unit of work. `end` -1 means up to the end of the file."""

    file: LogFile
    start: int = 0
    end: int = -1
    active: bool = False
    """The last segment of its partition: a broker may be writing to it."""
    unflushed: bool = False
    """It may have been written to when its broker crashed: its checksums are compared."""
    cleaned_upto: int = 1 << 62
    """Below this offset batches may have lost records to compaction."""
    is_last: bool = False
    """The last segment of its partition: what is there now may have more behind it another time."""

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return (self.file.size if self.end < 0 else self.end) - self.start


@dataclass(slots=True)
class Chunk:
    """Headers of consecutive batches of one segment, by columns."""

    file: LogFile
    columns: dict[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(self.columns["position"])


_MIX = tuple(np.uint64(one) for one in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
"""Constants of splitmix64."""


def digest(base_offset: NDArray[Any], crc: NDArray[Any]) -> int:
    """A number that says which batches these are and at which offsets, in whatever order they come: the same batches in
    two parts have the digests of the parts, by exclusive or."""
    mixed = base_offset.astype(np.uint64) * _MIX[0] + crc.astype(np.uint64)
    for shift, factor in ((30, _MIX[1]), (27, _MIX[2])):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * factor
    return int(np.bitwise_xor.reduce(mixed ^ (mixed >> np.uint64(31)))) if len(mixed) else 0


def index_entries(segment_path: str) -> list[tuple[int, int]]:
    """Pairs of relative offset and position from the sparse index beside a segment; empty if there is none."""
    try:
        content = files.read_bytes(Path(segment_path).with_suffix(".index"))
    except OSError:
        return []
    pairs = np.frombuffer(content[: len(content) // 8 * 8], ">i4").reshape(-1, 2)
    positions = pairs[:, 1]
    grows = np.concatenate(([True], np.diff(positions) > 0)) & (positions > 0) if len(pairs) else np.zeros(0, bool)
    return [(int(offset), int(position)) for offset, position in pairs[grows]]


def batch_begins(mapped: mmap.mmap | bytes, position: int, end: int, relative_offset: int | None = None) -> bool:
    """Whether a v2 batch begins here: its length, its magic, and that it holds the offset the index names."""
    if position + HEADER_BYTES > end:
        return False
    header = np.frombuffer(mapped[position : position + HEADER_BYTES], HEADER)[0]
    length, magic = int(header["batch_length"]), int(header["magic"])
    return (
        magic == 2
        and length >= HEADER_BYTES - LENGTH_BASE
        and position + LENGTH_BASE + length <= end
        and int(header["last_offset_delta"]) >= 0
    )
