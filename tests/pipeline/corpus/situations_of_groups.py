"""What healthy clusters keep of groups, users and limits beside the data of clients."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)
from tests.oracle.asking import ask
from tests.oracle.real_kafka import RealKafka, free_port
from tests.pipeline.corpus.kafkas import admin, create, done, launched, plain, started, stopped
from tests.pipeline.record_logs import java_transactions, tool, transactions

from odradek.wire.registry import ApiKey

__all__ = ["OF_GROUPS"]


def groups() -> list[RealKafka]:
    """Offsets committed inside and outside of transactions."""
    kafka = started(2)
    create(kafka, "orders", 3)
    create(kafka, "plain")
    plain(kafka, "plain", 10)
    transactions(kafka.bootstrap, "shop", count=6, copy_from="plain")
    options = {"bootstrap.servers": kafka.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer({**options, "isolation.level": "read_committed"})
    consumer.subscribe(["orders", "plain"])
    while consumer.poll(3) is not None:
        pass
    consumer.commit(asynchronous=False)
    consumer.close()
    return stopped(kafka)


def newer_groups() -> list[RealKafka]:
    """Groups of the consumer protocol (KIP-848), and credentials in the metadata log."""
    kafka = started(2)
    create(kafka, "orders", 3)
    create(kafka, "plain")
    plain(kafka, "plain", 10)
    java_transactions(kafka, "shop", 4, leave_open=False)
    credentials(kafka, "alice")
    options = {"bootstrap.servers": kafka.bootstrap, "group.id": "newer", "auto.offset.reset": "earliest"}
    consumer = Consumer({**options, "group.protocol": "consumer", "isolation.level": "read_committed"})
    consumer.subscribe(["orders", "plain"])
    deadline, polled = time.monotonic() + 90, 0
    while polled < 10 and time.monotonic() < deadline:
        polled += consumer.poll(1) is not None
    consumer.commit(asynchronous=False)
    consumer.close()
    return stopped(kafka)


def credentials(kafka: RealKafka, *users: str) -> None:
    """By SCRAM; the password of each is its name and `-secret`."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    told: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(user, info, f"{user}-secret".encode()) for user in users
    ]
    client = admin(kafka)
    done(client.alter_user_scram_credentials(told))


def asked(kafka: RealKafka, api: ApiKey, version: int, **fields: Any) -> Any:
    return ask(("127.0.0.1", kafka.port), api, version, fields)


class KafkaWithLogins(RealKafka):
    """With a second listener, for who logs in."""

    def addresses(self) -> dict[str, str]:
        self.login_port = free_port()
        told = f"PLAINTEXT://127.0.0.1:{self.port},SASL://127.0.0.1:{self.login_port}"
        return {
            **super().addresses(),
            "listeners": f"{told},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": told,
            "inter.broker.listener.name": "PLAINTEXT",
        }


def users_and_limits() -> list[RealKafka]:
    """Credentials by SCRAM, delegation tokens that live, are renewed and end, and limits of users and clients."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "delegation.token.secret.key": "a secret",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": f'{login} user_alice="alice-secret";',
    }
    kafka = launched(KafkaWithLogins, 2, properties)
    create(kafka, "orders", 3)
    java_transactions(kafka, "shop", 4, leave_open=False)
    credentials(kafka, "alice", "bob")
    settings = kafka.directory / "alice.properties"
    settings.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={login} username="alice" password="alice-secret";\n'
    )
    options = ["--bootstrap-server", f"127.0.0.1:{kafka.login_port}", "--command-config", str(settings)]
    for _ in range(2):
        said = tool(kafka, "DelegationTokenCommand", *options, "--create", "--max-life-time-period", "-1")
        assert "User:alice" in said, said
    limits: list[tuple[dict[str, str | None], str, float]] = [
        ({"user": "alice"}, "producer_byte_rate", 1e6),
        ({"client-id": None}, "request_percentage", 200.0),
    ]
    entries = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
            "ops": [{"key": key, "value": value, "remove": False}],
        }
        for entity, key, value in limits
    ]
    answer = asked(kafka, ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=entries, validate_only=False)
    assert [0, 0] == [one.error_code for one in answer.entries], answer
    transactions(kafka.bootstrap, "till", count=3)
    return stopped(kafka)


OF_GROUPS = (groups, newer_groups, users_and_limits)
