"""TLS for a listener: a context of the standard library from Kafka's keys for certificates."""

from __future__ import annotations

import os
import ssl
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.security.principal import distinguished_name
from odradek.usage import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from odradek.config.security import SecurityConfig
    from odradek.node.node import Logger

__all__ = ["TlsError", "make_context", "name_of_client", "reload_own"]

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_UNFINISHED = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


class TlsError(UsageError):
    """Certificates that a listener cannot use; the text is one clear sentence, and holds no secret."""


def make_context(listener: str, settings: SecurityConfig, log: Logger) -> ssl.SSLContext:
    """The context of a listener; handshakes that fail are told to the log. Raises `TlsError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = sorted(_VERSIONS[name] for name in settings.ssl_enabled_protocols) or sorted(_VERSIONS.values())
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_mode = _CLIENT_AUTH[settings.ssl_client_auth]
    _load_own(context, listener, settings)
    _load_trusted(context, listener, settings)
    context.sslobject_class = _telling(listener, log)
    return context


def reload_own(context: ssl.SSLContext, listener: str, settings: SecurityConfig, log: Logger) -> None:
    """Take a listener's own key and chain as they are now, for the connections to come.

    Raises `TlsError` where they cannot be used; then those from before stay.
    """
    make_context(listener, settings, log)
    _load_own(context, listener, settings)


def name_of_client(ssl_object: ssl.SSLObject) -> str | None:
    """The distinguished name in the client's certificate; None if it has shown none that is trusted."""
    # The certificate is only told where it has been verified.
    certificate = ssl_object.getpeercert()
    if not certificate:
        return None
    subject: Any = certificate.get("subject", ())
    return distinguished_name(subject)


def _telling(listener: str, log: Logger) -> type[ssl.SSLObject]:
    """A kind of connection that says why its handshake has failed, which asyncio keeps to itself."""

    class Telling(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except _UNFINISHED:
                raise
            except ssl.SSLError as error:
                log.warning("tls_handshake_failed", listener=listener, reason=error.reason or type(error).__name__)
                raise

    return Telling


# ---------------------------------------------------------------------- certificates


def _load_own(context: ssl.SSLContext, listener: str, settings: SecurityConfig) -> None:
    password = settings.ssl_key_password or settings.ssl_keystore_password or ""
    location, kind = settings.ssl_keystore_location, settings.ssl_keystore_type
    if settings.ssl_keystore_certificate_chain is not None or settings.ssl_keystore_key is not None:
        if location is not None:
            raise TlsError(
                f"Listener {listener} has both ssl.keystore.location and a certificate in its configuration."
            )
        if settings.ssl_keystore_certificate_chain is None or settings.ssl_keystore_key is None:
            raise TlsError(
                f"Listener {listener} needs both ssl.keystore.certificate.chain and ssl.keystore.key, or neither."
            )
        pem = _lines(settings.ssl_keystore_key) + "\n" + _lines(settings.ssl_keystore_certificate_chain)
        with _in_a_file(pem) as path:
            _load_chain(context, path, password, listener, "ssl.keystore.key and ssl.keystore.certificate.chain")
        return
    if location is None:
        raise TlsError(
            f"Listener {listener} needs a certificate: ssl.keystore.location, or ssl.keystore.certificate.chain and"
            " ssl.keystore.key; `odradek certs FOLDER` makes one."
        )
    data = _read(location, listener, "ssl.keystore.location")
    if _is_pem(data, kind, location):
        _load_chain(context, location, password, listener, location)
        return
    with _in_a_file(_pkcs12(data, settings.ssl_keystore_password, location, kind)) as path:
        _load_chain(context, path, "", listener, location)


def _load_trusted(context: ssl.SSLContext, listener: str, settings: SecurityConfig) -> None:
    location = settings.ssl_truststore_location
    try:
        if settings.ssl_truststore_certificates is not None:
            context.load_verify_locations(cadata=_lines(settings.ssl_truststore_certificates))
        elif location is not None:
            data = _read(location, listener, "ssl.truststore.location")
            kind = settings.ssl_truststore_type
            if not _is_pem(data, kind, location):
                data = _pkcs12(data, settings.ssl_truststore_password, location, kind).encode()
            context.load_verify_locations(cadata=data.decode())
        elif settings.ssl_client_auth != "none":
            raise TlsError(
                f"Listener {listener} asks for certificates of clients (ssl.client.auth), and has no"
                " ssl.truststore.location or ssl.truststore.certificates to judge them by."
            )
    except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
        raise TlsError(
            f"The certificates that listener {listener} is to trust cannot be read: {_why(error)}."
        ) from None


def _load_chain(context: ssl.SSLContext, path: str, password: str, listener: str, what: str) -> None:
    try:
        # Without a password OpenSSL would ask for one at the terminal.
        context.load_cert_chain(path, password=password.encode())
    except (ssl.SSLError, OSError, ValueError) as error:
        raise TlsError(f"The certificate of listener {listener} cannot be read from {what}: {_why(error)}.") from None


def _is_pem(data: bytes, kind: str, location: str) -> bool:
    if b"-----BEGIN" in data:
        return True
    if kind == "PEM":
        raise TlsError(f"{location} is not in PEM format.")
    return False


def _pkcs12(data: bytes, password: str | None, location: str, kind: str) -> str:
    """What a store of Java holds, as PEM."""
    if data[:4] == b"\xfe\xed\xfe\xed":
        raise TlsError(f"{location} is in Java's old format JKS; PEM and PKCS12 are read (keytool -importkeystore).")
    from odradek.extras import need

    need("cryptography", extra="certs")
    from odradek.net.certs import pem_of_pkcs12

    try:
        return pem_of_pkcs12(data, password)
    except ValueError:
        raise TlsError(f"{location} is not a {kind} store, or its password is another one.") from None


def _read(location: str, listener: str, key: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise TlsError(f"{key} of listener {listener}, {location}, cannot be read: {reason}.") from None


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        reason = error.reason
        return reason.replace("_", " ").lower() if reason else "it is not PEM, or its password is another one"
    return str(error)


def _lines(pem: str) -> str:
    """PEM in a configuration may stand on one line: its words are then separated by spaces (KIP-651)."""
    if "\n" in pem.strip():
        return pem
    out: list[str] = []
    for part in pem.replace("-----END", "\n-----END").replace("-----BEGIN", "\n-----BEGIN").splitlines():
        if part.startswith("-----"):
            head, _, rest = part[5:].partition("-----")
            out += [f"-----{head}-----", *rest.split()]
        else:
            out += part.split()
    return "\n".join(out) + "\n"


@contextmanager
def _in_a_file(text: str) -> Iterator[str]:
    """The standard library reads keys from files only; this one nobody else can read, and it is gone at once."""
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield path
    finally:
        os.unlink(path)
