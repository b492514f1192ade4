"""Members and descriptions of consumer groups (KIP-848).

- ConsumerGroupHeartbeat (key 68), versions 0 and 1: 1 adds patterns and has members choose their ids (KIP-1082).
- ConsumerGroupDescribe (key 69), 0 and 1: 1 tells which protocol a member speaks (KIP-1099).

A broker with `group.coordinator.rebalance.protocols=classic`, or without the feature group.version, answers both with
UNSUPPORTED_VERSION. ApiVersions lists them all the same: a client that finds them missing may wait for a coordinator
that has them for ever, and one that is refused tells its user at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import allowed, allowed_on_each, in_series
from odradek.core.machine import Refused
from odradek.group.api import described, refusal
from odradek.group.needs import described_with_assigned_topics, names_described, with_operations
from odradek.host.endpoint import endpoint
from odradek.metadata.features import GROUP_VERSION
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT
from odradek.wire.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse, DescribedGroup
from odradek.wire.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.core.clock import Clock
    from odradek.core.turns import Turns
    from odradek.host.call import Call
    from odradek.host.coordinators import Coordinators
    from odradek.host.metadata import Metadata
    from odradek.host.settings import Settings
    from odradek.wire.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
    from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest

__all__ = ["ConsumerGroupApi"]

READ, DESCRIBE, GROUP, TOPIC = AclOperation.READ, AclOperation.DESCRIBE, AclResource.GROUP, AclResource.TOPIC
CONSUMER_PROTOCOL = "consumer"


def _topics_of(group: DescribedGroup) -> Iterator[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            yield from (topic.topic_name for topic in assignment.topic_partitions)


class ConsumerGroupApi:
    """ConsumerGroupHeartbeat, ConsumerGroupDescribe."""

    def __init__(
        self,
        coordinators: Coordinators,
        *,
        authority: Authority | None,
        metadata: Metadata,
        settings: Settings,
        clock: Clock,
        turns: Turns,
    ) -> None:
        self._coordinators = coordinators
        self._authority = authority
        self._metadata = metadata
        self._settings = settings
        self._clock = clock
        self._turns = turns

    @property
    def _is_served(self) -> bool:
        named = CONSUMER_PROTOCOL in self._settings.config.group_coordinator_rebalance_protocols
        return named and self._metadata.image.feature(GROUP_VERSION) > 0

    @endpoint(
        CONSUMER_GROUP_HEARTBEAT,
        left_out="assignors of one's own, racks (KIP-1101)",
        needs=in_series(
            allowed(READ, GROUP, of=lambda request: request.group_id),
            names_described(lambda request: request.subscribed_topic_names, ConsumerGroupHeartbeatResponse),
        ),
    )
    async def heartbeat(self, call: Call[ConsumerGroupHeartbeatRequest]) -> ConsumerGroupHeartbeatResponse:
        """ConsumerGroupHeartbeat (key 68): join, stay or leave; answered with what has changed for the member."""
        request = call.request
        if not self._is_served:
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        client_id, host = call.client_id or "", f"/{call.host}"
        authority = self._authority
        sees = None if authority is None else partial(authority.allows, call, DESCRIBE, TOPIC)
        outcome: ConsumerGroupHeartbeatResponse | Refused
        shard = self._coordinators.group(request.group_id)
        if isinstance(shard, Refused):
            outcome = shard
        else:
            now = self._clock.now
            outcome = await shard.decided(
                shard.machine.consumer_heartbeat(request, call.version, client_id, host, now, sees)
            )
        if isinstance(outcome, Refused):
            return ConsumerGroupHeartbeatResponse(error_code=refusal(outcome), error_message=outcome.message)
        return outcome

    @endpoint(
        CONSUMER_GROUP_DESCRIBE,
        needs=in_series(
            described_with_assigned_topics(lambda response: response.groups, _topics_of),
            with_operations(lambda response: response.groups),
            allowed_on_each(
                DESCRIBE,
                GROUP,
                asked=lambda request: request.group_ids,
                answered=lambda response: response.groups,
                name=lambda group_id: group_id,
            ),
        ),
    )
    async def describe(self, call: Call[ConsumerGroupDescribeRequest]) -> ConsumerGroupDescribeResponse:
        """ConsumerGroupDescribe (key 69): the states of groups, their members, and what these have and shall have."""
        groups = await described(
            self._coordinators,
            self._turns,
            call,
            DescribedGroup,
            lambda machine, group_id: machine.describe_consumer_group(group_id),
            served=self._is_served,
        )
        return ConsumerGroupDescribeResponse(groups=groups)
