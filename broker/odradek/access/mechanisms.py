"""What SASL mechanisms have in common: an exchange takes what a client says, until it knows who that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from msgspec import Struct

from odradek.access.credential import ScramCredential
from odradek.access.tokens import TokenAccount

__all__ = ["NOT_SERVED", "Accounts", "Admitted", "Challenge", "Exchange", "LoginFailed", "Outcome"]

NOT_SERVED: Mapping[str, str] = {
    "GSSAPI": "Kerberos (GSSAPI) is not served: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
}
"""Mechanisms of Kafka that are not here, and what is said to who configures them."""


class LoginFailed(Exception):
    """The client is not who it says; the text is what it is told, None leaves it at the mechanism's name."""

    def __init__(self, told: str | None = None) -> None:
        super().__init__(told or "invalid credentials")
        self.told = told


class Challenge(Struct, frozen=True):
    """The client has to say more."""

    said: bytes


class Admitted(Struct, frozen=True):
    """The client is known."""

    said: bytes
    name: str
    expires_at_ms: int | None = None
    """When what it has shown is no longer valid, in milliseconds since 1970."""
    by_token: bool = False
    """Whether that was a delegation token."""


Outcome: TypeAlias = Challenge | Admitted


class Exchange(Protocol):
    """One login by one mechanism."""

    def respond(self, said: bytes) -> Outcome:
        """Take what the client says next. Raises `LoginFailed`."""


class Accounts(Struct, frozen=True):
    """Who there is, as one listener knows them."""

    password: Callable[[str], str | None]
    """The password of a user, for PLAIN."""
    scram: Callable[[str, int], ScramCredential | None]
    """What is kept of a user's password, by the user and the number of the mechanism, for SCRAM."""
    token: Callable[[str, int], TokenAccount | None]
    """The same of a delegation token, by its id."""
    bearer: Callable[[str, int], tuple[str, int] | None] | None = None
    """Who a token of OAUTHBEARER is of at a time, and until when (ms), if it is good; None: nobody signs any."""
