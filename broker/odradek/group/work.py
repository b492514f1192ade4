"""The works that a group coordinator owes; its broker carries them out."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from msgspec import Struct

__all__ = ["ExpireOffsets", "GroupDue", "InitializeShares", "ResolvePatterns", "Work"]


class GroupDue(Struct, frozen=True):
    """Time has come for something in this group: a session, a rebalance, its first record."""

    group_id: str

    @property
    def key(self) -> Hashable:
        return self.group_id


class ExpireOffsets(Struct, frozen=True):
    """Offsets and empty groups are to be looked through for what has expired."""

    @property
    def key(self) -> Hashable:
        return ExpireOffsets


class ResolvePatterns(Struct, frozen=True):
    """The topics that the patterns of this group match are to be found (KIP-848)."""

    group_id: str

    @property
    def key(self) -> Hashable:
        return ResolvePatterns, self.group_id


class InitializeShares(Struct, frozen=True):
    """Initialize new partitions of this share group at the share coordinator (KIP-932)."""

    group_id: str

    @property
    def key(self) -> Hashable:
        return InitializeShares, self.group_id


Work: TypeAlias = GroupDue | ExpireOffsets | ResolvePatterns | InitializeShares
