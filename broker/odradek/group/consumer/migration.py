"""Conversion of a group between the protocols while it has members (KIP-848, "Migration").

The first ConsumerGroupHeartbeat upgrades a classic group; a consumer group is downgraded when its last member of the
new
protocol has left. `group.consumer.migration.policy` says which of the two is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.core.machine import LogRecord, Refused
from odradek.group.classic.consumer_protocol import assignment_bytes, owned_of, read_assignment, read_subscription
from odradek.group.classic.group import ClassicGroup
from odradek.group.classic.member import Member
from odradek.group.classic.states import GroupState
from odradek.group.consumer.group import ConsumerGroup
from odradek.group.consumer.member import ClassicMetadata, ConsumerMember
from odradek.group.consumer.topics import metadata_hash
from odradek.wire.errors import DecodeError, ErrorCode

if TYPE_CHECKING:
    from odradek.group.consumer.topics import Topics
    from odradek.group.surroundings import ConsumerSettings
    from odradek.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment

__all__ = ["downgraded", "may_downgrade", "records_of", "upgraded"]


def upgraded(classic: ClassicGroup, topics: Topics, settings: ConsumerSettings) -> ConsumerGroup | Refused:
    """The consumer group that replaces a classic one, or why it cannot."""
    group_id = classic.group_id
    reason = _obstacle(classic, settings)
    if reason is not None:
        return _cannot(group_id, reason)
    group = ConsumerGroup(group_id)
    group.epoch = group.assignment_epoch = classic.generation
    try:
        members = [_modern(classic, member, topics) for member in classic.members.values()]
    except DecodeError:
        return _cannot(group_id, "the embedded consumer protocol is malformed")
    except _CustomAssignorError:
        return _cannot(
            group_id,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade",
        )
    for member in members:
        group.fold_member(member)
        partitions = {topic_id: frozenset(indexes) for topic_id, indexes in member.assigned.items()}
        group.fold_target(member.member_id, partitions)
    group.metadata_hash = metadata_hash(group.subscribed_topics(members), topics)
    return group


class _CustomAssignorError(Exception):
    """The assignment holds an assignor's user data, which would be lost."""


def _cannot(group_id: str, reason: str) -> Refused:
    sentence = f"Cannot upgrade classic group {group_id} to consumer group because {reason}."
    return Refused(ErrorCode.GROUP_ID_NOT_FOUND, sentence)


def _obstacle(classic: ClassicGroup, settings: ConsumerSettings) -> str | None:
    if not settings.migration.upgrades:
        return "online upgrade is disabled"
    if not classic.is_consumer_group:
        return "the group does not use the consumer embedded protocol"
    if len(classic.members) > settings.max_size:
        return "the group size exceeds the consumer group maximum size"
    return None


def _modern(classic: ClassicGroup, member: Member, topics: Topics) -> ConsumerMember:
    generation = classic.generation
    assigned = {}
    if member.assignment:
        assignment = read_assignment(member.assignment)
        if assignment.user_data:
            raise _CustomAssignorError
        assigned = {
            topic_id: dict.fromkeys(sorted(indexes), generation)
            for topic_id, indexes in owned_of(_named(assignment), topics).items()
        }
    # A group in its first rebalance has selected no protocol yet.
    subscription = read_subscription(member.metadata(classic.protocol or classic.select_protocol()))
    return ConsumerMember(
        member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
        epoch=generation,
        previous_epoch=generation,
        assigned=assigned,
    )


def _named(assignment: ConsumerProtocolAssignment) -> Iterable[tuple[str, list[int]]]:
    return ((each.topic, each.partitions) for each in assignment.assigned_partitions)


def records_of(group: ConsumerGroup) -> list[LogRecord]:
    """All records of a group that is created with members."""
    group_id, members, records = group.group_id, group.members, group.records
    return [
        *(records.member_record(group_id, member) for member in members.values()),
        records.epoch_record(group_id, group.epoch, group.metadata_hash),
        *(records.target_record(group_id, member_id, group.targets[member_id]) for member_id in members),
        records.assignment_epoch_record(group_id, group.assignment_epoch, group.assignment_timestamp),
        *(records.current_record(group_id, member) for member in members.values()),
    ]


def may_downgrade(group: ConsumerGroup, gone: Iterable[str], settings: ConsumerSettings, *, replaced: bool) -> bool:
    """Whether the group goes on as a classic one without these members; `replaced`: others take their places."""
    left_out = set(gone)
    left = len(group.members) - (0 if replaced else len(left_out))
    return (
        left > 0
        and group.all_classic_except(left_out)
        and settings.migration.downgrades
        and left <= settings.classic_max_size
    )


def downgraded(group: ConsumerGroup, members: Iterable[ConsumerMember], topics: Topics, now: int) -> ClassicGroup:
    """The classic group with these members; its generation follows from the group's epoch."""
    classic = ClassicGroup(group.group_id)
    found = list(members)
    for member in found:
        assert member.classic is not None, f"group {group.group_id}: {member.member_id} speaks the consumer protocol"
        classic.add(
            Member(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.classic.session_timeout_ms,
                protocols=member.classic.protocols,
            ),
            "consumer",
        )
        classic.sessions_to_begin.add(member.member_id)
    protocol = classic.select_protocol()
    for member in found:
        stored = classic.members[member.member_id]
        stored.assignment = assignment_bytes(member.assigned, stored.metadata(protocol), topics)
    classic.restore(
        state=GroupState.STABLE,
        generation=group.epoch,
        protocol_type="consumer",
        protocol=protocol,
        leader=classic.leader,
        state_timestamp=now,
    )
    return classic
