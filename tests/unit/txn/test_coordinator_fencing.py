"""Fencing, timeouts, KIP-360, and epochs that run out."""

from collections.abc import Callable

import pytest
from tests.unit.txn.helpers import FIRST_ID, P, Shard, some_ids

from odradek.config.table import Config
from odradek.txn.entry import TIMEOUT_NEVER
from odradek.wire.errors import ErrorCode

X = FIRST_ID
Y = FIRST_ID + 1
LEVELS = pytest.mark.parametrize("tv", [0, 1, 2])
OLD_LEVELS = pytest.mark.parametrize("tv", [0, 1])


def open_transaction(tv: int, *, epoch: int = 0, new_style: bool = False) -> Shard:
    shard = Shard(tv=tv)
    shard.init()
    shard.plant_epoch(epoch)
    assert 0 == (shard.add5 if new_style else shard.add)((X, epoch), P)
    return shard


class TestFencing:
    @LEVELS
    def test_a_second_instance_aborts_the_open_transaction_and_fences(self, tv: int) -> None:
        shard = open_transaction(tv)
        assert 51 == shard.init()
        assert "PrepareAbort" == shard.state()
        assert 51 == shard.init()
        shard.settle()
        assert ["t-0:ABORT@1"] == shard.markers_written()
        assert [2 if tv == 2 else 0] == [work.transaction_version for _, work in shard.written]
        assert ("CompleteAbort", 1) == (shard.state(), shard.entry().producer_epoch)
        assert (X, 2) == shard.init()
        assert [90, 90, 90, 90] == [
            shard.commit5((X, 0)),
            shard.abort4((X, 0)),
            shard.add((X, 0), P),
            shard.init(pair=(X, 0)),
        ]
        assert [90] == shard.verify((X, 0), P)

    def test_the_level_decides_not_the_style_of_the_client(self) -> None:
        old_client, new_client = open_transaction(2), open_transaction(1, new_style=True)
        old_client.init()
        new_client.init()
        assert [2, 0] == [old_client.markers()[0].transaction_version, new_client.markers()[0].transaction_version]

    def test_the_fenced_owner_learns_its_epoch_at_level_2(self) -> None:
        shard = open_transaction(2)
        shard.init()
        shard.settle()
        assert (X, 1) == shard.init(pair=(X, 0))

    @OLD_LEVELS
    def test_and_is_fenced_below(self, tv: int) -> None:
        shard = open_transaction(tv)
        shard.init()
        shard.settle()
        assert 90 == shard.init(pair=(X, 0))

    @pytest.mark.parametrize(("tv", "answer"), [(2, (X, 1)), (1, 90), (0, 90)])
    def test_the_owner_itself_asks_while_its_transaction_is_open(self, tv: int, answer: tuple[int, int] | int) -> None:
        shard = open_transaction(tv)
        assert 51 == shard.init(pair=(X, 0))
        shard.settle()
        assert answer == shard.init(pair=(X, 0))

    def test_a_stranger_aborts_nothing(self) -> None:
        shard = open_transaction(2)
        assert 90 == shard.init(pair=(99, 0))
        assert "Ongoing" == shard.state()

    def test_a_failed_write_is_fenced_again_with_the_same_epoch(self) -> None:
        shard = open_transaction(1)
        shard.losing = True
        assert 16 == shard.init()
        shard.losing = False
        assert 51 == shard.init()
        assert 1 == shard.entry().producer_epoch

    def test_facts(self) -> None:
        shard = open_transaction(2)
        shard.machine.facts.clear()
        shard.init()
        kinds = [(fact.kind, fact.fields["producer_epoch"]) for fact in shard.machine.facts]
        assert [("state_change", 1), ("fenced", 1)] == kinds


class TestTimeout:
    @LEVELS
    def test_an_old_transaction_is_aborted_by_the_next_look_at_it(self, tv: int) -> None:
        shard = open_transaction(tv)
        shard.after(60_000)
        assert [] == shard.works()
        wake_at = shard.machine.wake_at()
        assert wake_at is not None
        assert shard.now < wake_at <= shard.now + 10_000
        shard.now = wake_at
        shard.settle()
        assert ("CompleteAbort", 1) == (shard.state(), shard.entry().producer_epoch)
        assert ["t-0:ABORT@1"] == shard.markers_written()

    @pytest.mark.parametrize("tv", [1, 2])
    def test_what_the_owner_hears(self, tv: int) -> None:
        shard = open_transaction(tv)
        shard.after(70_001)
        shard.settle()
        assert (X, 1) == shard.abort5((X, 0))
        assert 48 == shard.commit5((X, 0))
        assert [90, 90] == [shard.commit4((X, 0)), shard.abort4((X, 0))]
        assert ((X, 1) if tv == 2 else 90) == shard.init(pair=(X, 0))

    def test_a_two_phase_commit_never_times_out(self) -> None:
        shard = Shard(config=Config(transaction_two_phase_commit_enable=True))
        shard.init(timeout_ms=-5, enable2_pc=True)
        assert TIMEOUT_NEVER == shard.entry().timeout_ms
        shard.add((X, 0), P)
        shard.after(10**12)
        assert [] == shard.works()
        assert shard.machine.wake_at() is None

    def test_without_an_id_the_abort_is_tried_again_later(self) -> None:
        shard = open_transaction(2, epoch=32766)
        shard.ids = some_ids(count=0)
        shard.after(70_001)
        (work,) = shard.works()
        shard.perform(work)
        assert [] == shard.works()
        shard.ids = some_ids(Y)
        wake_at = shard.machine.wake_at()
        assert wake_at is not None
        shard.now = wake_at
        shard.settle()
        assert (Y, 0) == (shard.entry().producer_id, shard.entry().producer_epoch)

    def test_work_of_a_transaction_that_is_over_does_nothing(self) -> None:
        shard = open_transaction(2)
        shard.after(70_001)
        (work,) = shard.works()
        shard.commit4((X, 0))
        shard.perform(work)
        assert "PrepareCommit" == shard.state()


class TestKip360:
    @LEVELS
    def test_bump_and_retry(self, tv: int) -> None:
        shard = Shard(tv=tv)
        assert (X, 0) == shard.init()
        assert (X, 1) == shard.init(pair=(X, 0))
        written = len(shard.log)
        assert (X, 1) == shard.init(pair=(X, 0))
        assert written + 1 == len(shard.log)
        assert (X, 2) == shard.init(pair=(X, 1))
        assert 90 == shard.init(pair=(X, 0))
        assert (X, 3) == shard.init()
        assert 90 == shard.init(pair=(X, 2))

    @pytest.mark.parametrize("tv", [1, 2])
    def test_the_retry_may_span_a_failover(self, tv: int) -> None:
        shard = Shard(tv=tv)
        shard.init()
        shard.init(pair=(X, 0))
        shard.fail_over()
        assert (X, 1) == shard.init(pair=(X, 0))
        assert (X, 2) == shard.init(pair=(X, 1))

    def test_but_not_where_the_log_has_no_room_for_it(self) -> None:
        shard = Shard(tv=0)
        shard.init()
        shard.init(pair=(X, 0))
        shard.fail_over()
        assert 90 == shard.init(pair=(X, 0))
        assert (X, 2) == shard.init(pair=(X, 1))

    def test_an_id_that_is_not_known_starts_anew(self) -> None:
        assert (X, 0) == Shard().init(pair=(99, 5))

    def test_refusals_of_the_request(self) -> None:
        shard = Shard()
        assert [42, 42, 42, 50, 50] == [
            shard.init(pair=(5, -1)),
            shard.init(pair=(-1, 5)),
            shard.init(""),
            shard.init(timeout_ms=0),
            shard.init(timeout_ms=900_001),
        ]
        shard.init()
        assert 90 == shard.init(pair=(99, 0))

    def test_the_timeout_is_that_of_the_last_init(self) -> None:
        shard = Shard()
        shard.init(timeout_ms=1000)
        shard.init(timeout_ms=2000)
        assert 2000 == shard.entry().timeout_ms


class TestOverflow:
    @LEVELS
    def test_a_new_instance_gets_another_producer_id(self, tv: int) -> None:
        shard = Shard(tv=tv)
        shard.init()
        shard.plant_epoch(32766)
        assert (Y, 0) == shard.init()
        assert 90 == shard.init(pair=(X, 32766))

    @LEVELS
    def test_the_owner_may_retry_its_rotation_as_often_as_it_likes(self, tv: int) -> None:
        shard = Shard(tv=tv)
        shard.init()
        shard.plant_epoch(32766)
        for _ in range(3):
            assert (Y, 0) == shard.init(pair=(X, 32766))
        assert (Y, 1) == shard.init(pair=(Y, 0))
        assert 90 == shard.init(pair=(X, 32766))

    @pytest.mark.parametrize("tv", [1, 2])
    def test_even_after_a_failover(self, tv: int) -> None:
        shard = Shard(tv=tv)
        shard.init()
        shard.plant_epoch(32766)
        for _ in range(3):
            assert (Y, 0) == shard.init(pair=(X, 32766))
            shard.fail_over()

    def test_the_retry_of_the_last_bump_is_answered(self) -> None:
        shard = Shard()
        shard.init()
        shard.plant_epoch(32765)
        assert (X, 32766) == shard.init(pair=(X, 32765))
        assert (X, 32766) == shard.init(pair=(X, 32765))
        assert -1 == shard.init(pair=(X, 5))

    def test_rotation_waits_for_an_id(self) -> None:
        shard = Shard()
        shard.init()
        shard.plant_epoch(32766)
        shard.ids = some_ids(count=0)
        assert 14 == shard.init()
        assert 14 == shard.init(pair=(X, 32766))

    @pytest.mark.parametrize("tv", [1, 2])
    def test_a_commit_with_the_last_epoch(self, tv: int) -> None:
        shard = open_transaction(tv, epoch=32766, new_style=True)
        assert (Y, 0) == shard.commit5((X, 32766))
        prepared = shard.entry()
        assert (X, 32767, Y) == (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id)
        shard.settle()
        completed = shard.entry()
        assert (Y, 0, X, -1) == (
            completed.producer_id,
            completed.producer_epoch,
            completed.previous_producer_id,
            completed.next_producer_id,
        )
        assert ["t-0:COMMIT@32767"] == shard.markers_written()
        assert X == shard.written[0][1].producer_id
        assert (Y, 0) == shard.commit5((X, 32766))
        assert 48 == shard.abort5((X, 32766))
        shard.fail_over()
        assert (Y, 0) == shard.commit5((X, 32766))
        assert 0 == shard.add5((Y, 0), P)
        assert (Y, 1) == shard.commit5((Y, 0))
        shard.settle()
        assert 49 == shard.commit5((X, 32766))
        assert 90 == shard.init(pair=(X, 32766))

    def test_a_commit_with_the_last_epoch_waits_for_an_id(self) -> None:
        shard = open_transaction(2, epoch=32766, new_style=True)
        shard.ids = some_ids(count=0)
        assert 14 == shard.commit5((X, 32766))
        assert "Ongoing" == shard.state()

    def test_a_fence_at_level_2(self) -> None:
        shard = open_transaction(2, epoch=32766)
        assert 51 == shard.init()
        shard.settle()
        assert ["t-0:ABORT@32767"] == shard.markers_written()
        assert (Y, 0) == shard.abort5((X, 32766))
        assert (Y, 0) == shard.init(pair=(X, 32766))
        assert (Y, 1) == shard.init()

    def test_a_fence_at_level_1(self) -> None:
        shard = open_transaction(1, epoch=32766)
        assert 51 == shard.init()
        shard.settle()
        assert (X, 32767) == (shard.entry().producer_id, shard.entry().producer_epoch)
        assert (X, 32767) == shard.abort5((X, 32766))
        assert -1 == shard.init(pair=(X, 32766))
        assert (Y, 0) == shard.init()

    @pytest.mark.parametrize("end", [Shard.commit4, Shard.abort4])
    def test_old_clients_stay_at_the_last_epoch(self, end: Callable[[Shard, tuple[int, int]], ErrorCode]) -> None:
        shard = open_transaction(2, epoch=32766)
        for _ in range(3):
            assert 0 == end(shard, (X, 32766))
            shard.settle()
            assert 0 == shard.add((X, 32766), P)

    def test_beyond_the_last_epoch_only_an_abort_ends_a_transaction(self) -> None:
        shard = open_transaction(1, epoch=32766)
        shard.init()
        shard.settle()
        assert 0 == shard.add5((X, 32767), P)
        assert -1 == shard.commit5((X, 32767))
        assert (Y, 0) == shard.abort5((X, 32767))
