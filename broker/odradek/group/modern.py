"""A group of a newer protocol: a fold over its records, and the times of its members beside them.

Consumer groups (KIP-848) and streams groups (KIP-1071) also have static members, and members that give something up;
share groups (KIP-932) have neither. Times are volatile: a coordinator that takes over sets them anew.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, cast

from msgspec import Struct
from msgspec.structs import astuple, replace

from odradek.core.machine import LogRecord
from odradek.group.modern_member import FIRST_EPOCH, LEAVING_EPOCH, MemberState, ModernMember
from odradek.group.modern_records import ModernRecords
from odradek.group.times import Times

if TYPE_CHECKING:
    from odradek.wire.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue as EpochOfGroup
    from odradek.wire.messages.consumer_group_target_assignment_metadata_value import (
        ConsumerGroupTargetAssignmentMetadataValue as EpochOfTargets,
    )

__all__ = ["ModernGroup", "Timer"]


class Timer(Enum):
    """The reasons for a deadline of a member; INITIAL is one of the group itself, under the member ""."""

    SESSION = "it was silent"
    REBALANCE = "it did not give up its partitions or tasks"
    JOIN = "it did not join again, in the classic protocol"
    SYNC = "it did not ask for its partitions, in the classic protocol"
    INITIAL = "members had time to come before the first assignment"


M = TypeVar("M", bound=ModernMember)
T = TypeVar("T")


class ModernGroup(ABC, Generic[M, T]):
    """Members `M`, the target `T` of each, and the epochs of both."""

    kind: ClassVar[str]
    """Its type, as clients and sentences call it."""
    nothing: ClassVar[Mapping[str, object]]
    """The fields of a member that has no partitions or tasks."""
    one_instance: ClassVar[bool] = False
    """Whether a member that comes under another instance id gives up the one before."""

    def __init__(
        self, group_id: str, records: ModernRecords[M, T], no_target: T, *, first_epoch: int = FIRST_EPOCH
    ) -> None:
        self.group_id = group_id
        self.records = records
        self.epoch = first_epoch
        self.metadata_hash = 0
        self.assignment_epoch = first_epoch
        self.assignment_timestamp = 0
        self.members: dict[str, M] = {}
        self.targets: dict[str, T] = {}
        self.static_members: dict[str, str] = {}
        self._no_target = no_target

        self.hashed_offset: int | None = None
        """As of which metadata the hash was compared last."""
        self.times: Times[tuple[str, Timer]] = Times()
        """When the time of a member is over (ms), and which."""
        self.slow_epochs: dict[str, int] = {}
        """In which epoch a member was asked to give something up: another epoch shows that it has."""

    @property
    @abstractmethod
    def state(self) -> Enum:
        """Derived from the epochs and the members."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may be reading this topic."""

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_reconciled(self) -> bool:
        """Whether every member has what it shall have."""
        return not self.behind()

    def behind(self) -> list[str]:
        """The members that do not have their target yet."""
        epoch = self.assignment_epoch
        return [member_id for member_id, member in self.members.items() if not self.has_reached(member, epoch)]

    def has_reached(self, member: M, epoch: int) -> bool:
        """Whether a member has its target of this epoch."""
        return member.state is MemberState.STABLE and member.epoch == epoch

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

    def is_slow(self, member: ModernMember) -> bool:
        """Whether it still has to confirm the last revocation."""
        return self.slow_epochs.get(member.member_id) == member.epoch

    def is_assigned_too_early(self, interval_ms: int, now: int) -> bool:
        """Whether the time between two assignments is not over (KIP-1263)."""
        last = self.assignment_timestamp
        return bool(last) and bool(interval_ms) and now < last + interval_ms

    def away(self, member: M) -> M:
        """A static member that goes for a while."""
        raise AssertionError(f"a {self.kind} group has no static members")

    def durable_state(self) -> tuple[object, ...]:
        """The state that follows from the log alone."""
        epochs = self.epoch, self.metadata_hash, self.assignment_epoch, self.assignment_timestamp
        return epochs, dict(self.members), dict(self.targets)

    def begin_session(self, member: M, session_timeout_ms: int, now: int, *, stepped: bool = True) -> None:
        """A member lives; where it has `stepped` towards its target it may have to give something up in time."""
        self.times.set((member.member_id, Timer.SESSION), now + session_timeout_ms)
        if not stepped:
            return
        if member.state is MemberState.UNREVOKED and not member.speaks_classic:
            self.times.set((member.member_id, Timer.REBALANCE), now + member.rebalance_timeout_ms)
            self.slow_epochs[member.member_id] = member.epoch
        else:
            self.cancel(member.member_id, Timer.REBALANCE)

    def cancel(self, member_id: str, *reasons: Timer) -> None:
        """These times of a member do not count any more."""
        for reason in reasons:
            self.times.drop((member_id, reason))

    def target_records(
        self, members: Mapping[str, M], targets: Mapping[str, T], epoch: int, now: int
    ) -> list[LogRecord]:
        """New targets of these members, as far as they differ from those before, and their epoch."""
        records = [
            self.records.target_record(self.group_id, member_id, target)
            for member_id, target in targets.items()
            if target != self.target_of(members[member_id]) or not self.has_target(members[member_id])
        ]
        return [*records, self.records.assignment_epoch_record(self.group_id, epoch, now)]

    def tombstones(self, replaced: Mapping[str, str] | None = None) -> list[LogRecord]:
        """There is no such group any more; `replaced` has the ids under which records already name other members."""
        names = replaced or {}
        members, targets = ([names.get(each, each) for each in known] for known in (self.members, self.targets))
        return [*self.records.tombstones(self.group_id, members, targets, self._own_tombstones())]

    def _own_tombstones(self) -> Iterator[LogRecord]:
        """The end of records about something else in the group."""
        return iter(())

    def fold(self, key: Struct, value: Struct | None) -> bool:
        """Fold a record about this group; whether the group is still there after it."""
        kind, about = self.records.kind_of(key), astuple(key)[-1]
        match kind:
            case "Metadata":
                if value is None:
                    return False
                self._fold_metadata(value)
            case "MemberMetadata" if value is None:
                self.fold_no_member(about)
            case "MemberMetadata" if value is not None:
                self.fold_member(replace(self._known(about), **self.records.read_member(value)))
            case "TargetAssignmentMember":
                self.fold_target(about, None if value is None else self.records.read_target(value))
            case "CurrentMemberAssignment" if value is None:
                self._fold_no_assignment(about)
            case "CurrentMemberAssignment" if value is not None:
                self.fold_member(replace(self._known(about), **self.records.read_current(value)))
            case "TargetAssignmentMetadata":
                targets = cast("EpochOfTargets | None", value)
                self.assignment_epoch = 0 if targets is None else targets.assignment_epoch
                self.assignment_timestamp = 0 if targets is None else targets.assignment_timestamp
            case _:
                self._folds[kind](value, about)
        return True

    @property
    def _folds(self) -> Mapping[str, Callable[..., None]]:
        """How the other kinds of record are folded: from the value, and the last field of the key."""
        return {}

    def _fold_metadata(self, value: Struct) -> None:
        metadata = cast("EpochOfGroup", value)
        self.epoch, self.metadata_hash = metadata.epoch, metadata.metadata_hash

    def _known(self, member_id: str) -> M:
        return self.members.get(member_id) or self.records.new_member(member_id)

    def fold_member(self, member: M) -> None:
        """A member as it is from now on."""
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if self.one_instance and before is not None and before.instance_id is not None:
            self.static_members.pop(before.instance_id, None)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._replaced(before, member)

    def fold_no_member(self, member_id: str) -> None:
        """It is gone, and its times with it."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._replaced(member, None)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]
        self.cancel(member_id, *Timer)
        self.slow_epochs.pop(member_id, None)

    def _fold_no_assignment(self, member_id: str) -> None:
        """The member has nothing any more: it is about to go."""
        member = self.members.get(member_id)
        if member is not None:
            gone = replace(member, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, state=MemberState.STABLE)
            self.fold_member(replace(gone, **self.nothing))

    def fold_target(self, member_id: str, target: T | None) -> None:
        """Set the target of a member; None removes it."""
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target

    def _replaced(self, before: M | None, after: M | None) -> None:
        """Keep up with a member that has come, changed or gone, in what is derived from the members."""
