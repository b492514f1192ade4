"""Records the log directories below `tests/pipeline/data`, on a real Kafka: `python -m tests.pipeline.record_logs`.

Each is one broker's data directory after a few transactions, without files that say nothing about them. The faults that
need a broker's help are made here (`hang`: a late transactional batch, accepted since verification is off); the others
are planted into copies by the tests.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic
from tests.oracle.brokers import ALIKE, RealBroker
from tests.oracle.player import Broker, Neighbour
from tests.oracle.real_kafka import RealKafka, class_path, java
from tests.oracle.scenario import load_all
from tests.oracle.session import Stage

from odradek.records.record import Record, build_batch
from odradek_pipeline.demo.raw_produce import produce_raw

DATA = Path(__file__).parent / "data"
RECORDED = ("tv2", "tv1", "hang", "cleaned", "idle", "emptied", "emptied-0")
WANTED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint", "partition.metadata")
ROOT_FILES = (
    ".kafka_cleanshutdown",
    "meta.properties",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
)


def transactions(bootstrap: str, transactional_id: str, *, count: int, copy_from: str | None = None) -> Producer:
    """`count` transactions over three partitions, every third one aborted; with offsets if there is a source."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0})
    consumer = None
    if copy_from is not None:
        consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": f"{transactional_id}-group", "enable.auto.commit": False}
        )
        consumer.assign([TopicPartition(copy_from, 0, 0)])
    producer.init_transactions(30)
    for number in range(count):
        producer.begin_transaction()
        for partition in range(1 + number % 3):
            for record in range(2):
                producer.produce("orders", value=f"{transactional_id}-{number}-{record}", partition=partition)
            producer.flush()
            producer.produce("orders", value=f"{transactional_id}-{number}-last", partition=partition)
        producer.flush()
        if consumer is not None and copy_from is not None:
            position = [TopicPartition(copy_from, 0, number + 1)]
            producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), 30)
        if number % 3 == 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    if consumer is not None:
        consumer.close()
    return producer


def plain(bootstrap: str, *, idempotent: bool) -> None:
    """Some batches without transactions."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": idempotent,
            "linger.ms": 0,
            "compression.type": "zstd" if idempotent else "none",
        }
    )
    for number in range(6):
        producer.produce("plain", value=f"plain-{number}", partition=number % 2)
        producer.flush()


def late_batch(kafka: RealKafka, transactional_id: str) -> int:
    """A transactional batch after its transaction has ended, straight to the partition with Produce v11 (KIP-890)."""
    described = tool(
        kafka,
        "TransactionsCommand",
        "--bootstrap-server",
        kafka.bootstrap,
        "describe",
        "--transactional-id",
        transactional_id,
    )
    columns = described.splitlines()[1].split()
    names = described.splitlines()[0].split()
    producer_id, epoch = int(columns[names.index("ProducerId")]), int(columns[names.index("ProducerEpoch")])
    batch = build_batch(
        [Record(value=b"late", timestamp=int(time.time() * 1000))],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=27,
        transactional=True,
    )
    return produce_raw(kafka.bootstrap, transactional_id, "orders", 0, batch)


def java_transactions(kafka: RealKafka, transactional_id: str, count: int, *, leave_open: bool) -> None:
    """The same with Kafka's own client: librdkafka does not speak level 2."""
    source = Path(__file__).parent / "Transactions.java"
    arguments = [kafka.bootstrap, transactional_id, str(count), str(leave_open).lower()]
    subprocess.run([java(), "-cp", class_path(), str(source), *arguments], check=True, timeout=120)


def tool(kafka: RealKafka, name: str, *arguments: str) -> str:
    """What one of Kafka's own tools prints."""
    done = subprocess.run(
        [java(), "-Xmx256m", "-cp", class_path(), f"org.apache.kafka.tools.{name}", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.stdout


def keep(directory: Path, name: str) -> None:
    """The partition directories with anything in them, as one compressed archive."""
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for file in sorted(path for path in directory.rglob("*") if path.is_file()):
            relative = file.relative_to(directory)
            partition = len(relative.parts) == 2 and file.name.endswith(WANTED)
            if partition or file.name in ROOT_FILES:
                information = archive.gettarinfo(file, str(relative))
                information.mtime, information.uname, information.gname, information.uid, information.gid = (
                    0,
                    "",
                    "",
                    0,
                    0,
                )
                with file.open("rb") as content:
                    archive.addfile(information, content)
    DATA.mkdir(exist_ok=True)
    (DATA / f"{name}.tar.gz").write_bytes(gzip.compress(buffer.getvalue(), 9, mtime=0))


COMPACTED = {"cleanup.policy": "compact", "segment.ms": "300", "min.cleanable.dirty.ratio": "0.001"}
FAST_CLEANER = {
    "log.cleaner.backoff.ms": "200",
    "log.index.size.max.bytes": "4096",
    "metadata.max.idle.interval.ms": "0",
}


def record_cleaned() -> None:
    """Compacted topics with transactions, and offsets in transactions, after the cleaner has passed several times.

    It marks batches with a delete horizon (KIP-534), keeps a producer's last batch without its records, and removes
    markers whose horizon has come (`gone`).
    """
    with RealKafka(transaction_version=2, properties=FAST_CLEANER) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        topics = [
            NewTopic("ledger", 1, 1, config=COMPACTED | {"delete.retention.ms": "86400000"}),
            NewTopic("gone", 1, 1, config=COMPACTED | {"delete.retention.ms": "1"}),
            NewTopic("plain", 2, 1),
        ]
        for future in admin.create_topics(topics).values():
            future.result()
        plain(kafka.bootstrap, idempotent=False)
        ledger(kafka.bootstrap, "first", count=1)
        for topic in ("__consumer_offsets", "__transaction_state"):
            settings = COMPACTED | ({"delete.retention.ms": "86400000"} if topic == "__consumer_offsets" else {})
            entries = [ConfigEntry(*pair, incremental_operation=AlterConfigOpType.SET) for pair in settings.items()]
            resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
            for future in admin.incremental_alter_configs([resource]).values():
                future.result()
        producers = [ledger(kafka.bootstrap, f"shop-{number % 3}", count=8) for number in range(6)]
        time.sleep(3)
        del producers
        kafka.kill()
        trim(kafka.directory / "data")
        keep(kafka.directory / "data", "cleaned")


def ledger(bootstrap: str, transactional_id: str, *, count: int) -> Producer:
    """Transactions over the same few keys, with tombstones and offsets, every third one aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{transactional_id}-group"})
    consumer.assign([TopicPartition("plain", 0, 0)])
    producer.init_transactions(30)
    for number in range(count):
        producer.begin_transaction()
        for topic in ("ledger", "gone"):
            for key in range(3):
                producer.produce(topic, key=f"account-{key}", value=f"{transactional_id}-{number}", partition=0)
            if number % 4 == 1:
                producer.produce(topic, key="account-1", value=None, partition=0)
        producer.flush()
        position = [TopicPartition("plain", 0, number + 1)]
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), 30)
        producer.abort_transaction(30) if number % 3 == 2 else producer.commit_transaction(30)
        if number % 4 == 3:
            time.sleep(0.4)  # the segment is rolled
    consumer.close()
    time.sleep(0.5)
    return producer


def record_idle() -> None:
    """A commit, and a transaction that adds the same partition, sends nothing, and is aborted: in the same epoch."""
    with RealKafka(transaction_version=1, properties={"metadata.max.idle.interval.ms": "0"}) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for future in admin.create_topics([NewTopic("orders", 1, 1)]).values():
            future.result()
        # The partition is added when the first record waits, and the record is purged before it is sent.
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "shop", "linger.ms": 5000})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", value="sent", partition=0)
        producer.flush()
        producer.commit_transaction(30)
        producer.begin_transaction()
        producer.produce("orders", value="never sent", partition=0)
        producer.poll(1)
        producer.purge(in_flight=False)
        producer.abort_transaction(30)
        time.sleep(1)
        kafka.kill()
        trim(kafka.directory / "data")
        keep(kafka.directory / "data", "idle")


def record_emptied(name: str, level: int) -> None:
    """What the scenarios of compaction leave (`tests/oracle/scenarios/compaction.txt`): batches without records."""
    with tempfile.TemporaryDirectory() as directory:

        @contextmanager
        def start(level: int, properties: Mapping[str, str], neighbour: Neighbour) -> Iterator[Broker]:
            wanted = {**ALIKE, **FAST_CLEANER, **properties}
            kafka = RealKafka(transaction_version=level, properties=wanted, directory=Path(directory))
            with kafka:
                yield RealBroker(kafka, neighbour)
                kafka.stop()

        with Stage([each for each in load_all() if each.topic == "compaction"], level, start) as stage:
            for scenario in stage.scenarios:
                stage.play(scenario)
        trim(Path(directory) / "data")
        keep(Path(directory) / "data", name)


def record(name: str) -> None:
    """One recording."""
    special: Mapping[str, Callable[[], None]] = {
        "cleaned": record_cleaned,
        "idle": record_idle,
        "emptied": lambda: record_emptied("emptied", 2),
        "emptied-0": lambda: record_emptied("emptied-0", 0),
    }
    if name in special:
        special[name]()
        return
    version = 2 if name == "tv2" else 1
    properties = {
        "transaction.partition.verification.enable": "false" if name == "hang" else "true",
        "log.index.interval.bytes": "256",
        "log.index.size.max.bytes": "4096",
        "metadata.max.idle.interval.ms": "0",
    }
    with RealKafka(transaction_version=version, properties=properties) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        topics = [NewTopic("orders", 3, 1, config={"segment.bytes": "1048576"}), NewTopic("plain", 2, 1)]
        for future in admin.create_topics(topics).values():
            future.result()
        plain(kafka.bootstrap, idempotent=True)
        plain(kafka.bootstrap, idempotent=False)
        if name == "tv2":
            for count, leave_open in ((9, False), (3, True)):  # the second one fences the first
                java_transactions(kafka, "shop", count, leave_open=leave_open)
        else:
            producers = [transactions(kafka.bootstrap, "shop", count=9, copy_from="plain")]
        if name == "hang":
            time.sleep(1)
            assert 0 == late_batch(kafka, "shop")
            found = tool(
                kafka,
                "TransactionsCommand",
                "--bootstrap-server",
                kafka.bootstrap,
                "find-hanging",
                "--broker-id",
                "1",
                "--max-transaction-timeout",
                "0",
            )
            DATA.mkdir(exist_ok=True)
            (DATA / "hang.find-hanging.txt").write_text(found)
        if name == "tv1":
            producers.append(transactions(kafka.bootstrap, "shop", count=3))  # fences the one before
            producers[-1].begin_transaction()
            producers[-1].produce("orders", value="still open", partition=2)
            producers[-1].flush()
        time.sleep(1)
        kafka.stop() if name == "hang" else kafka.kill()
        trim(kafka.directory / "data")
        keep(kafka.directory / "data", name)
        shutil.rmtree(kafka.directory / "data", ignore_errors=True)


def trim(directory: Path) -> None:
    """Index files of active segments are allocated in advance: without the zeros a recording is a few KB."""
    for index in [*directory.rglob("*.index"), *directory.rglob("*.timeindex")]:
        content = index.read_bytes().rstrip(b"\0")
        entry = 8 if index.suffix == ".index" else 12
        index.write_bytes(content + bytes(-len(content) % entry))


if __name__ == "__main__":
    for wanted in sys.argv[1:] or RECORDED:
        record(wanted)
        print("recorded", wanted, flush=True)
