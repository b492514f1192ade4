"""Which member of a group a heartbeat of a newer protocol is of, and whether it may speak for it.

Kafka's sentences, which are the same for groups of consumers, of streams and of shares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from odradek.core.machine import LogRecord, Refused
from odradek.group.modern import ModernGroup
from odradek.group.modern_member import JOINING_EPOCH, LEAVING_STATIC_EPOCH, ModernMember
from odradek.wire.errors import ErrorCode

__all__ = ["Found", "full", "known_member", "member_for", "unknown_member"]

M = TypeVar("M", bound=ModernMember)
T = TypeVar("T")


class Found(Struct, Generic[M], frozen=True):
    """The member that a request is about, as it was, and the records of a static member that it takes the place of."""

    member: M
    records: tuple[LogRecord, ...] = ()
    replaced: M | None = None


def full(group: ModernGroup[M, T], member_id: str, instance_id: str | None, max_size: int) -> Refused | None:
    """The refusal of a member that a group has no room for."""
    if instance_id in group.static_members or member_id in group.members or len(group.members) < max_size:
        return None
    sentence = f"The {group.kind} group has reached its maximum capacity of {max_size} members."
    return Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, sentence)


def member_for(
    group: ModernGroup[M, T],
    member_id: str,
    epoch: int | None,
    instance_id: str | None,
    *,
    joins: bool,
    has_no_more: Callable[[M], bool],
) -> Found[M] | Refused:
    """The member of a request, or a new one; an `epoch` of None is that of the classic protocol, which has none.

    `has_no_more`: whether the request says that the member has no more than it was given.
    """
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            return Found(group.records.new_member(member_id)) if joins else unknown_member(group.group_id, member_id)
        return refusal_of_epoch(group.kind, member, epoch, has_no_more) or Found(member)
    known = group.static_member(instance_id)
    if not joins:
        if known is None:
            return unknown_instance(instance_id)
        fence = fenced(known, member_id, instance_id)
        return fence or refusal_of_epoch(group.kind, known, epoch, has_no_more) or Found(known)
    if known is None:
        return Found(group.members.get(member_id) or group.records.new_member(member_id))
    if epoch is not None and not known.speaks_classic and known.epoch != LEAVING_STATIC_EPOCH:
        sentence = (
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {known.member_id} member."
        )
        return Refused(ErrorCode.UNRELEASED_INSTANCE_ID, sentence)
    member = replace(known, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    records = group.records
    written = (
        *records.member_tombstones(group.group_id, known.member_id),
        records.member_record(group.group_id, member),
        records.target_record(group.group_id, member_id, group.target_of(known)),
        records.current_record(group.group_id, member),
    )
    return Found(member, written, None if known.member_id == member_id else known)


def known_member(group: ModernGroup[M, T], member_id: str, instance_id: str | None) -> M | Refused:
    """The member of a request that has no epoch, or that leaves."""
    if instance_id is None:
        return group.members.get(member_id) or unknown_member(group.group_id, member_id)
    known = group.static_member(instance_id)
    if known is None:
        return unknown_instance(instance_id)
    return fenced(known, member_id, instance_id) or known


def unknown_member(group_id: str, member_id: str) -> Refused:
    """No member has this id."""
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")


def unknown_instance(instance_id: str) -> Refused:
    """No static member has this instance id."""
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")


def fenced(known: ModernMember, member_id: str, instance_id: str) -> Refused | None:
    """Another member has taken the place of this one."""
    if known.member_id == member_id:
        return None
    sentence = f"Static member {member_id} with instance id {instance_id} was fenced by member {known.member_id}."
    return Refused(ErrorCode.FENCED_INSTANCE_ID, sentence)


def refusal_of_epoch(kind: str, member: M, epoch: int | None, has_no_more: Callable[[M], bool]) -> Refused | None:
    """A heartbeat that joins or is in the member's epoch passes.

    One in the epoch before does if the member says that it has no more than it was given then: the answer with the
    new epoch may have been lost.
    """
    if epoch in (None, JOINING_EPOCH, member.epoch):
        return None
    assert epoch is not None, "the classic protocol has no epochs"
    if epoch > member.epoch:
        relation = "greater"
    elif epoch == member.previous_epoch and has_no_more(member):
        return None
    else:
        relation = "smaller"
    sentence = (
        f"The {kind} group member has a {relation} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
    )
    return Refused(ErrorCode.FENCED_MEMBER_EPOCH, sentence)
