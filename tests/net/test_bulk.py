"""Long requests over sockets: they are received in one buffer, and nothing that a client sees depends on that."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

import pytest

from odradek.broker import Node
from odradek.host.connection import Connection
from odradek.net.certs import make_certificates
from odradek.records.record import Record, build_batch
from odradek.testing import Cluster
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.produce_response import ProduceResponse
from odradek.wire.registry import decode, encode

pytestmark = pytest.mark.slow

VERSION = 9
CONFIG: dict[str, object] = {"message.max.bytes": 3_000_000}
SIZES = [0, 1, 1000, 60_000, 70_000, 300_000, 1_000_000, 2_500_000]
COVERED_AT = 21
"""From here on a batch in the log is what its producer has sent: its leader stamps offset and epoch before."""
Wrap = Callable[[socket.socket], socket.socket]


def request(correlation_id: int, batch: bytes) -> bytes:
    partition = PartitionProduceData(index=0, records=memoryview(batch))
    topics = [TopicProduceData(name="t", partition_data=[partition])]
    body = struct.pack(">hhih", 0, VERSION, correlation_id, -1) + b"\0"
    body += encode(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics), VERSION)
    return struct.pack(">i", len(body)) + body


def sent(random: Random, count: int) -> list[bytes]:
    """Batches of one record each, of sizes from every kind."""
    return [
        build_batch([Record(timestamp=0, key=None, value=random.randbytes(random.choice(SIZES)))]) for _ in range(count)
    ]


def cuts(random: Random, stream: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(stream):
        size = random.choice([1, 3, 5000, 100_000, 400_000])
        yield stream[position : position + size]
        position += size


def play(bootstrap: str, batches: list[bytes], random: Random, wrap: Wrap = lambda plain: plain) -> list[int]:
    """Send a request for each batch, all before the first answer is read; the offsets that were answered."""
    host, _, port = bootstrap.rpartition(":")
    offsets = []
    with socket.create_connection((host, int(port)), timeout=60) as plain, wrap(plain) as connection:
        for part in cuts(random, b"".join(request(number, batch) for number, batch in enumerate(batches))):
            connection.sendall(part)
        answers = connection.makefile("rb")
        for number in range(len(batches)):
            (length,) = struct.unpack(">i", answers.read(4))
            answer = answers.read(length)
            assert number == struct.unpack_from(">i", answer)[0]
            [topic] = decode(ProduceResponse, answer[5:], VERSION).responses
            [partition] = topic.partition_responses
            assert 0 == partition.error_code
            offsets.append(partition.base_offset)
    return offsets


def kept(node: Node) -> list[bytes]:
    return [bytes(batch.view[COVERED_AT:]) for batch in node.partitions["t", 0].log.batches()]


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all requests that came as a whole."""
    sizes: list[int] = []
    take = Connection.gathered

    def counting(self: Connection, whole: memoryview) -> None:
        sizes.append(len(whole))
        take(self, whole)

    monkeypatch.setattr(Connection, "gathered", counting)
    return sizes


@contextmanager
def checked(node: Node, batches: list[bytes], gathered: list[int]) -> Iterator[None]:
    """The log gets all of the batches in their order, and long requests come as a whole."""
    yield
    assert [batch[COVERED_AT:] for batch in batches] == kept(node)
    assert gathered
    assert set(gathered) <= {len(request(0, batch)) for batch in batches}


@pytest.mark.parametrize("seed", range(3))
def test_requests_of_all_sizes_arrive_as_they_were_sent(seed: int, gathered: list[int]) -> None:
    random = Random(seed)
    batches = sent(random, 24)
    with Cluster(topics=["t"], config=CONFIG) as cluster, checked(cluster._node(), batches, gathered):
        assert list(range(24)) == play(cluster.bootstrap, batches, random)


async def test_they_do_in_the_event_loop_of_the_standard_library(gathered: list[int]) -> None:
    random = Random(5)
    batches = sent(random, 24)
    async with Cluster(topics=["t"], config=CONFIG) as cluster:
        assert type(asyncio.get_running_loop()).__module__.startswith("asyncio")
        with checked(cluster._node(), batches, gathered):
            assert list(range(24)) == await asyncio.to_thread(play, cluster.bootstrap, batches, random)


@pytest.mark.parametrize("where", ["beside the test", "in its loop"])
async def test_they_do_over_tls(where: str, tmp_path: Path, gathered: list[int]) -> None:
    random = Random(6)
    batches = sent(random, 24)
    make_certificates(tmp_path / "certs")
    context = ssl.create_default_context(cafile=str(tmp_path / "certs" / "ca.pem"))
    cluster = Cluster(security="ssl", certs=tmp_path / "certs", topics=["t"], config=CONFIG)

    def wrap(plain: socket.socket) -> socket.socket:
        return context.wrap_socket(plain, server_hostname="localhost")

    def beside() -> None:
        with cluster, checked(cluster._node(), batches, gathered):
            assert list(range(24)) == play(cluster.bootstrap, batches, random, wrap)

    if where == "beside the test":
        await asyncio.to_thread(beside)
        return
    async with cluster:
        with checked(cluster._node(), batches, gathered):
            assert list(range(24)) == await asyncio.to_thread(play, cluster.bootstrap, batches, random, wrap)


def test_they_do_while_a_replica_lags(gathered: list[int]) -> None:
    """Each request waits for the other replica, so that the next ones arrive while the connection is busy."""
    random = Random(7)
    batches = sent(random, 16)
    with Cluster(
        brokers=2, topics=["t"], config={**CONFIG, "min.insync.replicas": 2, "default.replication.factor": 2}
    ) as cluster:
        leader = cluster.leader("t", 0)
        cluster.set_replica_lag(3 - leader, 20)
        bootstrap = cluster.bootstrap.split(",")[leader - 1]
        with checked(cluster._node(leader), batches, gathered):
            assert list(range(16)) == play(bootstrap, batches, random)


def test_they_do_when_the_broker_is_paused_under_way(gathered: list[int]) -> None:
    random = Random(8)
    batches = sent(random, 12)
    stream = b"".join(request(number, batch) for number, batch in enumerate(batches))
    with Cluster(topics=["t"], config=CONFIG) as cluster, checked(cluster._node(), batches, gathered):
        host, _, port = cluster.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            answers = connection.makefile("rb")
            for position in range(0, len(stream), 150_000):
                connection.sendall(stream[position : position + 100_000])
                cluster.pause_broker(1)
                connection.sendall(stream[position + 100_000 : position + 150_000])
                cluster.resume_broker(1)
            for _ in batches:
                (length,) = struct.unpack(">i", answers.read(4))
                answers.read(length)


async def test_what_came_while_the_broker_was_paused_is_in_the_request() -> None:
    """Two reads wait then; what is behind the first one is not gathered a second time."""
    batch = build_batch([Record(timestamp=0, key=None, value=bytes(500_000))])
    stream = request(7, batch)
    async with Cluster(topics=["t"], config=CONFIG) as cluster:
        driver = cluster._running.drivers[1]
        host, _, port = cluster.bootstrap.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(struct.pack(">ihhih", 10, 18, 0, 1, -1))  # the answer to ApiVersions: it is connected
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        await reader.readexactly(length)
        [client] = driver._protocols.values()
        driver.pause()
        client.data_received(stream[:1000])
        client.data_received(stream[1000:2000])
        driver.resume()
        writer.write(stream[2000:])
        async with asyncio.timeout(20):
            (length,) = struct.unpack(">i", await reader.readexactly(4))
            assert 7 == struct.unpack_from(">i", await reader.readexactly(length))[0]
        assert [batch[COVERED_AT:]] == kept(cluster._node())
        writer.close()


ANNOUNCED = 100_000_000
DRIPPING = 64
"""Clients that announce as much and send a byte now and then: together 6.4 GB are promised."""
OF_ONE_KIB_MAX = 256


def test_a_request_that_never_ends_takes_no_memory_for_the_rest(gathered: list[int]) -> None:
    value = [build_batch([Record(timestamp=0, key=None, value=b"v")])]
    with Cluster(topics=["t"], config=CONFIG) as cluster, ExitStack() as exits:
        host, _, port = cluster.bootstrap.rpartition(":")
        assert [0] == play(cluster.bootstrap, value, Random(9))
        before = resident_kib()
        connections = [socket.create_connection((host, int(port)), timeout=60) for _ in range(DRIPPING)]
        for connection in connections:
            exits.callback(connection.close)
            connection.sendall(struct.pack(">i", ANNOUNCED) + bytes(100))
        for drip in range(1, 6):
            for connection in connections:
                connection.sendall(b"x")
            assert [drip] == play(cluster.bootstrap, value, Random(9))
        assert not gathered
        assert resident_kib() - before < DRIPPING * OF_ONE_KIB_MAX


def resident_kib() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("VmRSS:")]
    return int(line.split()[1])
