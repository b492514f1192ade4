"""Whole transactions through one coordinator, as a live Kafka 4.4 answers them: happy paths, in flight, retries."""

import pytest
from tests.unit.txn.helpers import FIRST_ID, OFFSETS, P, Q, Shard, some_ids

from odradek.wire.errors import ErrorCode

X = FIRST_ID
LEVELS = pytest.mark.parametrize("tv", [0, 1, 2])
BUMPING_LEVELS = pytest.mark.parametrize("tv", [1, 2])


def states(shard: Shard, tid: str = "x") -> tuple[str, int, int]:
    entry = shard.entry(tid)
    return entry.state.title, entry.producer_epoch, entry.client_transaction_version


class TestHappyPaths:
    @LEVELS
    def test_old_client_commits(self, tv: int) -> None:
        shard = Shard(tv=tv)
        assert (X, 0) == shard.init()
        assert ErrorCode.NONE is shard.add((X, 0), P)
        assert ("Ongoing", 0, 0) == states(shard)
        assert ErrorCode.NONE is shard.commit4((X, 0))
        assert ("PrepareCommit", 0, 0) == states(shard)
        shard.settle()
        assert ("CompleteCommit", 0, 0) == states(shard)
        assert ["t-0:COMMIT@0"] == shard.markers_written()
        assert 4 == len(shard.log)

    @LEVELS
    def test_old_client_aborts_and_goes_on_in_the_same_epoch(self, tv: int) -> None:
        shard = Shard(tv=tv)
        shard.init()
        for _ in range(2):
            assert ErrorCode.NONE is shard.add((X, 0), P)
            assert ErrorCode.NONE is shard.abort4((X, 0))
            shard.settle()
        assert ["t-0:ABORT@0", "t-0:ABORT@0"] == shard.markers_written()

    @BUMPING_LEVELS
    def test_new_client_gets_the_next_epoch_with_each_end(self, tv: int) -> None:
        shard = Shard(tv=tv)
        shard.init()
        assert ErrorCode.NONE is shard.add5((X, 0), P)
        assert ("Ongoing", 0, 2) == states(shard)
        assert (X, 1) == shard.commit5((X, 0))
        assert ("PrepareCommit", 1, 2) == states(shard)
        assert ErrorCode.CONCURRENT_TRANSACTIONS is shard.add5((X, 1), P)
        shard.settle()
        assert ("CompleteCommit", 1, 2) == states(shard)
        assert ErrorCode.NONE is shard.add5((X, 1), P)
        assert (X, 2) == shard.abort5((X, 1))
        shard.settle()
        assert ["t-0:COMMIT@1", "t-0:ABORT@2"] == shard.markers_written()
        assert [2, 2] == [work.transaction_version for _, work in shard.written]

    @BUMPING_LEVELS
    def test_a_transaction_without_partitions_ends_without_markers(self, tv: int) -> None:
        shard = Shard(tv=tv)
        shard.init()
        assert ErrorCode.NONE is shard.add5((X, 0))
        assert "Ongoing" == shard.state()
        assert (X, 1) == shard.commit5((X, 0))
        shard.settle()
        assert ("CompleteCommit", 1, 2) == states(shard)
        assert [] == shard.markers_written()

    def test_adding_what_is_there_writes_nothing(self) -> None:
        shard = Shard()
        shard.init()
        shard.add((X, 0), P)
        written = len(shard.log)
        assert ErrorCode.NONE is shard.add((X, 0), P)
        assert ErrorCode.NONE is shard.add((X, 0))
        assert written == len(shard.log)

    def test_the_last_add_says_how_the_client_ends_transactions(self) -> None:
        shard = Shard()
        shard.init()
        shard.add5((X, 0), P)
        shard.add((X, 0), Q)
        assert ("Ongoing", 0, 0) == states(shard)
        assert (P, Q) == shard.entry().partitions
        assert (X, 1) == shard.commit5((X, 0))

    def test_the_start_is_that_of_the_first_add(self) -> None:
        shard = Shard()
        shard.init()
        shard.add((X, 0), P)
        start = shard.now
        shard.after(50)
        shard.add((X, 0), OFFSETS)
        assert start == shard.entry().start_timestamp


class Index(int):
    """The index of a partition that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Index.compared += 1
        return int.__eq__(self, other)

    __hash__ = int.__hash__


class TestLargeTransactions:
    @pytest.mark.parametrize("present", [10, 1_000, 5_000])
    def test_what_is_asked_for_is_not_compared_with_all_that_is_there(self, present: int) -> None:
        shard = Shard()
        shard.init()
        shard.add5((X, 0), *(("t", index) for index in range(present)))
        asked = [("t", Index(index)) for index in range(present - 10, present + 100)]
        Index.compared = 0
        assert [0] * 10 + [ErrorCode.TRANSACTION_ABORTABLE] * 100 == shard.verify((X, 0), *asked)
        assert Index.compared <= 40 * len(asked)
        Index.compared = 0
        assert ErrorCode.NONE is shard.add5((X, 0), *asked)
        assert Index.compared <= 40 * len(asked)
        assert present + 100 == len(shard.entry().partitions)

    def test_a_transaction_that_outgrows_a_record_stays_as_it_was(self) -> None:
        shard = Shard()
        shard.init()
        first = [("t", index) for index in range(50)]
        shard.add5((X, 0), *first)
        shard.losing = True
        assert ErrorCode.NOT_COORDINATOR is shard.add5((X, 0), ("t", 50), ("u", 0))
        assert [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE] == shard.verify((X, 0), ("t", 49), ("t", 50))
        shard.losing = False
        assert ErrorCode.NONE is shard.add5((X, 0), ("u", 1))
        shard.fail_over()
        assert {*first, ("u", 1)} == set(shard.entry().partitions)
        assert (X, 1) == shard.commit5((X, 0))
        shard.settle()
        assert 51 == len(shard.markers_written())


class TestInFlight:
    """The markers of some partition have not been written yet."""

    @pytest.fixture
    def shard(self) -> Shard:
        shard = Shard()
        shard.init()
        shard.add5((X, 0), P, Q)
        shard.leaders = {P: 1, Q: 2}
        assert (X, 1) == shard.commit5((X, 0))
        first, _ = shard.markers()
        shard.report(first)
        return shard

    def test_only_the_partition_without_its_marker_is_shown(self, shard: Shard) -> None:
        described = shard.machine.describe("x")
        assert [("t", [1])] == [(topic.topic, topic.partitions) for topic in described.reply.topics]  # type: ignore[union-attr]
        assert ("PrepareCommit", 1, 2) == states(shard)

    @pytest.mark.parametrize("epoch", [0, 1])
    @pytest.mark.parametrize("commit", [True, False])
    def test_new_end_txn(self, shard: Shard, epoch: int, commit: bool) -> None:
        assert 51 == shard.end((X, epoch), commit=commit, version=5)

    @pytest.mark.parametrize(("epoch", "error"), [(0, 90), (1, 51)])
    def test_old_end_txn_sees_the_epoch_first(self, shard: Shard, epoch: int, error: int) -> None:
        assert error == shard.commit4((X, epoch))

    @pytest.mark.parametrize("pair", [(-1, -1), (X, 0), (X, 1), (99, 0)])
    def test_init(self, shard: Shard, pair: tuple[int, int]) -> None:
        assert 51 == shard.init(pair=pair)

    @pytest.mark.parametrize("pair", [(X, 0), (X, 1), (X, 9), (99, 1)])
    def test_adds_do_not_look_at_the_epoch(self, shard: Shard, pair: tuple[int, int]) -> None:
        assert 51 == shard.add(pair, P)
        assert 51 == shard.add5(pair, P)

    def test_verifications_do(self, shard: Shard) -> None:
        assert [90] == shard.verify((X, 0), P)
        assert [51] == shard.verify((X, 1), P)
        assert [49] == shard.verify((99, 1), P)

    def test_old_style(self) -> None:
        shard = Shard()
        shard.init()
        shard.add((X, 0), P)
        shard.commit4((X, 0))
        assert [51, 51, 51, 51] == [
            shard.commit4((X, 0)),
            shard.abort4((X, 0)),
            shard.commit5((X, 0)),
            shard.add((X, 0), P),
        ]
        shard.settle()
        assert 48 == shard.abort4((X, 0))


class TestWhatTheLogRefuses:
    def test_a_record_that_is_lost_changes_nothing(self) -> None:
        shard = Shard()
        shard.init()
        shard.add5((X, 0), P)
        shard.losing = True
        assert ErrorCode.NOT_COORDINATOR is shard.commit5((X, 0))
        shard.losing = False
        assert ("Ongoing", 0, 2) == states(shard)
        assert (X, 1) == shard.abort5((X, 0))


class TestRetries:
    @BUMPING_LEVELS
    def test_after_a_commit(self, tv: int) -> None:
        shard = Shard(tv=tv)
        shard.init()
        shard.add5((X, 0), P)
        shard.commit5((X, 0))
        shard.settle()
        assert (X, 1) == shard.commit5((X, 0))
        assert 48 == shard.abort5((X, 0))
        assert 48 == shard.commit5((X, 1))
        assert 0 == shard.commit4((X, 1))
        assert (X, 2) == shard.abort5((X, 1))
        shard.settle()
        assert ["t-0:COMMIT@1"] == shard.markers_written()

    @BUMPING_LEVELS
    def test_after_an_abort(self, tv: int) -> None:
        shard = Shard(tv=tv)
        shard.init()
        shard.add5((X, 0), P)
        shard.abort5((X, 0))
        shard.settle()
        assert (X, 1) == shard.abort5((X, 0))
        assert 48 == shard.commit5((X, 0))
        assert (X, 2) == shard.abort5((X, 1))
        shard.settle()
        assert 90 == shard.abort5((X, 0))

    def test_nothing_was_begun(self) -> None:
        shard = Shard()
        shard.init()
        assert 48 == shard.commit5((X, 0))
        assert 48 == shard.commit4((X, 0))
        assert 48 == shard.abort4((X, 0))
        assert (X, 1) == shard.abort5((X, 0))

    @LEVELS
    def test_after_an_old_commit(self, tv: int) -> None:
        shard = Shard(tv=tv)
        shard.init()
        shard.add((X, 0), P)
        shard.commit4((X, 0))
        shard.settle()
        assert 0 == shard.commit4((X, 0))
        assert 48 == shard.abort4((X, 0))
        assert 48 == shard.commit5((X, 0))

    def test_retries_are_told_after_a_failover(self) -> None:
        shard = Shard()
        shard.init()
        shard.add5((X, 0), P)
        shard.commit5((X, 0))
        shard.settle()
        shard.fail_over()
        assert (X, 1) == shard.commit5((X, 0))
        assert 48 == shard.abort5((X, 0))

    def test_not_after_the_next_transaction_has_begun(self) -> None:
        shard = Shard()
        shard.init()
        shard.add5((X, 0), P)
        shard.commit5((X, 0))
        shard.settle()
        shard.add5((X, 1), P)
        assert [90, 90] == [shard.commit5((X, 0)), shard.abort5((X, 0))]

    @pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5])
    def test_somebody_else(self, version: int) -> None:
        shard = Shard()
        shard.init()
        shard.add((X, 0), P)
        assert 49 == shard.end((99, 0), commit=True, version=version)
        assert 90 == shard.end((X, 5), commit=True, version=version)
        assert 49 == shard.end((X, 0), commit=True, version=version, tid="y")
        assert 42 == shard.end((X, 0), commit=True, version=version, tid="")


class TestAdding:
    def test_refusals(self) -> None:
        shard = Shard()
        shard.init()
        for add in (shard.add, shard.add5):
            assert 42 == add((X, 0), P, tid="")
            assert 49 == add((X, 0), P, tid="y")
            assert 49 == add((99, 0), P)
            assert 90 == add((X, 1), P)

    def test_verify(self) -> None:
        shard = Shard()
        shard.init()
        assert [120] == shard.verify((X, 0), P)
        shard.add((X, 0), P)
        assert [0, 120] == shard.verify((X, 0), P, Q)
        assert [90] == shard.verify((X, 1), P)
        assert [49] == shard.verify((99, 0), P)
        assert [42] == shard.verify((X, 0), P, tid="")
        assert (P,) == shard.entry().partitions
        shard.commit4((X, 0))
        shard.settle()
        assert [120] == shard.verify((X, 0), P)


class TestProducerIds:
    def test_without_an_id_in_hand_a_new_id_waits(self) -> None:
        shard = Shard(ids=some_ids(count=0))
        assert 14 == shard.init()
        shard.ids.granted(5, 10)
        assert (5, 0) == shard.init()

    def test_a_refusal_takes_no_id(self) -> None:
        shard = Shard()
        assert 50 == shard.init(timeout_ms=0)
        assert (X, 0) == shard.init()
        assert (X + 1, 0) == shard.init("y")


def test_facts_tell_what_happened_and_only_once() -> None:
    shard = Shard()
    shard.init()
    shard.add5((X, 0), P)
    shard.commit5((X, 0))
    shard.settle()
    told = [(fact.kind, fact.fields.get("state_to"), fact.fields["producer_epoch"]) for fact in shard.machine.facts]
    assert [
        ("state_change", "Empty", 0),
        ("init_producer_id", None, 0),
        ("state_change", "Ongoing", 0),
        ("partitions_added", None, 0),
        ("state_change", "PrepareCommit", 1),
        ("state_change", "CompleteCommit", 1),
    ] == told
    shard.fail_over()
    assert [] == shard.machine.facts
