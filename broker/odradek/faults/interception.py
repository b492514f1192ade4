"""Rules carried out by one node: hold, delay, lose, refuse or answer the requests that they hit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import astuple, replace

from odradek.core.flow import Wait
from odradek.faults.armed import Armed, HeldRequest, PostponedRequest, seen
from odradek.faults.model import Scripted
from odradek.host.call import CLOSED_BY_RULE, Call, CloseConnection
from odradek.host.failures import refusal
from odradek.host.host import Host
from odradek.host.router import Handler
from odradek.wire import registry
from odradek.wire.errors import ErrorCode
from odradek.wire.jsonform import response_of
from odradek.wire.messages.metadata_response import MetadataResponse
from odradek.wire.registry import ApiKey

__all__ = ["Faults"]


class Faults:
    """The rules of the cluster, applied by one node; the first rule that takes a request wins.

    A request that is delayed or held is served even if its client goes away meanwhile: it is on its way, not lost.
    """

    def __init__(self, node: Host, rules: Sequence[Armed], failed: Callable[[Exception], None]) -> None:
        self._node = node
        self._rules = rules
        self._failed = failed
        self._taken: Armed | None = None

    def of(self, node: Host) -> Faults:
        """The same rules for a node that takes the place of this one."""
        return Faults(node, self._rules, self._failed)

    def intercepts(self, call: Call) -> bool:
        """Whether a rule takes this request; `serve` must follow if so."""
        api_key = call.api_key
        for armed in self._rules:
            if (armed.apis is None or api_key in armed.apis) and armed.takes(self._node, call):
                self._taken = armed
                return True
        self._taken = None
        return False

    @property
    def postpones(self) -> bool:
        """Whether the request that `intercepts` has just taken is served later."""
        return self._taken is not None and self._taken.rule.act.postpones

    def end(self) -> None:
        """The node stops: what it holds is gone with it."""
        for armed in self._rules:
            armed.holding = [held for held in armed.holding if held.node_id != self._node.node_id]
            armed.postponing = [each for each in armed.postponing if each.node_id != self._node.node_id]

    async def serve(self, handler: Handler, call: Call) -> Struct | None:
        """Serve the request that `intercepts` has just taken, as its rule says."""
        armed, self._taken = self._taken, None
        assert armed is not None
        node, act = self._node, armed.rule.act
        if act.delay_ms:
            await self._postpone(armed, call, node.kernel.sleep(act.delay_ms))
        if act.hold:
            await self._hold(armed, call)
        if act.disconnect == "before":
            raise CloseConnection(CLOSED_BY_RULE)
        if act.drop:
            await self._postpone(armed, call, Wait(node.kernel))
        response = await self._answer(armed, handler, call)
        if act.answer_delay_ms:
            await self._postpone(armed, call, node.kernel.sleep(act.answer_delay_ms))
        if act.disconnect == "after":
            raise CloseConnection(CLOSED_BY_RULE)
        if act.throttle_ms and response is not None:
            response = replace(response, throttle_time_ms=act.throttle_ms)
        return response

    async def _hold(self, armed: Armed, call: Call) -> None:
        held = HeldRequest(self._node.node_id, Wait(self._node.kernel), seen(self._node, call))
        armed.holding.append(held)
        try:
            await held.wait
        finally:
            if held in armed.holding:
                armed.holding.remove(held)

    async def _postpone(self, armed: Armed, call: Call, wait: Awaitable[object]) -> None:
        postponed = PostponedRequest(self._node.node_id, wait, call, self._node.clock.now)
        armed.postponing.append(postponed)
        try:
            await wait
        finally:
            if postponed in armed.postponing:
                armed.postponing.remove(postponed)

    async def _answer(self, armed: Armed, handler: Handler, call: Call) -> Struct | None:
        rule, node = armed.rule, self._node
        if isinstance(rule, Scripted) and rule.answer is not None:
            return self._scripted(rule.answer, call)
        if rule.act.reply is not None:
            return response_of(registry.response_type(call.api_key), rule.act.reply, call.version)
        error = rule.act.error_code
        if error is not None:
            if call.api_key is ApiKey.METADATA:
                response = await handler.serve(call)
                assert isinstance(response, MetadataResponse), "Metadata is answered"
                return _without_topics(response, error)
            return refusal(replace(call, request=node.in_full(call)), error, rule.act.message)
        if not rule.act.duplicate:
            return await handler.serve(call)
        again = replace(call, request=_copy(call.request))
        response = await handler.serve(call)
        node.kernel.spawn(self._serve_again(handler, again))
        return response

    async def _serve_again(self, handler: Handler, call: Call) -> None:
        """The repetition of a request: what it does stays, what it would be answered goes nowhere."""
        with suppress(CloseConnection):
            await handler.serve(call)

    def _scripted(self, answer: Callable[[Call], object], call: Call) -> Struct | None:
        """The answer of a rule's function; the test gets its exceptions."""
        try:
            response = answer(call)
            if response is None:
                return None
            wanted = registry.response_type(call.api_key)
            if not isinstance(response, wanted):
                raise TypeError(f"reply gives a {wanted.__name__}, not {response!r}.")
            registry.encode(response, call.version)
            return response
        except Exception as error:
            self._failed(error)
            raise


def _without_topics(response: MetadataResponse, error: ErrorCode) -> MetadataResponse:
    """An answer to Metadata in which the brokers stand, and every topic has the error.

    It names the brokers, so that a client that knows no other broker can go on with other requests.
    """
    for topic in response.topics:
        topic.error_code = error
        topic.partitions = []
    return response


def _copy(request: Struct) -> Struct:
    """A request of its own: a route may change the one that it is given."""
    return type(request)(*map(_copied, astuple(request)))


def _copied(value: object) -> object:
    if isinstance(value, Struct):
        return _copy(value)
    return [_copied(each) for each in value] if isinstance(value, list) else value
