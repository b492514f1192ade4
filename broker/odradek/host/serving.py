"""Where the serving of a request begins, whoever has sent it: it is counted, told of, and given to the rules.

Where it is answered, that is told too.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any, Protocol

from msgspec import Struct

from odradek.core.machine import Fact
from odradek.host.bodies import Kept, kept_frame, kept_message
from odradek.host.call import Call
from odradek.host.meter import Meter
from odradek.host.request_facts import RequestFact, ResponseFact
from odradek.host.router import Handler
from odradek.host.seams import HasClock, HasCounters, HasFacts
from odradek.wire.error_fields import first_error

__all__ = [
    "HasFaults",
    "HasQuotas",
    "Interceptor",
    "Limits",
    "Node",
    "Telling",
    "begin",
    "tell_request",
    "tell_response",
]


class Interceptor(Protocol):
    """The rules of the cluster at one broker (`odradek.faults.faults`), as the serving of a request meets them."""

    @property
    def postpones(self) -> bool:
        """Whether the request that `intercepts` has just taken is served later."""

    def intercepts(self, call: Call) -> bool:
        """Whether a rule takes this request; `serve` must follow if so."""

    def serve(self, handler: Handler, call: Call) -> Coroutine[Any, Any, Any]:
        """Serve the request that `intercepts` has just taken, as its rule says."""


class HasFaults(Protocol):
    """The rules of the cluster at this broker; None while there are none."""

    @property
    def faults(self) -> Interceptor | None: ...


class Limits(Protocol):
    """The limits of clients (`odradek.limits.quotas`), as the serving of a request meets them."""

    def meter(self, size: int) -> Meter:
        """Begin to measure a request of so many bytes."""

    def served(self, call: Call, response: Any) -> tuple[Any, int]:
        """The answer to a request that was served, and how long its client has to wait then (ms)."""

    def written(self, call: Call) -> None:
        """The answer has been written."""

    def throttles(self) -> Iterable[tuple[str, str, str, int, int]]:
        """The limit, user, client id, how often it had to wait, and how long together (ms)."""


class HasQuotas(Protocol):
    """The limits of clients; None in a cluster that never had any."""

    @property
    def quotas(self) -> Limits | None: ...


class Telling(HasClock, HasFacts, Protocol):
    """What telling of a request touches of a broker."""


class Node(Telling, HasCounters, HasFaults, Protocol):
    """What the beginning of every request touches of a broker."""


def begin(node: Node, handler: Handler, call: Call) -> tuple[Coroutine[Any, Any, Any], bool]:
    """The flow that serves a request, and whether a rule has it served later.

    A request that a rule holds or delays is served even if its client has disconnected: it stands for a message that
    was already on the wire.
    """
    node.metrics.requests += 1
    if node.facts.told:
        tell_request(node, handler, call)
    if node.faults is not None and node.faults.intercepts(call):
        postponed = node.faults.postpones
        return node.faults.serve(handler, call), postponed
    return handler.serve(call), False


def tell_request(node: Telling, handler: Handler, call: Call) -> None:
    """Tell that a request was read."""
    frame, request = call.frame, call.request
    fact = RequestFact(
        "request",
        _NO_FIELDS,
        handler.api,
        call.correlation_id,
        call.client_id,
        call.is_broker,
        call.conn,
        node.now,
        kept_message(request) if frame is None else kept_frame(handler.api, frame, call.start, request),
        call.start,
    )
    call.frame, call.told = None, fact
    node.facts.tell(fact)


_NO_FIELDS: dict[str, object] = {}


def tell_response(node: Telling, request: Fact, response: Struct, kept: Kept, start: int) -> None:
    """Tell what a request was answered that was told of before."""
    assert isinstance(request, RequestFact), "a call knows what was told of it"
    error, duration_ms = first_error(response), node.now - request.at_ms
    node.facts.tell(ResponseFact("response", _NO_FIELDS, request, error, duration_ms, kept, start))
