"""KIP-890, "Ensure Ongoing Transaction for Older Clients (3)" and "Race Condition"."""

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
    judged,
    new_clients,
    old_clients,
)

from odradek.faults.armed import Armed
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import ADD_PARTITIONS_TO_TXN
from odradek.wire.registry import ApiKey

LEVELS_OF_NEW_CLIENTS = pytest.mark.parametrize("level", [1, 2])
OUTCOMES = pytest.mark.parametrize("outcome", [COMMIT, ABORT], ids=["commit", "abort"])
ABORTABLE = ErrorCode.TRANSACTION_ABORTABLE
INVALID_STATE = ErrorCode.INVALID_TXN_STATE
FENCED_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS


def refusal_of(style: Style) -> ErrorCode:
    """What this client hears when its partition is not in a transaction."""
    return ABORTABLE if style.produce >= 11 else INVALID_STATE


def verified(level: int, style: Style = OLD, *, brokers: int = 1) -> tuple[Cluster, Producer]:
    """A transaction that holds one partition, to which nothing is written yet."""
    cluster = Cluster(level, brokers=brokers)
    producer = Producer.started(cluster, style)
    producer.begin(P)
    return cluster, producer


# ---------------------------------------------------------------------- asking


@every_level
@old_clients
def test_without_state_the_coordinator_is_asked(level: int, style: Style) -> None:
    """Ensure Ongoing: without any state for the partition the Produce waits in purgatory while it is verified."""
    cluster, producer = verified(level, style)
    asking = cluster.hold(ApiKey.ADD_PARTITIONS_TO_TXN)
    sent = producer.sending(P)
    cluster.world.run()
    assert not sent.arrived
    assert (0, 0) == cluster.stable(P)
    cluster.release(asking)
    assert OK == sent.result().error_code
    assert 0 == cluster.producers(P)[0].current_txn_start_offset


@every_level
@old_clients
def test_with_state_the_produce_goes_on(level: int, style: Style) -> None:
    """Ensure Ongoing: where the first offset says that a transaction is ongoing, the Produce goes on."""
    cluster, producer = verified(level, style)
    assert OK is producer.send(P)
    calls = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    assert [OK, OK] == [producer.send(P), producer.send(P)]
    assert [] == calls


@every_level
@old_clients
def test_the_state_survives_a_change_of_leader(level: int, style: Style) -> None:
    """Ensure Ongoing: the first offset marks that validation was completed, and persists across leadership changes."""
    cluster, producer = verified(level, style, brokers=2)
    assert OK is producer.send(P)
    cluster.move(P, 3 - cluster.leader(P))
    calls = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    assert OK is producer.send(P)
    assert [] == calls


@every_level
@old_clients
@OUTCOMES
def test_the_marker_clears_the_state(level: int, style: Style, outcome: bool) -> None:
    """Ensure Ongoing: when the markers are written the field is cleared, and the next Produce is verified again."""
    cluster, producer = verified(level, style)
    producer.send(P)
    producer.finish(outcome)
    assert -1 == cluster.producers(P)[0].current_txn_start_offset
    calls = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    assert refusal_of(style) is producer.send(P)
    assert 1 == len(calls)


@every_level
@old_clients
def test_what_was_not_written_is_verified_again(level: int, style: Style) -> None:
    """Ensure Ongoing: what counts is what is in the log; another leader that has nothing in its log asks again."""
    cluster, producer = verified(level, style, brokers=2)
    asking = cluster.hold(ApiKey.ADD_PARTITIONS_TO_TXN, times=1)
    sent = producer.sending(P)
    cluster.world.run()
    cluster.move(P, 3 - cluster.leader(P))
    cluster.release(asking)
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == sent.result().error_code
    assert (0, 0) == cluster.stable(P)
    calls = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    assert OK is producer.send(P)
    assert 1 == len(calls)


# ---------------------------------------------------------------------- what the coordinator answers


@every_level
@old_clients
@pytest.mark.parametrize("state", ["Empty", "CompleteCommit", "CompleteAbort", "Ongoing elsewhere"])
def test_a_partition_outside_of_the_transaction_is_refused(level: int, style: Style, state: str) -> None:
    """Ensure Ongoing: the transaction must be ongoing and the partition part of it; if not, the Produce hears of it."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    if state == "Ongoing elsewhere":
        producer.begin(Q)
    elif state != "Empty":
        producer.begin(P)
        producer.finish(state == "CompleteCommit")
    assert state.split()[0] == cluster.state("x")
    before = cluster.log(P)
    assert refusal_of(style) is producer.send(P)
    assert before == cluster.log(P)


@every_level
@pytest.mark.parametrize("version", [4, 5])
def test_verification_in_every_state(level: int, version: int) -> None:
    """Ensure Ongoing: in verify mode the coordinator tells for each partition whether it is added already."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)

    def ask(pair: tuple[int, int] = producer.pair) -> list[ErrorCode]:
        return cluster.verify("x", pair, P, Q, version=version)

    assert [ABORTABLE, ABORTABLE] == ask()
    producer.begin(P)
    assert [OK, ABORTABLE] == ask()
    markers = cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    producer.commit()
    assert [BUSY, BUSY] == ask()
    cluster.release(markers)
    assert [ABORTABLE, ABORTABLE] == ask()
    x, epoch = producer.pair
    assert [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2 == ask((x + 1, epoch))
    assert [ErrorCode.PRODUCER_FENCED] * 2 == ask((x, epoch + 1))
    assert [ErrorCode.INVALID_PRODUCER_ID_MAPPING] == cluster.verify("unknown", (x, epoch), P, version=version)
    assert [ErrorCode.INVALID_REQUEST] == cluster.verify("", (x, epoch), P, version=version)


@every_level
@old_clients
def test_each_partition_is_judged_on_its_own(level: int, style: Style) -> None:
    """Ensure Ongoing: INVALID_TXN_STATE is for the partition that is missing, no error for the one that is there."""
    cluster, producer = verified(level, style)
    calls = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    answers = producer.produce_together({P: producer.pair, Q: producer.pair})
    assert [OK, refusal_of(style)] == [each.error_code for each in answers]
    [call] = calls
    assert [("t", [0, 1])] == [
        (each.name, each.partitions) for each in call.request_of(ADD_PARTITIONS_TO_TXN).transactions[0].topics
    ]
    assert ((0, 1), (0, 0)) == (cluster.stable(P), cluster.stable(Q))


@every_level
@pytest.mark.parametrize("version", range(5))
def test_offsets_are_verified_like_records(level: int, version: int) -> None:
    """Ensure Ongoing: the partition of a group's offsets is verified for TxnOffsetCommit, too."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, OLD)
    producer.begin(P)
    refusal = ABORTABLE if version >= 4 else INVALID_STATE
    assert refusal is producer.commit_offset(1, version=version)
    assert OK is producer.add_offsets()
    assert OK is producer.commit_offset(2, version=version)
    assert OK is producer.commit()
    assert 2 == cluster.offset()
    assert refusal is producer.commit_offset(3, version=version)


@every_level
@old_clients
def test_a_batch_of_an_older_epoch_needs_no_question(level: int, style: Style) -> None:
    """Ensure Ongoing: what the log itself fences is refused without asking."""
    cluster, producer = verified(level, style)
    producer.send(P)
    assert OK is producer.commit()
    old = producer.pair
    assert OK is producer.init()
    producer.transact(P)
    calls = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    assert FENCED_EPOCH is producer.send(P, pair=old, sequence=1)
    assert [] == calls


@every_level
@pytest.mark.parametrize("version", [9, 11, 12, 13])
def test_a_request_with_two_producers_is_refused(level: int, version: int) -> None:
    """Ensure Ongoing: a request is verified for one producer; transactional batches of two are refused altogether."""
    cluster, producer = verified(level)
    other = Producer.started(cluster, OLD, tid="other")
    answer = producer.produce_together({P: producer.pair, Q: other.pair}, version=version)
    text = "Transactional records contained more than one producer ID" if version >= 8 else None
    expected = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, text)
    assert [expected, expected] == [(each.error_code, each.error_message) for each in answer]
    assert ((0, 0), (0, 0)) == (cluster.stable(P), cluster.stable(Q))


# ---------------------------------------------------------------------- the race


def verdict_on_its_way(cluster: Cluster) -> Armed:
    """The coordinator has said yes, and its answer is on its way for as long as it is held."""
    return cluster.answer(ApiKey.ADD_PARTITIONS_TO_TXN, judged(OK), times=1, hold=True)


@every_level
@old_clients
@OUTCOMES
def test_a_marker_between_verification_and_append(level: int, style: Style, outcome: bool) -> None:
    """Race Condition: the state is checked once more when the batch is about to be written, and a marker has ended it.

    Nothing is written, and as in Kafka there is no message.
    """
    cluster, producer = verified(level, style)
    assert [OK] == cluster.verify("x", producer.pair, P)
    verdict = verdict_on_its_way(cluster)
    sent = producer.sending(P)
    cluster.world.run()
    assert OK is producer.finish(outcome)
    cluster.release(verdict)
    answer = sent.result()
    assert (INVALID_STATE, None) == (answer.error_code, answer.error_message)
    marker = "COMMIT" if outcome else "ABORT"
    bump = 1 if style.end >= 5 else 0
    assert [f"0:{marker}@{bump}"] == cluster.log(P)
    assert (1, 1) == cluster.stable(P)


@LEVELS_OF_NEW_CLIENTS
@new_clients
@OUTCOMES
def test_a_marker_between_adding_and_append(level: int, style: Style, outcome: bool) -> None:
    """Race Condition: for a new client the marker carries the bumped epoch, so that the log itself fences the batch."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    assert OK == cluster.add_partitions("x", producer.pair, P).error_code
    verdict = verdict_on_its_way(cluster)
    sent = producer.sending(P)
    cluster.world.run()
    assert OK is producer.finish(outcome)
    cluster.release(verdict)
    assert FENCED_EPOCH == sent.result().error_code
    assert [f"0:{'COMMIT' if outcome else 'ABORT'}@1"] == cluster.log(P)


@every_level
@pytest.mark.parametrize("cause", ["timeout", "fence", "administrator"])
def test_any_marker_wins_the_race(level: int, cause: str) -> None:
    """Race Condition: whoever has the marker written, it takes the verification away."""
    cluster = Cluster(level, transaction_abort_timed_out_transaction_cleanup_interval_ms=1000)
    producer = Producer.started(cluster, OLD, timeout_ms=5_000)
    producer.begin(P)
    verdict = verdict_on_its_way(cluster)
    sent = producer.sending(P)
    cluster.world.run()
    if cause == "timeout":
        cluster.world.advance(7_000)
        assert "CompleteAbort" == cluster.state("x")
    elif cause == "fence":
        assert BUSY is Producer(cluster, OLD).init()
    else:
        assert OK is cluster.write_marker(P, producer.pair, ABORT)
    cluster.release(verdict)
    refusal = INVALID_STATE if cause == "administrator" else FENCED_EPOCH
    assert refusal == sent.result().error_code
    assert 1 == len(cluster.log(P))


@every_level
@old_clients
def test_the_verdict_of_one_transaction_is_no_verdict_for_the_next(level: int, style: Style) -> None:
    """Race Condition: the guard is a token of its own (ABA): another verification begun since does not make it good."""
    cluster, producer = verified(level, style)
    verdict = verdict_on_its_way(cluster)
    late = producer.sending(P, b"late")
    cluster.world.run()
    assert OK is producer.commit()
    # The next transaction, with the same producer id and epoch, has asked as well, and has a guard of its own.
    producer.begin(P)
    following = producer.sending(P, b"next")
    cluster.world.run()
    cluster.release(verdict)
    assert INVALID_STATE == late.result().error_code
    assert OK == following.result().error_code
    assert OK is producer.commit()
    assert [b"next"] == cluster.values(P)


@LEVELS_OF_NEW_CLIENTS
@new_clients
@OUTCOMES
def test_the_marker_of_the_transaction_before_does_not_disturb_the_next(
    level: int, style: Style, outcome: bool
) -> None:
    """Race Condition: a new client may ask with the bumped epoch before the marker that carries it is written here.

    The question is on its way when the marker comes, and its answer holds.
    """
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.send(P, b"a")
    markers = cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    assert OK is producer.finish(outcome)
    asking = cluster.hold(ApiKey.ADD_PARTITIONS_TO_TXN)
    sent = producer.sending(P, b"b")
    cluster.world.run()
    cluster.release(markers)
    assert f"1:{'COMMIT' if outcome else 'ABORT'}@1" == cluster.log(P)[1]
    cluster.release(asking)
    assert OK == sent.result().error_code
    assert "2:data@1" == cluster.log(P)[2]


@LEVELS_OF_NEW_CLIENTS
@new_clients
@OUTCOMES
def test_a_repeated_marker_of_the_transaction_before_does_not_end_the_next(
    level: int, style: Style, outcome: bool
) -> None:
    """Bump Epoch: with the transaction version in the request a leader takes a marker with a greater epoch only."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, style)
    producer.transact(P)
    assert OK is cluster.write_marker(P, producer.pair, outcome, transaction_version=2)
    producer.send(P)
    assert FENCED_EPOCH is cluster.write_marker(P, producer.pair, outcome, transaction_version=2)
    assert (3, 4) == cluster.stable(P)


# ---------------------------------------------------------------------- one question at a time


@every_level
def test_a_second_request_of_the_same_epoch_takes_the_place_of_the_first(level: int) -> None:
    """Ensure Ongoing: the same epoch asking again is likely a retry; the earlier one gets an error it may retry."""
    cluster, producer = verified(level)
    asking = cluster.hold(ApiKey.ADD_PARTITIONS_TO_TXN, times=1)
    answers = [producer.sending(P, sequence=number) for number in range(3)]
    cluster.world.run()
    assert [False, True, False] == [answer.arrived for answer in answers]
    replaced = answers[1].result()
    assert ErrorCode.NOT_ENOUGH_REPLICAS == replaced.error_code
    assert replaced.error_message is not None
    assert replaced.error_message.endswith("Underlying error: NETWORK_EXCEPTION")
    cluster.release(asking)
    assert OK == answers[0].result().error_code


@LEVELS_OF_NEW_CLIENTS
def test_a_request_of_a_higher_epoch_fences_the_one_that_waits(level: int) -> None:
    """Ensure Ongoing: the one with the lower epoch is INVALID_PRODUCER_EPOCH, whichever came first."""
    cluster = Cluster(level)
    producer = Producer.started(cluster, NEW)
    x, epoch = producer.pair
    asking = cluster.hold(ApiKey.ADD_PARTITIONS_TO_TXN, times=1)
    producer.sending(P)
    waiting = producer.sending(P)
    cluster.world.run()
    higher = producer.sending(P, pair=(x, epoch + 1), sequence=0)
    cluster.world.run()
    assert FENCED_EPOCH == waiting.result().error_code
    lower = producer.sending(Q)
    cluster.world.run()
    assert FENCED_EPOCH == lower.result().error_code
    cluster.release(asking)
    assert FENCED_EPOCH == higher.result().error_code


@every_level
def test_a_failed_batch_is_not_overtaken(level: int) -> None:
    """Ensure Ongoing: the lowest sequence that asked is kept, so that later batches do not pass one that is retried."""
    cluster, producer = verified(level)
    cluster.answer(ApiKey.ADD_PARTITIONS_TO_TXN, judged(ErrorCode.NOT_COORDINATOR), times=1)
    assert ErrorCode.NOT_ENOUGH_REPLICAS is producer.send(P, b"a", sequence=0)
    assert ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER is producer.send(P, b"b", sequence=1)
    assert [OK, OK] == [producer.send(P, b"a", sequence=0), producer.send(P, b"b", sequence=1)]
    assert [b"a", b"b"] == cluster.values(P)
