"""Delegation tokens (KIP-48): what is kept of one, and the secret that goes with it.

The metadata log holds no secret: that of a token is made of its id and `delegation.token.secret.key`, which all
brokers of a cluster have. Who has it logs in by SCRAM, with the id for a name, and acts for the owner.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Set

from msgspec import Struct

from odradek.access.credential import ScramCredential

__all__ = ["Token", "TokenAccount", "token_hmac", "token_password"]


class Token(Struct, frozen=True):
    """A delegation token; principals are texts such as `User:alice`, times milliseconds since 1970."""

    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    """Until when it can be renewed at most."""

    def may_renew(self, principal: str) -> bool:
        """Whether somebody may renew and end it."""
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: str) -> bool:
        """Whether it is told to somebody who asks for theirs."""
        return principal == self.requester or self.may_renew(principal)

    def concerns_any(self, principals: Set[str]) -> bool:
        """Whether it is told to one of many."""
        return self.requester in principals or self.owner in principals or not principals.isdisjoint(self.renewers)

    def has_expired(self, now_ms: int) -> bool:
        """Whether its time is over."""
        return min(self.max_ms, self.expires_ms) < now_ms


class TokenAccount(Struct, frozen=True):
    """What a login by a token is checked against."""

    credential: ScramCredential
    owner: str
    """The name of the owner, whom the client then acts for."""
    expires_ms: int


def token_hmac(secret: str, token_id: str) -> bytes:
    """The secret of a token (HmacSHA512)."""
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def token_password(secret: str, token_id: str) -> str:
    """The same as the password of a login."""
    return b64encode(token_hmac(secret, token_id)).decode()
