"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of members that speak the classic protocol in a consumer group.

Members do not wait for each other: a JoinGroup is answered at once, and the member fetches its partitions by SyncGroup;
when its partitions change, the answer to a heartbeat makes it join again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from odradek.core.machine import Answered, Decision, LogRecord, Refused
from odradek.group.classic.consumer_protocol import assignment_bytes, owned_of, read_subscription
from odradek.group.classic.member import protocols_of, rebalance_timeout_of
from odradek.group.consumer.group import ConsumerGroup
from odradek.group.consumer.member import ClassicMetadata, ConsumerMember
from odradek.group.consumer.migration import may_downgrade
from odradek.group.consumer.progress import Target, moved_on, next_step, next_target
from odradek.group.modern import Timer
from odradek.group.modern_member import Client, MemberState
from odradek.group.surroundings import MigrationPolicy
from odradek.group.which_member import full, known_member, member_for
from odradek.wire.errors import DecodeError, ErrorCode
from odradek.wire.messages.heartbeat_response import HeartbeatResponse
from odradek.wire.messages.join_group_response import JoinGroupResponse
from odradek.wire.messages.leave_group_response import MemberResponse
from odradek.wire.messages.sync_group_response import SyncGroupResponse

if TYPE_CHECKING:
    from odradek.group.consumer.topics import Topics
    from odradek.group.surroundings import ConsumerSettings
    from odradek.wire.messages.heartbeat_request import HeartbeatRequest
    from odradek.wire.messages.join_group_request import JoinGroupRequest
    from odradek.wire.messages.leave_group_request import MemberIdentity
    from odradek.wire.messages.sync_group_request import SyncGroupRequest

__all__ = ["Joined", "heartbeat", "join", "leaving", "sync"]

PROTOCOL_TYPE = "consumer"
MEMBER_ID_REQUIRED_FROM = 4


class Joined(Struct, frozen=True):
    """A member that has joined: the response, the records, and whether its group goes on as a classic one."""

    member: ConsumerMember
    reply: JoinGroupResponse
    records: tuple[LogRecord, ...]
    downgrades: bool
    rebalances: bool
    """Whether the classic group begins with a rebalance."""
    resolve_patterns: bool


def join(
    group: ConsumerGroup,
    request: JoinGroupRequest,
    version: int,
    client: Client,
    *,
    new_member_id: str,
    topics: Topics,
    settings: ConsumerSettings,
    now: int,
) -> Joined | Refused | Answered[JoinGroupResponse]:
    """JoinGroup: of a new member, or of a member that takes its next step."""
    if settings.migration is MigrationPolicy.DISABLED:
        return Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    unknown = not request.member_id
    member_id = request.member_id or new_member_id
    instance_id = request.group_instance_id
    protocols = protocols_of(request.protocols)
    refusal = full(group, member_id, instance_id, settings.max_size)
    if refusal is not None:
        return refusal
    if not group.supports_protocols(request.protocol_type, (name for name, _ in protocols)):
        return Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if unknown and instance_id is None and version >= MEMBER_ID_REQUIRED_FROM:
        return Answered(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
    joins = instance_id is None or unknown
    found = member_for(group, member_id, None, instance_id, joins=joins, has_no_more=lambda _: True)
    if isinstance(found, Refused):
        return found
    try:
        subscription = read_subscription(protocols[0][1])
    except DecodeError:
        return Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    replaced = group.static_member(instance_id)
    downgrades = replaced is not None and may_downgrade(group, [replaced.member_id], settings, replaced=True)
    rebalance_timeout_ms = rebalance_timeout_of(request, version)
    member = replace(
        found.member,
        instance_id=found.member.instance_id if instance_id is None else instance_id,
        rack_id=subscription.rack_id if subscription.rack_id is not None else found.member.rack_id,
        rebalance_timeout_ms=rebalance_timeout_ms,
        topic_names=frozenset(subscription.topics),
        pattern="",
        client_id=client.id,
        client_host=client.host,
        classic=ClassicMetadata(request.session_timeout_ms, protocols),
    )
    if member == found.member:
        member = found.member
    progress = moved_on(group, found.member, member, topics=topics, settings=settings, by_assignor=False, now=now)
    if isinstance(progress, Refused):
        return progress
    stale = group.assignment_epoch < progress.epoch
    if downgrades:
        # A group that is to rebalance anyway assigns anew; otherwise the member goes on with what it has.
        target = Target(group.assignment_epoch, group.target_of(member))
    else:
        target = next_target(group, member, progress.epoch, topics=topics, settings=settings, now=now)
    step: tuple[LogRecord, ...] = ()
    after = member
    if not (downgrades and stale):
        owned = owned_of(((each.topic, each.partitions) for each in subscription.owned_partitions), topics)
        after, step = next_step(
            group, member, target, owned=owned, subscription_changed=progress.subscription_changed, topics=topics
        )
    if not downgrades:
        group.cancel(member_id, Timer.JOIN, Timer.REBALANCE)
        group.times.set((member_id, Timer.SESSION), now + request.session_timeout_ms)
        group.times.set((member_id, Timer.SYNC), now + rebalance_timeout_ms)
    reply = JoinGroupResponse(
        member_id=member_id,
        generation_id=after.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocols[0][0],
    )
    return Joined(
        member=after,
        reply=reply,
        records=(*found.records, *progress.records, *target.records, *step),
        downgrades=downgrades,
        rebalances=stale,
        resolve_patterns=progress.resolve_patterns,
    )


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicMetadata] | Refused:
    """The member of a SyncGroup or Heartbeat; members of the consumer protocol are refused."""
    member = known_member(group, member_id, instance_id)
    if isinstance(member, Refused):
        return member
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID) if member.classic is None else (member, member.classic)


def sync(group: ConsumerGroup, request: SyncGroupRequest, topics: Topics, now: int) -> Decision[SyncGroupResponse]:
    """SyncGroup: answered at once with the member's partitions."""
    found = _classic_member(group, request.member_id, request.group_instance_id)
    if isinstance(found, Refused):
        return found
    member, classic = found
    if request.generation_id != member.epoch:
        return Refused(ErrorCode.ILLEGAL_GENERATION)
    name, metadata = classic.protocols[0]
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, name):
        return Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED:
        _await_join(group, member, now)
        return Refused(ErrorCode.REBALANCE_IN_PROGRESS)
    group.cancel(member.member_id, Timer.SYNC)
    group.times.set((member.member_id, Timer.SESSION), now + classic.session_timeout_ms)
    return Answered(
        SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_bytes(member.assigned, metadata, topics),
        )
    )


def heartbeat(group: ConsumerGroup, request: HeartbeatRequest, now: int) -> Decision[HeartbeatResponse]:
    """Heartbeat: the answer says whether the member has to join again."""
    found = _classic_member(group, request.member_id, request.group_instance_id)
    if isinstance(found, Refused):
        return found
    member, classic = found
    if request.generation_id != member.epoch:
        return Refused(ErrorCode.ILLEGAL_GENERATION)
    group.times.set((member.member_id, Timer.SESSION), now + classic.session_timeout_ms)
    unreleased = member.state is MemberState.UNRELEASED
    has_next_step = (
        member.epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED
        or (unreleased and not group.waits_for_others(member))
    )
    if not has_next_step:
        return Answered(HeartbeatResponse())
    _await_join(group, member, now)
    return Answered(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def _await_join(group: ConsumerGroup, member: ConsumerMember, now: int) -> None:
    group.times.set_if_none((member.member_id, Timer.JOIN), now + member.rebalance_timeout_ms)


def leaving(group: ConsumerGroup, members: Iterable[MemberIdentity]) -> tuple[list[str], list[MemberResponse]]:
    """The members of a LeaveGroup, of either protocol, and the answer for each of its entries."""
    gone: list[str] = []
    answers: list[MemberResponse] = []
    for each in members:
        # An admin names the instance alone.
        static = group.static_member(each.group_instance_id) if not each.member_id else None
        found = static or known_member(group, each.member_id, each.group_instance_id)
        answer = MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id)
        if isinstance(found, Refused):
            answer.error_code = found.error
        else:
            gone.append(found.member_id)
        answers.append(answer)
    return gone, answers
