"""The address that clients are told, changed while a broker runs."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from odradek.testing import Cluster

pytestmark = pytest.mark.slow


def told(bootstrap: str) -> dict[int, tuple[str, int]]:
    """What Metadata says of the brokers."""
    brokers: dict[int, Any] = {**AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20).brokers}
    return {broker: (each.host, each.port) for broker, each in brokers.items()}


def test_every_broker_tells_it_and_nothing_else_changes() -> None:
    with Cluster(brokers=2, topics=["t:2:2"]) as cluster:
        before, sockets = told(cluster.bootstrap), cluster.bootstrap
        leaders = [cluster.leader("t", index) for index in range(2)]
        cluster.advertise(2, port=19_092)
        cluster.advertise(1, port=29_092, host="kafka.test")

        assert {1: ("kafka.test", 29_092), 2: (before[2][0], 19_092)} == told(sockets)
        assert f"kafka.test:29092,{before[2][0]}:19092" == cluster.bootstrap
        assert leaders == [cluster.leader("t", index) for index in range(2)]


def test_a_broker_that_comes_back_tells_it_still() -> None:
    with Cluster(brokers=2) as cluster:
        first = cluster.bootstrap.split(",")[0]
        cluster.stop_broker(2)
        cluster.advertise(2, port=19_092)
        cluster.start_broker(2)
        cluster.stop_broker(1)
        cluster.start_broker(1)
        assert 19_092 == told(first)[2][1]


@pytest.mark.parametrize(
    ("broker", "port", "listener", "expected"),
    [(9, 1, None, "9"), (1, 0, None, "from 1 to 65535"), (1, 70_000, None, "from 1"), (1, 1, "X", "no listener X")],
)
def test_what_cannot_be(broker: int, port: int, listener: str | None, expected: str) -> None:
    with Cluster() as cluster, pytest.raises((LookupError, ValueError), match=expected):
        cluster.advertise(broker, port=port, listener=listener)
