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

from typing import TYPE_CHECKING, Protocol

from odradek.core.machine import Refused
from odradek.group.api import GROUP_OPERATIONS, group_shard, refusal
from odradek.host.coordinators import HasCoordinators
from odradek.host.seams import HasClock, HasConfig, HasMetadata, HasTurns
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from odradek.wire.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from odradek.wire.messages.heartbeat_response import HeartbeatResponse
from odradek.wire.messages.join_group_response import JoinGroupResponse
from odradek.wire.messages.leave_group_response import LeaveGroupResponse
from odradek.wire.messages.list_groups_response import ListedGroup, ListGroupsResponse
from odradek.wire.messages.sync_group_response import SyncGroupResponse

if TYPE_CHECKING:
    from odradek.group.shard import GroupShard
    from odradek.host.call import Call
    from odradek.share.state_client import ShareStateClient
    from odradek.wire.messages.delete_groups_request import DeleteGroupsRequest
    from odradek.wire.messages.describe_groups_request import DescribeGroupsRequest
    from odradek.wire.messages.heartbeat_request import HeartbeatRequest
    from odradek.wire.messages.join_group_request import JoinGroupRequest
    from odradek.wire.messages.leave_group_request import LeaveGroupRequest
    from odradek.wire.messages.list_groups_request import ListGroupsRequest
    from odradek.wire.messages.sync_group_request import SyncGroupRequest

__all__ = [
    "delete_groups",
    "describe_groups",
    "heartbeat",
    "join_group",
    "leave_group",
    "list_groups",
    "names_no_protocol",
    "sync_group",
]


class Node(HasClock, HasConfig, HasCoordinators, HasMetadata, HasTurns, Protocol):
    """What these routes touch of their broker."""

    @property
    def share_states(self) -> ShareStateClient: ...


NULL_PROTOCOL_FROM = 7
"""JoinGroup version from which no protocol is null and not empty."""
PROTOCOL_NAMED_FROM = 5
"""SyncGroup version from which a member has to say the protocol and its type."""
ANSWERED_WITH_MEMBER_ID = frozenset(
    {
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
)
"""Errors with which JoinGroup hands back the member id of the request."""


async def join_group(node: Node, call: Call) -> JoinGroupResponse:
    """Take part in the next generation; parked until it is known."""
    request: JoinGroupRequest = call.request
    version = call.version
    outcome: JoinGroupResponse | Refused
    shard = group_shard(node, request.group_id)
    if isinstance(shard, Refused):
        outcome = shard
    else:
        client_id, host = call.client_id or "", f"/{call.host}"
        outcome = await shard.carry_out(shard.machine.join(request, version, client_id, host, node.now))
    if isinstance(outcome, Refused):
        error = refusal(outcome)
        member_id = request.member_id if error in ANSWERED_WITH_MEMBER_ID else ""
        outcome = JoinGroupResponse(error_code=error, member_id=member_id)
    if version >= NULL_PROTOCOL_FROM:
        outcome.protocol_name = outcome.protocol_name or None
    else:
        outcome.protocol_name = outcome.protocol_name or ""
    return outcome


async def sync_group(node: Node, call: Call) -> SyncGroupResponse:
    """Fetch the member's assignment, or bring everybody's; parked until the leader has."""
    request: SyncGroupRequest = call.request
    if names_no_protocol(request, call.version):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    shard = group_shard(node, request.group_id)
    if isinstance(shard, Refused):
        return SyncGroupResponse(error_code=refusal(shard))
    outcome = await shard.carry_out(shard.machine.sync(request, call.version, node.now))
    return SyncGroupResponse(error_code=refusal(outcome)) if isinstance(outcome, Refused) else outcome


def names_no_protocol(request: SyncGroupRequest, version: int) -> bool:
    """Whether a member does not say the protocol (KIP-559): Kafka looks at that before it looks at the group."""
    return version >= PROTOCOL_NAMED_FROM and None in (request.protocol_type, request.protocol_name)


async def heartbeat(node: Node, call: Call) -> HeartbeatResponse:
    """Keep the session of a member alive."""
    request: HeartbeatRequest = call.request
    shard = group_shard(node, request.group_id)
    if isinstance(shard, Refused):
        # While the group is being read back nobody can be refused: the session begins when that is done.
        loading = shard.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=ErrorCode.NONE if loading else refusal(shard))
    outcome = await shard.carry_out(shard.machine.heartbeat(request, node.now))
    return HeartbeatResponse(error_code=refusal(outcome)) if isinstance(outcome, Refused) else outcome


async def leave_group(node: Node, call: Call) -> LeaveGroupResponse:
    """Let members go."""
    request: LeaveGroupRequest = call.request
    shard = group_shard(node, request.group_id)
    if isinstance(shard, Refused):
        return LeaveGroupResponse(error_code=refusal(shard))
    outcome = await shard.carry_out(shard.machine.leave(request, call.version, node.now))
    return LeaveGroupResponse(error_code=refusal(outcome)) if isinstance(outcome, Refused) else outcome


async def describe_groups(node: Node, call: Call) -> DescribeGroupsResponse:
    """Say what state groups are in, and who their members are."""
    request: DescribeGroupsRequest = call.request
    response = DescribeGroupsResponse()
    async for some in node.turns.share(call, request.groups):
        response.groups += [_describe(node, group_id, call) for group_id in some]
    return response


def _describe(node: Node, group_id: str, call: Call) -> DescribedGroup:
    request: DescribeGroupsRequest = call.request
    shard = group_shard(node, group_id, empty_allowed=True)
    if isinstance(shard, Refused):
        return DescribedGroup(group_id=group_id, error_code=refusal(shard))
    group = shard.machine.describe(group_id, call.version)
    if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
        group.authorized_operations = GROUP_OPERATIONS
    return group


async def list_groups(node: Node, call: Call) -> ListGroupsResponse:
    """List the groups that this broker coordinates."""
    request: ListGroupsRequest = call.request
    groups: list[ListedGroup] = []
    for shard in node.coordinators.of_groups():
        if shard.loading:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        groups += shard.machine.listed(request.states_filter, request.types_filter)
    return ListGroupsResponse(groups=groups)


async def delete_groups(node: Node, call: Call) -> DeleteGroupsResponse:
    """Delete groups without members, with their offsets."""
    request: DeleteGroupsRequest = call.request
    results: list[DeletableGroupResult] = []
    async for some in node.turns.share(call, list(dict.fromkeys(request.groups_names))):
        results += [await _delete(node, call, group_id) for group_id in some]
    return DeleteGroupsResponse(results=results)


async def _forget_shares(node: Node, shard: GroupShard, group_id: str) -> Refused | None:
    """What a share group has read is forgotten before the group itself (KIP-932)."""
    states = await shard.carry_out(shard.machine.share.deleting(group_id))
    if states is None or isinstance(states, Refused):
        return states
    from odradek.group.share.state_calls import delete_states  # few clusters have share groups

    return next(iter((await delete_states(node.share_states, node.turns, states)).values()), None)


async def _delete(node: Node, call: Call, group_id: str) -> DeletableGroupResult:
    shard = group_shard(node, group_id, empty_allowed=True)
    outcome: DeletableGroupResult | Refused | None
    if isinstance(shard, Refused):
        outcome = shard
    else:
        refused = await _forget_shares(node, shard, group_id)
        if refused is not None:
            return DeletableGroupResult(group_id=group_id, error_code=refused.error, error_message=refused.message)
        while (outcome := await shard.carry_out(shard.machine.delete_group(group_id, node.now))) is None:
            await node.turns.breathe(call)
    if isinstance(outcome, Refused):
        return DeletableGroupResult(group_id=group_id, error_code=refusal(outcome))
    return outcome
