"""KIP-890, "Return Error for Non-Zero Sequence on New Producers" and "InitProducerId changes for TV2 ..."."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kips.helpers import (
    ABORT,
    COMMIT,
    NEW,
    OK,
    OLD,
    Cluster,
    P,
    Producer,
    Q,
    Style,
    every_client,
    every_level,
    new_clients,
    old_clients,
)

from odradek.wire.errors import ErrorCode

LEVELS_OF_NEW_CLIENTS = pytest.mark.parametrize("level", [1, 2])
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
STRANGER = ErrorCode.INVALID_PRODUCER_ID_MAPPING
EXPIRY_MS = 60_000
EXPIRING: dict[str, Any] = {
    "transactional_id_expiration_ms": EXPIRY_MS,
    "transaction_remove_expired_transaction_cleanup_interval_ms": 10_000,
    "producer_id_expiration_ms": EXPIRY_MS,
    "producer_id_expiration_check_interval_ms": 10_000,
}


# ---------------------------------------------------------------------- Return Error for Non-Zero Sequence


@LEVELS_OF_NEW_CLIENTS
@new_clients
def test_a_new_client_begins_with_sequence_0(level: int, style: Style) -> None:
    """Non-Zero Sequence: without producer state on the server, a sequence that is not 0 is an error again.

    The 0 was missed, and nothing may be written before it; the partition has been added all the same, as in Kafka.
    """
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    assert OUT_OF_ORDER is producer.send(P, b"b", sequence=1)
    assert (0, 0) == cluster.stable(P)
    assert [P] == cluster.described_partitions("x")
    assert [OK, OK] == [producer.send(P, value) for value in (b"a", b"b")]
    assert OK is producer.commit()
    assert [b"a", b"b"] == cluster.consumed(P)


@LEVELS_OF_NEW_CLIENTS
@new_clients
@pytest.mark.parametrize("outcome", [COMMIT, ABORT], ids=["commit", "abort"])
def test_a_new_client_begins_each_transaction_with_sequence_0(level: int, style: Style, outcome: bool) -> None:
    """Non-Zero Sequence: each transaction has an epoch of its own, so this holds for the first batch of each."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.transact(P, outcome=outcome)
    assert OUT_OF_ORDER is producer.send(P, sequence=1)
    assert OUT_OF_ORDER is producer.send(P, sequence=5)
    assert OK is producer.send(P, sequence=0)


@LEVELS_OF_NEW_CLIENTS
@new_clients
def test_the_error_is_retriable(level: int, style: Style) -> None:
    """Non-Zero Sequence: the error is the retriable one: the same batch is taken once the one before it is there."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    assert OUT_OF_ORDER is producer.send(P, b"b", sequence=1)
    assert OK is producer.send(P, b"a", sequence=0)
    assert OK is producer.send(P, b"b", sequence=1)
    assert OK is producer.commit()
    assert [b"a", b"b"] == cluster.consumed(P)


@every_level
@old_clients
def test_an_older_client_may_begin_anywhere(level: int, style: Style) -> None:
    """Non-Zero Sequence: only new clients are held to it; for older ones lost state is no reason to refuse."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.begin(P)
    assert OK is producer.send(P, sequence=7)


@every_client
def test_the_complicated_error_is_gone(level: int, style: Style) -> None:
    """Non-Zero Sequence: UNKNOWN_PRODUCER_ID is not answered any more, whatever the sequence."""
    cluster = Cluster(level, **EXPIRING)
    producer = Producer.started(cluster, style)
    producer.transact(P)
    cluster.world.advance(EXPIRY_MS + 20_000)
    assert [] == cluster.producers(P)
    assert OK is producer.init()
    producer.begin(P)
    assert (OUT_OF_ORDER if style.add is None else OK) is producer.send(P, sequence=3)


# ---------------------------------------------------------------------- InitProducerId for new clients


@every_client
def test_init_producer_id_at_startup_fences_the_previous_instance(level: int, style: Style) -> None:
    """InitProducerId changes: it is called when a producer starts up, to fence the instance before it."""
    cluster = Cluster(level)
    first = Producer.started(cluster, style)
    first.transact(P, b"a")
    second = Producer.started(cluster, style)
    assert second.epoch > first.epoch
    fenced = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH}
    if style.add is not None:
        assert first.add(P) in fenced
    assert first.send(P) in fenced
    assert first.send(Q) in fenced
    assert first.end(COMMIT)[0] in fenced
    assert first.commit_offset(1) in fenced
    second.transact(P, b"b")
    assert [b"a", b"b"] == cluster.consumed(P)


@every_client
def test_init_producer_id_aborts_what_the_previous_instance_left_open(level: int, style: Style) -> None:
    """InitProducerId changes: the transaction of the previous instance is aborted before the new one may begin."""
    cluster = Cluster(level)
    first = Producer.started(cluster, style)
    first.begin(P)
    assert OK is first.send(P, b"zombie")
    second = Producer(cluster, style)
    assert ErrorCode.CONCURRENT_TRANSACTIONS is second.init()
    assert OK is second.init()
    assert 2 == second.epoch
    second.transact(P, b"a")
    assert [b"a"] == cluster.consumed(P)
    assert [(first.pair[0], 0)] == cluster.aborted(P)
    assert first.send(P) is ErrorCode.INVALID_PRODUCER_EPOCH


@LEVELS_OF_NEW_CLIENTS
@new_clients
def test_an_abort_needs_no_init_producer_id(level: int, style: Style) -> None:
    """InitProducerId changes: since the epoch is bumped on abort, it need not be called to fence requests."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    before = producer.pair
    producer.send(P, b"a")
    assert OK is producer.abort()
    assert ErrorCode.INVALID_PRODUCER_EPOCH is producer.send(P, pair=before, sequence=1)
    producer.transact(P, b"b")
    assert [b"b"] == cluster.consumed(P)


def after_expiry(level: int, style: Style) -> tuple[Cluster, Producer, Producer]:
    """The example of the section: A processes, B fences A and processes, both are idle until the id has expired."""
    cluster = Cluster(level, **EXPIRING)
    a = Producer.started(cluster, style)
    a.transact(P, b"4")
    b = Producer.started(cluster, style)
    b.transact(P, b"5")
    cluster.world.advance(EXPIRY_MS + 20_000)
    return cluster, a, b


@every_client
def test_an_expired_id_is_unknown_to_every_request(level: int, style: Style) -> None:
    """INVALID_PRODUCER_ID_MAPPING: with the id expired A cannot go on where it was, so nothing is processed twice."""
    cluster, a, b = after_expiry(level, style)
    for producer in (a, b):
        assert STRANGER is producer.send(P, b"5 again")
        assert STRANGER is producer.send(Q, b"5 again")
        assert STRANGER is producer.commit_offset(5)
        assert STRANGER is producer.add_offsets()
        assert (STRANGER, None) == producer.end(COMMIT)
        assert (STRANGER, None) == producer.end(ABORT)
        if style.add is not None:
            assert STRANGER is producer.add(P)
    assert [b"4", b"5"] == cluster.values(P)


@every_client
def test_after_expiry_a_new_instance_begins_with_a_new_producer_id(level: int, style: Style) -> None:
    """INVALID_PRODUCER_ID_MAPPING: the producer has to restart; and then the old instances are strangers still."""
    cluster, a, b = after_expiry(level, style)
    c = Producer.started(cluster, style)
    assert 0 == c.epoch
    assert c.pair[0] not in (a.pair[0], b.pair[0])
    c.begin(P)
    assert OK is c.send(P, b"6")
    for producer in (a, b):
        assert STRANGER is producer.send(P, b"5 again")
        assert (STRANGER, None) == producer.end(ABORT)
    assert OK is c.commit()
    assert [b"4", b"5", b"6"] == cluster.values(P)


@every_level
@pytest.mark.parametrize("version", range(3, 14))
def test_invalid_producer_id_mapping_is_passed_on_to_every_version(level: int, version: int) -> None:
    """INVALID_PRODUCER_ID_MAPPING: fatal to new clients, and old ones know it: every version of Produce gets it."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    stranger = Producer(cluster, NEW, tid="unknown")
    stranger.pair = producer.pair
    assert STRANGER is stranger.send(P, version=version)
    assert STRANGER is producer.send(P, version=version, pair=(producer.pair[0] + 1, 0))
