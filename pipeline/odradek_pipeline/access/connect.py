"""A connection to one broker, encrypted and logged in as its configuration says."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass, field

from odradek.net.client import BlockingClient
from odradek_pipeline.access.config import PLAINTEXT, ClientConfig
from odradek_pipeline.access.login import log_in

__all__ = ["Connector", "Entered"]

LIFE_USED = 0.85
"""Of a login that ends by itself so much is used; then there is a new connection."""


@dataclass(frozen=True, slots=True)
class Entered:
    """A connection that may ask."""

    client: BlockingClient
    until: float
    """When the login ends, by the monotonic clock."""

    @property
    def is_over(self) -> bool:
        """Whether the login has ended, or nearly."""
        return time.monotonic() >= self.until


@dataclass(slots=True)
class Connector:
    """Makes connections; keys and certificates are read once."""

    client_id: str
    timeout_s: float
    config: ClientConfig = PLAINTEXT
    _tls: ssl.SSLContext | None = field(init=False)

    def __post_init__(self) -> None:
        self._tls = self.config.tls()

    def enter(self, address: str) -> Entered:
        """Connect and log in. Raises OSError, whose text says what is wrong."""
        try:
            client = BlockingClient(address, client_id=self.client_id, timeout_s=self.timeout_s, tls=self._tls)
        except ssl.SSLError as error:
            raise ConnectionError(_tls_trouble(error)) from error
        try:
            login = self.config.login
            lifetime = log_in(client, login) if login is not None else 0.0
        except BaseException:
            client.close()
            raise
        return Entered(client, time.monotonic() + lifetime * LIFE_USED if lifetime else float("inf"))


def _tls_trouble(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message.rstrip('.')}"
    if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return "what it says is no TLS"
    if isinstance(error, ssl.SSLEOFError):
        return "it hangs up on the handshake: does it speak TLS, as security.protocol says?"
    if error.reason and "CERTIFICATE_REQUIRED" in error.reason:
        return "it wants a certificate of us: ssl.keystore.location"
    return f"there is no TLS with it: {error.reason or error}"
