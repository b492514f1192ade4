"""Listeners with TLS, over real sockets and by real clients."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from odradek.cli.usage import UsageError
from odradek.host.call import Call
from odradek.net.certs import make_certificates
from odradek.net.client import BlockingClient
from odradek.testing import ApiKey, Cluster, rule
from odradek.wire.messages.describe_cluster_request import DescribeClusterRequest
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.metadata_request import MetadataRequest

pytestmark = pytest.mark.slow

HOST = "127.0.0.1"
PEM = serialization.Encoding.PEM


def pem(folder: Path) -> dict[str, object]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
    }


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("certs") / "made"
    make_certificates(folder, clients=["client", "other"])
    return folder


def roundtrip(settings: dict[str, Any]) -> bytes | None:
    """Produce and consume a record, with confluent-kafka."""
    producer = Producer(settings)
    producer.produce("t", b"hello")
    assert 0 == producer.flush(20)
    consumer = Consumer(settings | {"group.id": "g", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["t"])
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        value = message.value()
        assert value is None or isinstance(value, bytes)
        return value
    finally:
        consumer.close()


def test_one_word_sets_it_all_up() -> None:
    with Cluster(security="ssl", topics=["t"]) as cluster:
        assert b"hello" == roundtrip(cluster.access.librdkafka)
        folder = Path(cluster.access.librdkafka["ssl.ca.location"]).parent
        assert 0 == folder.stat().st_mode & 0o077
        assert 0 == (folder / "server.pem").stat().st_mode & 0o077


async def test_another_client_in_the_loop_of_the_test(certs: Path) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    context = ssl.create_default_context(cafile=str(certs / "ca.pem"))
    async with Cluster(security="ssl", certs=certs, topics=["t"]) as cluster:
        common: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap,
            "security_protocol": "SSL",
            "ssl_context": context,
        }
        async with AIOKafkaProducer(**common) as producer:
            await producer.send_and_wait("t", b"x" * 3_00_000)
        async with AIOKafkaConsumer("t", auto_offset_reset="earliest", **common) as consumer:
            assert 300_000 == len((await consumer.getone()).value)


def test_each_listener_tells_its_own_addresses(certs: Path) -> None:
    config = {
        "listeners": f"INSIDE://{HOST}:0,OUTSIDE://{HOST}:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SSL",
        "advertised.listeners": "OUTSIDE://localhost:0",
        **pem(certs),
    }
    with Cluster(brokers=2, config=config, topics=["t"]) as cluster:
        inside, outside = cluster.bootstrap_of("INSIDE"), cluster.bootstrap_of("OUTSIDE")
        assert inside == cluster.bootstrap
        assert not set(inside.split(",")) & set(outside.split(","))
        with pytest.raises(LookupError, match="the listeners are INSIDE, OUTSIDE"):
            cluster.bootstrap_of("SSL")
        with BlockingClient(inside.split(",")[0], client_id="c") as client:
            told = client.ask(MetadataRequest(topics=[]), 12)
            cluster_told = client.ask(DescribeClusterRequest(), 1)
            found = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4).coordinators[0]
        assert set(inside.split(",")) == {f"{broker.host}:{broker.port}" for broker in told.brokers}
        assert set(inside.split(",")) == {f"{broker.host}:{broker.port}" for broker in cluster_told.brokers}
        assert f"{found.host}:{found.port}" in inside
        admin = AdminClient(
            {"bootstrap.servers": outside, "security.protocol": "SSL", "ssl.ca.location": str(certs / "ca.pem")}
        )
        seen = admin.list_topics(timeout=20).brokers.values()
        assert set(outside.split(",")) == {f"{broker.host}:{broker.port}" for broker in seen}
        assert all(broker.host == "localhost" for broker in seen)


def test_a_broker_comes_back_with_all_of_its_listeners(certs: Path) -> None:
    config = {"listeners": f"PLAINTEXT://{HOST}:0,SSL://{HOST}:0", **pem(certs)}
    with Cluster(brokers=2, config=config, topics=["t:1:2"]) as cluster:
        cluster.stop_broker(1)
        cluster.start_broker(1)
        assert b"hello" == roundtrip(
            {
                "bootstrap.servers": cluster.bootstrap_of("SSL").split(",")[0],
                "security.protocol": "SSL",
                "ssl.ca.location": str(certs / "ca.pem"),
            }
        )


def principal_of(cluster: Cluster, settings: dict[str, Any]) -> str:
    """Whom the broker takes the client for."""
    principals: set[str] = set()

    def see(call: Call) -> bool:
        principals.add(str(call.peer.principal))
        return False

    watching = cluster.add_rule(rule(ApiKey.METADATA, matches=see))
    AdminClient(settings).list_topics(timeout=20)
    cluster.remove_rule(watching)
    [only] = principals
    return only


def test_who_shows_a_certificate_is_known_by_it(certs: Path) -> None:
    rules = {"ssl.principal.mapping.rules": "RULE:^CN=other$/somebody/,DEFAULT"}
    for client, expected in (("client", "User:CN=client"), ("other", "User:somebody"), (None, "User:ANONYMOUS")):
        with Cluster(security="ssl", certs=certs, config=rules) as cluster:
            settings = {**cluster.access.librdkafka}
            for key in ("ssl.certificate.location", "ssl.key.location"):
                settings.pop(key) if client is None else settings.update({key: str(certs / f"{client}.pem")})
            assert expected == principal_of(cluster, settings)


class Lines:
    """A logger that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, object]]] = []

    def debug(self, event: str, **fields: object) -> None: ...
    def info(self, event: str, **fields: object) -> None: ...
    def error(self, event: str, **fields: object) -> None:
        self.lines.append((event, fields))

    warning = error


def test_who_must_show_a_certificate_and_has_none_is_told_so_in_the_log(certs: Path) -> None:
    lines = Lines()
    config = {"ssl.client.auth": "required"}
    with Cluster(security="ssl", certs=certs, config=config, log=lines) as cluster:
        settings: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap, "security.protocol": "SSL"}
        with pytest.raises(KafkaException):
            AdminClient(settings | {"ssl.ca.location": str(certs / "ca.pem")}).list_topics(timeout=2)
        assert "User:CN=client" == principal_of(cluster, {**cluster.access.librdkafka})
    assert ("tls_handshake_failed", {"listener": "SSL", "reason": "PEER_DID_NOT_RETURN_A_CERTIFICATE"}) in lines.lines


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("shown", "alert"), [("stranger.pem", "UNKNOWN_CA"), (None, "(HANDSHAKE_FAILURE|CERTIFICATE_REQUIRED)")]
)
def test_whose_certificate_is_not_taken_is_told_so(
    certs: Path, tmp_path: Path, version: ssl.TLSVersion, shown: str | None, alert: str
) -> None:
    """By an alert, as by Java: a client of TLS 1.3, whose handshake is over by then, asks again and again without."""
    (tmp_path / "stranger.pem").write_text(self_signed("stranger"))
    context = ssl.create_default_context(cafile=certs / "ca.pem")
    context.minimum_version = context.maximum_version = version
    if shown is not None:
        context.load_cert_chain(tmp_path / shown)
    with Cluster(security="ssl", certs=certs, config={"ssl.client.auth": "required"}) as cluster:
        host, _, port = cluster.bootstrap.rpartition(":")
        raw = socket.create_connection((host, int(port)), 5)
        with pytest.raises(ssl.SSLError, match=alert), context.wrap_socket(raw, server_hostname=host) as encrypted:
            encrypted.recv(1)


def test_who_speaks_in_the_clear_is_told_so_in_the_log(certs: Path) -> None:
    lines = Lines()
    with (
        Cluster(security="ssl", certs=certs, log=lines) as cluster,
        BlockingClient(cluster.bootstrap, client_id="c") as client,
        pytest.raises(OSError),
    ):
        client.ask(MetadataRequest(topics=[]), 12)
    assert "tls_handshake_failed" == lines.lines[0][0]


def test_a_certificate_that_no_rule_maps_opens_nothing(certs: Path) -> None:
    lines = Lines()
    config = {"ssl.principal.mapping.rules": "RULE:^CN=nobody$/x/"}
    with Cluster(security="ssl", certs=certs, config=config, log=lines) as cluster, pytest.raises(KafkaException):
        AdminClient({**cluster.access.librdkafka}).list_topics(timeout=2)
    assert ("certificate_unmapped", {"node": 1, "listener": "SSL", "name": "CN=client"}) in lines.lines


KEEPS_ITS_CONNECTION = """
import socket, ssl, sys, threading, time
from odradek.testing import Cluster

def shake(raw):
    time.sleep(0.05)
    try:
        context.wrap_socket(raw).close()
    except OSError:
        raw.close()

with Cluster(security="ssl") as cluster:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, _, port = cluster.bootstrap.rpartition(":")
    kept = socket.create_connection((host, int(port)))
    if sys.argv[1] == "late":
        shaking = threading.Thread(target=shake, args=(kept,))
        shaking.start()
    else:
        kept = context.wrap_socket(kept)
if sys.argv[1] == "late":
    shaking.join()
kept.close()
"""


@pytest.mark.parametrize("handshake", ["done", "late"])
def test_a_client_that_keeps_its_connection_does_not_keep_the_cluster(handshake: str) -> None:
    """It never agrees to the end; a transport left open is a warning, and where warnings are errors uvloop waited."""
    command = [sys.executable, "-W", "error", "-c", KEEPS_ITS_CONNECTION, handshake]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (0, "") == (done.returncode, done.stderr)


def test_stores_of_java_and_pem_on_a_line(certs: Path) -> None:
    password = (certs / "password.txt").read_text()
    key, _, chain = (certs / "server.pem").read_text().partition("-----BEGIN CERTIFICATE")
    kinds: list[dict[str, object]] = [
        {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(certs / "server.p12"),
            "ssl.keystore.password": password,
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(certs / "truststore.p12"),
            "ssl.truststore.password": password,
        },
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": key.replace("\n", " "),
            "ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE" + chain.replace("\n", " "),
            "ssl.truststore.certificates": (certs / "ca.pem").read_text().replace("\n", " "),
        },
    ]
    for kind in kinds:
        with Cluster(config={"listeners": f"SSL://{HOST}:0", "ssl.client.auth": "required", **kind}) as cluster:
            own = str(certs / "client.pem")
            settings = {
                "bootstrap.servers": cluster.bootstrap,
                "security.protocol": "SSL",
                "ssl.ca.location": str(certs / "ca.pem"),
                "ssl.certificate.location": own,
                "ssl.key.location": own,
            }
            assert "User:CN=client" == principal_of(cluster, settings)


def self_signed(name: str) -> str:
    """A certificate that vouches for itself, and its key, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    called = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder().subject_name(called).issuer_name(called).public_key(key.public_key())
    begins = datetime.now(tz=UTC) - timedelta(days=1)
    builder = builder.not_valid_before(begins).not_valid_after(begins + timedelta(days=30))
    made = builder.serial_number(x509.random_serial_number()).sign(key, hashes.SHA256())
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return (made.public_bytes(PEM) + key.private_bytes(PEM, *form)).decode()


def test_each_of_the_trusted_certificates_is_trusted_whatever_names_they_share(certs: Path, tmp_path: Path) -> None:
    """As Java does with a truststore that holds the certificates of its clients themselves, and no authority."""
    clients = [self_signed("localhost") for _ in range(3)]
    trusted = "".join(each[: each.index("-----BEGIN PRIVATE")] for each in clients)
    (tmp_path / "trusted.pem").write_text(trusted)
    config = {**pem(certs), "ssl.truststore.location": str(tmp_path / "trusted.pem")}
    with Cluster(config={"listeners": f"SSL://{HOST}:0", "ssl.client.auth": "required", **config}) as cluster:
        for index, each in enumerate(clients):
            own = tmp_path / f"{index}.pem"
            own.write_text(each)
            context = ssl.create_default_context(cafile=str(certs / "ca.pem"))
            context.load_cert_chain(own)
            with BlockingClient(cluster.bootstrap, client_id="c", tls=context) as client:
                assert client.ask(MetadataRequest(topics=[]), 12).cluster_id


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "Listener SSL needs a certificate"),
        ({"ssl.keystore.location": "nowhere.pem"}, "cannot be read: No such file or directory."),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.location": "password.txt"}, "is not in PEM format."),
        ({"ssl.keystore.location": "password.txt", "ssl.keystore.password": "hush"}, "is not a JKS store"),
        ({"ssl.keystore.key": "hush"}, "needs both ssl.keystore.certificate.chain and ssl.keystore.key"),
        (
            {"ssl.keystore.key": "hush", "ssl.keystore.certificate.chain": "x"},
            "The certificate of listener SSL cannot be read from ssl.keystore.key and",
        ),
        ({"ssl.client.auth": "required", "ssl.keystore.location": "server.pem"}, "asks for certificates of clients"),
        ({"ssl.principal.mapping.rules": "x", "ssl.keystore.location": "server.pem"}, "cannot be read from 'x' on."),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence_without_secrets(
    certs: Path, settings: dict[str, str], sentence: str
) -> None:
    told = {key: str(certs / value) if key.endswith("location") else value for key, value in settings.items()}
    with pytest.raises(UsageError) as caught, Cluster(config={"listeners": f"SSL://{HOST}:0", **told}):
        pass
    assert sentence in str(caught.value)
    assert "hush" not in str(caught.value)


def test_java_reads_the_stores(certs: Path) -> None:
    password = (certs / "password.txt").read_text()
    for store, entry in (("truststore.p12", "trustedCertEntry"), ("client.p12", "PrivateKeyEntry")):
        done = subprocess.run(
            ["keytool", "-list", "-keystore", str(certs / store), "-storepass", password],
            capture_output=True,
            text=True,
            check=True,
        )
        assert entry in done.stdout


def test_certificates_are_read_again(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    make_certificates(first)
    make_certificates(second)
    used = tmp_path / "server.pem"
    used.write_bytes((first / "server.pem").read_bytes())
    config = {**pem(first), "listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": str(used)}

    def shown(cluster: Cluster, trusted: Path) -> bool:
        host, _, port = cluster.bootstrap.rpartition(":")
        context = ssl.create_default_context(cafile=str(trusted / "ca.pem"))
        try:
            with socket.create_connection((host, int(port))) as plain, context.wrap_socket(plain, server_hostname=host):
                return True
        except ssl.SSLCertVerificationError:
            return False

    with Cluster(config=config) as cluster:
        used.write_bytes((second / "server.pem").read_bytes())
        assert (True, False) == (shown(cluster, first), shown(cluster, second))
        cluster.reload_certificates()
        assert (False, True) == (shown(cluster, first), shown(cluster, second))
        mark = b"-----BEGIN CERTIFICATE-----"
        parts = [(folder / "server.pem").read_bytes().partition(mark) for folder in (first, second)]
        for unusable in (b"no certificate", parts[1][0] + mark + parts[0][2]):
            used.write_bytes(unusable)
            with pytest.raises(UsageError):
                cluster.reload_certificates()
            assert shown(cluster, second)
