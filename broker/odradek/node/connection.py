"""One client: frames in, one request at a time, answers in order.

A request that parks holds back the ones behind it, as in Kafka;
what has arrived meanwhile is queued, and when the queue is full the driver is asked to stop reading.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable
from struct import Struct as Layout
from typing import TYPE_CHECKING, Any

from odradek.log.machine import Fact
from odradek.node.flow import Flow
from odradek.node.router import Call, CloseConnection, Handler
from odradek.wire.errors import DecodeError, EncodeError
from odradek.wire.frame import FrameBuffer
from odradek.wire.primitives import Malformed, unknown_tags
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.node.events import Chunk
    from odradek.node.node import Node

__all__ = ["Connection"]

_HEADER = Layout(">hhih")
_LENGTH_AND_CORRELATION = Layout(">ii")
_LENGTH = Layout(">i")
QUEUED_FRAMES_MAX = 64
QUEUED_BYTES_MAX = 4 * 1024 * 1024


def _request_fact(call: Call) -> Fact:
    fields: dict[str, object] = {
        "api": call.api_key.name,
        "version": call.version,
        "correlation": call.correlation_id,
        "client_id": call.client_id,
        "from_broker": call.is_broker,
    }
    return Fact("request", fields)


class Connection:
    """The state of one accepted connection."""

    __slots__ = (
        "_client_id",
        "_client_id_bytes",
        "_clogged",
        "_flow",
        "_frames",
        "_held",
        "_node",
        "_postponed",
        "_queue",
        "_queued_bytes",
        "_serving",
        "broker",
        "closing",
        "conn",
        "host",
        "last_active",
        "out",
        "port",
    )

    def __init__(self, node: Node, conn: int, *, host: str, port: int, broker: bool) -> None:
        self._node = node
        self.conn = conn
        self.host = host
        self.port = port
        self.broker = broker
        self.closing = False
        self.last_active = node.now
        self.out: list[Chunk] = []
        self._frames = FrameBuffer(node.config.socket_request_max_bytes)
        self._queue: deque[memoryview] = deque()
        self._queued_bytes = 0
        self._flow: Flow | None = None
        self._serving = False
        self._postponed = False
        self._held = False
        self._clogged = False
        self._client_id_bytes = b""
        self._client_id: str | None = ""

    def received(self, data: bytes) -> None:
        """Take bytes of the client."""
        if self.closing:
            return
        self.last_active = self._node.now
        try:
            frames = self._frames.feed(data)
        except DecodeError as error:
            self.close("malformed_frame", error=str(error))
            return
        if self._flow is None and not self._queue and not self._clogged and len(frames) == 1:
            self._serve(frames[0])
            return
        self._queue.extend(frames)
        self._queued_bytes += sum(map(len, frames))
        self._serve_queue()

    def clogged(self) -> None:
        """The client reads too slowly: serve nothing more until it has caught up."""
        self._clogged = True
        self._hold()

    def drained(self) -> None:
        """The client has caught up."""
        self._clogged = False
        self._serve_queue()

    def disconnected(self) -> None:
        """The client is gone; a parked request ends, what it has appended stands."""
        self.closing = True
        self._queue.clear()
        if self._flow is not None:
            # What a test holds back is a message that is late, and a late message does not care for its sender.
            if not self._postponed:
                self._node.kernel.close(self._flow)
            self._flow = None

    def close(self, reason: str, **fields: object) -> None:
        """Hang up, with a log line that says why."""
        if self.closing:
            return
        self._node.log.warning("connection_closed", reason=reason, host=self.host, port=self.port, **fields)
        self.disconnected()
        self._node.hang_up(self)

    @property
    def idle(self) -> bool:
        """Whether no request is being served or waiting."""
        return self._flow is None and not self._queue

    def _serve_queue(self) -> None:
        queue = self._queue
        while queue and self._flow is None and not self._clogged and not self.closing:
            frame = queue.popleft()
            self._queued_bytes -= len(frame)
            self._serve(frame)
        if self.closing:
            return
        if len(queue) >= QUEUED_FRAMES_MAX or self._queued_bytes >= QUEUED_BYTES_MAX:
            self._hold()
        elif self._held and not self._clogged and not queue:
            self._held = False
            self._node.resume(self)

    def _hold(self) -> None:
        if not self._held:
            self._held = True
            self._node.hold(self)

    def _serve(self, frame: memoryview) -> None:
        try:
            api_key, version, correlation_id, client_id_length = _HEADER.unpack_from(frame)
        except struct.error:
            self.close("malformed_header", error=f"a frame of {len(frame)} bytes holds no request header")
            return
        node = self._node
        handler = node.router.handler(api_key, version, broker=self.broker)
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
            request, _ = handler.read(frame, position)
        except (DecodeError, Malformed, UnicodeDecodeError, IndexError) as error:
            self.close("malformed_request", api=handler.api_key.name, version=version, error=str(error))
            return
        node.metrics.requests += 1
        call = Call(handler.api_key, version, correlation_id, client_id, request, self)
        if node.events is not None:
            node.emit((_request_fact(call),))
        if node.faults is not None and node.faults.intercepts(call):
            self._postponed = node.faults.postpones
            self._run(handler, call, node.faults.serve(handler, call))
        else:
            self._run(handler, call, handler.serve(node, call))

    def _run(self, handler: Handler, call: Call, coroutine: Any) -> None:
        try:
            wait = coroutine.send(None)
        except StopIteration as stop:
            self._respond(handler, call, stop.value)
        except Exception as error:
            self._failed(handler, call, error)
        else:
            flow = Flow(coroutine, lambda value, error: self._done(handler, call, value, error))
            self._flow = flow
            self._node.kernel.park(flow, wait)

    def _done(self, handler: Handler, call: Call, value: Any, error: BaseException | None) -> None:
        self._flow = None
        self._postponed = False
        if self.closing:
            return
        if error is not None:
            self._failed(handler, call, error)
        else:
            self._respond(handler, call, value)
        self._serve_queue()

    def _failed(self, handler: Handler, call: Call, error: BaseException) -> None:
        if isinstance(error, CloseConnection):
            self.close(str(error), api=call.api_key.name, version=call.version)
            return
        fields: dict[str, object] = {"api": call.api_key.name, "version": call.version, "client_id": call.client_id}
        if isinstance(error, EncodeError):
            # A client can bring this about: what it calls things comes back inside a longer text.
            self._node.log.warning("answer_unwritable", **fields, error=str(error))
        else:
            self._node.log.error("request_failed", **fields, exc_info=error)
        self._answer_failure(handler, call)

    def _answer_failure(self, handler: Handler, call: Call) -> None:
        """Say UNKNOWN_SERVER_ERROR where the API can say it, else hang up."""
        from odradek.node.failures import error_response  # needed by failures alone

        try:
            response = error_response(call)
            if response is not None:
                self._write(handler, call, response)
                return
        except EncodeError as error:
            self._node.log.warning("answer_unwritable", api=call.api_key.name, error=str(error))
        self.close("internal_error", api=call.api_key.name, version=call.version)

    def _respond(self, handler: Handler, call: Call, response: Any) -> None:
        if response is None:
            return
        try:
            self._write(handler, call, response)
        except EncodeError as error:
            self._failed(handler, call, error)

    def _write(self, handler: Handler, call: Call, response: Any) -> None:
        out = bytearray(8)
        if handler.flexible_response:
            out.append(0)
        splices: list[tuple[int, memoryview]] = []
        handler.write(response, out, splices)
        if splices:
            self._send_spliced(call.correlation_id, out, splices)
        else:
            _LENGTH_AND_CORRELATION.pack_into(out, 0, len(out) - 4, call.correlation_id)
            self._send((out,))

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
        self._send(chunks)

    def _send(self, chunks: Iterable[Chunk]) -> None:
        if not self.out:
            self._node.dirty.append(self)
        self.out.extend(chunks)

    def _serve_unknown_api_versions(self, correlation_id: int) -> None:
        """KIP-511: an unknown version of ApiVersions is answered in the layout of version 0."""
        from odradek.node.routes.cluster import unsupported_api_versions

        handler = self._node.router.handler(ApiKey.API_VERSIONS, 0, broker=False)
        assert handler is not None
        call = Call(ApiKey.API_VERSIONS, 0, correlation_id, None, None, self)
        self._respond(handler, call, unsupported_api_versions(self._node))
