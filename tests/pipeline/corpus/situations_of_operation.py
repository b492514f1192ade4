"""What healthy clusters look like whose operators and settings are less usual."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.cimpl import NewPartitions
from tests.clients.toolchain import jars
from tests.oracle.asking import ask
from tests.oracle.real_kafka import RealKafka
from tests.pipeline.corpus.kafkas import admin, cluster, configure, create, done, launched, plain, started, stopped
from tests.pipeline.record_logs import java_transactions, transactions

from odradek.wire.registry import ApiKey

__all__ = ["OF_OPERATION"]

KAFKAS_TESTS = Path(__file__).parents[2] / "kafka" / "pom.xml"
"""Whose jars have a store for segments that is a folder."""
LOG_CONTEXT = "org/apache/kafka/common/utils/LogContext"


class KafkaOfTwoDisks(RealKafka):
    """With two log directories."""

    def addresses(self) -> dict[str, str]:
        return {**super().addresses(), "log.dirs": f"{self.directory / 'data'},{self.directory / 'data-b'}"}


def two_disks() -> list[RealKafka]:
    """A broker of two log directories, between which a replica moves."""
    kafka = launched(KafkaOfTwoDisks, 2, {})
    create(kafka, "orders", 3)
    create(kafka, "plain")
    java_transactions(kafka, "shop", 4, leave_open=False)
    plain(kafka, "plain", 5)
    for number in range(3):
        here = (kafka.directory / "data" / f"orders-{number}").exists()
        path = str(kafka.directory / ("data-b" if here else "data"))
        moves = [{"path": path, "topics": [{"name": "orders", "partitions": [number]}]}]
        answer = ask(("127.0.0.1", kafka.port), ApiKey.ALTER_REPLICA_LOG_DIRS, 2, {"dirs": moves})
        assert answer.results[0].partitions[0].error_code == 0, answer
    time.sleep(3)
    java_transactions(kafka, "shop", 4, leave_open=False)
    return stopped(kafka)


def preallocated() -> list[RealKafka]:
    """Segments are allocated in advance, and end in zeros when the broker is killed."""
    kafka = started(2, log_preallocate="true", log_segment_bytes="1048576")
    create(kafka, "orders", 3)
    create(kafka, "plain")
    plain(kafka, "plain", 8, **{"enable.idempotence": True})
    java_transactions(kafka, "shop", 4, leave_open=True)
    kafka.kill()
    return [kafka]


def times_of_the_broker() -> list[RealKafka]:
    """LogAppendTime, whatever producers say; and times of producers that are decades old."""
    kafka = started(2)
    create(kafka, "orders", 3, message_timestamp_type="LogAppendTime")
    create(kafka, "plain", message_timestamp_type="LogAppendTime")
    create(kafka, "old")
    java_transactions(kafka, "shop", 4, leave_open=False)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 100})
    for number in range(9):
        for topic in ("plain", "old"):
            producer.produce(
                topic, value=f"{number}", timestamp=1_000 * (9 - number), headers={"a": b"1", "none": None}
            )
        if number % 3 == 2:
            producer.flush()
    producer.flush()
    return stopped(kafka)


def snapshots_of_metadata() -> list[RealKafka]:
    """Metadata snapshots are written, and topics come, go, and grow."""
    kafka = started(2, metadata_log_max_record_bytes_between_snapshots="600")
    client = admin(kafka)
    for number in range(4):
        create(kafka, f"t{number}", 2)
        plain(kafka, f"t{number}", 2)
        time.sleep(0.5)
    create(kafka, "orders", 1)
    done(client.create_partitions([NewPartitions("orders", 3)]))
    time.sleep(1)
    java_transactions(kafka, "shop", 4, leave_open=False)
    done(client.delete_topics(["t1", "t2"]))
    create(kafka, "t1", 1)
    plain(kafka, "t1", 2)
    time.sleep(1)
    return stopped(kafka)


def expired() -> list[RealKafka]:
    """Brokers forget producers, and coordinators transactional ids."""
    kafka = started(
        2,
        producer_id_expiration_ms="1000",
        producer_id_expiration_check_interval_ms="300",
        transactional_id_expiration_ms="1500",
        transaction_remove_expired_transaction_cleanup_interval_ms="300",
    )
    create(kafka, "orders", 3)
    create(kafka, "plain")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True, "linger.ms": 0})
    for turn in range(3):
        for number in range(4):
            producer.produce("plain", value=f"{turn}-{number}", partition=0)
            producer.flush()
        java_transactions(kafka, "shop", 3, leave_open=False)
        transactions(kafka.bootstrap, "till", count=2)
        time.sleep(3)
    return stopped(kafka)


def no_longer_compacted() -> list[RealKafka]:
    """A topic was compacted, and is not any more; its cleaner's checkpoint stays for a while."""
    kafka = started(2, log_cleaner_backoff_ms="200")
    settings: dict[str, Any] = {"segment_ms": "300", "min_cleanable_dirty_ratio": "0.001", "delete_retention_ms": "1"}
    create(kafka, "orders", 3, cleanup_policy="compact", **settings)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "shop", "linger.ms": 0})
    producer.init_transactions(30)
    for number in range(12):
        producer.begin_transaction()
        for key in range(2):
            value = None if number % 5 == 4 else str(number)
            producer.produce("orders", key=f"k{key}", value=value, partition=number % 2)
        producer.flush()
        producer.abort_transaction(30) if number % 4 == 3 else producer.commit_transaction(30)
        time.sleep(0.25)
    time.sleep(1.5)
    configure(kafka, "orders", cleanup_policy="delete")
    transactions(kafka.bootstrap, "till", count=4)
    return stopped(kafka)


def a_new_disk() -> list[RealKafka]:
    """A broker comes back with an empty disk, and copies everything."""
    nodes = cluster()
    create(nodes[0], "orders", 3, 3)
    create(nodes[0], "plain", 1, 3)
    java_transactions(nodes[0], "shop", 4, leave_open=False)
    plain(nodes[0], "plain", 5)
    nodes[2].stop()
    shutil.rmtree(nodes[2].directory / "data")
    java_transactions(nodes[0], "shop", 2, leave_open=False)
    nodes[2].start()
    time.sleep(6)
    java_transactions(nodes[0], "shop", 2, leave_open=False)
    time.sleep(1)
    for node in (nodes[2], nodes[1], nodes[0]):
        node.stop()
    return nodes


def a_coordinator_dies() -> list[RealKafka]:
    """The leader of the coordinators' log is killed between transactions, and another goes on with them."""
    nodes = cluster()
    create(nodes[0], "orders", 3, 3)
    java_transactions(nodes[0], "shop", 3, leave_open=False)
    transactions(nodes[0].bootstrap, "till", count=3)
    for node in (nodes[1], nodes[2]):
        node.kill()
        time.sleep(4)
        java_transactions(nodes[0], "shop", 3, leave_open=False)
        transactions(nodes[0].bootstrap, "till", count=3)
        node.start()
        time.sleep(5)
    for node in (nodes[2], nodes[1], nodes[0]):
        node.stop()
    return nodes


def tiered() -> list[RealKafka]:
    """Segments are copied to a store (KIP-405), and removed here before retention asks for it: a log begins here behind
    where it begins, and its leader epochs, producers and aborted transactions are those of the whole of it."""
    folder = Path(tempfile.mkdtemp(prefix="tiered-"))
    properties = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.storage.manager.class.path": _store_of_kafkas_tests(folder / "classes"),
        "remote.log.storage.manager.impl.prefix": "rsm.config.",
        "rsm.config.dir": str(folder / "store"),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
        "remote.log.manager.task.interval.ms": "500",
        "log.retention.check.interval.ms": "500",
        "log.segment.delete.delay.ms": "0",
    }
    kafka = launched(RealKafka, 2, properties)
    settings: dict[str, Any] = {
        "remote_storage_enable": "true",
        "local_retention_ms": "1",
        "retention_ms": "-1",
        "segment_ms": "300",
    }
    create(kafka, "orders", 3, **settings)
    create(kafka, "plain", **settings)
    create(kafka, "trimmed", **settings)
    for _ in range(4):
        java_transactions(kafka, "shop", 3, leave_open=False)
        transactions(kafka.bootstrap, "till", count=3)
        for topic in ("plain", "trimmed"):
            plain(kafka, topic, 3, **{"enable.idempotence": True})
        time.sleep(0.5)
    deadline = time.monotonic() + 60
    while not _begins_later(kafka, "orders-0") and time.monotonic() < deadline:
        time.sleep(0.5)
    client = admin(kafka)
    done(client.delete_records([TopicPartition("trimmed", 0, 5)]))
    kafka.stop()
    kafka.start()
    java_transactions(kafka, "shop", 3, leave_open=True)
    kafka.kill()
    shutil.rmtree(folder)
    assert _begins_later(kafka, "orders-0"), "the store has taken nothing"
    return [kafka]


def _store_of_kafkas_tests(folder: Path) -> str:
    """The class path of a store that is a folder; it is of an earlier release than the broker, and needs a class that
    has another name since."""
    (store,) = jars(KAFKAS_TESTS).glob("kafka-storage-*-test.jar")
    (clients,) = jars(KAFKAS_TESTS).glob("kafka-clients-?.?.?.jar")
    with ZipFile(clients) as archive:
        names = archive.namelist()
        archive.extractall(folder, [name for name in names if name.startswith(LOG_CONTEXT)])
    return f"{store}:{folder}"


def _begins_later(kafka: RealKafka, partition: str) -> bool:
    return not (kafka.directory / "data" / partition / f"{0:020}.log").exists()


OF_OPERATION = (
    tiered,
    two_disks,
    preallocated,
    times_of_the_broker,
    snapshots_of_metadata,
    expired,
    no_longer_compacted,
    a_new_disk,
    a_coordinator_dies,
)
