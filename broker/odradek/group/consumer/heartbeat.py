"""The answers of a consumer group to ConsumerGroupHeartbeat (KIP-848).

A heartbeat says what has changed of a member; its answer says what has changed for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from odradek.core.machine import Answered, Decision, LogRecord, Proposed, Refused
from odradek.group.consumer.group import ConsumerGroup, Timer
from odradek.group.consumer.member import (
    JOINING_EPOCH,
    LEAVING_STATIC_EPOCH,
    NO_PARTITIONS,
    ConsumerMember,
    EpochsOfPartitions,
    MemberState,
    Partitions,
)
from odradek.group.consumer.progress import moved_on, next_step, next_target
from odradek.group.consumer.records import (
    assignment_epoch_record,
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    pattern_tombstone,
    target_record,
)
from odradek.group.consumer.topics import metadata_hash
from odradek.group.consumer.validation import NO_TIMEOUT
from odradek.group.refusals import fenced, refusal_of_epoch, unknown_instance, unknown_member, unreleased
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from odradek.group.consumer.settings import ConsumerSettings
    from odradek.group.consumer.topics import Topics
    from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest

__all__ = ["Client", "Subscribed", "beat", "dropped", "full", "leave", "member_for"]


class Client(Struct, frozen=True):
    """The client that sent a request."""

    id: str
    host: str


class Subscribed(Struct, frozen=True):
    """The member that a request is about, as it was, and the records of a static member that it takes the place of."""

    member: ConsumerMember
    records: tuple[LogRecord, ...] = ()


def beat(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    client: Client,
    *,
    topics: Topics,
    settings: ConsumerSettings,
    now: int,
) -> tuple[Decision[ConsumerGroupHeartbeatResponse], bool]:
    """The answer to a member that stays, and whether patterns are to be resolved after it.

    The request has been found to make sense, and names its member.
    """
    refusal = full(group, request.member_id, request.instance_id, settings)
    if refusal is not None:
        return refusal, False
    owned = _owned(request)
    found = member_for(group, request.member_id, request.member_epoch, request.instance_id, owned=owned)
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
    _set_times(group, after, stepped=bool(step), settings=settings, now=now)
    reply = ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
    )
    if request.member_epoch == JOINING_EPOCH or _is_full(request) or _has_changed(before, after):
        reply.assignment = _assignment(after.assigned)
    records = (*found.records, *progress.records, *target.records, *step)
    decision = Proposed(records, reply) if records else Answered(reply)
    return decision, progress.resolve_patterns


def full(group: ConsumerGroup, member_id: str, instance_id: str | None, settings: ConsumerSettings) -> Refused | None:
    """The refusal of a member that a group has no room for."""
    if instance_id in group.static_members or member_id in group.members or len(group.members) < settings.max_size:
        return None
    sentence = f"The consumer group has reached its maximum capacity of {settings.max_size} members."
    return Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, sentence)


# ---------------------------------------------------------------------- which member


def member_for(
    group: ConsumerGroup,
    member_id: str,
    epoch: int | None,
    instance_id: str | None,
    *,
    owned: Partitions | None,
    joins: bool | None = None,
) -> Subscribed | Refused:
    """The member of a request, or a new one; an `epoch` of None is that of the classic protocol, which has none."""
    joining = epoch == JOINING_EPOCH if joins is None else joins
    if instance_id is not None:
        return _static_member(group, member_id, epoch, instance_id, owned=owned, joining=joining)
    member = group.members.get(member_id)
    if member is None:
        if not joining:
            return unknown_member(group.group_id, member_id)
        return Subscribed(ConsumerMember(member_id))
    return _refusal_of_epoch(member, epoch, owned) or Subscribed(member)


def _static_member(
    group: ConsumerGroup,
    member_id: str,
    epoch: int | None,
    instance_id: str,
    *,
    owned: Partitions | None,
    joining: bool,
) -> Subscribed | Refused:
    known = group.static_member(instance_id)
    if not joining:
        if known is None:
            return unknown_instance(instance_id)
        return fenced(known, member_id, instance_id) or _refusal_of_epoch(known, epoch, owned) or Subscribed(known)
    if known is None:
        return Subscribed(group.members.get(member_id) or ConsumerMember(member_id))
    if epoch is not None and known.classic is None and known.epoch != LEAVING_STATIC_EPOCH:
        return unreleased(known, member_id, instance_id)
    member = replace(known, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    records = (
        *member_tombstones(group.group_id, known.member_id),
        member_record(group.group_id, member),
        target_record(group.group_id, member_id, group.targets.get(known.member_id, NO_PARTITIONS)),
        current_record(group.group_id, member),
    )
    return Subscribed(member, records)


def _refusal_of_epoch(member: ConsumerMember, epoch: int | None, owned: Partitions | None) -> Refused | None:
    if epoch is None or epoch == member.epoch:
        return None
    has_no_more = lambda: owned is not None and _is_within(owned, member.assigned)  # noqa: E731 - asked for rarely
    return refusal_of_epoch("consumer", member, epoch, has_no_more)


def _is_within(owned: Partitions, assigned: EpochsOfPartitions) -> bool:
    return all(indexes <= assigned.get(topic_id, NO_PARTITIONS).keys() for topic_id, indexes in owned.items())


# ---------------------------------------------------------------------- what it says


def _owned(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    if request.topic_partitions is None:
        return None
    return {each.topic_id: frozenset(each.partitions) for each in request.topic_partitions}


def _updated(before: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: Client) -> ConsumerMember:
    """The member after the request; fields that the request leaves out stay as they were."""
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
    """Whether the request says all that a member can say, as after an error."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != NO_TIMEOUT and subscribes and request.topic_partitions is not None


def _has_changed(before: ConsumerMember, after: ConsumerMember) -> bool:
    if before.assigned is after.assigned:
        return False
    indexes_before = {topic_id: indexes.keys() for topic_id, indexes in before.assigned.items()}
    return indexes_before != {topic_id: indexes.keys() for topic_id, indexes in after.assigned.items()}


def _assignment(assigned: EpochsOfPartitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(indexes)) for topic_id, indexes in assigned.items()
        ]
    )


def _set_times(
    group: ConsumerGroup, member: ConsumerMember, *, stepped: bool, settings: ConsumerSettings, now: int
) -> None:
    group.times.set((member.member_id, Timer.SESSION), now + settings.session_timeout_ms)
    if not stepped:
        return
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        group.times.set((member.member_id, Timer.REBALANCE), now + member.rebalance_timeout_ms)
        group.slow_epochs[member.member_id] = member.epoch
    else:
        group.cancel(member.member_id, Timer.REBALANCE)


# ---------------------------------------------------------------------- who goes


def leave(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest
) -> ConsumerMember | Refused | Proposed[ConsumerGroupHeartbeatResponse]:
    """The member that goes for good; or what is answered to a static one that goes for a while."""
    if request.instance_id is None:
        member = group.members.get(request.member_id)
        if member is None:
            return unknown_member(group.group_id, request.member_id)
        return member
    known = group.static_member(request.instance_id)
    if known is None:
        return unknown_instance(request.instance_id)
    refusal = fenced(known, request.member_id, request.instance_id)
    if refusal is not None:
        return refusal
    if request.member_epoch != LEAVING_STATIC_EPOCH:
        return known
    # Whoever takes its place begins at epoch 0, and may commit for what it has from there on.
    assigned = {topic_id: dict.fromkeys(indexes, JOINING_EPOCH) for topic_id, indexes in known.assigned.items()}
    away = replace(known, epoch=LEAVING_STATIC_EPOCH, assigned=assigned, revoking=NO_PARTITIONS)
    reply = ConsumerGroupHeartbeatResponse(member_id=known.member_id, member_epoch=LEAVING_STATIC_EPOCH)
    return Proposed((current_record(group.group_id, away),), reply)


def dropped(group: ConsumerGroup, member_ids: Iterable[str], topics: Topics) -> list[LogRecord]:
    """The records for members that are gone; the group moves to its next epoch."""
    gone = dict.fromkeys(member_ids)
    records = [record for member_id in gone for record in member_tombstones(group.group_id, member_id)]
    left: Mapping[str, ConsumerMember] = {key: each for key, each in group.members.items() if key not in gone}
    still_subscribed = {member.pattern for member in left.values()}
    patterns = {pattern for key in gone if (pattern := group.members[key].pattern) and pattern not in still_subscribed}
    records += [pattern_tombstone(group.group_id, pattern) for pattern in sorted(patterns)]
    epoch = group.epoch + 1
    new_hash = metadata_hash(group.subscribed_topics(left.values()), topics)
    records.append(epoch_record(group.group_id, epoch, new_hash))
    if not left:
        records.append(assignment_epoch_record(group.group_id, epoch, 0))
    return records
