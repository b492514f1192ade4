"""Delegation tokens (KIP-48): the stored record of a token, and its secret.

The metadata log holds no secret: the secret of a token is computed from its id and `delegation.token.secret.key`, which
all brokers of a cluster share. The holder of a token logs in by SCRAM, with the id as the user name, and acts for the
owner.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Set

from msgspec import Struct

from odradek.access.credential import ScramCredential

__all__ = ["Token", "TokenAccount", "token_hmac", "token_password"]


class Token(Struct, frozen=True):
    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    """The latest time until which the token can be renewed, in ms."""

    def may_renew(self, principal: str) -> bool:
        """Whether this principal may renew and expire the token."""
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: str) -> bool:
        """Whether a principal that asks for its own tokens sees this one."""
        return principal == self.requester or self.may_renew(principal)

    def concerns_any(self, principals: Set[str]) -> bool:
        """Whether the token is listed for one of these owners."""
        return self.requester in principals or self.owner in principals or not principals.isdisjoint(self.renewers)

    def has_expired(self, now_ms: int) -> bool:
        """Whether the token has expired."""
        return min(self.max_ms, self.expires_ms) < now_ms


class TokenAccount(Struct, frozen=True):
    """The credential for a login with a token."""

    credential: ScramCredential
    owner: str
    """The name of the owner; the client acts for it after the login."""
    expires_ms: int


def token_hmac(secret: str, token_id: str) -> bytes:
    """The secret of a token (HmacSHA512)."""
    import hmac  # few clusters have tokens, and it loads the hash functions

    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def token_password(secret: str, token_id: str) -> str:
    """The secret as a password for SCRAM: base64."""
    return b64encode(token_hmac(secret, token_id)).decode()
