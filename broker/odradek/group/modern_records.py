"""The records of members and targets that every newer protocol of groups has: one codec, given a protocol's messages.

Consumer groups (KIP-848), streams groups (KIP-1071) and share groups (KIP-932) all keep the epoch of their targets,
and of each member who it is, its target and what it has now. A subclass says these in the messages of its protocol.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast

from msgspec import Struct

from odradek.core.machine import LogRecord
from odradek.records.state import encode_key, encode_value

if TYPE_CHECKING:
    from odradek.group.modern import MembersAndTargets

__all__ = ["Keys", "ModernRecords", "epochs_of", "record", "written_epochs"]

VALUE_VERSION = 0
"""The version of every value of the newer protocols."""


class OfMember(Protocol):
    """A member, or the key of a record about one."""

    @property
    def member_id(self) -> str: ...


class EpochOfTargets(Protocol):
    """The epoch that all targets have, and since when (ms)."""

    @property
    def assignment_epoch(self) -> int: ...
    @property
    def assignment_timestamp(self) -> int: ...


M = TypeVar("M", bound=OfMember)
T = TypeVar("T")
N = TypeVar("N", bytes, str)
L = TypeVar("L")


class Keys(Struct, frozen=True):
    """The messages of a protocol for the keys of these records; all but the first are about a member."""

    targets: Callable[[str], Struct]
    """From the id of the group."""
    member: Callable[[str, str], Struct]
    """From the id of the group and that of the member."""
    target: Callable[[str, str], Struct]
    assignment: Callable[[str, str], Struct]


def record(key: Struct, value: Struct | None) -> LogRecord:
    """A record of a newer protocol; without a value it is a tombstone."""
    return LogRecord(encode_key(key), None if value is None else encode_value(value, VALUE_VERSION))


class ModernRecords(ABC, Generic[M, T]):
    """Writes and folds the records of members `M`, each of which has a target `T`."""

    def __init__(self, keys: Keys, epoch_of_targets: Callable[[int, int], Struct]) -> None:
        self._keys = keys
        self._epoch_of_targets = epoch_of_targets
        """The message for the epoch of the targets and its time (ms)."""
        self._folds: Mapping[object, Callable[[MembersAndTargets[M, T], str, Struct | None], None]] = {
            keys.member: self._fold_member,
            keys.target: self._fold_target,
            keys.assignment: self._fold_assignment,
        }

    # ------------------------------------------------------------------ writing

    def member_record(self, group_id: str, member: M) -> LogRecord:
        """The identity of a member, and its subscription."""
        return record(self._keys.member(group_id, member.member_id), self.description(member))

    def target_record(self, group_id: str, member_id: str, target: T) -> LogRecord:
        """The target of a member."""
        return record(self._keys.target(group_id, member_id), self.written_target(target))

    def current_record(self, group_id: str, member: M) -> LogRecord:
        """The partitions or tasks of a member, and its epoch."""
        return record(self._keys.assignment(group_id, member.member_id), self.assignment(member))

    def assignment_epoch_record(self, group_id: str, epoch: int, timestamp: int) -> LogRecord:
        """All targets are those of this epoch, since then (ms)."""
        return record(self._keys.targets(group_id), self._epoch_of_targets(epoch, timestamp))

    def member_tombstones(self, group_id: str, member_id: str) -> Iterator[LogRecord]:
        """A member is gone: first what it has, then what it shall have, then itself."""
        for key in (self._keys.assignment, self._keys.target, self._keys.member):
            yield record(key(group_id, member_id), None)

    def tombstones(self, group_id: str, members: Iterable[str], targets: Iterable[str]) -> Iterator[LogRecord]:
        """A group is gone, with these members and the targets of these; its own records are the subclass's."""
        keys, member_ids = self._keys, list(members)
        yield from (record(keys.assignment(group_id, each), None) for each in member_ids)
        yield from (record(keys.target(group_id, each), None) for each in targets)
        yield record(keys.targets(group_id), None)
        yield from (record(keys.member(group_id, each), None) for each in member_ids)

    @abstractmethod
    def description(self, member: M) -> Struct:
        """The identity of a member and its subscription, as the value of a record."""

    @abstractmethod
    def written_target(self, target: T) -> Struct:
        """The target of a member, as the value of a record."""

    @abstractmethod
    def assignment(self, member: M) -> Struct:
        """The partitions or tasks of a member and its epoch, as the value of a record."""

    # ------------------------------------------------------------------ folding

    def fold(self, group: MembersAndTargets[M, T], key: Struct, value: Struct | None) -> None:
        """Fold a record about a member or about the epoch of the targets."""
        fold = self._folds.get(type(key))
        if fold is not None:
            fold(group, cast("OfMember", key).member_id, value)
            return
        assert type(key) is self._keys.targets, f"no record of this protocol: {key}"
        targets = cast("EpochOfTargets | None", value)
        group.assignment_epoch = 0 if targets is None else targets.assignment_epoch
        group.assignment_timestamp = 0 if targets is None else targets.assignment_timestamp

    def _fold_member(self, group: MembersAndTargets[M, T], member_id: str, value: Struct | None) -> None:
        if value is None:
            group.fold_no_member(member_id)
        else:
            group.fold_member(self.described(group.members.get(member_id) or self.new_member(member_id), value))

    def _fold_target(self, group: MembersAndTargets[M, T], member_id: str, value: Struct | None) -> None:
        group.fold_target(member_id, None if value is None else self.read_target(value))

    def _fold_assignment(self, group: MembersAndTargets[M, T], member_id: str, value: Struct | None) -> None:
        if value is None:
            group.fold_no_assignment(member_id)
        else:
            group.fold_member(self.assigned(group.members.get(member_id) or self.new_member(member_id), value))

    @abstractmethod
    def new_member(self, member_id: str) -> M:
        """A member of which nothing but its id is known."""

    @abstractmethod
    def described(self, known: M, value: Struct) -> M:
        """The member, with the identity and subscription that a record says."""

    @abstractmethod
    def read_target(self, value: Struct) -> T:
        """The target of a member, read from the value of a record."""

    @abstractmethod
    def assigned(self, known: M, value: Struct) -> M:
        """The member, with the partitions or tasks and the epoch that a record says."""


# ---------------------------------------------------------------------- partitions with epochs (KIP-1251)


def written_epochs(
    partitions: Mapping[N, Mapping[int, int]], listed: Callable[[N, list[int], list[int]], L]
) -> list[L]:
    """Partitions of each topic or subtopology in order, with the epoch in which each was assigned."""
    written = []
    for name, epochs in sorted(partitions.items()):
        indexes = sorted(epochs)
        written.append(listed(name, indexes, [epochs[index] for index in indexes]))
    return written


def epochs_of(indexes: list[int], epochs: list[int] | None, member_epoch: int) -> dict[int, int]:
    """The epoch in which each partition was assigned; a record of before KIP-1251 says that of the member alone."""
    # A tagged field that is not there is the empty list.
    return dict(zip(indexes, epochs or [member_epoch] * len(indexes), strict=False))
