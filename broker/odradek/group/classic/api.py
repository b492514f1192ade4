"""Members of classic groups, and administration of all groups.

- JoinGroup (key 11), versions 0 to 9: 1 adds the rebalance timeout (KIP-62), 4 makes new members join twice (KIP-394),
  5 adds static members (KIP-345), 6 is flexible, 7 answers the protocol type (KIP-559), 8 adds the reason (KIP-800),
  9 lets a static leader skip the assignment (KIP-814).
- SyncGroup (key 14), 0 to 5: 3 adds the instance id, 4 is flexible, 5 names the protocol (KIP-559).
- Heartbeat (key 12), 0 to 4: 3 adds the instance id, 4 is flexible.
- LeaveGroup (key 13), 0 to 5: 3 takes several members (KIP-345), 4 is flexible, 5 adds the reason (KIP-800).
- DescribeGroups (key 15), 0 to 6: 3 adds authorized operations (KIP-430), 4 the instance id, 5 is flexible,
  6 tells groups that do not exist (KIP-1043).
- ListGroups (key 16), 0 to 5: 3 is flexible, 4 filters by state (KIP-518), 5 by type (KIP-848).
- DeleteGroups (key 42), 0 to 3: 2 is flexible, 3 adds the error message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import DENIED, allowed, allowed_on_each, asks, denied, in_series
from odradek.core.machine import Refused
from odradek.group.api import GROUP_OPERATIONS, client_of, group_shard, refusal, with_operations
from odradek.host.call import Serve
from odradek.host.endpoint import endpoint
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    SYNC_GROUP,
)
from odradek.wire.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from odradek.wire.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from odradek.wire.messages.heartbeat_response import HeartbeatResponse
from odradek.wire.messages.join_group_response import JoinGroupResponse
from odradek.wire.messages.leave_group_response import LeaveGroupResponse
from odradek.wire.messages.list_groups_response import ListedGroup, ListGroupsResponse
from odradek.wire.messages.sync_group_response import SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from odradek.access.authority import Authority
    from odradek.group.shard import GroupShard
    from odradek.host.call import Call
    from odradek.host.host import Host
    from odradek.host.shard import CoordinatorsOf
    from odradek.share.state_client import ShareStateClient
    from odradek.wire.messages.delete_groups_request import DeleteGroupsRequest
    from odradek.wire.messages.describe_groups_request import DescribeGroupsRequest
    from odradek.wire.messages.heartbeat_request import HeartbeatRequest
    from odradek.wire.messages.join_group_request import JoinGroupRequest
    from odradek.wire.messages.leave_group_request import LeaveGroupRequest
    from odradek.wire.messages.list_groups_request import ListGroupsRequest
    from odradek.wire.messages.sync_group_request import SyncGroupRequest

__all__ = ["GroupApi"]

READ, DESCRIBE, DELETE, GROUP = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE, AclResource.GROUP
NULL_PROTOCOL_FROM = 7
"""The first JoinGroup version in which a missing protocol is null, not empty."""
PROTOCOL_NAMED_FROM = 5
"""The first SyncGroup version in which a member has to name protocol and protocol type."""
ANSWERED_WITH_MEMBER_ID = frozenset(
    {
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
)
"""Errors with which JoinGroup returns the member id of the request."""


@asks("READ on the group")
async def _may_join(
    authority: Authority, call: Call[JoinGroupRequest], serve: Serve[JoinGroupRequest, JoinGroupResponse]
) -> JoinGroupResponse:
    if authority.allows(call, READ, GROUP, call.request.group_id):
        return await serve(call)
    return JoinGroupResponse(error_code=DENIED[GROUP], protocol_name=None if call.version >= NULL_PROTOCOL_FROM else "")


@asks("")
async def _protocol_named(
    authority: Authority, call: Call[SyncGroupRequest], serve: Serve[SyncGroupRequest, SyncGroupResponse]
) -> SyncGroupResponse:
    """Check the protocol before the permissions and the group, as Kafka does."""
    if _names_no_protocol(call):
        return denied(call, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, SyncGroupResponse)
    return await serve(call)


@asks("DESCRIBE on the cluster for all groups; else lists the groups with DESCRIBE")
async def _listed(
    authority: Authority, call: Call[ListGroupsRequest], serve: Serve[ListGroupsRequest, ListGroupsResponse]
) -> ListGroupsResponse:
    response = await serve(call)
    if not authority.allows(call, DESCRIBE):
        response.groups = [each for each in response.groups if authority.allows(call, DESCRIBE, GROUP, each.group_id)]
    return response


def _names_no_protocol(call: Call[SyncGroupRequest]) -> bool:
    """Whether the request lacks the protocol (KIP-559)."""
    request = call.request
    return call.version >= PROTOCOL_NAMED_FROM and None in (request.protocol_type, request.protocol_name)


class GroupApi:
    """JoinGroup, SyncGroup, Heartbeat, LeaveGroup; of all kinds of groups DescribeGroups, ListGroups, DeleteGroups."""

    def __init__(
        self, node: Host, coordinators: CoordinatorsOf[GroupShard], share_states: Callable[[], ShareStateClient]
    ) -> None:
        self._coordinators = coordinators
        self._share_states = share_states
        """The client of share coordinators; imported by the first share group."""
        self._clock = node.clock
        self._turns = node.turns

    @endpoint(JOIN_GROUP, needs=_may_join)
    async def join_group(self, call: Call[JoinGroupRequest]) -> JoinGroupResponse:
        """JoinGroup: parked until the next generation is known."""
        request = call.request
        version = call.version
        outcome: JoinGroupResponse | Refused
        shard = group_shard(self._coordinators, request.group_id)
        if isinstance(shard, Refused):
            outcome = shard
        else:
            outcome = await shard.carry_out(shard.machine.join(request, version, client_of(call), self._clock.now))
        if isinstance(outcome, Refused):
            error = refusal(outcome)
            member_id = request.member_id if error in ANSWERED_WITH_MEMBER_ID else ""
            outcome = JoinGroupResponse(error_code=error, member_id=member_id)
        if version >= NULL_PROTOCOL_FROM:
            outcome.protocol_name = outcome.protocol_name or None
        else:
            outcome.protocol_name = outcome.protocol_name or ""
        return outcome

    @endpoint(SYNC_GROUP, needs=in_series(_protocol_named, allowed(READ, GROUP, of=lambda request: request.group_id)))
    async def sync_group(self, call: Call[SyncGroupRequest]) -> SyncGroupResponse:
        """SyncGroup: the leader brings the assignment; the other members are parked until it has."""
        request = call.request
        if _names_no_protocol(call):
            return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        shard = group_shard(self._coordinators, request.group_id)
        if isinstance(shard, Refused):
            return SyncGroupResponse(error_code=refusal(shard))
        outcome = await shard.carry_out(shard.machine.sync(request, call.version, self._clock.now))
        return SyncGroupResponse(error_code=refusal(outcome)) if isinstance(outcome, Refused) else outcome

    @endpoint(HEARTBEAT, needs=allowed(READ, GROUP, of=lambda request: request.group_id))
    async def heartbeat(self, call: Call[HeartbeatRequest]) -> HeartbeatResponse:
        """Heartbeat: renews the member's session."""
        request = call.request
        shard = group_shard(self._coordinators, request.group_id)
        if isinstance(shard, Refused):
            # While the group is being read back nobody can be refused: the session begins when that is done.
            loading = shard.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return HeartbeatResponse(error_code=ErrorCode.NONE if loading else refusal(shard))
        outcome = await shard.carry_out(shard.machine.heartbeat(request, self._clock.now))
        return HeartbeatResponse(error_code=refusal(outcome)) if isinstance(outcome, Refused) else outcome

    @endpoint(LEAVE_GROUP, needs=allowed(READ, GROUP, of=lambda request: request.group_id))
    async def leave_group(self, call: Call[LeaveGroupRequest]) -> LeaveGroupResponse:
        """LeaveGroup."""
        request = call.request
        shard = group_shard(self._coordinators, request.group_id)
        if isinstance(shard, Refused):
            return LeaveGroupResponse(error_code=refusal(shard))
        outcome = await shard.carry_out(shard.machine.leave(request, call.version, self._clock.now))
        return LeaveGroupResponse(error_code=refusal(outcome)) if isinstance(outcome, Refused) else outcome

    @endpoint(
        DESCRIBE_GROUPS,
        needs=in_series(
            with_operations(lambda response: response.groups),
            allowed_on_each(
                DESCRIBE,
                GROUP,
                asked=lambda request: request.groups,
                answered=lambda response: response.groups,
                name=lambda group_id: group_id,
            ),
        ),
        in_parts=True,
    )
    async def describe_groups(self, call: Call[DescribeGroupsRequest]) -> DescribeGroupsResponse:
        """DescribeGroups: the state of each group, and its members."""
        request = call.request
        response = DescribeGroupsResponse()
        async for some in self._turns.share(call, request.groups):
            response.groups += [self._describe(group_id, call) for group_id in some]
        return response

    def _describe(self, group_id: str, call: Call[DescribeGroupsRequest]) -> DescribedGroup:
        request = call.request
        shard = group_shard(self._coordinators, group_id, empty_allowed=True)
        if isinstance(shard, Refused):
            return DescribedGroup(group_id=group_id, error_code=refusal(shard))
        group = shard.machine.describe(group_id, call.version)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
        return group

    @endpoint(LIST_GROUPS, needs=_listed)
    async def list_groups(self, call: Call[ListGroupsRequest]) -> ListGroupsResponse:
        """ListGroups: the groups that this broker coordinates."""
        request = call.request
        groups: list[ListedGroup] = []
        for shard in self._coordinators.led():
            if shard.loading:
                return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            groups += shard.machine.listed(request.states_filter, request.types_filter)
        return ListGroupsResponse(groups=groups)

    @endpoint(
        DELETE_GROUPS,
        needs=allowed_on_each(
            DELETE,
            GROUP,
            asked=lambda request: request.groups_names,
            answered=lambda response: response.results,
            name=lambda group_id: group_id,
        ),
        in_parts=True,
    )
    async def delete_groups(self, call: Call[DeleteGroupsRequest]) -> DeleteGroupsResponse:
        """DeleteGroups: only groups without members; their offsets go too."""
        request = call.request
        results: list[DeletableGroupResult] = []
        async for some in self._turns.share(call, list(dict.fromkeys(request.groups_names))):
            results += [await self._delete(call, group_id) for group_id in some]
        return DeleteGroupsResponse(results=results)

    async def _forget_shares(self, shard: GroupShard, group_id: str) -> Refused | None:
        """Delete the state of a share group's partitions before the group itself (KIP-932)."""
        states = await shard.carry_out(shard.machine.share.deleting(group_id))
        if states is None or isinstance(states, Refused):
            return states
        from odradek.share.state_calls import delete_states  # few clusters have share groups

        return next(iter((await delete_states(self._share_states(), self._turns, states)).values()), None)

    async def _delete(self, call: Call[DeleteGroupsRequest], group_id: str) -> DeletableGroupResult:
        shard = group_shard(self._coordinators, group_id, empty_allowed=True)
        outcome: DeletableGroupResult | Refused | None
        if isinstance(shard, Refused):
            outcome = shard
        else:
            refused = await self._forget_shares(shard, group_id)
            if refused is not None:
                return DeletableGroupResult(group_id=group_id, error_code=refused.error, error_message=refused.message)
            while (outcome := await shard.carry_out(shard.machine.delete_group(group_id, self._clock.now))) is None:
                await self._turns.breathe(call)
        if isinstance(outcome, Refused):
            return DeletableGroupResult(group_id=group_id, error_code=refusal(outcome))
        return outcome
