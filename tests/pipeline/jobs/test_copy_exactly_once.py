"""The exactly-once copy against Odradek: aborting sources, a kill, coordinators that move (KIP-98, KIP-447)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from odradek.testing import Cluster
from odradek_pipeline.jobs.audit_copy import audit_copy
from odradek_pipeline.jobs.copy_exactly_once import CopyJob, start_copy
from odradek_pipeline.jobs.ingest import ingest
from odradek_pipeline.spark.session import connector_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.client,
    pytest.mark.skipif(not connector_jars(), reason="Spark's Kafka connector is not there: make pipeline-jars"),
]

SOURCE, TARGET, SINK, APPLICATION = "source", "target", "sink", "copy"
PARTITIONS, TRANSACTIONS, RECORDS = 2, 60, 20
BEGAN_MS = time.time_ns() // 1_000_000 - 3_600_000  # retention removes what is older than a week


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two brokers, and a source whose transactions abort at random."""
    with Cluster(brokers=2, topics=[f"{topic}:{PARTITIONS}" for topic in (SOURCE, TARGET, SINK)], seed=1) as running:
        fill(running.bootstrap)
        yield running


def fill(bootstrap: str) -> None:
    """Values are unique; those of aborted transactions say so."""
    dice = random.Random(4)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "filler", "linger.ms": 1, "log_level": 2})
    producer.init_transactions(30)
    for number in range(TRANSACTIONS):
        abort = dice.random() < 0.35
        producer.begin_transaction()
        for record in range(RECORDS):
            outcome = "aborted" if abort else "committed"
            producer.produce(
                SOURCE,
                key=f"key-{record}" if record % 3 else None,
                value=f"{outcome}-{number}-{record}",
                partition=record % PARTITIONS,
                timestamp=BEGAN_MS + number * 1000 + record,
                headers=[("trace", f"{number}".encode()), ("trace", None), ("empty", b"")] if record % 2 else None,
            )
        producer.flush(30)
        producer.abort_transaction(30) if abort else producer.commit_transaction(30)


def copy_command(bootstrap: str, checkpoint: Path) -> list[str]:
    options = {
        "--bootstrap": bootstrap,
        "--source": SOURCE,
        "--target": TARGET,
        "--checkpoint": str(checkpoint),
        "--application": APPLICATION,
    }
    words = [word for pair in options.items() for word in pair]
    return [sys.executable, "-m", "odradek", "copy", *words, "--batch-records", "60", "--master", "local[2]"]


def run_and_kill(cluster: Cluster, checkpoint: Path, *, batches: int) -> int:
    """The copy as a process of its own, ended by SIGKILL in the middle of its work; how many batches it had told of."""
    environment = {**os.environ, "JDK_JAVA_OPTIONS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
    process = subprocess.Popen(
        copy_command(cluster.bootstrap, checkpoint), start_new_session=True, env=environment, stderr=subprocess.DEVNULL
    )
    told: list[Path] = []
    deadline = time.monotonic() + 120
    try:
        while len(told) < batches and time.monotonic() < deadline and process.poll() is None:
            before = len(told)
            told = list((checkpoint / "copy_progress").glob("*.parquet"))
            if len(told) > before:
                move_coordinators(cluster)
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)
    return len(told)


def move_coordinators(cluster: Cluster) -> None:
    cluster.move_transaction_coordinator(f"{APPLICATION}-{SOURCE}-0")
    cluster.move_group_coordinator(APPLICATION)


def sink_with_a_crash(spark: SparkSession, bootstrap: str, checkpoint: Path) -> None:
    """Spark's own sink, as one would write it; the first attempt crashes behind its write."""
    crashed: list[int] = []

    def write(frame: DataFrame, number: int) -> None:
        rows = frame.selectExpr("key", "value", "partition")
        rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", SINK).save()
        if not crashed:
            crashed.append(number)
            raise RuntimeError("a crash behind the write")

    for _ in range(2):
        stream = (
            spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", SOURCE)
        )
        stream = stream.option("startingOffsets", "earliest").option("kafka.isolation.level", "read_committed")
        query = (
            stream.load()
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except Exception as error:
            assert "a crash behind the write" in str(error)  # noqa: PT017 - which exception Spark wraps it in is its business


def facts(spark: SparkSession, cluster: Cluster, out: Path, target: str) -> dict[str, Any]:
    ingest(spark, cluster.bootstrap, [SOURCE, target], out)
    return audit_copy(spark, out, source=SOURCE, target=target).facts


def records(bootstrap: str, topic: str, count: int) -> list[tuple[Any, ...]]:
    """The committed records of a topic as a client sees them, in the order of each partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: list[tuple[Any, ...]] = []
    while len(found) < count:
        found += [
            (one.partition(), one.timestamp(), one.key(), one.value(), one.headers())
            for one in consumer.consume(500, 10)
        ]
    consumer.close()
    return sorted(found, key=lambda row: row[0])


def test_a_killed_copy_loses_nothing_and_writes_nothing_twice_and_the_plain_sink_does(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    told = run_and_kill(cluster, tmp_path / "checkpoint", batches=3)
    assert told >= 3
    job = CopyJob(cluster.bootstrap, SOURCE, TARGET, APPLICATION, tmp_path / "checkpoint", batch_records_max=200)
    move_coordinators(cluster)
    query = start_copy(spark, job, available_now=True)
    query.awaitTermination()
    copied = facts(spark, cluster, tmp_path / "copied", TARGET)
    assert (0, 0, 0, 0) == tuple(copied[name] for name in ("lost", "duplicate", "contaminated", "altered"))
    assert copied["source_records"] == copied["target_records"] > 400
    source, target = (records(cluster.bootstrap, topic, copied["source_records"]) for topic in (SOURCE, TARGET))
    assert source == target
    assert {True, False} == {headers is None for *_, headers in source}

    sink_with_a_crash(spark, cluster.bootstrap, tmp_path / "sink-checkpoint")
    sunk = facts(spark, cluster, tmp_path / "sunk", SINK)
    assert (0, 0) == (sunk["lost"], sunk["contaminated"])
    assert sunk["source_records"] == sunk["duplicate"]


def test_the_audit_sees_what_is_lost_and_what_does_not_belong(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    ingest(spark, cluster.bootstrap, [SOURCE], tmp_path / "reads")
    reads = spark.read.parquet(str(tmp_path / "reads" / "raw_reads.parquet"))
    everything = reads.where("isolation = 'read_uncommitted'").selectExpr(
        "'read_committed' isolation", "'bad' topic", "partition", "offset", "timestamp", "key", "value", "headers"
    )
    lost = reads.where("isolation = 'read_committed'").selectExpr("min(cast(value as string))").collect()[0][0]
    kept = everything.where(f"cast(value as string) <> '{lost}'")
    (tmp_path / "damaged").mkdir()
    reads.union(kept).write.parquet(str(tmp_path / "damaged" / "raw_reads.parquet"))
    result = audit_copy(spark, tmp_path / "damaged", source=SOURCE, target="bad")
    aborted = reads.where("isolation = 'read_uncommitted' and startswith(cast(value as string), 'aborted')").count()
    assert aborted > 0
    assert {"copy-contaminated": {"bad": aborted}, "copy-lost": {"bad": 1}} == result.counts()


def test_the_audit_sees_headers_and_timestamps_that_were_lost(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    ingest(spark, cluster.bootstrap, [SOURCE], tmp_path / "reads")
    reads = spark.read.parquet(str(tmp_path / "reads" / "raw_reads.parquet")).where("isolation = 'read_committed'")
    values = [row[0] for row in reads.where("headers is not null").select("value").limit(2).collect()]
    assert 2 == len(values)
    copied = reads.withColumn("topic", F.lit("altered"))
    copied = copied.withColumn("headers", F.when(F.col("value") != values[0], F.col("headers")))
    later = F.col("timestamp") + F.expr("interval 1 millisecond")
    copied = copied.withColumn("timestamp", F.when(F.col("value") == values[1], later).otherwise(F.col("timestamp")))
    (tmp_path / "altered").mkdir()
    reads.union(copied).write.parquet(str(tmp_path / "altered" / "raw_reads.parquet"))
    result = audit_copy(spark, tmp_path / "altered", source=SOURCE, target="altered")
    assert {"copy-altered": {"bad": 2}} == result.counts()
    details = sorted(result.anomalies["detail"])
    assert {"headers differ", "timestamps differ"} == {detail.rpartition(": ")[2] for detail in details}
