"""KIP-588, "Allow producers to recover gracefully from transaction timeouts": the error PRODUCER_FENCED, by version."""

from __future__ import annotations

import pytest
from tests.kips.helpers import COMMIT, NEW, OK, OLD, Cluster, P, Producer, Q, every_level

from odradek.wire.errors import ErrorCode

OLDER = ErrorCode.INVALID_PRODUCER_EPOCH


def fenced(cluster: Cluster) -> Producer:
    """A producer whose successor is there."""
    producer = Producer.started(cluster, OLD)
    producer.transact(P)
    assert OK is Producer(cluster, OLD).init()
    return producer


def expected(version: int, *, since: int) -> ErrorCode:
    """PRODUCER_FENCED for those that know it."""
    return ErrorCode.PRODUCER_FENCED if version >= since else OLDER


@every_level
@pytest.mark.parametrize("version", [3, 4, 5])
def test_init_producer_id(level: int, version: int) -> None:
    """Public Interfaces: InitProducerId knows PRODUCER_FENCED from version 4 on."""
    producer = fenced(Cluster(level))
    assert expected(version, since=4) is producer.init(producer.pair, version=version)


@every_level
@pytest.mark.parametrize("version", range(4))
def test_add_partitions_to_txn(level: int, version: int) -> None:
    """Public Interfaces: AddPartitionsToTxn from version 2 on."""
    producer = fenced(Cluster(level))
    assert expected(version, since=2) is producer.add(P, version=version)


@every_level
@pytest.mark.parametrize("version", [4, 5])
def test_add_partitions_to_txn_of_a_broker(level: int, version: int) -> None:
    """Public Interfaces: brokers are told in every version, whether they verify or add."""
    cluster = Cluster(level)
    producer = fenced(cluster)
    assert [ErrorCode.PRODUCER_FENCED] == cluster.verify("x", producer.pair, P, version=version)
    [result] = cluster.add_partitions("x", producer.pair, P, version=version).results_by_transaction
    assert ErrorCode.PRODUCER_FENCED == result.topic_results[0].results_by_partition[0].partition_error_code


@every_level
@pytest.mark.parametrize("version", range(5))
def test_add_offsets_to_txn(level: int, version: int) -> None:
    """Public Interfaces: AddOffsetsToTxn from version 2 on."""
    producer = fenced(Cluster(level))
    assert expected(version, since=2) is producer.add_offsets(version=version)


@every_level
@pytest.mark.parametrize("version", range(5))
def test_end_txn(level: int, version: int) -> None:
    """Public Interfaces: EndTxn from version 2 on."""
    producer = fenced(Cluster(level))
    assert (expected(version, since=2), None) == producer.end(COMMIT, version=version)


@pytest.mark.parametrize("level", [1, 2])
def test_the_newest_end_txn(level: int) -> None:
    """Public Interfaces: and so in the version that bumps epochs."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, NEW)
    before = producer.pair
    producer.transact(P)
    producer.send(P)
    assert (ErrorCode.PRODUCER_FENCED, None) == producer.end(COMMIT, pair=before)


@every_level
@pytest.mark.parametrize("version", range(3, 14))
def test_produce(level: int, version: int) -> None:
    """Public Interfaces: a Produce never hears it, whether the log or the coordinator fences."""
    producer = fenced(Cluster(level))
    # The new epoch is in no log yet, so it is the coordinator that fences.
    assert OLDER is producer.send(Q, version=version, sequence=0)
    newer = Producer(producer.cluster, OLD)
    assert OK is newer.init()
    newer.transact(P)
    assert OLDER is producer.send(P, version=version, sequence=1)


@every_level
@pytest.mark.parametrize("version", range(7))
def test_txn_offset_commit(level: int, version: int) -> None:
    """Public Interfaces: nor does a TxnOffsetCommit."""
    producer = fenced(Cluster(level))
    assert OLDER is producer.commit_offset(1, version=version)
