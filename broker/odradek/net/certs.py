"""A throw-away certificate authority for tests, with certificates for brokers and clients.

All keys use the curve P-256: a handshake costs a broker a fraction of a millisecond.
"""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    load_pkcs12,
    serialize_java_truststore,
    serialize_key_and_certificates,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from odradek.cli.usage import UsageError

__all__ = ["Certificates", "facts_of", "make_certificates", "pem_of_pkcs12"]

LOCAL = ("localhost", "127.0.0.1", "::1")
DAYS = 3650
STORE_PASSWORD_FILE = "password.txt"


class Certificates(Struct, frozen=True):
    """The files in a folder of certificates."""

    folder: Path

    @property
    def ca(self) -> Path:
        """The certificate of the authority, which brokers and clients trust."""
        return self.folder / "ca.pem"

    @property
    def truststore(self) -> Path:
        """The same as a store for Java."""
        return self.folder / "truststore.p12"

    @property
    def server(self) -> Path:
        """Key and certificate of the brokers."""
        return self.folder / "server.pem"

    def client(self, name: str) -> Path:
        """Key and certificate of a client."""
        return self.folder / f"{name}.pem"

    def client_store(self, name: str) -> Path:
        """The same as a store for Java."""
        return self.folder / f"{name}.p12"

    @property
    def store_password(self) -> str:
        """The password of the stores for Java, which must have one."""
        return (self.folder / STORE_PASSWORD_FILE).read_text().strip()


class _Signed(Struct):
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)


def make_certificates(
    folder: Path, *, hosts: Iterable[str] = (), clients: Sequence[str] = ("client",), days: int = DAYS
) -> Certificates:
    """Create an authority, a certificate for brokers with these host names and local ones, and client certificates.

    The files are new; keys are readable only by their owner. Raises `UsageError` for names that files or certificates
    cannot have, and if the folder cannot be written or already has some of the files.
    """
    made = Certificates(folder)
    clients = tuple(dict.fromkeys(clients))
    for name in clients:
        _check_name(name)
    for host in (hosts := tuple(hosts)):
        _check_host(host)
    authority = _make("Odradek test CA", days=days)
    server = _make("localhost", days=days, issuer=authority, hosts=tuple(dict.fromkeys((*LOCAL, *hosts))))
    password = secrets.token_urlsafe(12)
    files: dict[Path, bytes] = {
        made.ca: authority.pem,
        made.truststore: _truststore(authority, password),
        made.server: server.key_pem + server.pem,
        folder / "server.p12": _store("server", server, authority, password),
        folder / STORE_PASSWORD_FILE: password.encode(),
    }
    own = frozenset(path.name for path in files)
    for name in clients:
        if not own.isdisjoint(path.name.lower() for path in (made.client(name), made.client_store(name))):
            raise UsageError(f"No client can be called {name}: so are files of the authority or of the brokers.")
        client = _make(name, days=days, issuer=authority)
        files[made.client(name)] = client.key_pem + client.pem
        files[made.client_store(name)] = _store(name, client, authority, password)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in files:
            if path.exists():
                raise UsageError(f"{path} exists already; certificates are made in a folder of their own.")
        for path, content in files.items():
            _write(path, content)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}.") from None
    return made


def _check_name(name: str) -> None:
    """Check a client name: it becomes the name of files, and a common name, which has at most 64 characters."""
    if not re.fullmatch(r"\w[\w.@+ -]{0,63}", name):
        raise UsageError(
            f"A client has a name of 1 to 64 letters, digits, blanks and .-_@+ that begins with a letter or digit, and"
            f" {name!r} is none."
        )


def _check_host(host: str) -> None:
    try:
        _general_name(host)
    except ValueError:  # a name that is not ASCII
        host = ""
    if not re.fullmatch(r"[\w.:*%-]+", host):
        raise UsageError("A host is an address or a name of ASCII letters (é.example is xn--9ca.example).")


def pem_of_pkcs12(data: bytes, password: str | None) -> tuple[str, str]:
    """Key and certificates of a store as PEM, and the name of the key. Raises ValueError for any other file."""
    store = load_pkcs12(data, None if password is None else password.encode())
    parts = []
    if store.key is not None:
        parts.append(store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    held = ([store.cert] if store.cert is not None else []) + list(store.additional_certs)
    parts += [each.certificate.public_bytes(Encoding.PEM) for each in held]
    name = None if store.cert is None else store.cert.friendly_name
    # Java finds entries by their name in lower case; entries without a name are numbered.
    return b"".join(parts).decode(), "1" if name is None else name.decode().lower()


def facts_of(pem: str) -> tuple[str, frozenset[tuple[int, str]]]:
    """The distinguished name in the first certificate, and its alternative names, numbered and written as in Java.

    Raises ValueError if there is no certificate.
    """
    certificate = x509.load_pem_x509_certificate(_first_certificate(pem).encode())
    name = ", ".join(part.rfc4514_string() for part in reversed(certificate.subject.rdns))
    try:
        others = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return name, frozenset()
    return name, frozenset(map(_as_java_writes, others))


def _first_certificate(pem: str) -> str:
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    _, found, rest = pem.partition(begin)
    if not found:
        raise ValueError("there is no certificate")
    return begin + rest.partition(end)[0] + end


def _as_java_writes(name: x509.GeneralName) -> tuple[int, str]:
    if isinstance(name, x509.IPAddress):
        address = name.value
        if isinstance(address, ipaddress.IPv6Address):
            groups = (int(group, 16) for group in address.exploded.split(":"))
            return 7, ":".join(f"{group:x}" for group in groups)
        return 7, str(address)
    if isinstance(name, x509.DirectoryName):
        return 4, name.value.rfc4514_string()
    if isinstance(name, x509.RegisteredID):
        return 8, name.value.dotted_string
    if isinstance(name, x509.OtherName):
        return 0, f"{name.type_id.dotted_string}={name.value.hex()}"
    return _KINDS[type(name)], str(name.value)


_KINDS: dict[type[x509.GeneralName], int] = {x509.RFC822Name: 1, x509.DNSName: 2, x509.UniformResourceIdentifier: 6}
"""The numbers of RFC 5280, section 4.2.1.6."""


def _make(name: str, *, days: int, issuer: _Signed | None = None, hosts: Sequence[str] = ()) -> _Signed:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if issuer is None:
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(usage, critical=True)
    else:
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        public = issuer.key.public_key()
        builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
    if hosts:
        names = [_general_name(host) for host in hosts]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return _Signed(key, builder.sign(key if issuer is None else issuer.key, SHA256()))


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _store(name: str, signed: _Signed, authority: _Signed, password: str) -> bytes:
    encryption = BestAvailableEncryption(password.encode())
    return serialize_key_and_certificates(
        name.encode(), signed.key, signed.certificate, [authority.certificate], encryption
    )


def _truststore(authority: _Signed, password: str) -> bytes:
    entry = PKCS12Certificate(authority.certificate, b"ca")
    return serialize_java_truststore([entry], BestAvailableEncryption(password.encode()))


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
