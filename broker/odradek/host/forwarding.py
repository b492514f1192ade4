"""Requests that only the controller can serve: decided here if this node is it, else passed on to it (KIP-590)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct

from odradek.core.machine import Decision, Refused
from odradek.host.peers import HasPeers
from odradek.host.seams import HasConfig, HasTurns
from odradek.limits.piece import HasQuotas
from odradek.metadata.controller_role import HasController
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.metadata.controller import Controller

__all__ = ["AsksController", "AsksInParts", "ask_controller", "ask_in_parts"]


class AsksController(HasConfig, HasController, HasPeers, HasQuotas, Protocol):
    """The controller, here or at another broker."""


class AsksInParts(AsksController, HasTurns, Protocol):
    """The same for requests that may be long."""


R = TypeVar("R", bound=Struct)
Q = TypeVar("Q", bound=Struct)

COUNTED = frozenset({ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS})
"""What the controller counts for each client, and has to know the client of (KIP-599)."""
OF_SOMEBODY = frozenset({ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN})
"""What the controller decides by who asks."""


async def ask_in_parts(
    node: AsksInParts,
    call: Call,
    parts: Iterable[Q],
    decide: Callable[[Controller, Q], Decision[R]],
    refuse: Callable[[Q, ErrorCode, str | None], R],
    answer: type[R],
    join: Callable[[R, R], None],
) -> R:
    """The controller's response to a request that is asked in parts, others being served in between.

    `join` adds the answer to a part to that of the parts before. There is at least one part.
    """
    joined: R | None = None
    for part in parts:
        if joined is not None:
            await node.turns.breathe(call)
        told = await ask_controller(
            node,
            call,
            lambda controller, part=part: decide(controller, part),  # type: ignore[misc]
            lambda error, message, part=part: refuse(part, error, message),  # type: ignore[misc]
            answer,
            request=part,
        )
        if joined is None:
            joined = told
        else:
            join(joined, told)
    assert joined is not None
    return joined


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
        reply = await shard.ask(decide)
        return refuse(reply.error, reply.message) if isinstance(reply, Refused) else reply
    if call.is_broker:
        # Who passed this on thinks that we are the controller; passing it on once more could go around for ever.
        return refuse(ErrorCode.NOT_CONTROLLER, None)
    asked: Struct = call.request if request is None else request
    if call.api_key in OF_SOMEBODY or (call.api_key in COUNTED and node.quotas is not None):
        from odradek.host.envelopes import ask_in_an_envelope  # most clusters limit nothing

        response = await ask_in_an_envelope(node, call, asked, answer)
    else:
        response = await node.peers.call_controller(call.api_key, asked, call.version, answer)
    return refuse(ErrorCode.REQUEST_TIMED_OUT, None) if response is None else response
