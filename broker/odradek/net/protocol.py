"""Bytes of one client: `data_received` becomes an event, a full send buffer another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from odradek.host.events import Clogged, Connected, Disconnected, Drained, Received

if TYPE_CHECKING:
    from ssl import SSLObject

    from odradek.host.events import Event

__all__ = ["ClientProtocol"]

MAPPED = "::ffff:"

SEND_BUFFER_BYTES_MAX = 4 * 1024 * 1024
"""Beyond this the client counts as clogged: nothing more is served to it until half has gone out."""


class Hearer(Protocol):
    """The driver of a node, as its connections need to know it."""

    def step(self, event: Event) -> None: ...
    def accept(self, protocol: ClientProtocol) -> int: ...
    def forget(self, conn: int) -> None: ...


class ClientProtocol(asyncio.Protocol):
    """One accepted connection."""

    def __init__(self, driver: Hearer, listener: str = "") -> None:
        self._driver = driver
        self._listener = listener
        self._conn = 0
        self.hear: Callable[[Event], None] = driver.step
        """What takes the client's words: the driver puts something else here while its node is paused."""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=SEND_BUFFER_BYTES_MAX)
        self._conn = self._driver.accept(self)
        peer = transport.get_extra_info("peername") or ("", 0)
        secured = transport.get_extra_info("ssl_object")
        certified = None if secured is None else _certified(secured)
        self._driver.step(
            Connected(
                self._conn,
                host=_as_itself(str(peer[0])),
                port=int(peer[1]),
                listener=self._listener,
                certified=certified,
            )
        )

    def data_received(self, data: bytes) -> None:
        self.hear(Received(self._conn, data))

    def pause_writing(self) -> None:
        self._driver.step(Clogged(self._conn))

    def resume_writing(self) -> None:
        self._driver.step(Drained(self._conn))

    def connection_lost(self, exc: BaseException | None) -> None:
        self._driver.forget(self._conn)
        self.hear(Disconnected(self._conn))


def _as_itself(host: str) -> str:
    """An address of IPv4, also where a socket of IPv6 has taken the connection: what denies it has to find it."""
    return host.removeprefix(MAPPED) if host.startswith(MAPPED) and "." in host else host


def _certified(secured: SSLObject) -> str | None:
    from odradek.net.tls import name_of_client  # most clusters have no such connections

    return name_of_client(secured)
