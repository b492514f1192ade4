"""Who alters certificates of a broker that runs: may they, what do they learn, and who hears their secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.hostile.test_logins import NO_DELAY, USERS, Everything, address
from tests.security.stores import PASSWORD, make_stores
from tests.security.wire import Raw, plain

from odradek.testing import Cluster
from odradek.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

pytestmark = pytest.mark.slow

PREFIX = "listener.name.tls.ssl."
BROKER, LOGGERS = 4, 8
CLUSTER_AUTHORIZATION_FAILED = 31


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("stores")
    make_stores(folder)
    return folder


class Kept:
    """An event sink that keeps everything as text."""

    def __init__(self) -> None:
        self.text = ""

    def emit(self, node_id: int, facts: Any) -> None:
        self.text += "".join(f"{fact}\n{fact.fields | fact.body}\n" for fact in facts)


@pytest.fixture
def heard() -> tuple[Everything, Kept]:
    return Everything(), Kept()


@pytest.fixture
def cluster(stores: Path, heard: tuple[Everything, Kept]) -> Iterator[Cluster]:
    config = {
        **NO_DELAY,
        "listeners": "LOGIN://127.0.0.1:0,TLS://127.0.0.1:0",
        "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT,TLS:SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "odradek.sasl.users": ",".join(f"{user}:{password}" for user, password in {**USERS, "bob": "bob-bob"}.items()),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:bob",
        "ssl.keystore.type": "PEM",
        f"{PREFIX}keystore.location": str(stores / "first.pem"),
    }
    log, events = heard
    with Cluster(config=config, log=log, log_level="debug", events=events) as made:
        yield made


def alter(raw: Raw, kind: int = BROKER, **values: str) -> tuple[int, str | None]:
    prefix = "" if kind == LOGGERS else PREFIX
    told = {prefix + name.replace("_", "."): value for name, value in values.items()}
    configs = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in told.items()]
    resource = AlterConfigsResource(resource_type=kind, resource_name="1", configs=configs)
    [answer] = raw.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    return answer.error_code, answer.error_message


def log_in(raw: Raw, user: str, password: str) -> None:
    raw.handshake("PLAIN")
    assert 0 == raw.authenticate(plain(user, password)).error_code


def test_who_may_not_alter_learns_of_no_file(cluster: Cluster, stores: Path) -> None:
    [(user, password), *_] = USERS.items()
    with Raw(address(cluster)) as raw:
        log_in(raw, user, password)
        answers = {
            alter(raw, keystore_location=path) for path in ("/etc/passwd", "/absent", str(stores / "renewed.pem"), "/")
        }
    [(error, _)] = answers
    assert CLUSTER_AUTHORIZATION_FAILED == error


def test_secrets_of_stores_are_told_to_nobody(cluster: Cluster, stores: Path, heard: tuple[Everything, Kept]) -> None:
    log, events = heard
    key = (stores / "only-key.pem").read_text()
    with Raw(address(cluster)) as raw:
        log_in(raw, "bob", "bob-bob")
        alter(raw, LOGGERS, kafka_request_logger="DEBUG")
        store = {"keystore_location": str(stores / "renewed.p12"), "keystore_type": "PKCS12"}
        answers = [
            alter(raw, BROKER, **store, keystore_password=PASSWORD),
            alter(raw, keystore_password="not-the-password"),
            alter(raw, keystore_key=key, keystore_certificate_chain=(stores / "only-certificate.pem").read_text()),
            alter(raw, keystore_location=str(stores / "only-key.pem"), keystore_type="PEM"),
        ]
        assert [0, 42, 42, 42] == [error for error, _ in answers]
        resource = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)
        raw.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4)
        told = "\n".join([*raw.lines, log.text, events.text, json.dumps(cluster.metrics()), str(answers)])
    assert "renewed.p12" in told
    for secret in (PASSWORD, "not-the-password", key.splitlines()[1], "bob-bob"):
        assert secret not in told
