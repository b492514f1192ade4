"""What a data directory costs: produces with one and without, beside a real Kafka, and the start on a large one.

    python -m bench.disk                          # everything; needs Java, Maven once, and 13 GB of disk
    python -m bench.disk --only produce --rounds 5
    python -m bench.disk --only start --gigabytes 2
    python -m bench.disk --only start --gigabytes 2 --against ../main --rounds 5
    python -m bench.disk --only produce --without-kafka --against ../main

`produce`: one client with five requests in flight sends batches of one size to each broker in turn, in rounds; the
figures are medians, megabytes a second by the clock and by the processor time of the broker, and ratios in one run:
medians of the ratios of each round. With `--against` another checkout has a directory, too.
`start`: large directories, from the start of the process to its first answer, after a clean stop and after SIGKILL.
With `--against` clean stops alone: this checkout and another one in turn on one directory, medians of the rounds.
`recovery`: the same after SIGKILL, with nothing flushed but what the system has written by itself. The recovery points
are taken away, so that every batch is checked.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.brokers import free_port, kafka
from odradek.net.client import BlockingClient
from odradek.records.record import Record, build_batch
from odradek.wire import registry
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.request_header import RequestHeader

__all__ = ["main"]

IN_FLIGHT = 5
SIZES = {"100 B": 100, "16 KiB": 16 * 1024, "900 KB": 900_000}
TURN_BYTES = {100: 200_000, 16 * 1024: 60_000_000, 900_000: 400_000_000}
"""What one turn sends, by the size of a batch."""
START_S = 120
GIGABYTE = 1_000_000_000
TICKS = os.sysconf("SC_CLK_TCK")
TOPIC = "t"
PRODUCE_VERSION = 9
RECOVERED_BYTES = 2 * GIGABYTE


class Broker:
    """A process that serves on a port, and on a directory if it has one."""

    def __init__(self, name: str, command: list[str], port: int) -> None:
        self.name, self.command, self.port = name, command, port
        self.tree: Path | None = None
        """The checkout that it is started from, if not this one."""
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start it; the seconds to its first answer."""
        began = time.perf_counter()
        path = {} if self.tree is None else {"PYTHONPATH": str(self.tree / "broker")}
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | path
        )
        while True:
            try:
                with BlockingClient(f"127.0.0.1:{self.port}", client_id="bench", timeout_s=START_S) as client:
                    client.ask(ApiVersionsRequest(), 0)
                    return time.perf_counter() - began
            except OSError:
                if self.process.poll() is not None or time.perf_counter() - began > START_S:
                    raise RuntimeError(f"{self.name} does not start: {' '.join(self.command)}") from None
                time.sleep(0.001)

    def processor_s(self) -> float:
        """The processor time that it has used."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None


def odradek(name: str, *arguments: str) -> Broker:
    port = free_port()
    serve = [sys.executable, "-m", "odradek", "serve", "--port", str(port), "--log-level", "error"]
    return Broker(name, [*serve, *arguments], port)


def make_topic(broker: Broker, partitions: int) -> None:
    topic = CreatableTopic(name=TOPIC, num_partitions=partitions, replication_factor=1)
    with BlockingClient(f"127.0.0.1:{broker.port}", client_id="bench", timeout_s=START_S) as client:
        client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5)


def frame_of(size: int, partition: int) -> bytes:
    """A Produce of one batch of this size."""
    value = os.urandom(size - 90)
    data = PartitionProduceData(index=partition, records=memoryview(build_batch([Record(timestamp=0, value=value)])))
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
    )
    header = RequestHeader(0, PRODUCE_VERSION, 1, "bench")
    message = registry.encode(header, registry.request_header_version(0, PRODUCE_VERSION))
    message += registry.encode(request, PRODUCE_VERSION)
    return len(message).to_bytes(4) + message


def send(broker: Broker, size: int, total: int, *, partitions: int = 1) -> tuple[float, float]:
    """Send so many bytes; megabytes a second by the clock, and by the processor time of the broker."""
    frames = [frame_of(size, partition) for partition in range(partitions)]
    count = max(IN_FLIGHT, total // size)
    with socket.create_connection(("127.0.0.1", broker.port), timeout=START_S) as connection:
        stream = connection.makefile("rb")
        wall, cpu = time.perf_counter(), broker.processor_s()
        for number in range(count):
            if number >= IN_FLIGHT:
                _answer(stream.read)
            connection.sendall(frames[number * len(frames) // count])
        for _ in range(IN_FLIGHT):
            _answer(stream.read)
        wall, cpu = time.perf_counter() - wall, broker.processor_s() - cpu
        stream.close()
    return count * size / wall / 1e6, count * size / max(cpu, 1 / TICKS) / 1e6


def _answer(read: object) -> None:
    """Read an answer; it has no error."""
    assert callable(read)
    frame = read(int.from_bytes(read(4)))
    # Behind the correlation id, the tags, and the topic with its partition.
    at = 4 + 1 + 1 + 1 + len(TOPIC) + 1 + 4
    assert frame[at : at + 2] == b"\0\0", frame.hex()


def measure_produce(rounds: int, folder: Path, *, with_kafka: bool, against: Path | None) -> None:
    print("| batch | broker | MB/s | MB/s of processor | beside the first | by processor time |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    brokers = [odradek("in memory"), odradek("with a directory", "--data-dir", str(folder / "odradek"))]
    if against is not None:
        brokers.append(odradek("the other checkout", "--data-dir", str(folder / "other")))
        brokers[-1].tree = against
    if with_kafka:
        port, place = free_port(), folder / "kafka"
        place.mkdir()
        brokers.append(Broker("Kafka", kafka(2)(port, place), port))
    try:
        for broker in brokers:
            broker.start()
            make_topic(broker, 1)
        for name, size in SIZES.items():
            found: dict[str, list[tuple[float, float]]] = {broker.name: [] for broker in brokers}
            for number in range(rounds + 1):
                for broker in brokers if number % 2 else reversed(brokers):
                    figures = send(broker, size, TURN_BYTES[size])
                    if number:
                        found[broker.name].append(figures)
            _print_rows(name, found)
    finally:
        for broker in brokers:
            broker.end(signal.SIGKILL)


def _print_rows(name: str, found: Mapping[str, list[tuple[float, float]]]) -> None:
    medians = {
        broker: [statistics.median(column) for column in zip(*figures, strict=True)]
        for broker, figures in found.items()
    }
    first = next(iter(found.values()))
    for broker, (wall, cpu) in medians.items():
        pairs = zip(found[broker], first, strict=True)
        beside = [[ours / theirs for ours, theirs in zip(one, other, strict=True)] for one, other in pairs]
        by_wall, by_cpu = (statistics.median(column) for column in zip(*beside, strict=True))
        print(f"| {name} | {broker} | {wall:.1f} | {cpu:.1f} | {by_wall:.2f} | {by_cpu:.2f} |", flush=True)


@contextlib.contextmanager
def filled(folder: Path, size: int, total: int) -> Iterator[Broker]:
    """A broker that runs on a directory with so many bytes in batches of this size."""
    broker = odradek("odradek", "--data-dir", str(folder), "--set", "log.retention.ms=-1")
    try:
        broker.start()
        # Large ones fill one partition after the other, and so several segments.
        partitions = 5
        make_topic(broker, partitions)
        send(broker, size, total, partitions=partitions)
        yield broker
    finally:
        broker.end(signal.SIGKILL)


def measure_start(folder: Path, total: int) -> None:
    print(f"\n| {total / GIGABYTE:g} GB in batches of | after | seconds to the first answer | processor |")
    print("| --- | --- | --- | --- |", flush=True)
    for name in ("16 KiB", "900 KB"):
        place = folder / f"start-{SIZES[name]}"
        with filled(place, SIZES[name], total) as broker:
            for how in (signal.SIGTERM, signal.SIGKILL):
                broker.end(how)
                wall = broker.start()
                print(f"| {name} | {how.name} | {wall:.2f} | {broker.processor_s():.2f} |", flush=True)
        shutil.rmtree(place)


def compare_starts(folder: Path, total: int, rounds: int, against: Path) -> None:
    print(f"\n| {total / GIGABYTE:g} GB in batches of | started by | seconds to the first answer | processor |")
    print("| --- | --- | --- | --- |", flush=True)
    trees = {"this checkout": None, "the other one": against}
    for name in ("16 KiB", "900 KB"):
        place = folder / f"start-{SIZES[name]}"
        found: dict[str, list[tuple[float, float]]] = {side: [] for side in trees}
        with filled(place, SIZES[name], total) as broker:
            for number in range(rounds):
                for side in trees if number % 2 else reversed(trees):
                    broker.end(signal.SIGTERM)
                    broker.tree = trees[side]
                    wall = broker.start()
                    found[side].append((wall, broker.processor_s()))
        for side, figures in found.items():
            wall, cpu = (statistics.median(column) for column in zip(*figures, strict=True))
            print(f"| {name} | {side} | {wall:.2f} | {cpu:.2f} |", flush=True)
        shutil.rmtree(place)


def measure_recovery(folder: Path) -> None:
    print("\n| checked | in batches of | seconds to the first answer | processor |")
    print("| --- | --- | --- | --- |", flush=True)
    for name, size, total in (
        ("1 KiB", 1024, RECOVERED_BYTES // 10),
        ("16 KiB", SIZES["16 KiB"], RECOVERED_BYTES),
        ("900 KB", SIZES["900 KB"], RECOVERED_BYTES),
    ):
        place = folder / f"recovery-{size}"
        with filled(place, size, total) as broker:
            broker.end(signal.SIGKILL)
            (place / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
            wall = broker.start()
            print(f"| {total / GIGABYTE:g} GB | {name} | {wall:.2f} | {broker.processor_s():.2f} |", flush=True)
        shutil.rmtree(place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["produce", "start", "recovery"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--without-kafka", action="store_true")
    parser.add_argument("--against", type=Path, help="another checkout of the repository, for produce and start")
    parser.add_argument("--dir", type=Path, help="a folder for the directories, which are removed")
    given = parser.parse_args()
    against: Path | None = given.against and given.against.absolute()
    print(f"load average: {os.getloadavg()[0]:.1f}, processors: {os.cpu_count()}\n")
    with tempfile.TemporaryDirectory(prefix="odradek-disk-", dir=given.dir, ignore_cleanup_errors=True) as folder:
        if given.only in (None, "produce"):
            measure_produce(given.rounds, Path(folder), with_kafka=not given.without_kafka, against=against)
        if given.only in (None, "start"):
            total = int(given.gigabytes * GIGABYTE)
            if against is None:
                measure_start(Path(folder), total)
            else:
                compare_starts(Path(folder), total, given.rounds, against)
        if given.only in (None, "recovery"):
            measure_recovery(Path(folder))


if __name__ == "__main__":
    main()
