"""One member of a consumer group, as the log has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from odradek.group.modern import JOINING_EPOCH, LEAVING_EPOCH, LEAVING_STATIC_EPOCH

__all__ = [
    "JOINING_EPOCH",
    "LEAVING_EPOCH",
    "LEAVING_STATIC_EPOCH",
    "NO_PARTITIONS",
    "ClassicMetadata",
    "ConsumerMember",
    "EpochsOfPartitions",
    "MemberState",
    "Partitions",
    "partitions_of",
]

Partitions = Mapping[bytes, frozenset[int]]
"""Partitions by the id of their topic."""
EpochsOfPartitions = Mapping[bytes, Mapping[int, int]]
"""The same, each with the epoch in which it was assigned (KIP-1251)."""

NO_PARTITIONS: Mapping[bytes, Any] = MappingProxyType({})
_NONE: Mapping[int, int] = MappingProxyType({})


class MemberState(IntEnum):
    """How far a member is from its target, numbered as in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It has been asked to give up partitions, and has not said that it has."""
    UNRELEASED_PARTITIONS = 2
    """Others have not given up what it shall have."""
    UNKNOWN = 127


class ClassicMetadata(Struct, frozen=True):
    """The fields of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Names of assignors with the subscription, in the order of preference."""


class ConsumerMember(Struct, frozen=True):
    """Its identity, its subscription, and its partitions."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    pattern: str = ""
    """Subscribes to all topics whose whole name matches; empty: to none by a pattern."""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None
    epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: EpochsOfPartitions = NO_PARTITIONS
    revoking: EpochsOfPartitions = NO_PARTITIONS
    """The partitions or tasks that it has been asked to give up."""

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def held(self) -> Iterator[tuple[bytes, int]]:
        """Every partition that no other member may get yet."""
        for partitions in (self.assigned, self.revoking):
            for topic_id, indexes in partitions.items():
                for index in indexes:
                    yield topic_id, index

    def assignment_epoch_of(self, topic_id: bytes, index: int) -> int | None:
        """Since which epoch it has had this partition; None if it has not."""
        epoch = self.assigned.get(topic_id, _NONE).get(index)
        return self.revoking.get(topic_id, _NONE).get(index) if epoch is None else epoch


def partitions_of(epochs: EpochsOfPartitions) -> dict[bytes, frozenset[int]]:
    """The partitions alone."""
    return {topic_id: frozenset(indexes) for topic_id, indexes in epochs.items()}
