"""Spark's DataSource `kafka_log` over the scanner: `spark.read.format("kafka_log").load(directories)`.

Options: `table` (batches, records, txnlog; or audit and states: the rows that an audit needs of batches and of the
coordinators' log, problems among them), `topics` (separated by commas), `checkCrc`, `rangeBytes`, and `pushdown` (true
needs spark.sql.python.filterPushdown.enabled: Spark refuses a reader that could take filters while it is off). As a
stream it tails the directories: whole batches only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from odradek_pipeline.layout import TRANSACTION_STATE, FileKind, LogFile, Problem, find_files
from odradek_pipeline.payload import records_of, transaction_log_range
from odradek_pipeline.scan import COLUMNS, ByteRange, Chunk, Scan, plan_ranges, scan_range

__all__ = ["TABLES", "KafkaLogSource"]

_TYPES: dict[str, tuple[DataType, pa.DataType]] = {
    "i8": (LongType(), pa.int64()),
    "u4": (LongType(), pa.int64()),
    "i4": (IntegerType(), pa.int32()),
    "i2": (ShortType(), pa.int16()),
    "?": (BooleanType(), pa.bool_()),
    "s": (StringType(), pa.string()),
    "b": (BinaryType(), pa.binary()),
    "[s]": (ArrayType(StringType()), pa.list_(pa.string())),
}

_WHERE = {"topic": "s", "partition": "i4", "path": "s", "segment": "i8"}
_BATCHES = {**_WHERE, **COLUMNS}
_PROBLEM = {"problem": "s", "problem_severity": "s", "problem_detail": "s"}
_STATES = {
    "path": "s",
    "position": "i8",
    "partition": "i4",
    "offset": "i8",
    "timestamp": "i8",
    "transactional_id": "s",
    "value_version": "i4",
    "state": "s",
    "producer_id": "i8",
    "producer_epoch": "i4",
    "timeout_ms": "i4",
    "last_update": "i8",
    "start": "i8",
    "previous_producer_id": "i8",
    "next_producer_id": "i8",
    "client_transaction_version": "i4",
    "partitions": "[s]",
}
TABLES: dict[str, dict[str, str]] = {
    "batches": _BATCHES,
    "records": {
        **_WHERE,
        "position": "i8",
        "offset": "i8",
        "timestamp": "i8",
        "producer_id": "i8",
        "producer_epoch": "i2",
        "transactional": "?",
        "key": "b",
        "value": "b",
    },
    "txnlog": _STATES,
    "audit": {**_BATCHES, "previous_offset": "i8", "jump": "?", "last": "?", **_PROBLEM},
    "states": {**_STATES, **_PROBLEM},
}
"""Each table's columns and their types."""

RANGE_BYTES = 128 << 20


_OF_COORDINATORS = frozenset(("txnlog", "states"))
_WITH_PROBLEMS = frozenset(("audit", "states"))


def spark_schema(table: str, **more: str) -> StructType:
    """The schema of a table as Spark says it, with more columns behind."""
    return StructType([StructField(name, _TYPES[kind][0]) for name, kind in {**TABLES[table], **more}.items()])


def arrow_schema(columns: Mapping[str, str]) -> pa.Schema:
    """The same for Arrow."""
    return pa.schema([(name, _TYPES[kind][1]) for name, kind in columns.items()])


@dataclass(frozen=True)
class Work(InputPartition):
    """Ranges that one task reads."""

    ranges: tuple[ByteRange, ...]


class KafkaLogSource(DataSource):
    """Kafka's log directories as tables."""

    @classmethod
    def name(cls) -> str:
        return "kafka_log"

    @property
    def table(self) -> str:
        """The wanted table."""
        wanted = self.options.get("table", "batches")
        if wanted not in TABLES:
            raise ValueError(f"kafka_log has no table {wanted}: it has {', '.join(TABLES)}")
        return str(wanted)

    def schema(self) -> StructType:
        return spark_schema(self.table)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = _Options.of(self.options, self.table, schema)
        return (
            PushdownReader(options) if self.options.get("pushdown", "false").lower() == "true" else LogReader(options)
        )

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return TailReader(_Options.of(self.options, self.table, schema))


@dataclass(slots=True)
class _Options:
    directories: list[str]
    table: str
    columns: list[str]
    topics: list[str]
    check_crc: bool
    range_bytes: int

    @classmethod
    def of(cls, options: Mapping[str, str], table: str, schema: StructType) -> _Options:
        paths = options.get("paths") or options.get("path")
        if not paths:
            raise ValueError("kafka_log needs a log directory: load(DIRECTORY)")
        directories = json.loads(paths) if paths.startswith("[") else [paths]
        unknown = [name for name in schema.names if name not in TABLES[table]]
        if unknown:
            raise ValueError(f"kafka_log's table {table} has no column {', '.join(unknown)}")
        topics = [topic for topic in options.get("topics", "").split(",") if topic]
        if table in _OF_COORDINATORS:
            topics = [TRANSACTION_STATE]
        return cls(
            directories,
            table,
            list(schema.names),
            topics,
            options.get("checkCrc", "false").lower() == "true",
            int(options.get("rangeBytes", RANGE_BYTES)),
        )

    def files(self) -> list[LogFile]:
        return [
            file for file in find_files(self.directories, topics=self.topics).files if file.kind is FileKind.SEGMENT
        ]


class LogReader(DataSourceReader):
    """One pass over the segments."""

    def __init__(self, options: _Options) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        files = self.pruned(self.options.files())
        return pack(plan_ranges(files, range_bytes=self.options.range_bytes), self.options.range_bytes)

    def pruned(self, files: list[LogFile]) -> list[LogFile]:
        """Without what the filters rule out."""
        return files

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Work)
        return read_ranges(partition.ranges, self.options)


class PushdownReader(LogReader):
    """The same, with filters on topic, partition and offsets taken before a file is opened."""

    def __init__(self, options: _Options) -> None:
        super().__init__(options)
        self.wanted: dict[str, set[Any]] = {}
        self.offset_from, self.offset_to = -1, 1 << 63

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        for one in filters:
            if not self.take(one):
                yield one

    def take(self, one: Filter) -> bool:
        """Whether the filter is wholly served by leaving out files."""
        column = getattr(one, "attribute", ("",))[0]
        if column in ("topic", "partition") and isinstance(one, EqualTo | In):
            values = {one.value} if isinstance(one, EqualTo) else set(one.value)
            self.wanted[column] = self.wanted.get(column, values) & values
            return True
        if column in ("base_offset", "offset", "last_offset"):
            self.narrow(column, one)
        return False

    def narrow(self, column: str, one: Filter) -> None:
        """Offsets only rule out whole segments; Spark filters what remains."""
        if isinstance(one, EqualTo | GreaterThan | GreaterThanOrEqual):
            self.offset_from = max(self.offset_from, int(one.value))
        if isinstance(one, EqualTo | LessThan | LessThanOrEqual) and column != "last_offset":
            self.offset_to = min(self.offset_to, int(one.value))

    def pruned(self, files: list[LogFile]) -> list[LogFile]:
        kept = [
            file
            for file in files
            if file.topic in self.wanted.get("topic", {file.topic})
            and file.partition in self.wanted.get("partition", {file.partition})
        ]
        following = [*kept[1:], None]
        return [file for file, after in zip(kept, following, strict=True) if self.may_hold(file, after)]

    def may_hold(self, file: LogFile, after: LogFile | None) -> bool:
        """Whether a segment may hold wanted offsets; it ends where the next one of its partition begins."""
        if file.base_offset > self.offset_to:
            return False
        same = after is not None and (file.topic, file.partition) == (after.topic, after.partition)
        return not (
            same
            and after is not None
            and after.base_offset <= self.offset_from
            and file.base_offset < after.base_offset
        )


class TailReader(DataSourceStreamReader):
    """New batches as they are appended; an offset is how far each file has been read."""

    def __init__(self, options: _Options) -> None:
        self.options = options

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {}

    def latestOffset(self, start: dict[str, int], limit: Any = None) -> dict[str, int]:  # noqa: N802 - Spark's name
        end = dict(start)
        for file in self.options.files():
            end[file.path] = whole_end(file, int(start.get(file.path, 0)))
        return end

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        ranges = [
            ByteRange(file, int(start.get(file.path, 0)), int(end[file.path]))
            for file in self.options.files()
            if int(end.get(file.path, 0)) > int(start.get(file.path, 0))
        ]
        return pack(ranges, self.options.range_bytes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Work)
        return read_ranges(partition.ranges, self.options)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing is kept."""


def whole_end(file: LogFile, start: int) -> int:
    """Where the last whole batch of a file ends; a broker may be writing the next one."""
    position = start
    for chunk in scan_range(ByteRange(file, start, active=True), Scan()):
        position = int(chunk.columns["position"][-1]) + int(chunk.columns["size"][-1])
    return position


def pack(ranges: Sequence[ByteRange], range_bytes: int) -> list[Work]:
    """Tasks of about `range_bytes`: small ranges together, in their order."""
    packed: list[list[ByteRange]] = []
    filled = range_bytes
    for part in ranges:
        size = (part.file.size if part.end < 0 else part.end) - part.start
        if filled + size > range_bytes:
            packed.append([])
            filled = 0
        packed[-1].append(part)
        filled += size
    return [Work(tuple(group)) for group in packed]


# ---------------------------------------------------------------------- rows


def read_ranges(ranges: Iterable[ByteRange], options: _Options) -> Iterator[pa.RecordBatch]:
    """Arrow batches of the wanted table."""
    for part in ranges:
        scan = Scan(check_crc=options.check_crc)
        if options.table in _OF_COORDINATORS:
            yield from _rows((_NO_PROBLEM | record.row() for record in transaction_log_range(part, scan)), options)
        else:
            for chunk in scan_range(part, scan):
                yield from _chunk(chunk, scan, options)
        if options.table in _WITH_PROBLEMS and scan.problems:
            yield _problems(part, scan.problems, options)


_NO_PROBLEM: dict[str, Any] = dict.fromkeys(_PROBLEM)


def _chunk(chunk: Chunk, scan: Scan, options: _Options) -> Iterator[pa.RecordBatch]:
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


def _audit(chunk: Chunk, options: _Options) -> pa.RecordBatch:
    """Batches of producers, and those where offsets jump or that stand at an edge."""
    columns = chunk.columns
    previous = np.full(len(chunk), -1, np.int64)
    previous[1:] = columns["last_offset"][:-1]
    jump = columns["base_offset"] != previous + 1
    jump[0] = True
    last = np.zeros(len(chunk), bool)
    last[-1] = True
    kept = jump | last | (columns["producer_id"] >= 0)
    none = pa.nulls(int(kept.sum()), pa.string())
    extra = {
        "previous_offset": previous[kept],
        "jump": jump[kept],
        "last": last[kept],
        "problem": none,
        "problem_severity": none,
        "problem_detail": none,
    }
    return _batch(_columns(chunk, kept) | extra, options)


def _problems(part: ByteRange, problems: list[Problem], options: _Options) -> pa.RecordBatch:
    count = len(problems)
    columns: dict[str, Any] = {name: pa.nulls(count, _TYPES[kind][1]) for name, kind in TABLES[options.table].items()}
    columns |= {
        "path": [found.path for found in problems],
        "position": [found.position for found in problems],
        "problem": [found.problem for found in problems],
        "problem_severity": [found.severity for found in problems],
        "problem_detail": [found.detail for found in problems],
    }
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
        }


def _rows(rows: Iterable[dict[str, Any]], options: _Options) -> Iterator[pa.RecordBatch]:
    waiting: list[dict[str, Any]] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) >= 10_000:
            yield _batch({name: [one[name] for one in waiting] for name in waiting[0]}, options)
            waiting = []
    if waiting:
        yield _batch({name: [one[name] for one in waiting] for name in waiting[0]}, options)


def _batch(columns: Mapping[str, Any], options: _Options) -> pa.RecordBatch:
    kinds = TABLES[options.table]
    arrays = [
        pa.array(columns[name], type=_TYPES[kinds[name]][1])
        if not isinstance(columns[name], pa.Array)
        else columns[name]
        for name in options.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema({name: kinds[name] for name in options.columns}))
