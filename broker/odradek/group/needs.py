"""Permissions that several APIs of groups need alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import DENIED, NO_OPERATIONS, denied
from odradek.host.endpoint import Needs, Serve

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.host.call import Call

__all__ = ["described_with_assigned_topics", "names_described", "with_operations"]

DESCRIBE, TOPIC, GROUP = AclOperation.DESCRIBE, AclResource.TOPIC, AclResource.GROUP
HIDDEN_ASSIGNED_TOPIC = "The group has described topic(s) that the client is not authorized to describe."


class WithOperations(Protocol):
    """The description of a group of any kind."""

    group_id: str
    authorized_operations: int


class WithMembers(WithOperations, Protocol):
    """The description of a group of consumers or of a share group."""

    error_code: int
    error_message: str | None
    group_state: str
    group_epoch: int
    assignment_epoch: int
    assignor_name: str

    def __setattr__(self, name: str, value: object) -> None: ...


Q = TypeVar("Q", bound=Struct)
R = TypeVar("R", bound=Struct)
G = TypeVar("G", bound=WithMembers)


def with_operations(groups: Callable[[R], Sequence[WithOperations]]) -> Needs[Q, R]:
    """Each group that is described carries what the client may do to it, where the client asks for that (KIP-430)."""

    async def guard(authority: Authority, call: Call[Q], serve: Serve[Q, R]) -> R:
        response = await serve(call)
        for group in groups(response):
            if group.authorized_operations != NO_OPERATIONS:
                group.authorized_operations = authority.operations(call, GROUP, group.group_id)
        return response

    return Needs("", guard)


def names_described(names: Callable[[Q], Iterable[str] | None], answer: type[R]) -> Needs[Q, R]:
    """DESCRIBE on every topic that a member names."""

    async def guard(authority: Authority, call: Call[Q], serve: Serve[Q, R]) -> R:
        if not all(authority.allows(call, DESCRIBE, TOPIC, name) for name in names(call.request) or ()):
            return denied(call, DENIED[TOPIC], answer)
        return await serve(call)

    return Needs("DESCRIBE on every topic that is subscribed to", guard)


def described_with_assigned_topics(
    groups: Callable[[R], Sequence[G]], topics_of: Callable[[G], Iterable[str]]
) -> Needs[Q, R]:
    """DESCRIBE on every topic that the members of a group have, or shall have; else the group keeps its id alone."""

    async def guard(authority: Authority, call: Call[Q], serve: Serve[Q, R]) -> R:
        response = await serve(call)
        for group in groups(response):
            if not all(authority.allows(call, DESCRIBE, TOPIC, name) for name in {*topics_of(group)}):
                group.error_code, group.error_message = DENIED[TOPIC], HIDDEN_ASSIGNED_TOPIC
                group.group_state = group.assignor_name = ""
                group.group_epoch = group.assignment_epoch = 0
                group.members, group.authorized_operations = [], NO_OPERATIONS
        return response

    return Needs("DESCRIBE on every topic that its members have", guard)
