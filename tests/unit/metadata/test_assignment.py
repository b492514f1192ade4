"""Replicas by hand, and partitions that begin."""

from tests.unit.metadata.helpers import BROKERS, broker, image_of

from odradek.metadata.assignment import NewPartitions, all_fenced, bad_replicas, nobody_there
from odradek.wire.errors import ErrorCode

IMAGE = image_of(BROKERS, broker(4, fenced=True))


def test_replicas_by_hand() -> None:
    assert bad_replicas([1, 4], 2, IMAGE) is None
    wrong: tuple[list[int], ...] = ([], [1, 1], [1, 9], [1], [1, 2, 3])
    assert [ErrorCode.INVALID_REPLICA_ASSIGNMENT] * 5 == [
        failure.error for failure in (bad_replicas(replicas, 2, IMAGE) for replicas in wrong) if failure is not None
    ]


def test_somebody_has_to_be_there() -> None:
    assert nobody_there(0, [4, 1], IMAGE) is None
    failure = nobody_there(7, [4], IMAGE)
    assert failure is not None
    assert "partition 7 are fenced" in (failure.message or "")
    assert all_fenced(1, IMAGE) is None
    assert all_fenced(1, image_of(broker(4, fenced=True))) is not None


def test_a_new_partition() -> None:
    records = NewPartitions(b"t" * 16, 3, [[4, 2, 1], [4, 2, 1], [1]], IMAGE)
    [partition, second, other] = records

    assert (3, 2, 0, 0) == (
        partition.partition_id,
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch,
    )
    assert ([4, 2, 1], [2, 1]) == (partition.replicas, partition.isr)
    assert (4, 2, [2, 1]) == (second.partition_id, second.leader, second.isr)
    assert (5, 1, [1]) == (other.partition_id, other.leader, other.isr)
    assert [second, other] == records[1:]
