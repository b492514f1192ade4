"""Helpers of the APIs of groups: the lookup of a group's coordinator, and its errors as clients know them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from odradek.core.machine import Refused
from odradek.wire.error_maps import group_log_error
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.core.machine import Decision
    from odradek.core.turns import Turns
    from odradek.group.coordinator import GroupCoordinator
    from odradek.group.shard import GroupShard
    from odradek.host.call import Call
    from odradek.host.coordinators import Coordinators
    from odradek.wire.messages import consumer_group_describe_request as asked_of_consumers
    from odradek.wire.messages import consumer_group_describe_response as of_consumers
    from odradek.wire.messages import share_group_describe_request as asked_of_shares
    from odradek.wire.messages import share_group_describe_response as of_shares
    from odradek.wire.messages import streams_group_describe_request as asked_of_streams
    from odradek.wire.messages import streams_group_describe_response as of_streams

__all__ = ["GROUP_OPERATIONS", "decided", "described", "group_shard", "refusal"]

T = TypeVar("T")
Described = TypeVar("Described", "of_consumers.DescribedGroup", "of_shares.DescribedGroup", "of_streams.DescribedGroup")

GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""The operations on a group where everything is allowed: read, delete, describe, and its configs (KIP-430)."""


def group_shard(coordinators: Coordinators, group_id: str, *, empty_allowed: bool = False) -> GroupShard | Refused:
    """The coordinator of a group, if it is here; old offset commits and admin requests may name the group ""."""
    if not group_id and not empty_allowed:
        return Refused(ErrorCode.INVALID_GROUP_ID)
    return coordinators.group(group_id)


def refusal(refused: Refused) -> ErrorCode:
    """The error that a client is answered."""
    return group_log_error(refused.error)


async def decided(
    coordinators: Coordinators, group_id: str, decide: Callable[[GroupCoordinator], Decision[T]]
) -> T | Refused:
    """Have the coordinator of a group decide now; the outcome, when it is committed."""
    shard = group_shard(coordinators, group_id, empty_allowed=True)
    if isinstance(shard, Refused):
        return shard
    return await shard.decided(decide(shard.machine))


async def described(
    coordinators: Coordinators,
    turns: Turns,
    call: Call[asked_of_consumers.ConsumerGroupDescribeRequest]
    | Call[asked_of_streams.StreamsGroupDescribeRequest]
    | Call[asked_of_shares.ShareGroupDescribeRequest],
    kind: type[Described],
    find: Callable[[GroupCoordinator, str], Described | Refused],
    *,
    served: bool,
) -> list[Described]:
    """Each group that the call names: its description, or an error and its text."""
    group_ids = call.request.group_ids
    if not served:
        return [kind(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION) for group_id in group_ids]

    def one(group_id: str) -> Described:
        shard = group_shard(coordinators, group_id)
        found = shard if isinstance(shard, Refused) else find(shard.machine, group_id)
        if isinstance(found, Refused):
            return kind(group_id=group_id, error_code=refusal(found), error_message=found.message)
        if call.request.include_authorized_operations:
            found.authorized_operations = GROUP_OPERATIONS
        return found

    descriptions: list[Described] = []
    async for some in turns.share(call, group_ids):
        descriptions += map(one, some)
    return descriptions
