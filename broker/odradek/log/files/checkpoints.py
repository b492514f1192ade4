"""Checkpoints: a version, a count, and so many lines (Kafka's `CheckpointFile`, version 0).

The offset checkpoints of a log directory have a line `TOPIC PARTITION OFFSET` for each partition, a partition's
`leader-epoch-checkpoint` a line `EPOCH OFFSET` for each leader epoch. An empty file is one without lines: Kafka creates
them so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from odradek.log.disk import DamagedFile

__all__ = ["read_epochs", "read_offsets", "write_epochs", "write_offsets"]

_VERSION = "0"


def write_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """An offset checkpoint."""
    return _write(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def read_offsets(data: bytes) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition. Raises `DamagedFile`."""
    offsets: dict[tuple[str, int], int] = {}
    for topic, partition, offset in _read(data, 3):
        offsets[topic, _number(partition)] = _number(offset)
    return offsets


def write_epochs(epochs: Sequence[tuple[int, int]]) -> bytes:
    """The leader epochs of a log and the offsets where they begin."""
    return _write(f"{epoch} {start}" for epoch, start in epochs)


def read_epochs(data: bytes) -> list[tuple[int, int]]:
    """Leader epochs and where they begin, in the order of the file. Raises `DamagedFile`."""
    entries = [(_number(epoch), _number(start)) for epoch, start in _read(data, 2)]
    for (epoch, start), (later, behind) in pairwise(entries):
        if epoch >= later or start > behind:
            raise DamagedFile(f"epoch {later} from offset {behind} on follows epoch {epoch} from {start} on")
    return entries


def _write(rows: Iterable[str]) -> bytes:
    lines = list(rows)
    return "".join(f"{line}\n" for line in (_VERSION, str(len(lines)), *lines)).encode()


def _read(data: bytes, width: int) -> list[list[str]]:
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        raise DamagedFile("it is no text") from None
    if not lines:
        return []
    if lines[0] != _VERSION:
        raise DamagedFile(f"it is of version {lines[0]!r}, and version {_VERSION} is known")
    rows = [line.split() for line in lines[2:]]
    announced = lines[1] if len(lines) > 1 else "nothing"
    if announced != str(len(rows)):
        raise DamagedFile(f"it announces {announced} lines and has {len(rows)}")
    wrong = next((row for row in rows if len(row) != width), None)
    if wrong is not None:
        raise DamagedFile(f"a line has {len(wrong)} words in place of {width}")
    return rows


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise DamagedFile(f"{text!r} is no number from 0 on")
    return int(text)
