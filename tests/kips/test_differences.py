"""What docs/differences.md says: where Kafka 4.4 breaks a promise of a KIP, and what is done here instead."""

from __future__ import annotations

import pytest
from tests.kips.helpers import (
    ABORT,
    COMMIT,
    EPOCH_LAST,
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
)

from odradek.faults.one_line import rule
from odradek.host.call import Call
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from odradek.wire.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from odradek.wire.messages.apis import WRITE_TXN_MARKERS
from odradek.wire.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from odradek.wire.registry import ApiKey

BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def marked(call: Call, error: ErrorCode) -> WriteTxnMarkersResponse:
    """An answer to WriteTxnMarkers that says this of every partition."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in call.request_of(WRITE_TXN_MARKERS).markers
        ]
    )


# ---------------------------------------------------------------------- markers


@every_client
def test_a_marker_that_a_partition_refuses_for_its_epoch(level: int, style: Style) -> None:
    """Its log has a later epoch of this producer, so its transaction is over there: as good as a marker."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style, epoch=5)
    producer.begin(P, Q)
    assert OK is producer.send(P)
    assert OK is producer.send(Q)
    assert OK is cluster.write_marker(P, (producer.pair[0], 9), ABORT)
    assert OK is producer.abort()
    assert "CompleteAbort" == cluster.state("x")
    assert ["0:data@5", "1:ABORT@9"] == cluster.log(P)
    assert f"1:ABORT@{producer.epoch}" == cluster.log(Q)[1]
    assert OK is producer.init()


@every_client
@pytest.mark.parametrize(
    "error",
    [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_SERVER_ERROR],
)
def test_a_marker_that_is_refused_for_another_reason(level: int, style: Style, error: ErrorCode) -> None:
    """It is owed all the same, and is sent again every 50 ms."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.begin(P)
    producer.send(P, b"a")
    cluster.answer(ApiKey.WRITE_TXN_MARKERS, lambda call: marked(call, error), times=3)
    calls = cluster.watch(ApiKey.WRITE_TXN_MARKERS)
    started = cluster.world.now
    assert OK is producer.commit()
    assert "PrepareCommit" == cluster.state("x")
    assert cluster.world.run_until(lambda: len(calls) == 1, within_ms=1_000)
    cluster.world.run()
    assert 150 == cluster.world.now - started
    assert "CompleteCommit" == cluster.state("x")
    assert [b"a"] == cluster.consumed(P)


@every_client
@pytest.mark.parametrize("outcome", [ABORT, COMMIT], ids=["abort", "commit"])
@pytest.mark.parametrize("failover", [False, True], ids=["same-coordinator", "failover"])
def test_a_partition_without_a_leader_when_the_transaction_ends(
    level: int, style: Style, outcome: bool, failover: bool
) -> None:
    """Its marker is owed until a leader is back, and until then nothing new begins for the id.

    Kafka drops the partition. Its records then join the next transaction of the producer, and commit with it.
    """
    cluster = Cluster(level, brokers=2)
    tid, partition, other = cluster.coordinator_on(1), cluster.partition_on(2), cluster.partition_on(1)
    producer = Producer.started(cluster, style, tid=tid)
    producer.begin(partition, other)
    assert OK is producer.send(partition, b"a")
    assert OK is producer.send(other, b"b")
    cluster.fence(2)
    assert OK is producer.finish(outcome)
    cluster.world.advance(5_000)
    if failover:
        cluster.move(cluster.log_of(tid))
        cluster.world.advance(5_000)
    assert "Prepare" in cluster.state(tid)
    assert [partition] == cluster.described_partitions(tid)
    assert ([b"b"] if outcome else []) == cluster.consumed(other)
    assert BUSY is producer.init()
    cluster.unfence(2)
    cluster.world.advance(100)
    assert "Complete" in cluster.state(tid)
    assert ([b"a"] if outcome else []) == cluster.consumed(partition)
    producer.transact(partition, b"next")
    assert [b"next"] == cluster.consumed(partition)[-1:]
    assert ([b"a", b"next"] if outcome else [b"next"]) == cluster.consumed(partition)


def with_a_lost_marker(style: Style, *, verification: bool) -> tuple[Cluster, Producer]:
    """A leader has acknowledged the marker of an abort, and has not written it."""
    cluster = Cluster(transaction_partition_verification_enable=verification)
    producer = Producer.started(cluster, style)
    assert OK is producer.send(P, b"aborted")
    cluster.answer(ApiKey.WRITE_TXN_MARKERS, lambda call: marked(call, OK), times=1)
    assert OK is producer.abort()
    assert "CompleteAbort" == cluster.state("x")
    assert (0, 1) == cluster.stable(P)
    return cluster, producer


@new_clients
def test_a_batch_that_meets_an_open_transaction_of_an_older_epoch(style: Style) -> None:
    """It is refused; the client aborts, and the marker of that abort ends both transactions."""
    cluster, producer = with_a_lost_marker(style, verification=True)
    assert ErrorCode.INVALID_TXN_STATE is producer.send(P, b"refused")
    assert OK is producer.abort()
    assert (2, 2) == cluster.stable(P)
    producer.transact(P, b"next")
    assert [b"next"] == cluster.consumed(P)


@new_clients
def test_the_same_without_verification(style: Style) -> None:
    """Who has switched verification off gets what Kafka does: the batch joins, and the aborted record commits."""
    cluster, producer = with_a_lost_marker(style, verification=False)
    assert OK is producer.send(P, b"next")
    assert OK is producer.commit()
    assert [b"aborted", b"next"] == cluster.consumed(P)


# ---------------------------------------------------------------------- producer ids


@every_level
@pytest.mark.parametrize("version", range(6))
def test_end_txn_with_a_producer_id_that_was_rotated_away(level: int, version: int) -> None:
    """After the retry of a rotation the old producer id is still known as the one before."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD, epoch=EPOCH_LAST)
    x = producer.pair
    for _ in range(2):
        assert OK is producer.init(x)
    expected = ErrorCode.PRODUCER_FENCED if version == 5 else ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert (expected, None) == producer.end(COMMIT, pair=x, version=version)


def without_ids(cluster: Cluster) -> object:
    """The broker has used up its producer ids, and gets no more for the time being."""
    held = cluster.hold(ApiKey.ALLOCATE_PRODUCER_IDS)
    ids = cluster.node(1).producer_ids

    def use_up() -> None:
        while ids.take() is not None:
            pass

    cluster.do(use_up)
    return held


def test_without_a_producer_id_in_hand_a_fence_waits() -> None:
    """COORDINATOR_LOAD_IN_PROGRESS, and nothing is pending: the transaction goes on as if nobody had asked."""
    cluster = Cluster()
    producer = Producer.started(cluster, NEW, epoch=EPOCH_LAST)
    assert OK is producer.send(P, b"a")
    held = without_ids(cluster)
    assert LOADING is Producer(cluster, NEW).init()
    assert "Ongoing" == cluster.state("x")
    assert OK is producer.send(P, b"b")
    cluster.release(held)  # type: ignore[arg-type]
    assert OK is producer.commit()
    assert [b"a", b"b"] == cluster.consumed(P)


@pytest.mark.parametrize("outcome", [COMMIT, ABORT], ids=["commit", "abort"])
def test_without_a_producer_id_in_hand_an_end_that_needs_one_waits(outcome: bool) -> None:
    """The same for the end of a transaction that uses up the epochs."""
    cluster = Cluster()
    producer = Producer.started(cluster, NEW, epoch=EPOCH_LAST)
    assert OK is producer.send(P, b"a")
    held = without_ids(cluster)
    assert (LOADING, None) == producer.end(outcome)
    assert "Ongoing" == cluster.state("x")
    cluster.release(held)  # type: ignore[arg-type]
    assert OK is producer.finish(outcome)
    assert 0 == producer.epoch
    producer.transact(P, b"b")
    assert ([b"a", b"b"] if outcome else [b"b"]) == cluster.consumed(P)


# ---------------------------------------------------------------------- fencing


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("failover", [False, True], ids=["same-coordinator", "failover"])
@pytest.mark.parametrize("outcome", [COMMIT, ABORT], ids=["commit", "abort"])
def test_a_fenced_new_client_does_not_get_the_epoch_of_an_old_one(level: int, failover: bool, outcome: bool) -> None:
    """An EndTxn v5 with the epoch below is a retry only if the end of the last transaction has bumped the epoch.

    Kafka tells retries from the epochs alone. A fenced producer then gets the pair with which its successor, a client
    of the older style, goes on, and their transactions mix.
    """
    cluster = Cluster(level)
    zombie = Producer.started(cluster, NEW)
    successor = Producer.started(cluster, OLD)
    successor.transact(P, b"a", outcome=outcome)
    if failover:
        cluster.move(cluster.log_of("x"))
    assert successor.epoch == zombie.epoch + 1
    assert (ErrorCode.PRODUCER_FENCED, None) == zombie.end(outcome)
    successor.transact(P, b"b")
    assert [b"a", b"b"][not outcome :] == cluster.consumed(P)


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
def test_a_late_batch_of_a_newer_client_does_not_disarm_the_guard_of_an_older_one(level: int, outcome: bool) -> None:
    """A marker that keeps the epoch takes the verification away, whoever has asked about the partition before."""
    cluster = Cluster(level)
    before = Producer.started(cluster, NEW)
    owner = Producer.started(cluster, OLD)
    assert ErrorCode.INVALID_PRODUCER_EPOCH is before.send(P)
    owner.begin(P)
    cluster.world.arm(rule(ApiKey.ADD_PARTITIONS_TO_TXN, answer_delay_ms=1_000))
    sent = owner.sending(P)
    cluster.world.run()
    assert OK is owner.finish(outcome)
    cluster.world.advance(1_000)
    assert ErrorCode.INVALID_TXN_STATE == sent.result().error_code
    assert (1, 1) == cluster.stable(P)


# ---------------------------------------------------------------------- answers


@every_client
def test_a_verification_answer_that_leaves_the_id_out(level: int, style: Style) -> None:
    """The client is answered as if the answer had been lost."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.begin(P)
    cluster.answer(ApiKey.ADD_PARTITIONS_TO_TXN, lambda call: AddPartitionsToTxnResponse(), times=1)
    answer = producer.produce(P)
    assert ErrorCode.NOT_ENOUGH_REPLICAS == answer.error_code
    if style.produce >= 8:
        assert answer.error_message is not None
        assert answer.error_message.endswith("Underlying error: NETWORK_EXCEPTION")
    assert OK is producer.send(P)


@every_level
@pytest.mark.parametrize("version", [4, 5])
def test_add_partitions_to_txn_of_nothing(level: int, version: int) -> None:
    """A request without transactions is answered."""
    response = Cluster(level).ask(1, AddPartitionsToTxnRequest(transactions=[]), version)
    assert (OK, []) == (response.error_code, response.results_by_transaction)
