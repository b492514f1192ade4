"""What the first requests of a kind import is imported when the broker is ready, so that nobody waits for it."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from time import monotonic

import anyio
import pytest

import odradek.net.serve as module
import odradek.net.warm
from odradek.cli.usage import READY
from odradek.config.table import Config
from odradek.net.client import BlockingClient
from odradek.net.cluster import RunningCluster
from odradek.net.serve import ServeOptions, serve
from odradek.net.warm import pieces, warm
from odradek.releases.release import Release
from odradek.releases.table import WIDEST
from odradek.sim.world.world import Lines
from odradek.wire.messages.metadata_request import MetadataRequest
from odradek.wire.registry import ApiKey

FIRST_REQUESTS = """
import sys
from odradek.net.warm import pieces
from odradek.releases.table import WIDEST
from odradek.sim import World
from odradek.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.offset_commit_request import OffsetCommitRequest
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest
from odradek.wire.messages.delete_groups_request import DeleteGroupsRequest
from odradek.wire.messages.list_groups_request import ListGroupsRequest

for piece in pieces(WIDEST):
    try:
        piece()
    except ImportError:
        pass
world = World(topics=["t"])
client = world.client()
world.run()
known = set(sys.modules)
joined = JoinGroupRequestProtocol(name="range", metadata=b"")
client.ask(
    JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=10_000, protocol_type="consumer",
        protocols=[joined],
    ),
    3,
)
client.ask(OffsetCommitRequest(group_id="h", topics=[]), 8)
begun = client.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 4)
who = {"transactional_id": "x", "producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
client.ask(AddOffsetsToTxnRequest(**who, group_id="g"), 3)
client.ask(EndTxnRequest(**who, committed=True), 3)
client.ask(ListGroupsRequest(), 4)
client.ask(DeleteGroupsRequest(groups_names=["h"]), 2)
client.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000), 5)
ends_of_clients = ("_request_writer", "_response_reader")
late = {name for name in set(sys.modules) - known if name.startswith("odradek.") and not name.endswith(ends_of_clients)}
print(sorted(late))
"""


def test_first_requests_import_nothing_afterwards() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_REQUESTS], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


FIRST_ANSWER = """
from odradek.cli.imports import let_modules_wait
let_modules_wait()
import asyncio, os, signal, struct, sys

import odradek.net.ready

def connect(cluster, *_, **__):
    address.append(cluster.bootstrap.split(":"))

async def ask(*_):
    [(host, port)] = address
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(struct.pack(">ihhih", 10, 18, 0, 1, -1))
    await reader.readexactly(4)
    print(*sys.modules)
    os.kill(os.getpid(), signal.SIGINT)

address = []
odradek.net.ready.print_ready = connect
import odradek.net.serve
beside = odradek.net.serve._import_the_rest

async def both(*words):
    await asyncio.gather(ask(), beside(*words))

odradek.net.serve._import_the_rest = both
sys.argv = ["odradek", "serve", "--port", "0", "--log-level", "error"]
from odradek.cli.main import main
main()
"""
MODULES_MAX = 180
"""Our modules that are imported before the first answer: each takes 0.1 to 0.3 ms, and 30 KiB."""
NOT_NEEDED = {
    "anyio",
    "argparse",
    "ast",
    "bz2",
    "cramjam",
    "ctypes",
    "difflib",
    "dis",
    "gettext",
    "hmac",
    "ipaddress",
    "lzma",
    "multiprocessing",
    "odradek.net.warm",
    "pathlib",
    "pickle",
    "prometheus_client",
    "shutil",
    "structlog",
    "tokenize",
    "urllib.parse",
}


FIRST_HEARTBEATS = """
import sys
from odradek.net.warm import pieces
from odradek.releases.table import WIDEST
from odradek.sim import World
from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from odradek.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from odradek.wire.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest, Subtopology, Topology

for piece in pieces(WIDEST):
    piece()
world = World(topics=["t"])
client = world.client()
world.run()
known = set(sys.modules)
member = {"member_id": "m", "member_epoch": 0}
told = {**member, "rebalance_timeout_ms": 60_000}
subscribed = {"subscribed_topic_names": ["t"]}
topology = Topology(epoch=1, subtopologies=[Subtopology(subtopology_id="0", source_topics=["t"])])
tasks = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
for request, version in (
    (ConsumerGroupHeartbeatRequest(group_id="c", topic_partitions=[], **told, **subscribed), 1),
    (ShareGroupHeartbeatRequest(group_id="s", **member, **subscribed), 1),
    (StreamsGroupHeartbeatRequest(group_id="st", process_id="p", topology=topology, **tasks, **told), 0),
):
    assert client.ask(request, version).error_code == 0
late = {name for name in set(sys.modules) - known if name.startswith("odradek.")}
print(sorted(name for name in late if not name.startswith("odradek.wire.messages.")))
"""


def test_the_first_heartbeat_of_each_kind_of_group_imports_at_most_classes_of_records() -> None:
    """A streams group's took 13 modules, in the step that gives a member all of its tasks."""
    done = subprocess.run([sys.executable, "-c", FIRST_HEARTBEATS], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_before_the_first_answer_little_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_ANSWER], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert not NOT_NEEDED & set(loaded)
    assert sum(name.startswith("odradek") for name in loaded) <= MODULES_MAX


WARMED = """
import sys
from odradek.net.warm import pieces
from odradek.releases.table import WIDEST

for piece in pieces(WIDEST):
    piece()
print(*sys.modules)
"""


def test_a_broker_loads_no_code_that_writes_requests_or_reads_responses() -> None:
    done = subprocess.run([sys.executable, "-c", WARMED], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    told = [name for name in loaded if name.endswith("_request_reader")]
    assert len(told) == sum(name.endswith("_response_writer") for name in loaded) > 70
    assert [] == [name for name in loaded if name.endswith(("_request_writer", "_response_reader"))]
    assert not {"cramjam", "odradek.wire.emit_reader"} & set(loaded)


def test_what_cannot_be_imported_is_left_to_who_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def missing() -> None:
        raise ImportError("an extra that was not installed")

    def first(release: Release) -> list[object]:
        assert release is WIDEST
        return [missing, lambda: done.append("the rest")]

    monkeypatch.setattr(odradek.net.warm, "pieces", first)
    anyio.run(lambda: warm(WIDEST, pause_s=0))
    assert ["the rest"] == done


def test_nothing_is_done_before_the_broker_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    async def warmed(release: Release) -> None:
        told.append("warm")
        os.kill(os.getpid(), signal.SIGINT)

    def ready(cluster: RunningCluster, metrics_url: str | None) -> None:
        told.append("ready")

    monkeypatch.setattr(module, "_warm", warmed)
    monkeypatch.setattr(module, "AFTER_S", 0)
    assert [] == serve(ServeOptions(config=Config(), port=0), log=Lines(), ready=ready)
    assert ["ready", "warm"] == told


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def interrupt_later(_: RunningCluster, _metrics_url: str | None) -> None:
    """A broker that would wait for ever fails its test."""
    asyncio.get_running_loop().call_later(10, interrupt)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_while_no_descriptor_is_left_imports_wait_and_are_tried_again(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [OSError(code, os.strerror(code), "metadata.py")] * 3

    async def warmed(release: Release) -> None:
        if failures:
            raise failures.pop()
        interrupt()

    log = Lines()
    monkeypatch.setattr(module, "_warm", warmed)
    monkeypatch.setattr(module, "AFTER_S", 0)
    monkeypatch.setattr(module, "AGAIN_S", 0)
    assert [] == serve(ServeOptions(config=Config(), port=0), log=log, ready=interrupt_later)
    assert [] == failures
    assert 1 == sum("import_waits" in str(line) for line in log.lines)


def test_the_broker_serves_on_when_a_module_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def warmed(release: Release) -> None:
        asyncio.get_running_loop().call_soon(interrupt)
        raise OSError(errno.EIO, os.strerror(errno.EIO), "metadata.py")

    log = Lines()
    monkeypatch.setattr(module, "_warm", warmed)
    monkeypatch.setattr(module, "AFTER_S", 0)
    assert [] == serve(ServeOptions(config=Config(), port=0), log=log, ready=interrupt_later)
    assert any("import_failed" in str(line) for line in log.lines)


FLOODED = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from odradek.cli.main import main
main()
"""


def brokers_at(address: str) -> int:
    """How many there are; the event loop hangs up on who comes while it has no descriptor."""
    ends = monotonic() + 20
    while True:
        try:
            with BlockingClient(address, client_id="after", timeout_s=5) as client:
                return len(client.ask(MetadataRequest(topics=None), 9).brokers)
        except OSError:
            assert monotonic() < ends


@pytest.mark.client
@pytest.mark.skipif(sys.platform != "linux", reason="the number of descriptors is that of Linux")
def test_a_broker_whose_clients_take_all_descriptors_in_its_first_second_lives() -> None:
    command = [sys.executable, "-c", FLOODED, "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            assert broker.stderr is not None
            address = broker.stdout.readline().strip().removeprefix(READY)
            host, _, port = address.rpartition(":")
            with ExitStack() as exits:
                for _ in range(80):
                    exits.enter_context(socket.create_connection((host, int(port))))
                assert "import_waits" in broker.stderr.readline()
            assert 1 == brokers_at(address)
            broker.send_signal(signal.SIGINT)
            assert 0 == broker.wait(30)
        finally:
            broker.kill()


def test_every_told_api_is_a_piece() -> None:
    apis = {piece.args[0] for piece in pieces(WIDEST) if hasattr(piece, "args")}
    assert {ApiKey.JOIN_GROUP, ApiKey.CREATE_TOPICS, ApiKey.STREAMS_GROUP_HEARTBEAT} <= apis
    assert ApiKey.PUSH_TELEMETRY not in apis
