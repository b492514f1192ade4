"""What guards are made of: a permission for a whole request, or for each of its entries.

Entries that may not be served are taken out of the request, and answered beside those that were served.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec.structs import replace

from odradek.access.acls import CLUSTER_NAME, AclOperation, AclResource
from odradek.host.call import CloseConnection
from odradek.host.failures import error_response, refusal
from odradek.host.seams import HasConfig, HasMetadata
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.host.call import Call

__all__ = [
    "DENIED",
    "NO_OPERATIONS",
    "TEXTS",
    "Guard",
    "Serve",
    "denied",
    "entries",
    "in_series",
    "of_cluster",
    "of_entries",
    "joined",
    "or_of_cluster",
    "part_of",
    "resource_name",
    "serve_part",
    "whole",
]


class Node(HasConfig, HasMetadata, Protocol):
    """What guards look at to find out what a request names."""


Serve: TypeAlias = "Callable[[Any, Call], Coroutine[Any, Any, Any]]"
"""Node and call."""
Guard: TypeAlias = "Callable[[Authority, Node, Call, Serve], Awaitable[Any]]"
"""Answers a request itself, or has it served, as a whole or in part."""

NAMES = ("name", "topic", "topic_name", "group_id")
"""The fields in which an entry names a resource."""
NEVER = 2**15
"""A version that no API has."""
NO_OPERATIONS = -(2**31)
"""The operations of a resource that nobody has asked for."""
DENIED: Mapping[AclResource, ErrorCode] = {
    AclResource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""What is said to who may not do something."""
TEXTS: Mapping[ErrorCode, str] = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}


def denied(call: Call, error: ErrorCode, message: str | None = None) -> Any:
    """The answer to a request none of which may be served; raises `CloseConnection` where no answer is wanted."""
    answer = error_response(call, error, message)
    if answer is None:
        raise CloseConnection("not_authorized")
    return answer


def whole(
    operation: AclOperation,
    kind: AclResource,
    name: Callable[[Any], str],
    *,
    message: str | None = None,
) -> Guard:
    """The request names a resource, and is served if this may be done to it."""

    async def guard(authority: Authority, node: Node, call: Call, serve: Serve) -> Any:
        if not authority.allows(call, operation, kind, name(call.request)):
            return denied(call, DENIED[kind], message)
        return await serve(node, call)

    return guard


def of_cluster(*operations: AclOperation, message: str | None = None, names_itself: bool = False) -> Guard:
    """The request is served if one of these may be done to the cluster; some texts say which."""

    async def guard(authority: Authority, node: Node, call: Call, serve: Serve) -> Any:
        if not any(authority.allows(call, each, AclResource.CLUSTER, CLUSTER_NAME) for each in operations):
            text = f"Request {call.api_key.name} needs {operations[0].name} permission." if names_itself else message
            return denied(call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, text)
        return await serve(node, call)

    return guard


def or_of_cluster(operation: AclOperation, otherwise: Guard) -> Guard:
    """The request is served if this may be done to the cluster; else as far as another guard lets it."""

    async def guard(authority: Authority, node: Node, call: Call, serve: Serve) -> object:
        if authority.allows(call, operation, AclResource.CLUSTER, CLUSTER_NAME):
            served: object = await serve(node, call)
            return served
        answered: object = await otherwise(authority, node, call, serve)
        return answered

    return guard


def in_series(*guards: Guard) -> Guard:
    """What all of these ask, the first one first."""

    def followed(first: Guard, second: Guard) -> Guard:
        async def guard(authority: Authority, node: Node, call: Call, serve: Serve) -> Any:
            async def then(node: Node, call: Call) -> Any:
                return await second(authority, node, call, serve)

            return await first(authority, node, call, then)

        return guard

    made = guards[-1]
    for each in reversed(guards[:-1]):
        made = followed(each, made)
    return made


# ---------------------------------------------------------------------- entries


def of_entries(
    asked: str,
    answered: str,
    operation: AclOperation,
    kind: AclResource = AclResource.TOPIC,
    *,
    tells: bool = False,
    ids_since: int = NEVER,
) -> Guard:
    """The request lists resources, and is served as far as this may be done to them; `tells` why, in a text.

    From version `ids_since` on topics have ids and no names: one that has no id is nobody's, and is answered as such.
    """

    def judge(authority: Authority, node: Node, call: Call, entry: Any) -> ErrorCode:
        name = resource_name(node, entry)
        nobodys = name is None or (not name and call.version >= ids_since)
        allowed = nobodys or authority.allows(call, operation, kind, name or "")
        return ErrorCode.NONE if allowed else DENIED[kind]

    return entries(asked, answered, judge, tells=TEXTS if tells else {})


Judge: TypeAlias = "Callable[[Authority, Node, Call, Any], ErrorCode]"


def entries(asked: str, answered: str, judge: Judge, *, tells: Mapping[ErrorCode, str]) -> Guard:
    """The request is served as far as its entries are judged good."""

    async def guard(authority: Authority, node: Node, call: Call, serve: Serve) -> Any:
        listed = getattr(call.request, asked)
        refused: dict[ErrorCode, list[Any]] = {}
        kept: list[Any] = []
        for entry in listed or ():
            error = judge(authority, node, call, entry)
            (kept if error is ErrorCode.NONE else refused.setdefault(error, [])).append(entry)
        if not refused:
            return await serve(node, call)
        answers = [refusal(part_of(call, asked, some), error, tells.get(error)) for error, some in refused.items()]
        if kept:
            answers.insert(0, await serve_part(serve, node, call, asked, kept))
        if None in answers:
            raise CloseConnection("not_authorized")
        return joined(answers, answered)

    return guard


def part_of(call: Call, field: str, some: Iterable[object]) -> Call:
    """The same request, of these entries only."""
    return replace(call, request=replace(call.request, **{field: list(some)}))


async def serve_part(serve: Serve, node: Node, call: Call, field: str, some: Iterable[object]) -> Any:
    """The answer to the same request, of these entries only; where that gives way, the whole answer may be long."""
    part = part_of(call, field, some)
    try:
        return await serve(node, part)
    finally:
        call.is_long = call.is_long or part.is_long


def joined(answers: list[Any], field: str) -> Any:
    """The first answer, with the entries of all."""
    for answer in answers[1:]:
        getattr(answers[0], field).extend(getattr(answer, field))
    return answers[0]


def resource_name(node: Node, entry: Any) -> str | None:
    """What an entry names; None for a topic by an id that nobody knows, which is then answered as such."""
    if isinstance(entry, str):
        return entry
    for field in NAMES:
        name: str | None = getattr(entry, field, None)
        if name:
            return name
    topic_id = getattr(entry, "topic_id", None)
    if topic_id is None or not any(topic_id):
        return ""
    topic = node.image.topic_by_id(topic_id)
    return None if topic is None else topic.name
