"""Real brokers for the recorded situations: started, told to make topics, written to, stopped, and kept."""

from __future__ import annotations

import gzip
import tarfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from confluent_kafka.cimpl import NewTopic
from tests.oracle.real_kafka import RealKafka
from tests.pipeline.record_logs import trim

__all__ = [
    "STARTED",
    "Situation",
    "admin",
    "cluster",
    "configure",
    "create",
    "done",
    "keep",
    "launched",
    "plain",
    "started",
    "stopped",
]

QUIET = {"metadata.max.idle.interval.ms": "0", "log.index.size.max.bytes": "4096", "log.index.interval.bytes": "512"}
SMALL_JVM = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
STARTED: list[RealKafka] = []
"""All of one situation, so that none is left running."""
_ZEROS_KEPT = 65_536
_LEFT_OUT = (".lock", ".deleted", ".tmp")
Kafka = TypeVar("Kafka", bound=RealKafka)
Situation = Callable[[], "list[RealKafka]"]


def started(level: int = 2, **properties: str) -> RealKafka:
    """One broker."""
    return launched(RealKafka, level, properties)


def launched(kind: type[Kafka], level: int, properties: Mapping[str, str]) -> Kafka:
    """One of its own kind; dots in the names of properties are underscores."""
    named = {name.replace("_", "."): value for name, value in properties.items()}
    kafka = kind(transaction_version=level, properties=QUIET | named, jvm_options=SMALL_JVM, start_timeout_s=240)
    STARTED.append(kafka)
    kafka.start()
    return kafka


def admin(kafka: RealKafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap})


def done(futures: Mapping[Any, Future[Any]]) -> None:
    for future in futures.values():
        future.result()


def create(kafka: RealKafka, name: str, partitions: int = 1, replicas: int = 1, **config: Any) -> None:
    named = {key.replace("_", "."): value for key, value in config.items()}
    client = admin(kafka)  # kept: without it nobody would wait for the answers
    done(client.create_topics([NewTopic(name, partitions, replicas, config=named)]))


def configure(kafka: RealKafka, topic: str, **config: str) -> None:
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in config.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    client = admin(kafka)
    done(client.incremental_alter_configs([resource]))


def plain(kafka: RealKafka, topic: str, count: int, **options: Any) -> None:
    """Batches of one record each."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0, **options})
    for number in range(count):
        producer.produce(topic, value=f"{topic}-{number}-" + "x" * 40, partition=0)
        producer.flush()


def stopped(kafka: RealKafka) -> list[RealKafka]:
    time.sleep(0.5)
    kafka.stop()
    return [kafka]


def cluster(
    count: int = 3, *, level: int = 2, others: Mapping[str, str] | None = None, **properties: str
) -> list[RealKafka]:
    """Three brokers, or as many as are asked for; the first is the controller as well.

    `others` are properties that all but the first have otherwise.
    """
    in_sync = str(count - 1)
    named = {
        "offsets.topic.replication.factor": str(count),
        "transaction.state.log.replication.factor": str(count),
        "transaction.state.log.min.isr": in_sync,
        "min.insync.replicas": in_sync,
        "default.replication.factor": str(count),
        "replica.high.watermark.checkpoint.interval.ms": "300",
        "replica.lag.time.max.ms": "3000",
        **{name.replace("_", "."): value for name, value in properties.items()},
    }
    first = started(level, **{name.replace(".", "_"): value for name, value in named.items()})
    nodes = [first]
    for node_id in range(2, count + 1):
        node = RealKafka(
            properties=QUIET | named | dict(others or {}),
            jvm_options=SMALL_JVM,
            start_timeout_s=240,
            node_id=node_id,
            joins=first,
        )
        STARTED.append(node)
        node.start()
        nodes.append(node)
    deadline = time.monotonic() + 60
    client = admin(first)
    while len(client.list_topics(timeout=10).brokers) < count and time.monotonic() < deadline:
        time.sleep(0.3)
    return nodes


def _without_zeros(content: bytes) -> bytes:
    """What a segment ends in that was allocated in advance, but for so much that it can be seen."""
    used = len(content.rstrip(b"\0"))
    return content[: used + _ZEROS_KEPT]


def keep(nodes: list[RealKafka], path: Path) -> None:
    """The log directories of all nodes as one archive, each below `broker-N`, and others of it below `broker-N-…`."""
    buffer = BytesIO()
    directories = [
        (f"broker-{number}{data.name.removeprefix('data')}", data)
        for number, node in enumerate(nodes, 1)
        for data in sorted(node.directory.glob("data*"))
    ]
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in directories:
            trim(data)
            for file in sorted(one for one in data.rglob("*") if one.is_file() and not one.name.endswith(_LEFT_OUT)):
                information = archive.gettarinfo(file, f"{name}/{file.relative_to(data)}")
                information.mtime, information.uid, information.gid = 0, 0, 0
                information.uname = information.gname = ""
                content = _without_zeros(file.read_bytes()) if file.suffix == ".log" else file.read_bytes()
                information.size = len(content)
                archive.addfile(information, BytesIO(content))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(buffer.getvalue(), 9, mtime=0))
