"""The driver that has the clusters of a JVM: brokers by the ids of a test, and what can be asked of them."""

from __future__ import annotations

import base64
import io
import socket
from collections.abc import AsyncIterator
from typing import Any

import anyio
import msgspec
import pytest
from tests.kafka.driver import (
    Clusters,
    DescribeLog,
    Forget,
    ReadMetadata,
    Request,
    SetEpoch,
    StartBroker,
    StopBroker,
    configuration,
)

from odradek.net.client import BlockingClient
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.metadata_request import MetadataRequest

CLUSTER = "kept-by-the-test"


@pytest.fixture
async def clusters() -> AsyncIterator[Clusters]:
    made = Clusters(io.StringIO())
    yield made
    await made.stop()


def start(broker: int, config: dict[str, str] | None = None, *, rack: str | None = None) -> StartBroker:
    return StartBroker(CLUSTER, broker, config or {}, {"transaction.version": 1, "share.version": 1}, rack=rack)


async def ask(port: object, request: msgspec.Struct, version: int) -> Any:
    def exchange() -> Any:
        with BlockingClient(f"localhost:{port}", client_id="test") as client:
            return client.ask(request, version)

    return await anyio.to_thread.run_sync(exchange)


async def test_brokers_join_one_after_the_other_with_the_ids_and_racks_of_the_test(clusters: Clusters) -> None:
    first = await clusters.answer(start(7, rack="left"))
    second = await clusters.answer(start(0, rack="right"))
    for port in (first["port"], second["port"]):
        told = await ask(port, MetadataRequest(topics=[]), 9)
        assert [
            (broker.node_id, broker.rack, broker.host) for broker in sorted(told.brokers, key=lambda each: each.node_id)
        ] == [
            (0, "right", "localhost"),
            (7, "left", "localhost"),
        ]
        assert told.cluster_id == CLUSTER


async def test_each_broker_has_its_own_configuration(clusters: Clusters) -> None:
    await clusters.answer(start(0, {"num.partitions": "2"}))
    await clusters.answer(start(1, {"num.partitions": "5"}))
    assert [clusters.cluster(CLUSTER).node(each).config.num_partitions for each in (0, 1)] == [2, 5]


async def test_a_broker_stops_and_comes_back_at_its_port(clusters: Clusters) -> None:
    port = (await clusters.answer(start(0)))["port"]
    await clusters.answer(start(1))
    await clusters.answer(StopBroker(CLUSTER, 0))
    with pytest.raises(OSError):
        await ask(port, MetadataRequest(topics=[]), 9)
    with socket.socket() as other, pytest.raises(OSError):
        other.bind(("127.0.0.1", port))  # which is kept for it
    assert (await clusters.answer(start(0)))["port"] == port
    told = await ask(port, MetadataRequest(topics=[]), 9)
    assert [broker.node_id for broker in told.brokers] == [0, 1]


async def test_the_metadata_log_is_read_from_an_offset(clusters: Clusters) -> None:
    await clusters.answer(start(0))
    end = (await clusters.answer(ReadMetadata(CLUSTER, 0)))["end"]
    assert isinstance(end, int)
    await clusters.answer(start(1))
    later = await clusters.answer(ReadMetadata(CLUSTER, end))
    assert base64.b64decode(str(later["batches"]))[:8] == end.to_bytes(8)


async def test_the_log_of_a_partition_is_described_while_somebody_leads_it(clusters: Clusters) -> None:
    port = (await clusters.answer(start(0)))["port"]
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    await ask(port, CreateTopicsRequest(topics=[topic]), 5)
    log = (await clusters.answer(DescribeLog(CLUSTER, "orders", 0)))["log"]
    assert log == {
        "start": 0,
        "end": 0,
        "highWatermark": 0,
        "stable": 0,
        "epoch": 0,
        "size": 0,
        "producers": [],
    }
    await clusters.answer(StopBroker(CLUSTER, 0))
    assert await clusters.answer(DescribeLog(CLUSTER, "orders", 0)) == {"log": None}


async def test_a_change_is_shown_once_every_broker_has_heard_of_it(clusters: Clusters) -> None:
    for broker in (0, 1, 2):
        await clusters.answer(start(broker))
    await clusters.answer(StopBroker(CLUSTER, 0))
    end = (await clusters.answer(ReadMetadata(CLUSTER, 0)))["end"]
    assert isinstance(end, int)
    assert [clusters.cluster(CLUSTER).node(each).image.offset for each in (1, 2)] == [end - 1, end - 1]


async def test_a_cluster_is_forgotten(clusters: Clusters) -> None:
    await clusters.answer(start(0))
    await clusters.answer(Forget(CLUSTER))
    await clusters.answer(Forget(CLUSTER))
    with pytest.raises(LookupError):
        await clusters.answer(StopBroker(CLUSTER, 0))


async def test_an_id_that_nobody_knows_has_no_epoch(clusters: Clusters) -> None:
    await clusters.answer(start(0))
    with pytest.raises(LookupError):
        await clusters.answer(SetEpoch(CLUSTER, "till-1", 7))


def test_a_configuration_keeps_what_odradek_knows_and_tells_the_rest() -> None:
    config, dropped = configuration(
        start(0, {"num.partitions": "3", "no.such.key": "x", "log.segment.bytes": "many", "metadata.version": "x"})
    )
    assert config.num_partitions == 3
    assert set(dropped) == {"no.such.key", "log.segment.bytes", "metadata.version"}
    assert config.odradek_transaction_version == 1
    assert config.odradek_strict_replication
    assert config.group_initial_rebalance_delay_ms == 3000


def test_a_request_is_a_line_of_json() -> None:
    line = b'{"type":"start","cluster":"c","broker":0,"rack":null,"port":0,"config":{"a":"b"},"features":{"f":1}}'
    assert msgspec.json.decode(line, type=Request) == StartBroker("c", 0, {"a": "b"}, {"f": 1})
