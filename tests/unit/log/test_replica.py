"""What a broker answers of a log that another one leads."""

from __future__ import annotations

import pytest
from tests.unit.log.helpers import NOW, batch, new_partition

from odradek.log.replica import Replica, check_leader_epoch
from odradek.wire.errors import ErrorCode


def test_a_replica_knows_the_producers_that_the_leader_knows() -> None:
    leader = new_partition()
    replica = Replica(leader.log, 0)
    assert [] == replica.describe_producers()
    for sequence in range(3):
        leader.append_client(batch(producer_id=3, epoch=1, sequence=sequence), now=NOW)
        assert leader.describe_producers() == replica.describe_producers()
    [producer] = replica.describe_producers()
    assert (3, 1, 2, -1) == (
        producer.producer_id,
        producer.producer_epoch,
        producer.last_sequence,
        producer.current_txn_start_offset,
    )


def test_a_replica_forgets_whom_the_leader_forgets_and_outlives_it() -> None:
    leader = new_partition()
    replica = Replica(leader.log, 0)
    leader.append_client(batch(producer_id=3, epoch=0, sequence=0), now=NOW)
    leader.append_client(batch(producer_id=4, epoch=0, sequence=0), now=NOW)
    successor = new_partition(leader.log, leader_epoch=1)
    successor.append_client(batch(producer_id=3, epoch=0, sequence=1), now=NOW)
    assert {3: 1, 4: 0} == {each.producer_id: each.last_sequence for each in replica.describe_producers()}
    successor.forget_producers(NOW + 1000, after_ms=1000)
    assert [] == replica.describe_producers()


def test_a_log_that_nobody_has_led_has_nothing() -> None:
    replica = Replica(None, 0)
    assert [] == replica.describe_producers()
    assert -1 == replica.list_offset(-1).offset


def test_offsets_of_a_replica() -> None:
    leader = new_partition()
    replica = Replica(leader.log, 4)
    leader.append_client(batch(), now=NOW)
    assert (1, 4) == (replica.list_offset(-1).offset, replica.list_offset(-1).leader_epoch)
    assert 0 == replica.list_offset(-2).offset


@pytest.mark.parametrize(
    ("believed", "error"),
    [
        (-1, ErrorCode.NONE),
        (3, ErrorCode.NONE),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_leader_epochs(believed: int, error: ErrorCode) -> None:
    assert error is check_leader_epoch(believed, 3)
    assert error is Replica(None, 3).check_leader_epoch(believed)
