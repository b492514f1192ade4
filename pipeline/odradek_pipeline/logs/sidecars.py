"""The files beside a segment: sparse indexes, the index of aborted transactions, snapshots of producer state.

Each reader checks what can be checked in the file alone, and against its segment: sizes, order, checksums, positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from odradek_pipeline.logs import files
from odradek_pipeline.logs.layout import FileKind, LogFile, Problem, problem
from odradek_pipeline.logs.log_dirs import read_log_dir

__all__ = ["ABORTED", "PRODUCER", "TIME_INDEX", "Sidecar", "is_sidecar", "read_sidecar", "read_sidecars"]

INDEX = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_INDEX = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
ABORTED = np.dtype(
    [
        ("version", ">i2"),
        ("producer_id", ">i8"),
        ("first_offset", ">i8"),
        ("last_offset", ">i8"),
        ("last_stable_offset", ">i8"),
    ]
)
PRODUCER = np.dtype(
    [
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("last_sequence", ">i4"),
        ("last_offset", ">i8"),
        ("offset_delta", ">i4"),
        ("timestamp", ">i8"),
        ("coordinator_epoch", ">i4"),
        ("current_txn_first_offset", ">i8"),
    ]
)
_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEADER_BYTES = 10  # version, checksum, count
_SNAPSHOT_CHECKSUMMED_AT = 6


@dataclass(slots=True)
class Sidecar:
    """The entries of one file, and what is wrong with it."""

    file: LogFile
    entries: NDArray[np.void]
    problems: list[Problem]


def read_sidecar(file: LogFile) -> Sidecar:
    """Read and check one file."""
    try:
        content = files.read_bytes(file.path)
    except FileNotFoundError as error:
        gone = problem(
            file.path, 0, "vanished", f"{error.strerror}: deleted since the directory was read", severity="info"
        )
        return Sidecar(file, np.zeros(0, INDEX), [gone])
    except OSError as error:
        return Sidecar(file, np.zeros(0, INDEX), [problem(file.path, 0, "unreadable", str(error))])
    return _READERS[file.kind](file, content)


def is_sidecar(file: LogFile) -> bool:
    """Whether it is no segment and no metadata snapshot."""
    return file.kind in _READERS


def read_sidecars(files: Iterable[LogFile]) -> Iterator[Sidecar]:
    """Every file that is no segment and no metadata snapshot, one after the other."""
    return (read_sidecar(file) for file in files if is_sidecar(file))


def _fixed(file: LogFile, content: bytes, entry: np.dtype[np.void]) -> tuple[NDArray[np.void], list[Problem]]:
    rest = len(content) % entry.itemsize
    entries = np.frombuffer(content[: len(content) - rest], entry)
    if rest:
        return entries, [
            problem(file.path, len(content) - rest, "half-written", f"{rest} bytes are no entry of {entry.itemsize}")
        ]
    return entries, []


def _index(file: LogFile, content: bytes) -> Sidecar:
    entries, problems = _fixed(file, content, INDEX)
    used = _used(entries["offset"] != 0, entries["position"] != 0)
    entries = entries[:used]
    for name in ("offset", "position"):
        _check_order(file, entries[name], INDEX.itemsize, name, problems)
    try:
        segment_bytes = files.stat(Path(file.path).with_suffix(".log")).size
    except OSError:
        problems.append(problem(file.path, 0, "no-segment", "an index without its segment"))
    else:
        for at in np.flatnonzero(entries["position"] >= max(segment_bytes, 1))[:1]:
            problems.append(
                problem(
                    file.path,
                    int(at) * INDEX.itemsize,
                    "bad-index",
                    f"position {entries['position'][at]} is behind the end of the segment",
                )
            )
    return Sidecar(file, entries, problems)


def _time_index(file: LogFile, content: bytes) -> Sidecar:
    entries, problems = _fixed(file, content, TIME_INDEX)
    entries = entries[: _used(entries["timestamp"] != 0, entries["offset"] != 0)]
    _check_order(file, entries["timestamp"], TIME_INDEX.itemsize, "timestamp", problems)
    return Sidecar(file, entries, problems)


def _used(*filled: NDArray[np.bool_]) -> int:
    """Indexes of active segments are allocated in advance, and end in zeros."""
    at = np.flatnonzero(np.logical_or.reduce(filled))
    return int(at[-1]) + 1 if len(at) else 0


def _check_order(
    file: LogFile, values: NDArray[np.generic], entry_bytes: int, name: str, problems: list[Problem]
) -> None:
    wide = values.astype(np.int64)
    for at in np.flatnonzero(np.diff(wide) < 0)[:1]:
        detail = f"{name} {wide[at + 1]} follows {wide[at]}"
        problems.append(problem(file.path, (int(at) + 1) * entry_bytes, "bad-index", detail))


def _aborted(file: LogFile, content: bytes) -> Sidecar:
    entries, problems = _fixed(file, content, ABORTED)
    for at in np.flatnonzero(entries["version"] != 0)[:1]:
        problems.append(
            problem(
                file.path,
                int(at) * ABORTED.itemsize,
                "unknown-version",
                f"version {entries['version'][at]} of an aborted transaction",
            )
        )
    _check_order(file, entries["last_offset"], ABORTED.itemsize, "last offset", problems)
    return Sidecar(file, entries, problems)


def _snapshot(file: LogFile, content: bytes) -> Sidecar:
    nothing = np.zeros(0, PRODUCER)
    severity = _severity(file)
    if len(content) < _SNAPSHOT_HEADER_BYTES:
        detail = f"{len(content)} bytes are no snapshot"
        return Sidecar(file, nothing, [problem(file.path, 0, "half-written", detail, severity=severity)])
    version, checksum, count = (
        int.from_bytes(content[:2]),
        int.from_bytes(content[2:6]),
        int.from_bytes(content[6:10], signed=True),
    )
    if version != _SNAPSHOT_VERSION:
        return Sidecar(
            file, nothing, [problem(file.path, 0, "unknown-version", f"version {version} of a producer snapshot")]
        )
    problems = []
    found = crc32c(content[_SNAPSHOT_CHECKSUMMED_AT:])
    if found != checksum:
        detail = f"the snapshot says {checksum:08x}, its bytes {found:08x}"
        problems.append(problem(file.path, 2, "bad-crc", detail, severity=severity))
    rest = content[_SNAPSHOT_HEADER_BYTES:]
    entries, cut = _fixed(file, rest, PRODUCER)
    problems += cut
    if count != len(entries):
        detail = f"{count} producers announced, {len(entries)} there"
        problems.append(problem(file.path, 6, "broken", detail, severity=severity))
    return Sidecar(file, entries, problems)


def _severity(file: LogFile) -> str:
    """A broker that did not stop cleanly may leave snapshots half written; it removes them when it starts."""
    log_dir = read_log_dir(str(Path(file.path).parent.parent))
    return "info" if log_dir.is_of_broker and not log_dir.was_stopped_cleanly else "bad"


_READERS: dict[FileKind, Callable[[LogFile, bytes], Sidecar]] = {
    FileKind.INDEX: _index,
    FileKind.TIME_INDEX: _time_index,
    FileKind.TXN_INDEX: _aborted,
    FileKind.SNAPSHOT: _snapshot,
}
