"""Certificates that are altered while brokers run, beyond what `tests/security/stores.py` records of a real one."""

from __future__ import annotations

import os
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import admin as confluent_admin
from confluent_kafka.admin import AdminClient
from tests.hostile.test_logins import Everything
from tests.security.stores import PASSWORD, make_stores

from odradek.testing import Cluster

api: Any = confluent_admin
pytestmark = pytest.mark.slow

KEYSTORE, TRUSTSTORE = "listener.name.tls.ssl.keystore.location", "listener.name.tls.ssl.truststore.location"


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("stores")
    make_stores(folder)
    return folder


def config(stores: Path, **more: object) -> dict[str, object]:
    return {
        "listeners": "OPEN://127.0.0.1:0,TLS://127.0.0.1:0",
        "listener.security.protocol.map": "OPEN:PLAINTEXT,TLS:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        KEYSTORE: str(stores / "first.pem"),
        TRUSTSTORE: str(stores / "ca.pem"),
        **more,
    }


def alter(cluster: Cluster, key: str, value: str | Path, broker: int = 1) -> None:
    """By a client, over the listener that has no certificates."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_of("OPEN")})
    entry = api.ConfigEntry(key, str(value), incremental_operation=api.AlterConfigOpType.SET)
    resource = api.ConfigResource(api.ResourceType.BROKER, str(broker), incremental_configs=[entry])
    [altered] = admin.incremental_alter_configs([resource]).values()
    altered.result(20)


def anybody(client: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if client is not None:
        context.load_cert_chain(client)
    return context


def port(cluster: Cluster, broker: int = 1) -> int:
    return int(cluster.bootstrap_of("TLS").split(",")[broker - 1].rpartition(":")[2])


def shows(cluster: Cluster, broker: int = 1) -> str:
    address = ("127.0.0.1", port(cluster, broker))
    with socket.create_connection(address, timeout=10) as plain, anybody().wrap_socket(plain) as connection:
        return ssl.DER_cert_to_PEM_cert(connection.getpeercert(binary_form=True) or b"")


def held(file: Path) -> str:
    mark = "-----BEGIN CERTIFICATE-----"
    return mark + file.read_text().partition(mark)[2]


def test_each_broker_has_its_own(stores: Path) -> None:
    with Cluster(brokers=3, config=config(stores)) as cluster:
        alter(cluster, KEYSTORE, stores / "renewed.pem", broker=2)
        first, renewed = held(stores / "first.pem"), held(stores / "renewed.pem")
        assert [first, renewed, first] == [shows(cluster, broker) for broker in (1, 2, 3)]
        cluster.stop_broker(2)
        cluster.start_broker(2)
        assert renewed == shows(cluster, 2)


def test_a_session_does_not_outlive_the_trust_that_it_was_begun_with(stores: Path) -> None:
    with Cluster(config=config(stores, **{"ssl.client.auth": "required"})) as cluster:
        context = anybody(stores / "client.pem")
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        address = ("127.0.0.1", port(cluster))
        with socket.create_connection(address) as plain, context.wrap_socket(plain) as connection:
            session = connection.session
        with socket.create_connection(address) as plain, context.wrap_socket(plain, session=session) as connection:
            assert connection.session_reused
        alter(cluster, TRUSTSTORE, stores / "ca-of-stranger.pem")
        with socket.create_connection(address) as plain, pytest.raises(ssl.SSLError):
            context.wrap_socket(plain, session=session)


def test_keys_that_do_not_fit_are_refused(stores: Path) -> None:
    """Kafka takes them, and then nobody can connect."""
    odd = stores / "odd.pem"
    odd.write_bytes((stores / "first-key.pem").read_bytes() + (stores / "only-certificate.pem").read_bytes())
    with Cluster(config=config(stores)) as cluster:
        with pytest.raises(KafkaException, match="Failed to load PEM SSL keystore"):
            alter(cluster, KEYSTORE, odd)
        assert held(stores / "first.pem") == shows(cluster)


def test_a_key_that_is_locked(stores: Path) -> None:
    with Cluster(config=config(stores, **{"ssl.key.password": PASSWORD})) as cluster:
        alter(cluster, KEYSTORE, stores / "locked.pem")
        assert held(stores / "renewed.pem") == shows(cluster)


def test_what_is_no_ordinary_file_is_not_read(stores: Path) -> None:
    """A pipe would be waited for, and a device has no end; the broker serves all others meanwhile."""
    pipe, large = stores / "pipe", stores / "large.pem"
    if not pipe.exists():
        os.mkfifo(pipe)
    with large.open("wb") as file:
        file.truncate(1 << 40)
    with Cluster(config=config(stores)) as cluster:
        for path in (pipe, large, "/dev/zero", "with\0nothing"):
            for key in (KEYSTORE, TRUSTSTORE):
                with pytest.raises((KafkaException, ValueError)):
                    alter(cluster, key, path)
        assert held(stores / "first.pem") == shows(cluster)


def test_a_path_that_is_set_again_is_read_again(stores: Path, tmp_path: Path) -> None:
    used = tmp_path / "used.pem"
    used.write_bytes((stores / "first.pem").read_bytes())
    with Cluster(config=config(stores)) as cluster:
        alter(cluster, KEYSTORE, used)
        used.write_bytes((stores / "renewed.pem").read_bytes())
        assert held(stores / "first.pem") == shows(cluster)
        alter(cluster, KEYSTORE, used)
        assert held(stores / "renewed.pem") == shows(cluster)


def test_a_file_that_is_spoilt_later_changes_nothing(stores: Path, tmp_path: Path) -> None:
    """The log says so, and nothing of what is in it."""
    used = tmp_path / "used.pem"
    used.write_bytes((stores / "first.pem").read_bytes())
    log = Everything()
    with Cluster(config=config(stores, **{KEYSTORE: str(used)}), log=log) as cluster:
        used.write_text("-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n")
        alter(cluster, "log.retention.ms", "1000000")
        assert held(stores / "first.pem") == shows(cluster)
        [line] = [line for line in log.text.splitlines() if line.startswith("certificates_not_taken")]
        assert str(used) in line
        assert "c2VjcmV0" not in line
