"""Spark's DataSource `kafka_log` over the scanner: `spark.read.format("kafka_log").load(directories)`.

Options: `table` (batches, records, txnlog; or audit and states: the rows that an audit needs of batches and of the
coordinators' log, problems among them), `topics` (separated by commas), `checkCrc`, `rangeBytes`, and `pushdown` (true
needs spark.sql.python.filterPushdown.enabled: Spark refuses a reader that could take filters while it is off). As a
stream it tails the directories: whole batches only.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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
from odradek_pipeline.scan import COLUMNS, ByteRange, Chunk, Scan, index_entries, plan_ranges, scan_range
from odradek_pipeline.sidecars import read_sidecar

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
    "[h]": (
        ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    ),
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
        "headers": "[h]",
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
        directories = _listed(paths)
        for directory in directories:
            if not Path(directory).is_dir():
                what = "is no directory" if Path(directory).exists() else "is not there"
                raise ValueError(f"kafka_log cannot read {directory}: it {what}")
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


def _listed(paths: str) -> list[str]:
    """One path, or several as Spark hands them on; the name of a directory may begin with a bracket too."""
    if paths.startswith("["):
        with contextlib.suppress(ValueError):
            return [str(path) for path in json.loads(paths)]
    return [paths]


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
        self.time_from = -1

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
        if column in ("max_timestamp", "timestamp") and isinstance(one, EqualTo | GreaterThan | GreaterThanOrEqual):
            self.time_from = max(self.time_from, int(one.value))
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
        if file.base_offset > self.offset_to or not self.may_be_as_new(file, after):
            return False
        same = after is not None and (file.topic, file.partition) == (after.topic, after.partition)
        return not (
            same
            and after is not None
            and after.base_offset <= self.offset_from
            and file.base_offset < after.base_offset
        )

    def may_be_as_new(self, file: LogFile, after: LogFile | None) -> bool:
        """Whether a segment may hold wanted times, by the last entry of its index of times.

        Entries have the newest timestamp so far, and a closed segment gets one for its last batch; the last segment of
        a partition may hold more than its index says.
        """
        is_last = after is None or (file.topic, file.partition) != (after.topic, after.partition)
        if self.time_from < 0 or is_last:
            return True
        path = Path(file.path).with_suffix(FileKind.TIME_INDEX)
        size = path.stat().st_size if path.exists() else 0
        times = LogFile(str(path), FileKind.TIME_INDEX, file.topic, file.partition, file.base_offset, size)
        found = read_sidecar(times)
        return bool(found.problems) or not len(found.entries) or int(found.entries["timestamp"][-1]) >= self.time_from


@dataclass(frozen=True)
class TailWork(InputPartition):
    """A range of a tail, and the offsets in it that are new."""

    part: ByteRange
    start: int
    end: int


class TailReader(DataSourceStreamReader):
    """New batches as they are appended; a stream's offset is the next Kafka offset of each directory of a partition.

    So it goes on where it was after retention has deleted segments, and after compaction has put others in their
    place. The driver reads the headers behind the last entry of each active segment's index, and no more.
    """

    def __init__(self, options: _Options) -> None:
        self.options = options

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {}

    def latestOffset(self, start: dict[str, int], limit: Any = None) -> dict[str, int]:  # noqa: N802 - Spark's name
        end = {directory: int(offset) for directory, offset in start.items()}
        for directory, files in self.directories().items():
            end[directory] = max(end.get(directory, 0), next_offset(files[-1]))
        return end

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        found: list[InputPartition] = []
        for directory, files in self.directories().items():
            low, high = int(start.get(directory, 0)), int(end.get(directory, 0))
            following = [*(file.base_offset for file in files[1:]), 1 << 63]
            for file, after in zip(files, following, strict=True):
                if low < high and low < after and file.base_offset < high:
                    found.append(TailWork(ByteRange(file, _position_of(file, low), active=True), low, high))
        return found

    def directories(self) -> dict[str, list[LogFile]]:
        """The segments of each partition as they are now."""
        listed: dict[str, list[LogFile]] = {}
        for file in self.options.files():
            listed.setdefault(str(Path(file.path).parent), []).append(file)
        return listed

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TailWork)
        return read_ranges([partition.part], self.options, (partition.start, partition.end))

    def commit(self, end: dict[str, int]) -> None:
        """Nothing is kept."""


def next_offset(file: LogFile) -> int:
    """The offset behind the last whole batch of an active segment; a broker may be writing the next one."""
    entries = index_entries(file.path)
    following = file.base_offset
    for start in (entries[-1][1] if entries else 0, 0):
        for chunk in scan_range(ByteRange(file, start, active=True), Scan()):
            following = int(chunk.columns["last_offset"].max()) + 1
        if following > file.base_offset or not start:
            break
    return following


def _position_of(file: LogFile, offset: int) -> int:
    """Where to begin for an offset, by the index: at or before its batch."""
    positions = [position for relative, position in index_entries(file.path) if file.base_offset + relative < offset]
    return positions[-1] if positions else 0


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


Offsets = tuple[int, int]
_ALL: Offsets = (0, 1 << 63)


def read_ranges(ranges: Iterable[ByteRange], options: _Options, offsets: Offsets = _ALL) -> Iterator[pa.RecordBatch]:
    """Arrow batches of the wanted table, of batches that begin within these offsets."""
    low, high = offsets
    for part in ranges:
        scan = Scan(check_crc=options.check_crc)
        if options.table in _OF_COORDINATORS:
            records = (record for record in transaction_log_range(part, scan) if low <= record.offset < high)
            yield from _rows((_NO_PROBLEM | record.row() for record in records), options)
        else:
            for chunk in scan_range(part, scan):
                yield from _chunk(_within(chunk, offsets), scan, options)
        if options.table in _WITH_PROBLEMS and scan.problems:
            yield _problems(part, scan.problems, options)


_NO_PROBLEM: dict[str, Any] = dict.fromkeys(_PROBLEM)


def _within(chunk: Chunk, offsets: Offsets) -> Chunk:
    if offsets == _ALL:
        return chunk
    last, base = chunk.columns["last_offset"], chunk.columns["base_offset"]
    kept = (last >= offsets[0]) & (base < offsets[1])
    return Chunk(chunk.file, {name: column[kept] for name, column in chunk.columns.items()})


def _chunk(chunk: Chunk, scan: Scan, options: _Options) -> Iterator[pa.RecordBatch]:
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
            "headers": [{"key": _text(name), "value": value} for name, value in record.headers],
        }


def _text(name: str) -> str:
    """A header's name; bytes of it that are no UTF-8 as U+FFFD, since a column of strings has no other way."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


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
