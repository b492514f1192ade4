"""One member of a share group, and the share partitions of the group, as the log has them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from odradek.group.consumer.member import NO_PARTITIONS, Partitions
from odradek.group.modern_member import ModernMember

__all__ = ["KnownTopic", "ShareMember", "StatePartitions"]


class ShareMember(ModernMember, frozen=True):
    """A member: its client, its subscriptions and its assignment; it has no instance id and no timeout."""

    topic_names: frozenset[str] = frozenset()
    assigned: Partitions = NO_PARTITIONS


class KnownTopic(Struct, frozen=True):
    """Partitions of a topic whose state the share coordinator has, or will have."""

    name: str
    partitions: frozenset[int]


class StatePartitions(Struct, frozen=True):
    """The progress of the share coordinator with the partitions of a group, by topic id."""

    initializing: Mapping[bytes, KnownTopic] = {}
    initialized: Mapping[bytes, KnownTopic] = {}
    deleting: Mapping[bytes, str] = {}

    def is_empty(self) -> bool:
        return not (self.initializing or self.initialized or self.deleting)
