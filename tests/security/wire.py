"""Raw requests to a broker, and what comes back: an answer, a bare token, or the end of the connection."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import socket
import time
from typing import Any

from msgspec import Struct, to_builtins

from odradek.wire import registry
from odradek.wire.messages.request_header import RequestHeader
from odradek.wire.messages.response_header import ResponseHeader
from odradek.wire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from odradek.wire.messages.sasl_handshake_request import SaslHandshakeRequest
from odradek.wire.registry import APIS, ApiKey

__all__ = ["Raw", "client_final", "client_first", "plain", "token"]

_API_OF = {f"odradek.wire.messages.{api.stem}_request": ApiKey(key) for key, api in APIS.items()}
TIMEOUT_S = 10
_REQUEST = re.compile(r"Request .*? needs")
"""Kafka tells its clients what it calls a request inside."""
_OF_EACH_BROKER = frozenset({"port", "producer_id", "topic_id", "cluster_id", "member_id", "token_id", "hmac"})
"""Values that no two brokers have in common, where there is one."""
CLIENT_NONCE = "fyko+d2lbbFgONRv9qkxdawL"


def plain(user: str, password: str, authorize_as: str = "") -> bytes:
    """What a client says in PLAIN (RFC 4616)."""
    return f"{authorize_as}\0{user}\0{password}".encode()


def token(**claims: Any) -> bytes:
    """What a client says in OAUTHBEARER, with an unsecured token of these claims (RFC 7628)."""

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"n,,\x01auth=Bearer {part({'alg': 'none'})}.{part(claims)}.\x01\x01".encode()


def client_first(user: str) -> bytes:
    """The first message of SCRAM (RFC 5802)."""
    return f"n,,n={user},r={CLIENT_NONCE}".encode()


def client_final(user: str, password: str, server_first: bytes, algorithm: str, *, extensions: str = "") -> bytes:
    """The second message of SCRAM; `extensions` are those that the first message ended with."""
    fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    key = hmac.digest(salted, b"Client Key", algorithm)
    without = f"c=biws,r={fields['r']}"
    said = f"n={user},r={CLIENT_NONCE}{extensions},{server_first.decode()},{without}"
    signature = hmac.digest(hashlib.new(algorithm, key).digest(), said.encode(), algorithm)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return f"{without},p={base64.b64encode(proof).decode()}".encode()


class Raw:
    """One connection; what happens on it is told line by line in `lines`."""

    settle_s = 0.0
    """How long that takes; the real broker needs a while."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self.lines: list[str] = []
        self.client_id = "c"
        self._connection = socket.create_connection(address, timeout=TIMEOUT_S)
        self._stream = self._connection.makefile("rb")
        self._correlation_id = 0

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._connection.close()

    def send(self, data: bytes) -> None:
        """Bytes as they are."""
        self._connection.sendall(data)

    def reopen(self) -> None:
        """Go on with another connection."""
        self._stream.close()
        self._connection.close()
        self._connection = socket.create_connection(self._address, timeout=TIMEOUT_S)
        self._stream = self._connection.makefile("rb")

    def frame(self, data: bytes) -> bytes | None:
        """A bare token, and the one that answers it; None where the connection ends."""
        self.send(len(data).to_bytes(4) + data)
        answer = self.read()
        self.lines.append("closed" if answer is None else "a token")
        return answer

    def ask(self, request: Struct, version: int, *, api_version: int | None = None) -> Any:
        """The answer to a request, or None where the connection ends without one."""
        api_key = _API_OF[type(request).__module__]
        self._correlation_id += 1
        told = version if api_version is None else api_version
        header = RequestHeader(int(api_key), told, self._correlation_id, self.client_id)
        message = registry.encode(header, registry.request_header_version(api_key, version))
        message += registry.encode(request, version)
        self.send(len(message).to_bytes(4) + message)
        frame = self.read()
        if frame is None:
            self.lines.append("closed")
            return None
        answered = 0 if api_version is not None and api_key is ApiKey.API_VERSIONS else version
        _, position = registry.reader(ResponseHeader, registry.response_header_version(api_key, answered))(
            memoryview(frame), 0
        )
        response = registry.reader(registry.response_type(api_key), answered)(memoryview(frame), position)[0]
        self.lines.append(f"{type(response).__name__} {_told(response)}")
        return response

    def handshake(self, mechanism: str, version: int = 1) -> Any:
        """SaslHandshake."""
        return self.ask(SaslHandshakeRequest(mechanism=mechanism), version)

    def authenticate(self, said: bytes, version: int = 2) -> Any:
        """SaslAuthenticate."""
        return self.ask(SaslAuthenticateRequest(auth_bytes=said), version)

    def scram(self, mechanism: str, user: str, password: str) -> Any:
        """A whole login; the last answer."""
        algorithm = mechanism.lower().removeprefix("scram-").replace("-", "")
        self.handshake(mechanism)
        first = self.authenticate(client_first(user))
        if first is None or first.error_code:
            return first
        return self.authenticate(client_final(user, password, bytes(first.auth_bytes), algorithm))

    def read(self) -> bytes | None:
        """The next frame; None at the end."""
        try:
            head = self._stream.read(4)
            return self._stream.read(int.from_bytes(head)) if len(head) == 4 else None
        except ConnectionError:
            return None

    def ends(self) -> None:
        """Note whether the connection ends by itself."""
        self._connection.settimeout(1)
        try:
            self.lines.append("open" if self._stream.read(1) else "closed")
        except TimeoutError:
            self.lines.append("open")
        except ConnectionError:
            self.lines.append("closed")
        self._connection.settimeout(TIMEOUT_S)

    def settle(self) -> None:
        """Wait until every part of the broker has heard of what was changed."""
        time.sleep(self.settle_s)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)


def _told(response: Any) -> str:
    """What matters of an answer; what the server has rolled dice for is left out."""
    fields = to_builtins(response, builtin_types=(bytes, memoryview))
    shown = {}
    for name, value in fields.items():
        if isinstance(value, memoryview):
            value = bytes(value)
        if isinstance(value, bytes):
            text = value.decode(errors="replace")
            value = f"{text[:2]}…" if text[:2] in ("r=", "v=") else text
        if name in ("api_keys", "supported_features", "finalized_features", "finalized_features_epoch"):
            value = "…" if value else value
        if name == "mechanisms":
            value = sorted(value)  # Kafka's are in no order
        if name == "session_lifetime_ms" and value % 60_000:  # what is left of a token's hour, or what is configured
            value = "…"
        if name not in ("throttle_time_ms", "zk_migration_ready", "unknown_tagged_fields"):
            shown[name] = _masked(name, _bare(value))
    return _REQUEST.sub("Request … needs", json.dumps(_timeless(shown), ensure_ascii=False, sort_keys=True))


def _timeless(value: Any) -> Any:
    """With the times of tokens from when they were issued on, or from now on, to some seconds."""
    if isinstance(value, list):
        return [_timeless(each) for each in value]
    if not isinstance(value, dict):
        return value
    issued = value.get("issue_timestamp_ms") or value.get("issue_timestamp") or -1
    whence, since = ("issued", issued) if issued > 0 else ("now", time.time() * 1000)
    return {
        name: f"{whence} + {round((each - since) / 20_000) * 20} s"
        if name.startswith(("issue_timestamp", "expiry_timestamp", "max_timestamp")) and each > 0
        else _timeless(each)
        for name, each in value.items()
    }


def _bare(value: Any) -> Any:
    """Without the fields that nobody knows."""
    if isinstance(value, dict):
        return {name: _masked(name, _bare(each)) for name, each in value.items() if name != "unknown_tagged_fields"}
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if not isinstance(value, list):
        return value
    bare = [_bare(each) for each in value]
    if all(isinstance(each, dict) and "mechanism" in each for each in bare):
        bare.sort(key=lambda each: each["mechanism"])  # Kafka's are in no order
    return bare


def _masked(name: str, value: Any) -> Any:
    return "…" if name in _OF_EACH_BROKER and value not in (None, "", -1, bytes(16).hex()) else value
