"""`--security`: listeners, certificates and users for a test, by one word.

They are created for each start, unless a folder of certificates, or users, are given.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from odradek.cli.extras import need
from odradek.cli.usage import UsageError
from odradek.net.client_settings import CLIENT, Access

if TYPE_CHECKING:
    from odradek.net.certs import Certificates

__all__ = ["SECURITIES", "Prepared"]

SECURITIES: Mapping[str, str] = {
    "plaintext": "PLAINTEXT",
    "ssl": "SSL",
    "sasl-plaintext": "SASL_PLAINTEXT",
    "sasl-ssl": "SASL_SSL",
}
"""The values of `--security`, with the name and security protocol of the listener."""
USER = "odradek"
MECHANISM = "SCRAM-SHA-512"
"""The mechanism in the settings for clients; the others are enabled too."""
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
"""Without OAUTHBEARER: unsigned tokens would let every client in."""
EVERYWHERE = frozenset({"", "0.0.0.0", "::"})


class Prepared:
    """Files created by `--security NAME`; temporary ones are removed on exit or by `close()`.

    Raises `UsageError` for an unknown word, and if certificates cannot be created.
    """

    def __init__(
        self,
        security: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        hosts: Sequence[str] = (),
        folder: Path | None = None,
        users: Mapping[str, str] | None = None,
    ) -> None:
        if security not in SECURITIES:
            raise UsageError(f"There is no security {security}: it is one of {', '.join(SECURITIES)}.")
        self.protocol = SECURITIES[security]
        bracketed = f"[{host}]" if ":" in host else host
        self.config: dict[str, str] = {"listeners": f"{self.protocol}://{bracketed}:{port}"}
        """The configuration keys to set."""
        self.certificates: Certificates | None = None
        self._take_away: Callable[[], object] | None = None
        if self.protocol.endswith("SSL"):
            self._add_certificates(folder, [host, *hosts])
        self.users = {} if users is None else dict(users)
        """Passwords by user; if no users are given, one with a random password."""
        if self.protocol.startswith("SASL"):
            self.users = self.users or {USER: secrets.token_urlsafe(12)}
            _check(self.users)
            self.config |= {
                "sasl.enabled.mechanisms": MECHANISMS,
                "odradek.sasl.users": ",".join(f"{name}:{password}" for name, password in self.users.items()),
            }
        elif self.users:
            raise UsageError(f"With {security} nobody logs in, so that users are of no use.")

    def _add_certificates(self, folder: Path | None, hosts: Sequence[str]) -> None:
        need("cryptography", extra="certs")
        from odradek.net.certs import Certificates, make_certificates

        if folder is not None and _are_there(Certificates(folder)):
            self.certificates = Certificates(folder)
        else:
            if folder is None:
                folder = Path(tempfile.mkdtemp(prefix="odradek-certs-"))
                self._take_away = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            named = [name for name in hosts if name not in EVERYWHERE]
            self.certificates = make_certificates(folder, hosts=named, clients=[CLIENT])
        self.config |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificates.server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.ca),
        }
        if self.protocol == "SSL":
            # A client with a certificate has its name as principal, any other one is User:ANONYMOUS.
            self.config["ssl.client.auth"] = "requested"

    def access(self, bootstrap: str) -> Access:
        """The first user's settings, once the address is known."""
        access = Access(bootstrap=bootstrap, protocol=self.protocol, certificates=self.certificates)
        if not self.users:
            return access
        user, password = next(iter(self.users.items()))
        return replace(access, mechanism=MECHANISM, user=user, password=password)

    def close(self) -> None:
        """Remove the certificates that were created for this start."""
        if self._take_away is not None:
            self._take_away()


def _are_there(certificates: Certificates) -> bool:
    """Whether the certificates exist already. Raises `UsageError` for a folder with other files."""
    folder = certificates.folder
    try:
        if certificates.server.exists() and certificates.ca.exists():
            return True
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(
                f"{folder} has files, but no certificates of `odradek certs`: they are made in a folder of their own."
            )
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}.") from None
    return False


def _check(users: Mapping[str, str]) -> None:
    """Check names and passwords: in the configuration key a comma separates users."""
    if any(not name or {":", ","} & set(name) for name in users):
        raise UsageError("The name of a user has at least one character, and neither a colon nor a comma.")
    if any(not password or "," in password for password in users.values()):
        raise UsageError("A password has at least one character, and no comma.")
