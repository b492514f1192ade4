"""What one task of the source `kafka_log` reads: ranges of segments, as Arrow batches of a table."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from odradek_pipeline.logs import files
from odradek_pipeline.logs.headers import ByteRange, Chunk
from odradek_pipeline.logs.layout import TRANSACTION_STATE, FileKind, LogFile, Problem, find_files
from odradek_pipeline.logs.payload import records_of, transaction_log_range
from odradek_pipeline.logs.remembered import SegmentMemory
from odradek_pipeline.logs.scan import scan_range
from odradek_pipeline.logs.scanned import Scan
from odradek_pipeline.logs.times import Span
from odradek_pipeline.spark.log_tables import (
    OF_COORDINATORS,
    PROBLEM,
    TABLES,
    WITH_PROBLEMS,
    arrow_schema,
    arrow_type,
)
from odradek_pipeline.spark.totals import FAR, Totals

__all__ = ["SourceOptions", "read_ranges"]

RANGE_BYTES = 128 << 20


@dataclass(slots=True)
class SourceOptions:
    """What a reader was asked for."""

    directories: list[str]
    table: str
    columns: list[str]
    topics: list[str]
    check_crc: bool
    range_bytes: int
    state: str = ""
    span: Span = field(default_factory=Span)
    cleaned: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Below which offset of a partition compaction explains gaps, which are then no jumps; in internal topics
    everywhere, where it is known at all."""
    not_after: int = FAR
    """The time on the wall, ms: records of later ones are nobody's clock."""

    @classmethod
    def of(cls, options: Mapping[str, str], table: str, schema: StructType) -> SourceOptions:
        paths = options.get("paths") or options.get("path")
        if not paths:
            raise ValueError("kafka_log needs a log directory: load(DIRECTORY)")
        directories = _listed(paths)
        for directory in directories:
            if not files.is_dir(directory):
                what = "is no directory" if files.exists(directory) else "is not there"
                raise ValueError(f"kafka_log cannot read {directory}: it {what}")
        unknown = [name for name in schema.names if name not in TABLES[table]]
        if unknown:
            raise ValueError(f"kafka_log's table {table} has no column {', '.join(unknown)}")
        topics = [topic for topic in options.get("topics", "").split(",") if topic]
        if table in OF_COORDINATORS:
            topics = [TRANSACTION_STATE]
        return cls(
            directories,
            table,
            list(schema.names),
            topics,
            options.get("checkCrc", "false").lower() == "true",
            int(options.get("rangeBytes", RANGE_BYTES)),
            options.get("state", ""),
            Span(*(int(options[name]) if options.get(name) else None for name in ("since", "until"))),
        )

    def files(self) -> list[LogFile]:
        """The segments that are wanted."""
        tree, _ = self.span.applied(find_files(self.directories, topics=self.topics))
        return tree.of(FileKind.SEGMENT)

    def scan(self) -> Scan:
        """What one range is read with."""
        return Scan(check_crc=self.check_crc, memory=SegmentMemory(self.state) if self.state else None)


def _listed(paths: str) -> list[str]:
    """One path, or several as Spark hands them on; the name of a directory may begin with a bracket too."""
    if paths.startswith("["):
        with contextlib.suppress(ValueError):
            return [str(path) for path in json.loads(paths)]
    return [paths]


Offsets = tuple[int, int]
_ALL: Offsets = (0, 1 << 63)


def read_ranges(
    ranges: Iterable[ByteRange], options: SourceOptions, offsets: Offsets = _ALL
) -> Iterator[pa.RecordBatch]:
    """Arrow batches of the wanted table, of batches that begin within these offsets."""
    low, high = offsets
    for part in ranges:
        scan, totals = options.scan(), Totals()
        if options.table in OF_COORDINATORS:
            records = (record for record in transaction_log_range(part, scan) if low <= record.offset < high)
            yield from _rows((_NO_PROBLEM | record.row() for record in records), options)
        else:
            for chunk in scan_range(part, scan):
                if options.table == "audit" and len(chunk):
                    totals.add(chunk, options.not_after)
                yield from _chunk(_within(chunk, offsets), scan, options)
        if options.table in WITH_PROBLEMS and scan.problems:
            yield _problems(part, scan.problems, options)
        if totals.batches:
            yield _totals(part, totals, options)


_NO_PROBLEM: dict[str, Any] = dict.fromkeys(PROBLEM)


def _within(chunk: Chunk, offsets: Offsets) -> Chunk:
    if offsets == _ALL:
        return chunk
    last, base = chunk.columns["last_offset"], chunk.columns["base_offset"]
    kept = (last >= offsets[0]) & (base < offsets[1])
    return Chunk(chunk.file, {name: column[kept] for name, column in chunk.columns.items()})


def _chunk(chunk: Chunk, scan: Scan, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    if not len(chunk):
        return
    if options.table == "records":
        yield from _rows(_records(chunk, scan), options)
    elif options.table == "audit":
        yield _audit(chunk, options)
    else:
        yield _batch(_columns(chunk, np.ones(len(chunk), bool)), options)


def _columns(chunk: Chunk, kept: np.ndarray[Any, np.dtype[np.bool_]]) -> dict[str, Any]:
    count = int(kept.sum())
    where = {
        "topic": pa.repeat(chunk.file.topic, count),
        "partition": np.full(count, chunk.file.partition, np.int32),
        "path": pa.repeat(chunk.file.path, count),
        "segment": np.full(count, chunk.file.base_offset, np.int64),
    }
    return where | {name: column[kept] for name, column in chunk.columns.items()}


def _audit(chunk: Chunk, options: SourceOptions) -> pa.RecordBatch:
    """Batches of producers, and those where offsets jump or that stand at an edge."""
    columns = chunk.columns
    previous = np.full(len(chunk), -1, np.int64)
    previous[1:] = columns["last_offset"][:-1]
    jump = columns["base_offset"] != previous + 1
    upto = options.cleaned.get((chunk.file.topic, chunk.file.partition), 0)
    if upto > 0 and chunk.file.topic.startswith("__"):
        upto = FAR
    jump &= (columns["base_offset"] <= previous) | (columns["base_offset"] > upto)
    jump[0] = True
    last = np.zeros(len(chunk), bool)
    last[-1] = True
    kept = jump | last | (columns["producer_id"] >= 0)
    none = pa.nulls(int(kept.sum()), pa.string())
    extra = {
        "previous_offset": previous[kept],
        "jump": jump[kept],
        "last": last[kept],
        "totals": none,
        "problem": none,
        "problem_severity": none,
        "problem_detail": none,
    }
    return _batch(_columns(chunk, kept) | extra, options)


def _problems(part: ByteRange, problems: list[Problem], options: SourceOptions) -> pa.RecordBatch:
    count = len(problems)
    columns: dict[str, Any] = {name: pa.nulls(count, arrow_type(kind)) for name, kind in TABLES[options.table].items()}
    columns |= {
        "path": [found.path for found in problems],
        "position": [found.position for found in problems],
        "problem": [found.problem for found in problems],
        "problem_severity": [found.severity for found in problems],
        "problem_detail": [found.detail for found in problems],
    }
    return _batch(columns, options)


def _totals(part: ByteRange, totals: Totals, options: SourceOptions) -> pa.RecordBatch:
    columns: dict[str, Any] = {name: pa.nulls(1, arrow_type(kind)) for name, kind in TABLES[options.table].items()}
    columns |= {"topic": [part.file.topic], "partition": [part.file.partition], "totals": [totals.text()]}
    return _batch(columns, options)


def _records(chunk: Chunk, scan: Scan) -> Iterator[dict[str, Any]]:
    columns = chunk.columns
    of = {position: at for at, position in enumerate(columns["position"].tolist())}
    for position, record in records_of(chunk, scan):
        at = of[position]
        yield {
            "topic": chunk.file.topic,
            "partition": chunk.file.partition,
            "path": chunk.file.path,
            "segment": chunk.file.base_offset,
            "position": position,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "producer_id": int(columns["producer_id"][at]),
            "producer_epoch": int(columns["producer_epoch"][at]),
            "transactional": bool(columns["attributes"][at] & 0x10),
            "key": record.key,
            "value": record.value,
            "headers": [{"key": _text(name), "value": value} for name, value in record.headers],
        }


def _text(name: str) -> str:
    """A header's name; bytes of it that are no UTF-8 as U+FFFD, since a column of strings has no other way."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _rows(rows: Iterable[dict[str, Any]], options: SourceOptions) -> Iterator[pa.RecordBatch]:
    waiting: list[dict[str, Any]] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) >= 10_000:
            yield _batch({name: [one[name] for one in waiting] for name in waiting[0]}, options)
            waiting = []
    if waiting:
        yield _batch({name: [one[name] for one in waiting] for name in waiting[0]}, options)


def _batch(columns: Mapping[str, Any], options: SourceOptions) -> pa.RecordBatch:
    kinds = TABLES[options.table]
    arrays = [
        pa.array(columns[name], type=arrow_type(kinds[name]))
        if not isinstance(columns[name], pa.Array)
        else columns[name]
        for name in options.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema({name: kinds[name] for name in options.columns}))
