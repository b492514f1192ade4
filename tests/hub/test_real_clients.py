"""Fifty clusters of one hub serve real clients at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from tests.hub.helpers import made

from odradek.control.client import HubClient

CLUSTERS = 50
WAIT_S = 60


def producer(bootstrap: str, transactional_id: str) -> Producer:
    made = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0})
    made.init_transactions(WAIT_S)
    return made


def committed(bootstrap: str) -> list[bytes | None]:
    """What a reader gets of the topic, up to its end."""
    settings = {"group.id": "g", "isolation.level": "read_committed", "enable.partition.eof": True}
    reader = Consumer({"bootstrap.servers": bootstrap, **settings})
    reader.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
    values = []
    while (message := reader.poll(WAIT_S)) is not None and message.error() is None:
        values.append(message.value())
    reader.close()
    return values


@pytest.mark.slow
@pytest.mark.client
def test_fifty_clusters_serve_real_clients_at_once(hub: HubClient) -> None:
    """All their transactions are open together; each is committed, and seen where it was written and nowhere else."""
    with ThreadPoolExecutor(CLUSTERS) as beside:
        clusters = list(beside.map(lambda _: made(hub, topics=["t"])[1], range(CLUSTERS)))
        tills = list(beside.map(lambda number: producer(clusters[number], f"till-{number}"), range(CLUSTERS)))
        for number, till in enumerate(tills):
            till.begin_transaction()
            till.produce("t", f"of {number}")
        assert [0] * CLUSTERS == list(beside.map(lambda till: till.flush(WAIT_S), tills))
        assert CLUSTERS == len(hub.get("clusters"))
        list(beside.map(lambda till: till.commit_transaction(WAIT_S), tills))
        assert [[f"of {number}".encode()] for number in range(CLUSTERS)] == list(beside.map(committed, clusters))
