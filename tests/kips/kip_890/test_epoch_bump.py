"""KIP-890, "Bump Epoch on Each Transaction for New Clients (1)": the end of a transaction, and its retries."""

from __future__ import annotations

from collections.abc import Callable

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
    every_level,
    new_clients,
    old_clients,
)

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import WRITE_TXN_MARKERS
from odradek.wire.registry import ApiKey

LEVELS_OF_NEW_CLIENTS = pytest.mark.parametrize("level", [1, 2])
OUTCOMES = pytest.mark.parametrize("outcome", [COMMIT, ABORT], ids=["commit", "abort"])
FAILOVER = pytest.mark.parametrize("failover", [False, True], ids=["same-coordinator", "failover"])
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)
FENCED = ErrorCode.PRODUCER_FENCED
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
WRONG_STATE = ErrorCode.INVALID_TXN_STATE
STRANGER = ErrorCode.INVALID_PRODUCER_ID_MAPPING


# ---------------------------------------------------------------------- the bump


@LEVELS_OF_NEW_CLIENTS
@new_clients
@OUTCOMES
def test_every_end_bumps_the_epoch(level: int, style: Style, outcome: bool) -> None:
    """Bump Epoch: the epoch is always bumped upon the commit or abort of a transaction of a newer client."""
    producer = Producer.started(Cluster(level), style)
    x = producer.pair[0]
    for epoch in (1, 2, 3):
        producer.transact(P, outcome=outcome)
        assert (x, epoch) == producer.pair


@every_level
@old_clients
@OUTCOMES
def test_older_clients_keep_their_epoch(level: int, style: Style, outcome: bool) -> None:
    """Bump Epoch: only on newer clients; an older one goes on with the epoch it has, and its count of records."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    for _ in range(3):
        producer.transact(P, outcome=outcome)
        assert producer.epoch == cluster.describe("x").producer_epoch
    assert {"data@0", f"{'COMMIT' if outcome else 'ABORT'}@0"} == {each.split(":")[1] for each in cluster.log(P)}


@LEVELS_OF_NEW_CLIENTS
@new_clients
def test_messages_of_the_transaction_before_are_fenced(level: int, style: Style) -> None:
    """Bump Epoch: messages of previous transactions have an older epoch, and are fenced by it."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    before = producer.pair
    producer.transact(P, b"a")
    assert OK is producer.send(P, b"b")
    assert ErrorCode.INVALID_PRODUCER_EPOCH is producer.send(P, b"late", pair=before, sequence=1)
    assert OK is producer.commit()
    assert [b"a", b"b"] == cluster.consumed(P)


@LEVELS_OF_NEW_CLIENTS
@OUTCOMES
def test_prepare_and_markers_carry_the_bumped_epoch(level: int, outcome: bool) -> None:
    """Bump Epoch: the prepare record is written, and the markers are sent, with the bumped epoch."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, NEW)
    producer.send(P)
    producer.send(Q)
    calls = cluster.watch(ApiKey.WRITE_TXN_MARKERS)
    assert OK is producer.finish(outcome)
    assert 1 == cluster.transaction_log("x")[-2].summary[2]
    assert {(1, 2, outcome)} == {
        (each.producer_epoch, each.transaction_version, each.transaction_result)
        for call in calls
        for each in call.request_of(WRITE_TXN_MARKERS).markers
    }
    kind = "COMMIT" if outcome else "ABORT"
    assert (f"1:{kind}@1", f"1:{kind}@1") == (cluster.log(P)[1], cluster.log(Q)[1])


@LEVELS_OF_NEW_CLIENTS
@OUTCOMES
def test_the_client_hears_of_the_bump_before_the_markers_are_written(level: int, outcome: bool) -> None:
    """Bump Epoch: the response has the bumped epoch, which the client adopts; Kafka sends it before the markers."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, NEW)
    producer.send(P)
    markers = cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    assert OK is producer.finish(outcome)
    assert 1 == producer.epoch
    assert ("PrepareCommit" if outcome else "PrepareAbort") == cluster.state("x")
    assert (0, 1) == cluster.stable(P)
    cluster.release(markers)
    assert ("CompleteCommit" if outcome else "CompleteAbort") == cluster.state("x")
    assert (2, 2) == cluster.stable(P)


@LEVELS_OF_NEW_CLIENTS
@pytest.mark.parametrize("before", ["Empty", "CompleteCommit", "CompleteAbort"])
def test_an_abort_of_nothing_bumps_as_well(level: int, before: str) -> None:
    """Bump Epoch: a client whose every record failed before it was added aborts, and its epoch is bumped as always."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, NEW)
    if before != "Empty":
        producer.transact(P, outcome=before == "CompleteCommit")
    assert before == cluster.state("x")
    x, epoch = producer.pair
    log = cluster.log(P)
    assert (OK, (x, epoch + 1)) == producer.end(ABORT)
    assert ("CompleteAbort", log) == (cluster.state("x"), cluster.log(P))


# ---------------------------------------------------------------------- what the records hold


@LEVELS_OF_NEW_CLIENTS
@OUTCOMES
def test_records_without_overflow(level: int, outcome: bool) -> None:
    """Bump Epoch, PREPARE and COMPLETE: producer id x, epoch y + 1, previous producer id x, no next producer id."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, NEW)
    x = producer.pair[0]
    producer.transact(P, outcome=outcome)
    prepare, complete = (PREPARE_COMMIT, COMPLETE_COMMIT) if outcome else (PREPARE_ABORT, COMPLETE_ABORT)
    assert [
        (EMPTY, x, 0, x, -1, 0),
        (ONGOING, x, 0, x, -1, 2),
        (prepare, x, 1, x, -1, 2),
        (complete, x, 1, x, -1, 2),
    ] == [each.summary for each in cluster.transaction_log("x")]


@LEVELS_OF_NEW_CLIENTS
@OUTCOMES
def test_records_with_overflow(level: int, outcome: bool) -> None:
    """Bump Epoch, overflow: PREPARE has x, the last epoch and next producer id z; COMPLETE has z, 0 and previous x."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, NEW, epoch=EPOCH_LAST)
    x = producer.pair[0]
    assert OK is producer.send(P)
    assert OK is producer.finish(outcome)
    z, epoch = producer.pair
    assert x != z
    assert 0 == epoch
    prepare, complete = (PREPARE_COMMIT, COMPLETE_COMMIT) if outcome else (PREPARE_ABORT, COMPLETE_ABORT)
    assert [(prepare, x, EPOCH_LAST + 1, x, z, 2), (complete, z, 0, x, -1, 2)] == [
        each.summary for each in cluster.transaction_log("x")[-2:]
    ]
    kind = "COMMIT" if outcome else "ABORT"
    assert [f"0:data@{EPOCH_LAST}", f"1:{kind}@{EPOCH_LAST + 1}"] == cluster.log(P)
    assert [x] == [each.producer_id for each in cluster.producers(P)]


@LEVELS_OF_NEW_CLIENTS
def test_the_response_of_an_overflow_comes_before_the_markers(level: int) -> None:
    """Bump Epoch, overflow: EndTxn returns epoch 0 and producer id z, although x is still finishing."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, NEW, epoch=EPOCH_LAST)
    x = producer.pair[0]
    producer.send(P)
    markers = cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    assert OK is producer.commit()
    z = producer.pair[0]
    assert x != z
    assert ("PrepareCommit", x) == (cluster.state("x"), cluster.describe("x").producer_id)
    assert BUSY is producer.send(P)
    cluster.release(markers)
    assert ("CompleteCommit", z) == (cluster.state("x"), cluster.describe("x").producer_id)
    assert OK is producer.send(P)


@LEVELS_OF_NEW_CLIENTS
@FAILOVER
def test_after_an_overflow_the_producer_goes_on(level: int, failover: bool) -> None:
    """Bump Epoch, overflow: transactions follow each other under z as they did under x; x is over."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, NEW, epoch=EPOCH_LAST - 1)
    x = producer.pair[0]
    for value in (b"a", b"b"):
        producer.transact(P, value)
    z = producer.pair[0]
    if failover:
        cluster.move(cluster.log_of("x"))
    for value in (b"c", b"d"):
        producer.transact(P, value)
    assert (z, 2) == producer.pair
    assert [b"a", b"b", b"c", b"d"] == cluster.consumed(P)
    assert STRANGER is producer.send(Q, pair=(x, EPOCH_LAST), sequence=0)


@LEVELS_OF_NEW_CLIENTS
def test_later_states_keep_the_previous_producer_id_and_no_next_one(level: int) -> None:
    """Bump Epoch: past Prepare and Complete the next producer id is cleared, and the previous one handled as always."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, NEW, epoch=EPOCH_LAST)
    producer.transact(P)
    z = producer.pair[0]
    producer.transact(P)
    assert [(ONGOING, z, 0, z, -1, 2), (PREPARE_COMMIT, z, 1, z, -1, 2)] == [
        each.summary for each in cluster.transaction_log("x")[-3:-1]
    ]


@every_level
@old_clients
def test_older_clients_never_overflow(level: int, style: Style) -> None:
    """Bump Epoch: who does not bump stays at the last epoch for ever."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style, epoch=EPOCH_LAST)
    for value in (b"a", b"b"):
        producer.transact(P, value)
    assert EPOCH_LAST == cluster.describe("x").producer_epoch
    assert [b"a", b"b"] == cluster.consumed(P)


# ---------------------------------------------------------------------- retries of EndTxn


Given = Callable[[Cluster, Producer], None]


def prepared(outcome: bool) -> Given:
    def given(cluster: Cluster, producer: Producer) -> None:
        assert OK is producer.send(P)
        cluster.hold(ApiKey.WRITE_TXN_MARKERS)
        assert (OK, (producer.pair[0], producer.epoch + 1)) == producer.end(outcome)

    return given


def completed(outcome: bool) -> Given:
    def given(cluster: Cluster, producer: Producer) -> None:
        assert OK is producer.send(P)
        assert OK is producer.end(outcome)[0]

    return given


def next_open(cluster: Cluster, producer: Producer) -> None:
    completed(COMMIT)(cluster, producer)
    assert OK is producer.send(P, pair=(producer.pair[0], producer.epoch + 1), sequence=0)


def ongoing(cluster: Cluster, producer: Producer) -> None:
    assert OK is producer.send(P)


def empty(cluster: Cluster, producer: Producer) -> None:
    pass


RETRIES: list[tuple[str, Given, list[ErrorCode | int]]] = [
    # Answers to commit and abort with the epoch of the transaction, and with the one after it: an error, or that much
    # of a bump against the epoch of the transaction.
    ("Empty", empty, [WRONG_STATE, 1, FENCED, FENCED]),
    ("Ongoing", ongoing, [1, 1, FENCED, FENCED]),
    ("PrepareCommit", prepared(COMMIT), [BUSY, BUSY, BUSY, BUSY]),
    ("PrepareAbort", prepared(ABORT), [BUSY, BUSY, BUSY, BUSY]),
    ("CompleteCommit", completed(COMMIT), [1, WRONG_STATE, WRONG_STATE, 2]),
    ("CompleteAbort", completed(ABORT), [WRONG_STATE, 1, WRONG_STATE, 2]),
    ("the next one Ongoing", next_open, [FENCED, FENCED, 2, 2]),
]


@LEVELS_OF_NEW_CLIENTS
@FAILOVER
@pytest.mark.parametrize("request_number", range(4), ids=["commit-e", "abort-e", "commit-e+1", "abort-e+1"])
@pytest.mark.parametrize(("given", "answers"), [case[1:] for case in RETRIES], ids=[case[0] for case in RETRIES])
def test_end_txn_in_every_state(
    level: int, failover: bool, request_number: int, given: Given, answers: list[ErrorCode | int]
) -> None:
    """Bump Epoch, retries: the same command with the epoch before the bump is answered the current pair again.

    The other command is INVALID_TXN_STATE, an older epoch PRODUCER_FENCED; while markers are owed Kafka answers
    CONCURRENT_TRANSACTIONS to everything. All of that a coordinator tells from what it loaded.
    """
    cluster = Cluster(level)
    producer = Producer.started(cluster, NEW, epoch=7)
    given(cluster, producer)
    if failover:
        cluster.move(cluster.log_of("x"))
    x, epoch = producer.pair
    outcome, later = (COMMIT, ABORT)[request_number % 2], request_number // 2
    expected = answers[request_number]
    answer = (expected, None) if isinstance(expected, ErrorCode) else (OK, (x, epoch + expected))
    assert answer == producer.end(outcome, pair=(x, epoch + later))


@LEVELS_OF_NEW_CLIENTS
@FAILOVER
@OUTCOMES
def test_retry_of_an_overflow(level: int, failover: bool, outcome: bool) -> None:
    """Bump Epoch, COMPLETE: the last epoch with the previous producer id is a retry, answered the current pair."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, NEW, epoch=EPOCH_LAST)
    x = producer.pair
    producer.send(P)
    assert OK is producer.finish(outcome)
    if failover:
        cluster.move(cluster.log_of("x"))
    for _ in range(2):
        assert (OK, producer.pair) == producer.end(outcome, pair=x)
    assert (WRONG_STATE, None) == producer.end(not outcome, pair=x)
    producer.transact(P)
    assert (STRANGER, None) == producer.end(outcome, pair=x)


@LEVELS_OF_NEW_CLIENTS
def test_a_retry_changes_nothing(level: int) -> None:
    """Bump Epoch, retries: the answer is given again; nothing is written, nothing is bumped."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, NEW)
    before = producer.pair
    producer.transact(P)
    written, log = len(cluster.transaction_log("x")), cluster.log(P)
    for _ in range(3):
        assert (OK, producer.pair) == producer.end(COMMIT, pair=before)
    assert (written, log) == (len(cluster.transaction_log("x")), cluster.log(P))


@LEVELS_OF_NEW_CLIENTS
@FAILOVER
def test_a_lost_answer_is_recovered_by_a_retry(level: int, failover: bool) -> None:
    """Bump Epoch, retries: a client whose connection broke before the answer retries, and learns its new epoch."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, NEW)
    producer.send(P, b"a")
    cluster.lose(ApiKey.END_TXN, times=1, reply_only=True)
    lost = producer.ending(COMMIT)
    cluster.world.run()
    assert lost.lost
    if failover:
        cluster.move(cluster.log_of("x"))
    assert OK is producer.commit()
    assert 1 == producer.epoch
    assert [b"a"] == cluster.consumed(P)


# ---------------------------------------------------------------------- retries of an older EndTxn


def old_prepared(outcome: bool) -> Given:
    def given(cluster: Cluster, producer: Producer) -> None:
        producer.begin(P)
        cluster.hold(ApiKey.WRITE_TXN_MARKERS)
        assert OK is producer.end(outcome)[0]

    return given


def old_completed(outcome: bool) -> Given:
    def given(cluster: Cluster, producer: Producer) -> None:
        producer.begin(P)
        assert OK is producer.end(outcome)[0]

    return given


def old_ongoing(cluster: Cluster, producer: Producer) -> None:
    producer.begin(P)


OLD_RETRIES: list[tuple[str, Given, tuple[ErrorCode, ErrorCode]]] = [
    ("Empty", empty, (WRONG_STATE, WRONG_STATE)),
    ("Ongoing", old_ongoing, (OK, OK)),
    ("PrepareCommit", old_prepared(COMMIT), (BUSY, BUSY)),
    ("PrepareAbort", old_prepared(ABORT), (BUSY, BUSY)),
    ("CompleteCommit", old_completed(COMMIT), (OK, WRONG_STATE)),
    ("CompleteAbort", old_completed(ABORT), (WRONG_STATE, OK)),
]


@every_level
@FAILOVER
@old_clients
@OUTCOMES
@pytest.mark.parametrize(
    ("given", "answers"), [case[1:] for case in OLD_RETRIES], ids=[case[0] for case in OLD_RETRIES]
)
def test_older_end_txn_in_every_state(
    level: int, failover: bool, style: Style, outcome: bool, given: Given, answers: tuple[ErrorCode, ErrorCode]
) -> None:
    """Bump Epoch, in contrast: without a bump a retry is told by the state alone."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style, epoch=7)
    given(cluster, producer)
    if failover:
        cluster.move(cluster.log_of("x"))
    fenced = ErrorCode.INVALID_PRODUCER_EPOCH if style.end < 2 else FENCED
    assert (fenced, None) == producer.end(outcome, pair=(producer.pair[0], 6))
    assert (fenced, None) == producer.end(outcome, pair=(producer.pair[0], 8))
    assert (answers[0 if outcome else 1], None) == producer.end(outcome)


@LEVELS_OF_NEW_CLIENTS
def test_old_and_new_end_txn_meet(level: int) -> None:
    """Bump Epoch: each version of EndTxn is judged by its own rules, whoever ended the transaction."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, NEW)
    x = producer.pair[0]
    producer.transact(P)
    assert (OK, None) == producer.end(COMMIT, version=4)
    assert (FENCED, None) == producer.end(COMMIT, pair=(x, 0), version=4)
    producer.style = OLD
    producer.transact(P)
    assert (WRONG_STATE, None) == producer.end(COMMIT, version=5)
    assert (OK, (x, 2)) == producer.end(ABORT, version=5)


@every_level
@pytest.mark.parametrize("version", range(6))
def test_strangers(level: int, version: int) -> None:
    """Bump Epoch: an id that is not known, another producer id, or another epoch ends nothing."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    producer.begin(P)
    x = producer.pair[0]
    unknown = Producer(cluster, OLD, tid="unknown")
    assert (STRANGER, None) == unknown.end(COMMIT, pair=(x, 0), version=version)
    assert (STRANGER, None) == producer.end(COMMIT, pair=(x + 1, 0), version=version)
    fenced = ErrorCode.INVALID_PRODUCER_EPOCH if version < 2 else FENCED
    assert (fenced, None) == producer.end(COMMIT, pair=(x, 1), version=version)
    nameless = Producer(cluster, OLD, tid="")
    assert (ErrorCode.INVALID_REQUEST, None) == nameless.end(COMMIT, pair=(x, 0), version=version)
    assert "Ongoing" == cluster.state("x")
