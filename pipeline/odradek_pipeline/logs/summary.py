"""What a scan of log directories amounts to: one row a partition, and everything that is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from odradek_pipeline.logs.layout import FileKind, LogFile, Problem, Tree, find_files
from odradek_pipeline.logs.payload import transaction_log
from odradek_pipeline.logs.scan import TRANSACTIONAL, Chunk, scan_segments
from odradek_pipeline.logs.scanned import Scan
from odradek_pipeline.logs.sidecars import read_sidecars
from odradek_pipeline.logs.times import Span

__all__ = ["PartitionSummary", "ScanSummary", "scan_directories"]


@dataclass(slots=True)
class PartitionSummary:
    """One partition in numbers."""

    topic: str
    partition: int
    directory: str
    segments: int = 0
    bytes: int = 0
    batches: int = 0
    records: int = 0
    first_offset: int = -1
    last_offset: int = -1
    producers: int = 0
    transactional_batches: int = 0
    commits: int = 0
    aborts: int = 0
    aborted_in_index: int = 0
    producers_in_snapshot: int = 0

    def add(self, chunk: Chunk) -> None:
        """Count the batches of a chunk."""
        columns = chunk.columns
        self.batches += len(chunk)
        self.records += int(columns["record_count"].sum(dtype=np.int64))
        if self.first_offset < 0:
            self.first_offset = int(columns["base_offset"][0])
        self.last_offset = max(self.last_offset, int(columns["last_offset"].max()))
        self.transactional_batches += int(((columns["attributes"] & TRANSACTIONAL) != 0).sum())
        self.aborts += int((columns["marker_type"] == 0).sum())
        self.commits += int((columns["marker_type"] == 1).sum())


@dataclass(slots=True)
class ScanSummary:
    """Everything that `odradek scan` says."""

    partitions: list[PartitionSummary] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    transactions: dict[str, int] = field(default_factory=dict)
    """Transactional ids by the state of their last record in `__transaction_state`."""
    files: int = 0
    bytes: int = 0
    batches: int = 0
    seconds: float = 0.0
    crc_checked: bool = False

    @property
    def is_bad(self) -> bool:
        """Whether anything cannot be trusted."""
        return any(found.severity == "bad" for found in self.problems)

    def as_json(self) -> dict[str, object]:
        """For `--json`."""
        return asdict(self)


def scan_directories(
    directories: Iterable[str | Path],
    *,
    check_crc: bool = False,
    topics: Iterable[str] = (),
    span: Span | None = None,
    cleaned: Callable[[Tree], Mapping[tuple[str, int], int]] | None = None,
) -> ScanSummary:
    """Read every file of every partition below these directories; with a span only what lies in it.

    `cleaned` tells how far compaction may have gone in each partition; without it the checkpoints beside them do.
    """
    began = time.perf_counter()
    tree, _ = (span or Span()).applied(find_files(directories, topics=topics))
    upto = {} if cleaned is None else cleaned(tree)
    scan = Scan(check_crc=check_crc, problems=list(tree.problems), cleaned=upto)
    rows: dict[str, PartitionSummary] = {}
    producers: dict[str, set[int]] = {}
    for file in tree.of(FileKind.SEGMENT):
        row = rows.setdefault(_directory(file), PartitionSummary(file.topic, file.partition, _directory(file)))
        row.segments += 1
        row.bytes += file.size
    for chunk in scan_segments(tree.files, scan):
        key = _directory(chunk.file)
        rows[key].add(chunk)
        producers.setdefault(key, set()).update(np.unique(chunk.columns["producer_id"]).tolist())
    for key, ids in producers.items():
        rows[key].producers = len(ids - {-1})
    _add_sidecars(tree.files, rows, scan)
    summary = ScanSummary(
        list(rows.values()),
        scan.problems,
        files=len(tree.files),
        bytes=scan.bytes_read,
        batches=scan.batches,
        crc_checked=check_crc,
    )
    summary.transactions = _last_states(tree.files, scan, upto)
    summary.seconds = time.perf_counter() - began
    return summary


def _directory(file: LogFile) -> str:
    """A partition may be there twice, from two brokers."""
    return str(Path(file.path).parent)


def _add_sidecars(files: Iterable[LogFile], rows: dict[str, PartitionSummary], scan: Scan) -> None:
    for sidecar in read_sidecars(files):
        scan.problems += sidecar.problems
        row = rows.get(_directory(sidecar.file))
        if row is not None and sidecar.file.kind is FileKind.TXN_INDEX:
            row.aborted_in_index += len(sidecar.entries)
        if row is not None and sidecar.file.kind is FileKind.SNAPSHOT:
            row.producers_in_snapshot = len(sidecar.entries)


def _last_states(files: Iterable[LogFile], scan: Scan, cleaned: Mapping[tuple[str, int], int]) -> dict[str, int]:
    """Problems inside batches were noted by the first pass, if they are of headers; only new ones are kept."""
    second = Scan(cleaned=cleaned)
    states: dict[str, str] = {}
    for record in transaction_log(files, second):
        states[record.transactional_id] = record.state
    known = set(scan.problems)
    scan.problems += [found for found in second.problems if found not in known]
    counts: dict[str, int] = {}
    for state in states.values():
        if state:
            counts[state] = counts.get(state, 0) + 1
    return counts
