"""Who gets the replicas of new partitions, where a client says so itself, and what may be wrong with that."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from odradek.config.table import Config
from odradek.metadata.change import Failure, Spend, unlimited
from odradek.metadata.features import DIRECTORIES_SINCE, METADATA_VERSION
from odradek.metadata.image import MetadataImage, PartitionImage
from odradek.metadata.placement import Rng, elect, in_sync
from odradek.wire.errors import ErrorCode

__all__ = [
    "PARTITIONS_PER_REQUEST_MAX",
    "Assignments",
    "Cluster",
    "all_fenced",
    "bad_assignment",
    "bad_replicas",
    "new_partitions",
    "nobody_there",
]

PARTITIONS_PER_REQUEST_MAX = 100_000
"""Kafka stops at 10,000, the records of one batch; a metadata transaction can hold more (KIP-868)."""

Assignments = list[list[int]]
"""The replicas of each new partition, the leader first."""


class Cluster(Struct, frozen=True):
    """What the rules about topics need besides the request."""

    image: MetadataImage
    config: Config
    rng: Rng
    partitions_max: int = PARTITIONS_PER_REQUEST_MAX
    spend: Spend = unlimited


def bad_assignment(message: str) -> Failure:
    """A refusal of replicas by hand."""
    return Failure(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def bad_replicas(replicas: list[int], expected: int, image: MetadataImage) -> Failure | None:
    """Why a partition cannot have these replicas by hand, or None."""
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
    """Why a partition with these replicas would have no leader, or None."""
    if in_sync(replicas, image):
        return None
    return bad_assignment(
        f"All brokers specified in the manual partition assignment for partition {index} are fenced or in controlled "
        "shutdown."
    )


def all_fenced(replicas: int, image: MetadataImage) -> Failure | None:
    """Why no partition can be placed anywhere, or None."""
    if any(not broker.fenced for broker in image.brokers.values()):
        return None
    return Failure(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replicas} time(s): All brokers are currently fenced.",
    )


def new_partitions(first: int, assigned: Assignments, image: MetadataImage) -> dict[int, PartitionImage]:
    """Partitions in their first leader epoch, by index; what is the same for many is found once."""
    found: dict[tuple[int, ...], tuple[int, tuple[int, ...], tuple[bytes, ...]]] = {}
    partitions: dict[int, PartitionImage] = {}
    for index, each in enumerate(assigned, first):
        replicas = tuple(each)
        known = found.get(replicas)
        if known is None:
            known = found[replicas] = (
                elect(replicas, image),
                tuple(in_sync(replicas, image)),
                _directories(replicas, image),
            )
        leader, isr, directories = known
        partitions[index] = PartitionImage(index, leader, 0, 0, replicas, isr, directories)
    return partitions


def _directories(replicas: Sequence[int], image: MetadataImage) -> tuple[bytes, ...]:
    """The directory of each replica, where every broker has exactly one (KIP-858); () where some have none."""
    if image.feature(METADATA_VERSION) < DIRECTORIES_SINCE:
        return ()
    there = [image.brokers[replica].log_dirs if replica in image.brokers else () for replica in replicas]
    return tuple(each[0] for each in there) if all(len(each) == 1 for each in there) else ()
