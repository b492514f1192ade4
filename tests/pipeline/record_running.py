"""Copies of a real Kafka's directory, made while it runs: `python -m tests.pipeline.record_running [LEVEL…]`.

Producers of transactions, idempotent ones and a compacted topic write as fast as they can, segments roll twice a second
and the cleaner runs. The directory is copied file by file meanwhile, as `cp -r` does it, over and over; then the broker
is killed in the middle of it. Every copy is audited at once: whatever is bad, or prints a command that destroys, is a
false alarm, for nothing has gone wrong. Some copies are kept, small, in `data/running`, which the tests audit again.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import os
import shutil
import sys
import tarfile
import tempfile
import threading
import time
from io import BytesIO
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer
from tests.pipeline.corpus.kafkas import STARTED, create, started
from tests.pipeline.record_logs import trim
from tests.pipeline.running_copies import DESTROYS

from odradek_pipeline.jobs.audit_logs import audit_logs

__all__ = ["RUNNING", "alarms", "unpacked"]

RUNNING = Path(__file__).parent / "data" / "running"
COPIES = 12
PAUSE_S = 0.4
ROLLS: dict[str, Any] = {"segment_ms": "500", "file_delete_delay_ms": "1000"}
CLEANED: dict[str, Any] = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0.01",
    "max_compaction_lag_ms": "1000",
}
_LEFT_OUT = (".lock", ".tmp", ".deleted")


def alarms(directory: Path) -> list[str]:
    """What an audit of the directory of a broker that is well tells, and should not."""
    result = audit_logs([directory], not_after=time.time_ns() // 1_000_000 + 365 * 86_400_000)
    rows = result.anomalies.to_dict("records")
    told = [
        f"{row['anomaly']} {row['topic']}-{row['partition']}: {row['detail']}"
        for row in rows
        if row["severity"] == "bad"
    ]
    told += [f"{one.problem} {one.path}: {one.detail}" for one in result.problems if one.severity == "bad"]
    assert result.incidents is not None
    return told + [run for run in result.incidents["run"] if any(word in run for word in DESTROYS)]


def unpacked(archive: Path, folder: Path) -> Path:
    """A kept copy."""
    with tarfile.open(archive) as kept:
        kept.extractall(folder, filter="data")
    return folder


class Load:
    """Clients that write until they are told to end."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.is_over = threading.Event()
        self.counts = {"transactions": 0, "records": 0}
        self.threads = [
            threading.Thread(target=self.safely, args=(work, number), daemon=True)
            for work, number in ((self.transactions, 0), (self.transactions, 1), (self.compacted, 2), (self.plain, 3))
        ]

    def safely(self, work: object, number: int) -> None:
        with contextlib.suppress(KafkaException):  # the broker is killed under it
            work(number)  # type: ignore[operator]

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


def record(level: int, *, copies: int, keep: int) -> int:
    """Copies of one broker; how many of them are false alarms."""
    false = 0
    with tempfile.TemporaryDirectory(prefix="odradek-running-") as scratch:
        kafka = started(level, log_cleaner_backoff_ms="500", log_retention_check_interval_ms="1000")
        create(kafka, "orders", 2, 1, **ROLLS)
        create(kafka, "kv", 1, 1, **ROLLS, **CLEANED)
        create(kafka, "plain", 1, 1, **ROLLS, retention_ms="3000")
        data = kafka.directory / "data"
        with Load(kafka.bootstrap) as load:
            while load.counts["transactions"] < 5:
                time.sleep(0.2)
            for number in range(copies):
                if number == copies - 1:
                    kafka.kill()  # the last copy is of what a crash has left
                here = Path(scratch) / f"{number}"
                copied(data, here)
                if number < keep or number == copies - 1:
                    kept(here, RUNNING / f"level_{level}-{number}.tar.gz")
                time.sleep(PAUSE_S)
        for number in range(copies):
            told = alarms(Path(scratch) / f"{number}")
            false += bool(told)
            for one in told:
                print(f"level {level}, copy {number}: {one}", flush=True)
        print(f"level {level}: {copies} copies, {false} false alarms; {load.counts}", flush=True)
    return false


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("levels", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--copies", type=int, default=COPIES, help="of each broker")
    parser.add_argument("--keep", type=int, default=1, help="how many of them, and the last one, are kept")
    arguments = parser.parse_args()
    false = 0
    try:
        for level in arguments.levels:
            false += record(level, copies=arguments.copies, keep=arguments.keep)
    finally:
        for kafka in STARTED:
            with contextlib.suppress(Exception):  # it has ended already
                kafka.kill()
            kafka.remove()
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main())
