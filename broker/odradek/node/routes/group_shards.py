"""What the routes of groups and of offsets share: the coordinator of a group, and its errors as clients know them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.log.machine import Refused
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.group.coordinator import GroupCoordinator
    from odradek.node.node import Node
    from odradek.node.shards import Shard

__all__ = ["group_shard", "refusal"]

LOG_ERRORS: dict[ErrorCode, ErrorCode] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
"""An error of the coordinator's own log, as its clients are told of it (`CoordinatorOperationExceptionHelper`)."""


def group_shard(node: Node, group_id: str, *, empty_allowed: bool = False) -> Shard[GroupCoordinator] | Refused:
    """The coordinator of a group, if it is here; old offset commits and admin requests may name the group ""."""
    if not group_id and not empty_allowed:
        return Refused(ErrorCode.INVALID_GROUP_ID)
    return node.group_shard(group_id)


def refusal(refused: Refused) -> ErrorCode:
    """The error that a client is answered."""
    return LOG_ERRORS.get(refused.error, refused.error)
