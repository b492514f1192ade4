"""One request being served, and what serves it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic

from msgspec import Struct

from odradek.access.principal import SOMEBODY, Peer
from odradek.core.machine import Fact
from odradek.host.meter import Meter
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Q = TypeVar("Q", covariant=True, default=Any)
else:
    from typing import TypeVar

    Q = TypeVar("Q", covariant=True)

__all__ = ["CLOSED_BY_RULE", "Around", "Call", "CloseConnection", "Serve"]


CLOSED_BY_RULE = "closed_by_rule"
"""Why a connection ends that a rule ends: somebody wants that, and so it is no warning."""


class CloseConnection(Exception):
    """Ends the connection without an answer; the text says why, in the log."""


class Call(Struct, Generic[Q]):
    """One request being served."""

    api_key: ApiKey
    version: int
    correlation_id: int
    client_id: str | None
    request: Q
    host: str
    """Where it came from."""
    is_broker: bool
    """Whether it came over the inter-broker channel, with cluster authority."""
    is_long: bool = False
    """Whether it gave way while it was served, so that its answer may be long too."""
    peer: Peer = SOMEBODY
    """Who asks."""
    meter: Meter | None = None
    """What it uses, where anybody looks at that."""
    passed_on: bool = False
    """Whether a broker has passed it on for its client, who is the one that asks."""
    conn: int = 0
    """The connection over which it came; 0 for what a broker asks of itself, negative for what one has passed on."""
    frame: memoryview | None = None
    """Its bytes, until they are told of; None where it came as a message, or nobody listens."""
    start: int = -1
    """Where it begins in them, behind its header; -1 where there are none (`bodies.PACKED`)."""
    told: Fact | None = None
    """What was told of it; None where nobody listens."""


Serve = Callable[[Call], Coroutine[Any, Any, Any]]
"""What serves a request."""
Around = Callable[[Any, Call, Serve], Coroutine[Any, Any, Any]]
"""A dialect's step around an endpoint: node, call, and what serves it, to be called once, never, or more often."""
