"""Real clients that write while the broker is killed, and what they have reason to expect of the next one.

A turn is a broker on the directory, up to its SIGKILL at a moment that a seed draws. Of each value that a client wrote
it knows the outcome: acknowledged or committed, aborted, or unknown, where the answer was lost with the broker.
"""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.clients.toolchain import JAVA, java_classes, resolved
from tests.oracle.real_kafka import POM
from tests.swap.hands import Hands
from tests.swap.systems import System

__all__ = ["PARTITIONS", "SETTINGS", "TOPIC", "Turns", "client_classes", "faults_of", "make_topic", "writing"]

TOPIC = "t"
PARTITIONS = 2
TIMEOUT_S = 90
IDS = ("writer-0", "writer-1", "writer-2")
SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    # So small that the segments roll, and some are flushed and some not when the process ends.
    "log.segment.bytes": "1048576",
}
"""What both systems are given besides."""
FAST = {
    "linger.ms": 0,
    "log_level": 0,
    "retry.backoff.ms": 20,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
}


class Writers:
    """A Java program: transactions of several transactional ids, one after the other; see `Transactions.java`.

    librdkafka is not for this: `send_offsets_to_transaction` waits for ever when the coordinator dies meanwhile.
    """

    def __init__(self, bootstrap: str, ids: Sequence[str], seed: int, hands: Hands) -> None:
        self._hands = hands
        self._told = threading.Condition()
        self.outcomes: dict[str, str] = {}
        """By value; those that are missing are unknown."""
        arguments = ["Transactions", bootstrap, TOPIC, str(PARTITIONS), str(seed), *ids]
        self._process = subprocess.Popen(
            [*JAVA, "-cp", client_classes(), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.is_done = False

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            outcome, _, value = line.strip().partition(" ")
            if value:
                self._hands.tell(value, outcome)
                with self._told:
                    self.outcomes[value] = outcome
                    self._told.notify_all()
            self.is_done = outcome == "done"

    def wait(self) -> None:
        """Go on until a transaction was committed and one aborted: on a busy machine the turns may be too short."""
        with self._told:
            seen = self._told.wait_for(lambda: {"committed", "aborted"} <= set(self.outcomes.values()), 4 * TIMEOUT_S)
        assert seen, f"the clients have come to {Counter(self.outcomes.values())}"

    def end(self) -> None:
        """Let the transactions end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._reader.join(4 * TIMEOUT_S)
        assert self.is_done, "the clients have not ended"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


class PlainWriter(threading.Thread):
    """An idempotent producer: a value that was acknowledged is there, once."""

    def __init__(self, bootstrap: str, name: str, hands: Hands) -> None:
        super().__init__()
        self.bootstrap, self.id, self._hands = bootstrap, name, hands
        self.ending = threading.Event()
        self.outcomes: dict[str, str] = {}

    def run(self) -> None:
        number = 0
        producer = self.made()
        while not self.ending.is_set():
            number += 1
            value = f"{self.id}-{number}"
            self.outcomes[value] = "unknown"

            def done(error: KafkaError | None, _: object, value: str = value) -> None:
                if error is None:
                    self.outcomes[value] = "committed"
                    self._hands.tell(value, "committed")

            try:
                producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=done)
                producer.poll(0.005)
            except (KafkaException, BufferError):
                producer.flush(TIMEOUT_S)
                producer = self.made()
        producer.flush(TIMEOUT_S)

    def made(self) -> Producer:
        # Where messages time out librdkafka sends others, that may have been written, a second time in a new epoch.
        patient = {"message.timeout.ms": 0}
        return Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, **FAST, **patient})

    def end(self) -> None:
        """Wait for its last answers."""
        self.ending.set()
        self.join()


class Turns:
    """So many kills from a seed: which system comes next, how long it lives, and whether it dies while it starts."""

    def __init__(self, systems: Sequence[System], *, kills: int, seed: int, every: int = 2) -> None:
        """The first system goes on with the directory, but after each `every`th kill, where the others come in turn."""
        self.systems, self.kills, self.every = systems, kills, every
        self.draws = random.Random(seed)

    def __iter__(self) -> Iterator[tuple[System, float, float | None]]:
        """The next system, the seconds it lives, and the seconds it had been given to start in a try before."""
        first, *others = self.systems
        for number in range(1, self.kills + 1):
            takes_over = bool(others) and number % self.every == 0
            system = others[number // self.every % len(others)] if takes_over else first
            torn = self.draws.uniform(0.05, 0.6) if self.draws.random() < 0.2 else None
            yield system, self.draws.uniform(0.05, 1.5), torn

    @staticmethod
    def live(seconds: float) -> None:
        """Let the clients, which are real, write so long."""
        time.sleep(seconds)


class Load(NamedTuple):
    """All clients of a round."""

    transactional: Writers
    plain: PlainWriter


@contextmanager
def writing(bootstrap: str, seed: int, hands: Hands) -> Iterator[Load]:
    """Clients that write, up to the end of the block."""
    load = Load(Writers(bootstrap, IDS, seed, hands), PlainWriter(bootstrap, "plain", hands))
    load.plain.start()
    try:
        yield load
        load.transactional.wait()
        load.transactional.end()
    finally:
        load.transactional.kill()
        load.plain.end()


def client_classes() -> str:
    """The class path of the clients."""
    return java_classes("killed-clients", [Path(__file__).with_name("Transactions.java")], resolved(POM, {}))


def make_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(TIMEOUT_S)


def faults_of(bootstrap: str, load: Load) -> Iterator[str]:
    """Sentences on what the clients expected and did not find."""
    seen = [_read_committed(bootstrap, partition) for partition in range(PARTITIONS)]
    plain = load.plain.outcomes
    for partition, values in enumerate(seen):
        here = {value for value in plain if int(value.rpartition("-")[2]) % PARTITIONS == partition}
        outcomes = {**load.transactional.outcomes, **{value: plain[value] for value in here}}
        yield from _compared(outcomes, values, partition)
    of_transactions = [{value for value in values if not value.startswith("plain")} for values in seen]
    if of_transactions[0] != of_transactions[1]:
        yield f"half a transaction: {sorted(of_transactions[0] ^ of_transactions[1])}"
    for group in IDS:
        numbers = [int(value.rpartition("-")[2]) for value in of_transactions[0] if value.startswith(f"{group}-")]
        yield from _offset_fault(bootstrap, group, max(numbers, default=-1001))


def _compared(outcomes: Mapping[str, str], values: Sequence[str], partition: int) -> Iterator[str]:
    counts = Counter(values)
    for value, outcome in outcomes.items():
        if outcome == "committed" and not counts[value]:
            yield f"{value} was acknowledged, and is not in partition {partition}"
        if outcome == "aborted" and counts[value]:
            yield f"{value} was aborted, and is seen in partition {partition}"
    for value, count in counts.items():
        if count > 1:
            yield f"{value} is in partition {partition} {count} times"


def _offset_fault(bootstrap: str, group: str, last: int) -> Iterator[str]:
    """The offset of a group is that of the last of its transactions that is seen."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        [found] = consumer.committed([TopicPartition(TOPIC, 0)], TIMEOUT_S)
    except KafkaException:
        yield f"the group {group} has no offset that is stable: one of a transaction waits for its marker"
        return
    finally:
        consumer.close()
    if found.offset != last:
        yield f"the group {group} has offset {found.offset}, and its last transaction has {last}"


def _read_committed(bootstrap: str, partition: int) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0)])
    found = []
    ends = time.monotonic() + TIMEOUT_S
    while time.monotonic() < ends:
        message = consumer.poll(1)
        error = None if message is None else message.error()
        if error is not None and KafkaError._PARTITION_EOF == error.code():
            break
        # Other errors are those of a client that connects again.
        if message is not None and error is None:
            found.append((message.value() or b"").decode().rstrip("."))
    consumer.close()
    return found
