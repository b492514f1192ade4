"""The steps of a classic group from one generation to the next, and its timeouts.

Kafka's `GroupMetadataManager` is the reference for each step.
Functions that may leave a group without members return the record to write then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.group.classic.states import REBALANCEABLE, GroupState
from odradek.group.records import empty_group_record, group_record
from odradek.group.seekers import GATHERING_MS
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from odradek.wire.messages.sync_group_response import SyncGroupResponse

if TYPE_CHECKING:
    from odradek.config.table import Config
    from odradek.core.machine import LogRecord
    from odradek.group.classic.group import ClassicGroup
    from odradek.group.classic.member import Member
    from odradek.group.classic.waits import Waits
    from odradek.group.seekers import Seekers
    from odradek.wire.messages.group_metadata_value import GroupMetadataValue

__all__ = ["Rebalance", "assigned", "joined"]


def joined(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """The response to JoinGroup; only the leader gets the list of members."""
    assert group.leader is not None, f"group {group.group_id} has members and no leader"
    members: list[JoinGroupResponseMember] = []
    if member.member_id == group.leader:
        members = [
            JoinGroupResponseMember(
                member_id=each.member_id, group_instance_id=each.instance_id, metadata=each.metadata(group.protocol)
            )
            for each in group.members.values()
        ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader,
        member_id=member.member_id,
        members=members,
    )


def assigned(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment)


class Rebalance:
    """Moves groups between generations; it keeps no state besides theirs."""

    def __init__(self, config: Config, waits: Waits, seekers: Seekers) -> None:
        self._config = config
        self._waits = waits
        self._seekers = seekers
        self._gathers = config.gathers_members

    def somebody_joined(self, group: ClassicGroup, now: int) -> list[LogRecord]:
        """Begin a rebalance, or complete the present one if all members have joined."""
        if group.state in REBALANCEABLE:
            return self.prepare(group, now)
        return self._complete_if_joined(group, now)

    def somebody_left(self, group: ClassicGroup, now: int) -> list[LogRecord]:
        """As `somebody_joined`, except that an empty group begins no rebalance."""
        if group.state is GroupState.EMPTY:
            return []
        return self.somebody_joined(group, now)

    def _complete_if_joined(self, group: ClassicGroup, now: int) -> list[LogRecord]:
        if group.state is not GroupState.PREPARING_REBALANCE or not group.all_joined:
            return []
        if group.previous_state is GroupState.EMPTY and not self._are_gathered(group, now):
            return []
        return self._complete(group, now)

    def _are_gathered(self, group: ClassicGroup, now: int) -> bool:
        """Whether the first rebalance of a group ends with those that have joined.

        With a delay (KIP-134) it ends with that, whoever is known until then.
        """
        return self._gathers and len(group.members) >= self._seekers.expected(group.group_id, now)

    def prepare(self, group: ClassicGroup, now: int) -> list[LogRecord]:
        """Begin a rebalance: every member has to join again."""
        initial = group.state is GroupState.EMPTY
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
                if self._waits.end_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)):
                    member.deadline = now + member.session_timeout_ms
        group.pending_syncs.clear()
        group.sync_deadline = None
        group.enter(GroupState.PREPARING_REBALANCE, now)
        if initial and self._gathers:
            group.join_deadline = now + GATHERING_MS
            return self._complete_if_joined(group, now)
        if initial:
            delay = self._config.group_initial_rebalance_delay_ms
            group.new_member_added = False
            self._put_off(group, delay, max(group.rebalance_timeout_ms - delay, 0), now)
            return []
        if group.all_joined:
            return self._complete(group, now)
        group.join_deadline = now + group.rebalance_timeout_ms
        return []

    def _put_off(self, group: ClassicGroup, delay_ms: int, remaining_ms: int, now: int) -> None:
        """KIP-134: delay the first rebalance of a new group, so that more members can join."""
        group.initial_delay_ms = delay_ms
        group.initial_remaining_ms = remaining_ms
        group.join_deadline = now + delay_ms

    def _join_time_over(self, group: ClassicGroup, now: int) -> list[LogRecord]:
        last_delay = group.initial_delay_ms
        if last_delay is not None and group.new_member_added and group.initial_remaining_ms:
            group.new_member_added = False
            remaining = group.initial_remaining_ms
            delay = min(self._config.group_initial_rebalance_delay_ms, remaining)
            self._put_off(group, delay, max(remaining - last_delay, 0), now)
            return []
        return self._complete(group, now)

    def _complete(self, group: ClassicGroup, now: int) -> list[LogRecord]:
        """The members that joined form the next generation; static members stay in any case (KIP-345)."""
        group.join_deadline = group.initial_delay_ms = None
        self._seekers.found(group.group_id)
        for member in [each for each in group.members.values() if each.join is None and not each.is_static]:
            group.remove(member.member_id)
        if group.members and not group.elect_joined_leader():
            # Only static members are left and none has come: wait until one does, or their sessions end.
            group.join_deadline = now + group.rebalance_timeout_ms
            return []
        group.begin_generation(now)
        if not group.members:
            return [group_record(group)]
        for member in group.members.values():
            self._waits.end_join(member, joined(group, member))
            member.is_new = False
            member.deadline = now + member.session_timeout_ms
            group.pending_syncs.add(member.member_id)
        group.sync_deadline = now + group.rebalance_timeout_ms
        return []

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """The member has sent its SyncGroup."""
        group.pending_syncs.discard(member_id)
        if not group.pending_syncs:
            group.sync_deadline = None

    def recorded(self, group: ClassicGroup, value: GroupMetadataValue) -> None:
        """The log has a record of this group: answer the members that wait for this assignment."""
        group.record_deadline = None
        awaited = group.state is GroupState.COMPLETING_REBALANCE and value.generation == group.generation
        if not awaited or not value.members:
            return
        assignments = {each.member_id: each.assignment for each in value.members}
        group.enter(GroupState.STABLE, group.state_timestamp)
        if group.leader is not None:
            self.synced(group, group.leader)
            group.sessions_to_begin.add(group.leader)
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if self._waits.end_sync(member, assigned(group, member.assignment)):
                # It could not send heartbeats while it waited.
                group.sessions_to_begin.add(member.member_id)

    def drop(self, group: ClassicGroup, member_id: str, error: ErrorCode) -> None:
        """Remove a member, or a member id that was given out; its parked requests are refused."""
        member = group.remove(member_id)
        if member is not None:
            self._waits.end_both(member, error)

    def load(self, group: ClassicGroup, now: int) -> list[LogRecord]:
        """First step of a group read from the log: sessions begin, and a group that is too large rebalances."""
        group.begin_sessions(now)
        if group.state is GroupState.STABLE and len(group.members) > self._config.group_max_size:
            return self.prepare(group, now)
        return []

    def begin(self, group: ClassicGroup, now: int) -> list[LogRecord]:
        """Begin the sessions of a new group, and its rebalance if it owes one."""
        group.begin_sessions(now)
        if not group.rebalance_owed:
            return []
        group.rebalance_owed = False
        return self.prepare(group, now) if group.state in REBALANCEABLE else []

    def advance(self, group: ClassicGroup, now: int) -> list[LogRecord]:
        """Act on all deadlines that have passed; returns the records to write."""
        records: list[LogRecord] = []
        if group.record_deadline is not None and group.record_deadline <= now:
            group.record_deadline = None
            records += [*group.debts, empty_group_record(group)]
            group.debts = ()
        records += self._expire_pending_joins(group, now)
        records += self._expire_sessions(group, now)
        if group.sync_deadline is not None and group.sync_deadline <= now:
            records += self._expire_syncs(group, now)
        if group.join_deadline is not None and group.join_deadline <= now:
            records += self._join_time_over(group, now)
        return records

    def _expire_pending_joins(self, group: ClassicGroup, now: int) -> list[LogRecord]:
        expired = [member_id for member_id, deadline in group.pending_joins.items() if deadline <= now]
        for member_id in expired:
            group.remove(member_id)
        if expired and group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
            return self._complete(group, now)
        return []

    def _expire_sessions(self, group: ClassicGroup, now: int) -> list[LogRecord]:
        records: list[LogRecord] = []
        for member in list(group.members.values()):
            if member.deadline is None or member.deadline > now or member.member_id not in group.members:
                continue
            if member.satisfied:
                member.deadline = None
                continue
            self.drop(group, member.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
            if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
                records += self.prepare(group, now)
            elif group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
                records += self._complete(group, now)
        return records

    def _expire_syncs(self, group: ClassicGroup, now: int) -> list[LogRecord]:
        """KAFKA-13419: remove members that joined and never sent SyncGroup, because the others wait for them."""
        group.sync_deadline = None
        if not group.pending_syncs:
            return []
        for member_id in list(group.pending_syncs):
            self.drop(group, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        return self.prepare(group, now)
