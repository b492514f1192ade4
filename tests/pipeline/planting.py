"""Faults planted into a segment file: batches removed, repeated or changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from odradek.records.batch import Batch, batches

__all__ = [
    "add",
    "close",
    "drop",
    "is_data",
    "is_marker",
    "mark_not_bumped",
    "partition_batches",
    "repeat",
    "rewrite",
    "segment",
]


def close(directory: Path) -> None:
    """Let a killed broker have closed its directory; what its checkpoints said before is no matter then."""
    (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    (directory / "replication-offset-checkpoint").unlink(missing_ok=True)


def segment(directory: Path, partition: str) -> Path:
    """The only segment of a partition."""
    (path,) = (directory / partition).glob("*.log")
    return path


def partition_batches(directory: Path, partition: str) -> list[Batch]:
    """Its batches."""
    return list(batches(memoryview(segment(directory, partition).read_bytes())))


def is_marker(batch: Batch) -> bool:
    """Whether it ends a transaction."""
    return batch.is_control


def is_data(batch: Batch) -> bool:
    """Whether a producer wrote it."""
    return not batch.is_control


def _nth(found: list[Batch], wanted: Callable[[Batch], bool], number: int) -> int:
    return [at for at, batch in enumerate(found) if wanted(batch)][number]


def rewrite(directory: Path, partition: str, found: list[bytes]) -> None:
    """Write the segment anew, and its index empty, as if nothing had been indexed yet."""
    path = segment(directory, partition)
    path.write_bytes(b"".join(found))
    path.with_suffix(".index").write_bytes(b"")


def drop(directory: Path, partition: str, wanted: Callable[[Batch], bool], number: int) -> Batch:
    """Remove the batch; it is returned."""
    found = partition_batches(directory, partition)
    gone = found.pop(_nth(found, wanted, number))
    rewrite(directory, partition, [bytes(batch.view) for batch in found])
    return gone


def repeat(directory: Path, partition: str, wanted: Callable[[Batch], bool], number: int) -> Batch:
    """Write the batch twice."""
    found = partition_batches(directory, partition)
    at = _nth(found, wanted, number)
    found.insert(at, found[at])
    rewrite(directory, partition, [bytes(batch.view) for batch in found])
    return found[at]


def add(directory: Path, partition: str, batch: bytes) -> None:
    """Append a batch."""
    with segment(directory, partition).open("ab") as file:
        file.write(batch)


def mark_not_bumped(directory: Path, partition: str) -> None:
    """Give the marker at the end the epoch of the data before it."""
    path = segment(directory, partition)
    content = bytearray(path.read_bytes())
    last = partition_batches(directory, partition)[-1]
    assert is_marker(last)
    at = len(content) - last.size
    content[at + 51 : at + 53] = (last.producer_epoch - 1).to_bytes(2)
    path.write_bytes(content)
