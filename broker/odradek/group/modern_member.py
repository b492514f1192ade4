"""The members of groups of the newer protocols, as far as they are alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import TypeVar

from msgspec import Struct

__all__ = [
    "FIRST_EPOCH",
    "JOINING_EPOCH",
    "LEAVING_EPOCH",
    "LEAVING_STATIC_EPOCH",
    "Client",
    "MemberState",
    "ModernMember",
    "in_order",
    "is_blank",
    "listed",
]

N = TypeVar("N", bytes, str)
L = TypeVar("L")

FIRST_EPOCH = 1
"""The epoch of a new group."""
JOINING_EPOCH = 0
LEAVING_EPOCH = -1
LEAVING_STATIC_EPOCH = -2
"""The epoch of a static member that is away for a while; its target and its partitions wait for it."""


class Client(Struct, frozen=True):
    """The client that sent a request."""

    id: str
    host: str


class MemberState(IntEnum):
    """How far a member is from its target; streams groups number the first three from 1 in the log."""

    STABLE = 0
    UNREVOKED = 1
    """It has been asked to give up partitions or tasks, and has not said that it has."""
    UNRELEASED = 2
    """Others have not given up the partitions or tasks that it shall have."""
    UNKNOWN = 127


class ModernMember(Struct, frozen=True):
    """The identity of a member and its progress; a subclass adds its subscription, and its partitions or tasks."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH
    state: MemberState = MemberState.STABLE

    @property
    def speaks_classic(self) -> bool:
        """Whether it uses the classic protocol, which only a consumer group lets it do."""
        return False


def listed(partitions: Mapping[N, Iterable[int]], make: Callable[[N, list[int]], L]) -> list[L]:
    """Partitions of each topic or subtopology, as messages and records list them."""
    return [make(name, sorted(indexes)) for name, indexes in partitions.items()]


def in_order(partitions: Mapping[N, Iterable[int]]) -> dict[N, Iterable[int]]:
    """The same partitions, sorted by topic or subtopology."""
    return dict(sorted(partitions.items()))


def is_blank(name: str | None) -> bool:
    """Whether a name is given and says nothing: Kafka trims names before it looks at them."""
    return name is not None and not name.strip()
