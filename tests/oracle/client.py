"""A client of raw requests over one plain socket: one request at a time, answers in order."""

from __future__ import annotations

import select
import socket
import struct
from typing import Any

from msgspec import Struct

from odradek.wire import registry
from odradek.wire.messages.request_header import RequestHeader
from odradek.wire.messages.response_header import ResponseHeader
from odradek.wire.registry import ApiKey

__all__ = ["Client", "ConnectionClosed", "NoAnswer"]

ANSWER_TIMEOUT_S = 10.0


class ConnectionClosed(Exception):
    """The broker ended the connection in place of an answer."""


class NoAnswer(Exception):
    """The broker has not answered in time."""


def known_version(api: ApiKey, version: int) -> int:
    """The version to write a request in: one that does not exist is written like the last that does."""
    return min(version, registry.valid_versions(registry.request_type(api))[1])


class Client:
    """One connection. Requests may be sent ahead; `receive` gives their answers in the order sent."""

    def __init__(self, address: tuple[str, int]) -> None:
        try:
            self.socket = socket.create_connection(address, timeout=ANSWER_TIMEOUT_S)
        except OSError:
            raise ConnectionClosed from None
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0
        self.expected: list[tuple[int, ApiKey, int]] = []

    def close(self) -> None:
        self.socket.close()

    def send(self, api: ApiKey, version: int, request: Struct, *, client_id: str | None = "oracle") -> None:
        """Send a request; its answer is owed from now on."""
        self.correlation_id += 1
        header = RequestHeader(
            request_api_key=api,
            request_api_version=version,
            correlation_id=self.correlation_id,
            client_id=client_id,
        )
        known = known_version(api, version)
        frame = registry.encode(header, registry.request_header_version(api, known)) + registry.encode(request, known)
        self.expected.append((self.correlation_id, api, version))
        try:
            self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        except OSError:
            raise ConnectionClosed from None

    def receive(self, *, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """The answer to the oldest request that has none yet."""
        correlation_id, api, version = self.expected.pop(0)
        if not select.select([self.socket], [], [], timeout_s)[0]:
            raise NoAnswer
        (length,) = struct.unpack(">i", self.read(4))
        frame = memoryview(self.read(length))
        version = known_version(api, version)
        read_header = registry.reader(ResponseHeader, registry.response_header_version(api, version))
        header, position = read_header(frame, 0)
        assert correlation_id == header.correlation_id, "an answer to another request"
        if api is ApiKey.API_VERSIONS and bytes(frame[position : position + 2]) == b"\x00\x23":
            version = 0  # KIP-511: UNSUPPORTED_VERSION comes in the layout that every client knows
        return registry.decode(registry.response_type(api), frame[position:], version)

    def forget(self) -> None:
        """No answer is owed to the request just sent (Produce with acks=0)."""
        self.expected.pop()

    def read(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            try:
                chunk = self.socket.recv(length - len(data))
            except OSError:
                raise ConnectionClosed from None
            if not chunk:
                raise ConnectionClosed
            data += chunk
        return bytes(data)
