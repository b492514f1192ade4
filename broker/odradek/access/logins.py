"""The mechanisms: PLAIN (RFC 4616), SCRAM (RFC 5802), OAUTHBEARER (RFC 7628) with unsecured and with signed tokens.

A client learns from an error no more than Kafka tells it; a wrong name and a wrong password get the same text.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping

from odradek.access.claims import json_object, rounded_ms
from odradek.access.credential import ScramCredential, ScramMechanism
from odradek.access.mechanisms import Accounts, Admitted, Challenge, Exchange, LoginFailed, Outcome
from odradek.access.scram import ScramError, ScramExchange
from odradek.access.tokens import TokenAccount

__all__ = ["MECHANISMS", "OAUTHBEARER", "begin_login"]

PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"
OTHER_NAME = "Authentication failed: Client requested an authorization id that is different from username"


class PlainLogin:
    """PLAIN: name and password in one message."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    def respond(self, said: bytes) -> Outcome:
        parts = said.split(b"\0")
        if len(parts) != 3:
            raise LoginFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorize_as, user, password = (part.decode(errors="replace") for part in parts)
        if not user:
            raise LoginFailed("Authentication failed: username not specified")
        if not password:
            raise LoginFailed("Authentication failed: password not specified")
        expected = self._accounts.password(user)
        if not hmac.compare_digest((expected or "").encode(), password.encode()) or expected is None:
            raise LoginFailed("Authentication failed: Invalid username or password")
        if authorize_as not in ("", user):
            raise LoginFailed(OTHER_NAME)
        return Admitted(b"", user)


class ScramLogin:
    """SCRAM: two messages of the client; the second proves that it knows the password."""

    def __init__(self, mechanism: ScramMechanism, accounts: Accounts, nonce: str) -> None:
        self._mechanism = mechanism
        self._accounts = accounts
        self._exchange = ScramExchange(mechanism, nonce)
        self._user: str | None = None
        self._credential: ScramCredential | None = None
        self._token: TokenAccount | None = None

    def respond(self, said: bytes) -> Outcome:
        try:
            if self._user is None or self._credential is None:
                return self._first(said)
            proof = self._exchange.final(said, self._credential)
            if self._token is not None:
                return Admitted(proof, self._token.owner, self._token.expires_ms, by_token=True)
            return Admitted(proof, self._user)
        except ScramError:
            raise LoginFailed from None

    def _first(self, said: bytes) -> Challenge:
        self._user, authorize_as, by_token = self._exchange.first(said)
        if by_token:
            self._token = self._accounts.token(self._user, self._mechanism)
            self._credential = None if self._token is None else self._token.credential
        else:
            self._credential = self._accounts.scram(self._user, self._mechanism)
        if self._credential is None:
            raise LoginFailed
        if authorize_as not in ("", self._user):
            raise LoginFailed(OTHER_NAME)
        return Challenge(self._exchange.challenge(self._credential))


_BEARER = re.compile(r"n,(?:a=([^,]*))?,\x01(.*)\x01", re.DOTALL)
_AUTH = re.compile(r"[Bb]earer +([-_.A-Za-z0-9~+/]+=*)")
INVALID_TOKEN = '{"status":"invalid_token"}'


class BearerLogin:
    """OAUTHBEARER: one token. Any client can make an unsigned token, so these are for tests only."""

    def __init__(self, now_ms: int, valid: Callable[[str, int], tuple[str, int] | None] | None = None) -> None:
        self._now_ms = now_ms
        self._signed = valid
        self._refused = False

    def respond(self, said: bytes) -> Outcome:
        """Read the token. After a refusal the client's next message ends the exchange (RFC 7628, 3.2.3)."""
        if self._refused:
            raise LoginFailed(INVALID_TOKEN)
        match = _BEARER.fullmatch(said.decode(errors="replace"))
        pairs = dict(pair.partition("=")[::2] for pair in match[2].split("\x01") if pair) if match else {}
        auth = _AUTH.fullmatch(pairs.get("auth", ""))
        if match is None or auth is None:
            raise LoginFailed
        valid = self._valid(_claims(auth[1])) if self._signed is None else self._signed(auth[1], self._now_ms)
        if valid is None:
            self._refused = True
            return Challenge(INVALID_TOKEN.encode())
        name, expires_ms = valid
        authorize_as = (match[1] or "").replace("=2C", ",").replace("=3D", "=")
        if authorize_as not in ("", name):
            raise LoginFailed(
                f"Authentication failed: Client requested an authorization id ({authorize_as})"
                f" that is different from the token's principal name ({name})"
            )
        return Admitted(b"", name, expires_ms)

    def _valid(self, claims: Mapping[str, object]) -> tuple[str, int] | None:
        """The principal of a token, and until when it is valid (ms); None if it is not valid now."""
        name, expires = claims.get("sub"), rounded_ms(claims.get("exp"))
        if not isinstance(name, str) or not name.strip() or expires is None or expires <= self._now_ms:
            return None
        if "iat" in claims:
            issued_ms = rounded_ms(claims["iat"])
            if issued_ms is None or issued_ms > self._now_ms or issued_ms >= expires:
                return None
        return name, expires


def _claims(token: str) -> Mapping[str, object]:
    """The claims of an unsecured token (RFC 7519, section 6); None if the text is not one."""
    parts = token.split(".")
    if len(parts) != 3 or parts[2]:
        return {}
    header, claims = (_json(part) for part in parts[:2])
    return claims if header.get("alg") == "none" else {}


def _json(part: str) -> dict[str, object]:
    try:
        text = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        return {}
    return json_object(text) or {}


MECHANISMS: Mapping[str, Callable[[Accounts, str, int], Exchange]] = {
    PLAIN: lambda accounts, nonce, now_ms: PlainLogin(accounts),
    ScramMechanism.SHA_256.title: lambda accounts, nonce, now_ms: ScramLogin(ScramMechanism.SHA_256, accounts, nonce),
    ScramMechanism.SHA_512.title: lambda accounts, nonce, now_ms: ScramLogin(ScramMechanism.SHA_512, accounts, nonce),
    OAUTHBEARER: lambda accounts, nonce, now_ms: BearerLogin(now_ms, accounts.bearer),
}


def begin_login(mechanism: str, accounts: Accounts, *, nonce: str, now_ms: int) -> Exchange:
    """A login by this mechanism of `MECHANISMS`. `nonce` must be unpredictable."""
    return MECHANISMS[mechanism](accounts, nonce, now_ms)
