"""The permissions that an endpoint needs: for the whole request, or for each of its entries.

Entries without permission are removed from the request; their errors are added to the response. The lambdas name fields
of the request and of the response, so that mypy finds a field that does not exist. The permissions are those of Kafka
4.4, recorded in `tests/security/recorded/denials.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from odradek.access.acls import CLUSTER_NAME, AclOperation, AclResource
from odradek.host.call import Call, CloseConnection, Serve
from odradek.host.endpoint import Guard, Needs
from odradek.host.failures import error_response, refusal
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.access.authority import Authority

__all__ = [
    "DENIED",
    "NO_OPERATIONS",
    "TEXTS",
    "allowed",
    "allowed_on_cluster",
    "allowed_on_each",
    "asks",
    "denied",
    "each_judged",
    "in_series",
    "on_cluster_or",
    "part_of",
    "refused",
    "resource_name",
    "serve_part",
]

Q = TypeVar("Q", bound=Struct)
R = TypeVar("R", bound="Struct | None")
E = TypeVar("E")
A = TypeVar("A")
T = TypeVar("T", bound=Struct)

NEVER = 2**15
"""Higher than any version of an API."""
NO_OPERATIONS = -(2**31)
"""The value of authorized operations in responses to requests that did not ask for them."""
DENIED: Mapping[AclResource, ErrorCode] = {
    AclResource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error for a missing permission, by the type of the resource."""
TEXTS: Mapping[ErrorCode, str] = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
_NAMES: Mapping[AclResource, str] = {
    AclResource.CLUSTER: "the cluster",
    AclResource.GROUP: "the group",
    AclResource.TOPIC: "the topic",
    AclResource.TRANSACTIONAL_ID: "the transactional id",
}


def allowed(
    operation: AclOperation, kind: AclResource, *, of: Callable[[Q], str | None], message: str | None = None
) -> Needs[Q, R]:
    """The client needs this permission on the resource that `of` finds in the request."""

    async def guard(authority: Authority, call: Call[Q], serve: Serve[Q, R]) -> R:
        if not authority.allows(call, operation, kind, of(call.request) or ""):
            return cast("R", _denied(call, DENIED[kind], message))
        return await serve(call)

    return Needs(f"{operation.name} on {_NAMES[kind]}", guard)


def allowed_on_cluster(
    *operations: AclOperation, message: str | None = None, names_itself: bool = False
) -> Needs[Q, R]:
    """The client needs one of these permissions on the cluster.

    `names_itself`: the text of the refusal names the API and the first operation.
    """

    async def guard(authority: Authority, call: Call[Q], serve: Serve[Q, R]) -> R:
        if not any(authority.allows(call, each, AclResource.CLUSTER, CLUSTER_NAME) for each in operations):
            text = f"Request {call.api_key.name} needs {operations[0].name} permission." if names_itself else message
            return cast("R", _denied(call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, text))
        return await serve(call)

    return Needs(f"{' or '.join(each.name for each in operations)} on the cluster", guard)


def on_cluster_or(operation: AclOperation, otherwise: Needs[Q, R]) -> Needs[Q, R]:
    """The client needs this permission on the cluster; without it the other needs decide."""
    other = _guard(otherwise)

    async def guard(authority: Authority, call: Call[Q], serve: Serve[Q, R]) -> R:
        if authority.allows(call, operation, AclResource.CLUSTER, CLUSTER_NAME):
            return await serve(call)
        return await other(authority, call, serve)

    return Needs(f"{operation.name} on the cluster, or {otherwise.text}", guard)


def in_series(*needs: Needs[Q, R]) -> Needs[Q, R]:
    """All of these needs, checked in this order."""

    def followed(first: Guard[Q, R], second: Guard[Q, R]) -> Guard[Q, R]:
        async def guard(authority: Authority, call: Call[Q], serve: Serve[Q, R]) -> R:
            return await first(authority, call, lambda call: second(authority, call, serve))

        return guard

    made = _guard(needs[-1])
    for each in reversed(needs[:-1]):
        made = followed(_guard(each), made)
    return Needs("; ".join(each.text for each in needs if each.text), made)


def asks(text: str) -> Callable[[Guard[Q, R]], Needs[Q, R]]:
    """An endpoint's own guard, as its needs. The text is for `docs/apis.md`; it is empty if no permission is needed.

    It is a decorator:

        @asks("DESCRIBE on each transactional id")
        async def _listed(authority: Authority, call: Call[Q], serve: Serve[Q, R]) -> R: ...
    """

    def made(guard: Guard[Q, R]) -> Needs[Q, R]:
        return Needs(text, guard)

    return made


def _guard(needs: Needs[Q, R]) -> Guard[Q, R]:
    return needs.guard


def allowed_on_each(
    operation: AclOperation,
    kind: AclResource,
    *,
    asked: Callable[[Q], Sequence[E] | None],
    answered: Callable[[R], list[A]],
    name: Callable[[E], str | None],
    topic_id: Callable[[E], bytes] | None = None,
    ids_since: int = NEVER,
    tells: bool = False,
) -> Needs[Q, R]:
    """The request lists resources; only entries with this permission are served. `tells` is the text of the others'
    errors.

    A topic without a name has an id. From version `ids_since` on topics have only ids: an entry with neither is served,
    and answered as unknown, as is an id that no topic has.
    """

    def judge(authority: Authority, call: Call[Q], entry: E) -> ErrorCode:
        found = resource_name(authority, name(entry), None if topic_id is None else topic_id(entry))
        unknown = found is None or (not found and call.version >= ids_since)
        good = unknown or authority.allows(call, operation, kind, found or "")
        return ErrorCode.NONE if good else DENIED[kind]

    made = each_judged(judge, asked=asked, answered=answered, texts=TEXTS if tells else {}, text="")
    return Needs(f"{operation.name} on {_NAMES[kind].replace('the', 'each', 1)}", made.guard)


def each_judged(
    judge: Callable[[Authority, Call[Q], E], ErrorCode],
    *,
    asked: Callable[[Q], Sequence[E] | None],
    answered: Callable[[R], list[A]],
    texts: Mapping[ErrorCode, str],
    text: str,
) -> Needs[Q, R]:
    """Only entries that `judge` finds good are served; `texts` are the messages of the others' errors."""
    field = _field(asked)

    async def guard(authority: Authority, call: Call[Q], serve: Serve[Q, R]) -> R:
        bad: dict[ErrorCode, list[E]] = {}
        good: list[E] = []
        for entry in asked(call.request) or ():
            error = judge(authority, call, entry)
            (good if error is ErrorCode.NONE else bad.setdefault(error, [])).append(entry)
        if not bad:
            return await serve(call)
        answers = [cast("R", refusal(_part(call, field, some), error, texts.get(error))) for error, some in bad.items()]
        if good:
            answers.insert(0, await _serve_part(serve, call, field, good))
        if None in answers:
            raise CloseConnection("not_authorized")
        for other in answers[1:]:
            answered(answers[0]).extend(answered(other))
        return answers[0]

    return Needs(text, guard)


def part_of(call: Call[Q], field: Callable[[Q], Sequence[E] | None], some: Iterable[E]) -> Call[Q]:
    """A copy of the request with only these entries: `part_of(call, lambda request: request.topics, kept)`."""
    return _part(call, _field(field), some)


async def serve_part(
    serve: Serve[Q, R], call: Call[Q], field: Callable[[Q], Sequence[E] | None], some: Iterable[E]
) -> R:
    """A part of the answer, for these entries only. It may be long if the whole answer was made in several turns."""
    return await _serve_part(serve, call, _field(field), some)


def resource_name(authority: Authority, name: str | None, topic_id: bytes | None = None) -> str | None:
    """The name of a topic that is named by name or id; None for an id that no topic has, "" if both are missing."""
    if name or topic_id is None or not any(topic_id):
        return name or ""
    topic = authority.metadata.image.topic_by_id(topic_id)
    return None if topic is None else topic.name


def denied(call: Call[Q], error: ErrorCode, answer: type[T], message: str | None = None) -> T:
    """The answer that refuses the whole request; raises `CloseConnection` if the client wants no answer."""
    made = _denied(call, error, message)
    assert isinstance(made, answer), f"{call.api_key.name} is answered with {answer.__name__}"
    return made


def _denied(call: Call[Q], error: ErrorCode, message: str | None) -> Struct:
    made: Struct | None = error_response(call, error, message)
    if made is None:
        raise CloseConnection("not_authorized")
    return made


def refused(call: Call[Q], error: ErrorCode, answer: type[T]) -> T:
    """The answer that refuses each entry of a request; raises `CloseConnection` if the client wants no answer."""
    made = refusal(call, error)
    if made is None:
        raise CloseConnection("not_authorized")
    assert isinstance(made, answer), f"{call.api_key.name} is answered with {answer.__name__}"
    return made


def _part(call: Call[Q], field: str, some: Iterable[object]) -> Call[Q]:
    return replace(call, request=replace(call.request, **{field: list(some)}))


async def _serve_part(serve: Serve[Q, R], call: Call[Q], field: str, some: Iterable[object]) -> R:
    part = _part(call, field, some)
    try:
        return await serve(part)
    finally:
        call.is_long = call.is_long or part.is_long


class _Fields:
    """A stand-in for a message: an attribute of it is the name of the field."""

    def __getattr__(self, name: str) -> str:
        return name


def _field(of: Callable[[Q], object]) -> str:
    """The name of the field that a lambda reads, to copy a message with another value of that field."""
    name = cast("Callable[[_Fields], object]", of)(_Fields())
    assert isinstance(name, str), "the lambda looks at one field"
    return name
