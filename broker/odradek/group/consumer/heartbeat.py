"""The responses of a consumer group to ConsumerGroupHeartbeat (KIP-848); the error messages are Kafka's.

A heartbeat has the changes of a member; its response has the changes for the member.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from odradek.core.machine import Answered, Decision, Proposed, Refused
from odradek.group.consumer.group import ConsumerGroup
from odradek.group.consumer.member import NO_PARTITIONS, ConsumerMember, EpochsOfPartitions, Partitions
from odradek.group.consumer.progress import moved_on, next_step, next_target
from odradek.group.modern import Timer
from odradek.group.modern_member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    LEAVING_STATIC_EPOCH,
    Client,
    MemberState,
    is_blank,
    listed,
)
from odradek.group.which_member import full, member_for
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from odradek.group.consumer.topics import Topics
    from odradek.group.surroundings import ConsumerSettings
    from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest

__all__ = ["beat", "refusal_of_heartbeat"]

NO_TIMEOUT = -1
OWN_MEMBER_ID_FROM = 1
"""The first version in which a member chooses its id, even when it joins (KIP-1082)."""

Rule = tuple[Callable[["ConsumerGroupHeartbeatRequest", int], bool], str]


def _lacks_member_id(request: ConsumerGroupHeartbeatRequest, version: int) -> bool:
    has_one = version >= OWN_MEMBER_ID_FROM or request.member_epoch > 0 or request.member_epoch == LEAVING_EPOCH
    return has_one and not request.member_id.strip()


def _joins(request: ConsumerGroupHeartbeatRequest) -> bool:
    return request.member_epoch == JOINING_EPOCH


_RULES: Sequence[Rule] = (
    (_lacks_member_id, "MemberId can't be empty."),
    (lambda request, _: not request.group_id.strip(), "GroupId can't be empty."),
    (lambda request, _: is_blank(request.instance_id), "InstanceId can't be empty."),
    (lambda request, _: is_blank(request.rack_id), "RackId can't be empty."),
    (
        lambda request, _: _joins(request) and request.rebalance_timeout_ms == NO_TIMEOUT,
        "RebalanceTimeoutMs must be provided in first request.",
    ),
    (
        lambda request, _: _joins(request) and request.topic_partitions != [],
        "TopicPartitions must be empty when (re-)joining.",
    ),
    (
        lambda request, _: (
            _joins(request) and request.subscribed_topic_names is None and request.subscribed_topic_regex is None
        ),
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    (
        lambda request, _: request.member_epoch == LEAVING_STATIC_EPOCH and request.instance_id is None,
        "InstanceId can't be null.",
    ),
    (lambda request, _: request.member_epoch < LEAVING_STATIC_EPOCH, "MemberEpoch is invalid."),
)
"""Checks in this order; the first one that holds is the error."""


def _plainly_stays(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether this is the usual heartbeat without changes, for which no rule has to be checked."""
    return bool(
        request.member_epoch > JOINING_EPOCH
        and request.member_id.strip()
        and request.group_id.strip()
        and request.instance_id is None
        and request.rack_id is None
    )


def refusal_of_heartbeat(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]
) -> Refused | None:
    """The error of a request that is invalid for any group; None if it is valid."""
    if not _plainly_stays(request):
        for holds, sentence in _RULES:
            if holds(request, version):
                return Refused(ErrorCode.INVALID_REQUEST, sentence)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        known = ", ".join(assignors)
        sentence = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {known}."
        return Refused(ErrorCode.UNSUPPORTED_ASSIGNOR, sentence)
    return None


def beat(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    client: Client,
    *,
    topics: Topics,
    settings: ConsumerSettings,
    now: int,
) -> tuple[Decision[ConsumerGroupHeartbeatResponse], bool]:
    """The response to a member that joins or stays, and whether patterns have to be resolved after it.

    The request is valid and names its member.
    """
    member_id, instance_id = request.member_id, request.instance_id
    owned, joins = _owned(request), request.member_epoch == JOINING_EPOCH
    found = full(group, member_id, instance_id, settings.max_size) or member_for(
        group,
        member_id,
        request.member_epoch,
        instance_id,
        joins=joins,
        has_no_more=lambda member: owned is not None and _is_within(owned, member.assigned),
    )
    if isinstance(found, Refused):
        return found, False
    before = found.member
    if before.state is MemberState.UNKNOWN and owned != {}:
        sentence = (
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
        )
        return Refused(ErrorCode.FENCED_MEMBER_EPOCH, sentence), False
    member = _updated(before, request, client)
    progress = moved_on(group, before, member, topics=topics, settings=settings, by_assignor=True, now=now)
    if isinstance(progress, Refused):
        return progress, False
    target = next_target(group, member, progress.epoch, topics=topics, settings=settings, now=now)
    after, step = next_step(
        group, member, target, owned=owned, subscription_changed=progress.subscription_changed, topics=topics
    )
    if before.classic is not None:
        group.cancel(member.member_id, Timer.JOIN, Timer.SYNC)
    group.begin_session(after, settings.session_timeout_ms, now, stepped=bool(step))
    reply = ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
    )
    if joins or _is_full(request) or _has_changed(before, after):
        reply.assignment = Assignment(listed(after.assigned, TopicPartitions))
    records = (*found.records, *progress.records, *target.records, *step)
    decision = Proposed(records, reply) if records else Answered(reply)
    return decision, progress.resolve_patterns


def _is_within(owned: Partitions, assigned: EpochsOfPartitions) -> bool:
    return all(indexes <= assigned.get(topic_id, NO_PARTITIONS).keys() for topic_id, indexes in owned.items())


def _owned(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    if request.topic_partitions is None:
        return None
    return {each.topic_id: frozenset(each.partitions) for each in request.topic_partitions}


def _updated(before: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: Client) -> ConsumerMember:
    """The member after the request; fields that it leaves out stay."""
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    if (
        names is None
        and timeout_ms == NO_TIMEOUT
        and request.subscribed_topic_regex is None
        and request.instance_id == before.instance_id
        and request.rack_id is None
        and request.server_assignor is None
        and before.classic is None
        and before.client_id == client.id
        and before.client_host == client.host
    ):
        # The usual heartbeat says nothing new.
        return before
    after = replace(
        before,
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == NO_TIMEOUT else timeout_ms,
        server_assignor=before.server_assignor if request.server_assignor is None else request.server_assignor,
        topic_names=before.topic_names if names is None else frozenset(names),
        pattern=before.pattern if request.subscribed_topic_regex is None else request.subscribed_topic_regex,
        client_id=client.id,
        client_host=client.host,
        classic=None,
    )
    return before if after == before else after


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the request has all fields of a member, as after an error."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != NO_TIMEOUT and subscribes and request.topic_partitions is not None


def _has_changed(before: ConsumerMember, after: ConsumerMember) -> bool:
    if before.assigned is after.assigned:
        return False
    indexes_before = {topic_id: indexes.keys() for topic_id, indexes in before.assigned.items()}
    return indexes_before != {topic_id: indexes.keys() for topic_id, indexes in after.assigned.items()}
