"""Refusals of heartbeats of the newer protocols: a wrong member, or a wrong epoch.

Kafka's sentences, which are the same for groups of consumers, of streams and of shares.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.core.machine import Refused
from odradek.group.modern import JOINING_EPOCH, ModernMember
from odradek.wire.errors import ErrorCode

__all__ = ["fenced", "refusal_of_epoch", "unknown_instance", "unknown_member", "unreleased"]


def unknown_member(group_id: str, member_id: str) -> Refused:
    """No member has this id."""
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")


def unknown_instance(instance_id: str) -> Refused:
    """No static member has this instance id."""
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")


def unreleased(known: ModernMember, member_id: str, instance_id: str) -> Refused:
    """The static member is active, so no other member can take its place."""
    sentence = (
        f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
        f"is owned by {known.member_id} member."
    )
    return Refused(ErrorCode.UNRELEASED_INSTANCE_ID, sentence)


def fenced(known: ModernMember, member_id: str, instance_id: str) -> Refused | None:
    """Another member has taken the place of this one."""
    if known.member_id == member_id:
        return None
    sentence = f"Static member {member_id} with instance id {instance_id} was fenced by member {known.member_id}."
    return Refused(ErrorCode.FENCED_INSTANCE_ID, sentence)


def refusal_of_epoch(kind: str, member: ModernMember, epoch: int, has_no_more: Callable[[], bool]) -> Refused | None:
    """A heartbeat that joins or is in the member's epoch passes.

    One in the epoch before does if the member says that it `has_no_more` than it was given then: the answer with the
    new epoch may have been lost. `kind` is what the group is called.
    """
    if epoch in (JOINING_EPOCH, member.epoch):
        return None
    if epoch > member.epoch:
        relation = "greater"
    elif epoch == member.previous_epoch and has_no_more():
        return None
    else:
        relation = "smaller"
    sentence = (
        f"The {kind} group member has a {relation} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
    )
    return Refused(ErrorCode.FENCED_MEMBER_EPOCH, sentence)
