"""A connection within the process, of another broker or of a client: messages in, messages out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.access.principal import SOMEBODY, Peer
from odradek.host.bodies import PACKED, kept_message
from odradek.host.call import Call
from odradek.host.events import HandedRequest, HandedResponse, Message
from odradek.host.exchange import Arrived, Exchange, HandedRequests, tell_response
from odradek.host.router import Handler
from odradek.wire import registry

if TYPE_CHECKING:
    from odradek.host.exchange import Serving
    from odradek.wire.handover import Hand

__all__ = ["PeerConnection"]


class PeerConnection(Exchange):
    """The state of an accepted connection over which messages come."""

    __slots__ = ("_codecs", "_hand", "_handler", "_requests")

    def __init__(self, node: Serving, conn: int, *, host: str, port: int, broker: bool, peer: Peer = SOMEBODY) -> None:
        self._requests = HandedRequests()
        super().__init__(node, conn, self._requests, host=host, port=port, broker=broker, peer=peer)
        self._codecs = node.codecs
        self._handler: Handler | None = None
        """The handler of the last responses; a broker uses each connection for one API."""
        self._hand: Hand = _nothing

    def handed(self, messages: Sequence[Message]) -> None:
        """Take requests from the peer."""
        if self.closing:
            return
        self.last_active = self._node.clock.now
        for message in messages:
            assert isinstance(message, HandedRequest), "answers go to who has dialled"
            self._requests.append(message)
        if self._flow is None and not self._gave_way:
            self._go_on()

    @property
    def waiting_bytes(self) -> int:
        """Zero: no bytes come over this connection, and its peer waits for each response."""
        return 0

    def _serve(self, request: Arrived) -> None:
        assert isinstance(request, HandedRequest), "messages arrive here"
        handler = self._node.router.handler(request.api_key, request.version, broker=self.broker)
        if handler is None:
            self.close("unsupported_api", api_key=int(request.api_key), version=request.version)
            return
        call = Call(
            handler.api_key,
            request.version,
            request.correlation_id,
            request.client_id,
            request.request,
            self.host,
            self.broker,
            False,
            self.peer,
            conn=self.conn,
        )
        self._call(handler, call)

    def _write(self, handler: Handler, call: Call, response: Struct) -> None:
        if handler is not self._handler:
            self._hand = self._codecs.hand(registry.response_type(handler.api_key), handler.version)
            self._handler = handler
        message = HandedResponse(call.correlation_id, self._hand(response))
        if self._gone:
            self.disconnected()
            return
        if not self.messages:
            self._node.outbox.dirty.append(self)
        self.messages.append(message)
        if call.told is not None:
            tell_response(self._node, call.told, message.response, kept_message(message.response), PACKED)

    def _forget(self) -> None:
        self._requests.clear()


def _nothing(message: Struct) -> Struct:
    raise AssertionError("no answer has been written yet")
