"""`odradek serve` as a process: the ready line, the flags, the clear sentences, the end."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.hub.helpers import Till
from tests.oracle.asking import ask
from tests.oracle.releases.ranges import told

from odradek.cli.parent import FLAG
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.registry import ApiKey, encode

pytestmark = pytest.mark.slow

TIMEOUT_S = 60


@contextmanager
def serving(*arguments: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], list[tuple[str, int]]]]:
    """A server on free ports, with variables of the environment, and the addresses of its brokers."""
    process = subprocess.Popen(
        [sys.executable, "-m", "odradek", "serve", "--port", "0", FLAG, *arguments],
        stdin=subprocess.PIPE,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("odradek ready bootstrap="), line
        yield process, [split(address) for address in line.strip().partition("=")[2].split(",")]
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def refused(*arguments: str) -> str:
    """What a start that must not succeed says; its exit code is 2."""
    done = subprocess.run(
        [sys.executable, "-m", "odradek", "serve", *arguments], capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert 2 == done.returncode, done
    assert "" == done.stdout
    return done.stderr


def api_versions(address: tuple[str, int]) -> tuple[int, int]:
    """Correlation id and error code of the answer to ApiVersions v0."""
    with socket.create_connection(address, timeout=TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">ihhih", 10, 18, 0, 42, -1))
        answer = connection.makefile("rb").read(10)
    _, correlation_id, error = struct.unpack(">iih", answer)
    return correlation_id, error


def test_it_serves_and_ends_gracefully() -> None:
    with serving() as (process, [address]):
        assert (42, 0) == api_versions(address)
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(TIMEOUT_S)


def test_it_ends_with_its_standard_input() -> None:
    with serving() as (process, [address]):
        assert (42, 0) == api_versions(address)
        assert process.stdin is not None
        process.stdin.write("what is written is nothing to it\n")
        process.stdin.flush()
        assert (42, 0) == api_versions(address)
        process.stdin.close()
        assert 0 == process.wait(TIMEOUT_S)


def page_faults(process: subprocess.Popen[str]) -> int:
    """How many pages the process has touched for the first time."""
    return int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[7])


@pytest.mark.skipif(
    not hasattr(os, "confstr") or "glibc" not in (os.confstr("CS_GNU_LIBC_VERSION") or ""), reason="glibc"
)
def test_large_requests_reuse_the_memory_of_those_before() -> None:
    """A megabyte has 256 pages."""
    frame = struct.pack(">hhih", ApiKey.PRODUCE, 9, 1, -1) + b"\0"
    data = PartitionProduceData(index=0, records=memoryview(bytes(1_000_000)))
    frame += encode(ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="none", partition_data=[data])]), 9)
    with serving() as (process, [address]), socket.create_connection(address, timeout=TIMEOUT_S) as connection:
        stream = connection.makefile("rb")

        def produce() -> None:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            (length,) = struct.unpack(">i", stream.read(4))
            stream.read(length)

        for _ in range(20):
            produce()
        before = page_faults(process)
        for _ in range(20):
            produce()
        assert page_faults(process) - before < 20 * 100


def test_several_brokers_each_have_a_listener() -> None:
    with serving("--brokers", "3") as (_, addresses):
        assert 3 == len({port for _, port in addresses})
        assert [(42, 0)] * 3 == [api_versions(address) for address in addresses]


def test_clients_are_told_the_advertised_address() -> None:
    with serving("--advertised-host", "kafka.example", "--advertised-port", "9192") as (_, addresses):
        assert [("kafka.example", 9192)] == addresses


@pytest.mark.parametrize(
    ("arguments", "variable", "told"),
    [
        ([], "0.0.0.0", "localhost"),
        (["--host", "127.0.0.1"], "0.0.0.0", "127.0.0.1"),
        (["--advertised-host", "kafka.example"], "0.0.0.0", "kafka.example"),
        ([], "", "127.0.0.1"),
    ],
)
def test_the_environment_says_where_to_listen_unless_the_command_does(
    arguments: list[str], variable: str, told: str
) -> None:
    with serving("--brokers", "2", *arguments, ODRADEK_HOST=variable) as (_, addresses):
        assert [told] * 2 == [host for host, _ in addresses]


def test_logs_may_be_json() -> None:
    with serving("--json", "--set", "num.network.threads=9") as (process, _):
        process.terminate()
        _, errors = process.communicate(timeout=TIMEOUT_S)
    lines = [json.loads(line) for line in errors.splitlines()]
    assert "configuration_without_effect" == lines[0]["event"]
    assert ["num.network.threads"] == lines[0]["keys"]


def test_a_hostile_client_harms_nobody() -> None:
    with serving() as (process, [address]):
        with socket.create_connection(address, timeout=TIMEOUT_S) as hostile:
            hostile.sendall(struct.pack(">i", 2**31 - 1) + b"x" * 1000)
            assert b"" == hostile.makefile("rb").read()
        assert (42, 0) == api_versions(address)
        assert process.poll() is None


def test_a_taken_port_is_one_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port, free = taken.getsockname()[1], "port 0 is any free one"
        words = ("--port", str(port))
        assert f"odradek: Cannot listen on 127.0.0.1:{port}: Address already in use; {free}.\n" == refused(*words)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--set", "no.such.key=1"], "Unknown configuration key no.such.key"),
        (["--set", "num.partitions=zero"], "num.partitions"),
        (["--set", "num.partitions"], "--set takes KEY=VALUE, not num.partitions."),
        (["--topic", "a b"], "a b"),
        (["--topic", "t:0"], "--topic takes"),
        (["--log-level", "loud"], "Unknown log level loud"),
        (["--port", "65535", "--brokers", "2"], "out of range"),
        (["--prot", "0"], "There is no option --prot, did you mean --port?"),
        (["--brokers", "two"], "--brokers: two is not a whole number"),
        (["--brokers", "0"], "--brokers: 0 is below 1"),
        (["orders"], "There is no place for orders"),
        (["--events", "/no/such/folder/events"], "Cannot write events to /no/such/folder/events"),
        (["--metrics-port", "99999"], "--metrics-port: 99999 is above 65535"),
        (["--advertised-port", "0"], "--advertised-port: 0 is below 1"),
        (["--advertised-port", "99999"], "Port 99999 is out of range"),
        (["--advertised-host", ""], "No client can connect to ''"),
        (["--advertised-host", "0.0.0.0"], "No client can connect to '0.0.0.0'"),
        (["--advertised-host", "a b"], "No client can connect to 'a b'"),
        (["--advertised-host", "kafka.example:99"], "a name or an address, without a port."),
        (["--cluster-id", "é é"], "A cluster id is of letters, digits and ._-"),
        (["--cluster-id", ""], "A cluster id is of letters, digits and ._-"),
        (["--cluster-id", "a" * 256], "A cluster id has 255 characters at most"),
        (["--advertised-host", "a" * 256], "No client can connect to a host of 256 characters"),
        (["--set", f"broker.rack={'a' * 40_000}"], "rack: a string of 40000 bytes is longer than 32767."),
        (["--brokers", "3", "--set", "broker.rack=a,b"], "there are 3 brokers and 2 racks"),
        (["--as-kafka", "4.0", "--set", "odradek.as.kafka=3.6"], "--as-kafka says 4.0 and --set odradek.as.kafka=3.6"),
    ],
)
def test_a_wrong_start_is_one_sentence(arguments: list[str], sentence: str) -> None:
    said = refused(*arguments)
    assert sentence in said
    assert 1 == said.count("\n")


def test_events_are_written_as_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with serving("--events", str(path)) as (process, _):
        process.terminate()
        process.wait(TIMEOUT_S)
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert "controller_activated" in {event["kind"] for event in events}
    assert list(range(1, len(events) + 1)) == [event["seq"] for event in events]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_events_that_find_no_place_harm_nobody() -> None:
    with serving("--events", "/dev/full", "--topic", "t", "--json") as (process, [(host, port)]):
        till = Till(f"{host}:{port}")
        assert (0, 0, 0) == (till.add(), till.send(), till.end())
        till.close()
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        *logged, last = process.stderr.read().splitlines()
        assert 2 == process.wait(TIMEOUT_S)
    assert ["events_lost", "stopping"] == [json.loads(line)["event"] for line in logged]
    assert last.startswith("odradek: /dev/full lacks ")
    assert last.endswith(" events, from number 1 on: No space left on device.")


def test_the_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "odradek", "--version"], capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.stdout.startswith("odradek 0.")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("--as-kafka", "3.6", "--transaction-version", "1"),
            "odradek: Kafka 3.6 has no level 1 of transaction.version: it does not have the feature.\n",
        ),
        (
            ("--as-kafka", "4.0", "--set", "odradek.metadata.version=33"),
            "odradek: Kafka 4.0 has no level 33 of metadata.version: it has 7 to 25.\n",
        ),
        (
            ("--as-kafka", "2.7"),
            (
                "odradek: Invalid value 2.7 for configuration odradek.as.kafka: "
                "String must be one of: 2.8, 3.3, 3.6, 3.9, 4.0, 4.3, 4.4.\n"
            ),
        ),
    ],
)
def test_a_release_that_cannot_be_so(arguments: tuple[str, ...], sentence: str) -> None:
    assert sentence == refused("--port", "0", *arguments)


def test_the_brokers_have_the_ids_that_were_chosen() -> None:
    with serving("--node-ids", "7,0") as (_, addresses):
        clusters = [ask(address, ApiKey.DESCRIBE_CLUSTER, 0, {}) for address in addresses]
    for cluster in clusters:
        told_of = {broker.broker_id: (broker.host, broker.port) for broker in cluster.brokers}
        assert {7: addresses[0], 0: addresses[1]} == told_of
        assert 7 == cluster.controller_id


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--node-ids", "0,1,0"), "Each node id is given once, and 0 is given 2 times."),
        (("--node-ids", "0,-1"), "A node id is from 0 to 2147483647, not -1."),
        (("--node-ids", "2147483648"), "A node id is from 0 to 2147483647, not 2147483648."),
        (("--node-ids", "0,one"), "Node ids are numbers, separated by commas, like 0,1,2; not '0,one'."),
        (("--node-ids", "0,,1"), "Node ids are numbers, separated by commas, like 0,1,2; not '0,,1'."),
        (("--node-ids", "0,1", "--brokers", "3"), "3 brokers cannot have 2 node ids: give one id for each."),
    ],
)
def test_ids_that_no_cluster_can_have(arguments: tuple[str, ...], sentence: str) -> None:
    assert f"odradek: {sentence}\n" == refused("--port", "0", *arguments)


@pytest.mark.parametrize(
    ("arguments", "level"),
    [
        (("--as-kafka", "2.8"), 0),
        (("--as-kafka", "3.9", "--transaction-version", "0"), 0),
        (("--as-kafka", "4.0"), 2),
        (("--as-kafka", "4.0", "--transaction-version", "1"), 1),
        ((), 2),
    ],
)
def test_the_level_follows_the_release(arguments: tuple[str, ...], level: int) -> None:
    with serving(*arguments) as (_, addresses):
        finalized = told(addresses[0])["api_versions"][3]["finalized"]
    assert [level] * 2 == finalized.get("transaction.version", [0, 0])
