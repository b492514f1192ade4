"""One connection to a broker: a request, its answer, the next request. For tools, which can wait."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from odradek.wire import registry
from odradek.wire.codecs import PLAIN, Codecs
from odradek.wire.messages.request_header import RequestHeader
from odradek.wire.messages.response_header import ResponseHeader
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    import ssl

__all__ = ["BlockingClient", "split_address"]

PORT = 9092
FRAME_BYTES_MAX = 256 << 20


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, `[HOST]:PORT` or `HOST`; raises ValueError where the port is no number."""
    host, colon, port = address.strip().rpartition(":")
    if not colon:
        host, port = port, str(PORT)
    return host.strip("[]"), int(port)


class BlockingClient:
    """A connection; raises OSError where there is none, or where no answer comes within `timeout_s`.

    With `tls` it is encrypted, and the certificate has to name the host if the context says so.
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

    def ask(self, request: Struct, version: int) -> Any:
        """The answer to a request; raises `DecodeError` where it makes no sense."""
        api_key = self._codecs.api_of(request)
        self._correlation_id += 1
        header = RequestHeader(int(api_key), version, self._correlation_id, self._client_id)
        message = registry.encode(header, self._codecs.request_header_version(api_key, version))
        message += self._codecs.encode(request, version)
        self._connection.sendall(len(message).to_bytes(4) + message)
        return self._decode(memoryview(self._frame()), api_key, version)

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

    def _decode(self, frame: memoryview, api_key: ApiKey, version: int) -> object:
        read_header = registry.reader(ResponseHeader, self._codecs.response_header_version(api_key, version))
        _, position = read_header(frame, 0)
        return self._codecs.reader(registry.response_type(api_key), version)(frame, position)[0]

    def close(self) -> None:
        """Hang up."""
        self._stream.close()
        self._connection.close()
