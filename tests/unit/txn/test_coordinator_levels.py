"""transaction.version goes up and down, and where we keep what the KIPs promise and Kafka does not.

At level 0 the log has no room for a client's transaction version.
Kafka finds that out in the middle of a transition and answers CONCURRENT_TRANSACTIONS from then on;
here the request is refused and nothing else happens.
"""

import pytest
from tests.unit.txn.helpers import FIRST_ID, P, Q, Shard

from odradek.wire.errors import ErrorCode

X = FIRST_ID
Y = FIRST_ID + 1


def committed(tv: int = 2) -> Shard:
    """A new client has committed a transaction."""
    shard = Shard(tv=tv)
    shard.init()
    shard.add5((X, 0), P)
    shard.commit5((X, 0))
    shard.settle()
    return shard


class TestNewClientAtLevel0:
    @pytest.fixture
    def shard(self) -> Shard:
        shard = Shard(tv=0)
        shard.init()
        return shard

    def usable(self, shard: Shard) -> bool:
        return (X, 1) == shard.init() and 0 == shard.add((X, 1), P) and 0 == shard.commit4((X, 1))

    def test_a_broker_that_adds_for_it(self, shard: Shard) -> None:
        assert 35 == shard.add5((X, 0), P)
        assert "Empty" == shard.state()
        assert self.usable(shard)

    def test_checks_come_first(self, shard: Shard) -> None:
        assert [49, 49, 90] == [
            shard.add5((X, 0), P, tid="y"),
            shard.add5((99, 0), P),
            shard.add5((X, 1), P),
        ]

    def test_verifying_and_adding_what_is_there(self, shard: Shard) -> None:
        shard.add((X, 0), P)
        assert [0] == shard.verify((X, 0), P)
        assert 0 == shard.add5((X, 0), P)

    def test_an_abort_of_nothing(self, shard: Shard) -> None:
        assert 35 == shard.abort5((X, 0))
        assert self.usable(shard)

    def test_the_end_of_a_transaction(self, shard: Shard) -> None:
        shard.add((X, 0), P)
        assert 35 == shard.commit5((X, 0))
        assert "Ongoing" == shard.state()
        assert 0 == shard.commit4((X, 0))
        shard.settle()
        assert self.usable(shard)


class TestDowngrade:
    def test_to_1_within_a_transaction(self) -> None:
        shard = Shard(tv=2)
        shard.init()
        shard.add5((X, 0), P)
        shard.tv = 1
        assert 0 == shard.add5((X, 0), Q)
        assert 0 == shard.commit4((X, 0))
        shard.settle()
        assert ["t-0:COMMIT@0", "t-1:COMMIT@0"] == shard.markers_written()
        assert {0} == {work.transaction_version for _, work in shard.written}
        # The producer may go on in the same epoch, in either style.
        assert 0 == shard.add5((X, 0), P)

    def test_to_0_within_a_transaction(self) -> None:
        shard = Shard(tv=2)
        shard.init()
        shard.add5((X, 0), P)
        shard.tv = 0
        assert 35 == shard.commit5((X, 0))
        assert 0 == shard.commit4((X, 0))
        shard.settle()
        assert "CompleteCommit" == shard.state()

    def test_to_0_and_the_timeout(self) -> None:
        shard = Shard(tv=2)
        shard.init()
        shard.add5((X, 0), P)
        shard.tv = 0
        shard.after(70_001)
        shard.settle()
        assert ("CompleteAbort", 1) == (shard.state(), shard.entry().producer_epoch)

    @pytest.mark.parametrize("failover", [False, True])
    def test_to_0_after_a_transaction(self, failover: bool) -> None:
        shard = committed()
        shard.tv = 0
        if failover:
            shard.fail_over()
        assert (X, 2) == shard.init()
        assert 0 == shard.add((X, 2), P)
        assert 0 == shard.commit4((X, 2))
        shard.settle()
        assert (X, 3) == shard.init()

    def test_to_0_after_a_transaction_the_retry_of_its_end(self) -> None:
        shard = committed()
        shard.tv = 0
        assert (X, 1) == shard.commit5((X, 0))

    @pytest.mark.parametrize("failover", [False, True])
    def test_to_0_while_markers_are_owed(self, failover: bool) -> None:
        shard = Shard(tv=2)
        shard.init()
        shard.plant_epoch(32766)
        shard.add5((X, 32766), P)
        assert (Y, 0) == shard.commit5((X, 32766))
        shard.tv = 0
        if failover:
            shard.fail_over()
        shard.settle()
        assert ("CompleteCommit", Y, 0) == (shard.state(), shard.entry().producer_id, shard.entry().producer_epoch)
        assert 0 == shard.add((Y, 0), P)


class TestUpgrade:
    @pytest.mark.parametrize("tv", [0, 1])
    def test_within_a_transaction_of_an_old_client(self, tv: int) -> None:
        shard = Shard(tv=tv)
        shard.init()
        shard.add((X, 0), P)
        shard.tv = 2
        assert 0 == shard.commit4((X, 0))
        shard.settle()
        assert (X, 1) == shard.init(pair=(X, 0))

    def test_the_client_may_end_it_in_the_new_style(self) -> None:
        shard = Shard(tv=1)
        shard.init()
        shard.add((X, 0), P)
        shard.tv = 2
        assert (X, 1) == shard.commit5((X, 0))
        assert 2 == shard.entry().client_transaction_version
        shard.settle()
        assert ["t-0:COMMIT@1"] == shard.markers_written()


class TestWhatKafkaBreaks:
    def test_a_partition_without_leader_keeps_its_transaction_open(self) -> None:
        shard = Shard()
        shard.init()
        shard.add5((X, 0), P, Q)
        shard.leaders = {P: -1, Q: 1}
        assert (X, 1) == shard.abort5((X, 0))
        shard.settle()
        assert ["t-1:ABORT@1"] == shard.markers_written()
        assert "PrepareAbort" == shard.state()
        assert 51 == shard.add5((X, 1), P)
        shard.leaders[P] = 2
        wake_at = shard.machine.wake_at()
        assert wake_at is not None
        shard.now = wake_at
        shard.settle()
        assert ["t-1:ABORT@1", "t-0:ABORT@1"] == shard.markers_written()
        assert "CompleteAbort" == shard.state()

    def test_a_deleted_partition_does_not(self) -> None:
        shard = Shard()
        shard.init()
        shard.add5((X, 0), P)
        shard.leaders = {P: None}
        shard.abort5((X, 0))
        shard.settle()
        assert "CompleteAbort" == shard.state()
        assert [] == shard.markers_written()

    def test_a_deleted_one_beside_one_without_leader(self) -> None:
        shard = Shard()
        shard.init()
        shard.add5((X, 0), P, Q)
        shard.leaders = {P: None, Q: -1}
        shard.abort5((X, 0))
        shard.settle()
        assert (Q,) == tuple(shard.machine._held["x"].owing)
        assert "PrepareAbort" == shard.state()

    def test_a_later_epoch_in_the_log_is_as_good_as_a_marker(self) -> None:
        shard = Shard()
        shard.init()
        shard.add((X, 0), P)
        shard.abort4((X, 0))
        (work,) = shard.markers()
        shard.report(work, {P: ErrorCode(47)})
        assert "CompleteAbort" == shard.state()
        assert (X, 1) == shard.init()

    @pytest.mark.parametrize("code", [2, 10, 18, 21, 52, -1])
    def test_whatever_else_a_leader_says_the_marker_is_tried_again(self, code: int) -> None:
        shard = Shard()
        shard.init()
        shard.add((X, 0), P)
        shard.abort4((X, 0))
        (work,) = shard.markers()
        shard.report(work, {P: ErrorCode(code)})
        shard.after(1000)
        shard.settle()
        assert "CompleteAbort" == shard.state()

    def test_end_then_failover_then_init_retry(self) -> None:
        shard = committed()
        shard.fail_over()
        assert (X, 1) == shard.init(pair=(X, 0))
