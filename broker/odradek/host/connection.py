"""The connection of a client: frames in, answers out, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from struct import Struct as Layout
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from odradek.access.principal import SOMEBODY, Peer
from odradek.core.turns import TooManyEntries
from odradek.host.bodies import kept_response
from odradek.host.call import Call
from odradek.host.exchange import Exchange, Node
from odradek.host.router import Handler
from odradek.host.serving import begin, tell_response
from odradek.wire.errors import DecodeError
from odradek.wire.frame import FrameBuffer
from odradek.wire.primitives import Malformed, Splices, unknown_tags
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.events import Chunk

__all__ = ["Connection"]

_HEADER = Layout(">hhih")
_LENGTH_AND_CORRELATION = Layout(">ii")
_LENGTH = Layout(">i")
LONG_BYTES = 32 * 1024
"""A request above this is read in slices, and its entries are counted."""


class Gate(Protocol):
    """What stands before a connection until the client is known."""

    def frame_bytes_max(self) -> int:
        """How long a frame may be at present."""

    def admits(self, connection: Connection, frame: memoryview) -> bool:
        """Whether the request is to be served; else it has been dealt with."""


class Connection(Exchange[memoryview]):
    """The state of one accepted connection over which bytes come."""

    __slots__ = ("_client_id", "_client_id_bytes", "_frames", "_gate")

    def __init__(self, node: Node, conn: int, *, host: str, port: int, broker: bool, peer: Peer = SOMEBODY) -> None:
        super().__init__(node, conn, host=host, port=port, broker=broker, peer=peer)
        self._frames = FrameBuffer(node.config.socket_request_max_bytes)
        self._gate: Gate | None = None
        self._client_id_bytes = b""
        self._client_id: str | None = ""

    def received(self, data: bytes) -> None:
        """Take bytes of the client."""
        if self.closing:
            return
        self.last_active = self._node.now
        self._frames.feed(data)
        if self._flow is None and not self._gave_way and not self._clogged and not self._muted:
            self._go_on()
        else:
            self._hold_if_full()

    @property
    def waiting_bytes(self) -> int:
        """How much has arrived that is not being served yet."""
        return self._frames.held

    def _forget(self) -> None:
        self._frames = FrameBuffer(0)

    def _take(self) -> memoryview | None:
        """The next request that has arrived as a whole."""
        frame, self._next = self._next, None
        if frame is not None or not self._frames.held:
            return frame
        try:
            return next(self._frames, None)
        except DecodeError as error:
            self.close("malformed_frame", error=str(error))
            return None

    def guard(self, gate: Gate) -> None:
        """Let nothing pass that this does not admit."""
        self._gate = gate
        self.frame_bytes_max(gate.frame_bytes_max())

    def frame_bytes_max(self, size: int) -> None:
        """From now on a longer request ends the connection."""
        self._frames.limit = size

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._send((data,), len(data))

    def _serve(self, frame: memoryview) -> None:
        if self._gate is not None and not self._gate.admits(self, frame):
            return
        try:
            api_key, version, correlation_id, client_id_length = _HEADER.unpack_from(frame)
        except struct.error:
            self.close("malformed_header", error=f"a frame of {len(frame)} bytes holds no request header")
            return
        node = self._node
        meter = None if node.quotas is None or self.broker else node.quotas.meter(len(frame))
        router = node.router
        handler = router.known.get((api_key, version)) or router.handler(api_key, version, broker=self.broker)
        if handler is None:
            if api_key == ApiKey.API_VERSIONS:
                self._serve_unknown_api_versions(correlation_id)
            else:
                self.close("unsupported_api", api_key=api_key, version=version)
            return
        try:
            position = 10
            if client_id_length > 0:
                position += client_id_length
                client_id_bytes = bytes(frame[10:position])
                if client_id_bytes != self._client_id_bytes:
                    if len(client_id_bytes) != client_id_length:
                        raise DecodeError("the frame ends here", field="client_id", offset=10, message="RequestHeader")
                    self._client_id = client_id_bytes.decode()
                    self._client_id_bytes = client_id_bytes
                client_id = self._client_id
            else:
                client_id = None if client_id_length < 0 else ""
            if handler.flexible_request:
                tag_count = frame[position]
                position += 1
                if tag_count:
                    _, position = unknown_tags(frame, position, tag_count)
            call = Call(
                handler.api_key,
                version,
                correlation_id,
                client_id,
                None,
                self.host,
                self.broker,
                False,
                self.peer,
                meter,
                conn=self.conn,
            )
            if node.facts.told:
                call.frame, call.start = frame, position
            if len(frame) > LONG_BYTES:
                reading = node.turns.run_long(handler.read_long(frame, position), entries_max=handler.entries_max)
                self._run(reading, self._read, handler, call)
                return
            call.request, _ = handler.read(frame, position)
        except (DecodeError, Malformed, UnicodeDecodeError, IndexError) as error:
            self._malformed(handler, error)
            return
        serving, self._postponed = begin(node, handler, call)
        self._run(serving, self._served, handler, call)

    def _malformed(self, handler: Handler, error: BaseException) -> None:
        self.close("malformed_request", api=handler.api_key.name, version=handler.version, error=str(error))

    def _read(self, handler: Handler, call: Call, value: Any, error: BaseException | None) -> None:
        """A long request has been read."""
        if error is None:
            call.request, _ = value
            self._call(handler, call)
        elif isinstance(error, DecodeError | TooManyEntries):
            self._malformed(handler, error)
        else:
            self._failed(handler, call, error)

    def _respond_long(self, handler: Handler, call: Call, response: object) -> None:
        self._run(self._write_long(handler, response), self._written, handler, call)

    async def _write_long(self, handler: Handler, response: object) -> tuple[object, bytearray, Splices]:
        out, splices = bytearray(handler.response_start), Splices()
        await self._node.turns.run_long(handler.write_long(response, out, splices))
        return response, out, splices

    def _written(self, handler: Handler, call: Call, value: Any, error: BaseException | None) -> None:
        if error is not None:
            self._failed(handler, call, error)
        else:
            self._send_response(handler, call, *value)
            if call.meter is not None and self._node.quotas is not None:
                self._node.quotas.written(call)

    def _write(self, handler: Handler, call: Call, response: object) -> None:
        out, splices = bytearray(handler.response_start), Splices()
        handler.write(response, out, splices)
        self._send_response(handler, call, response, out, splices)

    def _send_response(self, handler: Handler, call: Call, response: object, out: bytearray, splices: Splices) -> None:
        if splices:
            self._send_spliced(call.correlation_id, out, splices)
        else:
            size = len(out)
            _LENGTH_AND_CORRELATION.pack_into(out, 0, size - 4, call.correlation_id)
            self._send((out,), size)
        if call.told is not None and not self.closing:
            assert isinstance(response, Struct), "an answer is a message"
            start = handler.response_start
            kept = kept_response(handler.api, out, start, splices, response)
            tell_response(self._node, call.told, response, kept, start)

    def _send_spliced(self, correlation_id: int, out: bytearray, splices: list[tuple[int, memoryview]]) -> None:
        size = len(out) - 4 + sum(len(view) for _, view in splices)
        _LENGTH_AND_CORRELATION.pack_into(out, 0, size, correlation_id)
        chunks: list[Chunk] = []
        start = 0
        for position, view in splices:
            chunks.append(bytes(out[start:position]))
            chunks.append(view)
            start = position
        if start < len(out):
            chunks.append(bytes(out[start:]))
        self._send(chunks, size + 4)

    def _send(self, chunks: Iterable[Chunk], size: int) -> None:
        if self._gone:
            self.disconnected()
            return
        if not self.out:
            self._node.outbox.dirty.append(self)
        self.out_bytes += size
        self.out += chunks

    def _serve_unknown_api_versions(self, correlation_id: int) -> None:
        """KIP-511: an unknown version of ApiVersions is answered in the layout of version 0."""
        from odradek.host.unknown_versions import unsupported_api_versions

        handler = self._node.router.handler(ApiKey.API_VERSIONS, 0, broker=False)
        assert handler is not None
        call = Call(ApiKey.API_VERSIONS, 0, correlation_id, None, None, self.host, self.broker)
        self._respond(handler, call, unsupported_api_versions(self._node))
