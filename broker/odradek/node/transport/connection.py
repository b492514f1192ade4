"""One client: frames in, one request at a time, answers in order.

A request that parks holds back the ones behind it, as in Kafka; what has arrived meanwhile waits, and when it is too
much the driver is asked to stop reading. A connection that has more to be served when its turn is over gives way.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from struct import Struct as Layout
from typing import TYPE_CHECKING, Any, Protocol

from odradek.node.kernel.flow import Flow
from odradek.node.kernel.turns import Pause, TooManyEntries
from odradek.node.quotas.meter import Metered
from odradek.node.quotas.piece import HasQuotas
from odradek.node.seams import HasClock, HasConfig, HasKernel, HasLog, HasTimers, HasTurns
from odradek.node.transport.call import Call, CloseConnection
from odradek.node.transport.outbox import HasOutbox
from odradek.node.transport.router import Handler, HasRouter
from odradek.node.transport.serving import Node as ServingNode
from odradek.node.transport.serving import begin
from odradek.security.principal import SOMEBODY, Peer
from odradek.wire.errors import DecodeError, EncodeError
from odradek.wire.frame import FrameBuffer
from odradek.wire.primitives import Malformed, Splices, unknown_tags
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.node.events import Chunk

__all__ = ["Connection", "HasConnections"]


class HasConnections(Protocol):
    """The connections of clients and of other brokers."""

    @property
    def connections(self) -> dict[int, Connection]: ...


_HEADER = Layout(">hhih")
_LENGTH_AND_CORRELATION = Layout(">ii")
_LENGTH = Layout(">i")
LONG_BYTES = 32 * 1024
"""A request above this is read in slices, and its entries are counted."""
WAIT_TO_READ = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})
"""Whoever waits for their answers waits for records."""
WAITING_BYTES_MAX = 1024 * 1024
"""Nothing more is read from a connection while so much of it waits to be served."""
ANSWER_BYTES_MAX = 256 * 1024
"""A turn of a connection is over when it has been answered so much, however soon that was."""


class Node(
    ServingNode, HasClock, HasConfig, HasKernel, HasLog, HasOutbox, HasQuotas, HasRouter, HasTimers, HasTurns, Protocol
):
    """What a connection touches of its broker."""

    @property
    def node_id(self) -> int: ...


class Gate(Protocol):
    """What stands before a connection until the client is known."""

    def frame_bytes_max(self) -> int:
        """How long a frame may be at present."""

    def admits(self, connection: Connection, frame: memoryview) -> bool:
        """Whether the request is to be served; else it has been dealt with."""


Finish = Callable[[Handler, Call, Any, BaseException | None], None]
"""Takes the outcome of one stage of a request."""


def _head(handler: Handler) -> bytearray:
    """Room for length and correlation id, and no tagged fields."""
    return bytearray(9 if handler.flexible_response else 8)


class Connection:
    """The state of one accepted connection."""

    __slots__ = (
        "_client_id",
        "_client_id_bytes",
        "_clogged",
        "_flow",
        "_frames",
        "_gate",
        "_gave_way",
        "_gone",
        "_held",
        "_muted",
        "_next",
        "_node",
        "_parked",
        "_postponed",
        "_waits_to_read",
        "broker",
        "closing",
        "conn",
        "host",
        "last_active",
        "out",
        "out_bytes",
        "peer",
        "port",
    )

    def __init__(self, node: Node, conn: int, *, host: str, port: int, broker: bool, peer: Peer = SOMEBODY) -> None:
        self._node = node
        self.conn = conn
        self.host = host
        self.port = port
        self.broker = broker
        self.peer = peer
        self.closing = False
        self.last_active = node.now
        self.out: list[Chunk] = []
        self.out_bytes = 0
        self._frames = FrameBuffer(node.config.socket_request_max_bytes)
        self._next: memoryview | None = None
        """The request with which the connection goes on in its next turn."""
        self._gave_way = False
        self._gone = False
        self._flow: Flow | None = None
        self._parked: tuple[Call, int] | None = None
        """The request that has parked last, and since when (ms)."""
        self._postponed = False
        self._waits_to_read = False
        """Whether the request that parked waits for records."""
        self._held = False
        self._muted = False
        """Whether it is not heard because its client has used too much (KIP-219)."""
        self._clogged = False
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
        elif self._frames.held >= WAITING_BYTES_MAX:
            self._hold()

    def clogged(self) -> None:
        """The client reads too slowly: serve nothing more until it has caught up."""
        self._clogged = True
        self._hold()

    def drained(self) -> None:
        """The client has caught up."""
        self._clogged = False
        if self._flow is None and not self._gave_way:
            self._go_on()

    def turn(self) -> None:
        """Others have had theirs: go on with the next request."""
        self._gave_way = False
        if not self.closing:
            self._go_on()

    def gone(self) -> None:
        """The client is gone; what it has sent before is served up to the first answer, as in Kafka.

        A producer with acks=0 sends and hangs up, and nothing of that is lost; a Produce that waits for its coordinator
        is appended. Only a Fetch ends at once, because nobody is left to read what it waits for.
        """
        waits = self._gave_way or (self._muted and self._frames.held > 0)
        if (self.idle and not waits) or self._clogged or self._waits_to_read:
            self.disconnected()
        else:
            self._gone = True

    def disconnected(self) -> None:
        """The connection is over at once; a parked request ends, what it has appended stands."""
        self.closing = True
        if self._muted:
            self._node.timers.set(("muted", self.conn), None, self._unmute)
        self._next = None
        self._frames = FrameBuffer(0)
        if self._flow is not None:
            if not self._postponed:
                self._node.kernel.close(self._flow)
            self._flow = None

    def close(self, reason: str, **fields: object) -> None:
        """Hang up, with a log line that says why."""
        if self.closing:
            return
        self._node.log.warning("connection_closed", reason=reason, host=self.host, port=self.port, **fields)
        self.disconnected()
        self._node.outbox.part_with(self)

    @property
    def idle(self) -> bool:
        """Whether no request is being served or waiting."""
        return self._flow is None and self._next is None

    @property
    def parked(self) -> tuple[Call, Flow, int] | None:
        """The request that waits for something, its flow, and since when (ms); None if none does."""
        if self._flow is None or self._parked is None:
            return None
        call, since = self._parked
        return call, self._flow, since

    def _go_on(self) -> None:
        """Serve what has arrived until a request parks or the turn is over."""
        if self._clogged or self._muted:
            return
        frame = self._take()
        while frame is not None:
            try:
                self._serve(frame)
            except Exception as error:
                self._node.log.error("step_failed", node=self._node.node_id, exc_info=error)
                self.close("internal_error")
            if self.closing:
                return
            if self._flow is not None or self._muted:
                break
            frame = self._take()
            if frame is not None and (self.out_bytes >= ANSWER_BYTES_MAX or self._node.turns.is_over()):
                self._next = frame
                self._gave_way = True
                self._node.turns.later(self.turn)
                break
        if self._gone:
            if self._flow is None and not self._gave_way and not self._muted:
                self.disconnected()
        elif frame is not None and self._frames.held >= WAITING_BYTES_MAX:
            self._hold()
        elif self._held and frame is None and not self.closing:
            self._held = False
            self._node.outbox.resume(self.conn)

    def _take(self) -> memoryview | None:
        """The next request that has arrived as a whole."""
        frame, self._next = self._next, None
        if frame is not None:
            return frame
        try:
            return next(self._frames, None)
        except DecodeError as error:
            self.close("malformed_frame", error=str(error))
            return None

    def _hold(self) -> None:
        if not self._held:
            self._held = True
            self._node.outbox.hold(self.conn)

    def mute(self, milliseconds: int) -> None:
        """Hear nothing more of the client for so long; what it was answered leaves at once."""
        if self.closing:
            return
        self._muted = True
        self._node.timers.set(("muted", self.conn), self._node.now + milliseconds, self._unmute)
        self._hold()

    def _unmute(self) -> None:
        self._muted = False
        if not self.closing and self._flow is None and not self._gave_way:
            self._go_on()

    def guard(self, gate: Gate) -> None:
        """Let nothing pass that this does not admit."""
        self._gate = gate
        self.frame_bytes_max(gate.frame_bytes_max())

    def frame_bytes_max(self, size: int) -> None:
        """From now on a longer request ends the connection."""
        self._frames.limit = size

    def answer(self, handler: Handler, call: Call, response: Any) -> None:
        """Answer a request that was served elsewhere."""
        self._respond(handler, call, response)

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
            if len(frame) > LONG_BYTES:
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
                reading = node.turns.run_long(handler.read_long(frame, position), entries_max=handler.entries_max)
                self._run(reading, self._read, handler, call)
                return
            request, _ = handler.read(frame, position)
        except (DecodeError, Malformed, UnicodeDecodeError, IndexError) as error:
            self._malformed(handler, error)
            return
        self._call(
            handler,
            Call(
                handler.api_key,
                version,
                correlation_id,
                client_id,
                request,
                self.host,
                self.broker,
                False,
                self.peer,
                meter,
                conn=self.conn,
            ),
        )

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

    def _call(self, handler: Handler, call: Call) -> None:
        serving, self._postponed = begin(self._node, handler, call)
        self._run(serving, self._served, handler, call)

    def _run(self, coroutine: Any, finish: Finish, handler: Handler, call: Call) -> None:
        """One stage of a request: it is read, served, written; only long ones park while they are read or written."""
        try:
            wait = coroutine.send(None)
        except StopIteration as stop:
            finish(handler, call, stop.value, None)
        except Exception as error:
            finish(handler, call, None, error)
        else:
            if call.meter is not None:
                call.meter.pause()
                coroutine = Metered(coroutine, call.meter)
            self._waits_to_read = handler.api_key in WAIT_TO_READ and not isinstance(wait, Pause)
            flow = Flow(coroutine, lambda value, error: self._done(finish, handler, call, value, error))
            self._flow = flow
            self._parked = call, self._node.now
            self._node.kernel.park(flow, wait)

    def _done(self, finish: Finish, handler: Handler, call: Call, value: Any, error: BaseException | None) -> None:
        self._flow = None
        self._waits_to_read = False
        self._postponed = False
        if self.closing:
            return
        finish(handler, call, value, error)
        if not self.closing and self._flow is None:
            self._go_on()

    def _served(self, handler: Handler, call: Call, value: Any, error: BaseException | None) -> None:
        if error is not None:
            self._failed(handler, call, error)
            return
        if call.meter is not None or self._node.faults is not None:
            value = self._throttled(call, value)
        if call.is_long and value is not None:
            self._run(self._write_long(handler, value), self._written, handler, call)
        else:
            self._respond(handler, call, value)

    def _throttled(self, call: Call, response: Any) -> Any:
        """The answer of who has used too much, and whom a rule throttles; the connection is muted for that long."""
        if call.meter is not None and self._node.quotas is not None:
            response, milliseconds = self._node.quotas.served(call, response)
        else:
            milliseconds = getattr(response, "throttle_time_ms", 0)
        if milliseconds > 0 and not call.is_broker:
            self.mute(milliseconds)
        return response

    async def _write_long(self, handler: Handler, response: Any) -> tuple[bytearray, Splices]:
        out, splices = _head(handler), Splices()
        await self._node.turns.run_long(handler.write_long(response, out, splices))
        return out, splices

    def _written(self, handler: Handler, call: Call, value: Any, error: BaseException | None) -> None:
        if error is not None:
            self._failed(handler, call, error)
        else:
            self._send_response(call, *value)
            if call.meter is not None and self._node.quotas is not None:
                self._node.quotas.written(call)

    def _failed(self, handler: Handler, call: Call, error: BaseException) -> None:
        if isinstance(error, CloseConnection):
            self.close(str(error), api=call.api_key.name, version=call.version)
            return
        self._log_failure(call, error)
        self._answer_failure(handler, call)

    def _log_failure(self, call: Call, error: BaseException) -> None:
        fields: dict[str, object] = {"api": call.api_key.name, "version": call.version, "client_id": call.client_id}
        if isinstance(error, EncodeError):
            # A client can bring this about: what it calls things comes back inside a longer text.
            self._node.log.warning("answer_unwritable", **fields, error=str(error))
        else:
            self._node.log.error("request_failed", **fields, exc_info=error)

    def _answer_failure(self, handler: Handler, call: Call) -> None:
        """Say UNKNOWN_SERVER_ERROR where the API can say it, else hang up."""
        from odradek.node.transport.failures import error_response  # needed by failures alone

        try:
            response = error_response(call)
            if response is not None:
                self._write(handler, call, response)
                return
        except Exception as error:
            self._log_failure(call, error)
        self.close("internal_error", api=call.api_key.name, version=call.version)

    def _respond(self, handler: Handler, call: Call, response: Any) -> None:
        if response is None:
            return
        try:
            self._write(handler, call, response)
        except Exception as error:
            self._failed(handler, call, error)
        if call.meter is not None and self._node.quotas is not None:
            self._node.quotas.written(call)

    def _write(self, handler: Handler, call: Call, response: Any) -> None:
        out, splices = _head(handler), Splices()
        handler.write(response, out, splices)
        self._send_response(call, out, splices)

    def _send_response(self, call: Call, out: bytearray, splices: Splices) -> None:
        if splices:
            self._send_spliced(call.correlation_id, out, splices)
        else:
            _LENGTH_AND_CORRELATION.pack_into(out, 0, len(out) - 4, call.correlation_id)
            self._send((out,), len(out))

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
            self._node.outbox.gather(self)
        self.out_bytes += size
        self.out.extend(chunks)

    def _serve_unknown_api_versions(self, correlation_id: int) -> None:
        """KIP-511: an unknown version of ApiVersions is answered in the layout of version 0."""
        from odradek.node.transport.unknown_versions import unsupported_api_versions

        handler = self._node.router.handler(ApiKey.API_VERSIONS, 0, broker=False)
        assert handler is not None
        call = Call(ApiKey.API_VERSIONS, 0, correlation_id, None, None, self.host, self.broker)
        self._respond(handler, call, unsupported_api_versions(self._node))
