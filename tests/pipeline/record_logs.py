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
import time
from io import BytesIO
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.oracle.real_kafka import RealKafka, class_path, java

from odradek.records.record import Record, build_batch
from odradek_pipeline.raw_produce import produce_raw

DATA = Path(__file__).parent / "data"
RECORDED = ("tv2", "tv1", "hang")
WANTED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint", "partition.metadata")
ROOT_FILES = (
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


def record(name: str) -> None:
    """One recording."""
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
