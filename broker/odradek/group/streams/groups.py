"""The streams groups of one partition of `__consumer_offsets`: what each request about one leads to.

The groups are in the coordinator's own table, beside those of the other protocols.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from odradek.core.machine import Answered, Decision, LogRecord, Proposed, Refused
from odradek.group.classic.group import ClassicGroup
from odradek.group.classic.states import GroupState
from odradek.group.records import group_tombstone
from odradek.group.refusals import fenced, unknown_instance, unknown_member
from odradek.group.streams.describe import described
from odradek.group.streams.group import StreamsGroup, Timer
from odradek.group.streams.heartbeat import Beat, beat, initial_targets
from odradek.group.streams.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    LEAVING_STATIC_EPOCH,
    MemberState,
    StreamsMember,
)
from odradek.group.streams.records import (
    StreamsKey,
    assignment_epoch_record,
    current_record,
    epoch_record,
    fold,
    group_tombstones,
    member_tombstones,
)
from odradek.group.streams.tasks import NO_HELD_TASKS, HeldTasks
from odradek.group.streams.validation import refusal_of_heartbeat
from odradek.records.state import GROUP_RECORDS, Unknown, decode_record
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse

if TYPE_CHECKING:
    from odradek.group.consumer.groups import Group
    from odradek.group.consumer.heartbeat import Client
    from odradek.group.consumer.settings import Surroundings
    from odradek.wire.messages.streams_group_describe_response import DescribedGroup
    from odradek.wire.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest

__all__ = ["StreamsGroups"]

LEAVING_EPOCHS = frozenset({LEAVING_EPOCH, LEAVING_STATIC_EPOCH})


class StreamsGroups:
    """Decides about streams groups and folds their records."""

    def __init__(self, groups: MutableMapping[str, Group], surroundings: Surroundings, to_begin: set[str]) -> None:
        """Groups with members whose times have not been set are put into `to_begin`: `fold` does not know the time."""
        self._groups = groups
        self._to_begin = to_begin
        self._around = surroundings
        self._first_assignments: dict[str, int] = {}
        """When the first assignment is due (ms) of groups that the log does not know yet."""

    # ------------------------------------------------------------------ StreamsGroupHeartbeat

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, version: int, client: Client, now: int
    ) -> Decision[Beat]:
        """A member joins, stays or leaves."""
        refusal = refusal_of_heartbeat(request)
        if refusal is not None:
            return refusal
        if request.member_epoch in LEAVING_EPOCHS:
            return self._leave(request)
        group_id = request.group_id
        found = self._group_for(group_id, joins=request.member_epoch == JOINING_EPOCH)
        if isinstance(found, Refused):
            return found
        group, records = found
        is_new = group is not self._groups.get(group_id)
        decision = beat(
            group,
            request,
            client,
            version=version,
            topics=self._around.topics(),
            settings=self._around.streams(group_id),
            is_new=is_new,
            now=now,
        )
        if not is_new or isinstance(decision, Refused):
            return decision
        assert isinstance(decision, Proposed), "a member that joins is told to the log"
        due = group.times.get(("", Timer.INITIAL))
        if due is not None:
            self._first_assignments[group_id] = due
        return Proposed((*records, *decision.records), decision.reply)

    def _group_for(self, group_id: str, *, joins: bool) -> tuple[StreamsGroup, list[LogRecord]] | Refused:
        """The group of a member; who joins also gets a new one, with the end of an empty classic group before it."""
        group = self._groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group, []
        if group is None:
            if joins:
                return StreamsGroup(group_id), []
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
        if joins and isinstance(group, ClassicGroup) and group.state is GroupState.EMPTY:
            return StreamsGroup(group_id), [group_tombstone(group_id)]
        return _not_streams(group_id)

    def _streams_group(self, group_id: str) -> StreamsGroup | Refused:
        group = self._groups.get(group_id)
        if group is None:
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group if isinstance(group, StreamsGroup) else _not_streams(group_id)

    def _leave(self, request: StreamsGroupHeartbeatRequest) -> Decision[Beat]:
        group = self._streams_group(request.group_id)
        if isinstance(group, Refused):
            return group
        if request.shutdown_application and group.shutdown_by is None:
            group.shutdown_by = request.member_id
        instance_id, member_id = request.instance_id, request.member_id
        member = group.members.get(member_id) if instance_id is None else group.static_member(instance_id)
        if member is None:
            return unknown_member(group.group_id, member_id) if instance_id is None else unknown_instance(instance_id)
        if instance_id is not None:
            refusal = fenced(member, member_id, instance_id)
            if refusal is not None:
                return refusal
        epoch = request.member_epoch
        reply = Beat(StreamsGroupHeartbeatResponse(member_id=member.member_id, member_epoch=epoch, status=[]))
        if epoch == LEAVING_STATIC_EPOCH and instance_id is not None:
            return Proposed((current_record(group.group_id, _away(member)),), reply)
        return Proposed(tuple(_dropped(group, [member.member_id])), reply)

    # ------------------------------------------------------------------ StreamsGroupDescribe

    def describe(self, group_id: str) -> DescribedGroup | Refused:
        """The group with its members and its topology."""
        group = self._streams_group(group_id)
        if isinstance(group, Refused):
            return group
        return described(group, self._around.streams(group_id).assignor)

    # ------------------------------------------------------------------ time

    def begin(self, group: StreamsGroup, now: int) -> None:
        """Set the deadlines of members that have none: after a failover, or when a group has just come."""
        session_timeout_ms = self._around.streams(group.group_id).session_timeout_ms
        for member_id, member in group.members.items():
            if (member_id, Timer.SESSION) in group.times:
                continue
            group.times.set((member_id, Timer.SESSION), now + session_timeout_ms)
            if member.state is MemberState.UNREVOKED_TASKS:
                group.times.set((member_id, Timer.REBALANCE), now + member.rebalance_timeout_ms)
                group.slow_epochs[member_id] = member.epoch

    def advance(self, group: StreamsGroup, now: int) -> Decision[None]:
        """Drop members whose time is over, and make the first assignment when its time has come."""
        records: list[LogRecord] = []
        gone: dict[str, None] = {}
        for member_id, timer in group.times.over(now):
            if timer is Timer.INITIAL:
                records += initial_targets(group, self._around.streams(group.group_id), now)
                continue
            member = group.members.get(member_id)
            if member is not None and (timer is Timer.SESSION or group.is_slow(member)):
                gone[member_id] = None
        if gone:
            records += _dropped(group, gone)
        return Proposed(tuple(records), None) if records else Answered(None)

    # ------------------------------------------------------------------ the log

    def tombstones(self, group: StreamsGroup) -> list[LogRecord]:
        """There is no such group any more."""
        return group_tombstones(group)

    def apply(self, data: bytes, value: bytes | None) -> str | None:
        """One record about a streams group, and which; one that a later release has written is passed over."""
        key, decoded = decode_record(GROUP_RECORDS, data, value)
        if not isinstance(key, StreamsKey) or isinstance(decoded, Unknown):
            return None
        self._fold(key.group_id, key, decoded)
        return key.group_id

    def _fold(self, group_id: str, key: StreamsKey, value: msgspec.Struct | None) -> None:
        group = self._groups.get(group_id)
        if not isinstance(group, StreamsGroup):
            if value is None:
                # What is left of a group that is gone.
                return
            group = self._groups[group_id] = StreamsGroup(group_id)
            due = self._first_assignments.pop(group_id, None)
            if due is not None:
                group.times.set(("", Timer.INITIAL), due)
            self._to_begin.add(group_id)
        if not fold(group, key, value):
            del self._groups[group_id]


def _not_streams(group_id: str) -> Refused:
    return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")


def _away(member: StreamsMember) -> StreamsMember:
    """A static member that goes for a while. Whoever takes its place may commit for its tasks from epoch 0 on."""
    assigned = member.assigned
    active = {name: dict.fromkeys(epochs, JOINING_EPOCH) for name, epochs in assigned.active.items()}
    return replace(
        member,
        epoch=LEAVING_STATIC_EPOCH,
        assigned=HeldTasks(active, assigned.standby, assigned.warmup),
        revoking=NO_HELD_TASKS,
    )


def _dropped(group: StreamsGroup, member_ids: Iterable[str]) -> list[LogRecord]:
    """The records for members that are gone; the group moves to its next epoch."""
    gone = dict.fromkeys(member_ids)
    records = [record for member_id in gone for record in member_tombstones(group.group_id, member_id)]
    epoch = group.epoch + 1
    records.append(
        epoch_record(
            group,
            epoch,
            metadata_hash=group.metadata_hash,
            validated_topology_epoch=group.validated_topology_epoch,
            assignment_configs=group.assignment_configs,
        )
    )
    if len(gone) == len(group.members):
        records.append(assignment_epoch_record(group.group_id, epoch, 0))
    return records
