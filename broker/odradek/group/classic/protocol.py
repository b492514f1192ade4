"""The responses of a classic group to JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

A JoinGroup waits until every member has joined or the rebalance timeout has passed,
a SyncGroup until the leader's assignment is in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.core.machine import Answered, Awaited, Decision, Parked, Proposed, Refused
from odradek.group.classic.member import Member, protocols_of, rebalance_timeout_of
from odradek.group.classic.rebalance import Rebalance, assigned, joined
from odradek.group.classic.states import HEARTBEAT, REJOIN, REPLACE, SYNC, GroupState, Rejoin, Replace, Sync
from odradek.group.records import group_record
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.heartbeat_response import HeartbeatResponse
from odradek.wire.messages.join_group_response import JoinGroupResponse
from odradek.wire.messages.leave_group_response import LeaveGroupResponse, MemberResponse

if TYPE_CHECKING:
    from odradek.config.table import Config
    from odradek.group.classic.group import ClassicGroup
    from odradek.group.classic.waits import Waits
    from odradek.group.modern_member import Client
    from odradek.wire.messages.heartbeat_request import HeartbeatRequest
    from odradek.wire.messages.join_group_request import JoinGroupRequest
    from odradek.wire.messages.leave_group_request import MemberIdentity
    from odradek.wire.messages.sync_group_request import SyncGroupRequest
    from odradek.wire.messages.sync_group_response import SyncGroupResponse

__all__ = ["ClassicProtocol"]

MEMBER_ID_REQUIRED_FROM = 4
"""The first JoinGroup version in which a new dynamic member has to join again with the id that it gets (KIP-394)."""
SKIP_ASSIGNMENT_FROM = 9
"""The first JoinGroup version in which a returning static leader learns that it still leads (KIP-814)."""
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a new member may wait in a rebalance: it has no id yet for heartbeats."""


class ClassicProtocol:
    """Decides about requests to the groups that it is given; it keeps no state besides theirs."""

    def __init__(self, config: Config, waits: Waits, rebalance: Rebalance, member_suffix: Callable[[], str]) -> None:
        self._config = config
        self._waits = waits
        self._rebalance = rebalance
        self._member_suffix = member_suffix

    def join(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        *,
        version: int,
        client: Client,
        now: int,
    ) -> Decision[JoinGroupResponse]:
        """JoinGroup."""
        if not self._has_room(group, request.member_id):
            self._rebalance.drop(group, request.member_id, ErrorCode.GROUP_MAX_SIZE_REACHED)
            return Refused(ErrorCode.GROUP_MAX_SIZE_REACHED)
        protocols = protocols_of(request.protocols)
        if not group.supports(request.protocol_type, protocols):
            return Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        joining = Member(
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            client_id=client.id,
            client_host=client.host,
            rebalance_timeout_ms=rebalance_timeout_of(request, version),
            session_timeout_ms=request.session_timeout_ms,
            protocols=protocols,
        )
        if joining.member_id:
            return self._join_known(group, joining, request.protocol_type, now)
        return self._join_unknown(group, joining, request.protocol_type, version=version, now=now)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """KIP-389: a full group takes no new member; during a rebalance only members that have joined count."""
        match group.state:
            case GroupState.EMPTY | GroupState.DEAD:
                return True
            case GroupState.PREPARING_REBALANCE:
                member = group.members.get(member_id)
                waiting = member is not None and member.join is not None
                return waiting or group.joined_count < self._config.group_max_size
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return member_id in group.members or len(group.members) < self._config.group_max_size

    def _join_unknown(
        self, group: ClassicGroup, joining: Member, protocol_type: str, *, version: int, now: int
    ) -> Decision[JoinGroupResponse]:
        prefix = joining.client_id if joining.instance_id is None else joining.instance_id
        joining.member_id = f"{prefix}-{self._member_suffix()}"
        if joining.instance_id is not None:
            old_id = group.static_members.get(joining.instance_id)
            if old_id is not None:
                return self._replace(group, group.members[old_id], joining, version=version, now=now)
        elif version >= MEMBER_ID_REQUIRED_FROM:
            group.pending_joins[joining.member_id] = now + joining.session_timeout_ms
            return Answered(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=joining.member_id))
        return self._add(group, joining, protocol_type, now)

    def _join_known(
        self, group: ClassicGroup, joining: Member, protocol_type: str, now: int
    ) -> Decision[JoinGroupResponse]:
        # A static member is never asked to join again, so an instance id beside an id given out is a mistake.
        if joining.member_id in group.pending_joins and joining.instance_id is None:
            return self._add(group, joining, protocol_type, now)
        refusal = group.refusal_of_member(joining.member_id, joining.instance_id)
        if refusal is not None:
            return Refused(refusal)
        member = group.members[joining.member_id]
        changed = member.protocols != joining.protocols
        match REJOIN[group.state, member.member_id == group.leader, changed]:
            case Rejoin.UPDATE:
                group.offer(member, joining.protocols)
                member.rebalance_timeout_ms = joining.rebalance_timeout_ms
                member.session_timeout_ms = joining.session_timeout_ms
                return self._wait(group, member, now)
            case Rejoin.CURRENT:
                return Answered(joined(group, member))
            case Rejoin.UNKNOWN:
                return Refused(ErrorCode.UNKNOWN_MEMBER_ID)
            case Rejoin.UNAVAILABLE:
                return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _add(self, group: ClassicGroup, joining: Member, protocol_type: str, now: int) -> Decision[JoinGroupResponse]:
        joining.is_new = True
        joining.deadline = now + NEW_MEMBER_JOIN_TIMEOUT_MS
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.new_member_added = True
        group.add(joining, protocol_type)
        return self._wait(group, joining, now)

    def _replace(
        self, group: ClassicGroup, old: Member, joining: Member, *, version: int, now: int
    ) -> Decision[JoinGroupResponse]:
        """KIP-345: a static member has restarted; requests parked under its old member id are fenced."""
        self._waits.end_both(old, ErrorCode.FENCED_INSTANCE_ID, member_id=old.member_id)
        old_leader = group.leader
        joining.assignment = old.assignment
        joining.client_id, joining.client_host = old.client_id, old.client_host
        joining.deadline = now + old.session_timeout_ms
        group.replace(old, joining)
        reselected = group.state is GroupState.STABLE and group.select_protocol() != group.protocol
        match REPLACE[group.state, reselected]:
            case Replace.STORE:
                reply = joined(group, joining)
                if version >= SKIP_ASSIGNMENT_FROM:
                    reply.skip_assignment = joining.member_id == group.leader
                else:
                    # Told that it leads it would assign anew, so it learns only who led before.
                    reply.leader, reply.members = old_leader or "", []
                return Proposed((group_record(group),), reply)
            case Replace.REBALANCE | Replace.COMPLETE:
                return self._wait(group, joining, now)

    def _wait(self, group: ClassicGroup, member: Member, now: int) -> Decision[JoinGroupResponse]:
        token = self._waits.begin_join(group, member)
        records = self._rebalance.somebody_joined(group, now)
        assert not records, "a group in which somebody waits is not empty"
        return self._waits.decision(token)

    def sync(self, group: ClassicGroup, request: SyncGroupRequest) -> Decision[SyncGroupResponse]:
        """SyncGroup; the leader's request has the assignment of all members."""
        refusal = self._refusal_of_sync(group, request)
        if refusal is not None:
            return Refused(refusal)
        member = group.members[request.member_id]
        match SYNC[group.state]:
            case Sync.WAIT if member.member_id == group.leader:
                return self._assign(group, member, request)
            case Sync.WAIT:
                self._rebalance.synced(group, member.member_id)
                return Parked(self._waits.begin_sync(group, member))
            case Sync.ANSWER:
                self._rebalance.synced(group, member.member_id)
                return Answered(assigned(group, member.assignment))
            case Sync.REBALANCE:
                return Refused(ErrorCode.REBALANCE_IN_PROGRESS)
            case Sync.UNKNOWN:
                return Refused(ErrorCode.UNKNOWN_MEMBER_ID)
            case Sync.UNAVAILABLE:
                return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _refusal_of_sync(self, group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode | None:
        refusal = group.refusal_of_member(request.member_id, request.group_instance_id)
        if refusal is not None:
            return refusal
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        named = (request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol)
        if any(said is not None and known is not None and said != known for said, known in named):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return None

    def _assign(self, group: ClassicGroup, leader: Member, request: SyncGroupRequest) -> Decision[SyncGroupResponse]:
        assignments = {each.member_id: each.assignment for each in request.assignments}
        # The leader waits as all do: a rebalance that begins before the record is committed ends its wait, too.
        # It counts as synced when the record is applied; if that never comes the sync timeout goes on.
        return Awaited((group_record(group, assignments),), self._waits.begin_sync(group, leader))

    def heartbeat(self, group: ClassicGroup, request: HeartbeatRequest) -> Decision[HeartbeatResponse]:
        """Heartbeat; the caller renews the session."""
        refusal = group.refusal_of_member(request.member_id, request.group_instance_id)
        if refusal is None and request.generation_id != group.generation:
            refusal = ErrorCode.ILLEGAL_GENERATION
        if refusal is not None:
            return Refused(refusal)
        return Answered(HeartbeatResponse(error_code=HEARTBEAT[group.state]))

    def leave(self, group: ClassicGroup, leaving: list[MemberIdentity], now: int) -> Decision[LeaveGroupResponse]:
        """LeaveGroup: members leave, or an admin removes them by instance id (KIP-345)."""
        responses = [
            MemberResponse(
                member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=self._leave(group, each)
            )
            for each in leaving
        ]
        reply = LeaveGroupResponse(members=responses)
        if all(response.error_code != ErrorCode.NONE for response in responses):
            return Answered(reply)
        records = self._rebalance.somebody_left(group, now)
        return Proposed(tuple(records), reply) if records else Answered(reply)

    def _leave(self, group: ClassicGroup, leaving: MemberIdentity) -> ErrorCode:
        member_id, instance_id = leaving.member_id, leaving.group_instance_id
        if not member_id:
            known = None if instance_id is None else group.static_members.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = known
        elif member_id not in group.pending_joins:
            refusal = group.refusal_of_member(member_id, instance_id)
            if refusal is not None:
                return refusal
        self._rebalance.drop(group, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        return ErrorCode.NONE
