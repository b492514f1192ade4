"""KIP-890, "Compatibility, Deprecation, and Migration Plan"."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.kips.helpers import (
    NEW,
    NEW_STYLES,
    OK,
    OLD,
    OLD_STYLES,
    Cluster,
    P,
    Producer,
    Q,
    Style,
    every_client,
    every_level,
    judged,
)

from odradek.host.call import Call
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.registry import ApiKey

NOT_ADDED = "Partition was not added to the transaction"
UNVERIFIED = "Unable to verify the partition has been added to the transaction. Underlying error: {}"
PRODUCE_VERSIONS = range(3, 14)
OFFSET_COMMIT_VERSIONS = range(7)


def whole(error: ErrorCode) -> Callable[[Call], AddPartitionsToTxnResponse]:
    """An answer that fails the request as a whole."""
    return lambda call: AddPartitionsToTxnResponse(error_code=error)


# ---------------------------------------------------------------------- what Produce is answered


def passed_on(error: ErrorCode) -> Callable[[int], tuple[ErrorCode, str | None]]:
    return lambda version: (error, None)


def not_enough_replicas(error: ErrorCode) -> Callable[[int], tuple[ErrorCode, str | None]]:
    return lambda version: (ErrorCode.NOT_ENOUGH_REPLICAS, UNVERIFIED.format(error.name) if version >= 8 else None)


def not_added(version: int) -> tuple[ErrorCode, str | None]:
    return ErrorCode.INVALID_TXN_STATE, NOT_ADDED if version >= 8 else None


def abortable(version: int) -> tuple[ErrorCode, str | None]:
    return (ErrorCode.TRANSACTION_ABORTABLE, None) if version >= 11 else not_added(version)


def concurrent(version: int) -> tuple[ErrorCode, str | None]:
    busy = ErrorCode.CONCURRENT_TRANSACTIONS
    return (busy, None) if version >= 12 else not_enough_replicas(busy)(version)


PRODUCE: list[tuple[ErrorCode, Callable[[int], tuple[ErrorCode, str | None]]]] = [
    (ErrorCode.INVALID_PRODUCER_ID_MAPPING, passed_on(ErrorCode.INVALID_PRODUCER_ID_MAPPING)),
    (ErrorCode.INVALID_TXN_STATE, not_added),
    (ErrorCode.TRANSACTION_ABORTABLE, abortable),
    (ErrorCode.PRODUCER_FENCED, passed_on(ErrorCode.INVALID_PRODUCER_EPOCH)),
    (ErrorCode.CONCURRENT_TRANSACTIONS, concurrent),
    (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, not_enough_replicas(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)),
    (ErrorCode.COORDINATOR_NOT_AVAILABLE, not_enough_replicas(ErrorCode.COORDINATOR_NOT_AVAILABLE)),
    (ErrorCode.NOT_COORDINATOR, not_enough_replicas(ErrorCode.NOT_COORDINATOR)),
]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize(("error", "expected"), PRODUCE, ids=[each[0].name for each in PRODUCE])
def test_what_the_coordinator_says_as_produce_puts_it(
    error: ErrorCode, expected: Callable[[int], tuple[ErrorCode, str | None]], version: int
) -> None:
    """Old Clients, Produce: INVALID_TXN_STATE with a message if the transaction is not ongoing; fatal for nobody.

    What is worth a retry becomes NOT_ENOUGH_REPLICAS with a message that names the error, for not all clients retry
    what the Java client retries; INVALID_PID_MAPPING is passed on.
    """
    cluster = Cluster()
    producer = Producer.started(cluster, OLD)
    cluster.answer(ApiKey.ADD_PARTITIONS_TO_TXN, judged(error))
    answer = producer.produce(P, version=version)
    assert expected(version) == (answer.error_code, answer.error_message)
    assert (0, 0) == cluster.stable(P)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, not_added),
        (ErrorCode.UNSUPPORTED_VERSION, passed_on(ErrorCode.UNSUPPORTED_VERSION)),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else "",
)
def test_a_request_that_fails_as_a_whole_as_produce_puts_it(
    error: ErrorCode, expected: Callable[[int], tuple[ErrorCode, str | None]], version: int
) -> None:
    """Old Clients, Produce: the client does not hear that its broker lacks a right."""
    cluster = Cluster()
    producer = Producer.started(cluster, OLD)
    cluster.answer(ApiKey.ADD_PARTITIONS_TO_TXN, whole(error))
    answer = producer.produce(P, version=version)
    assert expected(version) == (answer.error_code, answer.error_message)


# ---------------------------------------------------------------------- what TxnOffsetCommit is answered


OFFSET_COMMIT: list[tuple[ErrorCode, Callable[[int], ErrorCode]]] = [
    (ErrorCode.INVALID_PRODUCER_ID_MAPPING, lambda version: ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (ErrorCode.INVALID_TXN_STATE, lambda version: ErrorCode.INVALID_TXN_STATE),
    (
        ErrorCode.TRANSACTION_ABORTABLE,
        lambda version: ErrorCode.TRANSACTION_ABORTABLE if version >= 4 else ErrorCode.INVALID_TXN_STATE,
    ),
    (ErrorCode.PRODUCER_FENCED, lambda version: ErrorCode.INVALID_PRODUCER_EPOCH),
    (ErrorCode.CONCURRENT_TRANSACTIONS, lambda version: ErrorCode.CONCURRENT_TRANSACTIONS),
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        lambda version: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if version >= 2 else ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ),
    (ErrorCode.COORDINATOR_NOT_AVAILABLE, lambda version: ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.NOT_COORDINATOR, lambda version: ErrorCode.NOT_COORDINATOR),
]


@pytest.mark.parametrize("version", OFFSET_COMMIT_VERSIONS)
@pytest.mark.parametrize(("error", "expected"), OFFSET_COMMIT, ids=[each[0].name for each in OFFSET_COMMIT])
def test_what_the_coordinator_says_as_txn_offset_commit_puts_it(
    error: ErrorCode, expected: Callable[[int], ErrorCode], version: int
) -> None:
    """Old Clients, TxnOffsetCommit: INVALID_TXN_STATE and INVALID_PID_MAPPING are passed on, fatal as they are.

    The text turns all retriable errors into COORDINATOR_NOT_AVAILABLE; Kafka passes most of them on, and so it is here.
    """
    cluster = Cluster()
    producer = Producer.started(cluster, OLD)
    cluster.answer(ApiKey.ADD_PARTITIONS_TO_TXN, judged(error))
    assert expected(version) is producer.commit_offset(3, version=version)
    assert -1 == cluster.offset()


@pytest.mark.parametrize("version", OFFSET_COMMIT_VERSIONS)
def test_a_lost_verification_as_txn_offset_commit_puts_it(version: int) -> None:
    """Old Clients, TxnOffsetCommit: a verification that gets no answer is worth a retry."""
    cluster = Cluster()
    producer = Producer.started(cluster, OLD)
    cluster.lose(ApiKey.ADD_PARTITIONS_TO_TXN)
    expected = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if version >= 2 else ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert expected is producer.commit_offset(3, version=version)


# ---------------------------------------------------------------------- the same with real causes


def apart(level: int, style: Style) -> tuple[Cluster, Producer, tuple[str, int]]:
    """A producer with an open transaction whose coordinator and leader are different brokers."""
    cluster = Cluster(level, brokers=3)
    tid, partition = cluster.coordinator_on(2), cluster.partition_on(3)
    producer = Producer.started(cluster, style, tid=tid)
    producer.begin(partition)
    return cluster, producer, partition


def assert_retried(producer: Producer, partition: tuple[str, int], error: ErrorCode) -> None:
    """The broker asks for a retry and says why."""
    answer = producer.produce(partition)
    text = UNVERIFIED.format(error.name) if producer.style.produce >= 8 else None
    assert (ErrorCode.NOT_ENOUGH_REPLICAS, text) == (answer.error_code, answer.error_message)
    assert (0, 0) == producer.cluster.stable(partition)


@every_client
def test_a_coordinator_that_moves_while_it_is_asked(level: int, style: Style) -> None:
    """Old Clients, Produce: a coordinator that has changed is nothing fatal: NOT_COORDINATOR is retried."""
    cluster, producer, partition = apart(level, style)
    asking = cluster.hold(ApiKey.ADD_PARTITIONS_TO_TXN, times=1)
    sent = producer.sending(partition)
    cluster.world.run()
    cluster.move(cluster.log_of(producer.tid), 1)
    cluster.release(asking)
    answer = sent.result()
    text = UNVERIFIED.format("NOT_COORDINATOR") if style.produce >= 8 else None
    assert (ErrorCode.NOT_ENOUGH_REPLICAS, text) == (answer.error_code, answer.error_message)
    assert OK is producer.send(partition, b"a")
    assert OK is producer.commit()
    assert [b"a"] == cluster.consumed(partition)


@every_client
def test_a_coordinator_that_is_loading(level: int, style: Style) -> None:
    """Old Clients, Produce: the same for COORDINATOR_LOAD_IN_PROGRESS."""
    cluster, producer, partition = apart(level, style)
    cluster.node(1).coordinators.load_ms = 500
    cluster.move(cluster.log_of(producer.tid), 1)
    assert_retried(producer, partition, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    cluster.world.advance(500)
    assert OK is producer.send(partition)


@every_client
def test_a_coordinator_that_is_not_there(level: int, style: Style) -> None:
    """Old Clients, Produce: the same for COORDINATOR_NOT_AVAILABLE."""
    cluster, producer, partition = apart(level, style)
    cluster.fence(2)
    assert_retried(producer, partition, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    cluster.unfence(2)
    assert OK is producer.send(partition)


@every_client
@pytest.mark.parametrize("reply_only", [False, True], ids=["request", "answer"])
def test_a_verification_that_is_lost(level: int, style: Style, reply_only: bool) -> None:
    """Old Clients, Produce: the same when the connection to the coordinator breaks."""
    cluster, producer, partition = apart(level, style)
    cluster.lose(ApiKey.ADD_PARTITIONS_TO_TXN, times=1, reply_only=reply_only)
    assert_retried(producer, partition, ErrorCode.NETWORK_EXCEPTION)
    assert OK is producer.send(partition)


@every_client
def test_a_verification_that_is_never_answered(level: int, style: Style) -> None:
    """Old Clients, Produce: the same when the coordinator is silent for request.timeout.ms."""
    cluster, producer, partition = apart(level, style)
    silent = cluster.hold(ApiKey.ADD_PARTITIONS_TO_TXN, times=1)
    started = cluster.world.now
    assert_retried(producer, partition, ErrorCode.NETWORK_EXCEPTION)
    assert 30_000 == cluster.world.now - started
    assert OK is producer.send(partition)
    cluster.release(silent)


@every_client
def test_a_fenced_producer(level: int, style: Style) -> None:
    """Old Clients, Produce: PRODUCER_FENCED of the coordinator is INVALID_PRODUCER_EPOCH, which every client knows."""
    cluster, producer, _ = apart(level, style)
    other = next(partition for partition in (P, Q) if cluster.leader(partition) != 3)
    Producer(cluster, style, tid=producer.tid).init()
    assert 1 == cluster.describe(producer.tid).producer_epoch
    assert ErrorCode.INVALID_PRODUCER_EPOCH is producer.send(other)


# ---------------------------------------------------------------------- clients and servers of all ages


@every_client
def test_every_client_at_every_level(level: int, style: Style) -> None:
    """New Servers: whatever the client and the level, transactions commit and abort, and are seen or not seen."""
    cluster = Cluster(level, brokers=2)
    producer = Producer.started(cluster, style)
    for number, commit in enumerate((True, False, True, False)):
        producer.begin(P, Q)
        assert OK is producer.send(P, b"p%d" % number)
        assert OK is producer.send(Q, b"q%d" % number, b"q%d again" % number)
        if style.add is not None:
            assert OK is producer.add_offsets(version=min(style.add, 3))
        assert OK is producer.commit_offset(number)
        assert OK is producer.finish(commit)
    assert [b"p0", b"p2"] == cluster.consumed(P)
    assert [b"q0", b"q0 again", b"q2", b"q2 again"] == cluster.consumed(Q)
    assert 2 == cluster.offset()
    assert cluster.stable(P)[0] == cluster.stable(P)[1]


@pytest.mark.parametrize("old", OLD_STYLES, ids=str)
@pytest.mark.parametrize("new", NEW_STYLES, ids=str)
@pytest.mark.parametrize("level", [1, 2])
def test_clients_of_all_ages_side_by_side(level: int, old: Style, new: Style) -> None:
    """New Servers: old and new clients write to the same partitions, each in its own way."""
    cluster = Cluster(level)
    producers = [Producer.started(cluster, old, tid="old"), Producer.started(cluster, new, tid="new")]
    for value in (b"a", b"b"):
        for producer in producers:
            producer.begin(P)
            assert OK is producer.send(P, value + producer.tid.encode())
        assert OK is producers[0].finish(value == b"a")
        assert OK is producers[1].commit()
    assert [b"aold", b"anew", b"bnew"] == cluster.consumed(P)


@every_level
@pytest.mark.parametrize("style", OLD_STYLES[1:], ids=str)
def test_a_new_client_that_sees_a_low_level_uses_the_old_protocol(level: int, style: Style) -> None:
    """New Servers: a client decides by the level it sees, and every broker tells the level in ApiVersions."""
    cluster = Cluster(level, brokers=3)
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    for node_id in (1, 2, 3):
        features = cluster.ask(node_id, request, 4).finalized_features
        assert level == next((each.max_version_level for each in features if each.name == "transaction.version"), 0)
    producer = Producer.started(cluster, style)
    producer.transact(P, b"a")
    assert [b"a"] == cluster.consumed(P)


@pytest.mark.parametrize(("coordinator", "leader"), [(1, 2), (2, 1), (2, 2)])
def test_a_client_may_see_the_new_level_before_other_brokers_do(
    monkeypatch: pytest.MonkeyPatch, coordinator: int, leader: int
) -> None:
    """New Servers: new TV on at least one broker means the new protocol: the others have the code, if not the level."""
    cluster = Cluster(1, brokers=2)
    tid, partition = cluster.coordinator_on(coordinator), cluster.partition_on(leader)
    with monkeypatch.context() as patch:
        patch.setattr(cluster.node(2).controller, "advance", lambda offset: None)
        cluster.set_level(2)
        assert [2, 1] == [cluster.node(node_id).image.transaction_version for node_id in (1, 2)]
        producer = Producer.started(cluster, NEW, tid=tid)
        producer.transact(partition, b"a")
    cluster.set_level(2)
    assert [2, 2] == [cluster.node(node_id).image.transaction_version for node_id in (1, 2)]
    producer.transact(partition, b"b")
    assert ["0:data@0", "1:COMMIT@1", "2:data@1", "3:COMMIT@2"] == cluster.log(partition)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_find_coordinator_is_bumped_without_a_change(version: int) -> None:
    """Public Interfaces: the bump is for the new error alone; the answer is as before."""
    cluster = Cluster(brokers=3)
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
    [found] = cluster.ask(1, request, version).coordinators
    assert (cluster.coordinator("x"), OK) == (found.node_id, found.error_code)
