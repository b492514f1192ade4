"""What the routes of groups and of offsets share: the coordinator of a group, and its errors as clients know them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from odradek.log.machine import Refused
from odradek.node.hosting.coordinators import HasCoordinators
from odradek.wire.error_maps import group_log_error
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.node.hosting.groups import GroupShard

__all__ = ["GROUP_OPERATIONS", "group_shard", "refusal"]


class Node(HasCoordinators, Protocol):
    """What finding a group touches of its broker."""


GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""What may be done to a group where everything is allowed: read, delete, describe, and its configs (KIP-430)."""


def group_shard(node: Node, group_id: str, *, empty_allowed: bool = False) -> GroupShard | Refused:
    """The coordinator of a group, if it is here; old offset commits and admin requests may name the group ""."""
    if not group_id and not empty_allowed:
        return Refused(ErrorCode.INVALID_GROUP_ID)
    return node.coordinators.group(group_id)


def refusal(refused: Refused) -> ErrorCode:
    """The error that a client is answered."""
    return group_log_error(refused.error)
