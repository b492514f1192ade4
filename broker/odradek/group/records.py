"""Records of classic groups in `__consumer_offsets`, in Kafka's formats: their generations.

Kafka's `GroupCoordinatorRecordHelpers` is the reference for which version of a value is written when.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.core.machine import LogRecord
from odradek.group.classic.group import ClassicGroup
from odradek.group.classic.member import Member
from odradek.group.classic.states import GroupState
from odradek.records.state import encode_key, encode_value
from odradek.wire.messages.group_metadata_key import GroupMetadataKey
from odradek.wire.messages.group_metadata_value import GroupMetadataValue, MemberMetadata

__all__ = ["empty_group_record", "group_of", "group_record", "group_tombstone"]

GROUP_VALUE_VERSION = 3
"""All releases write this one; 3.3 reads no newer one."""


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes] | None = None) -> LogRecord:
    """The present generation, with these assignments in place of those that the members have."""
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol),
            assignment=member.assignment if assignments is None else assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.state_timestamp,
        members=members,
    )
    return LogRecord(_group_key(group.group_id), encode_value(value, GROUP_VALUE_VERSION))


def empty_group_record(group: ClassicGroup) -> LogRecord:
    """A group that has only just come into being."""
    value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=group.state_timestamp)
    return LogRecord(_group_key(group.group_id), encode_value(value, GROUP_VALUE_VERSION))


def group_tombstone(group_id: str) -> LogRecord:
    """There is no such group any more."""
    return LogRecord(_group_key(group_id), None)


def group_of(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group as the log knows it: stable in its last generation, its sessions still to begin."""
    group = ClassicGroup(group_id)
    for stored in value.members:
        assert value.protocol is not None, f"group {group_id} has members and no protocol"
        member = Member(
            member_id=stored.member_id,
            instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            # Version 0 of the value knew one timeout only.
            rebalance_timeout_ms=stored.session_timeout if stored.rebalance_timeout < 0 else stored.rebalance_timeout,
            session_timeout_ms=stored.session_timeout,
            protocols=((value.protocol, stored.subscription),),
            assignment=stored.assignment,
        )
        group.add(member, value.protocol_type)
        group.sessions_to_begin.add(member.member_id)
    group.restore(
        state=GroupState.STABLE if value.members else GroupState.EMPTY,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        leader=value.leader,
        state_timestamp=value.current_state_timestamp,
    )
    return group


def _group_key(group_id: str) -> bytes:
    return encode_key(GroupMetadataKey(group=group_id))
