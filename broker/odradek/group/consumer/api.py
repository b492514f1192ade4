"""Members and descriptions of consumer groups (KIP-848).

- ConsumerGroupHeartbeat (key 68), versions 0 and 1: 1 adds patterns and member ids chosen by members (KIP-1082).
- ConsumerGroupDescribe (key 69), 0 and 1: 1 adds the protocol of each member (KIP-1099).

With `group.coordinator.rebalance.protocols=classic`, or without the feature group.version, both answer
UNSUPPORTED_VERSION. ApiVersions lists them all the same: a client that misses them may wait for ever for a coordinator
that has them, while a refused client tells its user at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import allowed, in_series
from odradek.core.machine import Refused
from odradek.group.api import (
    ModernGroupApi,
    client_of,
    described,
    described_with_assigned_topics,
    names_described,
    refusal,
)
from odradek.host.endpoint import endpoint
from odradek.metadata.features import GROUP_VERSION
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT
from odradek.wire.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse, DescribedGroup
from odradek.wire.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.wire.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
    from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest

__all__ = ["ConsumerGroupApi"]

READ, DESCRIBE, GROUP, TOPIC = AclOperation.READ, AclOperation.DESCRIBE, AclResource.GROUP, AclResource.TOPIC


def _topics_of(group: DescribedGroup) -> Iterator[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            yield from (topic.topic_name for topic in assignment.topic_partitions)


class ConsumerGroupApi(ModernGroupApi):
    """ConsumerGroupHeartbeat, ConsumerGroupDescribe."""

    feature = GROUP_VERSION
    protocol = "consumer"

    @endpoint(
        CONSUMER_GROUP_HEARTBEAT,
        left_out="assignors of one's own, racks (KIP-1101)",
        needs=in_series(
            allowed(READ, GROUP, of=lambda request: request.group_id),
            names_described(lambda request: request.subscribed_topic_names, ConsumerGroupHeartbeatResponse),
        ),
    )
    async def heartbeat(self, call: Call[ConsumerGroupHeartbeatRequest]) -> ConsumerGroupHeartbeatResponse:
        """ConsumerGroupHeartbeat (key 68): join, stay or leave; the response has the changes for the member."""
        request, client = call.request, client_of(call)
        if not self._is_served:
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        authority = self._authority
        sees = None if authority is None else partial(authority.allows, call, DESCRIBE, TOPIC)
        outcome: ConsumerGroupHeartbeatResponse | Refused
        shard = self._coordinators.of(request.group_id)
        if isinstance(shard, Refused):
            outcome = shard
        else:
            now = self._clock.now
            outcome = await shard.decided(shard.machine.consumer_heartbeat(request, call.version, client, now, sees))
        if isinstance(outcome, Refused):
            return ConsumerGroupHeartbeatResponse(error_code=refusal(outcome), error_message=outcome.message)
        return outcome

    @endpoint(
        CONSUMER_GROUP_DESCRIBE,
        needs=described(described_with_assigned_topics(lambda response: response.groups, _topics_of)),
    )
    async def describe(self, call: Call[ConsumerGroupDescribeRequest]) -> ConsumerGroupDescribeResponse:
        """ConsumerGroupDescribe (key 69): the state of each group, its members, their assignments and targets."""
        find = lambda machine, group_id: machine.consumer.describe(group_id)  # noqa: E731 - typed where it is used
        return ConsumerGroupDescribeResponse(groups=await self._described(call, DescribedGroup, find))
