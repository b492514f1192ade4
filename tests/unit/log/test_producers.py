"""Producer state: sequences, epochs, duplicates, guards; and that a replay leads where the leader was."""

from __future__ import annotations

from copy import deepcopy
from itertools import product
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.unit.log.helpers import NOW, Leader, batch, error, new_log, new_partition

from odradek.core.machine import Refused
from odradek.log.compaction import Compaction
from odradek.log.followers import NEVER
from odradek.log.guards import Guard
from odradek.log.partition import Appended, Duplicate, Partition
from odradek.log.producers import CACHED_BATCHES, Origin, ProducerState
from odradek.records.batch import Batch
from odradek.records.control import end_txn_marker
from odradek.wire.errors import ErrorCode

PRODUCER = 7
SEQUENCE_MAX = 2**31 - 1
OK = ErrorCode.NONE
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
OLD_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH


class Fold:
    """A producer state and the end of the log it folds."""

    def __init__(self) -> None:
        self.state = ProducerState()
        self.end = 0

    def append(self, one: Batch, *, guard: Guard | None = None, verification: bool = False) -> ErrorCode:
        verdict = self.state.admit(one, origin=Origin.CLIENT, guard=guard, verification_enabled=verification)
        if isinstance(verdict, Refused):
            return verdict.error
        if verdict is None:
            self.state.apply(one, self.end)
            self.end += one.last_offset_delta + 1
        return OK

    def data(self, sequence: int, *, epoch: int = 0, count: int = 1, transactional: bool = False) -> ErrorCode:
        return self.append(
            batch(
                *[b"v"] * count,
                producer_id=PRODUCER,
                epoch=epoch,
                sequence=sequence,
                transactional=transactional,
            )
        )

    def marker(self, *, epoch: int = 0, commit: bool = True) -> None:
        ended = end_txn_marker(
            producer_id=PRODUCER, producer_epoch=epoch, commit=commit, coordinator_epoch=0, timestamp=NOW
        )
        self.state.apply(ended, self.end)
        self.end += 1


def test_sequences_follow_each_other() -> None:
    fold = Fold()
    assert [OK, OK, OUT_OF_ORDER, OK] == [fold.data(0, count=3), fold.data(3), fold.data(5), fold.data(4)]


def test_an_unknown_producer_may_begin_anywhere() -> None:
    # KIP-360: state that is lost is not held against the producer.
    fold = Fold()
    assert [OK, OK, OUT_OF_ORDER] == [fold.data(41), fold.data(42), fold.data(41, count=2)]


def test_a_sequence_wraps_to_zero() -> None:
    fold = Fold()
    assert [OK, OK, OK] == [fold.data(SEQUENCE_MAX - 1), fold.data(SEQUENCE_MAX), fold.data(0)]
    fold = Fold()
    assert [OK, OK] == [fold.data(SEQUENCE_MAX - 1, count=4), fold.data(2)]


def test_a_new_epoch_begins_at_zero() -> None:
    fold = Fold()
    fold.data(0, count=3)
    assert [OUT_OF_ORDER, OK, OLD_EPOCH, OK] == [
        fold.data(3, epoch=1),
        fold.data(0, epoch=1),
        fold.data(3, epoch=0),
        fold.data(1, epoch=1),
    ]


def test_the_last_five_batches_are_recognised() -> None:
    fold = Fold()
    for sequence in range(CACHED_BATCHES + 1):
        fold.data(2 * sequence, count=2)
    end = fold.end
    assert [OUT_OF_ORDER] + [OK] * CACHED_BATCHES == [
        fold.data(2 * sequence, count=2) for sequence in range(CACHED_BATCHES + 1)
    ]
    assert end == fold.end


def test_half_a_batch_is_no_duplicate() -> None:
    fold = Fold()
    fold.data(0, count=4)
    assert [OUT_OF_ORDER, OUT_OF_ORDER] == [fold.data(0, count=2), fold.data(2, count=2)]


def test_a_duplicate_answers_what_was_answered_first() -> None:
    partition = new_partition()
    first = batch(b"a", b"b", producer_id=PRODUCER, epoch=0, sequence=0, timestamp=NOW - 5)
    partition.append_client(first, now=NOW)
    partition.append_client(batch(producer_id=PRODUCER, epoch=0, sequence=2), now=NOW)
    assert Duplicate(0, 2, NOW - 5, 0) == partition.append_client(first, now=NOW)
    assert 3 == partition.high_watermark


def test_a_duplicate_of_an_older_epoch_is_fenced() -> None:
    fold = Fold()
    fold.data(0)
    fold.data(0, epoch=1)
    assert OLD_EPOCH is fold.data(0, epoch=0)


def test_a_marker_of_the_same_epoch_keeps_the_count() -> None:
    fold = Fold()
    fold.data(0, transactional=True)
    fold.marker(epoch=0)
    assert [OK, OUT_OF_ORDER, OK] == [fold.data(0, transactional=True), fold.data(2), fold.data(1)]


def test_a_marker_of_a_higher_epoch_begins_a_new_count() -> None:
    fold = Fold()
    fold.data(0, transactional=True)
    fold.marker(epoch=1)
    assert [OLD_EPOCH, OUT_OF_ORDER, OK] == [
        fold.data(1),
        fold.data(1, epoch=1, transactional=True),
        fold.data(0, epoch=1, transactional=True),
    ]


def test_plain_batches_do_not_mix_with_an_open_transaction() -> None:
    fold = Fold()
    fold.data(0, transactional=True)
    assert ErrorCode.INVALID_TXN_STATE is fold.data(1)


def test_a_coordinator_has_no_sequence_but_an_epoch() -> None:
    state = ProducerState()

    def admit(epoch: int) -> ErrorCode:
        one = batch(producer_id=PRODUCER, epoch=epoch, transactional=True)
        verdict = state.admit(one, origin=Origin.COORDINATOR, verification_enabled=False)
        if verdict is None:
            state.apply(one, 0)
        return error(verdict)

    assert [OK, OK, OLD_EPOCH] == [admit(3), admit(3), admit(2)]


def test_what_is_admitted_at_once_passes_every_check() -> None:
    """The usual batches are admitted by few conditions: whatever those admit, the checks one by one admit as well."""
    at_once = 0
    for before, sequence, epoch, transactional, origin, verification in product(
        ("nothing", "data", "open", "ended", "ended in the next epoch"),
        (0, 1, 2),
        (0, 1),
        (False, True),
        Origin,
        (False, True),
    ):
        fold = Fold()
        if before != "nothing":
            fold.data(0, transactional=before != "data")
        if before.startswith("ended"):
            fold.marker(epoch=1 if before.endswith("epoch") else 0)
        one = batch(b"v", producer_id=PRODUCER, epoch=epoch, sequence=sequence, transactional=transactional)
        for asked, bumps, has_guard in product((None, *product((0, 1), (0, 1, 2))), (False, True), (False, True)):
            state, guard = deepcopy(fold.state), Guard(0) if has_guard else None
            if asked is not None:
                given = state.guards.ask(
                    PRODUCER, producer_epoch=asked[0], base_sequence=asked[1], supports_epoch_bump=bumps, now=NOW
                )
                guard = given if has_guard else None
            judged = state._judged(one, state.producers.get(PRODUCER), origin, guard, verification)
            with mock.patch.object(ProducerState, "_judged", return_value=Refused(OK)) as checks:
                admitted = state.admit(one, origin=origin, guard=guard, verification_enabled=verification)
            if not checks.called:
                assert None is admitted is judged, (before, sequence, epoch, transactional, origin, asked, bumps)
                at_once += 1
    assert at_once > 50


def test_first_unstable_offset_is_that_of_the_oldest_open_transaction() -> None:
    fold = Fold()
    state = fold.state
    for producer_id in (1, 2):
        fold.append(batch(producer_id=producer_id, epoch=0, sequence=0, transactional=True))
    assert 0 == state.first_unstable_offset
    ended = end_txn_marker(producer_id=1, producer_epoch=0, commit=True, coordinator_epoch=0, timestamp=NOW)
    completed = state.apply(ended, 2)
    assert completed is not None
    assert 1 == state.stable_offset_after(completed)
    # The marker is not committed yet, so what it ends is not either.
    assert 0 == state.first_unstable_offset
    state.high_watermark_moved(2)
    assert 0 == state.first_unstable_offset
    state.high_watermark_moved(3)
    assert 1 == state.first_unstable_offset


def test_expiry_spares_open_transactions() -> None:
    fold = Fold()
    fold.data(0, transactional=True)
    fold.append(batch(producer_id=8, epoch=0, sequence=0))
    fold.state.expire(NOW + 99, after_ms=100)
    assert {PRODUCER, 8} == set(fold.state.producers)
    fold.state.expire(NOW + 100, after_ms=100)
    assert {PRODUCER} == set(fold.state.producers)
    fold.marker()
    fold.state.expire(NOW + 100, after_ms=100)
    assert {} == fold.state.producers


def test_a_snapshot_is_a_copy() -> None:
    fold = Fold()
    fold.data(0, transactional=True)
    snapshot = fold.state.snapshot(1)
    before = deepcopy(snapshot)
    fold.data(1, transactional=True)
    fold.marker(epoch=1)
    assert before == snapshot
    again = ProducerState()
    again.restore(snapshot)
    again.apply(batch(producer_id=PRODUCER, epoch=0, sequence=1, transactional=True), 1)
    assert before == snapshot
    assert {0: PRODUCER} == again.ongoing


def test_open_transactions_are_restored_in_offset_order() -> None:
    partition = new_partition(segment_bytes=1)
    for producer_id, sequence, transactional in ((1, 0, False), (2, 0, True), (1, 1, True)):
        one = batch(producer_id=producer_id, epoch=0, sequence=sequence, transactional=transactional)
        partition.append_client(one, now=NOW, verification_enabled=False)
    partition.append_client(batch(), now=NOW)
    moved = new_partition(partition.log, leader_epoch=1)
    assert [(1, 2), (2, 1)] == list(moved.producers.ongoing.items())
    assert 1 == moved.last_stable_offset


def test_a_truncation_forgets_what_was_learnt_behind_it() -> None:
    partition = new_partition(segment_bytes=1)
    for sequence in range(4):
        partition.append_client(batch(producer_id=PRODUCER, epoch=0, sequence=sequence), now=NOW)
    partition.log.truncate(2)
    moved = new_partition(partition.log, leader_epoch=1)
    assert [1] == [one.last_sequence for one in moved.describe_producers()]


def test_a_truncated_segment_may_be_compacted_away() -> None:
    partition = new_partition(new_log(cleanup_policy=("compact",)))
    for sequence in range(3):
        partition.append_client(batch((b"k", b"v"), producer_id=PRODUCER, epoch=0, sequence=sequence), now=NOW)
    partition.log.truncate(2)
    moved = new_partition(partition.log, leader_epoch=1)
    moved.append_client(batch((b"k", b"v")), now=NOW)
    moved.log.seal()
    assert Compaction(moved.log, NOW, until=3).step(1 << 20)
    # What is left of the second batch tells the last sequence of its producer.
    assert [(1, 0), (2, 1)] == [(one.base_offset, one.record_count) for one in moved.log.batches()]
    again = new_partition(moved.log, leader_epoch=2)
    assert [1] == [one.last_sequence for one in again.describe_producers()]


@pytest.mark.parametrize("flag", [True, False])
def test_a_transactional_batch_without_a_producer_is_plain_data(flag: bool) -> None:
    partition = new_partition()
    answer = partition.append_client(batch(transactional=True), now=NOW, verification_enabled=flag)
    assert isinstance(answer, Appended)
    assert {} == partition.producers.producers
    assert 1 == partition.last_stable_offset


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("data"),
            st.integers(0, 2),  # producer
            st.integers(0, 2),  # epoch
            st.integers(0, 4),  # sequence
            st.booleans(),  # transactional
        ),
        st.tuples(st.just("marker"), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("plain"), st.just(0), st.just(0), st.just(0), st.just(False)),
        st.tuples(st.just("delete"), st.just(0), st.just(0), st.integers(0, 30), st.just(False)),
        st.tuples(st.just("move"), st.just(0), st.just(0), st.just(0), st.just(False)),
    ),
    max_size=40,
)


def play(partition: Partition, step: tuple[str, int, int, int, bool]) -> Partition:
    kind, producer, epoch, number, flag = step
    match kind:
        case "data":
            producer_epoch, sequence = epoch, number
            one = batch(producer_id=producer, epoch=producer_epoch, sequence=sequence, transactional=flag)
            partition.append_client(one, now=NOW, verification_enabled=False)
        case "marker":
            partition.append_marker(
                producer_id=producer,
                producer_epoch=epoch,
                commit=flag,
                coordinator_epoch=0,
                transaction_version=number,
                now=NOW,
            )
        case "plain":
            partition.append_client(batch(), now=NOW)
        case "delete":
            partition.delete_records(min(number, partition.high_watermark))
        case "move":
            return new_partition(partition.log, leader_epoch=partition.leader_epoch + 1)
    return partition


@examples(150)
@given(steps=steps, segment_bytes=st.sampled_from([100, 250, 1 << 20]))
def test_a_replay_leads_where_the_leader_was(steps: list[tuple[str, int, int, int, bool]], segment_bytes: int) -> None:
    partition = new_partition(new_log(segment_bytes=segment_bytes))
    for step in steps:
        partition = play(partition, step)
    again = new_partition(partition.log, leader_epoch=partition.leader_epoch + 1)
    assert partition.producers.producers == again.producers.producers
    assert list(partition.producers.ongoing.items()) == list(again.producers.ongoing.items())
    assert partition.last_stable_offset == again.last_stable_offset
    assert partition.describe_producers() == again.describe_producers()


@examples(100)
@given(steps=steps)
def test_what_holds_after_every_step(steps: list[tuple[str, int, int, int, bool]]) -> None:
    partition = new_partition(new_log(segment_bytes=250))
    high_watermark = stable = 0
    for step in steps:
        partition = play(partition, step)
        assert high_watermark <= partition.high_watermark
        assert stable <= partition.last_stable_offset <= partition.high_watermark
        high_watermark, stable = partition.high_watermark, partition.last_stable_offset
        state = partition.producers
        assert sorted(state.ongoing) == list(state.ongoing)
        opened = {one.first_offset: one.producer_id for one in state.producers.values() if one.first_offset >= 0}
        assert opened == state.ongoing
        assert all(len(one.batches) <= CACHED_BATCHES for one in state.producers.values())
        assert [] == state.unreplicated


def test_what_waits_for_its_marker_to_be_committed_does_so_under_the_next_leader() -> None:
    leader = Leader(new_partition(segment_bytes=1))
    assert 0 == leader.produce(0, 0)
    replicate(leader.partition, NEVER)
    assert ErrorCode.NONE is leader.marker(2, 1)
    assert (0, 1) == leader.stable
    leader.partition.append_client(batch(), now=NOW)
    moved = Leader(new_partition(leader.partition.log, leader_epoch=1))
    assert 2 == leader.partition.log.snapshots[-1].offset
    assert (0, 1) == moved.stable
    assert replicate(moved.partition, 0)
    assert (3, 3) == moved.stable


def replicate(partition: Partition, lag_ms: int) -> bool:
    """A replica in sync that takes so long; whether the high watermark has moved."""
    return partition.replicate(replicas=(0, 1), in_sync=(0, 1), lags={1: lag_ms}, alive=[1], new=(), epoch=0, now=NOW)
