"""Which StreamsGroupHeartbeat makes no sense, whatever the group; Kafka's sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from odradek.core.machine import Refused
from odradek.group.modern_member import JOINING_EPOCH, LEAVING_STATIC_EPOCH, is_blank
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.wire.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest

__all__ = ["NO_TIMEOUT", "refusal_of_heartbeat"]

NO_TIMEOUT = -1

Rule = tuple[Callable[["StreamsGroupHeartbeatRequest"], bool], str]


def _has_patterns(request: StreamsGroupHeartbeatRequest) -> bool:
    return request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies)


def _joins(request: StreamsGroupHeartbeatRequest) -> bool:
    return request.member_epoch == JOINING_EPOCH


_ALL_OR_NONE = "If one task-type is non-null, all must be non-null."

_BEFORE_TOPOLOGY: Sequence[Rule] = (
    (_has_patterns, "Regular expressions for source topics are not supported yet."),
    (lambda request: not request.member_id.strip(), "MemberId can't be empty."),
    (lambda request: not request.group_id.strip(), "GroupId can't be empty."),
    (lambda request: is_blank(request.instance_id), "InstanceId can't be empty."),
    (lambda request: is_blank(request.rack_id), "RackId can't be empty."),
    (
        lambda request: _joins(request) and request.rebalance_timeout_ms == NO_TIMEOUT,
        "RebalanceTimeoutMs must be provided in first request.",
    ),
    (
        lambda request: _joins(request) and request.active_tasks != [],
        "ActiveTasks must be empty when (re-)joining.",
    ),
    (
        lambda request: _joins(request) and request.standby_tasks != [],
        "StandbyTasks must be empty when (re-)joining.",
    ),
    (
        lambda request: _joins(request) and request.warmup_tasks != [],
        "WarmupTasks must be empty when (re-)joining.",
    ),
    (lambda request: _joins(request) and request.topology is None, "Topology must be non-null when (re-)joining."),
)
_AFTER_TOPOLOGY: Sequence[Rule] = (
    (
        lambda request: request.member_epoch == LEAVING_STATIC_EPOCH and request.instance_id is None,
        "InstanceId can't be null.",
    ),
    (
        lambda request: request.member_epoch < LEAVING_STATIC_EPOCH,
        "MemberEpoch is {member_epoch}, but must be greater than or equal to -2.",
    ),
    (
        lambda request: (
            len({request.active_tasks is None, request.standby_tasks is None, request.warmup_tasks is None}) > 1
        ),
        _ALL_OR_NONE,
    ),
    (
        lambda request: not _joins(request) and request.topology is not None,
        "Topology can only be provided when (re-)joining.",
    ),
)
"""In this order; the first that holds is answered."""


def refusal_of_heartbeat(request: StreamsGroupHeartbeatRequest) -> Refused | None:
    """Why the request makes no sense; None if it does."""
    return (
        _first_that_holds(_BEFORE_TOPOLOGY, request)
        or _refusal_of_topology(request)
        or _first_that_holds(_AFTER_TOPOLOGY, request)
    )


def _first_that_holds(rules: Sequence[Rule], request: StreamsGroupHeartbeatRequest) -> Refused | None:
    for holds, sentence in rules:
        if holds(request):
            return Refused(ErrorCode.INVALID_REQUEST, sentence.format(member_epoch=request.member_epoch))
    return None


def _refusal_of_topology(request: StreamsGroupHeartbeatRequest) -> Refused | None:
    if request.topology is None or not _joins(request):
        return None
    for subtopology in request.topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                sentence = (
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}."
                )
                return Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, sentence)
    return None
