"""The connection of another broker of the process, or of a client in it: messages in, messages out."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.access.principal import SOMEBODY, Peer
from odradek.host.bodies import PACKED, kept_message
from odradek.host.call import Call
from odradek.host.events import HandedRequest, HandedResponse, Message
from odradek.host.exchange import Exchange, Node
from odradek.host.router import Handler
from odradek.host.serving import tell_response
from odradek.wire import registry
from odradek.wire.codecs import PLAIN

if TYPE_CHECKING:
    from odradek.wire.handover import Hand

__all__ = ["PeerConnection"]


class PeerConnection(Exchange[HandedRequest]):
    """The state of one accepted connection over which messages are handed over."""

    __slots__ = ("_codecs", "_hand", "_handler", "_requests")

    def __init__(self, node: Node, conn: int, *, host: str, port: int, broker: bool, peer: Peer = SOMEBODY) -> None:
        super().__init__(node, conn, host=host, port=port, broker=broker, peer=peer)
        self._requests: deque[HandedRequest] = deque()
        self._codecs = node.release.codecs or PLAIN
        self._handler: Handler | None = None
        """Whose answers were handed over last; a broker asks for one API over each connection."""
        self._hand: Hand = _nothing

    def handed(self, messages: Sequence[Message]) -> None:
        """Take requests of who is at the other end."""
        if self.closing:
            return
        self.last_active = self._node.now
        for message in messages:
            assert isinstance(message, HandedRequest), "answers go to who has dialled"
            self._requests.append(message)
        if self._flow is None and not self._gave_way:
            self._go_on()

    @property
    def waiting_bytes(self) -> int:
        """Nothing: no bytes come over this connection, and who hands messages over waits for the answers."""
        return 0

    def _take(self) -> HandedRequest | None:
        request, self._next = self._next, None
        if request is None and self._requests:
            return self._requests.popleft()
        return request

    def _serve(self, request: HandedRequest) -> None:
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

    def _write(self, handler: Handler, call: Call, response: object) -> None:
        assert isinstance(response, Struct), "an answer is a message"
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
