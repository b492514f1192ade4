"""A client in the simulated world: requests in, responses out, as bytes or handed over as messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct as Layout
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from odradek.host.events import Connected, Disconnected, Handed, HandedRequest, HandedResponse, Received
from odradek.wire import registry
from odradek.wire.codecs import PLAIN
from odradek.wire.frame import FrameBuffer
from odradek.wire.primitives import unknown_tags
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.config.table import Config
    from odradek.host.events import Event, Message

__all__ = ["Answer", "SimClient"]

_INT32 = Layout(">i")
_HEADER = Layout(">ihhih")
"""Length, API key, API version, correlation id, length of the client id."""
RESPONSE_BYTES_MAX = 1 << 30


class Answer:
    """A response that may still be to come."""

    def __init__(self, api_key: ApiKey, version: int, then: Callable[[], None] | None = None) -> None:
        self.api_key = api_key
        self.version = version
        self.then = then
        """Called when the response has arrived or is lost."""
        self.arrived = False
        self.lost = False
        self._response: Any = None

    @property
    def response(self) -> Any:
        """The decoded response; it must have arrived."""
        if not self.arrived:
            raise LookupError(f"{self.api_key.name} v{self.version} is not answered")
        return self._response

    def arrive(self, response: object) -> None:
        """Take the response."""
        self._response = response
        self.arrived = True
        if self.then is not None:
            self.then()

    def lose(self) -> None:
        """The connection closed before the response came."""
        self.lost = True
        if self.then is not None:
            self.then()


class Network(Protocol):
    """The part of the world that a client uses.

    A Protocol: the world imports its clients.
    """

    @property
    def config(self) -> Config: ...
    def accept(self, node_id: int, client: SimClient) -> int: ...
    def post(self, node_id: int, event: Event) -> None: ...
    def run_until(self, condition: Callable[[], bool], *, within_ms: int) -> bool: ...


class SimClient:
    """One connection to one node. With `hands` it passes messages as objects, which saves the encoding."""

    def __init__(self, world: Network, node_id: int, *, client_id: str | None = "client", hands: bool = False) -> None:
        self._world = world
        self._node_id = node_id
        self._client_id = client_id
        self._hands = hands
        self._client_name = (client_id or "").encode()
        self._codecs = world.config.release.codecs or PLAIN
        self._correlation_id = 0
        self._frames = FrameBuffer(RESPONSE_BYTES_MAX)
        self._waiting: dict[int, Answer] = {}
        self.conn = world.accept(node_id, self)
        self.closed = False
        self.unread: list[bytes] = []
        world.post(node_id, Connected(self.conn, host="client", port=self.conn, hands=hands))

    def send(self, request: Struct, version: int, *, then: Callable[[], None] | None = None) -> Answer:
        """Send a request. The answer arrives while the world runs, and `then` is called."""
        api_key = self._codecs.api_of(request)
        self._correlation_id += 1
        answer = Answer(api_key, version, then)
        if self.closed:
            answer.lose()
            return answer
        self._waiting[self._correlation_id] = answer
        if self._hands:
            own = self._codecs.hand(type(request), version)(request)
            message = HandedRequest(api_key, version, self._correlation_id, self._client_id, own)
            self._world.post(self._node_id, Handed(self.conn, (message,)))
        else:
            self.send_bytes(self._frame(api_key, version, request))
        return answer

    def send_bytes(self, data: bytes) -> None:
        self._world.post(self._node_id, Received(self.conn, data))

    def ask(self, request: Struct, version: int, *, within_ms: int = 60_000) -> Any:
        """Send a request and run the world until the answer is there."""
        answer = self.send(request, version)
        self._world.run_until(lambda: answer.arrived or answer.lost, within_ms=within_ms)
        if answer.lost:
            raise ConnectionError(f"the connection was closed without an answer to {answer.api_key.name}")
        return answer.response

    def close(self) -> None:
        if not self.closed:
            self.hung_up()
            self._world.post(self._node_id, Disconnected(self.conn))

    def received(self, data: bytes) -> None:
        self.unread.append(data)
        for frame in self._frames.feed(data):
            (correlation_id,) = _INT32.unpack_from(frame)
            answer = self._waiting.pop(correlation_id, None)
            if answer is not None:
                answer.arrive(self._decode(answer, frame))

    def handed(self, messages: Sequence[Message]) -> None:
        for message in messages:
            assert isinstance(message, HandedResponse), "nobody asks anything of a client"
            answer = self._waiting.pop(message.correlation_id, None)
            if answer is not None:
                answer.arrive(message.response)

    def hung_up(self) -> None:
        """The node closed the connection."""
        self.closed = True
        lost, self._waiting = self._waiting, {}
        for answer in lost.values():
            answer.lose()

    def _frame(self, api_key: ApiKey, version: int, request: Struct) -> bytes:
        body = self._codecs.encode(request, version)
        tags = b"\0" if self._codecs.request_header_version(api_key, version) >= 2 else b""
        name = self._client_name
        size = _HEADER.size - 4 + len(name) + len(tags) + len(body)
        length = -1 if self._client_id is None else len(name)
        return _HEADER.pack(size, api_key, version, self._correlation_id, length) + name + tags + body

    def _decode(self, answer: Answer, frame: memoryview) -> object:
        position = 4
        if self._codecs.response_header_version(answer.api_key, answer.version) >= 1:
            _, position = unknown_tags(frame, position + 1, frame[position])
        read: Callable[[memoryview, int], tuple[object, int]]
        read = self._codecs.reader(registry.response_type(answer.api_key), answer.version)
        return read(frame, position)[0]
