"""What healthy clusters of three brokers do."""

from __future__ import annotations

import time

from tests.oracle.asking import ask
from tests.oracle.real_kafka import RealKafka
from tests.pipeline.corpus.kafkas import admin, cluster, create, plain
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


CLUSTERS = (three_brokers, a_broker_falls_behind, reassigned)
