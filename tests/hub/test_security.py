"""Clusters of a hub that clients have to get into, and what `odradek ctl` says of it."""

from __future__ import annotations

import json
import re
import shutil
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from tests.hub.helpers import HubBeside, made, refused
from tests.hub.test_command import running
from tests.hub.test_ctl import Ctl, ctl

from odradek.control.client import HubClient
from odradek.net.certs import make_certificates

pytestmark = pytest.mark.slow
__all__ = ["ctl"]


def sends(settings: dict[str, str]) -> bool:
    """Whether a producer with these settings, and no file, gets a record in."""
    producer = Producer({**settings, "message.timeout.ms": 20_000})
    producer.produce("t", b"x")
    return producer.flush(20) == 0


@pytest.mark.parametrize("security", ["ssl", "sasl-plaintext", "sasl-ssl"])
def test_the_answer_says_how_a_client_gets_in(hub: HubClient, security: str) -> None:
    cluster = hub.post("clusters", body={"security": security, "topics": ["t"]})
    access = cluster["access"]
    assert security.upper().replace("-", "_") == access["protocol"]
    assert sends(access["librdkafka"])
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": cluster["bootstrap"]}).list_topics(timeout=1)

    again = hub.post("clusters", cluster["id"], "reset")
    assert access == again["access"]
    assert [access] == [each["access"] for each in hub.get("clusters")]
    assert sends(access["librdkafka"])


def test_users_are_those_that_are_given(hub: HubClient) -> None:
    users = {"alice": "a:secret", "bob": "hush"}
    access = hub.post("clusters", body={"security": "sasl-ssl", "users": users, "topics": ["t"]})["access"]
    assert users == access["users"]
    assert sends(access["librdkafka"] | {"sasl.username": "bob", "sasl.password": "hush"})
    with pytest.raises(KafkaException):
        AdminClient(access["librdkafka"] | {"sasl.password": "wrong"}).list_topics(timeout=2)


def test_java_is_told_certificates_as_text(hub: HubClient) -> None:
    told = hub.post("clusters", body={"security": "ssl"})["access"]["java"]
    assert "PEM" == told["ssl.truststore.type"] == told["ssl.keystore.type"]
    assert told["ssl.truststore.certificates"].startswith("-----BEGIN CERTIFICATE-----")
    assert told["ssl.keystore.key"].startswith("-----BEGIN PRIVATE KEY-----")
    assert told["ssl.keystore.certificate.chain"].startswith("-----BEGIN CERTIFICATE-----")
    assert not [key for key in told if key.endswith("location")]


def test_a_certificate_is_good_for_the_host_that_clients_are_told(hub: HubClient) -> None:
    cluster = hub.post("clusters", body={"security": "ssl", "advertised_host": "kafka.test"})
    port = cluster["brokers"][0]["port"]
    context = ssl.create_default_context(cadata=cluster["access"]["ca"])
    with (
        socket.create_connection(("127.0.0.1", port), 10) as plain,
        context.wrap_socket(plain, server_hostname="kafka.test") as encrypted,
    ):
        assert encrypted.getpeercert()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"security": "tls"}, "There is no security tls: it is one of plaintext, ssl, sasl-plaintext, sasl-ssl."),
        ({"security": "ssl", "users": {"a": "b"}}, "With ssl nobody logs in, so that users are of no use."),
        ({"users": {"a": "b"}}, "Users go with security: sasl-plaintext or sasl-ssl."),
        ({"security": "sasl-ssl", "users": {"a,b": "c"}}, "The name of a user has at least one character"),
        ({"security": "sasl-ssl", "users": {"a": "b,c:d"}}, "A password has at least one character, and no comma."),
    ],
)
def test_what_cannot_be(hub: HubClient, body: dict[str, Any], expected: str) -> None:
    status, problem = refused(lambda: hub.post("clusters", body=body))
    assert 400 == status
    assert expected in problem["detail"]
    assert [] == hub.get("clusters")


def test_what_was_made_for_a_cluster_goes_with_it(beside: HubBeside, hub: HubClient) -> None:
    cluster = hub.post("clusters", body={"security": "ssl"})["id"]
    config = beside.within(lambda: beside.hub.get(cluster).running.config)
    folder = Path(str(config.security("SSL").ssl_keystore_location)).parent
    assert folder.exists()
    hub.delete("clusters", cluster)
    assert not folder.exists()


def test_certificates_are_read_again(hub: HubClient, tmp_path: Path) -> None:
    make_certificates(tmp_path / "own")
    config = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "own" / "server.pem"),
    }
    cluster, bootstrap = made(hub, config=config)
    host, _, port = bootstrap.rpartition(":")

    def shown() -> str:
        return ssl.get_server_certificate((host, int(port)))

    before = shown()
    make_certificates(tmp_path / "next")
    shutil.copy(tmp_path / "next" / "server.pem", tmp_path / "own" / "server.pem")
    assert before == shown()
    hub.post("clusters", cluster, "certificates", "reload")
    after = shown()
    assert before != after

    (tmp_path / "own" / "server.pem").write_text("nothing")
    status, problem = refused(lambda: hub.post("clusters", cluster, "certificates", "reload"))
    assert 409 == status
    assert "server.pem is not in PEM format" in problem["detail"]
    assert after == shown()

    def altered(name: str) -> dict[str, object]:
        return {"broker": 1, "configs": {"listener.name.ssl.ssl.keystore.location": str(tmp_path / name)}}

    status, problem = refused(lambda: hub.post("clusters", cluster, "config", body=altered("absent.pem")))
    assert 400 <= status < 500
    assert "Failed to load PEM SSL keystore" in problem["detail"]
    assert after == shown()
    shutil.copy(tmp_path / "next" / "server.pem", tmp_path / "third.pem")
    hub.post("clusters", cluster, "config", body=altered("third.pem"))
    assert after == shown()


def test_clients_are_told_another_address(hub: HubClient) -> None:
    cluster, bootstrap = made(hub, brokers=2)
    brokers = hub.post("clusters", cluster, "brokers", 2, "advertise", body={"port": 19_092, "host": "kafka.test"})
    assert [("127.0.0.1", int(bootstrap.split(",")[0].rpartition(":")[2])), ("kafka.test", 19_092)] == [
        (each["host"], each["port"]) for each in brokers
    ]
    seen: dict[int, Any] = {**AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20).brokers}
    assert ("kafka.test", 19_092) == (seen[2].host, seen[2].port)
    status, problem = refused(lambda: hub.post("clusters", cluster, "brokers", 1, "advertise", body={"port": 70_000}))
    assert (400, "$.port") == (status, problem["field"])
    body = {"port": 1, "listener": "X"}
    status, problem = refused(lambda: hub.post("clusters", cluster, "brokers", 1, "advertise", body=body))
    assert (404, "There is no listener X: the listeners are PLAINTEXT.") == (status, problem["detail"])
    assert 404 == refused(lambda: hub.post("clusters", cluster, "brokers", 3, "advertise", body={"port": 1}))[0]


def test_a_reset_keeps_the_addresses_that_clients_are_told(hub: HubClient) -> None:
    """The ports of a container stay mapped as they are."""
    cluster, bootstrap = made(hub, brokers=2)
    own = bootstrap.split(",")[0]
    hub.post("clusters", cluster, "brokers", 2, "advertise", body={"port": 19_092, "host": "kafka.test"})
    hub.post("clusters", cluster, "brokers", 2, "stop")
    assert f"{own},kafka.test:19092" == hub.post("clusters", cluster, "reset")["bootstrap"]
    seen: dict[int, Any] = {**AdminClient({"bootstrap.servers": own}).list_topics(timeout=20).brokers}
    assert ("kafka.test", 19_092) == (seen[2].host, seen[2].port)


def test_a_hub_with_one_cluster_says_it_too() -> None:
    words = ("serve", "--security", "sasl-ssl", "--user", "alice:hush", "--topic", "t", "--port", "0", "--control", "0")
    with running(*words) as (process, line):
        assert process.stderr is not None
        url = next(found[1] for text in process.stderr if (found := re.search(r"control_served.*url=(\S+)", text)))
        [cluster] = HubClient(url).get("clusters")
        assert {"alice": "hush"} == cluster["access"]["users"]
        assert line.endswith(cluster["bootstrap"])
        assert sends(cluster["access"]["librdkafka"])


def test_at_the_command_line(ctl: Ctl, hub: HubClient) -> None:
    ctl("make", "--security", "sasl-ssl", "--user", "alice:a:b", "--topic", "t", "--id", "mine")
    settings = json.loads(ctl("access", "librdkafka"))
    assert ("alice", "a:b") == (settings["sasl.username"], settings["sasl.password"])
    assert sends(settings)
    assert "ScramLoginModule" in json.loads(ctl("access", "java"))["sasl.jaas.config"]
    ctl("reload-certificates")
    assert "kafka.test  19092" in ctl("advertise", "1", "19092", "--host", "kafka.test")
    assert "kafka.test:19092" == hub.get("clusters", "mine")["bootstrap"]
    assert "kafka.test:19092" == json.loads(ctl("access", "java"))["bootstrap.servers"]


def test_without_security_the_bootstrap_is_all(ctl: Ctl) -> None:
    cluster = json.loads(ctl("make", "--json"))
    assert {"bootstrap.servers": cluster["bootstrap"]} == json.loads(ctl("access", "java"))
