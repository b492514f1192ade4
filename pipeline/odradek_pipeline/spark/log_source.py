"""Spark's DataSource `kafka_log` over the scanner: `spark.read.format("kafka_log").load(directories)`.

Options: `table` (batches, records, txnlog; or audit and states: the rows that an audit needs of batches and of the
coordinators' log, problems among them), `topics` (separated by commas), `checkCrc`, `rangeBytes`, `state` (a folder of
what earlier audits have read), `since` and `until` (milliseconds: without segments that end
before, or begin after), and `pushdown` (true needs
spark.sql.python.filterPushdown.enabled: Spark refuses a reader that could take filters while it is off). As a stream it
tails the directories: whole batches only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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
from pyspark.sql.types import StructType

from odradek_pipeline.logs.headers import ByteRange
from odradek_pipeline.logs.layout import LogFile
from odradek_pipeline.logs.scan import plan_ranges
from odradek_pipeline.logs.times import newest_of
from odradek_pipeline.spark.log_rows import SourceOptions, read_ranges
from odradek_pipeline.spark.log_tables import TABLES, spark_schema
from odradek_pipeline.spark.log_tail import TailReader

__all__ = ["TABLES", "KafkaLogSource", "LogReader", "PushdownReader", "SourceOptions", "TailReader", "spark_schema"]


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
        options = SourceOptions.of(self.options, self.table, schema)
        return (
            PushdownReader(options) if self.options.get("pushdown", "false").lower() == "true" else LogReader(options)
        )

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return TailReader(SourceOptions.of(self.options, self.table, schema))


class LogReader(DataSourceReader):
    """One pass over the segments."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        files = self.pruned(self.options.files())
        ranges = plan_ranges(files, range_bytes=self.options.range_bytes, cleaned=self.options.cleaned)
        return pack(ranges, self.options.range_bytes)

    def pruned(self, files: list[LogFile]) -> list[LogFile]:
        """Without what the filters rule out."""
        return files

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Where there is nothing to read, Spark makes one task of nothing.
        return read_ranges(partition.ranges if isinstance(partition, Work) else (), self.options)


class PushdownReader(LogReader):
    """The same, with filters on topic, partition and offsets taken before a file is opened."""

    def __init__(self, options: SourceOptions) -> None:
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
        """Whether a segment may hold wanted times; the last one of a partition may hold more than its index says."""
        is_last = after is None or (file.topic, file.partition) != (after.topic, after.partition)
        if self.time_from < 0 or is_last:
            return True
        newest = newest_of(file)
        return newest is None or newest >= self.time_from


def pack(ranges: Sequence[ByteRange], range_bytes: int) -> list[Work]:
    """Tasks of about `range_bytes`: small ranges together, in their order."""
    packed: list[list[ByteRange]] = []
    filled = range_bytes
    for part in ranges:
        size = part.size
        if filled + size > range_bytes:
            packed.append([])
            filled = 0
        packed[-1].append(part)
        filled += size
    return [Work(tuple(group)) for group in packed]
