"""A cluster with two listeners, as the stories of a secured watch are told to Odradek and to a real Kafka.

The one without encryption is for everything that prepares; users without rights come over the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
)
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic
from tests.oracle.real_kafka import RealKafka, free_port

from odradek.net.certs import Certificates, make_certificates
from odradek.testing import Cluster

__all__ = ["Secured", "give", "odradek", "real", "take"]

USERS = {"alice": "alice-secret", "bob": "bob-secret"}
MODULE = "org.apache.kafka.common.security"
LISTENER = "listener.name.sasl_ssl."
ALIKE: Mapping[str, str] = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL",
    f"{LISTENER}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:alice",
    "transaction.partition.verification.enable": "false",
    "auto.create.topics.enable": "false",
}


@dataclass(frozen=True)
class Secured:
    """Where it listens, and what lets clients in."""

    plain: str
    bootstrap: str
    certificates: Certificates

    def properties(self, user: str, mechanism: str = "PLAIN", password: str | None = None) -> dict[str, str]:
        """What a Java client is told."""
        module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        secret = USERS[user] if password is None else password
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{MODULE}.{module}LoginModule required username="{user}" password="{secret}";',
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(self.certificates.truststore),
            "ssl.truststore.password": self.certificates.store_password,
        }

    def file(self, folder: Path, user: str, mechanism: str = "PLAIN") -> Path:
        """The same as a file."""
        path = folder / f"{user}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.properties(user, mechanism).items()))
        return path


@contextmanager
def odradek(folder: Path, *, version: int = 0, config: Mapping[str, str] | None = None) -> Iterator[Secured]:
    """Ours."""
    made = make_certificates(folder / "certs")
    settings = {
        **ALIKE,
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(made.server),
        "odradek.sasl.users": ",".join(f"{user}:{password}" for user, password in USERS.items()),
        **(config or {}),
    }
    with Cluster(config=settings, topics=["orders"], transaction_version=version, seed=1) as cluster:
        yield Secured(cluster.bootstrap_of("PLAINTEXT"), cluster.bootstrap_of("SASL_SSL"), made)


class TlsKafka(RealKafka):
    """A real broker with a second listener."""

    def addresses(self) -> dict[str, str]:
        self.secured_port = free_port()
        told = f"PLAINTEXT://127.0.0.1:{self.port},SASL_SSL://127.0.0.1:{self.secured_port}"
        return {
            **super().addresses(),
            "listeners": f"{told},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": told,
            "inter.broker.listener.name": "PLAINTEXT",
        }


@contextmanager
def real(folder: Path, *, version: int = 1) -> Iterator[Secured]:
    """The real one."""
    made = make_certificates(folder / "certs")
    users = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
    properties = {
        **ALIKE,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
        f"{LISTENER}plain.sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule required {users};",
        f"{LISTENER}scram-sha-256.sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required;",
        f"{LISTENER}ssl.keystore.type": "PKCS12",
        f"{LISTENER}ssl.keystore.location": str(made.folder / "server.p12"),
        f"{LISTENER}ssl.keystore.password": made.store_password,
        f"{LISTENER}ssl.key.password": made.store_password,
    }
    kafka = TlsKafka(transaction_version=version, properties=properties)
    with kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for created in admin.create_topics([NewTopic("orders", 1, 1)]).values():
            created.result()
        told: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(
                user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), password.encode()
            )
            for user, password in USERS.items()
        ]
        for altered in admin.alter_user_scram_credentials(told).values():
            altered.result()
        yield Secured(kafka.bootstrap, f"127.0.0.1:{kafka.secured_port}", made)


RIGHTS = {
    "topics": (ResourceType.TOPIC, "*", AclOperation.READ),
    "orders": (ResourceType.TOPIC, "orders", AclOperation.READ),
    "coordinators": (ResourceType.TOPIC, "__transaction_state", AclOperation.READ),
    "ids": (ResourceType.TRANSACTIONAL_ID, "*", AclOperation.DESCRIBE),
    "shop": (ResourceType.TRANSACTIONAL_ID, "shop", AclOperation.DESCRIBE),
}


def _acl(right: str, *, denied: bool = False) -> AclBinding:
    kind, name, operation = RIGHTS[right]
    permission = AclPermissionType.DENY if denied else AclPermissionType.ALLOW
    return AclBinding(kind, name, ResourcePatternType.LITERAL, "User:bob", "*", operation, permission)


def give(secured: Secured, *rights: str, denied: bool = False) -> None:
    """Give bob these rights, or deny them."""
    admin = AdminClient({"bootstrap.servers": secured.plain})
    for made in admin.create_acls([_acl(right, denied=denied) for right in rights]).values():
        made.result()


def take(secured: Secured, *rights: str, denied: bool = False) -> None:
    """The reverse."""
    admin = AdminClient({"bootstrap.servers": secured.plain})
    filters = []
    for right in rights:
        one = _acl(right, denied=denied)
        filters.append(
            AclBindingFilter(
                one.restype, one.name, one.resource_pattern_type, one.principal, one.host, one.operation,
                one.permission_type,
            )
        )  # fmt: skip
    for deleted in admin.delete_acls(filters).values():
        deleted.result()
