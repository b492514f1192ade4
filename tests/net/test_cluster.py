"""`odradek.testing.Cluster` over real sockets, synchronous and not."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from odradek.cli.usage import UsageError
from odradek.core.machine import Fact
from odradek.host.events import Dial
from odradek.net.client import BlockingClient
from odradek.testing import ApiKey, Cluster, rule
from odradek.wire.messages.metadata_request import MetadataRequest

pytestmark = pytest.mark.slow


def ask(bootstrap: str, body: bytes) -> bytes:
    """One request over a socket of its own, and the answer without its length."""
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        stream = connection.makefile("rb")
        (length,) = struct.unpack(">i", stream.read(4))
        return stream.read(length)


API_VERSIONS = struct.pack(">hhih", 18, 0, 42, -1)


def test_a_cluster_beside_the_test() -> None:
    with Cluster(topics=["t:2"]) as cluster:
        assert 42 == struct.unpack_from(">i", ask(cluster.bootstrap, API_VERSIONS))[0]
        assert 1 == cluster.leader("t", 1)


async def test_a_cluster_in_the_loop_of_the_test() -> None:
    async with Cluster(brokers=2, topics=["t:2"]) as cluster:
        assert 2 == len(cluster.bootstrap.split(","))
        assert {1, 2} == {cluster.leader("t", 0), cluster.leader("t", 1)}


@pytest.mark.parametrize("turns", range(8))
async def test_a_start_that_is_cancelled_leaves_its_port_free(turns: int) -> None:
    with socket.socket() as any_free:
        any_free.bind(("127.0.0.1", 0))
        address = any_free.getsockname()
    cluster = Cluster(port=address[1])
    starting = asyncio.ensure_future(cluster.__aenter__())
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait({starting})
    if not starting.cancelled():
        await cluster.__aexit__(None, None, None)
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(address)
        again.listen()


def test_the_ids_are_those_that_were_chosen() -> None:
    with Cluster(node_ids=[0, 1, 2], topics=["t:3"]) as cluster:
        assert [0, 1, 2] == cluster.broker_ids
        assert {0, 1, 2} == {cluster.leader("t", index) for index in range(3)}
        cluster.move_leader("t", 1, to=0)
        assert 0 == cluster.leader("t", 1)
        assert 0 == cluster.move_transaction_coordinator("x", to=0)
        assert cluster.metrics() == cluster.metrics(0)
        with pytest.raises(LookupError, match=r"there is no broker 3: the brokers are \[0, 1, 2\]"):
            cluster.stop_broker(3)


def test_ids_that_no_cluster_can_have_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="Each node id is given once, and 1 is given 2 times"):
        Cluster(node_ids=[1, 1])
    with pytest.raises(ValueError, match="A cluster has at least one broker"):
        Cluster(brokers=0)


@pytest.mark.parametrize("factor", ["", ":1"])
def test_a_topic_outlives_the_broker_that_leads_it_unless_it_has_one_replica(factor: str) -> None:
    with Cluster(brokers=3, topics=[f"t:3{factor}"]) as cluster:
        [index] = [index for index in range(3) if cluster.leader("t", index) == 3]
        cluster.stop_broker(3)
        assert (cluster.leader("t", index) in (1, 2)) is not bool(factor)
        cluster.start_broker(3)


def kinds(path: Path) -> list[str]:
    return [json.loads(line)["kind"] for line in path.read_text().splitlines()]


def test_events_go_to_a_file_as_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with Cluster(topics=["t"], events=str(path)):
        assert 1 == kinds(path).count("controller_activated")  # written as they happen
    with Cluster(events=path):
        pass
    assert 2 == kinds(path).count("controller_activated")  # appended


async def test_events_go_to_a_file_in_the_loop_of_the_test(tmp_path: Path) -> None:
    async with Cluster(events=tmp_path / "events.jsonl"):
        pass
    assert "controller_activated" in kinds(tmp_path / "events.jsonl")


def test_a_file_of_events_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    threads = threading.active_count()
    with pytest.raises(UsageError, match="Cannot write events to"), Cluster(events=str(tmp_path / "no" / "events")):
        pass
    assert threads == threading.active_count()


def test_a_single_topic_needs_no_list() -> None:
    with Cluster(topics="orders:2") as cluster:
        assert 1 == cluster.leader("orders", 1)
        with pytest.raises(LookupError):
            cluster.leader("o", 0)


def test_it_has_to_be_entered() -> None:
    with pytest.raises(RuntimeError, match="context manager"):
        _ = Cluster().bootstrap


def test_a_wrong_configuration_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"no\.such\.key"):
        Cluster(config={"no.such.key": 1})


def test_leaders_move_and_come_back() -> None:
    with Cluster(brokers=2, topics=["t:1"]) as cluster:
        first = cluster.leader("t", 0)
        cluster.move_leader("t", 0, to=3 - first)
        assert 3 - first == cluster.leader("t", 0)
        assert cluster.move_group_coordinator("g") in (1, 2)


def test_a_broker_that_is_stopped_leads_nothing_and_comes_back() -> None:
    with Cluster(brokers=3, topics=["t:3"]) as cluster:
        cluster.stop_broker(1)  # the controller
        assert {2, 3} >= {cluster.leader("t", index) for index in range(3)} - {-1}
        cluster.start_broker(1)
        assert 42 == struct.unpack_from(">i", ask(cluster.bootstrap.split(",")[0], API_VERSIONS))[0]
        cluster.move_leader("t", 0, to=1)
        assert 1 == cluster.leader("t", 0)


async def test_a_broker_that_has_dialled_itself_can_be_stopped() -> None:
    async with Cluster() as cluster:
        driver = cluster._running.drivers[1]
        driver._dial(Dial(node_id=1, conn=-99))
        cluster.stop_broker(1)
        assert driver.stopped
        assert not driver._links


def test_what_there_is_not_is_said_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="a topic is NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS, not t:x"):
        Cluster(topics=["t:x"])
    with Cluster(topics=["t:2:1"]) as cluster:
        for ask_of in (cluster.stop_broker, cluster.start_broker, cluster.metrics):
            with pytest.raises(LookupError, match=r"there is no broker 9: the brokers are \[1\]"):
                ask_of(9)


def test_what_is_so_already_stays_so() -> None:
    with Cluster(brokers=2) as cluster:
        node = cluster._running.node(1)
        for _ in range(2):
            cluster.start_broker(1)
            cluster.resume_broker(1)
        assert cluster._running.node(1) is node
        for _ in range(2):
            cluster.pause_broker(1)
            cluster.advance(timedelta(seconds=5))
        # It was silent for ten seconds, and not for five of them anew.
        assert not cluster._node(2).image.is_alive(1)
        cluster.resume_broker(1)
        for _ in range(2):
            cluster.stop_broker(1)
        for alive in (cluster.pause_broker, cluster.resume_broker):
            with pytest.raises(RuntimeError, match="broker 1 is stopped"):
                alive(1)


def test_a_fault_hits_as_often_as_it_was_told() -> None:
    with Cluster() as cluster:
        fault = cluster.add_rule(rule(ApiKey.API_VERSIONS, disconnect="before", times=2))
        for _ in range(2):
            with pytest.raises((ConnectionError, struct.error)):
                ask(cluster.bootstrap, API_VERSIONS)
        assert 42 == struct.unpack_from(">i", ask(cluster.bootstrap, API_VERSIONS))[0]
        assert 2 == fault.hits


def test_a_held_request_is_served_when_it_is_released() -> None:
    with Cluster() as cluster:
        fault = cluster.add_rule(rule(ApiKey.API_VERSIONS, hold=True))
        host, _, port = cluster.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS)
            # Another connection's answer shows that the held request has been taken.
            ask(cluster.bootstrap, API_VERSIONS)
            cluster.release(fault)
            assert 42 == struct.unpack(">ii", connection.makefile("rb").read(8))[1]


def test_the_fixtures_of_the_plugin(kafka_bootstrap: str) -> None:
    assert 42 == struct.unpack_from(">i", ask(kafka_bootstrap, API_VERSIONS))[0]


def test_metrics_are_numbers() -> None:
    with Cluster() as cluster:
        assert cluster.metrics()["partitions"] >= 100


class FeatureChanges:
    """An event sink that keeps the changes of features that broker 1 tells of."""

    def __init__(self) -> None:
        self.changes: list[tuple[object, object]] = []

    def emit(self, node_id: int, facts: Iterable[Fact]) -> None:
        told = [fact.fields for fact in facts if fact.kind == "feature_changed" and node_id == 1]
        self.changes += [(change["level_from"], change["level_to"]) for change in told]


def test_the_level_of_transaction_version_goes_up_and_down() -> None:
    seen = FeatureChanges()
    with Cluster(brokers=2, transaction_version=0, events=seen) as cluster:
        seen.changes.clear()
        for level in (2, 1, 1):
            cluster.set_transaction_version(level)
        with pytest.raises(ValueError, match="only supports versions 0-2"):
            cluster.set_transaction_version(3)
    assert [(0, 2), (2, 1)] == seen.changes


DECISIONS: dict[str, Callable[[Cluster], object]] = {
    "level": lambda cluster: cluster.set_transaction_version(0),
    "leader": lambda cluster: cluster.move_leader("t", 0, to=2),
    "coordinator": lambda cluster: cluster.move_transaction_coordinator("x"),
    "lag": lambda cluster: cluster.set_replica_lag(2, None),
    "address": lambda cluster: cluster.advertise(3, port=1234),
    "stopped": lambda cluster: cluster.stop_broker(1),
}


@pytest.mark.parametrize("decision", DECISIONS)
async def test_every_broker_knows_what_was_decided_when_the_method_returns(decision: str) -> None:
    """A client that goes on at once may ask any of them: in a loop of the test no turn passes in between."""
    async with Cluster(brokers=3, topics=["t"]) as cluster:
        before = cluster._node().image.offset
        DECISIONS[decision](cluster)
        offsets = {cluster._node(broker).image.offset for broker in (2, 3)}
        assert offsets == {cluster._node().image.offset}
        assert min(offsets) > before


def test_clients_are_disconnected_and_may_come_back() -> None:
    with Cluster() as cluster:
        host, _, port = cluster.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS)
            assert connection.recv(4)
            cluster.disconnect_clients()
            while connection.recv(65_536):
                pass  # what was sent before it was closed
        assert 42 == struct.unpack_from(">i", ask(cluster.bootstrap, API_VERSIONS))[0]


@pytest.mark.parametrize("level", ["loud", "DEBUG", "", None, 10])
def test_a_log_level_that_there_is_not(level: Any) -> None:
    with pytest.raises(ValueError, match="A log level is one of debug, info, warning, error, not"):
        Cluster(log_level=level)


@pytest.mark.parametrize(("wrong", "sentence"), [
    ({"brokers": "3"}, "Wrong argument brokers of a cluster: Expected `int | null`, got `str`."),
    ({"brokers": True}, "Wrong argument brokers of a cluster: Expected `int | null`, got `bool`."),
    ({"brokers": 2.5}, "Wrong argument brokers of a cluster: Expected `int | null`, got `float`."),
    ({"brokers": -2}, "A cluster has at least one broker."),
    ({"node_ids": "12"}, "Wrong argument node_ids of a cluster: Expected `array | null`, got `str`."),
    ({"node_ids": [1, "2"]}, "Wrong argument node_ids[1] of a cluster: Expected `int`, got `str`."),
    ({"port": "9092"}, "Wrong argument port of a cluster: Expected `int`, got `str`."),
    ({"port": 70_000}, "Wrong argument port of a cluster: Expected `int` <= 65535."),
    ({"host": None}, "Wrong argument host of a cluster: Expected `str`, got `null`."),
    ({"seed": "x"}, "Wrong argument seed of a cluster: Expected `int | null`, got `str`."),
    ({"as_kafka": 3.6}, "Wrong argument as_kafka of a cluster: Expected `str | null`, got `float`."),
    ({"transaction_version": "2"}, "Wrong argument transaction_version of a cluster: Expected `int | null`, got `str`"),
    ({"config": "a=b"}, "The argument config of a cluster takes a mapping of broker keys to values, not 'a=b'."),
    ({"config": {1: 2}}, "Wrong argument key in config of a cluster: Expected `str`, got `int`."),
    ({"topics": 5}, "The topics of a cluster are texts like 't:3' or StartTopics, not 5."),
    ({"topics": [None]}, "A topic of a cluster is a text like 't:3' or a StartTopic, not None."),
])  # fmt: skip
def test_a_wrong_argument_is_a_sentence(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(sentence)):
        Cluster(**wrong)


@pytest.mark.parametrize("events", [3, b"events.jsonl", []])
def test_events_that_have_nowhere_to_go(events: Any) -> None:
    with pytest.raises(TypeError, match=r"Events go to the path of a file or to an object with emit\(node_id, facts\)"):
        Cluster(events=events)


def test_a_broker_that_starts_again_keeps_what_the_test_has_set() -> None:
    with Cluster(brokers=2) as cluster:
        fault = cluster.add_rule(rule(ApiKey.METADATA, times="all", disconnect="before", broker=2))
        cluster.set_coordinator_load_ms(1500)
        cluster.stop_broker(2)
        cluster.start_broker(2)
        node = cluster._running.node(2)
        assert 1500 == node.coordinators.load_ms
        assert node.faults is not None
        with pytest.raises(ConnectionError), BlockingClient(cluster.bootstrap.split(",")[1], client_id="t") as client:
            client.ask(MetadataRequest(topics=[]), 12)
        assert 1 == fault.hits


def test_a_cluster_is_entered_once_at_a_time() -> None:
    cluster = Cluster()
    with cluster:
        with pytest.raises(RuntimeError, match="runs already"), cluster:
            pass
        assert [1] == cluster.broker_ids
    with cluster:
        assert [1] == cluster.broker_ids
