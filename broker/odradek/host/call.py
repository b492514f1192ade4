"""A request that is being served, and the function that serves it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Generic, TypeAlias, cast

from msgspec import Struct

from odradek.access.principal import SOMEBODY, Peer
from odradek.core.flow import Parking
from odradek.core.machine import Fact
from odradek.host.meter import Meter
from odradek.wire.api import Api
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Q = TypeVar("Q", bound=Struct, covariant=True, default=Struct)
    R = TypeVar("R", bound="Struct | None", default="Struct | None")
else:
    from typing import TypeVar

    Q = TypeVar("Q", covariant=True)
    R = TypeVar("R")

__all__ = ["CLOSED_BY_RULE", "UNREAD", "Call", "CloseConnection", "Serve"]

M = TypeVar("M", bound=Struct)
A = TypeVar("A", bound="Struct | None")

UNREAD = Struct()
"""The request of a call that has not been decoded yet."""

CLOSED_BY_RULE = "closed_by_rule"
"""The reason when a rule ends a connection: no warning is logged then."""


class CloseConnection(Exception):
    """Ends the connection without an answer; the text is the reason, for the log."""


class Call(Struct, Generic[Q]):
    """A request that is being served."""

    api_key: ApiKey
    version: int
    correlation_id: int
    client_id: str | None
    request: Q
    host: str
    """Address of the client."""
    is_broker: bool
    """Whether it came over the inter-broker channel, with cluster authority."""
    is_long: bool = False
    """Whether the request was served in several turns, so that its response may be long too."""
    peer: Peer = SOMEBODY
    """The client's principal and listener."""
    meter: Meter | None = None
    """Measures the request; None if no quota needs it."""
    passed_on: bool = False
    """Whether a broker forwards it for its client; `peer` is then that client."""
    conn: int = 0
    """Its connection; 0 for requests of this broker to itself, negative for forwarded ones."""
    frame: memoryview | None = None
    """Its bytes until its event is emitted; None for a message, or without an event log."""
    start: int = -1
    """Where it begins in `frame`, after its header; -1 without bytes (`bodies.PACKED`)."""
    is_followed: bool = False
    """Whether its client has sent a request behind it that does not wait, so that it should not either."""
    parking: Parking | None = None
    """Its newest wait for records."""
    told: Fact | None = None
    """The event of the request; None without an event log."""

    def request_of(self, api: Api[M, A]) -> M:
        """The request, with its type: for a call of any API that has turned out to be of this one."""
        assert self.api_key is api.key, f"a {self.api_key.name} is no {api.key.name}"
        return cast("M", self.request)


Serve: TypeAlias = Callable[[Call[Q]], Coroutine[object, None, R]]
"""A function that serves a request."""
