"""The answers of a share group to ShareGroupHeartbeat (KIP-932).

A heartbeat has the changes of a member; its response has the changes for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from odradek.core.machine import Answered, Decision, LogRecord, Proposed, Refused
from odradek.group.consumer.member import Partitions
from odradek.group.consumer.topics import metadata_hash, topic_ids_of
from odradek.group.modern_member import JOINING_EPOCH, LEAVING_EPOCH, Client, is_blank, listed
from odradek.group.share.assignor import simple_assignor
from odradek.group.share.member import ShareMember
from odradek.group.share.states import awaits_assignment, begun, missing
from odradek.group.which_member import full, unknown_member
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.share_group_heartbeat_response import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from odradek.group.consumer.topics import Topics
    from odradek.group.share.group import ShareGroup
    from odradek.group.surroundings import ShareSettings
    from odradek.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest

__all__ = ["Beaten", "beat", "refusal_of_heartbeat"]

MEMBER_ID_LENGTH_MAX = 36
Rule = tuple[Callable[["ShareGroupHeartbeatRequest"], bool], str | None]

_RULES: Sequence[Rule] = (
    (lambda request: bool(request.member_id) and is_blank(request.member_id), "MemberId can't be empty."),
    (lambda request: not 0 < len(request.member_id) <= MEMBER_ID_LENGTH_MAX, None),
    (lambda request: not request.group_id.strip(), "GroupId can't be empty."),
    (lambda request: is_blank(request.rack_id), "RackId can't be empty."),
    (
        lambda request: request.member_epoch == JOINING_EPOCH and not request.subscribed_topic_names,
        "SubscribedTopicNames must be set in first request.",
    ),
    (lambda request: request.member_epoch < LEAVING_EPOCH, "MemberEpoch is invalid."),
)
"""Checks in this order; the first one that holds is the error."""


def refusal_of_heartbeat(request: ShareGroupHeartbeatRequest) -> Refused | None:
    """The error of a request that is invalid for any group; None if it is valid."""
    for holds, sentence in _RULES:
        if holds(request):
            return Refused(ErrorCode.INVALID_REQUEST, sentence)
    return None


class Beaten(Struct, frozen=True):
    """The decision about a heartbeat, and the epoch for partitions that the share coordinator must initialize."""

    decision: Decision[ShareGroupHeartbeatResponse]
    state_epoch: int | None = None


def beat(
    group: ShareGroup,
    request: ShareGroupHeartbeatRequest,
    client: Client,
    *,
    topics: Topics,
    settings: ShareSettings,
    now: int,
) -> Beaten:
    """The response for a member that joins or stays; the request is valid."""
    refusal = full(group, request.member_id, "", settings.max_size)
    if refusal is not None:
        return Beaten(refusal)
    known = group.members.get(request.member_id)
    if known is None and request.member_epoch != JOINING_EPOCH:
        return Beaten(unknown_member(group.group_id, request.member_id))
    before = known or ShareMember(request.member_id)
    refusal = _refusal_of_epoch(before, request.member_epoch)
    if refusal is not None:
        return Beaten(refusal)
    member = _updated(before, request, client)
    members = {**group.members, member.member_id: member}
    names = group.subscribed_topics(members.values())
    records: list[LogRecord] = [] if member == before else [group.records.member_record(group.group_id, member)]
    epoch = _next_epoch(group, before, member, names, topics, records)
    target = _next_target(group, member, members, epoch, topics, settings, now, records)
    after = member
    if member.epoch != target.epoch:
        assigned = _wanted(target.partitions, member, topics)
        after = replace(member, epoch=target.epoch, previous_epoch=member.epoch, assigned=assigned)
    elif epoch != group.epoch:
        # Unwanted and deleted topics leave its assignment at once, before the next target.
        after = replace(member, assigned=_wanted(target.partitions, member, topics))
    if after != member:
        records.append(group.records.current_record(group.group_id, after))
    new = missing(group, names, topics)
    if new:
        records.append(group.states_record(begun(group.states, new)))
    group.begin_session(after, settings.session_timeout_ms, now, stepped=False)
    reply = ShareGroupHeartbeatResponse(
        member_id=after.member_id, member_epoch=after.epoch, heartbeat_interval_ms=settings.heartbeat_interval_ms
    )
    says_all = request.member_epoch == JOINING_EPOCH or request.subscribed_topic_names is not None
    if says_all or after.assigned != before.assigned:
        reply.assignment = Assignment(listed(after.assigned, TopicPartitions))
    decision = Proposed(tuple(records), reply) if records else Answered(reply)
    return Beaten(decision, epoch if new else None)


def _refusal_of_epoch(member: ShareMember, epoch: int) -> Refused | None:
    # The response with the new epoch may have been lost, so the last epoch is valid as well.
    if epoch in (JOINING_EPOCH, member.epoch, member.previous_epoch):
        return None
    start = f"The share group member has a {'greater' if epoch > member.epoch else 'smaller'} member epoch ({epoch}) "
    sentence = f"{start}than the one known by the group coordinator ({member.epoch})"
    if epoch < member.epoch:
        sentence += f", and it does not match the previous member epoch ({member.previous_epoch})"
    return Refused(ErrorCode.FENCED_MEMBER_EPOCH, f"{sentence}. The member must abandon all its partitions and rejoin.")


def _updated(before: ShareMember, request: ShareGroupHeartbeatRequest, client: Client) -> ShareMember:
    """The member after the request; fields that it leaves out stay."""
    names = request.subscribed_topic_names
    return replace(
        before,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        topic_names=before.topic_names if names is None else frozenset(names),
        client_id=client.id,
        client_host=client.host,
    )


def _next_epoch(
    group: ShareGroup,
    before: ShareMember,
    member: ShareMember,
    names: frozenset[str],
    topics: Topics,
    records: list[LogRecord],
) -> int:
    """The group epoch: it grows when subscriptions or topics change, and when more partitions can be assigned."""
    moves_on = member.topic_names != before.topic_names or awaits_assignment(group, names, topics)
    if not moves_on and group.hashed_offset == topics.offset:
        return group.epoch
    group.hashed_offset = topics.offset
    new_hash = metadata_hash(names, topics)
    if not moves_on and new_hash == group.metadata_hash:
        return group.epoch
    records.append(group.records.epoch_record(group.group_id, group.epoch + 1, new_hash))
    return group.epoch + 1


class _Target(Struct, frozen=True):
    epoch: int
    partitions: Partitions


def _next_target(
    group: ShareGroup,
    member: ShareMember,
    members: dict[str, ShareMember],
    epoch: int,
    topics: Topics,
    settings: ShareSettings,
    now: int,
    records: list[LogRecord],
) -> _Target:
    """The target of the member; targets are computed at most once in the assignment interval (KIP-1263)."""
    if group.assignment_epoch >= epoch or group.is_assigned_too_early(settings.assignment_interval_ms, now):
        return _Target(group.assignment_epoch, group.target_of(member))
    subscriptions = {member_id: topic_ids_of(each.topic_names, topics) for member_id, each in members.items()}
    available = {
        topic_id: frozenset(index for index in indexes if index in topic.partitions)
        for topic_id, indexes in group.initialized().items()
        if (topic := topics.topic_by_id(topic_id)) is not None
    }
    targets = simple_assignor(subscriptions, group.targets, available)
    records += group.target_records(members, targets, epoch, now)
    return _Target(epoch, targets[member.member_id])


def _wanted(target: Partitions, member: ShareMember, topics: Topics) -> Partitions:
    """The part of a target with existing topics that the member has subscribed to."""
    ids = topic_ids_of(member.topic_names, topics)
    return {topic_id: indexes for topic_id, indexes in target.items() if topic_id in ids}
