"""A broker with a data directory is killed under transactional load, again and again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from tests.oracle.real_kafka import free_port

pytestmark = [pytest.mark.client, pytest.mark.slow]

KILLS = int(os.environ.get("ODRADEK_KILLS", "3"))
PARTITIONS = 2
TIMEOUT_S = 60


class Broker:
    """`odradek serve` on one directory and one port."""

    def __init__(self, path: Path) -> None:
        self.port = free_port()
        self.path = path
        self.process: subprocess.Popen[str] | None = None
        self.errors = path.with_name("errors.log")

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        with self.errors.open("a") as errors:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "odradek", "serve", "--port", str(self.port)),
                    *("--data-dir", str(self.path), "--topic", f"t:{PARTITIONS}", "--log-level", "warning"),
                    *("--set", "transaction.state.log.num.partitions=2"),
                    # So small that the segments roll, and some are flushed and some not when the process ends.
                    *("--set", "log.segment.bytes=1048576"),
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("odradek ready"), self.errors.read_text()

    def end(self, how: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(how)
            process.wait(TIMEOUT_S)
            assert process.stdout is not None
            process.stdout.close()


class Writer(threading.Thread):
    """Transactions of one transactional id, one after the other: each writes its number into every partition."""

    def __init__(self, bootstrap: str, name: str, random_: random.Random) -> None:
        super().__init__()
        self.bootstrap, self.id, self.random = bootstrap, name, random_
        self.ending = threading.Event()
        self.outcomes: dict[str, str] = {}

    def run(self) -> None:
        number = 0
        producer: Producer | None = None
        while not self.ending.is_set():
            value = f"{self.id}-{number}"
            number += 1
            self.outcomes[value] = "unknown"
            try:
                if producer is None:
                    producer = self.made()
                    producer.init_transactions(TIMEOUT_S)
                self.outcomes[value] = self.transaction(producer, value)
            except KafkaException:
                # Whatever has become of it, the next incarnation of this transactional id ends it.
                producer = None

    def made(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": self.id,
                "linger.ms": 0,
                "log_level": 0,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
            }
        )

    def transaction(self, producer: Producer, value: str) -> str:
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce("t", value + "." * self.random.randrange(20_000), partition=partition)
        if self.random.random() < 0.3:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
            return "aborted"
        producer.commit_transaction(TIMEOUT_S)
        return "committed"


@contextmanager
def writing(bootstrap: str, count: int) -> Iterator[list[Writer]]:
    writers = [Writer(bootstrap, f"writer-{number}", random.Random(number)) for number in range(count)]
    for writer in writers:
        writer.start()
    try:
        yield writers
    finally:
        for writer in writers:
            writer.ending.set()
        for writer in writers:
            writer.join()


def read_committed(bootstrap: str, partition: int) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("t", partition, 0)])
    found = []
    ends = time.monotonic() + TIMEOUT_S
    while time.monotonic() < ends:
        message = consumer.poll(1)
        if message is not None and message.error() is not None:
            break
        if message is not None:
            found.append((message.value() or b"").decode().rstrip("."))
    consumer.close()
    return found


def test_nothing_acknowledged_is_lost_and_nothing_aborted_is_seen(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data")
    draws = random.Random(7)
    broker.start()
    try:
        with writing(broker.bootstrap, 3) as writers:
            for _ in range(KILLS):
                time.sleep(draws.uniform(0.2, 2.0))  # the moment of the kill is drawn; the clients are real
                broker.end(signal.SIGKILL)
                broker.start()
            time.sleep(1.0)
        # The last transaction of each writer may be open: whoever comes next with its id ends it.
        for writer in writers:
            writer.made().init_transactions(TIMEOUT_S)
        seen = [read_committed(broker.bootstrap, partition) for partition in range(PARTITIONS)]
    finally:
        broker.end(signal.SIGTERM)
    outcomes = {value: outcome for writer in writers for value, outcome in writer.outcomes.items()}
    committed = {value for value, outcome in outcomes.items() if outcome == "committed"}
    aborted = {value for value, outcome in outcomes.items() if outcome == "aborted"}
    assert committed
    assert aborted
    for values in seen:
        assert not committed - set(values)
        assert not aborted & set(values)
        assert {1} == set(Counter(values).values())
    assert set(seen[0]) == set(seen[1])
    assert "error" not in broker.errors.read_text()
