"""How long others wait for Metadata while one client is at its worst.

    python -m bench.starved                          # 1,000 and 10,000 partitions, every kind of load
    python -m bench.starved --partitions 1000 --seconds 5
    python -m bench.starved --worst OffsetCommit AlterConfigs   # those of bench.worst, a hundred of them pipelined

The cluster is a process of its own, the greedy client another, so that neither has to share a processor's Python with
the one that measures. How long another waits is worth something on a machine that does nothing else. The broker's
longest step, in processor time, is worth something everywhere (`bench/steps.py`): a longer wait is the machine's.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.synchronize import Event

from bench.worst import TOPICS, WORST
from odradek.records.compression import Compression
from odradek.records.record import Record, build_batch
from odradek.wire import registry
from odradek.wire.messages.describe_groups_request import DescribeGroupsRequest
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.metadata_response import MetadataResponse
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.registry import ApiKey

__all__ = ["LOADS", "greedy", "serving", "waited"]

PIPELINED_BYTES = 250 * 1024
PIPELINED = 100
WARM_UP_S = 0.5
STEP = "longest step, ms of a processor"


def framed(api_key: ApiKey, version: int, request: registry.M) -> bytes:
    """One request as it goes over the socket."""
    tags = b"\0" if registry.request_header_version(api_key, version) >= 2 else b""
    body = struct.pack(">hhih", api_key, version, 1, -1) + tags + registry.encode(request, version)
    return struct.pack(">i", len(body)) + body


def _pipelined() -> bytes:
    """250 KB of Metadata about every topic."""
    one = framed(ApiKey.METADATA, 12, MetadataRequest(topics=None))
    return one * (PIPELINED_BYTES // len(one))


def _fetch(entries: int) -> bytes:
    partitions = [FetchPartition(partition=index, partition_max_bytes=1) for index in range(entries - 1)]
    return framed(ApiKey.FETCH, 12, FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic="t0", partitions=partitions)]))


def _list_offsets(entries: int) -> bytes:
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(entries - 1)]
    topic = ListOffsetsTopic(name="t0", partitions=partitions)
    return framed(ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(replica_id=-1, topics=[topic]))


def _bomb(codec: Compression) -> bytes:
    records = [Record(timestamp=int(time.time() * 1000), key=None, value=bytes(120_000_000))]
    data = PartitionProduceData(index=0, records=memoryview(build_batch(records, compression=codec)))
    topic = TopicProduceData(name="t0", partition_data=[data])
    return framed(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic]))


def _names(entries: int) -> list[str]:
    return [f"n{index}" for index in range(entries)]


def _metadata(entries: int) -> bytes:
    topics = [MetadataRequestTopic(name=name) for name in _names(entries)]
    return framed(ApiKey.METADATA, 12, MetadataRequest(topics=topics, allow_auto_topic_creation=False))


LOADS: dict[str, Callable[[int], bytes]] = {
    "Metadata of everything, 250 KB pipelined": lambda _: _pipelined(),
    "Fetch": _fetch,
    "ListOffsets": _list_offsets,
    "FindCoordinator": lambda entries: framed(
        ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=_names(entries))
    ),
    "DescribeGroups": lambda entries: framed(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=_names(entries))),
    "Metadata of names": _metadata,
    "Produce of 117 KB that unpack to 120 MB": lambda _: _bomb(Compression.GZIP),
    "Produce of 500 KB that unpack to 120 MB, lz4": lambda _: _bomb(Compression.LZ4),
}
"""What the greedy client sends over and over, from the number of entries in one request (a topic is an entry too)."""


@contextmanager
def serving(topics: int, partitions: int) -> Iterator[tuple[str, int]]:
    """A broker in a process of its own, with so many topics of so many partitions each."""
    with serving_topics([f"t{index}:{partitions}" for index in range(topics)]) as address:
        yield address


@contextmanager
def serving_topics(topics: Sequence[str], longest: list[str] | None = None) -> Iterator[tuple[str, int]]:
    """The same with these. At its end it adds its longest step to the list, if there is one."""
    named = [part for topic in topics for part in ("--topic", topic)]
    program = ["odradek", "serve"] if longest is None else ["bench.steps"]
    command = [sys.executable, "-m", *program, "--port", "0", "--log-level", "error", *named]
    told = None if longest is None else subprocess.PIPE
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=told, text=True)
    try:
        assert process.stdout is not None
        host, _, port = process.stdout.readline().strip().partition("=")[2].rpartition(":")
        yield host, int(port)
    finally:
        if longest is None:
            process.kill()
        else:
            process.terminate()
        _, last = process.communicate()
        if longest is not None:
            longest += last.splitlines()[-1:]


def greedy(address: tuple[str, int], data: bytes, go: Event) -> None:
    """Send as fast as the broker reads, and read what it answers, until the process is ended."""
    with socket.create_connection(address) as connection:
        connection.setblocking(False)
        unsent, sink = memoryview(data), bytearray(1 << 20)
        while True:
            try:
                unsent = unsent[connection.send(unsent) :] or memoryview(data)
                go.set()
            except BlockingIOError:
                pass
            try:
                if not connection.recv_into(sink):
                    return
            except BlockingIOError:
                time.sleep(0.0005)


@contextmanager
def beside(address: tuple[str, int], data: bytes) -> Iterator[None]:
    """While a greedy client is at work.

    Raises:
        RuntimeError: the broker has ended the greedy client's connection, so nothing was measured beside it.
    """
    context = multiprocessing.get_context("spawn")
    go = context.Event()
    process = context.Process(target=greedy, args=(address, data, go), daemon=True)
    process.start()
    try:
        go.wait(60)
        time.sleep(WARM_UP_S)
        yield
        if not process.is_alive():
            raise RuntimeError("the broker has ended the greedy client's connection: nothing was measured beside it")
    finally:
        process.kill()
        process.join()


def waited(address: tuple[str, int], *, seconds: float, topic: str = "t0") -> list[float]:
    """How long another's Metadata about one topic takes, in ms, again and again."""
    asked = framed(
        ApiKey.METADATA, 12, MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    )
    samples: list[float] = []
    with socket.create_connection(address, timeout=60) as connection, connection.makefile("rb") as stream:
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            connection.sendall(asked)
            (length,) = struct.unpack(">i", stream.read(4))
            stream.read(length)
            samples.append((time.perf_counter() - began) * 1000)
            time.sleep(0.005)
    return samples


def _asked(address: tuple[str, int], data: bytes) -> bytes:
    """The answer to one request, behind its header (a flexible one)."""
    with socket.create_connection(address, timeout=60) as connection, connection.makefile("rb") as stream:
        connection.sendall(data)
        (length,) = struct.unpack(">i", stream.read(4))
        return stream.read(length)[5:]


def worst(names: Sequence[str], seconds: float) -> None:
    """Beside a hundred of each worst single request, pipelined over and over, on a broker of its own for each."""
    print(f"| one client sends, a hundred pipelined | another's Metadata, ms p50 | p99 | worst | {STEP} |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in names:
        longest: list[str] = []
        with serving_topics(TOPICS, longest) as address:
            about = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
            told = registry.decode(MetadataResponse, _asked(address, framed(ApiKey.METADATA, 12, about)), 12)
            topic_id = told.topics[0].topic_id
            before = WORST[name].before
            if before is not None:
                _asked(address, framed(WORST[before].api_key, WORST[before].version, WORST[before].request(topic_id)))
            one = framed(WORST[name].api_key, WORST[name].version, WORST[name].request(topic_id))
            with beside(address, one * PIPELINED):
                samples = waited(address, seconds=seconds, topic="s0")
        middle = statistics.median(samples)
        print(f"| {name} | {middle:.2f} | {p99(samples):.2f} | {max(samples):.2f} | {longest[0]} |", flush=True)


def p99(samples: list[float]) -> float:
    """The 99th percentile."""
    return sorted(samples)[min(len(samples) - 1, len(samples) * 99 // 100)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", default="1000,10000", help="of the cluster, separated by commas")
    parser.add_argument("--entries", type=int, default=20_000, help="in one request of the greedy client")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--worst", nargs="+", metavar="NAME", help="of bench.worst")
    options = parser.parse_args()
    if options.worst:
        worst(options.worst, options.seconds)
        return
    print(f"| partitions | one client sends | another's Metadata, ms p50 | p99 | worst | {STEP} |")
    print("| ---: | --- | ---: | ---: | ---: | ---: |")
    for partitions in map(int, options.partitions.split(",")):
        topics = [f"t{index}:10" for index in range(partitions // 10)]
        for name, make in {"nothing": None, **LOADS}.items():
            longest: list[str] = []
            with serving_topics(topics, longest) as address:
                if make is None:
                    samples = waited(address, seconds=options.seconds)
                else:
                    with beside(address, make(options.entries)):
                        samples = waited(address, seconds=options.seconds)
            middle, worst_ms = statistics.median(samples), max(samples)
            row = [f"{partitions:,}", name, f"{middle:.2f}", f"{p99(samples):.2f}", f"{worst_ms:.2f}", *longest]
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
