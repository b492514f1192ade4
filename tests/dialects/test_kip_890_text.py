"""The dialects kip-890-text and kip-890-older-text: a test for each sentence that a broker, or its client, has to keep.

What the page says as Kafka 4.4 does is tested in `tests/kips/kip_890`; here it is tested again where the dialect
has other versions or other tables for it.
"""

from __future__ import annotations

import pytest
from tests.dialects.steps import Player
from tests.kips.helpers import ABORT, COMMIT, EPOCH_LAST, GROUP, OK, Cluster, P, Producer, Q, Style, judged

from odradek.releases.dialects.load import load
from odradek.releases.release import Release
from odradek.testing.dialects import Refusal
from odradek.wire import registry
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.apis import ADD_PARTITIONS_TO_TXN
from odradek.wire.messages.end_txn_response import EndTxnResponse
from odradek.wire.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.registry import ApiKey

PAGES = ("kip-890-text", "kip-890-older-text")
ONLY_TODAY = pytest.mark.parametrize("page", PAGES[:1], indirect=True)
"""Of sentences that only the page of today has."""
NEW = Style("text-new", produce=11, end=4, offsets=4, add=None, init=4)
OLD = Style("text-old", produce=10, end=3, offsets=3, add=3, init=4)
OUTCOMES = pytest.mark.parametrize("outcome", [COMMIT, ABORT], ids=["commit", "abort"])
PREPARE_COMMIT, COMPLETE_COMMIT = 2, 4
BUSY, WRONG_STATE, FENCED = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.PRODUCER_FENCED,
)


class Page:
    """The page whose dialect is played."""

    release: Release


@pytest.fixture(autouse=True, params=PAGES)
def page(request: pytest.FixtureRequest) -> None:
    Page.release = load(request.param)


def cluster_of(level: int = 2, **how: object) -> Cluster:
    return Cluster(level, dialect=Page.release, **how)  # type: ignore[arg-type]


def started(level: int = 2, style: Style = NEW, *, epoch: int = 0) -> tuple[Cluster, Producer]:
    cluster = cluster_of(level)
    return cluster, Producer.started(cluster, style, epoch=epoch)


# ---------------------------------------------------------------------- Public Interfaces


@ONLY_TODAY
def test_seven_requests_have_new_versions() -> None:
    """Public Interfaces: these are bumped, once, for the new protocol and for TRANSACTION_ABORTABLE."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    told = {each.api_key: each.max_version for each in cluster_of().ask(1, request, 4).api_keys}
    newest = {
        ApiKey.FIND_COORDINATOR: 5,
        ApiKey.INIT_PRODUCER_ID: 5,
        ApiKey.PRODUCE: 11,
        ApiKey.ADD_PARTITIONS_TO_TXN: 4,
        ApiKey.ADD_OFFSETS_TO_TXN: 4,
        ApiKey.TXN_OFFSET_COMMIT: 4,
        ApiKey.END_TXN: 4,
        ApiKey.WRITE_TXN_MARKERS: 1,
    }
    assert newest == {key: told[key] for key in newest}


def test_end_txn_4_is_written_as_kafka_writes_5() -> None:
    """EndTxnResponse: version 4 returns the producer id and epoch; 3 has neither."""
    assert Page.release.codecs is not None
    answer = EndTxnResponse(producer_id=7, producer_epoch=1)
    assert registry.encode(answer, 5) == Page.release.codecs.encode(answer, 4)
    assert registry.encode(EndTxnResponse(), 3) == Page.release.codecs.encode(answer, 3)
    with pytest.raises(ValueError, match="versions 0 to 4, not 5"):
        Page.release.codecs.encode(answer, 5)


def test_there_is_no_second_bump() -> None:
    """Public Interfaces: what Kafka calls Produce 12 is no version here, and ends the connection."""
    _, producer = started()
    with pytest.raises(LookupError, match="PRODUCE v12 is not answered"):
        producer.send(P, version=12)


def test_the_new_version_of_produce_adds_its_partition() -> None:
    """Public Interfaces: the bumped Produce says that the client does not add partitions; the broker does it."""
    cluster, producer = started()
    adds = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    assert OK is producer.send(P)
    assert [P] == cluster.described_partitions("x")
    assert [(4, False)] == [
        (call.version, call.request_of(ADD_PARTITIONS_TO_TXN).transactions[0].verify_only) for call in adds
    ]


def test_the_version_before_is_verified() -> None:
    """Public Interfaces: older clients receive INVALID_TXN_STATE when there is no ongoing transaction."""
    _, producer = started(style=OLD)
    assert WRONG_STATE is producer.send(P)
    producer.begin(P)
    assert OK is producer.send(P)
    assert WRONG_STATE is producer.send(Q)


def test_several_transactions_are_asked_about_at_once() -> None:
    """AddPartitionsToTxn: batches by transactional id, and only verifies where that is wanted."""
    cluster, producer = started()
    assert OK is producer.send(P)
    assert [OK, WRONG_STATE] == cluster.verify("x", producer.pair, P, Q, version=4)
    assert [P] == cluster.described_partitions("x")


def test_offsets_add_their_partition() -> None:
    """Implicitly Add: TxnOffsetCommit makes the coordinator's broker add the partition of the offsets."""
    cluster, producer = started()
    assert OK is producer.commit_offset(5)
    assert [cluster.offsets_of(GROUP)] == cluster.described_partitions("x")
    assert OK is producer.commit()
    assert 5 == cluster.offset()


# ---------------------------------------------------------------------- the client's version in the log


@ONLY_TODAY
@pytest.mark.parametrize(
    ("level", "style", "written"),
    [(0, OLD, 0), (1, OLD, 1), (2, OLD, 1), (2, NEW, 2)],
    ids=["tv0-old", "tv1-old", "tv2-old", "tv2-new"],
)
def test_the_record_of_an_end_tells_the_clients_version(level: int, style: Style, written: int) -> None:
    """Transaction protocol feature version gating: by the server's level and by the EndTxn of the client."""
    cluster, producer = started(level, style)
    producer.transact(P)
    prepared, completed = cluster.transaction_log("x")[-2:]
    for each, status in ((prepared, PREPARE_COMMIT), (completed, COMPLETE_COMMIT)):
        assert each.value is not None
        assert (status, written) == (each.value.transaction_status, each.value.client_transaction_version)


@ONLY_TODAY
def test_an_open_transaction_does_not_tell_it() -> None:
    """TransactionLogValue: "This value is used in the Prepare and Complete states"."""
    cluster, producer = started()
    producer.transact(P)
    assert OK is producer.send(P)
    value = cluster.last_written("x").value
    assert value is not None
    assert (1, 0) == (value.transaction_status, value.client_transaction_version)


@pytest.mark.parametrize(("level", "version"), [(0, 0), (1, 1), (2, 1)])
def test_levels_gate_flexible_records(level: int, version: int) -> None:
    """Transaction Protocol Feature Version (0): from 1 on the records have tagged fields."""
    cluster, _ = started(level, OLD)
    assert version == cluster.last_written("x").version


# ---------------------------------------------------------------------- Bump Epoch (1)


@OUTCOMES
def test_every_end_bumps_and_says_so(outcome: bool) -> None:
    """Bump Epoch: always upon the commit or abort of a transaction, and the client gets the bumped epoch."""
    cluster, producer = started()
    x = producer.pair[0]
    for epoch in (1, 2):
        assert OK is producer.send(P)
        assert (OK, (x, epoch)) == producer.end(outcome)
        producer.pair = x, epoch
        producer.sequences.clear()
    kind = "COMMIT" if outcome else "ABORT"
    assert ["0:data@0", f"1:{kind}@1", "2:data@1", f"3:{kind}@2"] == cluster.log(P)


@OUTCOMES
def test_an_older_client_keeps_its_epoch(outcome: bool) -> None:
    """Bump Epoch: for newer clients; EndTxn v3 answers no pair."""
    _, producer = started(style=OLD)
    producer.begin(P)
    assert OK is producer.send(P)
    assert (OK, None) == producer.end(outcome)


def test_messages_of_the_transaction_before_are_fenced() -> None:
    """Bump Epoch: "Messages from previous transactions will be fenced because they will have an older epoch"."""
    cluster, producer = started()
    before = producer.pair
    producer.transact(P, b"a")
    assert OK is producer.send(P, b"b")
    assert ErrorCode.INVALID_PRODUCER_EPOCH is producer.send(P, b"late", pair=before, sequence=1)
    assert OK is producer.commit()
    assert [b"a", b"b"] == cluster.consumed(P)


def test_the_prepared_record_has_the_bumped_epoch() -> None:
    """PREPARE: producerId x, previous x, next empty, epoch y + 1; and the response is (x, y + 1)."""
    cluster, producer = started()
    x = producer.pair[0]
    assert OK is producer.send(P)
    cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    assert (OK, (x, 1)) == producer.end(COMMIT)
    value = cluster.last_written("x").value
    assert value is not None
    assert (x, 1, x, -1) == (
        value.producer_id,
        value.producer_epoch,
        value.previous_producer_id,
        value.next_producer_id,
    )


def test_an_epoch_that_overflows_goes_on_with_the_next_id() -> None:
    """PREPARE, COMPLETE with overflow: (x, y + 1) and next z, then (z, 0) and previous x; the response is (z, 0)."""
    cluster, producer = started(epoch=EPOCH_LAST)
    x = producer.pair[0]
    assert OK is producer.send(P)
    held = cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    error, got = producer.end(COMMIT)
    assert OK is error
    assert got is not None
    z, epoch = got
    assert (0, True) == (epoch, z != x)
    prepared = cluster.last_written("x").value
    assert prepared is not None
    assert (x, EPOCH_LAST + 1, x, z) == (
        prepared.producer_id,
        prepared.producer_epoch,
        prepared.previous_producer_id,
        prepared.next_producer_id,
    )
    cluster.release(held)
    completed = cluster.last_written("x").value
    assert completed is not None
    assert (z, 0, x, -1) == (
        completed.producer_id,
        completed.producer_epoch,
        completed.previous_producer_id,
        completed.next_producer_id,
    )


@ONLY_TODAY
def test_the_next_id_goes_and_the_previous_one_is_kept_up() -> None:
    """Past Prepare and Complete nextProducerId is cleared, "but we can keep previousProducerId": as Kafka writes it."""
    cluster, producer = started(epoch=EPOCH_LAST)
    x = producer.pair[0]
    producer.transact(P, b"a")
    z = producer.pair[0]
    assert OK is producer.send(P, b"b")

    ongoing = cluster.last_written("x").value

    assert ongoing is not None
    assert x != z
    assert (z, z, -1) == (ongoing.producer_id, ongoing.previous_producer_id, ongoing.next_producer_id)


@OUTCOMES
@pytest.mark.parametrize("failover", [False, True], ids=["same-coordinator", "failover"])
@pytest.mark.parametrize("epoch", [0, EPOCH_LAST])
def test_a_retry_while_markers_are_owed_gets_the_new_epoch(outcome: bool, failover: bool, epoch: int) -> None:
    """PREPARE: a retry with epoch - 1 and the same command returns, with the new epoch; Kafka has it wait."""
    cluster, producer = started(epoch=epoch)
    assert OK is producer.send(P)
    cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    error, got = producer.end(outcome)
    assert OK is error
    if failover:
        cluster.move(cluster.log_of("x"))
    assert (OK, got) == producer.end(outcome)
    assert (WRONG_STATE, None) == producer.end(not outcome)


@pytest.mark.parametrize("epoch", [0, EPOCH_LAST])
@OUTCOMES
def test_who_has_the_new_epoch_waits_for_the_markers(epoch: int, outcome: bool) -> None:
    """Silent: the next transaction of the same client cannot end before the last one has its markers."""
    cluster, producer = started(epoch=epoch)
    assert OK is producer.send(P)
    held = cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    _, got = producer.end(COMMIT)
    assert (BUSY, None) == producer.end(outcome, pair=got)
    cluster.release(held)
    assert (WRONG_STATE if outcome else OK) is producer.end(outcome, pair=got)[0]


@OUTCOMES
def test_an_older_epoch_learns_nothing_while_markers_are_owed(outcome: bool) -> None:
    """PREPARE: only "epoch - 1" is a retry."""
    cluster, producer = started()
    stale = producer.pair
    producer.transact(P)
    assert OK is producer.send(P)
    cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    assert OK is producer.end(outcome)[0]
    assert (FENCED, None) == producer.end(outcome, pair=stale)


@OUTCOMES
@pytest.mark.parametrize("failover", [False, True], ids=["same-coordinator", "failover"])
@pytest.mark.parametrize("epoch", [0, EPOCH_LAST])
def test_a_retry_after_the_end_gets_the_present_pair(outcome: bool, failover: bool, epoch: int) -> None:
    """COMPLETE: a retry of the same command returns the current id and epoch, and is told after a load, too."""
    cluster, producer = started(epoch=epoch)
    assert OK is producer.send(P)
    error, got = producer.end(outcome)
    assert OK is error
    if failover:
        cluster.move(cluster.log_of("x"))
    assert (OK, got) == producer.end(outcome)
    assert (WRONG_STATE, None) == producer.end(not outcome)


# ---------------------------------------------------------------------- sequences, ids


def test_a_first_sequence_that_is_not_zero() -> None:
    """Return Error for Non-Zero Sequence: the retriable OutOfOrderSequence, where there is no state of the producer."""
    _, producer = started()
    assert ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER is producer.send(P, sequence=1)
    assert OK is producer.send(P, sequence=0)


def test_an_older_client_may_begin_anywhere() -> None:
    """Return Error for Non-Zero Sequence: "for new clients"."""
    _, producer = started(style=OLD)
    producer.begin(P)
    assert OK is producer.send(P, sequence=1)


# ---------------------------------------------------------------------- Implicitly Add (2), Ensure Ongoing (3)


def test_a_transaction_that_is_open_is_not_asked_about_again() -> None:
    """Implicitly Add: the first offset in the leader's state marks the partition, and outlives its leader."""
    cluster, producer = started()
    assert OK is producer.send(P)
    adds = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    assert OK is producer.send(P)
    cluster.move(P)
    assert OK is producer.send(P)
    assert [] == adds
    assert OK is producer.commit()
    assert OK is producer.send(P)
    assert 1 == len(adds)


@pytest.mark.parametrize("style", [OLD, NEW], ids=str)
def test_a_produce_waits_for_the_coordinator(style: Style) -> None:
    """Implicitly Add: nothing is written before the answer of the coordinator."""
    cluster, producer = started(style=style)
    producer.begin(P)
    held = cluster.hold(ApiKey.ADD_PARTITIONS_TO_TXN)
    sending = producer.sending(P)
    assert [] == cluster.values(P)
    cluster.release(held)
    assert OK == sending.result().error_code


def test_without_verification_new_clients_are_added_all_the_same() -> None:
    """Configurations: "This configuration will not apply to the adding of the new partitions for newer clients"."""
    cluster = cluster_of(transaction_partition_verification_enable=False)
    old, new = Producer.started(cluster, OLD, tid="old"), Producer.started(cluster, NEW, tid="new")
    assert OK is old.send(P)
    assert OK is new.send(Q)
    assert [Q] == cluster.described_partitions("new")


# ---------------------------------------------------------------------- Old Clients

RETRIABLE = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


@pytest.mark.parametrize("error", RETRIABLE, ids=lambda error: error.name)
def test_a_produce_of_an_old_client_is_told_to_retry(error: ErrorCode) -> None:
    """Produce Requests: NOT_ENOUGH_REPLICAS with a message in place of every retriable error."""
    cluster, producer = started(style=OLD)
    producer.begin(P)
    cluster.answer(ApiKey.ADD_PARTITIONS_TO_TXN, judged(error))
    answer = producer.produce(P)
    assert ErrorCode.NOT_ENOUGH_REPLICAS == answer.error_code
    assert error.name in str(answer.error_message)


@pytest.mark.parametrize("error", RETRIABLE, ids=lambda error: error.name)
def test_an_offset_commit_of_an_old_client_is_told_to_retry(error: ErrorCode) -> None:
    """TxnOffsetCommit Requests: all retriable errors are COORDINATOR_NOT_AVAILABLE; Kafka passes most as they are."""
    cluster, producer = started(style=OLD)
    assert OK is producer.add_offsets()
    cluster.answer(ApiKey.ADD_PARTITIONS_TO_TXN, judged(error))
    assert ErrorCode.COORDINATOR_NOT_AVAILABLE is producer.commit_offset(1)


def test_an_offset_commit_whose_coordinator_is_lost() -> None:
    """The same for NETWORK_EXCEPTION, which Kafka makes COORDINATOR_LOAD_IN_PROGRESS."""
    cluster, producer = started(style=OLD)
    assert OK is producer.add_offsets()
    cluster.answer(ApiKey.ADD_PARTITIONS_TO_TXN, judged(ErrorCode.NETWORK_EXCEPTION))
    assert ErrorCode.COORDINATOR_NOT_AVAILABLE is producer.commit_offset(1)


def test_another_coordinator_of_the_group_is_still_said_to_be_another() -> None:
    """Silent: the sentence is about the coordinator of the transaction; whose group it is stays NOT_COORDINATOR."""
    cluster = cluster_of(brokers=2)
    producer = Producer.started(cluster, OLD)
    assert OK is producer.add_offsets()
    wrong = next(node for node in (1, 2) if node != cluster.leader(cluster.offsets_of(GROUP)))
    offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=GROUP,
        producer_id=producer.pair[0],
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[offset])],
    )
    [topic] = cluster.ask(wrong, request, 3).topics
    assert [ErrorCode.NOT_COORDINATOR] == [each.error_code for each in topic.partitions]


@pytest.mark.parametrize("error", [WRONG_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING], ids=lambda error: error.name)
def test_fatal_errors_of_an_offset_commit_stay(error: ErrorCode) -> None:
    """TxnOffsetCommit Requests: INVALID_TXN_STATE and INVALID_PID_MAPPING are fatal, and told as they are."""
    cluster, producer = started(style=OLD)
    assert OK is producer.add_offsets()
    cluster.answer(ApiKey.ADD_PARTITIONS_TO_TXN, judged(error))
    assert error is producer.commit_offset(1)


# ---------------------------------------------------------------------- New Clients


@ONLY_TODAY
def test_a_new_client_asks_for_its_id_once() -> None:
    """InitProducerId changes: it is "only called when the producer starts up to fence a previous instance"."""
    cluster = cluster_of()
    inits = cluster.watch(ApiKey.INIT_PRODUCER_ID)
    player = Player.started(cluster)
    for number in range(4):
        player.do(player.core.send(*P, b"%d" % number))
        player.do(player.core.end(commit=number % 2 == 0))
    assert 1 == len(inits)
    assert [b"0", b"2"] == cluster.consumed(P)


@ONLY_TODAY
def test_an_unknown_id_is_fatal_to_a_new_client() -> None:
    """InitProducerId changes: INVALID_PID_MAPPING is fatal: who has expired does not come back."""
    cluster = cluster_of(
        transactional_id_expiration_ms=1000,
        transaction_remove_expired_transaction_cleanup_interval_ms=1000,
    )
    player = Player.started(cluster)
    player.do(player.core.send(*P, b"a"))
    player.do(player.core.end(commit=True))
    cluster.world.advance(5000)
    with pytest.raises(Refusal) as refused:
        player.do(player.core.end(commit=False))
    assert (ErrorCode.INVALID_PRODUCER_ID_MAPPING, True) == (refused.value.error, refused.value.is_fatal)
    with pytest.raises(RuntimeError, match="fatal"):
        player.do(player.core.init())


@pytest.mark.parametrize(("level", "produce", "end"), [(0, 10, 3), (1, 10, 3), (2, 11, 4)])
def test_the_level_chooses_the_protocol(level: int, produce: int, end: int) -> None:
    """New Servers: "server TV is too low" is the old protocol, whatever the brokers could do."""
    cluster = cluster_of(level)
    produces, ends = cluster.watch(ApiKey.PRODUCE), cluster.watch(ApiKey.END_TXN)
    player = Player.started(cluster, level=level)
    player.do(player.core.send(*P, b"a"))
    player.do(player.core.commit_offsets(GROUP, {P: 1}))
    player.do(player.core.end(commit=True))
    assert ([produce], [end]) == ([call.version for call in produces], [call.version for call in ends])
    assert [b"a"] == cluster.consumed(P)
    assert 1 == cluster.offset()


def test_a_higher_level_waits_for_the_end_of_the_transaction() -> None:
    """New Servers: "If we see a new one, we will wait for the transaction to complete before upgrading"."""
    cluster = cluster_of(1)
    player = Player.started(cluster, level=1)
    player.do(player.core.send(*P, b"a"))
    cluster.set_level(2)
    assert not player.do(player.core.see(2))
    assert not player.core.adds_implicitly
    player.do(player.core.end(commit=True))
    assert player.core.adds_implicitly
    player.do(player.core.send(*P, b"b"))
    player.do(player.core.end(commit=True))
    assert [b"a", b"b"] == cluster.consumed(P)


def test_a_lower_level_aborts_the_transaction() -> None:
    """New Servers: "If we see a lower MV, we should abort the transaction and start again with the old protocol"."""
    cluster = cluster_of(2)
    player = Player.started(cluster)
    player.do(player.core.send(*P, b"a"))
    cluster.set_level(1)
    assert player.do(player.core.see(1))
    assert not player.core.adds_implicitly
    player.do(player.core.send(*P, b"b"))
    player.do(player.core.end(commit=True))
    assert [b"b"] == cluster.consumed(P)
