"""Real consumers are sent to the replica of their rack, and read there what is committed (KIP-392)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from confluent_kafka import Consumer, Message, Producer

from odradek.core.machine import Fact
from odradek.testing import Cluster

pytestmark = [pytest.mark.client, pytest.mark.slow]

RACKS = {
    "broker.rack": "left,middle,right",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}


class Fetches:
    """Who was asked by clients for records."""

    def __init__(self) -> None:
        self.brokers: list[int] = []

    def emit(self, node_id: int, facts: Iterable[Fact]) -> None:
        self.brokers += [node_id for fact in facts if fact.kind == "request" and fact.fields["api"] == "FETCH"]


def polled(consumer: Consumer, count: int) -> list[Message]:
    messages: list[Message] = []
    while len(messages) < count:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        messages.append(message)
    return messages


def test_librdkafka_reads_at_a_replica_and_sees_what_is_committed_alone() -> None:
    fetches = Fetches()
    with Cluster(brokers=3, topics=["t:1:3"], config=RACKS, events=fetches) as cluster:
        cluster.move_leader("t", 0, to=1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "x"})
        producer.init_transactions()
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "g",
                "client.rack": "right",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["t"])
        for value, commits in ((b"a", True), (b"b", False), (b"c", True)):
            producer.begin_transaction()
            producer.produce("t", value)
            producer.flush(30)
            (producer.commit_transaction if commits else producer.abort_transaction)()
        assert [b"a", b"c"] == [message.value() for message in polled(consumer, 2)]
        assert fetches.brokers[-1] == 3
        cluster.stop_broker(3)  # and back to the leader
        producer.begin_transaction()
        producer.produce("t", b"d")
        producer.commit_transaction()
        assert [b"d"] == [message.value() for message in polled(consumer, 1)]
        assert fetches.brokers[-1] == 1
        consumer.close()
