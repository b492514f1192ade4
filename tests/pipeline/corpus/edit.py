"""Editing log directories of a real broker: segments as lists of batches, the files beside them as lines or entries."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from crc32c import crc32c

from odradek.records.batch import Batch, batches
from odradek_pipeline.logs.sidecars import ABORTED, INDEX, PRODUCER, TIME_INDEX

__all__ = ["Log", "is_abort", "is_commit", "is_data", "is_marker", "reseal"]

EPOCH_AT, MAGIC_AT, CRC_AT, COVERED_AT, ATTRIBUTES_AT, DELTA_AT = 12, 16, 17, 21, 21, 23
PRODUCER_AT, PRODUCER_EPOCH_AT, SEQUENCE_AT, COUNT_AT, MARKER_TYPE_AT = 43, 51, 53, 57, 69
COORDINATOR_EPOCH_AT, MAX_TIMESTAMP_AT, LENGTH_AT = 73, 35, 8
DTYPES = {".index": INDEX, ".timeindex": TIME_INDEX, ".txnindex": ABORTED}
SNAPSHOT_HEADER = 10
Wanted = Callable[[Batch], bool]


def is_data(batch: Batch) -> bool:
    """Whether a producer wrote it."""
    return not batch.is_control


def is_marker(batch: Batch) -> bool:
    """Whether it ends a transaction."""
    return batch.is_control


def is_commit(batch: Batch) -> bool:
    """Whether it is a commit marker."""
    return batch.is_control and bytes(batch.view)[MARKER_TYPE_AT] == 1


def is_abort(batch: Batch) -> bool:
    """Whether it is an abort marker."""
    return batch.is_control and bytes(batch.view)[MARKER_TYPE_AT] == 0


def reseal(batch: bytearray) -> bytearray:
    """With the checksum that its bytes have now: who damaged it knew what he did."""
    batch[CRC_AT : CRC_AT + 4] = crc32c(bytes(batch[COVERED_AT:])).to_bytes(4)
    return batch


class Log:
    """One replica of a partition."""

    def __init__(self, root: Path, partition: str, broker: int = 1) -> None:
        self.root = root / f"broker-{broker}"
        self.path = self.root / partition
        self.name = partition

    @property
    def segments(self) -> list[Path]:
        """Its segment files."""
        return sorted(self.path.glob("*.log"))

    def segment_of(self, number: int = -1) -> Path:
        """One of those with batches."""
        return [path for path in self.segments if path.stat().st_size][number]

    def read(self, path: Path | None = None) -> list[bytearray]:
        """The batches of one segment."""
        content = (path or self.segment_of()).read_bytes()
        return [bytearray(batch.view) for batch in batches(memoryview(content))]

    def write(self, found: list[bytearray], path: Path | None = None) -> None:
        """Write it anew, with an empty index."""
        path = path or self.segment_of()
        path.write_bytes(b"".join(found))
        path.with_suffix(".index").write_bytes(b"")

    def places(self, wanted: Wanted, path: Path | None = None) -> list[int]:
        """Which batches are wanted."""
        content = (path or self.segment_of()).read_bytes()
        return [at for at, batch in enumerate(batches(memoryview(content))) if wanted(batch)]

    def drop(self, wanted: Wanted, number: int, count: int = 1, path: Path | None = None) -> None:
        """Remove batches."""
        found = self.read(path)
        at = self.places(wanted, path)[number]
        del found[at : at + count]
        self.write(found, path)

    def change(
        self, wanted: Wanted, number: int, at: int, value: bytes, path: Path | None = None, *, seal: bool = True
    ) -> None:
        """Change bytes of one batch."""
        found = self.read(path)
        batch = found[self.places(wanted, path)[number]]
        batch[at : at + len(value)] = value
        if seal:
            reseal(batch)
        self.write(found, path)

    def append(self, *added: bytes | bytearray) -> None:
        """Append batches, with the offsets that are due."""
        found = self.read()
        for one in added:
            last = found[-1]
            end = int.from_bytes(last[:8]) + int.from_bytes(last[DELTA_AT : DELTA_AT + 4]) + 1
            batch = bytearray(one)
            batch[:8] = end.to_bytes(8)
            batch[EPOCH_AT : EPOCH_AT + 4] = last[EPOCH_AT : EPOCH_AT + 4]
            found.append(batch)
        self.write(found)
        self.acknowledge()

    def acknowledge(self) -> None:
        """Checkpoints that know of what was appended."""
        found = self.read()
        last = found[-1]
        end = int.from_bytes(last[:8]) + int.from_bytes(last[DELTA_AT : DELTA_AT + 4]) + 1
        for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
            if self.checkpointed(name) is not None:
                self.checkpoint(name, end)

    def checkpointed(self, name: str) -> int | None:
        """What a checkpoint of the broker says of this partition."""
        path = self.root / name
        for line in path.read_text().splitlines()[2:] if path.exists() else ():
            topic, partition, offset = line.split(" ")
            if f"{topic}-{partition}" == self.name:
                return int(offset)
        return None

    def checkpoint(self, name: str, offset: int) -> None:
        """Let a checkpoint of the broker say something else, or something."""
        path = self.root / name
        topic, _, partition = self.name.rpartition("-")
        lines = path.read_text().splitlines()[2:] if path.exists() else []
        kept = [line for line in lines if not line.startswith(f"{topic} {partition} ")]
        kept.append(f"{topic} {partition} {offset}")
        path.write_text("\n".join(["0", str(len(kept)), *kept]) + "\n")

    def epochs(self, *entries: tuple[int, int]) -> None:
        """Another leader-epoch checkpoint."""
        lines = [f"{epoch} {start}" for epoch, start in entries]
        (self.path / "leader-epoch-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")

    def entries(self, suffix: str, *, largest: bool = True) -> tuple[Path, np.ndarray]:
        """The fullest file of a kind beside the segments, and its entries."""
        paths = sorted(self.path.glob(f"*{suffix}"), key=lambda path: path.stat().st_size)
        path = paths[-1 if largest else 0]
        content = path.read_bytes()
        if suffix == ".snapshot":
            return path, np.frombuffer(content[SNAPSHOT_HEADER:], PRODUCER).copy()
        return path, np.frombuffer(content, DTYPES[suffix]).copy()

    def snapshot(self, path: Path, entries: np.ndarray) -> None:
        """Write a snapshot that is sound in itself."""
        rest = len(entries).to_bytes(4) + entries.tobytes()
        path.write_bytes((1).to_bytes(2) + crc32c(rest).to_bytes(4) + rest)

    def remove(self, path: Path) -> None:
        """A segment with all that belongs to it."""
        for one in self.path.glob(f"{path.stem}.*"):
            if one.suffix != ".snapshot":
                one.unlink()

    def remove_all(self) -> None:
        """The whole directory."""
        shutil.rmtree(self.path)

    def unseal(self) -> None:
        """As if the broker had crashed."""
        (self.root / ".kafka_cleanshutdown").unlink(missing_ok=True)
