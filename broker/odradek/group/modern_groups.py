"""The groups of one newer protocol in one partition of `__consumer_offsets`: effects of requests, time and the log.

They are in the coordinator's own table, beside those of the other protocols: a group may change its protocol.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import astuple

from odradek.core.machine import Answered, Decision, LogRecord, Proposed, Refused
from odradek.group.classic.group import ClassicGroup
from odradek.group.classic.states import GroupState
from odradek.group.consumer.group import ConsumerGroup
from odradek.group.modern import Timer
from odradek.group.modern_member import LEAVING_EPOCH, LEAVING_STATIC_EPOCH, MemberState
from odradek.group.records import group_tombstone
from odradek.group.share.group import ShareGroup
from odradek.group.streams.group import StreamsGroup
from odradek.group.which_member import known_member
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.group.modern_member import ModernMember
    from odradek.group.surroundings import ModernSettings, Surroundings

__all__ = ["LEAVING_EPOCHS", "Group", "ModernGroups"]

Group: TypeAlias = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup
LEAVING_EPOCHS = frozenset({LEAVING_EPOCH, LEAVING_STATIC_EPOCH})

G = TypeVar("G", ConsumerGroup, ShareGroup, StreamsGroup)
R = TypeVar("R")


class ModernGroups(ABC, Generic[G]):
    """Decides about the groups of a newer protocol, and folds their records."""

    def __init__(
        self, kind: type[G], groups: MutableMapping[str, Group], surroundings: Surroundings, to_begin: set[str]
    ) -> None:
        """Groups with members whose times have not been set are put into `to_begin`: `fold` does not know the time."""
        self._kind: type[G] = kind
        self._groups = groups
        self._around = surroundings
        self._to_begin = to_begin

    @abstractmethod
    def settings(self, group_id: str) -> ModernSettings:
        """The settings of a group as of now."""

    def found(self, group_id: str) -> G | Refused:
        """The group of this id, if it is one of this protocol."""
        group = self._groups.get(group_id)
        if group is None:
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group if isinstance(group, self._kind) else self._other(group_id)

    def _group_for(self, group_id: str, *, joins: bool) -> tuple[G, list[LogRecord]] | Refused:
        """The group of a member; a member that joins may get a new group, with the records that end the one before."""
        group = self._groups.get(group_id)
        if isinstance(group, self._kind):
            return group, []
        if group is None:
            if joins:
                return self._new(group_id), []
            name = self._kind.kind.capitalize()
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"{name} group {group_id} not found.")
        return self._in_place_of(group) if joins and isinstance(group, ClassicGroup) else self._other(group_id)

    def _in_place_of(self, group: ClassicGroup) -> tuple[G, list[LogRecord]] | Refused:
        """A new group in place of an empty classic one, which ends with it."""
        if group.state is not GroupState.EMPTY:
            return self._other(group.group_id)
        return self._new(group.group_id), [group_tombstone(group.group_id)]

    def _new(self, group_id: str) -> G:
        return self._kind(group_id)

    def _other(self, group_id: str) -> Refused:
        return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {self._kind.kind} group.")

    def _leave(self, group: G, member_id: str, instance_id: str | None, epoch: int, now: int, reply: R) -> Decision[R]:
        """A member goes, for good or, a static one, for a while."""
        member = known_member(group, member_id, instance_id)
        if isinstance(member, Refused):
            return member
        if epoch == LEAVING_STATIC_EPOCH and instance_id is not None:
            return Proposed((group.records.current_record(group.group_id, group.away(member)),), reply)
        return Proposed(self._drop(group, [member.member_id], now), reply)

    def _drop(self, group: G, member_ids: Iterable[str], now: int) -> tuple[LogRecord, ...]:
        """Members are gone: the group moves to its next epoch."""
        gone = dict.fromkeys(member_ids)
        records = [record for each in gone for record in group.records.member_tombstones(group.group_id, each)]
        records += self._moved_on_without(group, gone)
        if len(gone) == len(group.members):
            records.append(group.records.assignment_epoch_record(group.group_id, group.epoch + 1, 0))
        return tuple(records)

    @abstractmethod
    def _moved_on_without(self, group: G, gone: Mapping[str, None]) -> list[LogRecord]:
        """The records of the next epoch of the group, which these members have left."""

    def begin(self, group: G, now: int) -> None:
        """Set the deadlines of members that have none: after a failover, or when a group has just come."""
        settings = self.settings(group.group_id)
        for member_id, member in group.members.items():
            if (member_id, Timer.SESSION) not in group.times:
                stepped = member.state is MemberState.UNREVOKED and not member.speaks_classic
                group.begin_session(member, self._session_ms(member, settings), now, stepped=stepped)

    def _session_ms(self, member: ModernMember, settings: ModernSettings) -> int:
        return settings.session_timeout_ms

    def advance(self, group: G, now: int) -> Decision[None]:
        """Drop members whose time is over."""
        records: list[LogRecord] = []
        gone: dict[str, None] = {}
        for member_id, timer in group.times.over(now):
            member = group.members.get(member_id)
            if timer is Timer.INITIAL:
                records += self._first_assignment(group, now)
            elif member is not None and (timer is not Timer.REBALANCE or group.is_slow(member)):
                gone[member_id] = None
        if gone:
            records += self._drop(group, gone, now)
        return Proposed(tuple(records), None) if records else Answered(None)

    def _first_assignment(self, group: G, now: int) -> list[LogRecord]:
        """The records of the first targets, where members are given time to come before it."""
        return []

    def fold(self, key: Struct, value: Struct | None, *, loading: bool) -> str:
        """Fold one record about a group, and return its id; `loading`: the coordinator has served nobody yet."""
        group_id: str = astuple(key)[0]
        group = self._groups.get(group_id)
        if not isinstance(group, self._kind):
            if value is None:
                # Left of a group that is gone, or that has become one of another protocol.
                return group_id
            group = self._groups[group_id] = self._kind(group_id)
            self._to_begin.add(group_id)
            self._has_come(group)
        if not group.fold(key, value):
            del self._groups[group_id]
            self._has_gone(group_id)
        return group_id

    def _has_come(self, group: G) -> None:
        """The log has its first record of a group."""

    def _has_gone(self, group_id: str) -> None:
        """The log has the last record of a group."""
