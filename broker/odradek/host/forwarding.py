"""Requests that only the controller can serve: served here if this node is it, else forwarded (KIP-590)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from odradek.core.machine import Decision, Refused
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.host.exchange import Serving
    from odradek.host.peers import Peers
    from odradek.limits.quotas import MutationQuota
    from odradek.metadata.controller import Controller
    from odradek.metadata.controller_role import ControllerRole

__all__ = ["Forwarding"]

R = TypeVar("R", bound=Struct)
Q = TypeVar("Q", bound=Struct)

COUNTED = frozenset({ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS})
"""The controller counts these for each client, and has to know the client (KIP-599)."""
OF_SOMEBODY = frozenset({ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN})
"""Requests that brokers forward to the controller with the client's principal."""


class Forwarding:
    """The controller, here or at another broker."""

    def __init__(self, node: Serving, controller: ControllerRole, peers: Peers) -> None:
        self._node = node
        self._controller = controller
        self._peers = peers

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller."""
        return self._controller.active is not None

    async def ask_in_parts(
        self,
        call: Call,
        parts: Iterable[Q],
        decide: Callable[[Controller, Q], Decision[R]],
        refuse: Callable[[Q, ErrorCode, str | None], R],
        answer: type[R],
        join: Callable[[R, R], None],
    ) -> R:
        """The controller's response to a request that is sent in parts, with other clients served in between.

        `join` adds the response to a part to that of the parts before. There is at least one part.
        """
        joined: R | None = None
        for part in parts:
            if joined is not None:
                await self._node.turns.breathe(call)
            told = await self.ask(
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

    async def ask(
        self,
        call: Call,
        decide: Callable[[Controller], Decision[R]],
        refuse: Callable[[ErrorCode, str | None], R],
        answer: type[R],
        *,
        request: Struct | None = None,
    ) -> R:
        """The controller's response to the call, or to the given part of it; refusals have its shape."""
        shard = self._controller.active
        if shard is not None:
            reply = await shard.ask(decide)
            return refuse(reply.error, reply.message) if isinstance(reply, Refused) else reply
        if call.is_broker:
            # The broker that passed this on takes us for the controller; passing it on again could go on for ever.
            return refuse(ErrorCode.NOT_CONTROLLER, None)
        asked: Struct = call.request if request is None else request
        if call.api_key in OF_SOMEBODY or (call.api_key in COUNTED and self._node.quotas is not None):
            from odradek.host.envelopes import ask_in_an_envelope  # most clusters limit nothing

            response = await ask_in_an_envelope(self._peers, self._node.codecs, call, asked, answer)
        else:
            response = await self._peers.call_controller(call.api_key, asked, call.version, answer)
        return refuse(ErrorCode.REQUEST_TIMED_OUT, None) if response is None else response

    def quota_of(self, call: Call) -> MutationQuota | None:
        """The client's quota of changes (KIP-599); the controller counts them, whichever broker got the request."""
        quotas = self._node.quotas
        if quotas is None or not self.is_controller or (call.is_broker and not call.passed_on):
            return None
        return quotas.of_mutations(call)
