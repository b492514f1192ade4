"""`--security`: listeners, certificates and users in one word, for a test that wants to get in with them.

What is made here is made anew for each start, unless a folder of certificates or users are given.
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
"""What can be asked for, and the name and protocol of the listener."""
USER = "odradek"
MECHANISM = "SCRAM-SHA-512"
"""What clients are told to log in by; the others are there too."""
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
"""Not OAUTHBEARER: with tokens that nobody signs, everybody gets in."""
EVERYWHERE = frozenset({"", "0.0.0.0", "::"})


class Prepared:
    """What one word sets up; what was made for it alone goes with it, or with `close`.

    Raises `UsageError` for a word that means nothing, and where certificates cannot be made.
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
        """The keys that set it up."""
        self.certificates: Certificates | None = None
        self._take_away: Callable[[], object] | None = None
        if self.protocol.endswith("SSL"):
            self._add_certificates(folder, [host, *hosts])
        self.users = {} if users is None else dict(users)
        """Passwords by user; without any there is one with a password that is made up."""
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
            # Who shows a certificate is known by it, who does not is User:ANONYMOUS.
            self.config["ssl.client.auth"] = "requested"

    def access(self, bootstrap: str) -> Access:
        """How the first of the users gets in, once it is known where."""
        access = Access(bootstrap=bootstrap, protocol=self.protocol, certificates=self.certificates)
        if not self.users:
            return access
        user, password = next(iter(self.users.items()))
        return replace(access, mechanism=MECHANISM, user=user, password=password)

    def close(self) -> None:
        """Remove the certificates that were made for this start alone."""
        if self._take_away is not None:
            self._take_away()


def _are_there(certificates: Certificates) -> bool:
    """Whether they have been made already. Raises `UsageError` for a folder that holds something else."""
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
    """In the key they stand one after another, where a comma would begin another user."""
    if any(not name or {":", ","} & set(name) for name in users):
        raise UsageError("The name of a user has at least one character, and neither a colon nor a comma.")
    if any(not password or "," in password for password in users.values()):
        raise UsageError("A password has at least one character, and no comma.")
