"""Topics into Parquet through Spark's Kafka connector, under both isolation levels, with ends that are fixed first.

A batch read up to `latest` resolves its end anew for every action, on the executors; so the ends are asked for once,
the reads are saved, and every audit works on what was saved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from odradek_pipeline.access.config import PLAINTEXT, ClientConfig

__all__ = ["LEVELS", "ends", "ingest"]

LEVELS = ("read_committed", "read_uncommitted")
TIMEOUT_S = 30


def ends(bootstrap: str, topics: Sequence[str], level: str, config: ClientConfig = PLAINTEXT) -> pd.DataFrame:
    """First and end offset of every partition: read_committed ends at the last stable offset."""
    consumer = Consumer(
        {
            **config.librdkafka(bootstrap),
            "group.id": "odradek-ingest",
            "enable.auto.commit": False,
            "isolation.level": level,
        }
    )
    try:
        rows = []
        for topic in topics:
            described = consumer.list_topics(topic, TIMEOUT_S).topics[topic]
            if described.error is not None:
                raise KafkaException(described.error)
            for partition in sorted(described.partitions):
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_S)
                rows.append((topic, partition, level, low, high))
    finally:
        consumer.close()
    return pd.DataFrame(rows, columns=["topic", "partition", "isolation", "start", "end"])


def ingest(
    spark: SparkSession, bootstrap: str, topics: Sequence[str], out: Path, config: ClientConfig = PLAINTEXT
) -> DataFrame:
    """Read the topics and save them as `raw_reads.parquet` and `ends.parquet` below `out`; the saved reads."""
    out.mkdir(parents=True, exist_ok=True)
    found = pd.concat([ends(bootstrap, topics, level, config) for level in LEVELS], ignore_index=True)
    found.to_parquet(out / "ends.parquet", index=False)
    path = str(out.absolute() / "raw_reads.parquet")
    for number, level in enumerate(LEVELS):
        rows = _read(spark, config.spark_options(bootstrap), topics, found[found["isolation"] == level], level)
        rows.write.mode("append" if number else "overwrite").parquet(path)
    return spark.read.parquet(path)


def _read(
    spark: SparkSession, access: Mapping[str, str], topics: Sequence[str], found: pd.DataFrame, level: str
) -> DataFrame:
    reader = (
        spark.read.format("kafka")
        .options(**access)
        .option("subscribe", ",".join(topics))
        .option("kafka.isolation.level", level)
        .option("includeHeaders", "true")
        .option("startingOffsets", _offsets(found, "start"))
        .option("endingOffsets", _offsets(found, "end"))
    )
    return reader.load().select(
        F.lit(level).alias("isolation"), "topic", "partition", "offset", "timestamp", "key", "value", "headers"
    )


def _offsets(found: pd.DataFrame, column: str) -> str:
    by_topic: dict[str, dict[str, int]] = {}
    for row in found.to_dict("records"):
        by_topic.setdefault(row["topic"], {})[str(row["partition"])] = int(row[column])
    return json.dumps(by_topic)
