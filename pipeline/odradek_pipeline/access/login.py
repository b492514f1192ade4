"""Logging in to a broker, on the client's side: SASL over Kafka's own requests (KIP-43, KIP-84, KIP-255)."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import time
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Callable

from odradek.access.credential import ScramMechanism
from odradek.access.scram import salted_password
from odradek.net.client import BlockingClient
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from odradek.wire.messages.sasl_authenticate_response import SaslAuthenticateResponse
from odradek.wire.messages.sasl_handshake_request import SaslHandshakeRequest
from odradek_pipeline.access.config import Login

__all__ = ["LoginRefused", "ScramClient", "log_in"]

ITERATIONS_MAX = 1 << 20
"""A server that asks for more would keep us busy for its own reasons."""
TOKEN_S = 3600
_FIRST = re.compile(r"r=([^,]+),s=([^,]+),i=(\d{1,9})(?:,.*)?", re.DOTALL)

Step = Callable[[bytes], bytes]


class LoginRefused(ConnectionError):
    """The broker does not let us in; the text holds no secret."""


def log_in(client: BlockingClient, login: Login) -> float:
    """Log in; for how many seconds that holds, 0 for good (KIP-368). Raises `LoginRefused`."""
    said = client.ask(SaslHandshakeRequest(login.mechanism), 1)
    if said.error_code != ErrorCode.NONE:
        raise LoginRefused(f"it has no logins by {login.mechanism}, only by {', '.join(said.mechanisms) or 'nothing'}")
    step = _STEPS[login.mechanism]
    return step(client, login)


def _authenticate(client: BlockingClient, login: Login, message: bytes) -> SaslAuthenticateResponse:
    said = client.ask(SaslAuthenticateRequest(message), 1)
    if said.error_code != ErrorCode.NONE:
        why = f" ({said.error_message})" if said.error_message else ""
        raise LoginRefused(f"it refuses the login of {login.user} by {login.mechanism}{why}")
    return said


def _plain(client: BlockingClient, login: Login) -> float:
    said = _authenticate(client, login, f"\0{login.user}\0{login.password}".encode())
    return said.session_lifetime_ms / 1000


def _scram(client: BlockingClient, login: Login) -> float:
    exchange = ScramClient(login, secrets.token_urlsafe(24))
    challenge = _authenticate(client, login, exchange.first())
    last = _authenticate(client, login, exchange.final(challenge.auth_bytes))
    exchange.check(last.auth_bytes)
    return last.session_lifetime_ms / 1000


def _bearer(client: BlockingClient, login: Login) -> float:
    """An unsecured token, as Kafka's own clients make them for tests."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": login.user, "iat": now, "exp": now + TOKEN_S})
    token = ".".join(urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."
    said = _authenticate(client, login, f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    if said.auth_bytes:
        raise LoginRefused(f"it refuses the token of {login.user}")
    return said.session_lifetime_ms / 1000


_STEPS: dict[str, Callable[[BlockingClient, Login], float]] = {
    "PLAIN": _plain,
    "SCRAM-SHA-256": _scram,
    "SCRAM-SHA-512": _scram,
    "OAUTHBEARER": _bearer,
}


class ScramClient:
    """One login by SCRAM (RFC 5802) without channel binding; the nonce is handed in."""

    def __init__(self, login: Login, nonce: str) -> None:
        self._login = login
        self._mechanism = next(one for one in ScramMechanism if one.title == login.mechanism)
        self._nonce = nonce
        user = login.user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={user},r={nonce}" + (",tokenauth=true" if login.is_token else "")
        self._expected = b""

    def first(self) -> bytes:
        """The first message."""
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """The proof that we know the password. Raises `LoginRefused` where the challenge is none of ours."""
        text = challenge.decode("utf-8", "replace")
        match = _FIRST.fullmatch(text)
        if match is None or not match[1].startswith(self._nonce) or not 0 < int(match[3]) <= ITERATIONS_MAX:
            raise LoginRefused("it answers the first message of SCRAM with something else")
        algorithm = self._mechanism.algorithm
        salted = salted_password(self._mechanism, self._login.password, b64decode(match[2]), int(match[3]))
        client_key = hmac.digest(salted, b"Client Key", algorithm)
        without = f"c={b64encode(b'n,,').decode()},r={match[1]}"
        message = f"{self._bare},{text},{without}".encode()
        signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), message, algorithm)
        self._expected = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), message, algorithm)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without},p={b64encode(proof).decode()}".encode()

    def check(self, final: bytes) -> None:
        """Whether the server knows the password too; raises `LoginRefused`."""
        if final != b"v=" + b64encode(self._expected):
            raise LoginRefused("it does not know the password itself: it is another server than it says")
