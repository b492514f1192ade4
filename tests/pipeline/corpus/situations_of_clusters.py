"""What healthy clusters of three brokers do."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic
from tests.oracle.asking import ask
from tests.oracle.real_kafka import RealKafka
from tests.pipeline.corpus.kafkas import admin, cluster, configure, create, done, plain
from tests.pipeline.record_logs import java_transactions

from odradek.wire.registry import ApiKey

__all__ = ["CLUSTERS"]


def three_brokers() -> list[RealKafka]:
    nodes = cluster()
    create(nodes[0], "orders", 3, 3)
    create(nodes[0], "plain", 1, 3)
    java_transactions(nodes[0], "shop", 6, leave_open=False)
    plain(nodes[0], "plain", 5)
    time.sleep(1)
    for node in (nodes[2], nodes[1], nodes[0]):
        node.stop()
    return nodes


def a_broker_falls_behind() -> list[RealKafka]:
    """One is killed and comes back; another one is killed for good: its replicas end earlier."""
    nodes = cluster()
    create(nodes[0], "orders", 3, 3)
    create(nodes[0], "plain", 1, 3)
    java_transactions(nodes[0], "shop", 3, leave_open=False)
    nodes[1].kill()
    plain(nodes[0], "plain", 3)
    nodes[1].start()
    time.sleep(6)
    nodes[2].kill()
    java_transactions(nodes[0], "shop", 3, leave_open=False)
    plain(nodes[0], "plain", 3)
    time.sleep(1)
    nodes[1].stop()
    nodes[0].stop()
    return nodes


def reassigned() -> list[RealKafka]:
    """Partitions move from one broker to another while they are written to."""
    nodes = cluster()
    create(nodes[0], "orders", 3, 1)
    java_transactions(nodes[0], "shop", 4, leave_open=False)
    leaders = {
        number: one.leader for number, one in admin(nodes[0]).list_topics("orders").topics["orders"].partitions.items()
    }
    moves = [
        {"partition_index": number, "replicas": [leader % 3 + 1, (leader + 1) % 3 + 1]}
        for number, leader in leaders.items()
    ]
    fields = {"timeout_ms": 9000, "topics": [{"name": "orders", "partitions": moves}]}
    answer = ask(("127.0.0.1", nodes[0].port), ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, fields)
    assert answer.error_code == 0, answer
    java_transactions(nodes[0], "shop", 4, leave_open=False)
    time.sleep(3)
    for node in (nodes[2], nodes[1], nodes[0]):
        node.stop()
    return nodes


COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "300",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "1",
    "min.insync.replicas": "1",
}


def compacted_before_it_was_copied() -> list[RealKafka]:
    """A replica is made of a log that its leader has compacted; the cleaner of its own broker does not run.

    `both` gets a second replica, `moved` another one, and `once` is moved when it is not compacted any more.
    """
    nodes = cluster(2, others={"log.cleaner.backoff.ms": "3600000"}, log_cleaner_backoff_ms="200")
    topics = ("both", "moved", "once")
    client = admin(nodes[0])
    done(client.create_topics([NewTopic(name, 1, replica_assignment=[[1]], config=COMPACTED) for name in topics]))
    for name in topics:
        _keyed(nodes[0], name, 12)
    deadline = time.monotonic() + 60
    while not all(_is_compacted(nodes[0], name) for name in topics) and time.monotonic() < deadline:
        _keyed(nodes[0], "both", 1)
        time.sleep(0.5)
    assert all(_is_compacted(nodes[0], name) for name in topics), "the cleaner has not been there"
    configure(nodes[0], "once", cleanup_policy="delete")
    moves = [
        {"name": name, "partitions": [{"partition_index": 0, "replicas": [2, 1] if name == "both" else [2]}]}
        for name in topics
    ]
    fields = {"timeout_ms": 9000, "topics": moves}
    answer = ask(("127.0.0.1", nodes[0].port), ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, fields)
    assert answer.error_code == 0, answer
    deadline = time.monotonic() + 60
    while not _is_moved(nodes[0], "moved") and time.monotonic() < deadline:
        time.sleep(0.5)
    for name in topics:
        _keyed(nodes[0], name, 3)
    time.sleep(1)
    for node in reversed(nodes):
        node.stop()
    return nodes


def _keyed(kafka: RealKafka, topic: str, count: int) -> None:
    """Batches of three records, of an idempotent producer and of one with transactions, over and over the same keys."""
    names: tuple[dict[str, str | bool], ...] = {"enable.idempotence": True}, {"transactional.id": f"shop-{topic}"}
    for number, name in enumerate(names):
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 200, **name})
        if number:
            producer.init_transactions(60)
        for turn in range(count):
            if number:
                producer.begin_transaction()
            for key in (f"own-{turn}", "k1", "k2"):
                producer.produce(topic, key=key if turn % 4 == 0 else "k1", value=f"{turn}", partition=0)
            producer.flush()
            if number:
                producer.commit_transaction(60)
            time.sleep(0.1)


def _is_compacted(kafka: RealKafka, topic: str) -> bool:
    """Whether the cleaner has been there, and removed something."""
    checkpoint = Path(kafka.directory) / "data" / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
    return any(line.startswith(f"{topic} 0 ") and int(line.split()[2]) > 40 for line in lines)


def _is_moved(kafka: RealKafka, topic: str) -> bool:
    one = admin(kafka).list_topics(topic).topics[topic].partitions[0]
    return list(one.replicas) == [2] == list(one.isrs)


CLUSTERS = (three_brokers, a_broker_falls_behind, reassigned, compacted_before_it_was_copied)
