"""The interface of SASL mechanisms: an exchange reads the client's messages until it knows the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from msgspec import Struct

from odradek.access.credential import ScramCredential
from odradek.access.tokens import TokenAccount

__all__ = [
    "NOT_SERVED",
    "Accounts",
    "Admitted",
    "Challenge",
    "Exchange",
    "LoginFailed",
    "LoginsRefused",
    "Outcome",
    "SaslListener",
]

NOT_SERVED: Mapping[str, str] = {
    "GSSAPI": "Kerberos (GSSAPI) is not served: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
}
"""Mechanisms of Kafka that Odradek does not have, and the message for a configuration that names one."""


class LoginFailed(Exception):
    """The login failed. The text is the answer to the client; None leaves it at the name of the mechanism."""

    def __init__(self, told: str | None = None) -> None:
        super().__init__(told or "invalid credentials")
        self.told = told


class Challenge(Struct, frozen=True):
    """The exchange continues: this is the next message to the client."""

    said: bytes


class Admitted(Struct, frozen=True):
    """The exchange is complete: the client is this user."""

    said: bytes
    name: str
    expires_at_ms: int | None = None
    """Until when the token of the client is valid, in milliseconds since 1970."""
    by_token: bool = False
    """Whether the client logged in with a delegation token."""


Outcome: TypeAlias = Challenge | Admitted


class Exchange(Protocol):
    """One login by one mechanism.

    A Protocol: each mechanism has its own class.
    """

    def respond(self, said: bytes) -> Outcome:
        """Read the next message of the client. Raises `LoginFailed`."""


class Accounts(Struct, frozen=True):
    """The users of one listener."""

    password: Callable[[str], str | None]
    """The password of a user, for PLAIN."""
    scram: Callable[[str, int], ScramCredential | None]
    """The stored SCRAM credential of a user, by name and mechanism number."""
    token: Callable[[str, int], TokenAccount | None]
    """The SCRAM credential of a delegation token, by its id."""
    bearer: Callable[[str, int], tuple[str, int] | None] | None = None
    """Checks a signed token at a time (ms): its user and its end (ms). None: no keys are configured."""


class LoginsRefused(ValueError):
    """Logins that cannot be configured this way; the text is one clear sentence without secrets."""


class SaslListener(Struct, frozen=True):
    """The logins of one listener."""

    mechanisms: tuple[str, ...]
    accounts: Accounts
    reauth_ms: Mapping[str, int]
    """The lifetime of a login in ms, by mechanism; 0 means without end."""
    receive_bytes_max: int
    failed_delay_ms: int
