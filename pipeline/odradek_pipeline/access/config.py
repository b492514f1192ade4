"""Client properties as Kafka's tools take them, for three kinds of client.

Our own connections (`tls`, `login`), librdkafka (`librdkafka`) and Spark's connector, which is Kafka's own client and
takes the properties as they are (`spark_options`). What none of them needs is passed over, as Kafka does.
"""

from __future__ import annotations

import re
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from odradek.access.jaas import JaasError, login_options
from odradek.cli.usage import UsageError
from odradek_pipeline.access.properties import parse_properties
from odradek_pipeline.access.stores import pem_of_store

__all__ = ["PLAINTEXT", "ClientConfig", "Login", "read_config"]

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_KEYS = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----\n?", re.DOTALL)
_CERTIFICATES = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)
_SUBJECT = "unsecuredLoginStringClaim_sub"


@dataclass(frozen=True, slots=True)
class Login:
    """How to log in; secrets are not shown."""

    mechanism: str
    user: str
    password: str = field(repr=False, default="")
    is_token: bool = False
    """A delegation token: the user is its id, the password its HMAC (KIP-48)."""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The properties; they hold passwords, so none of them is shown."""

    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise UsageError(f"security.protocol={self.protocol} is none: it is {', '.join(PROTOCOLS)}.")
        _ = self.login

    @property
    def protocol(self) -> str:
        """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        return self._of("security.protocol", "PLAINTEXT").upper()

    @property
    def login(self) -> Login | None:
        """None where nobody logs in. Raises `UsageError`."""
        if not self.protocol.startswith("SASL"):
            return None
        mechanism = self._of("sasl.mechanism", "GSSAPI")
        if mechanism not in MECHANISMS:
            raise UsageError(f"sasl.mechanism={mechanism} cannot be used: only {', '.join(MECHANISMS)}.")
        try:
            options = login_options(self._of("sasl.jaas.config", ""))
        except JaasError as error:
            raise UsageError(str(error)) from None
        if mechanism == "OAUTHBEARER":
            if _SUBJECT not in options:
                raise UsageError(f"sasl.jaas.config has no {_SUBJECT}: of OAUTHBEARER only unsecured tokens are known.")
            return Login(mechanism, options[_SUBJECT])
        if "username" not in options or "password" not in options:
            raise UsageError("sasl.jaas.config has no username or no password.")
        is_token = options.get("tokenauth", "").lower() == "true"
        return Login(mechanism, options["username"], options["password"], is_token)

    @property
    def is_checking_hosts(self) -> bool:
        """Whether a certificate has to name the host; the empty algorithm turns it off."""
        return self._of("ssl.endpoint.identification.algorithm", "https").lower() == "https"

    def trusted(self) -> str | None:
        """The certificates that brokers are checked with, as PEM; None for those of this machine."""
        given = self.properties.get("ssl.truststore.certificates")
        if given:
            return given
        location = self.properties.get("ssl.truststore.location")
        if not location:
            return None
        kind, password = self._of("ssl.truststore.type", "JKS"), self.properties.get("ssl.truststore.password")
        return pem_of_store("ssl.truststore.location", location, kind, password)

    def own(self) -> tuple[str, str]:
        """Our own key and certificates, as PEM; empty where we show none."""
        key, chain = self._of("ssl.keystore.key", ""), self._of("ssl.keystore.certificate.chain", "")
        if key:
            return key, chain
        location = self.properties.get("ssl.keystore.location")
        if not location:
            return "", ""
        kind, password = self._of("ssl.keystore.type", "JKS"), self.properties.get("ssl.keystore.password")
        pem = pem_of_store("ssl.keystore.location", location, kind, password, self.properties.get("ssl.key.password"))
        return "".join(_KEYS.findall(pem)), "".join(_CERTIFICATES.findall(pem))

    def tls(self) -> ssl.SSLContext | None:
        """For our own connections; None where they are not encrypted. Raises `UsageError`."""
        if not self.protocol.endswith("SSL"):
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.is_checking_hosts
        trusted = self.trusted()
        if trusted is None:
            context.load_default_certs()
        else:
            try:
                context.load_verify_locations(cadata="".join(_CERTIFICATES.findall(trusted)))
            except (ssl.SSLError, ValueError):
                raise UsageError("ssl.truststore holds no certificate.") from None
        key, chain = self.own()
        if key:
            _show_own(context, key + "\n" + chain, self.properties.get("ssl.key.password"))
        return context

    def librdkafka(self, bootstrap: str) -> dict[str, str | int | float | bool]:
        """The same for confluent-kafka; certificates go along inside. Raises `UsageError`."""
        told: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "security.protocol": self.protocol,
        }
        if self.protocol.endswith("SSL"):
            told["ssl.endpoint.identification.algorithm"] = "https" if self.is_checking_hosts else "none"
            trusted, (key, chain) = self.trusted(), self.own()
            own = {"ssl.ca.pem": trusted or "", "ssl.key.pem": key, "ssl.certificate.pem": chain}
            own["ssl.key.password"] = self._of("ssl.key.password", "") if "ENCRYPTED" in key else ""
            told |= {name: value for name, value in own.items() if value}
        login = self.login
        if login is not None:
            if login.is_token:
                raise UsageError("A copy cannot log in by a delegation token: librdkafka knows none.")
            told["sasl.mechanism"] = login.mechanism
            if login.mechanism == "OAUTHBEARER":
                told |= {"enable.sasl.oauthbearer.unsecure.jwt": True}
                told |= {"sasl.oauthbearer.config": f"principal={login.user}"}
            else:
                told |= {"sasl.username": login.user, "sasl.password": login.password}
        return told

    def spark_options(self, bootstrap: str) -> dict[str, str]:
        """Options of Spark's Kafka source."""
        own = {f"kafka.{key}": value for key, value in self.properties.items() if key.startswith(_PASSED)}
        return {**own, "kafka.bootstrap.servers": bootstrap}

    def _of(self, key: str, default: str) -> str:
        return self.properties.get(key, default).strip()


_PASSED = ("security.", "ssl.", "sasl.", "client.dns.lookup", "socket.connection.")
"""What a source of Spark may be told; groups and deserializers are its own."""

PLAINTEXT = ClientConfig()
"""Without TLS and without a login."""


def read_config(path: Path | None) -> ClientConfig:
    """The properties of a file; without one, neither TLS nor a login. Raises `UsageError`."""
    if path is None:
        return PLAINTEXT
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UsageError(f"{path} is no file.")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text: name a file of KEY=VALUE lines.") from None
    properties = parse_properties(text)
    if not properties:
        raise UsageError(f"There is no property in {path}: name a file of KEY=VALUE lines.")
    try:
        return ClientConfig(properties)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _show_own(context: ssl.SSLContext, pem: str, password: str | None) -> None:
    """The standard library takes keys from files alone; a password that is missing is not asked for."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # readable by its owner alone
        file.write(pem)
        file.flush()
        try:
            context.load_cert_chain(file.name, password=password or "")
        except (ssl.SSLError, ValueError, OSError):
            raise UsageError(
                "ssl.keystore cannot be used: do key and certificate belong together, and is ssl.key.password right?"
            ) from None
