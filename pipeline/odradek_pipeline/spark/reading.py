"""Tables of logs on Spark: as the source `kafka_log`, and as an audit reads them, which plans by itself."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from odradek_pipeline.spark.growing import GrowingTable, Part
from odradek_pipeline.spark.log_rows import SourceOptions, read_ranges
from odradek_pipeline.spark.log_source import KafkaLogSource, LogReader, Work
from odradek_pipeline.spark.log_tables import HEADERS, spark_schema

__all__ = ["planned", "read_logs"]


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


def planned(spark: SparkSession, options: SourceOptions, into: GrowingTable | None = None) -> DataFrame:
    """The same table, planned in this process: Spark would start a Python process for each step of planning.

    With `into` workers write the batches of the table `audit` there, and hand on what an audit asks of them at once.
    """
    works = [pickle.dumps(work) for work in LogReader(options).partitions()]
    sent = spark.sparkContext.broadcast(works)

    def read(tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with into.part() if into is not None else contextlib.nullcontext() as part:
            for batch in tasks:
                for task in batch.column(0).to_pylist():
                    work: Work = pickle.loads(sent.value[task])
                    for rows in read_ranges(work.ranges, options):
                        yield rows if part is None else _kept(rows, part)

    return spark.range(0, len(works), 1, max(1, len(works))).mapInArrow(read, spark_schema(options.table))


def _kept(rows: pa.RecordBatch, part: Part) -> pa.RecordBatch:
    """Batches go to the table; edges and jumps, totals and problems are handed on."""
    is_batch = rows.column("totals").null_count == rows.column("problem").null_count == len(rows)
    if not is_batch:
        return rows
    part.add(rows.select(list(HEADERS)))
    return rows.filter(pc.or_(rows.column("jump"), rows.column("last")))
