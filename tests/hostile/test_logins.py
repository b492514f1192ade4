"""Clients that mean no good, before they are let in: cut short, too long, too early, never ending."""

from __future__ import annotations

import json
import random
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.security.wire import CLIENT_NONCE, Raw, client_first, plain

from odradek.host.router import Router
from odradek.net.certs import make_certificates
from odradek.testing import Cluster
from odradek.wire import registry
from odradek.wire.messages.request_header import RequestHeader
from odradek.wire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from odradek.wire.messages.sasl_handshake_request import SaslHandshakeRequest
from odradek.wire.registry import ApiKey

pytestmark = pytest.mark.slow

SECRET = "hunter2-hunter2"
USERS = {"alice": SECRET}
NO_DELAY = {"connection.failed.authentication.delay.ms": 0}
BEFORE_LOGIN = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE})
VERSIONS = {api_key: (lowest, highest) for api_key, lowest, highest in Router(tells_all=True).ranges()}
TIMEOUT_S = 10


class Everything:
    """A logger that keeps all that it is told, as text."""

    def __init__(self) -> None:
        self.text = ""

    def debug(self, event: str, **fields: object) -> None:
        self.text += f"{event} {fields}\n"

    info = warning = error = debug


@pytest.fixture(scope="module")
def log() -> Everything:
    return Everything()


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("certs") / "made"
    make_certificates(folder)
    return folder


@pytest.fixture(scope="module")
def cluster(log: Everything, certs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    events = tmp_path_factory.mktemp("events") / "events.jsonl"
    with Cluster(
        security="sasl-plaintext", users=USERS, config=NO_DELAY, log=log, log_level="debug", events=events
    ) as made:
        yield made


def address(cluster: Cluster) -> tuple[str, int]:
    host, _, port = cluster.bootstrap.rpartition(":")
    return host, int(port)


def alive(cluster: Cluster) -> None:
    with Raw(address(cluster)) as raw:
        assert 0 == raw.scram("SCRAM-SHA-256", "alice", SECRET).error_code


def request(api_key: ApiKey, version: int, body: bytes) -> bytes:
    header = RequestHeader(int(api_key), version, 1, "c")
    message = registry.encode(header, registry.request_header_version(api_key, version)) + body
    return len(message).to_bytes(4) + message


HELLO = request(ApiKey.SASL_HANDSHAKE, 1, registry.encode(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1))
FIRST = request(
    ApiKey.SASL_AUTHENTICATE, 2, registry.encode(SaslAuthenticateRequest(auth_bytes=client_first("alice")), 2)
)


def test_a_login_that_is_cut_at_each_byte(cluster: Cluster) -> None:
    whole = HELLO + FIRST
    for size in range(len(whole)):
        with Raw(address(cluster)) as raw:
            raw.send(whole[:size])
    alive(cluster)


def test_a_login_byte_by_byte(cluster: Cluster) -> None:
    with socket.create_connection(address(cluster), timeout=TIMEOUT_S) as connection:
        for byte in HELLO + FIRST:
            connection.sendall(bytes((byte,)))
        stream = connection.makefile("rb")
        for _ in range(2):
            assert stream.read(int.from_bytes(stream.read(4)))


@pytest.mark.parametrize("api_key", sorted(VERSIONS.keys() - BEFORE_LOGIN))
def test_no_request_is_served_before_a_login(cluster: Cluster, api_key: ApiKey) -> None:
    for version in VERSIONS[api_key]:
        empty = registry.encode(registry.request_type(api_key)(), version)
        with Raw(address(cluster)) as raw:
            raw.send(request(api_key, version, empty))
            assert raw.read() is None


@pytest.mark.parametrize("size", [524_289, 2**31 - 1, -1, -(2**31)])
def test_a_token_that_is_too_long_is_not_even_read(cluster: Cluster, size: int) -> None:
    with Raw(address(cluster)) as raw:
        raw.handshake("PLAIN")
        raw.send(size.to_bytes(4, signed=True))
        assert raw.read() is None


def test_who_is_in_may_send_more_than_a_token(cluster: Cluster) -> None:
    from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic

    names = [MetadataRequestTopic(name=f"{'x' * 240}{number}") for number in range(4000)]
    with Raw(address(cluster)) as raw:
        raw.handshake("PLAIN")
        raw.authenticate(plain("alice", SECRET))
        request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        assert len(registry.encode(request, 9)) > 524_288
        assert 4000 == len(raw.ask(request, 9).topics)


@pytest.mark.parametrize(
    "mechanism", ["", "plain", "PLAIN\0", "PLAIN,SCRAM-SHA-256", "x" * 32_000, "GSSAPI", "OAUTHBEARER"]
)
def test_no_other_mechanism(cluster: Cluster, mechanism: str) -> None:
    with Raw(address(cluster)) as raw:
        assert 33 == raw.handshake(mechanism).error_code
        assert raw.read() is None


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_tokens_of_noise(cluster: Cluster, mechanism: str) -> None:
    dice = random.Random(7)
    for _ in range(50):
        said = dice.randbytes(dice.choice((0, 1, 40, 3000)))
        with Raw(address(cluster)) as raw:
            raw.handshake(mechanism)
            assert 58 == raw.authenticate(said).error_code
            assert raw.read() is None
    alive(cluster)


@pytest.mark.parametrize(
    "final",
    [
        b"",
        b"c=biws",
        b"c=biws,r=NONCE,p=",
        b"c=biws,r=NONCE,p=####",
        b"c=biws,r=NONCE,p=AAAA",
        b"c=AAAA,r=NONCE,p=" + b"A" * 43 + b"=",
        b"c=biws,r=NONCE,p=" + b"A" * 43 + b"=",
        b"c=biws,r=NONCE,x=" + b"y," * 100_000 + b"p=" + b"A" * 43 + b"=",
        b"c=biws,r=" + CLIENT_NONCE.encode() + b",p=" + b"A" * 43 + b"=",
        b"\xff\xfe",
    ],
)
def test_proofs_that_are_none(cluster: Cluster, final: bytes) -> None:
    with Raw(address(cluster)) as raw:
        raw.handshake("SCRAM-SHA-256")
        first = raw.authenticate(client_first("alice"))
        nonce = bytes(first.auth_bytes).split(b",")[0][2:]
        assert nonce.startswith(CLIENT_NONCE.encode())
        assert 58 == raw.authenticate(final.replace(b"NONCE", nonce)).error_code
        assert raw.read() is None


@pytest.mark.parametrize(
    "first",
    [
        "y,,n=alice,r=NONCE",
        "p=tls-unique,,n=alice,r=NONCE",
        "n,a=bob,n=alice,r=NONCE",
        "n,,n=alice,r=",
        "n,,n=alice,r=a,b",
        "n,,n=alice,r=NONCE,",
        "n,,n=alice,r=NONCE,tokenauth=true",
        "n,,r=NONCE,n=alice",
        "n,,n=,r=NONCE",
        "n,,n=ali=2cce,r=NONCE",
        "n,,n=Alice,r=NONCE",
        "n,,n=ALICE,r=NONCE",
        "n,,n=\uff41lice,r=NONCE",
        "n,,n=alice\u200b,r=NONCE",
        "n,,n=alice\n,r=NONCE",
        "n,,n=alice\0,r=NONCE",
    ],
)
def test_first_messages_that_lead_nowhere(cluster: Cluster, first: str) -> None:
    with Raw(address(cluster)) as raw:
        raw.handshake("SCRAM-SHA-256")
        assert 58 == raw.authenticate(first.replace("NONCE", CLIENT_NONCE).encode()).error_code
        assert raw.read() is None


@pytest.mark.parametrize(
    "said",
    [
        plain("\uff41lice", SECRET),
        plain("Alice", SECRET),
        plain("alice ", SECRET),
        plain("\ufeffalice", SECRET),
        plain("alice", SECRET, "bob"),
        plain("alice", f"{SECRET}\0"),
        plain("alice", ""),
        plain("", SECRET),
        b"\0\xc1\xa1lice\0" + SECRET.encode(),
        b"alice\0" + SECRET.encode(),
    ],
)
def test_names_that_only_look_alike(cluster: Cluster, said: bytes) -> None:
    with Raw(address(cluster)) as raw:
        raw.handshake("PLAIN")
        assert 58 == raw.authenticate(said).error_code


def test_no_nonce_comes_twice(cluster: Cluster) -> None:
    nonces = set()
    for _ in range(20):
        with Raw(address(cluster)) as raw:
            raw.handshake("SCRAM-SHA-256")
            nonces.add(bytes(raw.authenticate(client_first("alice")).auth_bytes).split(b",")[0])
    assert 20 == len(nonces)


def test_a_principal_does_not_change(cluster: Cluster) -> None:
    with Raw(address(cluster)) as raw:
        raw.handshake("PLAIN")
        raw.authenticate(plain("alice", SECRET))
        raw.handshake("SCRAM-SHA-256")
        assert raw.authenticate(client_first("alice")) is None


def test_many_who_say_nothing_hold_up_nobody(cluster: Cluster) -> None:
    silent = [socket.create_connection(address(cluster), timeout=TIMEOUT_S) for _ in range(500)]
    try:
        alive(cluster)
    finally:
        for connection in silent:
            connection.close()


def test_a_handshake_of_tls_that_is_cut_at_each_byte(certs: Path) -> None:
    with Cluster(security="sasl-ssl", certs=certs, users=USERS, config=NO_DELAY) as cluster:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=str(certs / "ca.pem"))
        client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        hello = outgoing.read()
        for size in range(len(hello)):
            with socket.create_connection(address(cluster), timeout=TIMEOUT_S) as connection:
                connection.sendall(hello[:size])
        for noise in (b"GET / HTTP/1.1\r\n\r\n", HELLO, b"\x16\x03\x01\xff\xff" + bytes(100)):
            with socket.create_connection(address(cluster), timeout=TIMEOUT_S) as connection:
                connection.sendall(noise)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass
        silent = [socket.create_connection(address(cluster), timeout=TIMEOUT_S) for _ in range(500)]
        with (
            socket.create_connection(address(cluster), timeout=TIMEOUT_S) as connection,
            context.wrap_socket(connection, server_hostname="localhost") as secured,
            secured.makefile("rb") as stream,
        ):
            secured.sendall(HELLO)
            assert stream.read(int.from_bytes(stream.read(4)))
        for each in silent:
            each.close()


def test_old_versions_of_tls_are_refused(certs: Path) -> None:
    with Cluster(security="ssl", certs=certs, config={"ssl.enabled.protocols": "TLSv1.3"}) as cluster:
        context = ssl.create_default_context(cafile=str(certs / "ca.pem"))
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with (
            socket.create_connection(address(cluster), timeout=TIMEOUT_S) as connection,
            pytest.raises(ssl.SSLError),
        ):
            context.wrap_socket(connection, server_hostname="localhost")


def test_secrets_are_told_to_nobody(tmp_path: Path) -> None:
    """Passwords, tokens and what is kept of them stand in no line of the log, in no event, metric or config."""
    from odradek.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource

    log, events = Everything(), tmp_path / "events.jsonl"
    jaas = f'a.PlainLoginModule required user_carol="{SECRET}";'
    config = {**NO_DELAY, "sasl.jaas.config": jaas, "ssl.keystore.password": SECRET}
    with Cluster(
        security="sasl-plaintext", users=USERS, config=config, log=log, log_level="debug", events=events
    ) as cluster:
        told = []
        for user, password in (("alice", SECRET), ("alice", f"{SECRET}x"), ("carol", SECRET), ("nobody", SECRET)):
            for mechanism in ("PLAIN", "SCRAM-SHA-256"):
                with Raw(address(cluster)) as raw:
                    if mechanism == "PLAIN":
                        raw.handshake(mechanism)
                        raw.authenticate(plain(user, password))
                    else:
                        raw.scram(mechanism, user, password)
                    told += raw.lines
        with Raw(address(cluster)) as raw:
            raw.handshake("PLAIN")
            raw.authenticate(plain("alice", SECRET))
            shown = raw.ask(
                DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=4, resource_name="1")]), 4
            )
            raw.send(b"\x00\x00\x00\x14" + SECRET.encode()[:15] + b"xxxxx")
            raw.read()
        assert shown.results[0].configs
        credential = cluster._running.node(1).image.scram["alice", 1]
        images = repr(credential)
        metrics = json.dumps(cluster.metrics())
    everything = log.text + events.read_text() + repr(shown) + metrics + images + "\n".join(told)
    assert "login_failed" in everything
    assert SECRET not in everything
    assert credential.stored_key.hex() not in everything
    assert repr(credential.stored_key) not in everything
