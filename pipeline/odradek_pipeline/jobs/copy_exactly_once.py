"""An exactly-once copy on Spark: a streaming read of one topic, one Kafka transaction for each task, offsets inside it.

Spark's own sink is at-least-once: a batch that is run again is written again. Here the transactional id is that of the
application and the source partition, so a new attempt fences the one before; what the group has committed tells how far
earlier attempts came, and what they wrote is skipped. Kafka keeps the progress, Spark's checkpoint only says what to
offer again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.streaming.query import StreamingQuery

from odradek.cli.usage import UsageError
from odradek_pipeline.access.config import PLAINTEXT, ClientConfig

__all__ = ["CopyJob", "PROGRESS", "check_topics", "copy_partition", "start_copy"]

PROGRESS = (
    "batch bigint, topic string, partition int, from_offset bigint, to_offset bigint, "
    "offered bigint, skipped bigint, written bigint, seconds double"
)
TIMEOUT_S = 60
ANSWER_S = 10
COLUMNS = ["topic", "partition", "offset", "timestamp_ms", "key", "value", "headers"]


@dataclass(frozen=True, slots=True)
class CopyJob:
    """What is copied where, and under which name."""

    bootstrap: str
    source: str
    target: str
    application: str
    checkpoint: Path
    progress: Path | None = None
    batch_records_max: int = 10_000
    kill_after_batches: int = 0
    """For proofs: end the process hard behind the Kafka transactions of this batch, before Spark notes it."""
    config: ClientConfig = PLAINTEXT


def check_topics(bootstrap: str, source: str, target: str, config: ClientConfig = PLAINTEXT) -> None:
    """Both topics are there, with as many partitions, and the target keeps the timestamps that producers give."""
    admin = AdminClient({**config.librdkafka(bootstrap), "log_level": 0})
    try:
        known = admin.list_topics(timeout=ANSWER_S).topics
        for topic in (source, target):
            if topic not in known:
                raise UsageError(f"There is no topic {topic} at {bootstrap}.")
        counts = [len(known[topic].partitions) for topic in (source, target)]
        if counts[0] != counts[1]:
            raise UsageError(f"{source} has {counts[0]} partitions and {target} {counts[1]}: a copy needs as many.")
        resource = ConfigResource(ConfigResource.Type.TOPIC, target)
        (described,) = admin.describe_configs([resource], request_timeout=ANSWER_S).values()
        kind = described.result()["message.timestamp.type"].value
    except KafkaException as error:
        raise UsageError(f"No broker answers at {bootstrap}: {error.args[0].str()}.") from error
    if kind != "CreateTime":
        raise UsageError(f"{target} has message.timestamp.type={kind}: a copy keeps the timestamps of its source.")


def start_copy(spark: SparkSession, job: CopyJob, *, available_now: bool = False) -> StreamingQuery:
    """Start the copy; `available_now` ends it when everything that was there at the start has been copied."""
    stream = (
        spark.readStream.format("kafka")
        .options(**job.config.spark_options(job.bootstrap))
        .option("subscribe", job.source)
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", job.batch_records_max)
        .load()
    )
    writer = stream.writeStream.foreachBatch(lambda frame, number: _copy_batch(frame, number, job))
    writer = writer.option("checkpointLocation", str(job.checkpoint))
    writer = writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="100 milliseconds")
    return writer.start()


def _copy_batch(frame: DataFrame, number: int, job: CopyJob) -> None:
    """One micro-batch: each Spark task holds one partition of the topic, and copies it in one transaction."""

    def copy(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        yield from copy_partition(frames, number, job)

    # As a number: a time of Spark is one of the session's time zone, and of microseconds.
    stamped = frame.withColumn("timestamp_ms", F.unix_millis("timestamp"))
    rows = stamped.select(*COLUMNS).mapInPandas(copy, PROGRESS)
    progress: Any = rows.toPandas()
    if job.progress is not None and len(progress):
        job.progress.mkdir(parents=True, exist_ok=True)
        progress.to_parquet(job.progress / f"batch-{number:08}.parquet", index=False)
    if job.kill_after_batches and number + 1 >= job.kill_after_batches and len(progress):
        _die()


def _die() -> None:
    os._exit(9)


def copy_partition(frames: Iterable[pd.DataFrame], number: int, job: CopyJob) -> Iterator[pd.DataFrame]:
    """Copy what one task was given: records of one partition, in order."""
    began = time.perf_counter()
    rows = [row for frame in frames for row in frame[COLUMNS].itertuples(index=False, name=None)]
    if not rows:
        return
    topic, partition = rows[0][0], rows[0][1]
    assert {(topic, partition)} == {(row[0], row[1]) for row in rows}, (
        "a task must hold one partition; do not set minPartitions"
    )
    producer = _producer(job, partition)
    producer.init_transactions(TIMEOUT_S)  # fences an attempt that may still be alive, and ends what it left open
    consumer = Consumer(
        {
            **job.config.librdkafka(job.bootstrap),
            "group.id": job.application,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    try:
        done = _committed(consumer, topic, partition)
        fresh = [row for row in rows if row[2] >= done]
        if fresh:
            _write(producer, consumer, job, topic, partition, fresh)
    finally:
        consumer.close()
    seconds = time.perf_counter() - began
    yield pd.DataFrame(
        [(number, topic, partition, rows[0][2], rows[-1][2], len(rows), len(rows) - len(fresh), len(fresh), seconds)],
        columns=[column.split()[0] for column in PROGRESS.split(", ")],
    )


def _producer(job: CopyJob, partition: int) -> Producer:
    return Producer(
        {
            **job.config.librdkafka(job.bootstrap),
            "transactional.id": f"{job.application}-{job.source}-{partition}",
            "linger.ms": 5,
            "log_level": 2,
        }
    )


def _committed(consumer: Consumer, topic: str, partition: int) -> int:
    """How far earlier attempts came. Reading committed offsets waits until none are in doubt (KIP-447)."""
    (at,) = _patiently(lambda: consumer.committed([TopicPartition(topic, partition)], timeout=TIMEOUT_S))
    if at.error is not None:
        raise KafkaException(at.error)
    return max(0, at.offset)


def _write(
    producer: Producer, consumer: Consumer, job: CopyJob, topic: str, partition: int, rows: list[tuple[Any, ...]]
) -> None:
    producer.begin_transaction()
    try:
        for _, _, _, timestamp, key, value, headers in rows:
            _produce(producer, job.target, partition, timestamp, key, value, headers)
        end = [TopicPartition(topic, partition, rows[-1][2] + 1)]
        _patiently(lambda: producer.send_offsets_to_transaction(end, consumer.consumer_group_metadata(), TIMEOUT_S))
        _patiently(lambda: producer.commit_transaction(TIMEOUT_S))
    except KafkaException:
        if not _is_fatal(producer):
            producer.abort_transaction(TIMEOUT_S)
        raise


def _is_fatal(producer: Producer) -> bool:
    error = getattr(producer, "fatal_error", lambda: None)()
    return error is not None


def _produce(
    producer: Producer,
    target: str,
    partition: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[Mapping[str, Any]] | None,
) -> None:
    """One record as it is in the source: its partition, key, value, headers in their order, and timestamp."""
    pairs = [(header["key"], header["value"]) for header in headers] if headers is not None else []
    while True:
        try:
            producer.produce(target, value=value, key=key, partition=partition, timestamp=timestamp, headers=pairs)
            return
        except BufferError:
            producer.poll(0.1)


def _patiently(call: Any) -> Any:
    """Again, where the client says that a call may be repeated: a coordinator is moving."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return call()
        except KafkaException as refused:
            error = refused.args[0]
            if not error.retriable() or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
