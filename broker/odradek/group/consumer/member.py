"""A member of a consumer group, and patterns of subscriptions, as the log has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct

from odradek.group.modern_member import ModernMember

__all__ = [
    "NO_EPOCHS",
    "NO_PARTITIONS",
    "ClassicMetadata",
    "ConsumerMember",
    "EpochsOfPartitions",
    "Partitions",
    "ResolvedPattern",
]

Partitions: TypeAlias = Mapping[bytes, frozenset[int]]
"""Partitions by the id of their topic."""
EpochsOfPartitions: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""As `Partitions`, each with the epoch in which it was assigned (KIP-1251)."""

NO_PARTITIONS: Partitions = MappingProxyType({})
NO_EPOCHS: EpochsOfPartitions = MappingProxyType({})
_NONE: Mapping[int, int] = MappingProxyType({})


class ClassicMetadata(Struct, frozen=True):
    """The fields of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Names of assignors with the subscription, in the order of preference."""


class ResolvedPattern(Struct, frozen=True):
    """The topics that a pattern matched, and the metadata version and time (ms) of that."""

    topics: frozenset[str]
    version: int
    timestamp: int


class ConsumerMember(ModernMember, frozen=True):
    """Its identity, its subscription, and its partitions."""

    topic_names: frozenset[str] = frozenset()
    pattern: str = ""
    """Subscribes to all topics whose whole name matches; empty: no pattern."""
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None
    assigned: EpochsOfPartitions = NO_EPOCHS
    revoking: EpochsOfPartitions = NO_EPOCHS
    """The partitions that it has to give up."""

    @property
    def speaks_classic(self) -> bool:
        return self.classic is not None

    def held(self) -> Iterator[tuple[bytes, int]]:
        """Every partition that no other member may get yet."""
        for partitions in (self.assigned, self.revoking):
            for topic_id, indexes in partitions.items():
                for index in indexes:
                    yield topic_id, index

    def assignment_epoch_of(self, topic_id: bytes, index: int) -> int | None:
        """The epoch since which it has had this partition; None if it has not."""
        epoch = self.assigned.get(topic_id, _NONE).get(index)
        return self.revoking.get(topic_id, _NONE).get(index) if epoch is None else epoch
