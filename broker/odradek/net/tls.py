"""TLS for a listener: a context of the standard library, made from Kafka's keys for certificates."""

from __future__ import annotations

import os
import ssl
import tempfile
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from odradek.access.principal import Attributes, distinguished_name
from odradek.cli.usage import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from odradek.broker import Logger
    from odradek.config.security import SecurityConfig

__all__ = ["Identity", "TlsError", "load_identity", "make_context", "name_of_client", "pem_of_trusted", "trust", "use"]

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_UNFINISHED = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
_STORE_BYTES_MAX = 1 << 20
"""More bytes than any file of certificates has."""
_INVALID = "org.apache.kafka.common.errors.InvalidConfigurationException"
_FAILED = "org.apache.kafka.common.KafkaException"


class TlsError(UsageError):
    """Certificates that a listener cannot use; the text is one clear sentence without secrets.

    `to_clients` is Kafka's text for a client that wants to change to them.
    """

    def __init__(self, sentence: str, to_clients: str | None = None) -> None:
        super().__init__(sentence)
        self.to_clients = to_clients or f"{_INVALID}: {sentence.removesuffix('.')}"


class Identity(Struct, frozen=True):
    """A private key and its certificates, which a listener presents to clients."""

    pem: str
    password: str
    alias: str
    """The name of the key in its store."""
    source: str
    refusal: str
    """The error for clients if OpenSSL cannot use the key."""


def make_context(
    listener: str, settings: SecurityConfig, identity: Identity, trusted: str | None, log: Logger
) -> ssl.SSLContext:
    """The context of a listener, which logs failed handshakes. Raises `TlsError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = sorted(_VERSIONS[name] for name in settings.ssl_enabled_protocols) or sorted(_VERSIONS.values())
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_mode = _CLIENT_AUTH[settings.ssl_client_auth]
    use(context, identity, listener)
    if trusted is not None:
        trust(context, trusted, listener, settings)
    elif settings.ssl_client_auth != "none":
        raise TlsError(
            f"Listener {listener} asks for certificates of clients (ssl.client.auth), and has no"
            " ssl.truststore.location or ssl.truststore.certificates to judge them by."
        )
    context.sslobject_class = _telling(listener, log)
    return context


def name_of_client(ssl_object: ssl.SSLObject) -> str | None:
    """The distinguished name in the client's certificate; None if it has sent none that is trusted."""
    # Python returns the certificate only if it was verified.
    certificate = ssl_object.getpeercert()
    if not certificate:
        return None
    # The mapping is typed as if any of its keys might stand for any of its values.
    return distinguished_name(cast("Attributes", certificate.get("subject", ())))


class Telling(ssl.SSLObject):
    """A connection that reports a failed handshake to the log and to the client; asyncio does neither."""

    outgoing: ssl.MemoryBIO | None = None
    """Output for the client, in case it can still be sent."""
    _has_answered = False
    _failure: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        """Continue the handshake.

        A failure with an alert for a client is raised one call later, when the alert has been sent and the client has
        closed the connection or sent more. A client whose hello cannot be answered is disconnected at once.
        """
        if self._failure is not None:
            raise self._failure
        try:
            super().do_handshake()
        except _UNFINISHED:
            self._has_answered = self._has_answered or self._has_more()
            raise
        except ssl.SSLError as error:
            self._tell(error.reason or type(error).__name__)
            if not self._has_answered or not self._has_more():
                raise
            self._failure = error
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "the client is told") from error

    def _has_more(self) -> bool:
        return self.outgoing is not None and self.outgoing.pending > 0

    def _tell(self, reason: str) -> None:
        raise NotImplementedError


def _telling(listener: str, log: Logger) -> type[Telling]:
    class ToTheLog(Telling):
        def _tell(self, reason: str) -> None:
            log.warning("tls_handshake_failed", listener=listener, reason=reason)

    return ToTheLog


def load_identity(listener: str, settings: SecurityConfig) -> Identity:
    """The configured key and certificates of a listener. Raises `TlsError`."""
    chain, key = settings.ssl_keystore_certificate_chain, settings.ssl_keystore_key
    location = settings.ssl_keystore_location
    if chain is None and key is None:
        if location is None:
            raise TlsError(
                f"Listener {listener} needs a certificate: ssl.keystore.location, or ssl.keystore.certificate.chain"
                " and ssl.keystore.key; `odradek certs FOLDER` makes one."
            )
        return _identity_in(location, listener, settings)
    if location is not None:
        raise TlsError(
            f"Listener {listener} has both ssl.keystore.location and a certificate in its configuration.",
            f"{_INVALID}: Both SSL key store location and separate private key are specified.",
        )
    if chain is None or key is None:
        raise TlsError(
            f"Listener {listener} needs both ssl.keystore.certificate.chain and ssl.keystore.key, or neither.",
            f"{_INVALID}: SSL certificate chain is specified, but private key is not specified"
            if key is None
            else f"{_INVALID}: SSL private key is specified, but certificate chain is not specified.",
        )
    if settings.ssl_keystore_password is not None:
        raise _password_of_pem(listener, ".")
    return Identity(
        pem=_lines(key) + "\n" + _lines(chain),
        password=settings.ssl_key_password or "",
        alias="kafka",
        source="ssl.keystore.key and ssl.keystore.certificate.chain",
        refusal=f"{_INVALID}: Invalid PEM keystore configs",
    )


def _identity_in(location: str, listener: str, settings: SecurityConfig) -> Identity:
    kind, password = settings.ssl_keystore_type, settings.ssl_keystore_password
    if kind == "PEM" and password is not None:
        raise _password_of_pem(listener, "")
    if kind == "PKCS12" and password is None:
        raise _no_password(listener, location)
    data = _read(location, listener, "ssl.keystore.location", kind)
    if _is_pem(data, kind, location):
        return Identity(
            pem=_text(data, location, kind),
            password=settings.ssl_key_password or password or "",
            alias="kafka",
            source=location,
            refusal=_not_loaded(location, kind),
        )
    if password is None:
        raise _no_password(listener, location)
    pem, alias = _pkcs12(data, password, location, kind)
    if settings.ssl_key_password not in (None, password):
        raise TlsError(
            f"The key in {location} cannot be read with ssl.key.password.",
            f"{_FAILED}: java.security.UnrecoverableKeyException: Get Key failed: Given final block not properly"
            " padded. Such issues can arise if a bad key is used during decryption.",
        )
    return Identity(pem=pem, password="", alias=alias, source=location, refusal=_not_loaded(location, kind))


def pem_of_trusted(listener: str, settings: SecurityConfig) -> str | None:
    """The certificates of authorities that a listener trusts; None if none are configured. Raises `TlsError`."""
    location, texts = settings.ssl_truststore_location, settings.ssl_truststore_certificates
    if texts is not None and location is not None:
        raise TlsError(
            f"Listener {listener} has both ssl.truststore.location and ssl.truststore.certificates.",
            f"{_INVALID}: Both SSL trust store location and separate trust certificates are specified.",
        )
    if texts is not None:
        if settings.ssl_truststore_password is not None:
            raise TlsError(
                f"Listener {listener} has ssl.truststore.password, and certificates in PEM have none.",
                f"{_INVALID}: SSL trust store password cannot be specified for PEM format.",
            )
        return _lines(texts)
    if location is None:
        return None
    kind = settings.ssl_truststore_type
    data = _read(location, listener, "ssl.truststore.location", kind)
    if _is_pem(data, kind, location):
        return _text(data, location, kind)
    return _pkcs12(data, settings.ssl_truststore_password, location, kind)[0]


def use(context: ssl.SSLContext, identity: Identity, listener: str) -> None:
    """Let a context present these certificates. Raises `TlsError`."""
    try:
        with _in_a_file(identity.pem) as path:
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(path, password=identity.password.encode())
    except (ssl.SSLError, OSError, ValueError) as error:
        raise TlsError(
            f"The certificate of listener {listener} cannot be read from {identity.source}: {_why(error)}.",
            identity.refusal,
        ) from None


def trust(context: ssl.SSLContext, pem: str, listener: str, settings: SecurityConfig) -> None:
    """Let a context trust these authorities. Raises `TlsError`."""
    location = settings.ssl_truststore_location
    # As in Java each of them is trusted on its own; otherwise OpenSSL picks one of those with the same name.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        raise TlsError(
            f"The certificates that listener {listener} is to trust cannot be read: {_why(error)}.",
            f"{_INVALID}: No matching CERTIFICATE entries in PEM file"
            if location is None
            else _not_loaded(location, settings.ssl_truststore_type),
        ) from None


def _no_password(listener: str, location: str) -> TlsError:
    return TlsError(
        f"Listener {listener} needs ssl.keystore.password to read {location}.",
        f"{_INVALID}: SSL key store is specified, but key store password is not specified.",
    )


def _password_of_pem(listener: str, full_stop: str) -> TlsError:
    return TlsError(
        f"Listener {listener} has ssl.keystore.password, and PEM is locked by ssl.key.password.",
        f"{_INVALID}: SSL key store password cannot be specified with PEM format, only key password may be specified"
        + full_stop,
    )


def _not_loaded(location: str, kind: str) -> str:
    if kind == "PEM":
        return f"{_INVALID}: Failed to load PEM SSL keystore {location}"
    return f"{_FAILED}: Failed to load SSL keystore {location} of type {kind}"


def _is_pem(data: bytes, kind: str, location: str) -> bool:
    """Whether the data is PEM; it may lack its type, because Kafka's default is JKS and users forget to set it."""
    if b"-----BEGIN" in data:
        if kind == "PKCS12":
            raise TlsError(f"{location} is in PEM format, and not a PKCS12 store.", _not_loaded(location, kind))
        return True
    if kind == "PEM":
        raise TlsError(f"{location} is not in PEM format.", _not_loaded(location, kind))
    return False


def _pkcs12(data: bytes, password: str | None, location: str, kind: str) -> tuple[str, str]:
    """The content of a store of Java as PEM, and the name of its key."""
    if data[:4] == b"\xfe\xed\xfe\xed":
        raise TlsError(f"{location} is in Java's old format JKS; PEM and PKCS12 are read (keytool -importkeystore).")
    from odradek.cli.extras import need

    need("cryptography", extra="certs")
    from odradek.net.certs import pem_of_pkcs12

    try:
        return pem_of_pkcs12(data, password)
    except ValueError:
        raise TlsError(
            f"{location} is not a {kind} store, or its password is another one.", _not_loaded(location, kind)
        ) from None


def _read(location: str, listener: str, key: str, kind: str) -> bytes:
    """Read a regular file of limited size: reading others may never end."""
    try:
        status = os.stat(location)
        if not S_ISREG(status.st_mode):
            raise OSError(None, "it is no file")
        if status.st_size > _STORE_BYTES_MAX:
            raise OSError(None, f"it has more than {_STORE_BYTES_MAX} bytes")
        return Path(location).read_bytes()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise TlsError(
            f"{key} of listener {listener}, {location}, cannot be read: {reason}.", _not_loaded(location, kind)
        ) from None


def _text(data: bytes, location: str, kind: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise TlsError(f"{location} is not in PEM format.", _not_loaded(location, kind)) from None


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        reason = error.reason
        return reason.replace("_", " ").lower() if reason else "it is not PEM, or its password is another one"
    return str(error)


def _lines(pem: str) -> str:
    """PEM in a configuration may be on one line, with spaces in place of line ends (KIP-651)."""
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
    """The data in a temporary file: the standard library reads keys only from files; only the owner may read it."""
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield path
    finally:
        os.unlink(path)
