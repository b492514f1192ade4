"""How groups look from outside: DescribeGroups and ListGroups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from odradek.group.states import GroupState
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_groups_response import DescribedGroup, DescribedGroupMember
from odradek.wire.messages.list_groups_response import ListedGroup

if TYPE_CHECKING:
    from odradek.group.classic import ClassicGroup

__all__ = ["GROUP_TYPE", "described", "listed", "matches"]

GROUP_TYPE = "classic"
NOT_FOUND_ERROR_FROM = 6
"""DescribeGroups version that tells a group that does not exist from one that is dead (KIP-1043)."""


def described(group_id: str, group: ClassicGroup | None, version: int) -> DescribedGroup:
    """The group with its members; what they said and were assigned is only meaningful while it is stable."""
    if group is None:
        return _not_found(group_id, version)
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


def _not_found(group_id: str, version: int) -> DescribedGroup:
    dead = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    if version >= NOT_FOUND_ERROR_FROM:
        dead.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        dead.error_message = f"Group {group_id} not found."
    return dead


def listed(group: ClassicGroup) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=GROUP_TYPE,
    )


def matches(states_filter: Sequence[str], types_filter: Sequence[str]) -> Callable[[ClassicGroup], bool]:
    """Whether a group is asked for; an empty filter asks for all, an unknown name for none."""
    states = {state.strip().lower() for state in states_filter}
    types = {name.lower() for name in types_filter}

    def matching(group: ClassicGroup) -> bool:
        return (not states or group.state.value.lower() in states) and (not types or GROUP_TYPE in types)

    return matching
