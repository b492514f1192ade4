"""A mapped port, as an engine for containers makes one: what comes to it goes on to another port.

Python's standard library is enough for this module, so that a bare machine can run it.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

__all__ = ["Forwarder"]

CHUNK_BYTES = 1 << 16


class Forwarder:
    """Listens on `port`, or a free one, and counts its connections."""

    def __init__(self, target: int, *, port: int = 0, host: str = "127.0.0.1") -> None:
        self._target = ("127.0.0.1", target)
        self._bound = socket.create_server((host, port))
        self._ends: list[socket.socket] = []
        self.port: int = self._bound.getsockname()[1]
        self.connections = 0
        _beside(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the port and every connection."""
        # A thread that waits in accept() is not woken by close() alone.
        for each in (self._bound, *self._ends):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._bound.accept()
                self.connections += 1
                try:
                    server = socket.create_connection(self._target)
                except ConnectionRefusedError:
                    client.close()
                    continue
                self._ends += [client, server]
                _beside(_pump, client, server)
                _beside(_pump, server, client)


def _beside(run: Callable[..., None], *operands: socket.socket) -> None:
    threading.Thread(target=run, args=operands, daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(CHUNK_BYTES):
            target.sendall(chunk)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
