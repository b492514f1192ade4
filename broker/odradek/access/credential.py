"""SCRAM credentials, which brokers store in place of passwords (KIP-84); `scram` has the arithmetic."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

__all__ = ["ScramCredential", "ScramMechanism"]


class ScramMechanism(IntEnum):
    """SCRAM mechanisms, numbered as in AlterUserScramCredentials."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def algorithm(self) -> str:
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def title(self) -> str:
        """The name of the mechanism for SASL."""
        return f"SCRAM-SHA-{self.algorithm[3:]}"


class ScramCredential(Struct, frozen=True):
    """The stored credential of one user: it verifies a login and does not reveal the password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"
