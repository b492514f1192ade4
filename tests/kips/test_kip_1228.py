"""KIP-1228, "Add Transaction Version to WriteTxnMarkersRequest": by which rule the epoch of a marker is judged."""

from __future__ import annotations

import pytest
from tests.kips.helpers import ABORT, COMMIT, EPOCH_LAST, OK, OLD, Cluster, P, Producer, Q

from odradek.wire.errors import ErrorCode

FENCED = ErrorCode.INVALID_PRODUCER_EPOCH


def open_at(epoch: int) -> tuple[Cluster, int]:
    """A transaction that is open at an epoch, in a partition and at its coordinator."""
    cluster = Cluster()
    producer = Producer.started(cluster, OLD, epoch=epoch)
    producer.begin(P)
    producer.send(P)
    return cluster, producer.pair[0]


def test_at_level_2_a_marker_has_a_greater_epoch() -> None:
    """Proposed Changes: for transaction version 2 the marker must carry a greater epoch than the open transaction."""
    cluster, x = open_at(5)
    assert FENCED is cluster.write_marker(P, (x, 5), COMMIT, transaction_version=2)
    assert FENCED is cluster.write_marker(P, (x, 4), COMMIT, transaction_version=2)
    assert OK is cluster.write_marker(P, (x, 6), COMMIT, transaction_version=2)
    assert ["0:data@5", "1:COMMIT@6"] == cluster.log(P)
    # With nothing open the same epoch is a retry whose answer was lost, and it is written again.
    assert OK is cluster.write_marker(P, (x, 6), COMMIT, transaction_version=2)
    assert OK is cluster.write_marker(P, (x, 6), ABORT, transaction_version=2)
    assert FENCED is cluster.write_marker(P, (x, 5), COMMIT, transaction_version=2)
    assert [] == cluster.aborted(P)


@pytest.mark.parametrize(("transaction_version", "version"), [(0, 2), (1, 2), (0, 1)])
def test_below_level_2_the_same_epoch_will_do(transaction_version: int, version: int) -> None:
    """Proposed Changes: below, and in version 1 of the request, the epoch may be the same."""
    cluster, x = open_at(5)
    how = {"transaction_version": transaction_version, "version": version}
    assert FENCED is cluster.write_marker(P, (x, 4), COMMIT, **how)
    assert OK is cluster.write_marker(P, (x, 5), COMMIT, **how)
    assert OK is cluster.write_marker(P, (x, 5), COMMIT, **how)
    assert OK is cluster.write_marker(P, (x, 8), COMMIT, **how)
    assert 8 == cluster.producers(P)[0].producer_epoch


def test_an_older_coordinator_is_fenced() -> None:
    """Proposed Changes: the coordinator epoch is checked as ever."""
    cluster, x = open_at(5)
    assert OK is cluster.write_marker(P, (x, 5), COMMIT, coordinator_epoch=5)
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert fenced is cluster.write_marker(P, (x, 5), COMMIT, coordinator_epoch=4)
    assert fenced is cluster.write_marker(P, (x, 6), COMMIT, coordinator_epoch=4, transaction_version=2)


def test_a_producer_that_the_partition_does_not_know() -> None:
    """Proposed Changes: a partition to which nothing was written takes any marker, and writes it."""
    cluster, x = open_at(5)
    assert OK is cluster.write_marker(Q, (x, 3), ABORT, transaction_version=2)
    assert ["0:ABORT@3"] == cluster.log(Q)


def test_at_the_very_last_epoch_a_marker_may_come_again() -> None:
    """Proposed Changes: beyond the last epoch there is none to bump to."""
    cluster, x = open_at(EPOCH_LAST)
    for _ in range(2):
        assert OK is cluster.write_marker(P, (x, EPOCH_LAST + 1), COMMIT, transaction_version=2)
    assert 3 == len(cluster.log(P))
