"""One blocking connection to a broker, for tools: a request, its answer, the next request."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Self, TypeVar, overload

from msgspec import Struct

from odradek.wire import registry
from odradek.wire.api import RequestOf
from odradek.wire.codecs import PLAIN, Codecs
from odradek.wire.messages.request_header import RequestHeader
from odradek.wire.messages.response_header import ResponseHeader

if TYPE_CHECKING:
    import ssl

__all__ = ["BlockingClient", "split_address"]

R = TypeVar("R", bound=Struct)

PORT = 9092
FRAME_BYTES_MAX = 256 << 20


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, `[HOST]:PORT` or `HOST`; raises ValueError if the port is not a number."""
    host, colon, port = address.strip().rpartition(":")
    if not colon:
        host, port = port, str(PORT)
    return host.strip("[]"), int(port)


class BlockingClient:
    """A connection; raises OSError if it cannot be made, or an answer does not come within `timeout_s`.

    With `tls` it is encrypted; the certificate must be for the host if the context says so.
    """

    def __init__(
        self,
        address: str,
        *,
        client_id: str,
        timeout_s: float = 10,
        codecs: Codecs = PLAIN,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._codecs = codecs
        self._client_id = client_id
        self._correlation_id = 0
        host, port = split_address(address)
        self._connection = socket.create_connection((host, port), timeout=timeout_s)
        if tls is not None:
            try:
                self._connection = tls.wrap_socket(self._connection, server_hostname=host)
            except BaseException:
                self._connection.close()
                raise
        self._stream = self._connection.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @overload
    def ask(self, request: RequestOf[R], version: int) -> R: ...
    @overload
    def ask(self, request: Struct, version: int) -> Struct: ...
    def ask(self, request: Struct, version: int) -> Struct:
        """The answer to a request; raises `DecodeError` if it cannot be read."""
        api_key = self._codecs.api_of(request)
        self._correlation_id += 1
        header = RequestHeader(int(api_key), version, self._correlation_id, self._client_id)
        message = registry.encode(header, self._codecs.request_header_version(api_key, version))
        message += self._codecs.encode(request, version)
        self._connection.sendall(len(message).to_bytes(4) + message)
        frame = memoryview(self._frame())
        read_header = registry.reader(ResponseHeader, self._codecs.response_header_version(api_key, version))
        _, position = read_header(frame, 0)
        response, _ = self._codecs.reader(registry.response_type(api_key), version)(frame, position)
        return response

    def _frame(self) -> bytes:
        length = int.from_bytes(self._read(4))
        if length > FRAME_BYTES_MAX:
            raise ConnectionError("what answers is no Kafka broker")
        return self._read(length)

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise ConnectionError("the broker closed the connection")
        return data

    def close(self) -> None:
        self._stream.close()
        self._connection.close()
