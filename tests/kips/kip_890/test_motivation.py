"""KIP-890, "Motivation": what goes wrong without it, shown to go wrong; and that it does not with it.

A late message is a Produce that is held back on its way to the leader.
"""

from __future__ import annotations

import pytest
from tests.kips.helpers import (
    ABORT,
    COMMIT,
    OK,
    OLD,
    Cluster,
    P,
    Producer,
    Q,
    Style,
    every_level,
    finished,
    new_clients,
    old_clients,
    refusal_of,
)

from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

LEVELS_OF_NEW_CLIENTS = pytest.mark.parametrize("level", [1, 2])
VERIFICATION = pytest.mark.parametrize("verification", [True, False], ids=["verified", "unverified"])


@every_level
@old_clients
def test_a_late_message_hangs_without_verification(level: int, style: Style) -> None:
    """Motivation: a message that comes in after the abort opens a transaction that nobody will ever end.

    The last stable offset stands still, and read_committed consumers get no further.
    """
    cluster = Cluster(level, transaction_partition_verification_enable=False)
    producer, late = finished(cluster, style)
    assert OK == late.result().error_code
    other = Producer.started(cluster, OLD, tid="other")
    other.transact(P, b"of another producer")
    assert (2, 5) == cluster.stable(P)
    assert [] == cluster.consumed(P)
    cluster.world.advance(producer.timeout_ms + 60_000)
    assert (2, 5) == cluster.stable(P)
    assert ErrorCode.INVALID_TXN_STATE is producer.end(COMMIT)[0]


@every_level
@old_clients
@pytest.mark.parametrize("outcome", [ABORT, COMMIT], ids=["abort", "commit"])
def test_a_late_message_is_refused_with_verification(level: int, style: Style, outcome: bool) -> None:
    """Motivation: the server has the control that keeps such records from being written."""
    cluster = Cluster(level)
    _, late = finished(cluster, style, outcome)
    assert refusal_of(style) == late.result().error_code
    assert (2, 2) == cluster.stable(P)
    assert [b"in time"] == cluster.values(P)


@LEVELS_OF_NEW_CLIENTS
@new_clients
@VERIFICATION
@pytest.mark.parametrize("outcome", [ABORT, COMMIT], ids=["abort", "commit"])
def test_a_late_message_of_a_new_client_has_an_old_epoch(
    level: int, style: Style, verification: bool, outcome: bool
) -> None:
    """Motivation: late arrival is avoided because the transaction is uniquely identified, and fenced."""
    cluster = Cluster(level, transaction_partition_verification_enable=verification)
    _, late = finished(cluster, style, outcome)
    assert ErrorCode.INVALID_PRODUCER_EPOCH == late.result().error_code
    assert (2, 2) == cluster.stable(P)
    assert [b"in time"] == cluster.values(P)


@every_level
@old_clients
def test_a_late_message_of_an_old_client_joins_its_next_transaction(level: int, style: Style) -> None:
    """Motivation: for older clients a record of the previous transaction may still be included in the next one.

    Verification cannot help, for the partition is in a transaction of the same producer id and epoch again.
    """
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.transact(P, b"first")
    on_its_way = cluster.hold(ApiKey.PRODUCE)
    producer.begin(P)
    late = producer.sending(P, b"late")
    assert OK is producer.abort()
    producer.begin(P)
    cluster.release(on_its_way)
    assert OK == late.result().error_code
    assert OK is producer.commit()
    assert [b"first", b"late"] == cluster.consumed(P)


@LEVELS_OF_NEW_CLIENTS
@new_clients
@VERIFICATION
def test_a_late_message_of_a_new_client_does_not_join_the_next(level: int, style: Style, verification: bool) -> None:
    """Motivation: the epoch bump keeps a message of an aborted transaction out of the one that follows."""
    cluster = Cluster(level, transaction_partition_verification_enable=verification)
    producer = Producer.started(cluster, style)
    assert OK is producer.send(P, b"aborted")
    on_its_way = cluster.hold(ApiKey.PRODUCE, times=1)
    late = producer.sending(P, b"late")
    assert OK is producer.abort()
    assert OK is producer.send(P, b"next")
    cluster.release(on_its_way)
    assert ErrorCode.INVALID_PRODUCER_EPOCH == late.result().error_code
    assert OK is producer.commit()
    assert [b"next"] == cluster.consumed(P)


def with_a_late_marker(level: int, style: Style) -> tuple[Cluster, Producer]:
    """The first try to write a COMMIT marker arrives only when the next transaction is open."""
    cluster = Cluster(level, request_timeout_ms=5_000)
    producer = Producer.started(cluster, style)
    first_try = cluster.hold(ApiKey.WRITE_TXN_MARKERS, times=1)
    producer.transact(P, b"first")
    cluster.world.advance(6_000)
    assert "CompleteCommit" == cluster.state("x")
    producer.begin(P)
    assert OK is producer.send(P, b"second")
    cluster.release(first_try)
    return cluster, producer


@every_level
@old_clients
def test_a_late_marker_ends_the_wrong_transaction_of_an_old_client(level: int, style: Style) -> None:
    """Motivation: a marker that comes when the next transaction of the same epoch is open may end that one."""
    cluster, producer = with_a_late_marker(level, style)
    assert ["0:data@0", "1:COMMIT@0", "2:data@0", "3:COMMIT@0"] == cluster.log(P)
    assert OK is producer.abort()
    assert [b"first", b"second"] == cluster.consumed(P)


@LEVELS_OF_NEW_CLIENTS
@new_clients
def test_a_late_marker_does_not_end_the_next_transaction_of_a_new_client(level: int, style: Style) -> None:
    """Motivation: a transaction that is identified by producer id and epoch is not ended by the marker of another."""
    cluster, producer = with_a_late_marker(level, style)
    assert ["0:data@0", "1:COMMIT@1", "2:data@1"] == cluster.log(P)
    assert (2, 3) == cluster.stable(P)
    assert OK is producer.abort()
    assert [b"first"] == cluster.consumed(P)


@every_level
@old_clients
@pytest.mark.parametrize("version", [9, 11])
def test_a_client_that_writes_before_it_adds_hangs_without_verification(level: int, style: Style, version: int) -> None:
    """Motivation: a buggy client that writes before it adds the partition causes a hanging transaction, too."""
    cluster = Cluster(level, transaction_partition_verification_enable=False)
    producer = Producer.started(cluster, style)
    assert OK is producer.send(P, version=version)
    assert (0, 1) == cluster.stable(P)
    assert "Empty" == cluster.state("x")
    assert ErrorCode.INVALID_TXN_STATE is producer.abort()


@every_level
@old_clients
@pytest.mark.parametrize("other", [False, True], ids=["nothing-added", "another-partition-added"])
def test_a_client_that_writes_before_it_adds_is_refused(level: int, style: Style, other: bool) -> None:
    """Motivation: the server keeps a client from writing to a partition before it is added to the transaction."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    if other:
        producer.begin(Q)
    assert refusal_of(style) is producer.send(P)
    assert (0, 0) == cluster.stable(P)


@LEVELS_OF_NEW_CLIENTS
@new_clients
def test_a_new_client_cannot_forget_to_add(level: int, style: Style) -> None:
    """Motivation: the buggy case is gone because clients need not add partitions any more."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    assert OK is producer.send(P, b"a")
    assert OK is producer.abort()
    assert (2, 2) == cluster.stable(P)
    assert [] == cluster.consumed(P)


@LEVELS_OF_NEW_CLIENTS
@new_clients
def test_producer_id_and_epoch_identify_a_transaction(level: int, style: Style) -> None:
    """Motivation 1: after every commit or abort marker the epoch is another, so each transaction has its own pair."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    pairs = []
    for outcome in (COMMIT, ABORT, ABORT, COMMIT):
        pairs.append(producer.pair)
        producer.transact(P, outcome=outcome)
    x = pairs[0][0]
    assert [(x, 0), (x, 1), (x, 2), (x, 3)] == pairs
    assert [
        "0:data@0",
        "1:COMMIT@1",
        "2:data@1",
        "3:ABORT@2",
        "4:data@2",
        "5:ABORT@3",
        "6:data@3",
        "7:COMMIT@4",
    ] == cluster.log(P)


@every_level
@old_clients
@pytest.mark.parametrize("version", [3, 9, 11])
def test_a_zombie_with_the_same_epoch_writes_nothing_between_transactions(
    level: int, style: Style, version: int
) -> None:
    """Motivation 3: for older clients it is made sure that a transaction is ongoing before anything is written to it.

    The zombie shares producer id and epoch with the instance that goes on, so no epoch can fence it.
    """
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.transact(P, b"a")
    zombie = Producer(cluster, style)
    zombie.pair, zombie.sequences = producer.pair, {P: 1, Q: 0}
    assert ErrorCode.NONE is not zombie.send(P, b"zombie", version=version)
    assert ErrorCode.NONE is not zombie.send(Q, b"zombie", version=version)
    producer.begin(P)
    assert ErrorCode.NONE is not zombie.send(Q, b"zombie", version=version)
    assert ([b"a"], []) == (cluster.values(P), cluster.values(Q))


@LEVELS_OF_NEW_CLIENTS
@new_clients
@pytest.mark.parametrize("version", [9, 11, 12, 13])
def test_a_zombie_of_a_new_client_is_fenced_everywhere(level: int, style: Style, version: int) -> None:
    """Motivation 1: with an epoch for each transaction a zombie has an old one, even where it has never written."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    zombie_pair = producer.pair
    producer.transact(P, b"a")
    for partition in (P, Q):
        assert ErrorCode.INVALID_PRODUCER_EPOCH is producer.send(
            partition, pair=zombie_pair, sequence=1, version=version
        )
    assert OK is producer.send(P, b"b")
    for outcome in (COMMIT, ABORT):
        assert (ErrorCode.PRODUCER_FENCED, None) == producer.end(outcome, pair=zombie_pair)
    assert OK is producer.commit()
    assert [b"a", b"b"] == cluster.consumed(P)
    assert [] == cluster.values(Q)
