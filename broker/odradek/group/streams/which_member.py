"""Which member of a streams group a heartbeat is of, and whether it may speak for it: epochs, and static members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from odradek.core.machine import LogRecord, Refused
from odradek.group.refusals import fenced, refusal_of_epoch, unknown_instance, unknown_member, unreleased
from odradek.group.streams.member import JOINING_EPOCH, LEAVING_STATIC_EPOCH, StreamsMember
from odradek.group.streams.records import current_record, member_record, member_tombstones, target_record
from odradek.group.streams.tasks import NO_TASKS, contains

if TYPE_CHECKING:
    from collections.abc import Container

    from odradek.group.streams.group import StreamsGroup
    from odradek.wire.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest, TaskIds

__all__ = ["Found", "member_of"]


class Found(Struct, frozen=True):
    """The member that a request is about, as it was, and the records of a static member that it takes the place of."""

    member: StreamsMember
    records: tuple[LogRecord, ...] = ()
    replaced: StreamsMember | None = None


def member_of(group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> Found | Refused:
    """The member of a heartbeat that does not leave, or a new one."""
    joins = request.member_epoch == JOINING_EPOCH
    if request.instance_id is not None:
        return _static_member(group, request, request.instance_id, joins=joins)
    member = group.members.get(request.member_id)
    if member is None:
        return Found(StreamsMember(request.member_id)) if joins else unknown_member(group.group_id, request.member_id)
    return _refusal_of_epoch(member, request) or Found(member)


def _static_member(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, instance_id: str, *, joins: bool
) -> Found | Refused:
    known, member_id = group.static_member(instance_id), request.member_id
    if not joins:
        if known is None:
            return unknown_instance(instance_id)
        return fenced(known, member_id, instance_id) or _refusal_of_epoch(known, request) or Found(known)
    if known is None:
        return Found(group.members.get(member_id) or StreamsMember(member_id))
    if known.epoch != LEAVING_STATIC_EPOCH:
        return unreleased(known, member_id, instance_id)
    member = replace(known, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    records = (
        *member_tombstones(group.group_id, known.member_id),
        member_record(group.group_id, member),
        target_record(group.group_id, member_id, group.targets.get(known.member_id, NO_TASKS)),
        current_record(group.group_id, member),
    )
    return Found(member, records, None if known.member_id == member_id else known)


def _refusal_of_epoch(member: StreamsMember, request: StreamsGroupHeartbeatRequest) -> Refused | None:
    return refusal_of_epoch("streams", member, request.member_epoch, lambda: _has_no_more(request, member))


def _has_no_more(request: StreamsGroupHeartbeatRequest, member: StreamsMember) -> bool:
    assigned = member.assigned
    return (
        _within(request.active_tasks, assigned.active)
        and _within(request.standby_tasks, assigned.standby)
        and _within(request.warmup_tasks, assigned.warmup)
    )


def _within(owned: Sequence[TaskIds] | None, assigned: Mapping[str, Container[int]]) -> bool:
    return owned is not None and all(
        each.subtopology_id in assigned
        and all(contains(assigned, each.subtopology_id, index) for index in each.partitions)
        for each in owned
    )
