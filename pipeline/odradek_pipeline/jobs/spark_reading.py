"""Tables of logs on Spark: as the source `kafka_log`, and as an audit reads them, which plans by itself."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from odradek_pipeline.log_rows import SourceOptions, read_ranges
from odradek_pipeline.log_source import KafkaLogSource, LogReader, Work
from odradek_pipeline.log_tables import spark_schema

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


def planned(spark: SparkSession, options: SourceOptions) -> DataFrame:
    """The same table, planned in this process: Spark would start a Python process for each step of planning."""
    works = [pickle.dumps(work) for work in LogReader(options).partitions()]
    sent = spark.sparkContext.broadcast(works)

    def read(tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in tasks:
            for task in batch.column(0).to_pylist():
                work: Work = pickle.loads(sent.value[task])
                yield from read_ranges(work.ranges, options)

    return spark.range(0, len(works), 1, max(1, len(works))).mapInArrow(read, spark_schema(options.table))
