"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, as a broker answers them that serves classic groups alone.

That is a Kafka with `group.coordinator.rebalance.protocols=classic`, or without the feature group.version.
ApiVersions lists both all the same: a client that finds them missing may wait for a coordinator that has them for ever,
and one that is refused tells its user at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse, DescribedGroup
from odradek.wire.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from odradek.node.node import Node
    from odradek.node.transport.router import Call
    from odradek.wire.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest

__all__ = ["consumer_group_describe", "consumer_group_heartbeat"]


async def consumer_group_heartbeat(node: Node, call: Call) -> ConsumerGroupHeartbeatResponse:
    """ConsumerGroupHeartbeat (key 68), versions 0 and 1 (KIP-848)."""
    return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)


async def consumer_group_describe(node: Node, call: Call) -> ConsumerGroupDescribeResponse:
    """ConsumerGroupDescribe (key 69), versions 0 and 1 (KIP-848); an admin client then asks with DescribeGroups."""
    request: ConsumerGroupDescribeRequest = call.request
    return ConsumerGroupDescribeResponse(
        groups=[
            DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
            for group_id in request.group_ids
        ]
    )
