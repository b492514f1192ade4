"""How groups look from outside: DescribeGroups and ListGroups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.group.classic.group import ClassicGroup
from odradek.group.classic.states import GroupState
from odradek.group.share.group import ShareGroup
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_groups_response import DescribedGroup, DescribedGroupMember
from odradek.wire.messages.list_groups_response import ListedGroup

if TYPE_CHECKING:
    from odradek.group.modern_groups import Group

__all__ = ["KnownMember", "awaited", "described", "listed", "matches", "members_of"]


class KnownMember(Struct, frozen=True):
    """The identity of a member of any protocol; a member of a share group has no instance id."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str


STATES_FOR_FILTERS = {"NotReady": "not_ready"}
"""States that a filter does not name as they are shown in lower case."""
NOT_FOUND_ERROR_FROM = 6
"""DescribeGroups version that tells a group that does not exist from one that is dead (KIP-1043)."""


def described(group_id: str, group: Group | None, version: int) -> DescribedGroup:
    """The group with its members; what they said and were assigned is only meaningful while it is stable."""
    if group is None:
        return _not_found(group_id, version, f"Group {group_id} not found.")
    if not isinstance(group, ClassicGroup):
        return _not_found(group_id, version, f"Group {group_id} is not a classic group.")
    stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol) if stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def members_of(group: Group) -> list[KnownMember]:
    """The members of a group, in the order of joining."""
    return [
        KnownMember(each.member_id, each.instance_id, each.client_id, each.client_host)
        for each in group.members.values()
    ]


def awaited(group: Group) -> tuple[list[str], int | None]:
    """The members for whom a rebalance waits, and until when at most (ms); None: no such time is set.

    In the newer protocols they are those that do not have the target assignment yet.
    """
    if isinstance(group, ShareGroup):
        return [], None
    if not isinstance(group, ClassicGroup):
        return group.behind(), None
    if group.state is GroupState.PREPARING_REBALANCE:
        missing = [each.member_id for each in group.members.values() if each.join is None]
        return [*missing, *group.pending_joins], group.join_deadline
    if group.state is GroupState.COMPLETING_REBALANCE:
        return sorted(group.pending_syncs), group.sync_deadline
    return [], None


def _not_found(group_id: str, version: int, message: str) -> DescribedGroup:
    dead = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    if version >= NOT_FOUND_ERROR_FROM:
        dead.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        dead.error_message = message
    return dead


def listed(group: Group) -> ListedGroup:
    protocol_type = (group.protocol_type or "") if isinstance(group, ClassicGroup) else group.kind
    return ListedGroup(
        group_id=group.group_id, protocol_type=protocol_type, group_state=group.state.value, group_type=group.kind
    )


def matches(states_filter: Sequence[str], types_filter: Sequence[str]) -> Callable[[Group], bool]:
    """Whether a group is asked for; an empty filter asks for all, an unknown name for none."""
    states = {state.strip().lower() for state in states_filter}
    types = {name.lower() for name in types_filter}

    def matching(group: Group) -> bool:
        state = STATES_FOR_FILTERS.get(group.state.value, group.state.value.lower())
        return (not states or state in states) and (not types or group.kind in types)

    return matching
