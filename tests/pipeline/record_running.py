"""Copies of a real Kafka's directory, made while it runs: `python -m tests.pipeline.record_running [LEVEL…]`.

Producers of transactions, idempotent ones and a compacted topic write as fast as they can, segments roll twice a
second, the cleaner runs, records are deleted, and topics come and go. The directory is copied file by file meanwhile,
as `cp -r` does it, over and over at random moments (`--seed`); then the broker is killed in the middle of it.
`--brokers 2` copies the directories of two brokers one after the other, while leaders change; `--release 3.9` runs an
older Kafka. Every copy is audited, with `--spark` on Spark as well: whatever is bad, or prints a command that
destroys, is a false alarm, for nothing has gone wrong. Copies are kept, small, in `data/running`, which the tests audit
again: `--keep` of each broker and the last one, and with `--false FOLDER` each false alarm as it is.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import os
import random
import shutil
import sys
import tarfile
import tempfile
import threading
import time
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Producer, TopicPartition
from tests.oracle.asking import ask
from tests.oracle.real_kafka import RealKafka
from tests.oracle.releases.real import ReleasedKafka
from tests.pipeline.corpus.kafkas import QUIET, STARTED, admin, cluster, create, done, started
from tests.pipeline.record_logs import trim
from tests.pipeline.running_copies import DESTROYS

from odradek.wire.registry import ApiKey
from odradek_pipeline.audit.result import Result
from odradek_pipeline.jobs.audit_logs import audit_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["RUNNING", "alarms", "unpacked"]

RUNNING = Path(__file__).parent / "data" / "running"
COPIES = 12
PAUSE_S = 0.05, 1.5
BUSY: dict[str, str] = {"log_cleaner_backoff_ms": "500", "log_retention_check_interval_ms": "1000"}
ROLLS: dict[str, Any] = {"segment_ms": "500", "file_delete_delay_ms": "1000"}
CLEANED: dict[str, Any] = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0.01",
    "max_compaction_lag_ms": "1000",
}
_LEFT_OUT = (".lock", ".tmp", ".deleted")


def alarms(*directories: Path) -> list[str]:
    """What an audit of the directories of brokers that are well tells, and should not."""
    return alarms_of(audit_logs(directories, not_after=next_year()))


def next_year() -> int:
    """Kept copies are older than the clock on the wall, ms."""
    return time.time_ns() // 1_000_000 + 365 * 86_400_000


def alarms_of(result: Result) -> list[str]:
    """What is bad, and every command that destroys."""
    rows = result.anomalies.to_dict("records")
    told = [
        f"{row['anomaly']} {row['topic']}-{row['partition']}: {row['detail']}"
        for row in rows
        if row["severity"] == "bad"
    ]
    told += [f"{one.problem} {one.path}: {one.detail}" for one in result.problems if one.severity == "bad"]
    assert result.incidents is not None
    return told + [run for run in result.incidents["run"] if any(word in run for word in DESTROYS)]


def alarms_on_spark(session: SparkSession, *directories: Path) -> list[str]:
    """The same of an audit on Spark."""
    from odradek_pipeline.jobs.audit_logs_spark import audit_logs_on_spark

    with tempfile.TemporaryDirectory(prefix="odradek-running-tables-") as out:
        return alarms_of(audit_logs_on_spark(session, directories, Path(out), not_after=next_year()))


def unpacked(archive: Path, folder: Path) -> Path:
    """A kept copy."""
    with tarfile.open(archive) as kept:
        kept.extractall(folder, filter="data")
    return folder


class Load:
    """Clients that write until they are told to end."""

    def __init__(self, kafka: RealKafka, *, brokers: int = 1) -> None:
        self.kafka, self.bootstrap, self.brokers = kafka, kafka.bootstrap, brokers
        self.is_over = threading.Event()
        self.counts = {"transactions": 0, "records": 0, "deletions": 0, "elections": 0}
        self.threads = [
            threading.Thread(target=self.safely, args=(work, number), daemon=True)
            for work, number in (
                (self.transactions, 0),
                (self.transactions, 1),
                (self.compacted, 2),
                (self.plain, 3),
                (self.deleted, 4),
                (self.leaders, 5),
            )
        ]

    def safely(self, work: object, number: int) -> None:
        while not self.is_over.is_set():
            with contextlib.suppress(KafkaException, OSError):  # a leader changes, or the broker is killed under it
                work(number)  # type: ignore[operator]
            self.is_over.wait(0.2)

    def producer(self, **more: object) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0, "log_level": 0, **more})

    def transactions(self, number: int) -> None:
        producer = self.producer(**{"transactional.id": f"shop-{number}", "transaction.timeout.ms": 10_000})
        producer.init_transactions(60)
        while not self.is_over.is_set():
            producer.begin_transaction()
            for partition in range(2):
                producer.produce("orders", value=b"x" * 60, partition=partition)
            producer.flush(10)
            if self.counts["transactions"] % 3 == 2:
                producer.abort_transaction(10)
            else:
                producer.commit_transaction(10)
            self.counts["transactions"] += 1

    def compacted(self, number: int) -> None:
        producer = self.producer(**{"enable.idempotence": True})
        while not self.is_over.is_set():
            producer.produce("kv", key=f"k{self.counts['records'] % 7}", value=b"y" * 40)
            producer.flush(10)
            self.counts["records"] += 1

    def plain(self, number: int) -> None:
        producer = self.producer(**{"enable.idempotence": True})
        while not self.is_over.is_set():
            producer.produce("plain", value=b"z" * 80)
            producer.flush(10)

    def deleted(self, number: int) -> None:
        """Records are deleted up to where a log ends, and a topic comes and goes."""
        client = admin(self.kafka)
        while not self.is_over.wait(1.5):
            for topic in ("plain", "orders"):
                done(client.delete_records([TopicPartition(topic, 0, -1)], request_timeout=5))
            name = f"short-{self.counts['deletions']}"
            create(self.kafka, name, 1, self.brokers)
            self.producer().produce(name, value=b"s")
            done(client.delete_topics([name]))
            self.counts["deletions"] += 1

    def leaders(self, number: int) -> None:
        """The other broker becomes the preferred leader of every partition, and then the leader."""
        if self.brokers == 1:
            self.is_over.wait()
            return
        address = ("127.0.0.1", self.kafka.port)
        while not self.is_over.wait(5.0):  # oftener, and no transaction comes to its end
            order = [1, 2] if self.counts["elections"] % 2 else [2, 1]
            counts = {"orders": 2, "kv": 1, "plain": 1, "__transaction_state": 3}
            moves = [
                {"name": name, "partitions": [{"partition_index": one, "replicas": order} for one in range(count)]}
                for name, count in counts.items()
            ]
            ask(address, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, {"timeout_ms": 5000, "topics": moves})
            wanted = [{"topic": name, "partitions": [*range(count)]} for name, count in counts.items()]
            ask(address, ApiKey.ELECT_LEADERS, 2, {"election_type": 0, "topic_partitions": wanted, "timeout_ms": 5000})
            self.counts["elections"] += 1

    def __enter__(self) -> Load:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        for thread in self.threads:
            thread.join(30)


def copied(source: Path, target: Path) -> None:
    """File by file, in the order of their names; what goes meanwhile is left out, as by rsync."""
    for folder, _, names in sorted(os.walk(source)):
        there = target / Path(folder).relative_to(source)
        there.mkdir(parents=True, exist_ok=True)
        for name in sorted(names):
            with contextlib.suppress(FileNotFoundError):
                shutil.copy2(Path(folder) / name, there / name)


def kept(directory: Path, path: Path) -> None:
    """As an archive, with the times of its files, which say what was copied when."""
    trim(directory)
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for file in sorted(one for one in directory.rglob("*") if one.is_file() and not one.name.endswith(_LEFT_OUT)):
            information = archive.gettarinfo(file, str(file.relative_to(directory)))
            information.uid = information.gid = 0
            information.uname = information.gname = ""
            archive.addfile(information, BytesIO(file.read_bytes()))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(buffer.getvalue(), 9, mtime=0))


def launched(level: int, release: str, brokers: int) -> list[RealKafka]:
    """The brokers that are copied."""
    if release != "4.4":
        properties = QUIET | {name.replace("_", "."): value for name, value in BUSY.items()}
        kafka = ReleasedKafka(release, transaction_version=level or None, properties=properties)
        STARTED.append(kafka)
        kafka.start()
        return [kafka]
    return cluster(brokers, level=level, others=None, **BUSY) if brokers > 1 else [started(level, **BUSY)]


def record(level: int, arguments: argparse.Namespace, session: SparkSession | None) -> int:
    """Copies of one cluster; how many of them are false alarms."""
    copies, brokers, false = arguments.copies, arguments.brokers, 0
    dice = random.Random(arguments.seed + level)
    with tempfile.TemporaryDirectory(prefix="odradek-running-") as scratch:
        kafkas = launched(level, arguments.release, brokers)
        create(kafkas[0], "orders", 2, brokers, **ROLLS)
        create(kafkas[0], "kv", 1, brokers, **ROLLS, **CLEANED)
        create(kafkas[0], "plain", 1, brokers, **ROLLS, retention_ms="3000")
        with Load(kafkas[0], brokers=brokers) as load:
            while load.counts["transactions"] < 5:
                time.sleep(0.2)
            for number in range(copies):
                if number == copies - 1:
                    for kafka in kafkas:
                        kafka.kill()  # the last copy is of what a crash has left
                here = Path(scratch) / f"{number}"
                for kafka in kafkas:
                    copied(kafka.directory / "data", here / f"broker-{kafka.node_id}")
                if brokers == 1 and (number < arguments.keep or (arguments.keep and number == copies - 1)):
                    kept(here / "broker-1", RUNNING / f"level_{level}-{number}.tar.gz")
                time.sleep(dice.uniform(*PAUSE_S))
        for number in range(copies):
            here = Path(scratch) / f"{number}"
            brokers_here = sorted(here.iterdir())
            told = alarms(*brokers_here)
            if session is not None:
                told += [f"on Spark: {one}" for one in alarms_on_spark(session, *brokers_here)]
            false += bool(told)
            for one in told:
                print(f"level {level}, copy {number}: {one}", flush=True)
            if told and arguments.false is not None:
                shutil.copytree(here, arguments.false / f"level_{level}-{brokers}-{number}", dirs_exist_ok=True)
        of = f"Kafka {arguments.release}, level {level}, {brokers} broker{'s' if brokers > 1 else ''}"
        print(f"{of}: {copies} copies, {false} false alarms; {load.counts}", flush=True)
    return false


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("levels", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--copies", type=int, default=COPIES, help="of each broker")
    parser.add_argument("--keep", type=int, default=0, help="how many of them, and the last one, are kept")
    parser.add_argument("--brokers", type=int, default=1, help="how many; with two leaders change")
    parser.add_argument("--release", default="4.4", help="of Kafka; those before 4.0 have level 0 alone")
    parser.add_argument("--seed", type=int, default=0, help="of the moments at which copies are made")
    parser.add_argument("--false", type=Path, help="a folder that false alarms are kept in")
    parser.add_argument("--spark", action="store_true", help="audits each copy on Spark, too")
    arguments = parser.parse_args()
    false, session = 0, None
    if arguments.spark:
        from odradek_pipeline.spark.session import spark_session

        session = spark_session("local[2]", small=True)
    for level in arguments.levels:
        try:
            false += record(level, arguments, session)
        finally:
            for kafka in STARTED:
                with contextlib.suppress(Exception):  # it has ended already
                    kafka.kill()
                kafka.remove()
            STARTED.clear()
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main())
