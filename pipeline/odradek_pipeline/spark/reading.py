"""Tables of logs on Spark: as the source `kafka_log`, and as an audit reads them, which plans by itself."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession

from odradek_pipeline.logs.layout import Problem
from odradek_pipeline.spark.growing import GrowingTable, Part
from odradek_pipeline.spark.log_rows import SourceOptions, read_ranges
from odradek_pipeline.spark.log_source import KafkaLogSource, LogReader, Work

__all__ = ["HandedOn", "read_audit", "read_logs"]


def read_logs(
    spark: SparkSession,
    directories: Iterable[str | Path],
    *,
    table: str = "batches",
    topics: Iterable[str] = (),
    **options: str,
) -> DataFrame:
    """A table of the source `kafka_log`, with filters pushed down where the session allows it."""
    spark.dataSource.register(KafkaLogSource)
    pushdown = spark.conf.get("spark.sql.python.filterPushdown.enabled", "false") or "false"
    reader = (
        spark.read.format("kafka_log")
        .option("table", table)
        .option("pushdown", pushdown)
        .option("topics", ",".join(topics))
    )
    return reader.options(**options).load([str(Path(directory).absolute()) for directory in directories])


@dataclass(slots=True)
class HandedOn:
    """What tasks that read hand on beside the rows that they write."""

    problems: list[Problem] = field(default_factory=list)
    totals: list[tuple[str, int, str]] = field(default_factory=list)
    """Of ranges of the table `audit`: topic, partition, and totals as text."""


def read_audit(
    spark: SparkSession, options: SourceOptions, into: GrowingTable, edges: GrowingTable | None = None
) -> HandedOn:
    """Have workers write a table of an audit; planned in this process, for Spark would start a Python process for each
    step of planning. Rows come neither to the driver nor through a JVM.

    `edges` are those of the batches of the table `audit` that stand at an edge of a range, or where offsets jump and
    compaction does not explain it.
    """
    works = [pickle.dumps(work) for work in LogReader(options).partitions()]
    found = HandedOn()
    if works:
        sent = spark.sparkContext.broadcast(works)
        tasks = spark.sparkContext.parallelize(range(len(works)), len(works))
        read = partial(_read, sent=sent, options=options, into=into, edges=edges)
        for one in tasks.mapPartitions(read).collect():
            found.problems += one.problems
            found.totals += one.totals
    return found


def _read(
    tasks: Iterable[int],
    *,
    sent: Broadcast[list[bytes]],
    options: SourceOptions,
    into: GrowingTable,
    edges: GrowingTable | None,
) -> Iterator[HandedOn]:
    handed = HandedOn()
    with into.part() as part, edges.part() if edges is not None else contextlib.nullcontext() as beside:
        for task in tasks:
            work: Work = pickle.loads(sent.value[task])
            for rows in read_ranges(work.ranges, options):
                _take(rows, handed, part, beside)
    yield handed


def _take(rows: pa.RecordBatch, handed: HandedOn, part: Part, edges: Part | None) -> None:
    """Rows of a table go there, problems and totals are noted."""
    if rows.column("problem").null_count < len(rows):
        names = ("path", "position", "problem", "problem_detail", "problem_severity")
        handed.problems += (Problem(*(row[name] for name in names)) for row in rows.to_pylist())
        return
    kept = rows.select(list(part.table.columns))
    if edges is None:
        part.add(kept)
    elif rows.column("totals").null_count < len(rows):
        handed.totals += ((row["topic"], row["partition"], row["totals"]) for row in rows.to_pylist())
    else:
        part.add(kept)
        edges.add(kept.filter(pc.or_(rows.column("jump"), rows.column("last"))))
