"""Calls to other brokers: requests over the inter-broker channel, which can be delayed or lost like those of clients.

They are handed over as messages (`wire.handover`), or as bytes if the node has to encode them (`Node.encodes`).
A node calls itself over the same channel, unless `Node.calls_itself` permits to serve the message in the same step.
Each API has a connection of its own to each broker, as Kafka has a client for each purpose: a slow marker must not hold
up
a verification.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct as Layout
from struct import error as LayoutError  # noqa: N812
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from odradek.core.flow import Flow
from odradek.core.machine import Fact
from odradek.host.bodies import PACKED, kept_message
from odradek.host.call import Call, CloseConnection
from odradek.host.events import Chunk, HandedRequest, HandedResponse, Message
from odradek.host.exchange import begin, tell_response
from odradek.host.router import Handler
from odradek.wire import registry
from odradek.wire.errors import DecodeError
from odradek.wire.frame import FrameBuffer
from odradek.wire.primitives import Malformed, unknown_tags

if TYPE_CHECKING:
    from odradek.core.flow import Wait
    from odradek.host.exchange import Serving
    from odradek.wire.handover import Hand
    from odradek.wire.registry import ApiKey

__all__ = ["Peers"]


R = TypeVar("R", bound=Struct)

_REQUEST_HEADER = Layout(">ihhih")
_CORRELATION = Layout(">i")
RESPONSE_BYTES_MAX = 1 << 30
HERE = "127.0.0.1"


class _Link:
    """A dialled connection: requests to send, and calls that wait for their responses."""

    __slots__ = ("api_key", "conn", "frames", "node_id", "open", "unhanded", "unsent", "waits")

    def __init__(self, conn: int, node_id: int, api_key: ApiKey) -> None:
        self.conn = conn
        self.node_id = node_id
        self.api_key = api_key
        self.open = False
        self.frames = FrameBuffer(RESPONSE_BYTES_MAX)
        self.unsent: list[Chunk] = []
        self.unhanded: list[Message] = []
        self.waits: dict[int, tuple[int, Wait[Struct | None]]] = {}


class Peers:
    """The connections of one node to other brokers, and the calls that wait for a response."""

    def __init__(self, node: Serving) -> None:
        self._node = node
        self._codecs = node.codecs
        self._is_plain = self._codecs.is_plain
        self._here: dict[tuple[ApiKey, int], Handler | None] = {}
        """Handlers of this node's own requests, by API and version."""
        self._links: dict[tuple[int, ApiKey], _Link] = {}
        self._by_conn: dict[int, _Link] = {}
        self._hands: dict[tuple[ApiKey, int], Hand] = {}
        self._next_conn = -1
        self._next_correlation = 0
        self._client_name = f"broker-{node.node_id}"
        self._client_id = self._client_name.encode()

    def is_here(self, node_id: int) -> bool:
        """Whether requests to this broker are served in the same step."""
        return node_id == self._node.node_id and self._node.calls_itself

    async def call(
        self, node_id: int, api_key: ApiKey, version: int, request: Struct, answer: type[R], *, deadline: int
    ) -> R | None:
        """Send a request and wait for its answer; None if the connection is lost or the deadline (ms) passes.

        Raises `EncodeError` if the request cannot be written.
        """
        self._next_correlation = correlation_id = (self._next_correlation + 1) & 0x7FFFFFFF
        if self.is_here(node_id):
            key = (api_key, version)
            handler = self._here[key] if key in self._here else self._find_here(api_key, version)
            if handler is not None:
                response = await self._call_here(handler, correlation_id, request, deadline)
                assert response is None or isinstance(response, answer), f"{api_key.name}: {response}"
                return response
        # A request that cannot be written fails before anything waits for its answer.
        if self._node.encodes:
            frame = self._frame(api_key, version, correlation_id, request)
            link = self._links.get((node_id, api_key)) or self._dial(node_id, api_key)
            if link.open:
                self._node.outbox.send(link.conn, (frame,))
            else:
                link.unsent.append(frame)
        else:
            message = self._message(api_key, version, correlation_id, request)
            link = self._links.get((node_id, api_key)) or self._dial(node_id, api_key)
            if link.open:
                self._node.outbox.hand(link.conn, (message,))
            else:
                link.unhanded.append(message)
        wait: Wait[Struct | None] = self._node.kernel.wait_until(deadline, None)
        link.waits[correlation_id] = (version, wait)
        try:
            response = await wait
        finally:
            link.waits.pop(correlation_id, None)
        if response is None and self._by_conn.get(link.conn) is link:
            # Too late: answers come in order, so on this connection the next call would wait behind it.
            self._node.outbox.hang_up(link.conn)
            self.disconnected(link.conn)
        assert response is None or isinstance(response, answer), f"{api_key.name} is answered with {answer.__name__}"
        return response

    async def call_controller(self, api_key: ApiKey, request: Struct, version: int, answer: type[R]) -> R | None:
        """Have the controller serve a request; None if it cannot be reached in time."""
        node = self._node
        deadline = node.clock.now + node.settings.config.request_timeout_ms
        return await self.call(node.cluster.controller_id, api_key, version, request, answer, deadline=deadline)

    def _find_here(self, api_key: ApiKey, version: int) -> Handler | None:
        """The handler of this node's own requests; None if the version may lack fields."""
        handler = None
        if version == self._codecs.newest_version(api_key):
            handler = self._node.router.handler(api_key, version, broker=True)
            assert handler is not None, "a node serves what it asks"
        self._here[api_key, version] = handler
        return handler

    async def _call_here(self, handler: Handler, correlation_id: int, request: Struct, deadline: int) -> Struct | None:
        """Serve a request of this node: the message is passed as it is, and only the caller may keep it."""
        node = self._node
        asked = request if self._is_plain else self._codecs.own(request)
        call = Call(handler.api_key, handler.version, correlation_id, self._client_name, asked, HERE, is_broker=True)
        serving, _ = begin(node, handler, call)
        try:
            parked = serving.send(None)
        except StopIteration as stop:
            response: Struct | None = stop.value
            if call.told is not None:
                self._answered_here(call.told, response)
            return response
        except Exception as error:
            return self._failed_here(call, error)
        wait: Wait[Struct | None] = node.kernel.wait_until(deadline, None)

        def done(value: Struct | None, error: BaseException | None) -> None:
            if error is not None:
                value = self._failed_here(call, error)
            elif call.told is not None and not wait.settled:  # else nobody waits for it any more
                self._answered_here(call.told, value)
            wait.settle(value)

        # What serves it goes on by itself, as on another broker: whoever asks may give up, or go away.
        node.kernel.park(Flow(serving, done), parked)
        return await wait

    def _answered_here(self, request: Fact, response: Struct | None) -> None:
        if response is not None:
            tell_response(self._node, request, response, kept_message(response), PACKED)

    def _failed_here(self, call: Call, error: BaseException) -> Struct | None:
        if not isinstance(error, CloseConnection):
            self._node.log.error("request_failed", api=call.api_key.name, version=call.version, exc_info=error)
        return None

    def dialled(self, conn: int) -> None:
        """A connection is open: send the requests that wait for it."""
        link = self._by_conn.get(conn)
        if link is None:
            return  # whoever wanted it has given up meanwhile
        link.open = True
        if link.unsent:
            self._node.outbox.send(conn, tuple(link.unsent))
            link.unsent.clear()
        if link.unhanded:
            self._node.outbox.hand(conn, tuple(link.unhanded))
            link.unhanded.clear()

    def handed(self, conn: int, messages: Sequence[Message]) -> None:
        """Take responses of a peer."""
        link = self._by_conn.get(conn)
        if link is None:
            return
        for message in messages:
            assert isinstance(message, HandedResponse), "requests come over accepted connections"
            waiting = link.waits.get(message.correlation_id)
            if waiting is not None:
                waiting[1].settle(message.response)

    def received(self, conn: int, data: bytes | memoryview) -> None:
        """Take bytes of a peer."""
        link = self._by_conn.get(conn)
        if link is None:
            return
        try:
            for frame in link.frames.feed(data):
                self._answered(link, frame)
        except (DecodeError, Malformed, IndexError, LayoutError) as error:
            self._node.log.warning("peer_answer_malformed", peer=link.node_id, error=str(error))
            self._node.outbox.hang_up(conn)
            self.disconnected(conn)

    def disconnected(self, conn: int) -> None:
        """A connection is lost: every call over it ends without an answer."""
        link = self._by_conn.pop(conn, None)
        if link is None:
            return
        del self._links[link.node_id, link.api_key]
        for _, wait in list(link.waits.values()):
            wait.settle(None)

    def _dial(self, node_id: int, api_key: ApiKey) -> _Link:
        link = _Link(self._next_conn, node_id, api_key)
        self._next_conn -= 1
        self._links[node_id, api_key] = self._by_conn[link.conn] = link
        self._node.outbox.dial(link.conn, node_id)
        return link

    def _message(self, api_key: ApiKey, version: int, correlation_id: int, request: Struct) -> HandedRequest:
        hand = self._hands.get((api_key, version))
        if hand is None:
            hand = self._hands[api_key, version] = self._codecs.hand(registry.request_type(api_key), version)
        return HandedRequest(api_key, version, correlation_id, self._client_name, hand(request))

    def _frame(self, api_key: ApiKey, version: int, correlation_id: int, request: Struct) -> bytearray:
        out = bytearray(_REQUEST_HEADER.pack(0, api_key, version, correlation_id, len(self._client_id)))
        out += self._client_id
        codecs = self._codecs
        if codecs.request_header_version(api_key, version) >= 2:
            out.append(0)
        out += codecs.encode(request, version)
        _CORRELATION.pack_into(out, 0, len(out) - 4)
        return out

    def _answered(self, link: _Link, frame: memoryview) -> None:
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        waiting = link.waits.get(correlation_id)
        if waiting is None:
            return
        version, wait = waiting
        api_key = link.api_key
        position = 4
        codecs = self._codecs
        if codecs.response_header_version(api_key, version) >= 1:
            _, position = unknown_tags(frame, position + 1, frame[position])
        response, _ = codecs.reader(registry.response_type(api_key), version)(frame, position)
        wait.settle(response)
