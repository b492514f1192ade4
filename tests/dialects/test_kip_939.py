"""The dialect kip-939: a prepared transaction that outlives its producer and its broker, and who may end it how."""

from __future__ import annotations

import pytest
from tests.dialects.steps import AUTHORIZER, Player, everybody_may
from tests.kips.helpers import ABORT, COMMIT, EPOCH_LAST, OK, Cluster, P, Q
from tests.security.permissions import ALL, TRANSACTIONAL_ID, WRITE, acl

from odradek.releases.dialects.load import load
from odradek.testing.dialects import NOBODY, Pair, Refusal
from odradek.txn.entry import TIMEOUT_NEVER
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.list_transactions_request import ListTransactionsRequest
from odradek.wire.messages.transaction_log_value import TransactionLogValue
from odradek.wire.registry import ApiKey

KIP = load("kip-939")
OUTCOMES = pytest.mark.parametrize("outcome", [COMMIT, ABORT], ids=["commit", "abort"])
FAILOVER = pytest.mark.parametrize("failover", [False, True], ids=["same-coordinator", "failover"])
FENCED, WRONG_STATE, BUSY = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
TWO_PHASE_COMMIT = 15
ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT = 1, 2, 4


def cluster_of(level: int = 2, *, enabled: bool = True, **how: object) -> Cluster:
    return Cluster(level, dialect=KIP, transaction_two_phase_commit_enable=enabled, **how)  # type: ignore[arg-type]


def prepared(cluster: Cluster, tid: str = "x", *, epoch: int = 0) -> Player:
    """A producer with an open transaction of one record, which it has prepared; then it is gone."""
    former = Player.started(cluster, tid, two_phase=True)
    if epoch:
        cluster.force_epoch(tid, epoch)
        former.core.pair = former.pair[0], epoch
    former.do(former.core.send(*P, b"prepared"))
    return former


def recovering(cluster: Cluster, tid: str = "x") -> Player:
    """The next producer of the id, which keeps what the former has prepared."""
    owner = Player(cluster, tid, two_phase=True)
    owner.do(owner.core.init(keep=True))
    return owner


def ended(cluster: Cluster, pair: Pair, outcome: bool, *, version: int = 5) -> tuple[ErrorCode, Pair]:
    request = EndTxnRequest(transactional_id="x", producer_id=pair[0], producer_epoch=pair[1], committed=outcome)
    answer = cluster.ask(cluster.coordinator("x"), request, version)
    return ErrorCode(answer.error_code), (answer.producer_id, answer.producer_epoch)


def written(cluster: Cluster) -> TransactionLogValue:
    value = cluster.last_written("x").value
    assert value is not None
    return value


def refused(player: Player, *, keep: bool) -> ErrorCode:
    with pytest.raises(Refusal) as refusal:
        player.do(player.core.init(keep=keep))
    return refusal.value.error


# ---------------------------------------------------------------------- InitProducerId 6


def test_version_6_is_offered() -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    told = {each.api_key: each.max_version for each in cluster_of().ask(1, request, 4).api_keys}
    assert 6 == told[ApiKey.INIT_PRODUCER_ID]


@pytest.mark.parametrize("keep", [False, True])
def test_two_phase_commit_has_to_be_enabled(keep: bool) -> None:
    """Without transaction.two.phase.commit.enable of the brokers, which is false, Enable2Pc is refused."""
    cluster = cluster_of(enabled=False)
    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert error is refused(Player(cluster, two_phase=True), keep=keep)


@pytest.mark.parametrize("granted", [WRITE, TWO_PHASE_COMMIT, ALL])
def test_two_phase_commit_is_an_operation_of_its_own(granted: int) -> None:
    """The ACL operation TWO_PHASE_COMMIT of the transactional id, beside WRITE; keeping alone needs none."""
    cluster = cluster_of(authorizer_class_name=AUTHORIZER)
    everybody_may(cluster, acl(TRANSACTIONAL_ID, "x", granted))
    owner = Player(cluster, two_phase=True)
    if granted == ALL:
        owner.do(owner.core.init(keep=True))
    else:
        assert ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED is refused(owner, keep=True)
    if granted == WRITE:
        everybody_may(cluster, acl(TRANSACTIONAL_ID, "x", TWO_PHASE_COMMIT))
        plain = Player(cluster)
        plain.do(plain.core.init(keep=True))
        again = Player(cluster, two_phase=True)
        again.do(again.core.init())


def test_keeping_needs_no_two_phase_commit() -> None:
    """KeepPreparedTxn may be true although Enable2Pc is false."""
    cluster = cluster_of(enabled=False)
    former = Player.started(cluster)
    former.do(former.core.send(*P, b"a"))
    owner = Player(cluster)
    owner.do(owner.core.init(keep=True))
    assert former.pair == owner.core.ongoing


@pytest.mark.parametrize("level", [0, 1])
def test_keeping_needs_level_2(level: int) -> None:
    """Below, an end does not bump: chosen, UNSUPPORTED_VERSION, and the transaction stays as it is."""
    cluster = cluster_of(level)
    former = Player.started(cluster, level=level, two_phase=True)
    former.do(former.core.send(*P, b"a"))
    assert ErrorCode.UNSUPPORTED_VERSION is refused(Player(cluster, level=level), keep=True)
    former.do(former.core.end(commit=True))
    assert [b"a"] == cluster.consumed(P)


@pytest.mark.parametrize("before", ["nobody", "empty", "committed", "aborted"])
def test_where_nothing_is_open_nothing_is_kept(before: str) -> None:
    """OngoingTxnProducerId and -Epoch are -1 where nothing is under way; completing is then a no-op that succeeds."""
    cluster = cluster_of()
    if before != "nobody":
        former = Player.started(cluster, two_phase=True)
        if before != "empty":
            former.do(former.core.send(*P, b"a"))
            former.do(former.core.end(commit=before == "committed"))
    ends = cluster.watch(ApiKey.END_TXN)
    owner = recovering(cluster)
    assert NOBODY == owner.core.ongoing
    assert owner.do(owner.core.complete((7, 7)))
    assert [] == ends
    owner.do(owner.core.send(*Q, b"b"))
    owner.do(owner.core.end(commit=True))
    assert [b"b"] == cluster.consumed(Q)


def test_markers_that_are_owed_are_waited_for() -> None:
    """Requests while Prepare is written are CONCURRENT_TRANSACTIONS; the transaction has its outcome already."""
    cluster = cluster_of()
    former = prepared(cluster)
    held = cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    assert (OK, (former.pair[0], 1)) == ended(cluster, former.pair, COMMIT)
    request = InitProducerIdRequest(
        transactional_id="x", transaction_timeout_ms=1000, enable2_pc=True, keep_prepared_txn=True
    )
    assert BUSY == cluster.ask(cluster.coordinator("x"), request, 6).error_code
    cluster.release(held)
    assert NOBODY == recovering(cluster).core.ongoing


# ---------------------------------------------------------------------- keeping


@FAILOVER
def test_the_transaction_keeps_its_pair_and_the_owner_gets_the_next(failover: bool) -> None:
    """What keeping means: two pairs in Ongoing, the transaction's own and its owner's; a failover keeps them."""
    cluster = cluster_of()
    former = prepared(cluster)
    x, epoch = former.pair
    owner = recovering(cluster)
    if failover:
        cluster.move(cluster.log_of("x"))
    assert ((x, epoch + 1), (x, epoch)) == (owner.pair, owner.core.ongoing)
    value = written(cluster)
    assert (ONGOING, x, epoch, x, epoch + 1) == (
        value.transaction_status,
        value.producer_id,
        value.producer_epoch,
        value.next_producer_id,
        value.next_producer_epoch,
    )
    assert [P] == cluster.described_partitions("x")


def test_keeping_again_bumps_the_owner_alone() -> None:
    """Each InitProducerId that keeps bumps the next pair once more; the ongoing pair never changes."""
    cluster = cluster_of()
    former = prepared(cluster)
    x, epoch = former.pair
    for bump in (1, 2, 3):
        owner = recovering(cluster)
        assert ((x, epoch + bump), (x, epoch)) == (owner.pair, owner.core.ongoing)


@pytest.mark.parametrize("pair", [(0, 0), (0, 1), (0, 7), (1, 0)], ids=str)
def test_only_a_newcomer_or_the_owner_keeps(pair: Pair) -> None:
    """Chosen: who names another pair than the owner's is fenced, and ends nothing."""
    cluster = cluster_of()
    former = prepared(cluster)
    owner = recovering(cluster)
    stranger = Player(cluster, two_phase=True)
    named = former.pair[0] + pair[0], pair[1]
    if named == owner.pair:
        stranger.do(stranger.core.init(keep=True, pair=named))
        assert former.pair == stranger.core.ongoing
    else:
        with pytest.raises(Refusal, match="FENCED"):
            stranger.do(stranger.core.init(keep=True, pair=named))
    assert "Ongoing" == cluster.state("x")


def test_epochs_that_end_go_on_with_a_fresh_id() -> None:
    """The owner moves to a new id at the end of epochs; the markers still carry the transaction's."""
    cluster = cluster_of()
    former = prepared(cluster, epoch=EPOCH_LAST)
    owner = recovering(cluster)
    assert former.pair == owner.core.ongoing
    assert 0 == owner.pair[1]
    assert former.pair[0] != owner.pair[0]
    z = owner.pair[0]
    owner.do(owner.core.end(commit=True))
    assert (z, 1) == owner.pair
    assert ["0:data@32766", "1:COMMIT@32767"] == cluster.log(P)


def test_the_owners_epochs_end_too() -> None:
    """At Complete the owner's epoch is bumped again, here to a fresh id; and a retry of that end is still known."""
    cluster = cluster_of()
    former = prepared(cluster, epoch=EPOCH_LAST - 1)
    owner = recovering(cluster)
    assert (former.pair[0], EPOCH_LAST) == owner.pair
    before = owner.pair
    owner.do(owner.core.end(commit=True))
    assert (True, 0) == (owner.pair[0] != before[0], owner.pair[1])
    assert (OK, owner.pair) == ended(cluster, before, COMMIT)
    assert [b"prepared"] == cluster.consumed(P)


# ---------------------------------------------------------------------- the end


@OUTCOMES
@FAILOVER
def test_the_owner_ends_it(outcome: bool, failover: bool) -> None:
    """EndTxn comes with the next pair; markers carry the ongoing id with its epoch + 1."""
    cluster = cluster_of()
    prepared(cluster)
    owner = recovering(cluster)
    if failover:
        cluster.move(cluster.log_of("x"))
    owner.do(owner.core.end(commit=outcome))
    assert ["0:data@0", f"1:{'COMMIT' if outcome else 'ABORT'}@1"] == cluster.log(P)
    assert ([b"prepared"] if outcome else []) == cluster.consumed(P)


@pytest.mark.parametrize("keeps", [1, 2])
@FAILOVER
def test_the_owner_goes_on_beyond_its_own_epoch(keeps: int, failover: bool) -> None:
    """At Complete: (42, 100) kept as (42, 101) completes as (42, 102), so that a delayed EndTxn of it ends nothing."""
    cluster = cluster_of()
    former = prepared(cluster, epoch=100)
    x = former.pair[0]
    for _ in range(keeps):
        owner = recovering(cluster)
    kept = owner.pair
    assert (x, 100 + keeps) == kept
    owner.do(owner.core.end(commit=True))
    assert (x, 101 + keeps) == owner.pair
    owner.do(owner.core.send(*P, b"next"))
    if failover:
        cluster.move(cluster.log_of("x"))
    for outcome in (COMMIT, ABORT):
        assert FENCED is ended(cluster, kept, outcome)[0]
        assert FENCED is ended(cluster, former.pair, outcome)[0]
    owner.do(owner.core.end(commit=True))
    assert [b"prepared", b"next"] == cluster.consumed(P)


@OUTCOMES
def test_the_former_self_cannot_end_it(outcome: bool) -> None:
    """The client moves on to a new epoch, so that its former self is fenced."""
    cluster = cluster_of()
    former = prepared(cluster)
    recovering(cluster)
    assert (FENCED, NOBODY) == ended(cluster, former.pair, outcome)
    assert "Ongoing" == cluster.state("x")


@OUTCOMES
@FAILOVER
def test_a_retry_of_the_end_is_answered(outcome: bool, failover: bool) -> None:
    """As after every end: the same command gets the present pair, the other one INVALID_TXN_STATE."""
    cluster = cluster_of()
    prepared(cluster)
    owner = recovering(cluster)
    kept = owner.pair
    owner.do(owner.core.end(commit=outcome))
    if failover:
        cluster.move(cluster.log_of("x"))
    assert (OK, owner.pair) == ended(cluster, kept, outcome)
    assert (WRONG_STATE, NOBODY) == ended(cluster, kept, not outcome)


def test_an_end_that_does_not_bump_is_refused() -> None:
    """Chosen: EndTxn 4 could not tell the owner its next epoch; the transaction waits for one of version 5."""
    cluster = cluster_of()
    prepared(cluster)
    owner = recovering(cluster)
    assert ErrorCode.UNSUPPORTED_VERSION is ended(cluster, owner.pair, COMMIT, version=4)[0]
    owner.do(owner.core.end(commit=True))
    assert [b"prepared"] == cluster.consumed(P)


@pytest.mark.parametrize("matches", [True, False])
def test_completing_compares_with_what_the_store_remembers(matches: bool) -> None:
    """completeTransaction commits if the prepared state equals the ongoing pair, else it aborts."""
    cluster = cluster_of()
    former = prepared(cluster)
    remembered = former.core.prepare() if matches else (former.pair[0], former.pair[1] + 9)
    owner = recovering(cluster)
    assert matches == owner.do(owner.core.complete(remembered))
    assert ([b"prepared"] if matches else []) == cluster.consumed(P)


# ---------------------------------------------------------------------- without keeping


@FAILOVER
def test_init_without_keeping_aborts_what_was_kept(failover: bool) -> None:
    """It aborts it, with the same bump; this is what forceTerminateTransaction does."""
    cluster = cluster_of()
    former = prepared(cluster)
    kept = recovering(cluster)
    if failover:
        cluster.move(cluster.log_of("x"))
    newcomer = Player.started(cluster, two_phase=True)
    # One bump beyond the owner's epoch at the abort, and one for the newcomer.
    assert (former.pair[0], kept.pair[1] + 2) == newcomer.pair
    assert NOBODY == newcomer.core.ongoing
    assert ["0:data@0", "1:ABORT@1"] == cluster.log(P)
    assert FENCED is ended(cluster, kept.pair, COMMIT)[0]


def test_a_transaction_that_was_not_kept_is_aborted_as_ever() -> None:
    """KeepPreparedTxn false is what InitProducerId has always been."""
    cluster = cluster_of()
    former = prepared(cluster)
    newcomer = Player.started(cluster)
    assert (former.pair[0], 2) == newcomer.pair
    assert [] == cluster.consumed(P)


# ---------------------------------------------------------------------- what the owner may do


def test_the_owner_adds_nothing() -> None:
    """After keeping one may only commit, abort, complete; chosen: the coordinator holds the client to it."""
    cluster = cluster_of()
    prepared(cluster)
    owner = recovering(cluster)
    for partition in (P, Q):
        with pytest.raises(Refusal, match="INVALID_TXN_STATE"):
            owner.do(owner.core.send(*partition, b"more"))
    assert [P] == cluster.described_partitions("x")
    owner.do(owner.core.end(commit=True))
    assert [b"prepared"] == cluster.consumed(P)


def test_the_former_self_adds_no_partition() -> None:
    """A Produce of the ongoing pair after keeping is the former self's: to a further partition it is refused."""
    cluster = cluster_of()
    former = prepared(cluster)
    recovering(cluster)
    with pytest.raises(Refusal, match="INVALID_PRODUCER_EPOCH"):
        former.do(former.core.send(*Q, b"late"))
    assert [] == cluster.values(Q)


def test_the_former_self_still_reaches_partitions_that_are_open() -> None:
    """What the text gets wrong: no leader learns of the keeping, so what the former self sends there is committed."""
    cluster = cluster_of()
    former = prepared(cluster)
    owner = recovering(cluster)
    former.do(former.core.send(*P, b"late"))
    owner.do(owner.core.end(commit=True))
    assert [b"prepared", b"late"] == cluster.consumed(P)


# ---------------------------------------------------------------------- how long


def test_a_two_phase_transaction_has_no_timeout() -> None:
    """With Enable2Pc there is none, whatever transaction.max.timeout.ms says; nor for one that is kept."""
    cluster = cluster_of(transaction_max_timeout_ms=1000)
    prepared(cluster)
    assert TIMEOUT_NEVER == cluster.describe("x").transaction_timeout_ms
    cluster.world.advance(3_600_000)
    assert "Ongoing" == cluster.state("x")
    owner = recovering(cluster)
    cluster.world.advance(3_600_000)
    owner.do(owner.core.end(commit=True))
    assert [b"prepared"] == cluster.consumed(P)


def test_a_transaction_with_a_timeout_keeps_it() -> None:
    """Silent: keeping neither lengthens nor shortens the time of a transaction that was begun without Enable2Pc."""
    cluster = cluster_of(transaction_abort_timed_out_transaction_cleanup_interval_ms=1000)
    former = Player.started(cluster, timeout_ms=10_000)
    former.do(former.core.send(*P, b"a"))
    owner = recovering(cluster)
    cluster.world.advance(5_000)
    assert "Ongoing" == cluster.state("x")
    cluster.world.advance(7_000)
    assert "CompleteAbort" == cluster.state("x")
    assert ErrorCode.INVALID_TXN_STATE is ended(cluster, owner.pair, COMMIT)[0]


def test_keeping_without_two_phase_commit_does_not_shorten() -> None:
    """Silent: who drains an id with Enable2Pc off must not lose a transaction whose store says committed."""
    cluster = cluster_of(transaction_abort_timed_out_transaction_cleanup_interval_ms=1000)
    prepared(cluster)
    owner = Player(cluster, timeout_ms=1000)
    owner.do(owner.core.init(keep=True))
    cluster.world.advance(60_000)
    assert "Ongoing" == cluster.state("x")


# ---------------------------------------------------------------------- what outlives what


@OUTCOMES
def test_it_outlives_every_broker(outcome: bool) -> None:
    """A transaction that is prepared survives its producer's restart, and its broker's."""
    cluster = cluster_of(brokers=2, default_replication_factor=2, transaction_state_log_replication_factor=2)
    former = prepared(cluster)
    for node_id in (1, 2):
        cluster.world.stop_broker(node_id)
        cluster.world.advance(20_000)
        cluster.world.start_broker(node_id)
        cluster.world.advance(20_000)
    owner = recovering(cluster)
    assert former.pair == owner.core.ongoing
    for node_id in (2, 1):
        cluster.world.stop_broker(node_id)
        cluster.world.advance(20_000)
        cluster.world.start_broker(node_id)
        cluster.world.advance(20_000)
    owner.do(owner.core.end(commit=outcome))
    assert ([b"prepared"] if outcome else []) == cluster.consumed(P)


def test_a_level_that_falls_does_not_lose_it() -> None:
    """Chosen: at level 1 a kept transaction ends as it would have at 2, by its owner or by a newcomer."""
    cluster = cluster_of()
    prepared(cluster)
    owner = recovering(cluster)
    cluster.set_level(1)
    owner.do(owner.core.end(commit=True))
    assert [b"prepared"] == cluster.consumed(P)
    cluster.set_level(2)
    owner.do(owner.core.send(*P, b"again"))
    recovering(cluster)
    cluster.set_level(1)
    newcomer = Player.started(cluster, level=1)
    assert newcomer.pair[1] > owner.pair[1] + 1
    assert [b"prepared"] == cluster.consumed(P)


def test_the_log_has_no_new_version() -> None:
    """The second pair is in tagged fields of version 1, so that a broker of KIP-915 can read it."""
    cluster = cluster_of()
    prepared(cluster)
    recovering(cluster)
    assert {1} == {each.version for each in cluster.transaction_log("x")}


def test_nothing_of_it_is_left_after_the_end() -> None:
    """At Complete there is one pair again."""
    cluster = cluster_of()
    prepared(cluster)
    owner = recovering(cluster)
    held = cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    owner.do(owner.core.end(commit=True))
    value = written(cluster)
    assert (PREPARE_COMMIT, 1, owner.pair) == (
        value.transaction_status,
        value.producer_epoch,
        (value.next_producer_id, value.next_producer_epoch),
    )
    cluster.release(held)
    value = written(cluster)
    assert (COMPLETE_COMMIT, owner.pair, (-1, -1)) == (
        value.transaction_status,
        (value.producer_id, value.producer_epoch),
        (value.next_producer_id, value.next_producer_epoch),
    )


# ---------------------------------------------------------------------- what is shown


def test_it_is_described_and_listed_as_ongoing() -> None:
    """There is no Prepared state on the broker; chosen: the pair that is shown is the one in the records."""
    cluster = cluster_of()
    former = prepared(cluster)
    recovering(cluster)
    cluster.world.advance(60_000)
    shown = cluster.describe("x")
    assert ("Ongoing", *former.pair) == (shown.transaction_state, shown.producer_id, shown.producer_epoch)
    for duration, expected in ((30_000, ["x"]), (90_000, [])):
        request = ListTransactionsRequest(duration_filter=duration, state_filters=["Ongoing"])
        listed = cluster.ask(cluster.coordinator("x"), request, 1).transaction_states
        assert expected == [each.transactional_id for each in listed]
    [state] = [each for each in cluster.producers(P) if each.producer_id == former.pair[0]]
    assert 0 == state.current_txn_start_offset


def test_keeping_is_told_in_the_events() -> None:
    """Ours: the event `transaction_kept`."""
    cluster = cluster_of()
    former = prepared(cluster)
    owner = recovering(cluster)
    [fact] = [fact for _, fact in cluster.world.facts if fact.kind == "transaction_kept"]
    assert (*former.pair, owner.pair[1]) == (
        fact.fields["producer_id"],
        fact.fields["producer_epoch"],
        fact.fields["owner_epoch"],
    )


def test_at_level_0_it_waits() -> None:
    """Chosen: the records of level 0 cannot hold the second pair, so a kept transaction waits for a higher level."""
    cluster = cluster_of()
    prepared(cluster)
    owner = recovering(cluster)
    cluster.set_level(0)
    assert ErrorCode.UNSUPPORTED_VERSION is ended(cluster, owner.pair, COMMIT)[0]
    assert ErrorCode.UNSUPPORTED_VERSION is refused(Player(cluster, level=0), keep=False)
    cluster.set_level(2)
    owner.do(owner.core.end(commit=True))
    assert [b"prepared"] == cluster.consumed(P)
