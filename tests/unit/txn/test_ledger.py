"""What the ledger owes, and what it makes of the log."""

import pytest
from msgspec.structs import replace
from tests.unit.txn.helpers import FIRST_ID, OFFSETS, START, P, Q, Shard

from odradek.config.table import Config
from odradek.core.machine import LogRecord, Parked
from odradek.records.control import end_txn_marker
from odradek.txn.ledger import MARKER_RETRY_BACKOFF_MS, MARKERS_AT_ONCE
from odradek.txn.states import TxnState
from odradek.txn.works import NO_LEADER, ExpireId, WriteMarkers
from odradek.wire.errors import ErrorCode

X = FIRST_ID


def ending(*, commit: bool = True) -> Shard:
    """A transaction over two leaders has been ended, and nothing marked."""
    shard = Shard()
    shard.init()
    shard.add5((X, 0), P, Q, OFFSETS)
    shard.leaders = {P: 1, Q: 1, OFFSETS: 2}
    shard.end((X, 0), commit=commit, version=5)
    return shard


LARGE = [("t", index) for index in range(2 * MARKERS_AT_ONCE + 7)]


def ending_large() -> Shard:
    """The same with more partitions than are marked at once."""
    shard = Shard()
    shard.init()
    shard.add5((X, 0), *LARGE)
    shard.leaders = {partition: 1 + partition[1] % 2 for partition in LARGE}
    shard.commit5((X, 0))
    return shard


def sent(shard: Shard) -> list[WriteMarkers]:
    """What is due to leaders, which is under way from then on."""
    return [work for work in shard.machine.due(START) if isinstance(work, WriteMarkers)]


class TestMarkers:
    def test_one_work_for_each_leader(self) -> None:
        first, second = ending().markers()
        assert (1, (P, Q)) == (first.leader, first.partitions)
        assert (2, (OFFSETS,)) == (second.leader, second.partitions)
        assert (X, 1, 0, True, 2) == (
            first.producer_id,
            first.producer_epoch,
            first.coordinator_epoch,
            first.commit,
            first.transaction_version,
        )

    def test_what_is_owed_is_owed_until_it_is_acknowledged(self) -> None:
        shard = ending()
        keys = {work.key for work in shard.markers()}
        assert keys == {work.key for work in shard.markers()}
        first, second = shard.markers()
        shard.report(first)
        assert [second.key] == [work.key for work in shard.markers()]
        shard.report(second)
        assert [] == shard.markers()
        assert "CompleteCommit" == shard.state()

    def test_what_was_refused_is_tried_again_after_a_while(self) -> None:
        shard = ending()
        first, second = shard.markers()
        shard.report(first, {P: ErrorCode.NONE, Q: ErrorCode.NOT_LEADER_OR_FOLLOWER})
        assert [] == shard.markers()
        assert shard.now + MARKER_RETRY_BACKOFF_MS == shard.machine.wake_at()
        shard.leaders[Q] = 2
        shard.after(MARKER_RETRY_BACKOFF_MS)
        (work,) = shard.markers()
        assert (2, (OFFSETS, Q)) == (work.leader, work.partitions)
        shard.report(work)
        shard.report(second)
        assert "CompleteCommit" == shard.state()

    def test_a_lost_call_is_reported_with_no_results(self) -> None:
        shard = ending()
        for work in shard.markers():
            shard.report(work, {})
        assert [] == shard.markers()
        shard.after(MARKER_RETRY_BACKOFF_MS)
        assert 2 == len(shard.markers())

    def test_late_results_of_another_transaction_count_for_nothing(self) -> None:
        shard = Shard()
        shard.init()
        shard.add((X, 0), P)
        shard.commit4((X, 0))
        (late,) = shard.markers()
        shard.settle()
        shard.add((X, 0), P)
        shard.commit4((X, 0))
        shard.report(late)
        assert "PrepareCommit" == shard.state()
        (work,) = shard.markers()
        assert late.key != work.key
        assert (late.producer_id, late.producer_epoch) == (work.producer_id, work.producer_epoch)

    def test_the_next_coordinator_owes_the_same_with_its_own_epoch(self) -> None:
        shard = ending()
        before = shard.markers()
        shard.report(before[0])
        shard.fail_over()
        after = shard.markers()
        assert [work.partitions for work in before] == [work.partitions for work in after]
        assert {1} == {work.coordinator_epoch for work in after}

    def test_a_completion_that_is_lost_is_proposed_again(self) -> None:
        shard = ending()
        shard.losing = True
        for work in shard.markers():
            shard.report(work)
        assert 1 == len(shard.lost)
        shard.losing = False
        assert [] == shard.works()
        shard.after(MARKER_RETRY_BACKOFF_MS)
        shard.settle()
        assert "CompleteCommit" == shard.state()

    def test_what_was_listed_is_listed_again_when_it_has_come_to_nothing(self) -> None:
        machine = ending().machine
        first, second = machine.due(START)
        assert [] == list(machine.due(START))
        assert machine.ended(first)
        assert [first] == list(machine.due(START)), "and not what is under way"
        assert machine.ended(second)
        assert [second] == list(machine.due(START))

    def test_what_a_leader_was_sent_goes_to_no_other_until_it_is_known_what_has_become_of_it(self) -> None:
        # An older client has its next transaction open with the same epoch when the second one comes, and it ends that.
        shard = ending()
        of_offsets, of_records = sent(shard)
        shard.leaders = {P: 2, Q: 3, OFFSETS: 2}
        assert shard.machine.ended(of_offsets), "its call was lost"
        (again,) = sent(shard)
        assert (2, (OFFSETS,)) == (again.leader, again.partitions)
        assert shard.machine.ended(of_records)
        (moved,) = sent(shard)
        assert (3, (Q,)) == (moved.leader, moved.partitions), "and to one leader not twice at once"
        assert shard.machine.ended(again)
        (last,) = sent(shard)
        assert (2, (OFFSETS, P)) == (last.leader, last.partitions)

    def test_nothing_is_due_again_when_it_has_been_reported(self) -> None:
        shard = ending()
        works = shard.markers()
        for work in works:
            shard.report(work)
        assert "CompleteCommit" == shard.state()
        assert not any(shard.machine.ended(work) for work in works)

    def test_a_partition_that_nobody_leads_is_looked_at_again_after_a_while(self) -> None:
        shard = ending()
        shard.leaders = {P: 1, Q: NO_LEADER, OFFSETS: NO_LEADER}
        (work,) = shard.markers()
        shard.report(work)
        assert [] == shard.markers()
        assert shard.now + MARKER_RETRY_BACKOFF_MS == shard.machine.wake_at()
        shard.leaders = {Q: 2, OFFSETS: 2}
        shard.after(MARKER_RETRY_BACKOFF_MS)
        (work,) = shard.markers()
        assert (2, (Q, OFFSETS)) == (work.leader, tuple(sorted(work.partitions, reverse=True)))

    def test_a_large_transaction_is_marked_a_part_at_a_time(self) -> None:
        shard = ending_large()
        first = shard.markers()
        assert [1, 2] == [work.leader for work in first]
        assert MARKERS_AT_ONCE == sum(len(work.partitions) for work in first)
        shard.report(first[0])
        assert not set(first[0].partitions) & {each for work in shard.markers() for each in work.partitions}
        shard.settle()
        assert "CompleteCommit" == shard.state()
        assert sorted(f"{topic}-{index}:COMMIT@1" for topic, index in LARGE) == sorted(shard.markers_written())

    def test_partitions_that_nobody_leads_keep_no_others_of_a_large_transaction_waiting(self) -> None:
        shard = ending_large()
        nobody = LARGE[: MARKERS_AT_ONCE + 1]
        shard.leaders |= dict.fromkeys(nobody, NO_LEADER)
        for _ in range(10):
            shard.settle()
            shard.after(MARKER_RETRY_BACKOFF_MS)
        assert set(nobody) == set(shard.machine.owing("x"))
        shard.leaders = {}
        for _ in range(10):
            shard.settle()
            shard.after(MARKER_RETRY_BACKOFF_MS)
        assert "CompleteCommit" == shard.state()
        assert len(LARGE) == len(shard.markers_written())

    def test_counted(self) -> None:
        shard = ending()
        assert 1 == shard.machine.transactions_owing_markers
        shard.settle()
        assert 0 == shard.machine.transactions_owing_markers


def test_who_waits_for_an_id_and_goes_away_is_forgotten() -> None:
    machine = Shard().machine
    first: Parked[None] = machine._wait("x")
    second: Parked[None] = machine._wait("x")
    machine.abandoned(first.token)
    assert [second.token] == list(machine._waiting["x"])
    machine.abandoned(second.token)
    machine.abandoned(second.token)
    assert not machine._waiting
    assert not machine._waits_for


class TestExpiry:
    CONFIG = Config(
        transactional_id_expiration_ms=10_000_000, transaction_remove_expired_transaction_cleanup_interval_ms=1_000_000
    )

    @pytest.mark.parametrize("ended", [False, True])
    def test_an_unused_id_is_forgotten(self, ended: bool) -> None:
        shard = Shard(config=self.CONFIG)
        shard.init()
        if ended:
            shard.add5((X, 0), P)
            shard.commit5((X, 0))
            shard.settle()
        shard.after(9_999_999)
        assert [] == shard.works()
        wake_at = shard.machine.wake_at()
        assert wake_at is not None
        assert shard.now < wake_at <= shard.now + 1_000_001
        shard.now = wake_at
        shard.settle()
        assert shard.machine.entry("x") is None
        assert 49 == shard.add5((X, 0), P)
        assert (X + 1, 0) == shard.init(pair=(X, 0))

    def test_the_tombstone_is_in_the_log(self) -> None:
        shard = Shard(config=self.CONFIG)
        shard.init()
        shard.init("y")
        shard.after(6_000_000)
        shard.init("y")
        shard.after(5_000_000)
        shard.settle()
        shard.fail_over()
        assert ["y"] == list(shard.entries())

    def test_an_open_transaction_never_expires(self) -> None:
        shard = Shard(config=Config(transaction_two_phase_commit_enable=True))
        shard.init(enable2_pc=True)
        shard.add((X, 0), P)
        shard.after(10**13)
        assert [] == shard.works()

    def test_an_id_that_was_used_meanwhile_stays(self) -> None:
        shard = Shard(config=self.CONFIG)
        shard.init()
        shard.after(12_000_000)
        (work,) = shard.works()
        assert isinstance(work, ExpireId)
        shard.init()
        shard.perform(work)
        assert "Empty" == shard.state()

    def test_fact(self) -> None:
        shard = Shard(config=self.CONFIG)
        shard.init()
        shard.machine.facts.clear()
        shard.after(12_000_000)
        shard.settle()
        (fact,) = shard.machine.facts
        assert ("state_change", "Empty", "Dead") == (fact.kind, fact.fields["state_from"], fact.fields["state_to"])


class TestApply:
    def test_records_of_others_need_not_follow_from_each_other(self) -> None:
        """Compaction keeps the last record of an id only."""
        shard = Shard()
        shard.init()
        entry = replace(shard.entry(), state=TxnState.COMPLETE_ABORT, producer_epoch=40, start_timestamp=5)
        shard.plant(entry)
        assert entry == shard.entry()

    def test_a_record_that_took_the_place_of_ours_wins(self) -> None:
        shard = Shard()
        shard.init()
        other = replace(shard.entry(), producer_epoch=9)
        shard.losing = True
        shard.init()
        shard.plant(other)
        assert other == shard.entry()

    def test_what_is_not_a_transactional_id_is_skipped(self) -> None:
        shard = Shard()
        shard.append([LogRecord(bytes.fromhex("0007 0001 61"), b"?"), LogRecord(None, b"?")])
        shard.append([LogRecord(bytes.fromhex("0000 0001 61"), bytes.fromhex("0009"))])
        marker = end_txn_marker(producer_id=1, producer_epoch=0, commit=True, coordinator_epoch=0, timestamp=0)
        shard.machine.apply(marker)
        assert {} == shard.entries()

    def test_a_foreign_tombstone(self) -> None:
        shard = Shard()
        shard.append([LogRecord(bytes.fromhex("0000 0001 61"), None)])
        shard.init("a")
        shard.append([LogRecord(bytes.fromhex("0000 0001 61"), None)])
        assert {} == shard.entries()
        assert shard.machine.wake_at() is None
        shard.after(10**12)
        assert [] == shard.works()

    def test_a_transition_that_is_not_allowed_is_a_bug(self) -> None:
        shard = Shard()
        shard.init()
        shard.add((X, 0), P)
        shard.losing = True
        shard.commit4((X, 0))
        shard.plant(replace(shard.entry(), state=TxnState.COMPLETE_ABORT, partitions=()))
        prepared = shard.machine._propose(replace(shard.entry(), state=TxnState.PREPARE_COMMIT), None, tv=2)
        shard.machine.awaits(prepared, shard.next_offset)
        with pytest.raises(AssertionError, match="CompleteAbort before PrepareCommit"):
            shard.append(prepared.records)
