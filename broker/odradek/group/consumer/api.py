"""Members and descriptions of consumer groups (KIP-848).

- ConsumerGroupHeartbeat (key 68), versions 0 and 1: 1 adds patterns and has members choose their ids (KIP-1082).
- ConsumerGroupDescribe (key 69), 0 and 1: 1 tells which protocol a member speaks (KIP-1099).

A broker with `group.coordinator.rebalance.protocols=classic`, or without the feature group.version, answers both with
UNSUPPORTED_VERSION. ApiVersions lists them all the same: a client that finds them missing may wait for a coordinator
that has them for ever, and one that is refused tells its user at once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from odradek.access.acls import AclOperation, AclResource
from odradek.core.machine import Refused
from odradek.group.api import decided, described, refusal
from odradek.host.coordinators import HasCoordinators
from odradek.host.seams import HasAuthority, HasClock, HasConfig, HasMetadata, HasTurns
from odradek.metadata.features import GROUP_VERSION
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse, DescribedGroup
from odradek.wire.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest

__all__ = ["consumer_group_describe", "consumer_group_heartbeat"]


class Node(HasAuthority, HasClock, HasConfig, HasCoordinators, HasMetadata, HasTurns, Protocol):
    """What these routes touch of their broker."""


CONSUMER_PROTOCOL = "consumer"


def _serves_consumer_groups(node: Node) -> bool:
    named = CONSUMER_PROTOCOL in node.config.group_coordinator_rebalance_protocols
    return named and node.image.feature(GROUP_VERSION) > 0


async def consumer_group_heartbeat(node: Node, call: Call) -> ConsumerGroupHeartbeatResponse:
    """Join, stay or leave; answered with what has changed for the member."""
    request: ConsumerGroupHeartbeatRequest = call.request
    if not _serves_consumer_groups(node):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    client_id, host = call.client_id or "", f"/{call.host}"
    authority = node.authority
    sees = None if authority is None else partial(authority.allows, call, AclOperation.DESCRIBE, AclResource.TOPIC)
    outcome = await decided(
        node,
        request.group_id,
        lambda machine: machine.consumer_heartbeat(request, call.version, client_id, host, node.now, sees),
    )
    if isinstance(outcome, Refused):
        return ConsumerGroupHeartbeatResponse(error_code=refusal(outcome), error_message=outcome.message)
    return outcome


async def consumer_group_describe(node: Node, call: Call) -> ConsumerGroupDescribeResponse:
    """Say what state groups are in, who their members are, what they have and what they shall have."""
    groups = await described(
        node,
        call,
        DescribedGroup,
        lambda machine, group_id: machine.describe_consumer_group(group_id),
        served=_serves_consumer_groups(node),
    )
    return ConsumerGroupDescribeResponse(groups=groups)
