"""KIP-890, "Public Interfaces", "Configurations" and "Metrics"."""

from __future__ import annotations

import pytest
from tests.kips.helpers import (
    ABORT,
    COMMIT,
    NEW,
    OK,
    OLD,
    OLD_STYLES,
    Cluster,
    P,
    Producer,
    Q,
    Style,
    every_level,
    judged,
    new_clients,
    old_clients,
)

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.apis import ADD_PARTITIONS_TO_TXN, WRITE_TXN_MARKERS
from odradek.wire.registry import ApiKey

ABORTABLE = ErrorCode.TRANSACTION_ABORTABLE
NOT_ADDED = "Partition was not added to the transaction"
LEVELS_OF_NEW_CLIENTS = pytest.mark.parametrize("level", [1, 2])


# ---------------------------------------------------------------------- versions


@every_level
@pytest.mark.parametrize("version", range(3, 14))
def test_the_version_of_produce_tells_who_has_partitions_added(level: int, version: int) -> None:
    """Public Interfaces: a bumped Produce says that its client does not add partitions, and has it done implicitly."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    error = producer.send(P, version=version)
    if version < 12:
        assert "Empty" == cluster.state("x")
    elif level == 0:
        assert ErrorCode.UNSUPPORTED_VERSION is error
        assert "Empty" == cluster.state("x")
    else:
        assert OK is error
        assert ("Ongoing", [P]) == (cluster.state("x"), cluster.described_partitions("x"))


@every_level
@pytest.mark.parametrize("version", range(7))
def test_the_version_of_txn_offset_commit_tells_who_has_its_partition_added(level: int, version: int) -> None:
    """Public Interfaces: the same for TxnOffsetCommit and the partition of the group's offsets."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    error = producer.commit_offset(5, version=version)
    if version < 5:
        assert "Empty" == cluster.state("x")
    elif level == 0:
        assert ErrorCode.UNSUPPORTED_VERSION is error
        assert "Empty" == cluster.state("x")
    else:
        assert OK is error
        assert ("Ongoing", [cluster.offsets_of()]) == (cluster.state("x"), cluster.described_partitions("x"))


@every_level
def test_seven_requests_have_a_version_for_the_new_error(level: int) -> None:
    """Public Interfaces: all requests that may be answered TRANSACTION_ABORTABLE are bumped for it."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    highest = {each.api_key: each.max_version for each in Cluster(level).ask(1, request, 4).api_keys}
    bumped = {
        ApiKey.FIND_COORDINATOR: 5,
        ApiKey.INIT_PRODUCER_ID: 5,
        ApiKey.PRODUCE: 11,
        ApiKey.ADD_PARTITIONS_TO_TXN: 5,
        ApiKey.ADD_OFFSETS_TO_TXN: 4,
        ApiKey.TXN_OFFSET_COMMIT: 4,
        ApiKey.END_TXN: 4,
    }
    assert [] == [key.name for key, version in bumped.items() if highest[key] < version]


@every_level
@pytest.mark.parametrize(
    ("version", "error", "message"),
    [(version, ErrorCode.INVALID_TXN_STATE, NOT_ADDED if version >= 8 else None) for version in range(3, 11)]
    + [(11, ABORTABLE, None)],
)
def test_produce_is_answered_the_new_error_if_it_knows_it(
    level: int, version: int, error: ErrorCode, message: str | None
) -> None:
    """Public Interfaces: TRANSACTION_ABORTABLE for who knows it; older clients hear INVALID_TXN_STATE instead."""
    cluster = Cluster(level)
    answer = Producer.started(cluster, OLD).produce(P, version=version)
    assert (error, message, -1) == (answer.error_code, answer.error_message, answer.base_offset)


@every_level
@pytest.mark.parametrize("version", range(5))
def test_txn_offset_commit_is_answered_the_new_error_if_it_knows_it(level: int, version: int) -> None:
    """Public Interfaces: the same for TxnOffsetCommit."""
    error = ABORTABLE if version >= 4 else ErrorCode.INVALID_TXN_STATE
    assert error is Producer.started(Cluster(level), OLD).commit_offset(5, version=version)


# ---------------------------------------------------------------------- EndTxn


@LEVELS_OF_NEW_CLIENTS
@new_clients
@pytest.mark.parametrize("outcome", [COMMIT, ABORT], ids=["commit", "abort"])
def test_end_txn_answers_the_bumped_epoch(level: int, style: Style, outcome: bool) -> None:
    """Public Interfaces: the newest EndTxn returns the producer id and the epoch to go on with."""
    producer = Producer.started(Cluster(level), style)
    producer.send(P)
    x, epoch = producer.pair
    assert (OK, (x, epoch + 1)) == producer.end(outcome)


@every_level
@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("outcome", [COMMIT, ABORT], ids=["commit", "abort"])
def test_older_end_txn_answers_no_pair_and_bumps_nothing(level: int, version: int, outcome: bool) -> None:
    """Public Interfaces: in older versions there is no such field, and the producer goes on with what it has."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    producer.begin(P)
    producer.send(P)
    assert (OK, None) == producer.end(outcome, version=version)
    assert producer.epoch == cluster.describe("x").producer_epoch


@LEVELS_OF_NEW_CLIENTS
@new_clients
def test_a_refused_end_txn_has_no_pair(level: int, style: Style) -> None:
    """Public Interfaces: with an error there is nothing to go on with."""
    producer = Producer.started(Cluster(level), style)
    assert (ErrorCode.INVALID_TXN_STATE, None) == producer.end(COMMIT)


# ---------------------------------------------------------------------- AddPartitionsToTxn


@every_level
@pytest.mark.parametrize("version", [4, 5])
def test_verify_only_checks_and_adds_nothing(level: int, version: int) -> None:
    """Public Interfaces: VerifyOnly signifies that partitions are checked rather than added."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    producer.begin(P)
    before = len(cluster.transaction_log("x"))
    assert [OK, ABORTABLE] == cluster.verify("x", producer.pair, P, Q, version=version)
    assert [P] == cluster.described_partitions("x")
    assert before == len(cluster.transaction_log("x"))


@LEVELS_OF_NEW_CLIENTS
@pytest.mark.parametrize("version", [4, 5])
def test_without_verify_only_partitions_are_added(level: int, version: int) -> None:
    """Public Interfaces: the default of VerifyOnly is false, and adds."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, NEW)
    response = cluster.add_partitions("x", producer.pair, P, Q, version=version)
    assert OK == response.error_code
    assert [P, Q] == cluster.described_partitions("x")


@every_level
@pytest.mark.parametrize("version", [4, 5])
def test_a_request_of_a_broker_batches_transactions(level: int, version: int) -> None:
    """Public Interfaces: several transactional ids are answered in one response, each on its own."""
    cluster = Cluster(level)
    ids = {tid: Producer.started(cluster, OLD, tid=tid) for tid in ("a", "b")}
    ids["a"].begin(P)
    transactions = [
        AddPartitionsToTxnTransaction(
            transactional_id=tid,
            producer_id=producer.pair[0],
            producer_epoch=producer.epoch,
            verify_only=True,
            topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        for tid, producer in ids.items()
    ]
    response = cluster.ask(1, AddPartitionsToTxnRequest(transactions=transactions), version)
    assert OK == response.error_code
    assert [("a", OK), ("b", ABORTABLE)] == [
        (each.transactional_id, each.topic_results[0].results_by_partition[0].partition_error_code)
        for each in response.results_by_transaction
    ]


@every_level
def test_requests_that_wait_go_out_together(level: int) -> None:
    """Public Interfaces: multiple waiting requests are batched by transactional id."""
    cluster = Cluster(level)
    producers = [Producer.started(cluster, OLD, tid=f"tid-{number}") for number in range(4)]
    for producer in producers:
        producer.begin(P)
    calls = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    first = cluster.hold(ApiKey.ADD_PARTITIONS_TO_TXN, times=1)
    answers = [producer.sending(P) for producer in producers]
    cluster.world.run()
    cluster.release(first)
    assert [OK] * 4 == [answer.result().error_code for answer in answers]
    assert [["tid-0"], ["tid-1", "tid-2", "tid-3"]] == [
        [transaction.transactional_id for transaction in call.request_of(ADD_PARTITIONS_TO_TXN).transactions]
        for call in calls
    ]


@every_level
@pytest.mark.parametrize("version", [9, 11, 12, 13])
def test_what_a_leader_asks_depends_on_its_client(level: int, version: int) -> None:
    """Public Interfaces: "verifyOnly" mode is what is used for old clients; it is a real, encoded version 5 request."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    producer.begin(Q)
    calls = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    producer.send(P, version=version)
    [call] = calls
    assert (5, True) == (call.version, call.is_broker)
    [transaction] = call.request_of(ADD_PARTITIONS_TO_TXN).transactions
    assert (version < 12) is transaction.verify_only
    assert ("x", *producer.pair) == (
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
    )


# ---------------------------------------------------------------------- the transaction log


@every_level
@old_clients
def test_the_log_holds_the_version_of_an_old_client(level: int, style: Style) -> None:
    """Public Interfaces: TransactionLogValue tells the transaction version of the client, by its EndTxn."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.transact(P)
    assert [0, 0, 0, 0] == [each.summary[-1] for each in cluster.transaction_log("x")]


@LEVELS_OF_NEW_CLIENTS
@new_clients
def test_the_log_holds_the_version_of_a_new_client(level: int, style: Style) -> None:
    """Public Interfaces: the same for a client that lets EndTxn bump the epoch."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.transact(P)
    assert [0, 2, 2, 2] == [each.summary[-1] for each in cluster.transaction_log("x")]


@LEVELS_OF_NEW_CLIENTS
@pytest.mark.parametrize(("style", "transaction_version"), [(OLD, 0), (NEW, 2)], ids=["old", "new"])
def test_a_coordinator_that_loads_the_log_knows_the_next_steps(
    level: int, style: Style, transaction_version: int
) -> None:
    """Public Interfaces: with the client's version in the Prepare record, who loads it knows how to go on."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    markers = cluster.hold(ApiKey.WRITE_TXN_MARKERS, times=1)
    producer.transact(P)
    calls = cluster.watch(ApiKey.WRITE_TXN_MARKERS)
    cluster.move(cluster.log_of("x"))
    cluster.world.advance(60_000)
    cluster.release(markers)
    assert {transaction_version} == {
        each.transaction_version for call in calls for each in call.request_of(WRITE_TXN_MARKERS).markers
    }
    assert {1} == {each.coordinator_epoch for call in calls for each in call.request_of(WRITE_TXN_MARKERS).markers}
    epoch = 1 if transaction_version else 0
    assert ("CompleteCommit", epoch) == (cluster.state("x"), cluster.describe("x").producer_epoch)
    assert f"1:COMMIT@{epoch}" == cluster.log(P)[1]


# ---------------------------------------------------------------------- Configurations


@every_level
@old_clients
def test_verification_is_on_by_default_and_can_be_switched_off(level: int, style: Style) -> None:
    """Configurations: the new configuration turns verification off; the default is true."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    assert OK is not producer.send(P)
    cluster.verify_partitions(False)
    assert OK is producer.send(P)
    cluster.verify_partitions(True)
    assert OK is not producer.send(Q)


@every_level
@old_clients
def test_without_verification_nobody_is_asked(level: int, style: Style) -> None:
    """Configurations: it is for users who are concerned about the performance of the second call."""
    cluster = Cluster(level, transaction_partition_verification_enable=False)
    calls = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    producer = Producer.started(cluster, style)
    producer.add_offsets()
    assert OK is producer.send(P)
    assert OK is producer.commit_offset(5)
    assert [] == [call for call in calls if call.is_broker]


@LEVELS_OF_NEW_CLIENTS
@new_clients
def test_the_configuration_does_not_apply_to_adding(level: int, style: Style) -> None:
    """Configurations: it does not apply to the adding of new partitions for newer clients."""
    cluster = Cluster(level, transaction_partition_verification_enable=False)
    producer = Producer.started(cluster, style)
    assert OK is producer.send(P)
    assert [P] == cluster.described_partitions("x")
    stranger = Producer(cluster, style, tid="unknown")
    stranger.pair = producer.pair
    assert ErrorCode.INVALID_PRODUCER_ID_MAPPING is stranger.send(Q)


# ---------------------------------------------------------------------- Metrics


def metrics(cluster: Cluster) -> tuple[float, float, float]:
    """Verifications, failures, milliseconds."""
    numbers = cluster.node(1).metrics.snapshot()
    names = ("verifications_total", "verification_failures_total", "verification_time_ms_sum")
    verifications, failures, milliseconds = (numbers[name] for name in names)
    return verifications, failures, milliseconds


@every_level
def test_verification_time_includes_the_round_trip(level: int) -> None:
    """Metrics: VerificationTimeMs runs from the question to the answer, round trip included."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    producer.begin(P)
    slow = cluster.hold(ApiKey.ADD_PARTITIONS_TO_TXN)
    sent = producer.sending(P)
    cluster.world.advance(40)
    assert (0, 0, 0) == metrics(cluster)
    cluster.release(slow)
    assert OK == sent.result().error_code
    assert (1, 0, 40) == metrics(cluster)


@every_level
def test_verifications_that_fail_before_the_coordinator_is_called_count(level: int) -> None:
    """Metrics: verifications that fail before the coordinator is called are accounted for."""
    cluster = Cluster(level, brokers=2)
    tid, partition = cluster.coordinator_on(2), cluster.partition_on(1)
    producer = Producer.started(cluster, OLD, tid=tid)
    producer.begin(partition)
    cluster.fence(2)
    assert ErrorCode.NOT_ENOUGH_REPLICAS is producer.send(partition)
    assert (1, 1, 0) == metrics(cluster)


@every_level
@pytest.mark.parametrize("error", [ABORTABLE, ErrorCode.PRODUCER_FENCED, ErrorCode.NOT_COORDINATOR])
def test_the_failure_rate_counts_failed_answers(level: int, error: ErrorCode) -> None:
    """Metrics: VerificationFailureRate counts what failed in the response or through errors in the manager."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD_STYLES[2])
    cluster.answer(ApiKey.ADD_PARTITIONS_TO_TXN, judged(error), times=1)
    assert OK is not producer.send(P)
    assert (1, 1, 0) == metrics(cluster)
