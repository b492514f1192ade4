"""Where the serving of a request begins, whoever has sent it: it is counted, told of, and given to the rules."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from odradek.log.machine import Fact
from odradek.node.seams import HasCounters, HasFacts
from odradek.node.transport.call import Call
from odradek.node.transport.router import Handler
from odradek.wire.registry import NAMES

if TYPE_CHECKING:
    from odradek.node.faults import Faults

__all__ = ["HasFaults", "Node", "begin"]


class HasFaults(Protocol):
    """What the rules of the cluster do at this node; None where there are none."""

    faults: Faults | None


class Node(HasCounters, HasFacts, HasFaults, Protocol):
    """What the beginning of every request touches of a broker."""


def begin(node: Node, handler: Handler, call: Call) -> tuple[Coroutine[Any, Any, Any], bool]:
    """The flow that serves a request, and whether a rule has it served later.

    A request that a rule holds or delays is served even if its client has disconnected: it stands for a message that
    was already on the wire.
    """
    node.metrics.requests += 1
    if node.facts.told:
        node.facts.emit((_request_fact(call),))
    if node.faults is not None and node.faults.intercepts(call):
        postponed = node.faults.postpones
        return node.faults.serve(handler, call), postponed
    return handler.serve(node, call), False


def _request_fact(call: Call) -> Fact:
    fields: dict[str, object] = {
        "api": NAMES[call.api_key],
        "version": call.version,
        "correlation": call.correlation_id,
        "client_id": call.client_id,
        "from_broker": call.is_broker,
    }
    return Fact("request", fields)
