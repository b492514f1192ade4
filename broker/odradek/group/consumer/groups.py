"""The consumer groups of one partition of `__consumer_offsets`: the decisions about requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING

from odradek.core.machine import Answered, Decision, LogRecord, Proposed, Refused
from odradek.group.classic.group import ClassicGroup
from odradek.group.classic.states import GroupState
from odradek.group.consumer import classic_members
from odradek.group.consumer.describe import described
from odradek.group.consumer.group import ConsumerGroup
from odradek.group.consumer.heartbeat import beat, refusal_of_heartbeat
from odradek.group.consumer.member import ConsumerMember
from odradek.group.consumer.migration import downgraded, may_downgrade, records_of, upgraded
from odradek.group.consumer.subscriptions import Sees, resolved, resolved_records
from odradek.group.consumer.topics import metadata_hash
from odradek.group.modern_groups import LEAVING_EPOCHS, Group, ModernGroups
from odradek.group.modern_member import JOINING_EPOCH
from odradek.group.records import group_record, group_tombstone
from odradek.wire.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from odradek.wire.messages.join_group_response import JoinGroupResponse
from odradek.wire.messages.leave_group_response import LeaveGroupResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from odradek.group.modern_member import Client, ModernMember
    from odradek.group.surroundings import ConsumerSettings, ModernSettings, Surroundings
    from odradek.wire.messages.consumer_group_describe_response import DescribedGroup
    from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
    from odradek.wire.messages.heartbeat_request import HeartbeatRequest
    from odradek.wire.messages.heartbeat_response import HeartbeatResponse
    from odradek.wire.messages.join_group_request import JoinGroupRequest
    from odradek.wire.messages.leave_group_request import MemberIdentity
    from odradek.wire.messages.sync_group_request import SyncGroupRequest
    from odradek.wire.messages.sync_group_response import SyncGroupResponse

__all__ = ["ConsumerGroups"]


class ConsumerGroups(ModernGroups[ConsumerGroup]):
    """Decides about consumer groups and folds their records; `end_waits` refuses requests of classic members."""

    def __init__(
        self,
        groups: MutableMapping[str, Group],
        surroundings: Surroundings,
        to_begin: set[str],
        end_waits: Callable[[ClassicGroup], None],
    ) -> None:
        super().__init__(ConsumerGroup, groups, surroundings, to_begin)
        self._end_waits = end_waits
        self.to_resolve: dict[str, Sees | None] = {}
        """Groups with patterns to resolve, and the topics visible to the member that asked; None: all topics."""
        self._successors: dict[str, tuple[ClassicGroup, bool]] = {}
        """Classic groups that will replace consumer groups with their next record, and whether they rebalance then."""

    def settings(self, group_id: str) -> ConsumerSettings:
        return self._around.consumer(group_id)

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, version: int, client: Client, now: int, sees: Sees | None = None
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        """ConsumerGroupHeartbeat."""
        group_id, epoch = request.group_id, request.member_epoch
        settings, topics = self._around.consumer(group_id), self._around.topics()
        refusal = refusal_of_heartbeat(request, version, settings.assignors)
        if refusal is not None:
            return refusal
        if epoch in LEAVING_EPOCHS:
            leaving = self.found(group_id)
            if isinstance(leaving, Refused):
                return leaving
            reply = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=epoch)
            return self._leave(leaving, request.member_id, request.instance_id, epoch, now, reply)
        if not request.member_id:
            request.member_id = self._around.member_id()
        group, records = self._groups.get(group_id), list[LogRecord]()
        if not isinstance(group, ConsumerGroup):
            found = self._group_for(group_id, joins=epoch == JOINING_EPOCH)
            if isinstance(found, Refused):
                return found
            group, records = found
        decision, resolve = beat(group, request, client, topics=topics, settings=settings, now=now)
        if resolve:
            self.to_resolve[group_id] = sees
        if not records or isinstance(decision, Refused):
            return decision
        known = self._groups.get(group_id)
        if isinstance(known, ClassicGroup):
            # Whoever waits for the classic group joins again, and finds what it has become.
            self._end_waits(known)
        assert isinstance(decision, Proposed), "the log has a record of a member that joins"
        return Proposed((*records, *decision.records), decision.reply)

    def _new(self, group_id: str) -> ConsumerGroup:
        return ConsumerGroup(group_id, first_epoch=self._around.consumer(group_id).first_epoch)

    def _in_place_of(self, group: ClassicGroup) -> tuple[ConsumerGroup, list[LogRecord]] | Refused:
        if group.state is GroupState.EMPTY:
            return super()._in_place_of(group)
        modern = upgraded(group, self._around.topics(), self._around.consumer(group.group_id))
        if isinstance(modern, Refused):
            return modern
        return modern, [group_tombstone(group.group_id), *records_of(modern)]

    def _drop(self, group: ConsumerGroup, member_ids: Iterable[str], now: int) -> tuple[LogRecord, ...]:
        """Remove members: the group moves to its next epoch, or goes on as a classic one."""
        gone = list(member_ids)
        if not may_downgrade(group, gone, self._around.consumer(group.group_id), replaced=False):
            return super()._drop(group, gone, now)
        left = [member for member in group.members.values() if member.member_id not in gone]
        return (*group.tombstones(), self._become_classic(group, left, now, rebalances=True))

    def _moved_on_without(self, group: ConsumerGroup, gone: Mapping[str, None]) -> list[LogRecord]:
        left = [member for member_id, member in group.members.items() if member_id not in gone]
        still_subscribed = {member.pattern for member in left}
        patterns = {pattern for each in gone if (pattern := group.members[each].pattern)} - still_subscribed
        records = [group.pattern_record(pattern, None) for pattern in sorted(patterns)]
        new_hash = metadata_hash(group.subscribed_topics(left), self._around.topics())
        return [*records, group.records.epoch_record(group.group_id, group.epoch + 1, new_hash)]

    def _become_classic(
        self, group: ConsumerGroup, members: Iterable[ConsumerMember], now: int, *, rebalances: bool
    ) -> LogRecord:
        """The record of the classic group that replaces a consumer group."""
        classic = downgraded(group, members, self._around.topics(), now)
        self._successors[group.group_id] = classic, rebalances
        return group_record(classic, {member_id: each.assignment for member_id, each in classic.members.items()})

    def describe(self, group_id: str) -> DescribedGroup | Refused:
        group = self.found(group_id)
        if isinstance(group, Refused):
            return group
        return described(group, self._around.consumer(group_id).assignors[0], self._around.topics())

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, version: int, client: Client, now: int
    ) -> Decision[JoinGroupResponse]:
        """JoinGroup to a group with members."""
        topics, settings = self._around.topics(), self._around.consumer(group.group_id)
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
        tombstones = group.tombstones({replaced.member_id: joined.member.member_id})
        classic = self._become_classic(group, [*others, joined.member], now, rebalances=joined.rebalances)
        return Proposed((*joined.records, *tombstones, classic), joined.reply)

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, now: int) -> Decision[SyncGroupResponse]:
        return classic_members.sync(group, request, self._around.topics(), now)

    def classic_heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, now: int
    ) -> Decision[HeartbeatResponse]:
        return classic_members.heartbeat(group, request, now)

    def leave(self, group: ConsumerGroup, members: Sequence[MemberIdentity], now: int) -> Decision[LeaveGroupResponse]:
        """LeaveGroup of members of either protocol."""
        gone, answers = classic_members.leaving(group, members)
        reply = LeaveGroupResponse(members=answers)
        return Proposed(self._drop(group, gone, now), reply) if gone else Answered(reply)

    def _session_ms(self, member: ModernMember, settings: ModernSettings) -> int:
        classic = None if not isinstance(member, ConsumerMember) else member.classic
        return settings.session_timeout_ms if classic is None else classic.session_timeout_ms

    def resolve(self, group_id: str, now: int) -> Decision[None]:
        sees = self.to_resolve.pop(group_id, None)
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return Answered(None)
        topics = self._around.topics()
        records = resolved_records(group, resolved(sorted(group.pattern_counts), topics, now, sees), topics)
        return Proposed(tuple(records), None) if records else Answered(None)

    def successor(self, group_id: str) -> tuple[ClassicGroup, bool] | None:
        """The classic group that the record that is being folded was to create."""
        return self._successors.pop(group_id, None)
