"""Is the copy of a topic exactly its committed records? On what `ingest` saved, by Spark.

copy-lost: committed in the source and not in the target. copy-duplicate: more often in the target than in the source.
copy-contaminated: in the target, but not committed in the source (aborted there, or never there at all).
copy-altered: key and value are as often in both, but not with the same headers or timestamps.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from odradek_pipeline.audit.result import Result, Severity, anomalies_frame, anomaly

__all__ = ["audit_copy"]

ROWS_MAX = 10_000
_BESIDE = {"headers": ("headers",), "timestamps": ("timestamp",), "pairs": ("headers", "timestamp")}
"""What is compared beside key and value, by sums of hashes: in which order equal records lie does not matter."""


def audit_copy(spark: SparkSession, reads: Path, *, source: str, target: str) -> Result:
    """Compare both topics, partition by partition, as readers of committed data see them."""
    began = time.perf_counter()
    rows = spark.read.parquet(str(reads / "raw_reads.parquet"))
    committed = rows.where("isolation = 'read_committed'")
    wanted, copied = (
        _counted(committed.where(F.col("topic") == topic), name)
        for topic, name in ((source, "wanted"), (target, "copied"))
    )
    everything = _counted(
        rows.where((F.col("isolation") == "read_uncommitted") & (F.col("topic") == source)), "written"
    )
    keys = ["partition", "key", "value"]
    joined = _join(_join(wanted, copied, keys), everything, keys).fillna(0, ["wanted", "copied", "written"])
    differs = " or ".join(f"wanted_{name} != copied_{name}" for name in _BESIDE)
    joined = joined.withColumn("altered", F.expr(f"wanted = copied and ({differs})"))
    odd: Any = joined.where("wanted != copied or altered").limit(ROWS_MAX).toPandas()
    totals = joined.agg(F.sum("wanted").alias("wanted"), F.sum("copied").alias("copied")).first()
    assert totals is not None
    found = []
    for row in odd.to_dict("records"):
        found.append(_judge(row, target))
    result = Result("copy", anomalies_frame(found))
    result.facts = {"source_records": int(totals["wanted"] or 0), "target_records": int(totals["copied"] or 0)}
    result.facts |= {
        name.replace("copy-", ""): sum(1 for one in found if one["anomaly"] == name)
        for name in ("copy-lost", "copy-duplicate", "copy-contaminated", "copy-altered")
    }
    result.seconds = time.perf_counter() - began
    return result


def _counted(rows: DataFrame, name: str) -> DataFrame:
    sums = [F.sum(F.xxhash64(*of).cast("decimal(38,0)")).alias(f"{name}_{what}") for what, of in _BESIDE.items()]
    counted = rows.groupBy("partition", "key", "value").agg(
        F.count("*").alias(name), F.min("offset").alias(f"{name}_at"), *sums
    )
    return counted.withColumn("key", F.coalesce("key", F.lit(b"\0null"))).withColumn(
        "value", F.coalesce("value", F.lit(b"\0null"))
    )


def _join(one: DataFrame, other: DataFrame, keys: list[str]) -> DataFrame:
    return one.join(other, keys, "full_outer")


def _judge(row: dict[str, object], target: str) -> dict[str, object]:
    wanted, copied, written = (int(str(row[name]).split(".")[0]) for name in ("wanted", "copied", "written"))
    value = bytes(row["value"])[:40]  # type: ignore[call-overload]
    if wanted == 0:
        why = "aborted in the source" if written else "never in the source"
        name, detail = "copy-contaminated", f"{value!r} is {why}"
    elif row["altered"]:
        changed = [name for name in ("headers", "timestamps") if row[f"wanted_{name}"] != row[f"copied_{name}"]]
        name, detail = (
            "copy-altered",
            f"{value!r}: {' and '.join(changed or ['pairs of headers and timestamp'])} differ",
        )
    elif copied < wanted:
        name, detail = "copy-lost", f"{value!r}: {wanted} committed in the source, {copied} copied"
    else:
        name, detail = "copy-duplicate", f"{value!r}: {wanted} committed in the source, {copied} copied"
    at = row["copied_at"] if copied else row["wanted_at"]
    return anomaly(name, Severity.BAD, detail, topic=target, partition=row["partition"], offset=int(float(str(at))))
