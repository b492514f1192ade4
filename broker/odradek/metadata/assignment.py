"""Assignments of replicas that a client gives for new partitions, and the checks of them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from odradek.config.table import Config
from odradek.core.clock import Rng
from odradek.metadata.change import Failure, MadeWhenRead, Spend, unlimited
from odradek.metadata.features import DIRECTORIES_SINCE, METADATA_VERSION
from odradek.metadata.image import MetadataImage, PartitionImage
from odradek.metadata.placement import elect, in_sync
from odradek.metadata.snapshot import partition_record
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.partition_record import PartitionRecord

__all__ = [
    "PARTITIONS_PER_REQUEST_MAX",
    "Assignments",
    "Cluster",
    "NewPartitions",
    "all_fenced",
    "bad_assignment",
    "bad_replicas",
    "nobody_there",
]

PARTITIONS_PER_REQUEST_MAX = 100_000
"""Kafka's limit is 10,000, the records of one batch; a metadata transaction can have more (KIP-868)."""

Assignments = Sequence[list[int]]
"""The replicas of each new partition, the leader first."""


class Cluster(Struct, frozen=True):
    """The state that the checks of topics need besides the request."""

    image: MetadataImage
    config: Config
    rng: Rng
    partitions_max: int = PARTITIONS_PER_REQUEST_MAX
    spend: Spend = unlimited


def bad_assignment(message: str) -> Failure:
    return Failure(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def bad_replicas(replicas: list[int], expected: int, image: MetadataImage) -> Failure | None:
    """The reason why a partition cannot have these replicas, or None."""
    if not replicas:
        return bad_assignment("The manual partition assignment includes an empty replica list.")
    for broker in sorted(replicas):
        if replicas.count(broker) > 1:
            return bad_assignment(f"The manual partition assignment includes the broker {broker} more than once.")
        if broker not in image.brokers:
            return bad_assignment(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered."
            )
    if len(replicas) != expected:
        return bad_assignment(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {expected} replica(s)."
        )
    return None


def nobody_there(index: int, replicas: list[int], image: MetadataImage) -> Failure | None:
    """The reason why a partition with these replicas would have no leader, or None."""
    if in_sync(replicas, image):
        return None
    return bad_assignment(
        f"All brokers specified in the manual partition assignment for partition {index} are fenced or in controlled "
        "shutdown."
    )


def all_fenced(replicas: int, image: MetadataImage) -> Failure | None:
    """The reason why no partition can be placed, or None."""
    if any(not broker.fenced for broker in image.brokers.values()):
        return None
    return Failure(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replicas} time(s): All brokers are currently fenced.",
    )


class NewPartitions(MadeWhenRead[PartitionRecord]):
    """The records of new partitions in their first leader epoch; equal assignments are judged once."""

    def __init__(self, topic_id: bytes, first: int, assigned: Assignments, image: MetadataImage) -> None:
        self._topic_id, self._first, self._assigned, self._image = topic_id, first, assigned, image
        self._found: dict[tuple[int, ...], tuple[int, tuple[int, ...], tuple[bytes, ...]]] = {}

    def __len__(self) -> int:
        return len(self._assigned)

    def _made(self, index: int) -> PartitionRecord:
        replicas, image = tuple(self._assigned[index]), self._image
        known = self._found.get(replicas)
        if known is None:
            known = self._found[replicas] = (
                elect(replicas, image),
                tuple(in_sync(replicas, image)),
                _directories(replicas, image),
            )
        leader, isr, directories = known
        partition = PartitionImage(self._first + index, leader, 0, 0, replicas, isr, directories)
        return partition_record(self._topic_id, partition)


def _directories(replicas: Sequence[int], image: MetadataImage) -> tuple[bytes, ...]:
    """The directory of each replica, if every broker has exactly one (KIP-858); () if not."""
    if image.feature(METADATA_VERSION) < DIRECTORIES_SINCE:
        return ()
    there = [image.brokers[replica].log_dirs if replica in image.brokers else () for replica in replicas]
    return tuple(each[0] for each in there) if all(len(each) == 1 for each in there) else ()
