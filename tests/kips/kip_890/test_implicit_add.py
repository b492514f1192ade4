"""KIP-890, "Implicitly Add Partitions to Transactions on Produce for New Clients (2)"."""

from __future__ import annotations

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
    every_level,
    new_clients,
    old_clients,
)

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import ADD_PARTITIONS_TO_TXN
from odradek.wire.registry import ApiKey

LEVELS_OF_NEW_CLIENTS = pytest.mark.parametrize("level", [1, 2])
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS


@LEVELS_OF_NEW_CLIENTS
@new_clients
def test_the_first_produce_has_its_partition_added(level: int, style: Style) -> None:
    """Implicitly Add: without any state for the partition this is the first Produce of the transaction, and adds it."""
    cluster = Cluster(level)
    calls = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    producer = Producer.started(cluster, style)
    assert OK is producer.send(P)
    [call] = calls
    [transaction] = call.request_of(ADD_PARTITIONS_TO_TXN).transactions
    assert (False, [("t", [0])]) == (
        transaction.verify_only,
        [(topic.name, topic.partitions) for topic in transaction.topics],
    )
    assert ("Ongoing", [P]) == (cluster.state("x"), cluster.described_partitions("x"))


@LEVELS_OF_NEW_CLIENTS
@new_clients
def test_a_produce_within_a_transaction_asks_nobody(level: int, style: Style) -> None:
    """Implicitly Add: where the first offset of the transaction is populated, the request is handled at once."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.send(P)
    assert 0 == cluster.producers(P)[0].current_txn_start_offset
    calls = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    assert [OK, OK] == [producer.send(P), producer.send(P)]
    assert [] == calls
    assert OK is producer.send(Q)
    assert 1 == len(calls)


@LEVELS_OF_NEW_CLIENTS
@new_clients
def test_the_produce_waits_in_the_purgatory(level: int, style: Style) -> None:
    """Implicitly Add: the request is put in purgatory, and nothing is written before the answer is there."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    adding = cluster.hold(ApiKey.ADD_PARTITIONS_TO_TXN)
    sent = producer.sending(P)
    cluster.world.run()
    assert not sent.arrived
    assert (0, 0) == cluster.stable(P)
    assert [] == cluster.producers(P)
    cluster.release(adding)
    assert OK == sent.result().error_code
    assert (0, 1) == cluster.stable(P)


@LEVELS_OF_NEW_CLIENTS
@new_clients
@pytest.mark.parametrize("outcome", [COMMIT, ABORT], ids=["commit", "abort"])
def test_the_coordinator_stores_before_the_leader_writes(level: int, style: Style, outcome: bool) -> None:
    """Implicitly Add: it is known which partitions to abort, because they are stored before anything is written.

    The client's connection is gone and so is the leader's answer; the partition still gets its marker.
    """
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    cluster.lose(ApiKey.ADD_PARTITIONS_TO_TXN, times=1, reply_only=True)
    assert ErrorCode.NOT_ENOUGH_REPLICAS is producer.send(P)
    assert [P] == cluster.described_partitions("x")
    assert (0, 0) == cluster.stable(P)
    assert OK is producer.finish(outcome)
    assert [f"0:{'COMMIT' if outcome else 'ABORT'}@1"] == cluster.log(P)


@LEVELS_OF_NEW_CLIENTS
@new_clients
def test_the_first_offset_survives_a_change_of_leader(level: int, style: Style) -> None:
    """Implicitly Add: the first offset is persisted, so that the next leader need not ask again."""
    cluster = Cluster(level, brokers=2)
    producer = Producer.started(cluster, style)
    producer.send(P, b"a")
    cluster.move(P, 3 - cluster.leader(P))
    assert 0 == cluster.producers(P)[0].current_txn_start_offset
    calls = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    assert OK is producer.send(P, b"b")
    assert [] == calls
    assert OK is producer.commit()
    assert [b"a", b"b"] == cluster.consumed(P)


@LEVELS_OF_NEW_CLIENTS
@new_clients
@pytest.mark.parametrize("outcome", [COMMIT, ABORT], ids=["commit", "abort"])
def test_the_marker_clears_the_first_offset(level: int, style: Style, outcome: bool) -> None:
    """Implicitly Add: when the marker is written the field is cleared, and the next transaction adds again."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.transact(P, outcome=outcome)
    assert -1 == cluster.producers(P)[0].current_txn_start_offset
    calls = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    assert OK is producer.send(P)
    assert 1 == len(calls)


@LEVELS_OF_NEW_CLIENTS
@new_clients
def test_several_partitions_of_one_request_are_added_together(level: int, style: Style) -> None:
    """Implicitly Add: the partitions of one Produce go to the coordinator as one transaction entry."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    calls = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    answers = producer.produce_together({P: producer.pair, Q: producer.pair})
    assert [OK, OK] == [each.error_code for each in answers]
    assert 1 == len(calls)
    assert [P, Q] == cluster.described_partitions("x")


# ---------------------------------------------------------------------- offsets


@LEVELS_OF_NEW_CLIENTS
@new_clients
def test_txn_offset_commit_adds_the_partition_of_the_offsets(level: int, style: Style) -> None:
    """Implicitly Add: the broker of the group's coordinator makes the call for its offsets partition.

    AddOffsetsToTxn is deprecated for new clients: they need not send it.
    """
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    calls = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    assert OK is producer.commit_offset(7)
    assert [False] == [
        each.verify_only for call in calls for each in call.request_of(ADD_PARTITIONS_TO_TXN).transactions
    ]
    assert [cluster.offsets_of()] == cluster.described_partitions("x")
    assert OK is producer.commit_offset(8)
    assert 1 == len(calls)
    assert OK is producer.commit()
    assert 8 == cluster.offset()


@LEVELS_OF_NEW_CLIENTS
@new_clients
def test_it_is_added_even_if_the_group_refuses(level: int, style: Style) -> None:
    """Implicitly Add: as in Kafka the call comes before the group looks at the request."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    error = ErrorCode.ILLEGAL_GENERATION if style.offsets < 6 else ErrorCode.GROUP_ID_NOT_FOUND
    assert error is producer.commit_offset(7, member="m", generation=3)
    assert [cluster.offsets_of()] == cluster.described_partitions("x")
    assert OK is producer.abort()
    assert -1 == cluster.offset()


# ---------------------------------------------------------------------- who does not have it done


@every_level
@old_clients
def test_older_clients_continue_to_add_partitions_themselves(level: int, style: Style) -> None:
    """Implicitly Add: before the bumped version a client has to go on sending the requests that add."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    assert OK is not producer.send(P)
    assert OK is not producer.commit_offset(1)
    assert "Empty" == cluster.state("x")
    assert OK is producer.add(P)
    assert OK is producer.add_offsets(version=min(style.add or 0, 3))
    assert OK is producer.send(P)
    assert OK is producer.commit_offset(1)
    assert sorted([P, cluster.offsets_of()]) == cluster.described_partitions("x")


# ---------------------------------------------------------------------- the transaction before is still ending


def ending(level: int, style: Style) -> tuple[Cluster, Producer, object]:
    """A commit is decided, and its markers are held back."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.begin(P, Q)
    assert OK is producer.send(P)
    assert OK is producer.send(Q)
    markers = cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    assert OK is producer.commit()
    return cluster, producer, markers


@LEVELS_OF_NEW_CLIENTS
@new_clients
@pytest.mark.parametrize("released_after_ms", [0, 30, 90])
def test_a_produce_waits_for_the_markers_of_the_transaction_before(
    level: int, style: Style, released_after_ms: int
) -> None:
    """Implicitly Add: EndTxn is answered before its markers are written, so the broker asks again for a while.

    Kafka does so every add.partitions.to.txn.retry.backoff.ms.
    """
    cluster, producer, markers = ending(level, style)
    sent = producer.sending(P)
    cluster.world.advance(released_after_ms)
    assert not sent.arrived
    cluster.release(markers)  # type: ignore[arg-type]
    assert OK == sent.result(within_ms=25).error_code
    assert ["0:data@0", "1:COMMIT@1", "2:data@1"] == cluster.log(P)


@LEVELS_OF_NEW_CLIENTS
@new_clients
@pytest.mark.parametrize(("timeout_ms", "from_ms", "to_ms"), [(30_000, 100, 120), (50, 50, 70), (1, 1, 21)])
def test_a_produce_does_not_wait_for_ever(level: int, style: Style, timeout_ms: int, from_ms: int, to_ms: int) -> None:
    """Implicitly Add: up to add.partitions.to.txn.retry.backoff.max.ms, or the timeout of the request."""
    cluster, producer, _ = ending(level, style)
    started = cluster.world.now
    answer = producer.produce(P, timeout_ms=timeout_ms)
    assert (BUSY, None) == (answer.error_code, answer.error_message)
    assert from_ms <= cluster.world.now - started <= to_ms
    assert (0, 1) == cluster.stable(P)


@every_level
@pytest.mark.parametrize("version", range(3, 12))
def test_an_older_produce_does_not_wait_at_all(level: int, version: int) -> None:
    """Implicitly Add, in contrast: for old clients CONCURRENT_TRANSACTIONS becomes an error that they retry."""
    cluster, producer, _ = ending(level, OLD)
    started = cluster.world.now
    assert OK is not producer.send(("t", 2), version=version)
    answer = producer.produce(("t", 2), version=version)
    text = "Unable to verify the partition has been added to the transaction. Underlying error: CONCURRENT_TRANSACTIONS"
    expected = (ErrorCode.NOT_ENOUGH_REPLICAS, text if version >= 8 else None)
    assert expected == (answer.error_code, answer.error_message)
    assert started == cluster.world.now


@LEVELS_OF_NEW_CLIENTS
@pytest.mark.parametrize("version", range(7))
def test_a_txn_offset_commit_does_not_wait_at_all(level: int, version: int) -> None:
    """Implicitly Add: TxnOffsetCommit passes CONCURRENT_TRANSACTIONS on in every version, and does not wait."""
    cluster, producer, _ = ending(level, NEW)
    started = cluster.world.now
    assert BUSY is producer.commit_offset(1, version=version)
    assert started == cluster.world.now


@LEVELS_OF_NEW_CLIENTS
def test_everything_is_concurrent_while_markers_are_owed(level: int) -> None:
    """Implicitly Add: until the transaction before is complete, the coordinator takes on nothing new for the id."""
    cluster, producer, markers = ending(level, NEW)
    x, epoch = producer.pair
    assert [BUSY, BUSY] == [producer.add(P, version=version, pair=(x, epoch)) for version in (0, 3)]
    assert BUSY is producer.add(P, version=3, pair=(x, epoch - 1))
    assert [BUSY] == cluster.verify("x", (x, epoch), P)
    assert [ErrorCode.PRODUCER_FENCED] == cluster.verify("x", (x, epoch - 1), P)
    assert BUSY is producer.add_offsets()
    assert BUSY is producer.init()
    assert BUSY is producer.init((x, epoch))
    assert "PrepareCommit" == cluster.state("x")
    assert [P, Q] == cluster.described_partitions("x")
    cluster.release(markers)  # type: ignore[arg-type]
    assert "CompleteCommit" == cluster.state("x")
    assert OK is producer.init()
