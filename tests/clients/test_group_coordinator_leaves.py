"""A transactional producer commits offsets after the broker of its group's coordinator has left the cluster.

librdkafka from 2.10 on (2.16.1 here, not 2.8.2) waits for the broker that it knew, whatever timeout it was given, until
another of its connections changes. It does so on three brokers of Apache Kafka 4.4 as well, after SIGKILL and SIGTERM.
The test would fail with a release that looks the coordinator up again: then docs/testing.md has to say so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.testing import Cluster

pytestmark = pytest.mark.client

STAYS, LEAVES, NEXT = 1, 2, 3
OWN_TIMEOUT_S = 1.0
LONGER_S = 4.0
AGAIN_S = 2.0
TRIES = 15
PATIENCE_S = 30.0
Commit = Callable[[], None]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, topics=["orders:1", "totals:1"]) as running:
        running.move_group_coordinator("kitchen", to=LEAVES)
        running.move_transaction_coordinator("till-1", to=STAYS)
        for topic in ("orders", "totals"):
            running.move_leader(topic, 0, to=STAYS)
        yield running


@pytest.fixture
def commit(cluster: Cluster) -> Iterator[Commit]:
    """One transaction of a producer that has committed offsets of the group before, and knows which brokers run."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "till-1"})
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "kitchen"})
    group = consumer.consumer_group_metadata()
    producer.init_transactions(PATIENCE_S)

    def transaction() -> None:
        producer.begin_transaction()
        producer.produce("totals", "one")
        producer.send_offsets_to_transaction([TopicPartition("orders", 0, 1)], group, OWN_TIMEOUT_S)
        producer.commit_transaction(PATIENCE_S)

    def look_and_commit() -> None:
        producer.list_topics(timeout=PATIENCE_S)
        transaction()

    transaction()
    yield look_and_commit
    consumer.close()


def begun(commit: Commit) -> threading.Event:
    """Set when the transaction has been committed."""
    committed = threading.Event()

    def run() -> None:
        commit()
        committed.set()

    threading.Thread(target=run, daemon=True).start()
    return committed


def test_librdkafka_waits_for_a_coordinator_that_has_left(cluster: Cluster, commit: Commit) -> None:
    cluster.stop_broker(LEAVES)
    committed = begun(commit)
    waits = not committed.wait(LONGER_S)
    for _ in range(TRIES):  # It looks again when one of its connections changes while another one is up.
        cluster.disconnect_clients()
        if committed.wait(AGAIN_S):
            break
    assert committed.is_set()
    assert waits


def test_librdkafka_follows_a_coordinator_that_has_moved(cluster: Cluster, commit: Commit) -> None:
    cluster.move_group_coordinator("kitchen", to=NEXT)
    assert begun(commit).wait(PATIENCE_S)
