"""KIP-98, "Exactly Once Delivery and Transactional Messaging": what part of it KIP-890 and KIP-360 build on."""

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
    R,
    Style,
    every_client,
    every_level,
)

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest
from odradek.wire.messages.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.list_transactions_request import ListTransactionsRequest
from odradek.wire.registry import ApiKey

BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
OUTCOMES = pytest.mark.parametrize("outcome", [COMMIT, ABORT], ids=["commit", "abort"])


# ---------------------------------------------------------------------- what is read


@every_client
@OUTCOMES
def test_read_committed_sees_committed_transactions_only(level: int, style: Style, outcome: bool) -> None:
    """Read_committed: records of a transaction are seen when it has committed, and never if it aborts."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.begin(P)
    producer.send(P, b"a", b"b")
    assert [] == cluster.consumed(P)
    assert [b"a", b"b"] == cluster.values(P)
    producer.finish(outcome)
    assert ([b"a", b"b"] if outcome else []) == cluster.consumed(P)
    assert ([] if outcome else [(producer.pair[0], 0)]) == cluster.aborted(P)


@every_client
def test_the_last_stable_offset_is_that_of_the_oldest_open_transaction(level: int, style: Style) -> None:
    """Last stable offset: what lies behind the first record of an open transaction is not read yet."""
    cluster = Cluster(level)
    slow = Producer.started(cluster, style, tid="slow")
    quick = Producer.started(cluster, style, tid="quick")
    slow.begin(P)
    slow.send(P, b"slow")
    quick.transact(P, b"quick")
    assert (0, 3) == cluster.stable(P)
    assert [] == cluster.consumed(P)
    slow.commit()
    assert (4, 4) == cluster.stable(P)
    assert [b"slow", b"quick"] == cluster.consumed(P)


@every_level
@OUTCOMES
def test_a_partition_without_records_gets_its_marker_too(level: int, outcome: bool) -> None:
    """EndTxn: a marker is written to every partition of the transaction."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    producer.begin(P, Q)
    producer.send(P)
    producer.finish(outcome)
    kind = "COMMIT" if outcome else "ABORT"
    assert (["0:data@0", f"1:{kind}@0"], [f"0:{kind}@0"], []) == (cluster.log(P), cluster.log(Q), cluster.log(R))


# ---------------------------------------------------------------------- adding partitions


@every_level
@pytest.mark.parametrize("version", range(6))
def test_one_partition_that_does_not_exist_keeps_the_others_out(level: int, version: int) -> None:
    """AddPartitionsToTxn: all or nothing; those that could have been added are OPERATION_NOT_ATTEMPTED."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    topics = [
        AddPartitionsToTxnTopic(name="t", partitions=[0, 99]),
        AddPartitionsToTxnTopic(name="missing", partitions=[0]),
    ]
    if version < 4:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=producer.pair[0],
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=topics,
        )
        results = cluster.ask(1, request, version).results_by_topic_v3_and_below
    else:
        response = cluster.add_partitions("x", producer.pair, ("t", 0), ("t", 99), ("missing", 0), version=version)
        results = response.results_by_transaction[0].topic_results
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [ErrorCode.OPERATION_NOT_ATTEMPTED, missing, missing] == [
        each.partition_error_code for topic in results for each in topic.results_by_partition
    ]
    assert "Empty" == cluster.state("x")


@every_level
@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_a_client_may_not_add_internal_topics(level: int, version: int, topic: str) -> None:
    """AddPartitionsToTxn: internal topics are for brokers to add."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED is producer.add((topic, 0), version=version)
    assert "Empty" == cluster.state("x")


@every_level
def test_adding_again_writes_nothing(level: int) -> None:
    """AddPartitionsToTxn: a partition that is in the transaction already is no error, and no record."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    producer.begin(P)
    written = len(cluster.transaction_log("x"))
    assert OK is producer.add(P)
    assert written == len(cluster.transaction_log("x"))
    assert OK is producer.add(P, Q)
    assert written + 1 == len(cluster.transaction_log("x"))


# ---------------------------------------------------------------------- timeouts


@every_client
def test_a_transaction_that_takes_too_long_is_aborted(level: int, style: Style) -> None:
    """Transaction timeout: the coordinator aborts it, and fences its owner; within one interval of the check."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style, timeout_ms=30_000)
    producer.begin(P)
    producer.send(P, b"a")
    cluster.world.advance(30_000)
    assert (0, 1) == cluster.stable(P)
    cluster.world.advance(10_001)
    assert ["0:data@0", "1:ABORT@1"] == cluster.log(P)
    assert (2, 2) == cluster.stable(P)
    assert "CompleteAbort" == cluster.state("x")
    assert ErrorCode.INVALID_PRODUCER_EPOCH is producer.send(P)
    assert ErrorCode.INVALID_PRODUCER_EPOCH is producer.commit_offset(1)
    if style.add is not None:
        assert producer.add(P) in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("version", range(6))
def test_the_end_of_a_transaction_that_was_aborted_meanwhile(level: int, version: int) -> None:
    """Transaction timeout: the owner's EndTxn is fenced; a new one that aborts is taken for a retry, as in Kafka."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    producer.begin(P)
    cluster.world.advance(producer.timeout_ms + 20_000)
    x = producer.pair[0]
    if version == 5:
        assert (OK, (x, 1)) == producer.end(ABORT, version=5)
        assert (ErrorCode.INVALID_TXN_STATE, None) == producer.end(COMMIT, version=5)
    else:
        fenced = ErrorCode.INVALID_PRODUCER_EPOCH if version < 2 else ErrorCode.PRODUCER_FENCED
        assert (fenced, None) == producer.end(ABORT, version=version)
        assert (fenced, None) == producer.end(COMMIT, version=version)


@every_level
@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_has_limits(level: int, timeout_ms: int) -> None:
    """InitProducerId: transaction.max.timeout.ms bounds the timeout."""
    producer = Producer(Cluster(level), OLD, timeout_ms=timeout_ms)
    assert ErrorCode.INVALID_TRANSACTION_TIMEOUT is producer.init()


@every_client
def test_a_timeout_survives_a_failover(level: int, style: Style) -> None:
    """Transaction timeout: the next coordinator counts from the start of the transaction, which is in its log."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style, timeout_ms=30_000)
    producer.begin(P)
    producer.send(P)
    cluster.world.advance(20_000)
    cluster.move(cluster.log_of("x"))
    cluster.world.advance(20_001)
    assert ["0:data@0", "1:ABORT@1"] == cluster.log(P)


# ---------------------------------------------------------------------- the coordinator moves, loads, is not there


@every_client
@OUTCOMES
def test_a_transaction_survives_its_coordinator(level: int, style: Style, outcome: bool) -> None:
    """Coordinator failover: the next coordinator goes on with what is in the log."""
    cluster = Cluster(level, brokers=3)
    tid = cluster.coordinator_on(2)
    producer = Producer.started(cluster, style, tid=tid)
    producer.begin(P)
    producer.send(P, b"a")
    for to in (3, 1):
        cluster.move(cluster.log_of(tid), to)
        producer.begin(Q)
        assert OK is producer.send(Q, b"b")
    assert OK is producer.finish(outcome)
    assert (([b"a"], [b"b", b"b"]) if outcome else ([], [])) == (cluster.consumed(P), cluster.consumed(Q))
    assert ((2, 2), (3, 3)) == (cluster.stable(P), cluster.stable(Q))


@every_client
@OUTCOMES
def test_a_decision_survives_its_coordinator(level: int, style: Style, outcome: bool) -> None:
    """Coordinator failover: once the outcome is in the log, the next coordinator writes the markers."""
    cluster = Cluster(level, brokers=3)
    tid, partition = cluster.coordinator_on(2), cluster.partition_on(3)
    producer = Producer.started(cluster, style, tid=tid)
    producer.begin(partition)
    producer.send(partition, b"a")
    held = cluster.hold(ApiKey.WRITE_TXN_MARKERS, times=1)
    assert OK is producer.finish(outcome)
    cluster.move(cluster.log_of(tid), 1)
    state = "CompleteCommit" if outcome else "CompleteAbort"
    assert cluster.world.run_until(lambda: cluster.state(tid) == state, within_ms=40_000)
    assert 2 == len(cluster.log(partition))
    # The marker of the coordinator before is late, and stays without effect: it is fenced by its coordinator epoch.
    cluster.release(held)
    assert 2 == len(cluster.log(partition))
    assert ([b"a"] if outcome else []) == cluster.consumed(partition)


@every_level
def test_who_is_not_the_coordinator_says_so(level: int) -> None:
    """FindCoordinator: every request about an id goes to its coordinator; others answer NOT_COORDINATOR."""
    cluster = Cluster(level, brokers=2)
    tid = cluster.coordinator_on(2)
    producer = Producer.started(cluster, OLD, tid=tid)
    wrong = ErrorCode.NOT_COORDINATOR
    x, epoch = producer.pair
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=tid,
        v3_and_below_producer_id=x,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
    )
    end = EndTxnRequest(transactional_id=tid, producer_id=x, producer_epoch=epoch, committed=True)
    init = InitProducerIdRequest(transactional_id=tid, transaction_timeout_ms=1000)
    describe = DescribeTransactionsRequest(transactional_ids=[tid])
    assert wrong == cluster.ask(1, init, 5).error_code
    assert wrong == cluster.ask(1, end, 4).error_code
    assert wrong == cluster.ask(1, end, 5).error_code
    [topic] = cluster.ask(1, add, 3).results_by_topic_v3_and_below
    assert [wrong] == [each.partition_error_code for each in topic.results_by_partition]
    assert [wrong] == [each.error_code for each in cluster.ask(1, describe, 0).transaction_states]
    [found] = cluster.ask(1, FindCoordinatorRequest(key_type=1, coordinator_keys=[tid]), 4).coordinators
    assert 2 == found.node_id


@every_level
def test_a_coordinator_that_loads_says_so(level: int) -> None:
    """Coordinator failover: until its log is read the coordinator answers COORDINATOR_LOAD_IN_PROGRESS."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    producer.begin(P)
    producer.send(P, b"a")
    cluster.node(1).coordinators.load_ms = 300
    cluster.move(cluster.log_of("x"))
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert loading is producer.add(Q)
    assert loading is producer.add_offsets()
    assert loading is producer.init()
    assert (loading, None) == producer.end(COMMIT)
    assert (loading, None) == producer.end(COMMIT, version=5)
    assert [loading] == cluster.verify("x", producer.pair, P)
    assert loading == cluster.describe("x").error_code
    assert ErrorCode.NOT_ENOUGH_REPLICAS is producer.send(Q)
    assert OK is producer.send(P, b"b")
    cluster.world.advance(300)
    assert OK is producer.commit()
    assert [b"a", b"b"] == cluster.consumed(P)


@every_level
def test_a_leader_that_moves_while_its_markers_are_owed(level: int) -> None:
    """EndTxn: a marker goes to whoever leads the partition; NOT_LEADER_OR_FOLLOWER only means to look again."""
    cluster = Cluster(level, brokers=3)
    tid, partition = cluster.coordinator_on(2), cluster.partition_on(3)
    producer = Producer.started(cluster, OLD, tid=tid)
    producer.begin(partition)
    producer.send(partition, b"a")
    held = cluster.hold(ApiKey.WRITE_TXN_MARKERS, times=1)
    assert OK is producer.commit()
    cluster.move(partition, 1)
    cluster.release(held)
    cluster.world.advance(100)
    assert "CompleteCommit" == cluster.state(tid)
    assert [b"a"] == cluster.consumed(partition)


@every_level
@pytest.mark.parametrize("reply_only", [False, True], ids=["request", "answer"])
def test_markers_are_sent_until_they_are_acknowledged(level: int, reply_only: bool) -> None:
    """EndTxn: what is lost on the way is sent again; a marker that was written twice does no harm."""
    cluster = Cluster(level)
    style = OLD if level == 0 else NEW
    producer = Producer.started(cluster, style)
    producer.begin(P)
    producer.send(P, b"a")
    cluster.lose(ApiKey.WRITE_TXN_MARKERS, times=3, reply_only=reply_only)
    assert OK is producer.commit()
    cluster.world.advance(1_000)
    assert "CompleteCommit" == cluster.state("x")
    assert (4 if reply_only else 1) == sum("COMMIT" in each for each in cluster.log(P))
    producer.transact(P, b"b")
    assert [b"a", b"b"] == cluster.consumed(P)


# ---------------------------------------------------------------------- who believes to lead still


def deafen(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, node_id: int) -> None:
    """The broker hears nothing of the metadata any more."""
    monkeypatch.setattr(cluster.node(node_id).controller, "advance", lambda offset: None)


@every_level
def test_a_coordinator_that_has_not_heard_of_its_successor_answers_nothing(
    monkeypatch: pytest.MonkeyPatch, level: int
) -> None:
    """Coordinator failover: what it remembers may be over, so not even a question is answered from that."""
    cluster = Cluster(level, brokers=2)
    tid = cluster.coordinator_on(2)
    producer = Producer.started(cluster, OLD, tid=tid)
    producer.begin(P)
    deafen(monkeypatch, cluster, 2)
    cluster.move(cluster.log_of(tid), 1)
    assert OK is producer.commit()
    wrong = ErrorCode.NOT_COORDINATOR
    topics = [AddPartitionsToTxnTopic(name=P[0], partitions=[P[1]])]
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=tid, v3_and_below_producer_id=producer.pair[0], v3_and_below_topics=topics
    )
    [topic] = cluster.ask(2, add, 3).results_by_topic_v3_and_below
    assert [wrong] == [each.partition_error_code for each in topic.results_by_partition]
    verify = AddPartitionsToTxnTransaction(
        transactional_id=tid, producer_id=producer.pair[0], verify_only=True, topics=topics
    )
    [result] = cluster.ask(2, AddPartitionsToTxnRequest(transactions=[verify]), 5).results_by_transaction
    assert [wrong] == [each.partition_error_code for each in result.topic_results[0].results_by_partition]
    end = EndTxnRequest(transactional_id=tid, producer_id=producer.pair[0], producer_epoch=0, committed=True)
    assert wrong == cluster.ask(2, end, 4).error_code
    [described] = cluster.ask(2, DescribeTransactionsRequest(transactional_ids=[tid]), 0).transaction_states
    assert wrong == described.error_code
    assert [] == cluster.ask(2, ListTransactionsRequest(), 2).transaction_states


@every_client
def test_a_leader_that_has_not_heard_of_its_successor_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, level: int, style: Style
) -> None:
    """Read_committed: where the open transactions of the next leader are not known, nothing can be called stable."""
    cluster = Cluster(level, brokers=2)
    partition = cluster.partition_on(2)
    deafen(monkeypatch, cluster, 2)
    cluster.move(partition, 1)
    producer = Producer.started(cluster, style, tid=cluster.coordinator_on(1))
    producer.begin(partition)
    assert OK is producer.send(partition, b"open")
    assert [] == cluster.consumed(partition)
    wanted = FetchPartition(partition=partition[1], fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_bytes=1 << 20, isolation_level=1, topics=[FetchTopic(topic=partition[0], partitions=[wanted])]
    )
    [topic] = cluster.ask(2, request, 11).responses
    assert [ErrorCode.NOT_LEADER_OR_FOLLOWER] == [each.error_code for each in topic.partitions]
    assert [b""] == [bytes(each.records or b"") for each in topic.partitions]
    late = producer.sending(partition, b"late", node_id=2)
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == late.result().error_code


# ---------------------------------------------------------------------- two requests at a time


@every_client
def test_what_comes_while_markers_are_owed_is_concurrent(level: int, style: Style) -> None:
    """Coordinator: one thing at a time for an id; CONCURRENT_TRANSACTIONS asks to come again."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.begin(P)
    producer.send(P)
    markers = cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    assert OK is producer.commit()
    if style.add is not None:
        assert BUSY is producer.add(P)
    assert BUSY is producer.add_offsets()
    assert BUSY is producer.init()
    assert BUSY is producer.init(producer.pair)
    assert (BUSY, None) == producer.end(COMMIT)
    assert (BUSY, None) == producer.end(ABORT)
    assert BUSY is producer.commit_offset(1)
    cluster.release(markers)
    assert "CompleteCommit" == cluster.state("x")
    assert OK is producer.init()


@every_level
def test_a_deleted_topic_keeps_no_transaction_open(level: int) -> None:
    """EndTxn: a partition that does not exist any more needs no marker."""
    cluster = Cluster(level, topics=("t:3", "gone"))
    producer = Producer.started(cluster, OLD)
    producer.begin(P, ("gone", 0))
    producer.send(("gone", 0))
    response = cluster.ask(1, DeleteTopicsRequest(topic_names=["gone"], timeout_ms=1000), 5)
    assert [OK] == [each.error_code for each in response.responses]
    assert OK is producer.commit()
    assert "CompleteCommit" == cluster.state("x")
