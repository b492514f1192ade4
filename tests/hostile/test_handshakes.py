"""Handshakes that are slow, cut short, out of date, or of somebody else; and clients that are not to be heard."""

from __future__ import annotations

import resource
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from tests.hostile.test_logins import FIRST, HELLO, NO_DELAY, SECRET, TIMEOUT_S, USERS, Everything, address, alive
from tests.security.wire import Raw, plain

from odradek.net.certs import make_certificates
from odradek.net.cluster import HANDSHAKE_TIMEOUT_S
from odradek.testing import ApiKey, Cluster, rule
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.metadata_request import MetadataRequest

pytestmark = pytest.mark.slow

MANY = 1000
OLD_HELLO = bytes.fromhex("16030100310100002d0302") + bytes(32) + bytes.fromhex("000006002f00350005010000")
"""What a client says that knows TLS 1.1 at most."""
SSL_2_HELLO = bytes.fromhex("802e0100020015000000100100800200800300800400800500800600400700c0") + bytes(16)


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("certs") / "made"
    make_certificates(folder)
    return folder


@pytest.fixture(scope="module")
def log() -> Everything:
    return Everything()


@pytest.fixture(scope="module")
def cluster(log: Everything) -> Iterator[Cluster]:
    config = {**NO_DELAY, "connections.max.reauth.ms": 3_600_000}
    with Cluster(
        security="sasl-plaintext", users={**USERS, "bob": "bob-bob"}, config=config, log=log, log_level="debug"
    ) as made:
        yield made


@pytest.fixture(scope="module")
def secured(certs: Path) -> Iterator[Cluster]:
    with Cluster(security="sasl-ssl", certs=certs, users=USERS, config=NO_DELAY) as made:
        yield made


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for both ends of so many connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * MANY
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"only {hard} files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connected(cluster: Cluster) -> socket.socket:
    return socket.create_connection(address(cluster), timeout=TIMEOUT_S)


def logs_in(cluster: Cluster, certs: Path) -> None:
    """Somebody who means well is served."""
    context = ssl.create_default_context(cafile=str(certs / "ca.pem"))
    with (
        connected(cluster) as connection,
        context.wrap_socket(connection, server_hostname="localhost") as inside,
        inside.makefile("rb") as stream,
    ):
        for said in (HELLO, FIRST):
            inside.sendall(said)
            assert stream.read(int.from_bytes(stream.read(4)))


def ends(connection: socket.socket) -> bool:
    """Whether the broker hangs up, whatever it has to say before."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


# ---------------------------------------------------------------------- slow ones


def test_a_thousand_slow_logins(cluster: Cluster, many_files: None) -> None:
    """Each says a byte at a time, all in turn: none is over, and others log in meanwhile."""
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(cluster)) for _ in range(MANY)]
        for byte in (HELLO + FIRST)[:5]:
            for connection in slow:
                connection.sendall(bytes((byte,)))
            alive(cluster)
    alive(cluster)


def test_a_thousand_slow_handshakes_of_tls(secured: Cluster, certs: Path, many_files: None) -> None:
    hello = _flights(certs)[0]
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(secured)) for _ in range(MANY)]
        for byte in hello[:3]:
            for connection in slow:
                connection.sendall(bytes((byte,)))
            logs_in(secured, certs)


# ---------------------------------------------------------------------- cut ones


def _flights(certs: Path) -> tuple[bytes, ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    """The first words of a client with TLS, and what it goes on with."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=str(certs / "ca.pem"))
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read(), client, incoming, outgoing


def test_a_handshake_that_is_cut_in_its_second_flight(secured: Cluster, certs: Path) -> None:
    """The client's answer to the certificate, with the first words of its login behind it, cut at each third byte."""
    size = 0
    while True:
        hello, client, incoming, outgoing = _flights(certs)
        with connected(secured) as connection:
            connection.sendall(hello)
            while True:
                incoming.write(connection.recv(65536))
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    continue
            client.write(HELLO)
            second = outgoing.read()
            connection.sendall(second[:size])
        if size >= len(second):
            break
        size += 3
    logs_in(secured, certs)


# ---------------------------------------------------------------------- downgrades


@pytest.mark.parametrize("hello", [OLD_HELLO, SSL_2_HELLO], ids=["TLS 1.1", "SSL 2"])
def test_what_is_out_of_date_is_hung_up_on(secured: Cluster, certs: Path, hello: bytes) -> None:
    with connected(secured) as connection:
        connection.settimeout(HANDSHAKE_TIMEOUT_S / 2)  # it is not waited for what else comes
        connection.sendall(hello)
        assert ends(connection)
    logs_in(secured, certs)


def test_no_cipher_that_hides_nothing(secured: Cluster, certs: Path) -> None:
    context = ssl.create_default_context(cafile=str(certs / "ca.pem"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("aNULL:eNULL:@SECLEVEL=0")
    with connected(secured) as connection, pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(connection, server_hostname="localhost")


def test_nobody_talks_their_way_around_tls(secured: Cluster) -> None:
    """The words of a login without TLS are no handshake."""
    with connected(secured) as connection:
        connection.sendall(HELLO + FIRST)
        assert ends(connection)


def test_nobody_begins_tls_where_there_is_none(cluster: Cluster, certs: Path) -> None:
    with connected(cluster) as connection:
        connection.sendall(_flights(certs)[0])
        connection.shutdown(socket.SHUT_WR)
        assert ends(connection)
    alive(cluster)


# ---------------------------------------------------------------------- principals that change


@pytest.mark.parametrize(
    ("mechanism", "user", "password"), [("PLAIN", "bob", "bob-bob"), ("SCRAM-SHA-256", "alice", SECRET)]
)
def test_who_logs_in_again_is_who_it_was(cluster: Cluster, mechanism: str, user: str, password: str) -> None:
    """Neither as somebody else nor by another mechanism (KIP-368), not even when it is time to."""
    with Raw(address(cluster)) as raw:
        raw.handshake("PLAIN")
        assert 0 == raw.authenticate(plain("alice", SECRET)).error_code
        cluster.advance(timedelta(seconds=2))
        raw.handshake(mechanism)
        told = raw.authenticate(plain(user, password))
        assert told is None or told.error_code != 0
        assert raw.read() is None


def test_who_logs_in_again_and_fails_is_nobody(cluster: Cluster) -> None:
    with Raw(address(cluster)) as raw:
        raw.handshake("PLAIN")
        assert 0 == raw.authenticate(plain("alice", SECRET)).error_code
        cluster.advance(timedelta(seconds=2))
        raw.handshake("PLAIN")
        assert 58 == raw.authenticate(plain("alice", "wrong")).error_code
        assert raw.read() is None


def test_no_request_is_served_in_the_middle_of_another_login(cluster: Cluster) -> None:
    with Raw(address(cluster)) as raw:
        raw.handshake("PLAIN")
        assert 0 == raw.authenticate(plain("alice", SECRET)).error_code
        cluster.advance(timedelta(seconds=2))
        raw.handshake("PLAIN")
        told = raw.ask(MetadataRequest(topics=[]), 9)
        assert told is None or not told.brokers


# ---------------------------------------------------------------------- who is not to be heard


def test_who_is_muted_is_not_even_read() -> None:
    """What a client sends while it is throttled stays in its own buffers, and the broker's memory is its own."""
    with Cluster(topics=["t"]) as cluster:
        cluster.add_rule(rule(ApiKey.API_VERSIONS, throttle_ms=600_000, times=1))
        with Raw(address(cluster)) as raw:
            raw.ask(ApiVersionsRequest(client_software_name="c", client_software_version="1"), 3)
            raw._connection.setblocking(False)
            sent, deadline = 0, time.monotonic() + TIMEOUT_S
            while sent < 256 << 20 and time.monotonic() < deadline:
                try:
                    sent += raw._connection.send(bytes(1 << 20))
                except BlockingIOError:
                    break
            assert sent < 64 << 20
            with Raw(address(cluster)) as other:
                assert other.ask(ApiVersionsRequest(client_software_name="c", client_software_version="1"), 3).api_keys


# ---------------------------------------------------------------------- secrets


def test_secrets_stand_in_no_report(certs: Path) -> None:
    """Neither in what a rule has seen, nor in the state of the cluster, nor in what a client that fails is told."""
    from odradek.control import state

    with Cluster(security="sasl-plaintext", users=USERS, config=NO_DELAY, topics=["t"]) as cluster:
        armed = cluster.add_rule(rule(ApiKey.METADATA, expect=2))
        told = []
        for password in (SECRET, f"{SECRET}x"):
            for mechanism in ("PLAIN", "SCRAM-SHA-512"):
                with Raw(address(cluster)) as raw:
                    if mechanism == "PLAIN":
                        raw.handshake(mechanism)
                        raw.authenticate(plain("alice", password))
                    else:
                        raw.scram(mechanism, "alice", password)
                    raw.ask(MetadataRequest(topics=[]), 9)
                    told += raw.lines
        views = (state.broker_views, state.parked_views, state.partition_summaries, state.group_views)
        shown = [view(cluster._running) for view in views]
        everything = "\n".join(told) + repr(armed.report()) + repr(shown)
        assert 2 == armed.matched, "who has logged in"
        assert SECRET not in everything
