"""Client settings for a listener, in the format of each client family."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from pathlib import Path

    from odradek.net.certs import Certificates

__all__ = ["CLIENTS", "Access", "settings_page"]

CLIENT = "client"
"""The common name of the certificate that is made for a client."""


class Access(Struct, frozen=True, kw_only=True):
    """The address, credentials and certificates of one user."""

    bootstrap: str
    protocol: str
    certificates: Certificates | None = None
    mechanism: str | None = None
    user: str = ""
    password: str = ""

    @property
    def librdkafka(self) -> dict[str, str]:
        """Settings for librdkafka and the confluent-kafka clients of all languages."""
        told = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.certificates is not None:
            told["ssl.ca.location"] = str(self.certificates.ca)
            if self.mechanism is None:
                own = str(self.certificates.client(CLIENT))
                told |= {"ssl.certificate.location": own, "ssl.key.location": own}
        if self.mechanism is not None:
            told |= {"sasl.mechanism": self.mechanism, "sasl.username": self.user, "sasl.password": self.password}
        return told

    @property
    def java(self) -> dict[str, str]:
        """Settings for Kafka's own clients and tools."""
        told = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.certificates is not None:
            password = self.certificates.store_password
            told |= {
                "ssl.truststore.type": "PKCS12",
                "ssl.truststore.location": str(self.certificates.truststore),
                "ssl.truststore.password": password,
            }
            if self.mechanism is None:
                told |= {
                    "ssl.keystore.type": "PKCS12",
                    "ssl.keystore.location": str(self.certificates.client_store(CLIENT)),
                    "ssl.keystore.password": password,
                }
        if self.mechanism is not None:
            module = "scram.ScramLoginModule" if self.mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
            told |= {
                "sasl.mechanism": self.mechanism,
                "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required"
                f" username={_quoted(self.user)} password={_quoted(self.password)};",
            }
        return told

    @property
    def ca_pem(self) -> str | None:
        """The certificate of the authority that clients trust; None without TLS."""
        return None if self.certificates is None else _read(self.certificates.ca)

    @property
    def client_pem(self) -> str | None:
        """Key and certificate of a client; None if the client logs in with a password, or has no certificate."""
        if self.certificates is None or self.mechanism is not None:
            return None
        return _read(self.certificates.client(CLIENT))

    @property
    def librdkafka_whole(self) -> dict[str, str]:
        """The settings of `librdkafka`, with the text of certificates in place of file names."""
        told = _without(self.librdkafka, "ssl.")
        if self.ca_pem is not None:
            told["ssl.ca.pem"] = self.ca_pem
        if self.client_pem is not None:
            key, chain = _parts(self.client_pem)
            told |= {"ssl.key.pem": key, "ssl.certificate.pem": chain}
        return told

    @property
    def java_whole(self) -> dict[str, str]:
        """The settings of `java`, with the text of certificates in place of stores (KIP-651)."""
        told = _without(self.java, "ssl.")
        if self.ca_pem is not None:
            told |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.ca_pem}
        if self.client_pem is not None:
            key, chain = _parts(self.client_pem)
            told |= {"ssl.keystore.type": "PEM", "ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain}
        return told


def _read(path: Path) -> str | None:
    """The path if the file exists, otherwise None: a folder of the user need not have every file."""
    try:
        return path.read_text()
    except OSError:
        return None


def _without(told: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key: value for key, value in told.items() if not key.startswith(prefix)}


def _parts(pem: str) -> tuple[str, str]:
    """The key and the certificates in a file with both."""
    key, begin, rest = pem.partition("-----BEGIN CERTIFICATE-----")
    return key, begin + rest


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _properties(told: Mapping[str, str]) -> str:
    """A value for a properties file of Java, with backslashes escaped."""
    return "\n".join(f"{key}={value}".replace("\\", "\\\\") for key, value in told.items())


def _java(access: Access) -> str:
    return _properties(access.java)


def _librdkafka(access: Access) -> str:
    return "\n".join(f"{key}={value}" for key, value in access.librdkafka.items())


def _franz_go(access: Access) -> str:
    seeds = ", ".join(json.dumps(each) for each in access.bootstrap.split(","))
    lines = [f"kgo.SeedBrokers({seeds}),"]
    if access.certificates is not None:
        lines = [
            f"pem, _ := os.ReadFile({json.dumps(str(access.certificates.ca))})",
            "pool := x509.NewCertPool()",
            "pool.AppendCertsFromPEM(pem)",
            *lines,
            "kgo.DialTLSConfig(&tls.Config{RootCAs: pool}),",
        ]
    if access.mechanism is not None:
        auth = f"Auth{{User: {json.dumps(access.user)}, Pass: {json.dumps(access.password)}}}"
        number = access.mechanism.rpartition("-")[2]
        made = (
            f"scram.{auth}.AsSha{number}Mechanism()"
            if access.mechanism.startswith("SCRAM")
            else f"plain.{auth}.AsMechanism()"
        )
        lines.append(f"kgo.SASL({made}),")
    return "\n".join(lines)


def _kafkajs(access: Access) -> str:
    lines = [f"brokers: {json.dumps(access.bootstrap.split(','))},"]
    if access.certificates is not None:
        lines.append(f"ssl: {{ ca: [fs.readFileSync({json.dumps(str(access.certificates.ca))})] }},")
    if access.mechanism is not None:
        lines.append(
            f"sasl: {{ mechanism: {json.dumps(access.mechanism.lower())}, username: {json.dumps(access.user)},"
            f" password: {json.dumps(access.password)} }},"
        )
    return "\n".join(lines)


def _aiokafka(access: Access) -> str:
    lines = [f"bootstrap_servers={access.bootstrap!r},", f"security_protocol={access.protocol!r},"]
    if access.certificates is not None:
        lines.append(f"ssl_context=ssl.create_default_context(cafile={str(access.certificates.ca)!r}),")
    if access.mechanism is not None:
        lines += [
            f"sasl_mechanism={access.mechanism!r},",
            f"sasl_plain_username={access.user!r},",
            f"sasl_plain_password={access.password!r},",
        ]
    return "\n".join(lines)


CLIENTS: Mapping[str, Callable[[Access], str]] = {
    "Java": _java,
    "librdkafka": _librdkafka,
    "franz-go": _franz_go,
    "kafkajs": _kafkajs,
    "aiokafka": _aiokafka,
}
"""The format of each client family."""


def settings_page(access: Access) -> str:
    """The settings for every family, each below its name."""
    return "\n\n".join(f"# {name}\n{write(access)}" for name, write in CLIENTS.items())
