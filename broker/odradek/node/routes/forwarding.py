"""Requests that only the controller can serve: decided here if this node is it, else passed on to it (KIP-590)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct

from odradek.log.machine import Decision, Refused
from odradek.node.hosting.controller import HasController
from odradek.node.quotas.piece import HasQuotas
from odradek.node.seams import HasConfig
from odradek.node.transport.peers import HasPeers
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.metadata.controller import Controller
    from odradek.node.transport.call import Call

__all__ = ["AsksController", "ask_controller"]


class AsksController(HasConfig, HasController, HasPeers, HasQuotas, Protocol):
    """The controller, here or at another broker."""


R = TypeVar("R", bound=Struct)

COUNTED = frozenset({ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS})
"""What the controller counts for each client, and has to know the client of (KIP-599)."""
OF_SOMEBODY = frozenset({ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN})
"""What the controller decides by who asks."""


async def ask_controller(
    node: AsksController,
    call: Call,
    decide: Callable[[Controller], Decision[R]],
    refuse: Callable[[ErrorCode, str | None], R],
    answer: type[R],
    *,
    request: Struct | None = None,
) -> R:
    """The controller's response to the call, or to the part of it that is given; refusals in the response's shape."""
    shard = node.controller.active
    if shard is not None:
        reply = await shard.carry_out(decide(shard.machine))
        return refuse(reply.error, reply.message) if isinstance(reply, Refused) else reply
    if call.is_broker:
        # Who passed this on thinks that we are the controller; passing it on once more could go around for ever.
        return refuse(ErrorCode.NOT_CONTROLLER, None)
    asked: Struct = call.request if request is None else request
    if call.api_key in OF_SOMEBODY or (call.api_key in COUNTED and node.quotas is not None):
        from odradek.node.routes.envelopes import ask_in_an_envelope  # most clusters limit nothing

        response = await ask_in_an_envelope(node, call, asked, answer)
    else:
        response = await node.peers.call_controller(call.api_key, asked, call.version, answer)
    return refuse(ErrorCode.REQUEST_TIMED_OUT, None) if response is None else response
