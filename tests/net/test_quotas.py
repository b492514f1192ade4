"""A real producer under a limit, over real sockets and the real clock."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from tests.security.quotas import CLIENT, CONSUMER, PRODUCER, alter, entry
from tests.security.wire import Raw

from odradek.testing import Cluster

pytestmark = [pytest.mark.client, pytest.mark.slow]

RATE = 200_000
TOTAL = 800_000


def limit(cluster: Cluster, key: str) -> None:
    host, _, port = cluster.bootstrap.rpartition(":")
    with Raw((host, int(port))) as raw:
        alter(raw, entry(((CLIENT, "slow"),), (key, float(RATE))))


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
