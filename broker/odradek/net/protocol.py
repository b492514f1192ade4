"""The connection of one client: received bytes become events, and so does a full send buffer.

Long requests are received where they stay: the socket writes into one buffer, and the node gets a view of it. Without
that the event loop makes a chunk of bytes of each read, and the node joins them: two copies of every byte.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from mmap import mmap
from typing import TYPE_CHECKING, Protocol, cast

from odradek.host.events import Clogged, Connected, Disconnected, Drained, Gathered, Received
from odradek.wire.frame import GATHERED_BYTES_MIN

if TYPE_CHECKING:
    from ssl import SSLObject

    from odradek.host.events import Event
    from odradek.net.bulk_pages import BulkPages

__all__ = ["Bulk", "ClientProtocol", "Hearer"]

MAPPED = "::ffff:"

SEND_BUFFER_BYTES_MAX = 4 * 1024 * 1024
"""Above this size of the send buffer the client is clogged: it is served again when half has been sent."""


_FIRST_BYTES = 256 * 1024
_NEXT_BYTES_MAX = 4 * 1024 * 1024
"""The most that a connection reads at once before it knows how long the next request is."""


class Hearer(Protocol):
    """The driver of a node, as far as its connections use it.

    A Protocol: the driver imports the connections.
    """

    def step(self, event: Event) -> None: ...
    def accept(self, protocol: ClientProtocol) -> int: ...
    def forget(self, conn: int) -> None: ...


class ClientProtocol(asyncio.Protocol):
    """One accepted connection."""

    def __init__(self, driver: Hearer, listener: str = "", pages: BulkPages | None = None) -> None:
        """Without `pages` long requests come like others, in chunks."""
        self._driver = driver
        self._listener = listener
        self._pages = pages
        self._bulk: Bulk | None = None
        self._reads_bulk = False
        self.conn = 0
        self.hear: Callable[[Event], None] = driver.step
        """The receiver of the client's bytes; the driver replaces it while its node is paused."""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=SEND_BUFFER_BYTES_MAX)
        self.conn = self._driver.accept(self)
        peer = transport.get_extra_info("peername") or ("", 0)
        secured = transport.get_extra_info("ssl_object")
        certified = None if secured is None else _certified(secured)
        self._driver.step(
            Connected(
                self.conn,
                host=_as_itself(str(peer[0])),
                port=int(peer[1]),
                listener=self._listener,
                certified=certified,
            )
        )

    def data_received(self, data: bytes) -> None:
        self.hear(Received(self.conn, data))

    def gather(self, head: Sequence[bytes | memoryview], size: int) -> None:
        """The node waits for the whole of a long request, and has all that has come."""
        if self._pages is None:
            return
        if self._bulk is None:
            self._bulk = Bulk(self, self._pages)
        if self._bulk.gather(head, size) and not self._reads_bulk:
            self._reads_bulk = True
            self.transport.set_protocol(self._bulk)

    def read_short(self) -> None:
        """Requests are short from now on."""
        self._reads_bulk = False
        self.transport.set_protocol(self)

    def pause_writing(self) -> None:
        self._driver.step(Clogged(self.conn))

    def resume_writing(self) -> None:
        self._driver.step(Drained(self.conn))

    def connection_lost(self, exc: BaseException | None) -> None:
        self._driver.forget(self.conn)
        self.hear(Disconnected(self.conn))


def _lies_in(head: Sequence[bytes | memoryview], buffer: mmap) -> bool:
    [first, *others] = head
    return not others and isinstance(first, memoryview) and first.obj is buffer


class Bulk(asyncio.BufferedProtocol):
    """A connection while its client sends long requests.

    It belongs to a `ClientProtocol`, which takes over again when a request is not long.
    """

    def __init__(self, client: ClientProtocol, pages: BulkPages) -> None:
        self._client = client
        self._pages = pages
        self._size = _FIRST_BYTES
        """How long the last request was, and probably the next."""
        self._buffer: mmap | None = None
        """It has the beginning of a request; None if nothing of the next has come."""
        self._start = 0
        """Where the request begins in it."""
        self._filled = 0
        self._end = 0
        """Where the request will end; 0 if that is not known."""

    def gather(self, head: Sequence[bytes | memoryview], size: int) -> bool:
        """Collect a request of this size, of which the head has come; False if there is no memory for it."""
        come = sum(map(len, head))
        start = self._filled - come
        self._size = min(size, _NEXT_BYTES_MAX)
        if self._buffer is None or not _lies_in(head, self._buffer) or start + size > len(self._buffer):
            try:
                buffer = self._pages.take(size)
            except OSError:
                return False
            buffer[:come] = b"".join(head)
            self._let_go()
            self._buffer, self._filled, start = buffer, come, 0
        self._start, self._end = start, start + size
        return True

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        if self._end:
            assert self._buffer is not None, "it has the beginning of the request"
            return memoryview(self._buffer)[self._filled : self._end]
        return memoryview(self._pages.next(self._size))[: self._size]

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes are there."""
        client = self._client
        if not self._end:
            self._begin(nbytes)
            return
        self._filled += nbytes
        if self._filled < self._end:
            client.hear(Received(client.conn, b""))
            return
        assert self._buffer is not None, "it has the request"
        whole = memoryview(self._buffer)[self._start : self._end]
        self._let_go()
        client.hear(Gathered(client.conn, whole))

    def _begin(self, nbytes: int) -> None:
        """The first bytes of the next request have come."""
        client, pages = self._client, self._pages
        self._buffer = pages.next(nbytes)
        pages.claim()
        self._filled = nbytes
        client.hear(Received(client.conn, memoryview(self._buffer)[:nbytes]))
        if not self._end:
            self._let_go()
            if nbytes < GATHERED_BYTES_MIN:
                client.read_short()

    def _let_go(self) -> None:
        if self._buffer is not None:
            self._pages.keep(self._buffer)
        self._buffer, self._start, self._filled, self._end = None, 0, 0, 0

    def pause_writing(self) -> None:
        self._client.pause_writing()

    def resume_writing(self) -> None:
        self._client.resume_writing()

    def eof_received(self) -> bool | None:
        return self._client.eof_received()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._client.connection_lost(exc)


def _as_itself(host: str) -> str:
    """The IPv4 address, also if an IPv6 socket accepted the connection: permissions name it in this form."""
    return host.removeprefix(MAPPED) if host.startswith(MAPPED) and "." in host else host


def _certified(secured: SSLObject) -> str | None:
    from odradek.net.tls import name_of_client  # most clusters have no TLS listeners

    return name_of_client(secured)
