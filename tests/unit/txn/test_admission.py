"""A coordinator on the leader's broker is asked without a message, and answers as it answers a message."""

from __future__ import annotations

import pytest
from tests.kips.cluster import Cluster
from tests.kips.helpers import OK, P
from tests.kips.producer import Producer

from odradek.broker import Node
from odradek.txn.shard import TransactionShard
from odradek.txn.verification_errors import TransactionOperation
from odradek.wire.errors import ErrorCode

UNKNOWN = ErrorCode.INVALID_PRODUCER_ID_MAPPING


def answers(*, calls_itself: bool, level: int = 2) -> tuple[list[ErrorCode], tuple[int, int, int]]:
    """Those to the first Produce of an unknown id, of an older epoch and of the owner; questions asked, and failed."""
    cluster = Cluster(level, brokers=1, calls_itself=calls_itself, tells=not calls_itself)
    nobody, producer = Producer(cluster, tid="nobody"), Producer.started(cluster, epoch=5)
    nobody.pair = producer.pair
    older = producer.pair[0], 4
    found = [nobody.send(P), producer.send(P, pair=older, sequence=0), producer.send(P), producer.send(P)]
    metrics = node_of(cluster).admission.verifier.metrics
    return found, (metrics.verifications, metrics.failures, sum(metrics.counts))


def node_of(cluster: Cluster) -> Node:
    return cluster.node(cluster.leader(P))


def shard_of(cluster: Cluster) -> TransactionShard:
    shard = node_of(cluster).transaction_coordinators.of("x")
    assert isinstance(shard, TransactionShard)
    return shard


@pytest.mark.parametrize("level", [0, 1, 2])
def test_it_answers_as_it_answers_a_message(level: int) -> None:
    by_message = answers(calls_itself=False, level=level)
    assert by_message == answers(calls_itself=True, level=level)
    errors, (asked, failed, _) = by_message
    if level:
        assert [UNKNOWN, ErrorCode.INVALID_PRODUCER_EPOCH, OK, OK] == errors
        assert (3, 2) == (asked, failed)
    else:
        assert [UNKNOWN, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNSUPPORTED_VERSION] == errors[:3]


def test_a_coordinator_that_is_asked_already_is_asked_in_line() -> None:
    cluster = Cluster(brokers=1, calls_itself=True, tells=False)
    producer, node = Producer.started(cluster), node_of(cluster)
    admission = node.admission
    verifier, now = admission.verifier, cluster.world.now
    verifier.ask(
        coordinator=node.node_id,
        transactional_id="y",
        producer_id=1,
        producer_epoch=0,
        partitions=[P],
        operation=TransactionOperation.ADD_PARTITION,
        now=now,
    )
    [under_way] = verifier.due(now)
    sent = producer.sending(P)
    cluster.world.run()
    assert not sent.arrived
    verifier.lost(under_way, now)
    node.pumps.soon(admission)
    assert OK == sent.result().error_code


def test_a_coordinator_that_loads_is_asked_in_line() -> None:
    cluster = Cluster(brokers=1, calls_itself=True, tells=False)
    producer = Producer.started(cluster)
    shard = shard_of(cluster)
    shard.loading = True
    assert ErrorCode.NOT_ENOUGH_REPLICAS is producer.send(P)
    shard.loading = False
    assert OK is producer.send(P)
