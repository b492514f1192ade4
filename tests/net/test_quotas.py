"""A real producer under a limit, over real sockets and the real clock."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import closing
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer
from tests.security.quotas import CLIENT, CONSUMER, PRODUCER, alter, entry
from tests.security.wire import Raw

from odradek.net.metrics_page import BrokerNumbers, MetricsPage
from odradek.testing import Cluster
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

pytestmark = [pytest.mark.client, pytest.mark.slow]

VERSIONS = struct.pack(">ihhihb", 11, 18, 0, 7, 1, ord("c"))
RATE = 200_000
TOTAL = 800_000


def limit(cluster: Cluster, key: str) -> None:
    host, _, port = cluster.bootstrap.rpartition(":")
    with Raw((host, int(port))) as raw:
        alter(raw, entry(((CLIENT, "slow"),), (key, float(RATE))))


def set_config(raw: Raw, key: str, value: str) -> None:
    resource = AlterConfigsResource(
        resource_type=4, resource_name="", configs=[AlterableConfig(name=key, config_operation=0, value=value)]
    )
    assert 0 == raw.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code


def about_the_rate(began: float) -> None:
    """What lies in the windows at the start is free: one second's."""
    rate = TOTAL / (time.monotonic() - began + 1)
    assert 0.6 * RATE < rate < 1.3 * RATE


def test_a_producer_is_slowed_down_to_its_rate() -> None:
    throttles: list[int] = []

    def throttled(event: Any) -> None:
        throttles.append(event.throttle_time)

    with Cluster(topics=["t"], config={"quota.window.num": 2}) as cluster:
        limit(cluster, PRODUCER)
        settings = {"bootstrap.servers": cluster.bootstrap, "client.id": "slow", "batch.size": 20_000}
        producer = Producer({**settings, "throttle_cb": throttled})
        began = time.monotonic()
        for _ in range(TOTAL // 10_000):
            producer.produce("t", bytes(10_000))
        assert 0 == producer.flush(60)
        about_the_rate(began)
        assert max(throttles) > 0
        assert cluster.metrics(1)["throttle_time_ms_total"] >= max(throttles)
        with closing(MetricsPage(BrokerNumbers(lambda: cluster._running), host="127.0.0.1", port=0)) as page:
            text = urlopen(f"http://127.0.0.1:{page.port}/metrics", timeout=10).read().decode()
        labels = '{broker="1",client_id="slow",quota="producer_byte_rate",user=""}'
        for name in ("odradek_throttles_total", "odradek_throttle_time_ms_total"):
            [line] = [line for line in text.splitlines() if line.startswith(name)]
            assert line.startswith(f"{name}{labels} "), line


def test_a_consumer_is_slowed_down_to_its_rate() -> None:
    with Cluster(topics=["t"], config={"quota.window.num": 2}) as cluster:
        # A batch that does not fit into the windows would never come, from Kafka neither.
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "batch.size": 20_000})
        for _ in range(TOTAL // 10_000):
            producer.produce("t", bytes(10_000))
        assert 0 == producer.flush(60)
        limit(cluster, CONSUMER)
        settings = {"bootstrap.servers": cluster.bootstrap, "client.id": "slow", "group.id": "g"}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest", "max.partition.fetch.bytes": 50_000})
        consumer.subscribe(["t"])
        read, began = 0, 0.0
        while read < TOTAL:
            message = consumer.poll(60)
            assert message is not None
            began = began or time.monotonic()
            read += len(message.value() or b"")
        consumer.close()
        about_the_rate(began)


def test_connections_wait_for_room_and_those_of_one_address_are_counted() -> None:
    config = {"max.connections": "2", "max.connections.per.ip": "9", "max.connections.per.ip.overrides": "localhost:3"}
    with Cluster(config=config) as cluster:
        host, _, port = cluster.bootstrap.rpartition(":")

        def connected() -> socket.socket:
            return socket.create_connection((host, int(port)), 10)

        def answers(client: socket.socket, *, within_s: float = 10) -> bool:
            client.settimeout(within_s)
            try:
                return len(client.recv(4)) == 4
            except TimeoutError:
                return False

        with connected() as first, connected() as second, connected() as third:
            for client in (first, second, third):
                client.sendall(VERSIONS)
            assert answers(first)
            assert answers(second)
            assert not answers(third, within_s=0.2)
            first.close()
            # What it has said while it waited is served.
            assert answers(third)
            with Raw((host, int(port))) as admin:
                second.close()
                set_config(admin, "max.connections", "100")
                with connected() as fourth, connected() as fifth, connected() as sixth:
                    fourth.sendall(VERSIONS)
                    assert answers(fourth)
                    assert (b"", b"") == (fifth.recv(4), sixth.recv(4))
