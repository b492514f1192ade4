"""The consumer groups of one partition of `__consumer_offsets`: what each request about one leads to.

The groups are in the coordinator's own table, beside those of the classic protocol: a group may change its protocol.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from odradek.core.machine import Answered, Decision, LogRecord, Proposed, Refused
from odradek.group.classic.group import ClassicGroup
from odradek.group.classic.states import GroupState
from odradek.group.consumer import classic_members
from odradek.group.consumer.describe import described
from odradek.group.consumer.group import ConsumerGroup, Timer
from odradek.group.consumer.heartbeat import Client, beat, dropped, leave
from odradek.group.consumer.member import JOINING_EPOCH, LEAVING_EPOCH, LEAVING_STATIC_EPOCH, MemberState
from odradek.group.consumer.migration import downgraded, may_downgrade, records_of, upgraded
from odradek.group.consumer.records import ConsumerKey, fold, group_tombstones
from odradek.group.consumer.subscriptions import Sees, resolved, resolved_records
from odradek.group.consumer.validation import refusal_of_heartbeat
from odradek.group.records import group_record, group_tombstone
from odradek.group.share.group import ShareGroup
from odradek.group.streams.group import StreamsGroup
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from odradek.wire.messages.join_group_response import JoinGroupResponse
from odradek.wire.messages.leave_group_response import LeaveGroupResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from odradek.group.consumer.settings import Surroundings
    from odradek.wire.messages.consumer_group_describe_response import DescribedGroup
    from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
    from odradek.wire.messages.heartbeat_request import HeartbeatRequest
    from odradek.wire.messages.heartbeat_response import HeartbeatResponse
    from odradek.wire.messages.join_group_request import JoinGroupRequest
    from odradek.wire.messages.leave_group_request import MemberIdentity
    from odradek.wire.messages.sync_group_request import SyncGroupRequest
    from odradek.wire.messages.sync_group_response import SyncGroupResponse

__all__ = ["ConsumerGroups", "Group"]

Group: TypeAlias = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup

LEAVING_EPOCHS = frozenset({LEAVING_EPOCH, LEAVING_STATIC_EPOCH})


class ConsumerGroups:
    """Decides about consumer groups and folds their records; `end_waits` refuses requests of classic members."""

    def __init__(
        self,
        groups: MutableMapping[str, Group],
        surroundings: Surroundings,
        end_waits: Callable[[ClassicGroup], None],
        to_begin: set[str],
    ) -> None:
        """Groups with members whose times have not been set are put into `to_begin`: `fold` does not know the time."""
        self._groups = groups
        self._to_begin = to_begin
        self._around = surroundings
        self._end_waits = end_waits
        self.to_resolve: dict[str, Sees | None] = {}
        """Groups whose patterns are to be resolved, and what the member sees who asked for it; None: everything."""
        self._successors: dict[str, tuple[ClassicGroup, bool]] = {}
        """Classic groups that consumer groups become with the next record of them, and whether they rebalance then."""

    # ------------------------------------------------------------------ ConsumerGroupHeartbeat

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        client_id: str,
        client_host: str,
        now: int,
        sees: Sees | None = None,
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        """A member joins, stays or leaves."""
        settings = self._around.settings(request.group_id)
        refusal = refusal_of_heartbeat(request, version, settings.assignors)
        if refusal is not None:
            return refusal
        if request.member_epoch in LEAVING_EPOCHS:
            return self._leave(request, now)
        if not request.member_id:
            request.member_id = self._around.member_id()
        found = self._group_for(request, now)
        if isinstance(found, Refused):
            return found
        group, records = found
        decision, resolve = beat(
            group, request, Client(client_id, client_host), topics=self._around.topics(), settings=settings, now=now
        )
        if resolve:
            self.to_resolve[group.group_id] = sees
        if not records or isinstance(decision, Refused):
            return decision
        known = self._groups.get(request.group_id)
        if isinstance(known, ClassicGroup):
            # Whoever waits for the classic group joins again, and finds what it has become.
            self._end_waits(known)
        assert isinstance(decision, Proposed), "a member that joins is told to the log"
        return Proposed((*records, *decision.records), decision.reply)

    def _group_for(
        self, request: ConsumerGroupHeartbeatRequest, now: int
    ) -> tuple[ConsumerGroup, list[LogRecord]] | Refused:
        """The group of a member; a member that joins may get a new group, with the records that end the one before."""
        group_id, joins = request.group_id, request.member_epoch == JOINING_EPOCH
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group, []
        if group is None:
            if joins:
                return self._new_group(group_id), []
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        if not joins or not isinstance(group, ClassicGroup):
            return _not_consumer(group_id)
        if group.state is GroupState.EMPTY:
            return self._new_group(group_id), [group_tombstone(group_id)]
        modern = upgraded(group, self._around.topics(), self._around.settings(group_id))
        return modern if isinstance(modern, Refused) else (modern, [group_tombstone(group_id), *records_of(modern)])

    def _new_group(self, group_id: str) -> ConsumerGroup:
        return ConsumerGroup(group_id, first_epoch=self._around.settings(group_id).first_epoch)

    def _leave(self, request: ConsumerGroupHeartbeatRequest, now: int) -> Decision[ConsumerGroupHeartbeatResponse]:
        group = self._consumer_group(request.group_id)
        if isinstance(group, Refused):
            return group
        gone = leave(group, request)
        if isinstance(gone, Refused | Proposed):
            return gone
        reply = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        return Proposed(self._drop(group, [gone.member_id], now), reply)

    def _consumer_group(self, group_id: str) -> ConsumerGroup | Refused:
        group = self._groups.get(group_id)
        if group is None:
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group if isinstance(group, ConsumerGroup) else _not_consumer(group_id)

    def _drop(self, group: ConsumerGroup, member_ids: Sequence[str], now: int) -> tuple[LogRecord, ...]:
        """Members are gone: the group moves on, or goes on as a classic one."""
        topics, settings = self._around.topics(), self._around.settings(group.group_id)
        if not may_downgrade(group, member_ids, settings, replaced=False):
            return tuple(dropped(group, member_ids, topics))
        left = [member for member in group.members.values() if member.member_id not in member_ids]
        classic = downgraded(group, left, topics, now)
        self._successors[group.group_id] = classic, True
        return *group_tombstones(group), group_record(classic, _assignments(classic))

    # ------------------------------------------------------------------ ConsumerGroupDescribe

    def describe(self, group_id: str) -> DescribedGroup | Refused:
        """The group with its members."""
        group = self._consumer_group(group_id)
        if isinstance(group, Refused):
            return group
        return described(group, self._around.settings(group_id).assignors[0], self._around.topics())

    # ------------------------------------------------------------------ the classic protocol

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, version: int, client: Client, now: int
    ) -> Decision[JoinGroupResponse]:
        """JoinGroup, to a group that has members."""
        topics, settings = self._around.topics(), self._around.settings(group.group_id)
        joined = classic_members.join(
            group,
            request,
            version,
            client,
            new_member_id=self._around.member_id(),
            topics=topics,
            settings=settings,
            now=now,
        )
        if isinstance(joined, Refused):
            # Unlike a classic group, this one does not hand back the member id of the request.
            return Answered(JoinGroupResponse(error_code=joined.error))
        if isinstance(joined, Answered):
            return joined
        if joined.resolve_patterns:
            self.to_resolve[group.group_id] = None
        if not joined.downgrades:
            return Proposed(joined.records, joined.reply) if joined.records else Answered(joined.reply)
        replaced = group.static_member(request.group_instance_id)
        assert replaced is not None, "only a static member that takes a place downgrades"
        others = [each for each in group.members.values() if each.member_id != replaced.member_id]
        classic = downgraded(group, [*others, joined.member], topics, now)
        self._successors[group.group_id] = classic, joined.rebalances
        tombstones = group_tombstones(group, {replaced.member_id: joined.member.member_id})
        return Proposed((*joined.records, *tombstones, group_record(classic, _assignments(classic))), joined.reply)

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, now: int) -> Decision[SyncGroupResponse]:
        """SyncGroup."""
        return classic_members.sync(group, request, self._around.topics(), now)

    def classic_heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, now: int
    ) -> Decision[HeartbeatResponse]:
        """Heartbeat."""
        return classic_members.heartbeat(group, request, now)

    def leave(self, group: ConsumerGroup, members: Sequence[MemberIdentity], now: int) -> Decision[LeaveGroupResponse]:
        """LeaveGroup, of members of either protocol."""
        gone, answers = classic_members.leaving(group, members)
        reply = LeaveGroupResponse(members=answers)
        return Proposed(self._drop(group, gone, now), reply) if gone else Answered(reply)

    # ------------------------------------------------------------------ time

    def begin(self, group: ConsumerGroup, now: int) -> None:
        """Set the deadlines of members that have none: after a failover, or when a group has just come."""
        session_timeout_ms = self._around.settings(group.group_id).session_timeout_ms
        for member_id, member in group.members.items():
            if (member_id, Timer.SESSION) in group.times:
                continue
            own = session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
            group.times.set((member_id, Timer.SESSION), now + own)
            if member.classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
                group.times.set((member_id, Timer.REBALANCE), now + member.rebalance_timeout_ms)
                group.slow_epochs[member_id] = member.epoch

    def advance(self, group: ConsumerGroup, now: int) -> Decision[None]:
        """Drop members whose time is over."""
        gone: dict[str, None] = {}
        for member_id, timer in group.times.over(now):
            member = group.members.get(member_id)
            if member is not None and (timer is not Timer.REBALANCE or group.is_slow(member)):
                gone[member_id] = None
        if not gone:
            return Answered(None)
        return Proposed(self._drop(group, list(gone), now), None)

    def resolve(self, group_id: str, now: int) -> Decision[None]:
        """Resolve the patterns of a group."""
        sees = self.to_resolve.pop(group_id, None)
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return Answered(None)
        topics = self._around.topics()
        records = resolved_records(group, resolved(sorted(group.pattern_counts), topics, now, sees), topics)
        return Proposed(tuple(records), None) if records else Answered(None)

    # ------------------------------------------------------------------ the log

    def fold(self, group_id: str, key: ConsumerKey, value: msgspec.Struct | None) -> None:
        """One record of a consumer group."""
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                # What is left of a group that has become a classic one, or is gone.
                return
            group = self._groups[group_id] = ConsumerGroup(group_id)
            self._to_begin.add(group_id)
        if not fold(group, key, value):
            del self._groups[group_id]

    def successor(self, group_id: str) -> tuple[ClassicGroup, bool] | None:
        """The classic group that a consumer group was to become with the record that is folded now."""
        return self._successors.pop(group_id, None)


def _not_consumer(group_id: str) -> Refused:
    return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


def _assignments(classic: ClassicGroup) -> dict[str, bytes]:
    return {member_id: member.assignment for member_id, member in classic.members.items()}
