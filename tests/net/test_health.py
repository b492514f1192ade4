"""`odradek health`, against brokers that answer, that do not, and that are something else."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading

import pytest

from odradek.cli.usage import UsageError
from odradek.net.client import BlockingClient, split_address
from odradek.testing import Cluster
from odradek.tools.health import check_health
from odradek.wire.messages.metadata_request import MetadataRequest

pytestmark = pytest.mark.slow

TIMEOUT_S = 60


def asked(*arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "odradek", "health", *arguments], capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert "" == done.stdout
    return done.returncode, done.stderr


def closed_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def test_brokers_that_answer() -> None:
    with Cluster(brokers=3) as cluster:
        assert (0, "") == asked("--bootstrap", cluster.bootstrap)


def test_one_that_does_not_is_named() -> None:
    gone = f"127.0.0.1:{closed_port()}"
    with Cluster() as cluster:
        code, said = asked("--bootstrap", f"{cluster.bootstrap},{gone}")
    assert 1 == code
    assert said.startswith(f"{gone} does not answer: ")
    assert 1 == said.count("\n")


def test_addresses_that_are_none_are_a_wrong_start() -> None:
    for none in ("localhost:kafka", ""):
        code, said = asked("--bootstrap", none)
        assert 2 == code
        assert "--bootstrap takes HOST:PORT" in said
    with pytest.raises(UsageError):
        check_health("localhost:", wait_s=0, timeout_s=1)


def test_it_waits_for_a_broker_that_comes_late() -> None:
    port = closed_port()
    asking = threading.Event()
    said: list[list[str]] = []

    def ask() -> None:
        asking.set()
        said.append(check_health(f"127.0.0.1:{port}", wait_s=TIMEOUT_S, timeout_s=5))

    thread = threading.Thread(target=ask)
    thread.start()
    asking.wait()
    with Cluster(port=port):
        thread.join()
    assert [[]] == said


def test_a_server_of_another_kind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        (complaint,) = check_health(f"127.0.0.1:{server.getsockname()[1]}", wait_s=0, timeout_s=10)
        thread.join()
    assert complaint.endswith("does not answer: what answers is no Kafka broker")


def test_a_server_that_is_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert [f"{address} does not answer within 0.1 s"] == check_health(address, wait_s=0, timeout_s=0.1)


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("kafka:9192", ("kafka", 9192)),
        ("kafka", ("kafka", 9092)),
        ("[::1]:9092", ("::1", 9092)),
        (" 10.0.0.1:1 ", ("10.0.0.1", 1)),
    ],
)
def test_addresses(address: str, parts: tuple[str, int]) -> None:
    assert parts == split_address(address)


def test_a_connection_carries_one_request_after_the_other() -> None:
    with Cluster(topics=["a:2"]) as cluster, BlockingClient(cluster.bootstrap, client_id="me") as client:
        for version in (1, 9, 12):  # without and with tagged fields in the headers
            topics = client.ask(MetadataRequest(topics=None), version).topics
            assert [("a", 2)] == [(topic.name, len(topic.partitions)) for topic in topics if not topic.is_internal]
