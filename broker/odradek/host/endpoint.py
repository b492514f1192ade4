"""The declaration of an API at the method that serves it.

    class TransactionApi:
        def __init__(self, coordinators: Coordinators, clock: Clock) -> None: ...

        @endpoint(END_TXN, needs=allowed(WRITE, TRANSACTIONAL_ID, of=lambda request: request.transactional_id))
        async def end_txn(self, call: Call[EndTxnRequest]) -> EndTxnResponse: ...

The class is a family: it serves some APIs, and its constructor lists the parts of the broker that they may touch.
The versions are those of the schema. `odradek.host.served` and `docs/apis.md` are derived from the declarations
(`python -m odradek.tools.apis`), and from them ApiVersions, the tests' lists, and the family to import for a request.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar, cast

from msgspec import Struct

from odradek.host.call import Call, Serve
from odradek.wire.api import Api
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import APIS, ApiKey

if TYPE_CHECKING:
    from odradek.access.authority import Authority

__all__ = [
    "EVERYBODY",
    "ClashingEndpoints",
    "Endpoint",
    "Guard",
    "Everybody",
    "Needs",
    "Since",
    "endpoint",
    "endpoints_of",
]

F = TypeVar("F")
Q = TypeVar("Q", bound=Struct)
R = TypeVar("R", bound="Struct | None")

Guard: TypeAlias = "Callable[[Authority, Call[Q], Serve[Q, R]], Coroutine[object, None, R]]"
"""Answers a client's request itself, or has it served, as a whole or in part."""


class Needs(Struct, Generic[Q, R], frozen=True):
    """The permissions that a client needs for a request; made by `odradek.access.needs`."""

    text: str
    """For `docs/apis.md`."""
    guard: Guard[Q, R]


class Everybody(Struct, frozen=True):
    """No permission is checked before the endpoint runs."""

    text: str
    """For `docs/apis.md`: the permissions that the endpoint itself checks."""


EVERYBODY = Everybody("nothing")


class Since(Struct, frozen=True):
    """An error that the API knows since this version; clients of older versions get another one in its place."""

    version: int
    error: ErrorCode
    before: ErrorCode


class Endpoint(Struct, frozen=True):
    """The declaration of an API, without the types of its messages."""

    api_key: ApiKey
    method: Callable[..., Coroutine[object, None, Struct | None]]
    """Serves it: a function that takes an instance of the family, and the call."""
    place: str
    """Where it is declared: file, line and method."""
    needs: Needs[Struct, Struct | None] | Everybody
    lowest: int
    """The lowest version that is served; the highest is that of the schema."""
    is_told: bool
    """Whether ApiVersions always lists it; otherwise only brokers that need it do."""
    in_parts: bool
    """Whether it serves a few entries at a time, so that a request may have more of them."""
    errors: Sequence[Since]
    left_out: str
    """For `docs/apis.md`: the missing part of the API."""

    @property
    def highest(self) -> int:
        return APIS[self.api_key].highest


class ClashingEndpoints(TypeError):
    """Two methods serve the same API; the text names both places."""


Method: TypeAlias = Callable[[F, Call[Q]], Coroutine[object, None, R]]


def endpoint(
    api: Api[Q, R],
    *,
    needs: Needs[Q, R] | Everybody,
    lowest: int | None = None,
    is_told: bool = True,
    in_parts: bool = False,
    errors: Sequence[Since] = (),
    left_out: str = "",
) -> Callable[[Method[F, Q, R]], Method[F, Q, R]]:
    """Declare that a method serves this API, and the permissions that it needs.

    `lowest`: the lowest version that is served, if it is not that of the schema.
    `is_told=False`: ApiVersions lists it only with `odradek.telemetry`.
    `in_parts`: a request may have 20,000 entries, not 10,000, because other clients are served in between.
    `errors`: errors that older versions do not know; they are replaced in the response.
    """

    def declare(method: Method[F, Q, R]) -> Method[F, Q, R]:
        code = method.__code__
        file = code.co_filename.rpartition("/odradek/")[2]
        vars(method)["endpoint"] = Endpoint(
            api_key=api.key,
            method=method,
            place=f"{file}:{code.co_firstlineno} {method.__qualname__}",
            needs=cast("Needs[Struct, Struct | None] | Everybody", needs),
            lowest=APIS[api.key].lowest if lowest is None else lowest,
            is_told=is_told,
            in_parts=in_parts,
            errors=errors,
            left_out=left_out,
        )
        return method

    return declare


def endpoints_of(*families: type) -> Mapping[ApiKey, Endpoint]:
    """The endpoints of these classes. Raises `ClashingEndpoints` if two of them serve one API."""
    found: dict[ApiKey, Endpoint] = {}
    for declared in _declared(families):
        before = found.setdefault(declared.api_key, declared)
        if before is not declared:
            raise ClashingEndpoints(f"{declared.api_key.name} is served twice: {before.place} and {declared.place}")
    return found


def _declared(families: Sequence[type]) -> Iterator[Endpoint]:
    for family in families:
        for method in vars(family).values():
            declared = getattr(method, "endpoint", None)
            if isinstance(declared, Endpoint):
                yield declared
