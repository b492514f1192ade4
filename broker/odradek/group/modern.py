"""Common to the groups of the newer protocols: members with epochs, and their targets.

Consumer groups (KIP-848) and streams groups (KIP-1071) also have static members, and members that give something up;
share groups (KIP-932) have neither. The log has all of it but the times; a subclass knows what its members hold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from odradek.group.times import Times

__all__ = [
    "FIRST_EPOCH",
    "JOINING_EPOCH",
    "LEAVING_EPOCH",
    "LEAVING_STATIC_EPOCH",
    "MembersAndTargets",
    "ModernGroup",
    "ModernMember",
]

FIRST_EPOCH = 1
"""The epoch of a new group."""
JOINING_EPOCH = 0
LEAVING_EPOCH = -1
LEAVING_STATIC_EPOCH = -2
"""The epoch of a static member that is away for a while; what it has waits for it."""


class OfAGroup(Protocol):
    """A member of any kind of group."""

    @property
    def member_id(self) -> str: ...


A = TypeVar("A", bound=OfAGroup)


class ModernMember(Protocol):
    """A member of either kind."""

    @property
    def member_id(self) -> str: ...

    @property
    def instance_id(self) -> str | None: ...

    @property
    def epoch(self) -> int: ...

    @property
    def previous_epoch(self) -> int: ...

    def is_reconciled_to(self, epoch: int) -> bool: ...


M = TypeVar("M", bound=ModernMember)
T = TypeVar("T")
K = TypeVar("K")


class MembersAndTargets(ABC, Generic[A, T]):
    """Members `A`, the target `T` of each, and the epochs of both."""

    def __init__(self, group_id: str, *, first_epoch: int = FIRST_EPOCH) -> None:
        self.group_id = group_id
        self.epoch = first_epoch
        self.metadata_hash = 0
        self.assignment_epoch = first_epoch
        self.assignment_timestamp = 0
        self.members: dict[str, A] = {}
        self.targets: dict[str, T] = {}
        self.hashed_offset: int | None = None
        """As of which metadata the hash was compared last."""

    @property
    def is_empty(self) -> bool:
        return not self.members

    @abstractmethod
    def fold_member(self, member: A) -> None:
        """A member as it is from now on."""

    @abstractmethod
    def fold_no_member(self, member_id: str) -> None:
        """It is gone, and its times with it."""

    @abstractmethod
    def fold_no_assignment(self, member_id: str) -> None:
        """The member has nothing any more: it is about to go."""

    def fold_target(self, member_id: str, target: T | None) -> None:
        """Set the target of a member; None removes it."""
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target


class ModernGroup(MembersAndTargets[M, T], Generic[M, T, K]):
    """A group of consumers or of streams; times are of a member for a reason `K`."""

    def __init__(self, group_id: str, no_target: T, *, first_epoch: int = FIRST_EPOCH) -> None:
        super().__init__(group_id, first_epoch=first_epoch)
        self._no_target = no_target
        self.static_members: dict[str, str] = {}

        self.times: Times[tuple[str, K]] = Times()
        """When the time of a member is over (ms), and which."""
        self.slow_epochs: dict[str, int] = {}
        """In which epoch a member was asked to give something up: another epoch shows that it has."""

    @property
    def is_reconciled(self) -> bool:
        """Whether every member has what it shall have."""
        return all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())

    def static_member(self, instance_id: str | None) -> M | None:
        if instance_id is None:
            return None
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def members_with(self, updated: M) -> dict[str, M]:
        """The members when this one is what it is now, and has taken the place of the static member that it was."""
        replaced = self.static_member(updated.instance_id)
        members = dict(self.members)
        if replaced is not None and replaced.member_id != updated.member_id:
            members.pop(replaced.member_id)
        members[updated.member_id] = updated
        return members

    def target_of(self, member: M) -> T:
        """The target of a member; a member that takes the place of a static member has the target of that one."""
        return self.targets.get(self._known_id(member), self._no_target)

    def has_target(self, member: M) -> bool:
        """Whether the log says what the member shall have, be it nothing."""
        return self._known_id(member) in self.targets

    def _known_id(self, member: M) -> str:
        known = self.static_member(member.instance_id)
        return member.member_id if known is None else known.member_id

    def is_slow(self, member: M) -> bool:
        """Whether it has not given up what it was asked to give up last."""
        return self.slow_epochs.get(member.member_id) == member.epoch

    def cancel(self, member_id: str, *reasons: K) -> None:
        """These times of a member do not count any more."""
        for reason in reasons:
            self.times.drop((member_id, reason))
