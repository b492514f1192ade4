"""The same audit, spread over a Spark cluster: one pass over the logs, two groupings, verdicts on the driver."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from odradek_pipeline.jobs.audit_logs import Evidence, audit_logs, conclude, marker_times, read_coordinators, real_jumps
from odradek_pipeline.layout import FileKind, Problem, find_files, one_replica_each
from odradek_pipeline.log_checks import (
    BATCH_COLUMNS,
    BREAK_COLUMNS,
    SEQUENCE_COLUMNS,
    TXN_COLUMNS,
    sequence_breaks,
    sequences,
    transactions,
)
from odradek_pipeline.log_source import TABLES
from odradek_pipeline.log_verdicts import Coordinators, suspicious
from odradek_pipeline.payload import transaction_log
from odradek_pipeline.result import Result
from odradek_pipeline.scan import Scan

__all__ = ["audit_logs_on_spark", "read_logs"]

ROWS_PER_GROUP = 1_000_000
_DDL = {"object": "string", "i8": "bigint", "i4": "int", "i2": "smallint", "?": "boolean"}


def read_logs(
    spark: SparkSession,
    directories: Iterable[str | Path],
    *,
    table: str = "batches",
    topics: Iterable[str] = (),
    **options: str,
) -> DataFrame:
    """A table of the source `kafka_log`, with filters pushed down where the session allows it."""
    pushdown = spark.conf.get("spark.sql.python.filterPushdown.enabled", "false") or "false"
    reader = (
        spark.read.format("kafka_log")
        .option("table", table)
        .option("pushdown", pushdown)
        .option("topics", ",".join(topics))
    )
    return reader.options(**options).load([str(Path(directory).absolute()) for directory in directories])


def ddl(columns: dict[str, str]) -> str:
    """A schema as Spark reads it from a string."""
    return ", ".join(f"`{name}` {_DDL[kind]}" for name, kind in columns.items())


def audit_logs_on_spark(
    spark: SparkSession,
    directories: Iterable[str | Path],
    out: Path,
    *,
    topics: Iterable[str] = (),
    range_bytes: int = 128 << 20,
) -> Result:
    """Audit; the tables that grow with the logs are written by Spark below `out`."""
    began = time.perf_counter()
    directories = [Path(directory).absolute() for directory in directories]
    tree = one_replica_each(find_files(directories, topics=topics))
    partitions = sorted({Path(file.path).parent for file in tree.of(FileKind.SEGMENT)})
    if not partitions:
        return audit_logs(directories, topics=topics)
    scan = Scan(problems=list(tree.problems))
    decided = transaction_log(tree.files, Scan())
    scanned = str(out.absolute() / "batches.parquet")
    rows = read_logs(spark, partitions, table="audit", rangeBytes=str(range_bytes))
    rows.write.mode("overwrite").parquet(scanned)
    stored = spark.read.parquet(scanned)
    _add_problems(stored, scan)
    batches = stored.where("problem is null")
    totals = batches.agg(F.max("max_timestamp").alias("newest"), F.count("*").alias("rows")).first()
    assert totals is not None
    coordinators = read_coordinators(tree, scan, decided, now=totals["newest"] or 0)
    scan.bytes_read, scan.batches = sum(file.size for file in tree.of(FileKind.SEGMENT)), totals["rows"]
    evidence = _evidence(spark, batches, totals["rows"], out, coordinators)
    result = conclude(tree, scan, evidence, coordinators)
    result.seconds = time.perf_counter() - began
    return result


def _add_problems(stored: DataFrame, scan: Scan) -> None:
    for row in (
        stored.where("problem is not null")
        .select("path", "position", "problem", "problem_detail", "problem_severity")
        .collect()
    ):
        scan.problems.append(Problem(*row))


def _evidence(spark: SparkSession, batches: DataFrame, rows: int, out: Path, coordinators: Coordinators) -> Evidence:
    groups = max(rows // ROWS_PER_GROUP + 1, int(spark.conf.get("spark.sql.shuffle.partitions", "2") or 2))
    columns = [name for name in BATCH_COLUMNS if name in TABLES["audit"]]
    producers = batches.where("producer_id >= 0").select(*columns)
    grouped = producers.groupBy(F.pmod(F.xxhash64("topic", "partition", "producer_id"), F.lit(groups)).alias("bucket"))
    txn_path, sequence_path = (str(out.absolute() / f"{name}.parquet") for name in ("log_txns", "sequences"))
    grouped.applyInPandas(transactions, ddl(TXN_COLUMNS)).write.mode("overwrite").parquet(txn_path)
    grouped.applyInPandas(sequences, ddl(SEQUENCE_COLUMNS)).write.mode("overwrite").parquet(sequence_path)
    breaks = _frame(grouped.applyInPandas(sequence_breaks, ddl(BREAK_COLUMNS)), BREAK_COLUMNS)
    txns = spark.read.parquet(txn_path)
    level_2 = frozenset(coordinators.level_2)

    def odd_ones(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield frame[suspicious(frame, level_2)]

    odd = _frame(txns.mapInPandas(odd_ones, ddl(TXN_COLUMNS)), TXN_COLUMNS)
    edges = batches.where("jump or last").select(*columns, "last").toPandas()
    return Evidence(odd, breaks, real_jumps(edges), _marker_times(spark, txns, coordinators))


def _frame(rows: DataFrame, columns: dict[str, str]) -> pd.DataFrame:
    collected: Any = rows.toPandas()
    return collected.astype(columns)


def _marker_times(
    spark: SparkSession, txns: DataFrame, coordinators: Coordinators
) -> dict[tuple[object, ...], list[int]]:
    """Only of producers whose decisions the coordinators' log still holds."""
    prepared = sorted({record.producer_id for record in coordinators.prepared})
    if not prepared:
        return {}
    wanted = spark.createDataFrame([(producer_id,) for producer_id in prepared], "producer_id bigint")
    columns = ["topic", "partition", "producer_id", "marker_epoch", "outcome", "marker_offset", "marker_timestamp"]
    return marker_times(txns.join(F.broadcast(wanted), "producer_id").select(*columns).toPandas())
