"""The connection of a client: frames in, responses out, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from struct import Struct as Layout
from typing import TYPE_CHECKING, TypeAlias, cast

from msgspec import Struct

from odradek.access.principal import SOMEBODY, Peer
from odradek.core.turns import TooManyEntries
from odradek.host.bodies import kept_response
from odradek.host.call import UNREAD, Call
from odradek.host.exchange import WAIT_TO_READ, Arrived, Exchange, begin, tell_response
from odradek.host.router import Handler
from odradek.wire.errors import DecodeError
from odradek.wire.frame import FrameBuffer
from odradek.wire.primitives import Malformed, Splices, unknown_tags
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.events import Chunk
    from odradek.host.exchange import Serving
    from odradek.wire.messages.fetch_request import FetchRequest

__all__ = ["Connection"]

_HEADER = Layout(">hhih")
_LENGTH_AND_CORRELATION = Layout(">ii")
_LENGTH = Layout(">i")
FINAL_EPOCH = -1
"""Session epoch of a Fetch that ends its session."""
LONG_BYTES = 32 * 1024
"""Larger requests are decoded in parts, and their entries are counted."""
_Written: TypeAlias = tuple[Struct, bytearray, Splices]
"""A long response with its bytes."""


class Connection(Exchange):
    """The state of an accepted connection over which bytes come."""

    __slots__ = ("_admits", "_client_id", "_client_id_bytes", "_frames")
    writes_in_parts = True

    def __init__(self, node: Serving, conn: int, *, host: str, port: int, broker: bool, peer: Peer = SOMEBODY) -> None:
        self._frames = FrameBuffer(node.settings.config.socket_request_max_bytes, self._gather)
        super().__init__(node, conn, self._frames, host=host, port=port, broker=broker, peer=peer)
        self._admits: Callable[[Connection, memoryview], bool] | None = None
        self._client_id_bytes = b""
        self._client_id: str | None = ""

    def received(self, data: bytes | memoryview) -> None:
        """Take bytes from the client."""
        if self.closing:
            return
        self.last_active = self._node.clock.now
        if self._flow is None and not self._gave_way and not self._clogged and not self._muted:
            assert self._next is None, "a connection that waits for nothing has gone on with what it had"
            self._next = self._frames.whole(data)
            self._go_on()
        else:
            self._frames.feed(data)
            if self._waits_to_read:
                self._look_behind()
            self._hold_if_full()

    def gathered(self, whole: memoryview) -> None:
        """Take a long request as a whole; its beginning was received before."""
        if not self.closing:
            self._frames.gathered(whole)
            self.received(b"")

    def _gather(self, head: Sequence[bytes | memoryview], size: int) -> None:
        self._node.outbox.gather(self.conn, head, size)

    @property
    def waiting_bytes(self) -> int:
        return self._frames.held

    def _forget(self) -> None:
        self._frames = self._source = FrameBuffer(0)

    def guard(self, admits: Callable[[Connection, memoryview], bool], frame_bytes_max: int) -> None:
        """Let `admits` check each request, and answer those that it refuses; longer frames end the connection."""
        self._admits = admits
        self.frame_bytes_max(frame_bytes_max)

    def frame_bytes_max(self, size: int) -> None:
        """Set the longest permitted frame (bytes); a longer one ends the connection."""
        self._frames.limit = size

    def send(self, data: bytes) -> None:
        self._send((data,), len(data))

    def _look_behind(self) -> None:
        """Answers leave in the order of their requests, so a client would hear of the next only after that wait.

        The Java consumer closes its session behind a Fetch that waits for half a second.
        """
        if self._next is not None or not self._node.settings.config.odradek_fetch_yields:
            return  # what is next has been looked at when it came
        try:
            self._next = self._source.take()
        except DecodeError:
            return  # it ends the connection when it is next
        if isinstance(self._next, memoryview) and self._parked is not None and self._waits_not(self._next):
            call, _ = self._parked
            call.is_followed = True
            if call.parking is not None:
                call.parking.look_again()

    def _waits_not(self, frame: memoryview) -> bool:
        """Whether a request is answered without a wait for records: a Fetch is, if it ends its session (KIP-227).

        Clients that always have another Fetch on its way would else get empty answers, one after the other.
        """
        try:
            api_key, version, _, client_id_length = _HEADER.unpack_from(frame)
            if api_key not in WAIT_TO_READ:
                return True
            handler = self._node.router.known.get((api_key, version))
            if handler is None or api_key != ApiKey.FETCH or len(frame) > LONG_BYTES:
                return False
            position = _HEADER.size + max(0, client_id_length)
            if handler.flexible_request:
                if frame[position]:
                    return False  # tagged fields, which no client sends
                position += 1
            request, _ = handler.read(frame, position)
        except (struct.error, DecodeError, Malformed, UnicodeDecodeError, IndexError):
            return True  # it ends the connection
        fetch = cast("FetchRequest", request)
        return fetch.session_id != 0 and fetch.session_epoch == FINAL_EPOCH

    def _serve(self, frame: Arrived) -> None:
        assert isinstance(frame, memoryview), "bytes arrive here"
        if self._admits is not None and not self._admits(self, frame):
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
                if frame[10:position] != self._client_id_bytes:
                    client_id_bytes = bytes(frame[10:position])
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
                UNREAD,
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

    def _read(
        self, handler: Handler, call: Call, value: tuple[Struct, int] | None, error: BaseException | None
    ) -> None:
        """A long request has been decoded, or could not be."""
        if value is not None:
            call.request, _ = value
            self._call(handler, call)
        elif isinstance(error, DecodeError | TooManyEntries):
            self._malformed(handler, error)
        elif error is not None:
            self._failed(handler, call, error)

    def _write_in_parts(self, handler: Handler, call: Call, response: Struct) -> None:
        self._run(self._write_long(handler, response), self._written, handler, call)

    async def _write_long(self, handler: Handler, response: Struct) -> _Written:
        out, splices = bytearray(handler.response_start), Splices()
        await self._node.turns.run_long(handler.write_long(response, out, splices))
        return response, out, splices

    def _written(self, handler: Handler, call: Call, value: _Written | None, error: BaseException | None) -> None:
        if error is not None:
            self._failed(handler, call, error)
        elif value is not None:
            self._send_response(handler, call, *value)
            if call.meter is not None and self._node.quotas is not None:
                self._node.quotas.written(call)

    def _write(self, handler: Handler, call: Call, response: Struct) -> None:
        out, splices = bytearray(handler.response_start), Splices()
        handler.write(response, out, splices)
        self._send_response(handler, call, response, out, splices)

    def _send_response(self, handler: Handler, call: Call, response: Struct, out: bytearray, splices: Splices) -> None:
        if self._gone:
            self.disconnected()
        elif splices:
            self._send_spliced(call.correlation_id, out, splices)
        else:
            size = len(out)
            _LENGTH_AND_CORRELATION.pack_into(out, 0, size - 4, call.correlation_id)
            if not self.out:
                self._node.outbox.dirty.append(self)
            self.out_bytes += size
            self.out.append(out)
        if call.told is not None and not self.closing:
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
        call = Call(ApiKey.API_VERSIONS, 0, correlation_id, None, UNREAD, self.host, self.broker)
        self._served(handler, call, unsupported_api_versions(self._node.router), None)
