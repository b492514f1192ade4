"""Members and descriptions of share groups (KIP-932).

ShareGroupHeartbeat (key 76) and ShareGroupDescribe (77), version 1: before Kafka 4.1 they were a preview. A cluster
without the feature share.version answers UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from odradek.host.endpoint import Needs, endpoint
from odradek.metadata.features import SHARE_VERSION
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import SHARE_GROUP_DESCRIBE, SHARE_GROUP_HEARTBEAT
from odradek.wire.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse
from odradek.wire.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.wire.messages.share_group_describe_request import ShareGroupDescribeRequest
    from odradek.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest

__all__ = ["ShareGroupApi"]


def _topics_of(group: DescribedGroup) -> Iterator[str]:
    for member in group.members:
        yield from (topic.topic_name for topic in member.assignment.topic_partitions)


_ASSIGNED_TOPICS: Needs[ShareGroupDescribeRequest, ShareGroupDescribeResponse] = described_with_assigned_topics(
    lambda response: response.groups, _topics_of
)


class ShareGroupApi(ModernGroupApi):
    """ShareGroupHeartbeat, ShareGroupDescribe."""

    feature = SHARE_VERSION

    @endpoint(
        SHARE_GROUP_HEARTBEAT,
        needs=in_series(
            allowed(AclOperation.READ, AclResource.GROUP, of=lambda request: request.group_id),
            names_described(lambda request: request.subscribed_topic_names, ShareGroupHeartbeatResponse),
        ),
        lowest=1,
    )
    async def heartbeat(self, call: Call[ShareGroupHeartbeatRequest]) -> ShareGroupHeartbeatResponse:
        """ShareGroupHeartbeat: join, stay or leave; the response has the changes for the member."""
        request = call.request
        if not self._is_served:
            return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        outcome = await self._decided(
            request.group_id, lambda machine: machine.share_heartbeat(request, client_of(call), self._clock.now)
        )
        if isinstance(outcome, Refused):
            return ShareGroupHeartbeatResponse(error_code=refusal(outcome), error_message=outcome.message)
        return outcome

    @endpoint(
        SHARE_GROUP_DESCRIBE,
        needs=described(_ASSIGNED_TOPICS),
        lowest=1,
    )
    async def describe(self, call: Call[ShareGroupDescribeRequest]) -> ShareGroupDescribeResponse:
        """ShareGroupDescribe: the members of groups, and their assignments."""
        find = lambda machine, group_id: machine.share.describe(group_id)  # noqa: E731 - typed where it is used
        return ShareGroupDescribeResponse(groups=await self._described(call, DescribedGroup, find))
