"""What brokers keep of the passwords of SCRAM (KIP-84); the arithmetic stands in `scram`, which few starts need."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

__all__ = ["ScramCredential", "ScramMechanism"]


class ScramMechanism(IntEnum):
    """Numbered as in AlterUserScramCredentials."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def algorithm(self) -> str:
        """The name of the hash."""
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def title(self) -> str:
        """The name of the mechanism."""
        return f"SCRAM-SHA-{self.algorithm[3:]}"


class ScramCredential(Struct, frozen=True):
    """What is kept of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"
