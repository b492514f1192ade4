"""KIP-664, "Provide tooling to detect and abort hanging transactions", with KIP-994 and KIP-1152."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kips.helpers import (
    ABORT,
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
from odradek.wire.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from odradek.wire.messages.list_transactions_request import ListTransactionsRequest
from odradek.wire.registry import ApiKey

Row = tuple[int, int, int, int, int]


def rows(cluster: Cluster, partition: tuple[str, int] = P) -> list[Row]:
    """Producer id and epoch, last sequence, coordinator epoch, start of the open transaction."""
    return [
        (
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.coordinator_epoch,
            each.current_txn_start_offset,
        )
        for each in cluster.producers(partition)
    ]


def listed(cluster: Cluster, version: int = 2, **filters: Any) -> list[tuple[str, str]]:
    """Ids and states, of all coordinators."""
    request = ListTransactionsRequest(**filters)
    answers = [cluster.ask(node_id, request, version) for node_id in cluster.world.nodes]
    assert {OK} == {answer.error_code for answer in answers}
    return sorted((each.transactional_id, each.transaction_state) for a in answers for each in a.transaction_states)


# ---------------------------------------------------------------------- DescribeProducers


@every_level
def test_describe_producers_of_an_old_client(level: int) -> None:
    """DescribeProducers: the producers of a partition, with the start of an open transaction."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    x = producer.pair[0]
    assert [] == rows(cluster)
    producer.begin(P)
    producer.send(P, b"a", b"b")
    assert [(x, 0, 1, -1, 0)] == rows(cluster)
    producer.commit()
    assert [(x, 0, 1, 0, -1)] == rows(cluster)
    producer.begin(P)
    producer.send(P)
    assert [(x, 0, 2, 0, 3)] == rows(cluster)


@pytest.mark.parametrize("level", [1, 2])
def test_describe_producers_of_a_new_client(level: int) -> None:
    """DescribeProducers: after the marker with the bumped epoch nothing of that epoch is written yet."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, NEW)
    x = producer.pair[0]
    producer.send(P, b"a", b"b")
    assert [(x, 0, 1, -1, 0)] == rows(cluster)
    producer.commit()
    assert [(x, 1, -1, 0, -1)] == rows(cluster)
    producer.send(P)
    assert [(x, 1, 0, 0, 3)] == rows(cluster)


def test_describe_producers_lists_idempotent_ones_too() -> None:
    """DescribeProducers: every active producer, whether it uses transactions or not."""
    cluster = Cluster()
    producer = Producer(cluster, OLD)
    producer.pair = (4711, 2)
    producer.send(P, transactional=False)
    assert [(4711, 2, 0, -1, -1)] == rows(cluster)


def test_describe_producers_of_nothing() -> None:
    """DescribeProducers: a partition that does not exist, and one that is led elsewhere."""
    cluster = Cluster(brokers=2)
    elsewhere = cluster.partition_on(2)
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[elsewhere[1], 99])])
    [topic] = cluster.ask(1, request, 0).topics
    assert [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] == [
        each.error_code for each in topic.partitions
    ]


@pytest.mark.parametrize("level", [1, 2])
def test_describe_producers_of_every_replica(level: int) -> None:
    """DescribeProducers: each replica answers, so that hanging transactions are found broker by broker."""
    cluster = Cluster(level, brokers=4, topics=["r:1:3"])
    partition = ("r", 0)
    registered = cluster.world.nodes[1].image.partition(*partition)
    assert registered is not None
    [stranger] = {1, 2, 3, 4} - set(registered.replicas)
    producer = Producer.started(cluster, OLD)
    producer.begin(partition)
    producer.send(partition, b"a")

    def answers() -> list[Any]:
        request = DescribeProducersRequest(topics=[TopicRequest(name="r", partition_indexes=[0])])
        return [cluster.ask(node_id, request, 0).topics[0].partitions[0] for node_id in registered.replicas]

    open_since = [
        (OK, [(each.producer_id, each.current_txn_start_offset) for each in answer.active_producers])
        for answer in answers()
    ]
    assert [(OK, [(producer.pair[0], 0)])] * 3 == open_since
    cluster.fence(registered.leader)  # whoever leads now knows it too, and who led is a replica still
    assert [(OK, producer.pair[0])] * 3 == [
        (each.error_code, each.active_producers[0].producer_id) for each in answers()
    ]
    request = DescribeProducersRequest(topics=[TopicRequest(name="r", partition_indexes=[0])])
    [refused] = cluster.ask(stranger, request, 0).topics[0].partitions
    assert (ErrorCode.NOT_LEADER_OR_FOLLOWER, None, []) == (
        refused.error_code,
        refused.error_message,
        refused.active_producers,
    )


# ---------------------------------------------------------------------- DescribeTransactions


@every_client
def test_describe_transactions_through_the_life_of_a_transaction(level: int, style: Style) -> None:
    """DescribeTransactions: state, producer id and epoch, timeout, start time, and partitions."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style, timeout_ms=12_345)

    def shown() -> tuple[str, int, int, list[tuple[str, int]]]:
        state = cluster.describe("x")
        assert (OK, 12_345, producer.pair[0]) == (state.error_code, state.transaction_timeout_ms, state.producer_id)
        partitions = cluster.described_partitions("x")
        return state.transaction_state, state.producer_epoch, state.transaction_start_time_ms, partitions

    assert ("Empty", 0, -1, []) == shown()
    cluster.world.advance(5)
    started = cluster.world.now
    producer.begin(P, Q)
    producer.send(P)
    producer.send(Q)
    assert ("Ongoing", 0, started, [P, Q]) == shown()
    markers = cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    producer.abort()
    assert ("PrepareAbort", producer.epoch, started, [P, Q]) == shown()
    cluster.release(markers)
    assert ("CompleteAbort", producer.epoch, started, []) == shown()


@every_level
def test_a_prepared_transaction_shows_the_partitions_whose_marker_is_missing(level: int) -> None:
    """DescribeTransactions: while markers are written, those that are left."""
    cluster = Cluster(level, brokers=2)
    producer = Producer.started(cluster, OLD)
    producer.begin(P, Q, R)
    slow = cluster.leader(Q)
    markers = cluster.hold(ApiKey.WRITE_TXN_MARKERS, node_id=slow)
    producer.commit()
    left = [partition for partition in (P, Q, R) if cluster.leader(partition) == slow]
    assert 0 < len(left) < 3
    assert left == cluster.described_partitions("x")
    cluster.release(markers)
    assert [] == cluster.described_partitions("x")


@every_level
def test_describe_transactions_of_an_unknown_id(level: int) -> None:
    """DescribeTransactions: TRANSACTIONAL_ID_NOT_FOUND."""
    assert ErrorCode.TRANSACTIONAL_ID_NOT_FOUND == Cluster(level).describe("unknown").error_code
    assert ErrorCode.INVALID_REQUEST == Cluster(level).describe("").error_code


# ---------------------------------------------------------------------- ListTransactions


@pytest.fixture
def several() -> Cluster:
    """Ids in several states on two coordinators: `idle`, `open` since 60 s ago, `done`, and `young`."""
    cluster = Cluster(brokers=2)
    Producer.started(cluster, NEW, tid="idle")
    open_one = Producer.started(cluster, NEW, tid="open", timeout_ms=600_000)
    open_one.send(P)
    done = Producer.started(cluster, NEW, tid="done")
    done.transact(Q)
    cluster.world.advance(60_000)
    young = Producer.started(cluster, NEW, tid="young")
    young.send(R)
    return cluster


ALL = [("done", "CompleteCommit"), ("idle", "Empty"), ("open", "Ongoing"), ("young", "Ongoing")]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["done", "idle", "open", "young"]),
        ({"state_filters": ["Ongoing"]}, ["open", "young"]),
        ({"state_filters": ["Ongoing", "Empty"]}, ["idle", "open", "young"]),
        ({"state_filters": ["Nonsense"]}, []),
        ({"duration_filter": 0}, ["done", "idle", "open"]),
        ({"duration_filter": 59_999, "state_filters": ["Ongoing"]}, ["open"]),
        ({"duration_filter": 60_000, "state_filters": ["Ongoing"]}, []),
        ({"transactional_id_pattern": ".*n.*"}, ["done", "open", "young"]),
        ({"transactional_id_pattern": "n"}, []),
        ({"producer_id_filters": [999_999]}, []),
    ],
    ids=str,
)
def test_list_transactions(several: Cluster, filters: dict[str, Any], expected: list[str]) -> None:
    """ListTransactions: filters by state, producer id, duration (KIP-994) and pattern (KIP-1152)."""
    assert [each for each in ALL if each[0] in expected] == listed(several, **filters)


def test_list_transactions_by_producer_id(several: Cluster) -> None:
    """ListTransactions: filters by producer id."""
    producer_id = several.describe("open").producer_id
    assert [("open", "Ongoing")] == listed(several, producer_id_filters=[producer_id])


@pytest.mark.parametrize("version", range(3))
def test_unknown_states_are_echoed(several: Cluster, version: int) -> None:
    """ListTransactions: state filters that nobody knows are told."""
    response = several.ask(1, ListTransactionsRequest(state_filters=["Ongoing", "Nonsense", "ongoing"]), version)
    assert ["Nonsense", "ongoing"] == response.unknown_state_filters


def test_a_pattern_that_is_none(several: Cluster) -> None:
    """ListTransactions: an invalid regular expression has an error of its own (KIP-1152)."""
    response = several.ask(1, ListTransactionsRequest(transactional_id_pattern="(ab"), 2)
    assert (ErrorCode.INVALID_REGULAR_EXPRESSION, []) == (response.error_code, response.transaction_states)


def test_list_transactions_while_a_coordinator_loads(several: Cluster) -> None:
    """ListTransactions: a broker that is loading one of its partitions cannot tell yet."""
    node_id = several.coordinator("open")
    several.node(node_id).coordinators.load_ms = 100
    several.move(several.log_of("open"))
    response = several.ask(node_id, ListTransactionsRequest(), 2)
    assert (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, []) == (response.error_code, response.transaction_states)
    several.world.advance(100)
    assert ALL == listed(several)


# ---------------------------------------------------------------------- finding and aborting


def hanging(level: int) -> tuple[Cluster, Producer]:
    """Verification is off, and a message came late."""
    cluster = Cluster(level, transaction_partition_verification_enable=False)
    producer = Producer.started(cluster, OLD)
    producer.transact(P, b"a", outcome=ABORT)
    assert OK is producer.send(P, b"late")
    return cluster, producer


@every_level
def test_a_hanging_transaction_is_found(level: int) -> None:
    """find-hanging: the partition has an open transaction of which its coordinator knows nothing."""
    cluster, producer = hanging(level)
    [(producer_id, epoch, _, _, start)] = rows(cluster)
    assert (*producer.pair, 2) == (producer_id, epoch, start)
    [(tid, state)] = listed(cluster, producer_id_filters=[producer_id])
    assert ("x", "CompleteAbort") == (tid, state)
    assert [] == cluster.described_partitions(tid)


@every_level
@pytest.mark.parametrize("version", [1, 2])
def test_an_administrator_aborts_a_hanging_transaction(level: int, version: int) -> None:
    """abort: WriteTxnMarkers with the producer id, epoch and coordinator epoch of the partition ends it."""
    cluster, _ = hanging(level)
    [(producer_id, epoch, _, coordinator_epoch, _)] = rows(cluster)
    assert (2, 3) == cluster.stable(P)
    error = cluster.write_marker(P, (producer_id, epoch), ABORT, coordinator_epoch=coordinator_epoch, version=version)
    assert OK is error
    assert (4, 4) == cluster.stable(P)
    assert [(producer_id, 0), (producer_id, 2)] == cluster.aborted(P)
    assert [] == cluster.consumed(P)
    other = Producer.started(cluster, OLD, tid="other")
    other.transact(P, b"b")
    assert [b"b"] == cluster.consumed(P)


@every_level
def test_an_administrator_cannot_go_behind_the_coordinator(level: int) -> None:
    """abort: a marker with an older coordinator epoch is fenced, and so is one with an older producer epoch."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD, epoch=5)
    cluster.move(cluster.log_of("x"))
    producer.transact(P)
    x = producer.pair[0]
    assert ErrorCode.TRANSACTION_COORDINATOR_FENCED is cluster.write_marker(P, (x, 5), ABORT, coordinator_epoch=0)
    assert ErrorCode.INVALID_PRODUCER_EPOCH is cluster.write_marker(P, (x, 4), ABORT, coordinator_epoch=1)
    assert 2 == len(cluster.log(P))


@every_level
def test_force_terminate_is_an_init_of_somebody_else(level: int) -> None:
    """forceTerminateTransaction (KIP-939's tool): InitProducerId without a pair fences and aborts what is open."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    producer.begin(P)
    producer.send(P, b"a")
    assert ErrorCode.CONCURRENT_TRANSACTIONS is Producer(cluster, OLD, timeout_ms=1).init()
    assert ["0:data@0", "1:ABORT@1"] == cluster.log(P)
    assert "CompleteAbort" == cluster.state("x")
