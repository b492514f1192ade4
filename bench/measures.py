"""What is measured: each measure is one short run of a generator against one broker."""

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.clients.toolchain import JAVA, go_program, jars, java_classes

from bench.brokers import TOPIC, WITH_TLS, Running

__all__ = ["MEMORY_MIB", "TRANSACTIONS", "TRAFFIC", "Measure", "memory_after_traffic", "warm"]

HERE = Path(__file__).resolve().parent
CLIENTS = HERE.parent / "tests" / "clients"
KEEP_LITTLE = "retention.bytes=67108864,segment.bytes=16777216"
MEMORY_MIB = 1024
FILL_MIB = 64
numbers = itertools.count(1)

Figures = dict[str, float]


@dataclass(frozen=True)
class Measure:
    """A run of `seconds`, and the figures of its result that are reported with their units."""

    name: str
    figures: dict[str, str]
    play: Callable[[Running, float], Figures]


def load(broker: Running, mode: str, topic: str, **options: object) -> Figures:
    program = go_program(HERE / "load")
    command = [str(program), "--bootstrap", broker.bootstrap, "--mode", mode, "--topic", topic]
    if broker.name in WITH_TLS:
        command.append("--tls")
    for name, value in options.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    return result_of(command)


def result_of(command: list[str]) -> Figures:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    figures: Figures = json.loads(done.stdout) if done.stdout.strip() else {}
    return figures


@contextmanager
def topic_on(broker: Running, configs: str = KEEP_LITTLE) -> Iterator[str]:
    """A topic of one partition for one run."""
    if broker.name == "echo":
        yield TOPIC % 0
        return
    topic = TOPIC % next(numbers)
    load(broker, "create", topic, configs=configs)
    try:
        yield topic
    finally:
        load(broker, "delete", topic)


def produces(**options: object) -> Callable[[Running, float], Figures]:
    def play(broker: Running, seconds: float) -> Figures:
        with topic_on(broker) as topic:
            return load(broker, "produce", topic, seconds=seconds, warm_up=seconds / 4, **options)

    return play


def fetches(**options: object) -> Callable[[Running, float], Figures]:
    def play(broker: Running, seconds: float) -> Figures:
        with topic_on(broker, configs="") as topic:
            load(broker, "produce", topic, inflight=4, seconds=60, at_most_mib=FILL_MIB, **options)
            return load(broker, "fetch", topic, seconds=seconds, warm_up=seconds / 4, **options)

    return play


def warm(broker: Running, seconds: float) -> None:
    """Traffic of all kinds, so that a virtual machine has compiled what is measured."""
    for play in (
        produces(inflight=1),
        produces(inflight=16),
        produces(record_bytes=1024, batch_bytes=BULK, inflight=2),
    ):
        play(broker, seconds / 4)


REQUESTS = {"requests_per_second": "requests/s", "p50_ms": "ms p50", "p99_ms": "ms p99"}
BYTES = {"mb_per_second": "MB/s"}
BATCHES = {"mb_per_second": "MB/s", "records_per_second": "records/s"}
SIZES = {"100 B": 100, "1 KiB": 1024, "100 KiB": 102_400}
DEFAULT_BATCH = 16_384  # the Java producer's batch.size
BULK = 900_000


def traffic() -> list[Measure]:
    found = [
        Measure("produce, 1 record of 100 B, one at a time", REQUESTS, produces(inflight=1)),
        Measure("produce, 1 record of 100 B, 16 in flight", REQUESTS, produces(inflight=16)),
        Measure("produce, batches of 900 KB", BYTES, produces(record_bytes=1024, batch_bytes=BULK, inflight=2)),
        Measure("fetch, 1 MiB of 900 KB batches", BYTES, fetches(record_bytes=1024, batch_bytes=BULK)),
    ]
    for name, size in SIZES.items():
        shape = {"record_bytes": size, "batch_bytes": DEFAULT_BATCH}
        found.append(Measure(f"produce, records of {name}", BATCHES, produces(inflight=5, **shape)))
        found.append(Measure(f"fetch, records of {name}", BATCHES, fetches(**shape)))
    shape = {"record_bytes": 70, "more_bytes": 70, "batch_bytes": DEFAULT_BATCH}
    found.append(Measure("produce, records of 70 to 140 B", BATCHES, produces(inflight=5, **shape)))
    return found


def memory_after_traffic(broker: Running) -> float:
    """Resident memory, in MiB, after 1 GiB has been produced to a topic that keeps 64 MiB."""
    with topic_on(broker) as topic:
        shape = {"record_bytes": 1024, "batch_bytes": BULK}
        load(broker, "produce", topic, inflight=2, seconds=600, at_most_mib=MEMORY_MIB, **shape)
        time.sleep(3)  # a retention check or two
        return broker.resident_mib()


def java_transactions() -> list[str]:
    libraries = jars(CLIENTS / "java" / "pom.xml")
    path = java_classes("transactions", [HERE / "transactions" / "java" / "TransactionLoad.java"], libraries)
    return [*JAVA, "-cp", path, "TransactionLoad"]


def franz_go_transactions() -> list[str]:
    return [str(go_program(HERE / "transactions" / "franz-go"))]


def confluent_transactions() -> list[str]:
    return [sys.executable, str(HERE / "transactions" / "confluent.py")]


def transacts(
    program: Callable[[], list[str]], *more: str, records: int, partitions: int
) -> Callable[[Running, float], Figures]:
    def play(broker: Running, seconds: float) -> Figures:
        topic = f"transactions-{next(numbers)}"
        load(broker, "create", topic, partitions=partitions)
        shape = ["--records", str(records), "--partitions", str(partitions), *more]
        time_of = ["--seconds", str(seconds), "--warm-up", str(seconds / 2)]
        return result_of([*program(), "--bootstrap", broker.bootstrap, "--topic", topic, *shape, *time_of])

    return play


PER_SECOND = {
    "transactions_per_second": "transactions/s",
    "transaction_p50_ms": "ms p50, whole",
    "transaction_p99_ms": "ms p99, whole",
    "commit_p50_ms": "ms p50, commit",
    "commit_p99_ms": "ms p99, commit",
}


MANY = ("--producers", "50")
PACE = 500
"""Transactions a second, of all producers together, that no broker here is too slow for."""


def of_many_producers() -> list[Measure]:
    """What a commit waits for others: 50 producers that go as fast as they can, and 50 that do not."""
    paced = (*MANY, "--per-second", str(PACE))
    return [
        Measure(f"franz-go, {title}", PER_SECOND, transacts(franz_go_transactions, *more, records=1, partitions=5))
        for title, more in (("50 producers at once", MANY), (f"50 producers, {PACE} transactions a second", paced))
    ]


def transactions() -> list[Measure]:
    clients = {
        "Java": java_transactions,
        "franz-go": franz_go_transactions,
        "confluent-kafka": confluent_transactions,
    }
    return [
        Measure(f"{client}, {title}", PER_SECOND, transacts(program, records=records, partitions=partitions))
        for title, records, partitions in (("1 record", 1, 1), ("100 records over 5 partitions", 100, 5))
        for client, program in clients.items()
    ] + of_many_producers()


TRAFFIC = traffic()
TRANSACTIONS = transactions()
