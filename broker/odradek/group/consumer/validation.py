"""Which ConsumerGroupHeartbeat makes no sense, whatever the group; Kafka's sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from odradek.core.machine import Refused
from odradek.group.consumer.member import JOINING_EPOCH, LEAVING_EPOCH, LEAVING_STATIC_EPOCH
from odradek.group.names import is_blank
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest

__all__ = ["NO_TIMEOUT", "refusal_of_heartbeat"]

NO_TIMEOUT = -1
OWN_MEMBER_ID_FROM = 1
"""Version from which a member chooses its id, also when it joins (KIP-1082)."""

Rule = tuple[Callable[["ConsumerGroupHeartbeatRequest", int], bool], str]


def _lacks_member_id(request: ConsumerGroupHeartbeatRequest, version: int) -> bool:
    has_one = version >= OWN_MEMBER_ID_FROM or request.member_epoch > 0 or request.member_epoch == LEAVING_EPOCH
    return has_one and not request.member_id.strip()


def _joins(request: ConsumerGroupHeartbeatRequest) -> bool:
    return request.member_epoch == JOINING_EPOCH


_RULES: Sequence[Rule] = (
    (_lacks_member_id, "MemberId can't be empty."),
    (lambda request, _: not request.group_id.strip(), "GroupId can't be empty."),
    (lambda request, _: is_blank(request.instance_id), "InstanceId can't be empty."),
    (lambda request, _: is_blank(request.rack_id), "RackId can't be empty."),
    (
        lambda request, _: _joins(request) and request.rebalance_timeout_ms == NO_TIMEOUT,
        "RebalanceTimeoutMs must be provided in first request.",
    ),
    (
        lambda request, _: _joins(request) and request.topic_partitions != [],
        "TopicPartitions must be empty when (re-)joining.",
    ),
    (
        lambda request, _: (
            _joins(request) and request.subscribed_topic_names is None and request.subscribed_topic_regex is None
        ),
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    (
        lambda request, _: request.member_epoch == LEAVING_STATIC_EPOCH and request.instance_id is None,
        "InstanceId can't be null.",
    ),
    (lambda request, _: request.member_epoch < LEAVING_STATIC_EPOCH, "MemberEpoch is invalid."),
)
"""In this order; the first that holds is answered."""


def _plainly_stays(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether it is the usual heartbeat, of which no rule holds: a member is there, and says no more of itself."""
    return bool(
        request.member_epoch > JOINING_EPOCH
        and request.member_id.strip()
        and request.group_id.strip()
        and request.instance_id is None
        and request.rack_id is None
    )


def refusal_of_heartbeat(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]
) -> Refused | None:
    """Why the request makes no sense; None if it does."""
    if not _plainly_stays(request):
        for holds, sentence in _RULES:
            if holds(request, version):
                return Refused(ErrorCode.INVALID_REQUEST, sentence)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        known = ", ".join(assignors)
        sentence = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {known}."
        return Refused(ErrorCode.UNSUPPORTED_ASSIGNOR, sentence)
    return None
