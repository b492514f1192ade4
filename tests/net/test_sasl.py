"""Real clients that log in over TLS, with the right password and with a wrong one."""

from __future__ import annotations

import hashlib
import hmac
import ssl
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import admin as confluent_admin
from confluent_kafka.admin import AdminClient
from tests.net.test_tls import Lines
from tests.security import signed as signing
from tests.security.credentials import put_password
from tests.security.wire import Raw, plain, token

from odradek.access import scram
from odradek.cli.usage import UsageError
from odradek.host.call import Call
from odradek.net.certs import make_certificates
from odradek.testing import ApiKey, Cluster, rule
from odradek.wire.messages.metadata_request import MetadataRequest

pytestmark = pytest.mark.slow

api: Any = confluent_admin
USERS = {"alice": "alice-secret"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("certs") / "made"
    make_certificates(folder)
    return folder


def settings_of(cluster: Cluster, mechanism: str, password: str = "alice-secret") -> dict[str, Any]:
    return {**cluster.access.librdkafka, "sasl.mechanism": mechanism, "sasl.password": password}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka(certs: Path, mechanism: str) -> None:
    with Cluster(security="sasl-ssl", certs=certs, users=USERS, topics=["t"]) as cluster:
        settings = settings_of(cluster, mechanism)
        producer = Producer({**settings, "transactional.id": "x"})
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce("t", b"hello")
        producer.commit_transaction(20)
        consumer = Consumer(settings | {"group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        message = consumer.poll(20)
        assert message is not None
        assert b"hello" == message.value()
        consumer.close()
        told: list[KafkaError] = []
        wrong = Producer({**settings_of(cluster, mechanism, "wrong"), "error_cb": told.append})
        deadline = time.monotonic() + 20
        while not any(error.code() == KafkaError._AUTHENTICATION for error in told) and time.monotonic() < deadline:
            wrong.poll(0.1)
        assert any(error.code() == KafkaError._AUTHENTICATION for error in told)


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka(certs: Path, mechanism: str) -> None:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaError as AioKafkaError

    async with Cluster(security="sasl-ssl", certs=certs, users=USERS, topics=["t"]) as cluster:
        common: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap,
            "security_protocol": "SASL_SSL",
            "ssl_context": ssl.create_default_context(cafile=str(certs / "ca.pem")),
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
        }
        async with AIOKafkaProducer(sasl_plain_password="alice-secret", **common) as producer:
            await producer.send_and_wait("t", b"hello")
        wrong = AIOKafkaProducer(sasl_plain_password="wrong", **common)
        with pytest.raises(AioKafkaError):
            await wrong.start()
        await wrong.stop()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(certs: Path, mechanism: str) -> None:
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError as PythonKafkaError

    with Cluster(security="sasl-ssl", certs=certs, users=USERS, topics=["t"]) as cluster:
        common: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap,
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(certs / "ca.pem"),
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
        }
        admin = KafkaAdminClient(sasl_plain_password="alice-secret", **common)
        assert "t" in admin.list_topics()
        admin.close()
        with pytest.raises(PythonKafkaError):
            KafkaAdminClient(sasl_plain_password="wrong", request_timeout_ms=3000, bootstrap_timeout_ms=3000, **common)


def test_a_token_and_what_it_makes_of_its_owner() -> None:
    config = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "OAUTHBEARER"}
    lines = Lines()
    with Cluster(config=config, log=lines) as cluster:
        seen: set[str] = set()

        def see(call: Call) -> bool:
            seen.add(str(call.peer.principal))
            return False

        cluster.add_rule(rule(ApiKey.METADATA, matches=see))

        def make(_: str) -> tuple[str, float]:
            until = time.time() + 3600
            said = token(sub="carol", exp=until).decode()
            return said.split("Bearer ")[1].strip("\x01"), until

        settings: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": make,
        }
        AdminClient(settings).list_topics(timeout=20)
        assert {"User:carol"} == seen
    assert ("unsecured_tokens_accepted", {"listener": "SASL_PLAINTEXT"}) in lines.lines


def test_a_client_logs_in_again_before_its_session_ends() -> None:
    config = {"connections.max.reauth.ms": 1500}
    with Cluster(security="sasl-plaintext", users=USERS, config=config, topics=["t"]) as cluster:
        producer = Producer(settings_of(cluster, "SCRAM-SHA-256"))
        node = cluster._running.node(1)
        deadline = time.monotonic() + 20
        logins = 0
        while logins < 3 and time.monotonic() < deadline:
            producer.produce("t", b"x")
            assert 0 == producer.flush(10)
            logins = max((gate.logins for gate in _gates(node)), default=0)
        assert logins >= 3


def test_logins_that_ran_out_and_those_that_were_refused_later_are_counted() -> None:
    config = {"connections.max.reauth.ms": 1}
    with Cluster(security="sasl-plaintext", users=USERS | {"bob": "bobs"}, config=config) as cluster:
        counted = cluster._running.node(1).counters
        host, _, port = cluster.bootstrap.rpartition(":")
        for expired, refused in ((1, 0), (1, 1)):
            with Raw((host, int(port))) as raw:
                raw.handshake("PLAIN")
                raw.authenticate(plain("alice", "alice-secret"))
                if refused:
                    raw.handshake("PLAIN")
                    raw.authenticate(plain("bob", "bobs"))
                while raw.ask(MetadataRequest(topics=[]), 9) is not None:
                    pass
            assert (expired, refused) == (counted.sessions_expired, counted.logins_again_refused)


def _gates(node: Any) -> list[Any]:
    guards = [getattr(each, "_admits", None) for each in node.connections.values()]
    return [guard.__self__ for guard in guards if guard is not None]


def test_credentials_that_are_altered_by_a_client() -> None:
    with Cluster(security="sasl-plaintext", users=USERS) as cluster:
        admin: Any = AdminClient(settings_of(cluster, "PLAIN"))
        kind = api.ScramCredentialInfo(api.ScramMechanism.SCRAM_SHA_256, 8192)
        [put] = admin.alter_user_scram_credentials([api.UserScramCredentialUpsertion("dora", kind, b"pass")]).values()
        put.result(20)
        told = admin.describe_user_scram_credentials(["dora"])["dora"].result(20)
        assert [8192] == [each.iterations for each in told.scram_credential_infos]
        dora = settings_of(cluster, "SCRAM-SHA-256", "pass") | {"sasl.username": "dora"}
        AdminClient(dora).list_topics(timeout=20)
        gone = api.UserScramCredentialDeletion("dora", api.ScramMechanism.SCRAM_SHA_256)
        [removed] = admin.alter_user_scram_credentials([gone]).values()
        removed.result(20)
        with pytest.raises(KafkaException):
            AdminClient(dora).list_topics(timeout=2)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "Kerberos (GSSAPI) is not served: use PLAIN"),
        ({}, "Kerberos (GSSAPI) is not served: use PLAIN"),
        ({"sasl.enabled.mechanisms": "CRAM-MD5"}, "there is no CRAM-MD5, but PLAIN, SCRAM-SHA-256"),
        ({"sasl.enabled.mechanisms": ""}, "nobody could log in."),
        (
            {"sasl.enabled.mechanisms": "PLAIN", "odradek.sasl.users": "alice:a,hush"},
            "Users are NAME:PASSWORD,…, and the one at place 2 is not.",
        ),
        (
            {"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": 'a.PlainLoginModule required user_a="hush" hush'},
            "sasl.jaas.config cannot be read from character",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence_without_secrets(settings: dict[str, str], sentence: str) -> None:
    config = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", **settings}
    with pytest.raises(UsageError) as caught, Cluster(config=config):
        pass
    assert sentence in str(caught.value)
    assert "hush" not in str(caught.value)


class Hashes:
    """The module hashlib as a broker sees it, which counts what is derived from passwords."""

    def __init__(self) -> None:
        self.derived = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(hashlib, name)

    def pbkdf2_hmac(self, *given: Any) -> bytes:
        self.derived += 1
        return hashlib.pbkdf2_hmac(*given)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_no_login_derives_a_key_in_a_step(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PBKDF2 takes milliseconds: clients do it, and a broker before it listens, so that no login holds up the others.

    What is left to a broker for a proof is a handful of HMACs, however many iterations the credential has.
    """
    hashes, digests, plain_digest = Hashes(), 0, hmac.digest

    def digest(*given: Any) -> bytes:
        nonlocal digests
        digests += 1
        return plain_digest(*given)

    monkeypatch.setattr(scram, "hashlib", hashes)
    with Cluster(security="sasl-plaintext", users=USERS) as cluster:
        assert 2 == hashes.derived, "one for each mechanism, from the configuration"
        monkeypatch.setattr(hmac, "digest", digest)
        host, _, port = cluster.bootstrap.rpartition(":")
        with Raw((host, int(port))) as raw:
            raw.handshake("PLAIN")
            raw.authenticate(plain("alice", "alice-secret"))
            put_password(raw, "bob", "bob-secret")
        for user, password in (("alice", "alice-secret"), ("bob", "bob-secret"), ("bob", "wrong"), ("nobody", "x")):
            with Raw((host, int(port))) as raw:
                if mechanism == "PLAIN":
                    raw.handshake(mechanism)
                    raw.authenticate(plain(user, password))
                else:
                    raw.scram(mechanism, user, password)
        assert 2 == hashes.derived
        assert digests < 50, "far from the 4,096 of one derivation"


def keys_of_the_issuer(folder: Path) -> dict[str, str]:
    """The configuration of a broker that takes the tokens of one issuer."""
    keys = folder / "keys.json"
    keys.write_text(signing.JWKS)
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        **signing.CONFIG,
    }


def bare(said: bytes) -> str:
    """The token in what a client says."""
    return said.decode().partition("Bearer ")[2].rstrip("\x01")


def test_librdkafka_with_signed_tokens(certs: Path, tmp_path: Path) -> None:
    config = keys_of_the_issuer(tmp_path)
    with Cluster(security="sasl-ssl", certs=certs, users=USERS, config=config, topics=["t"]) as cluster:
        kept = {name: value for name, value in cluster.access.librdkafka.items() if not name.startswith("sasl.")}

        def client(said: bytes, **more: Any) -> AdminClient:
            settings: dict[str, Any] = {**kept, "sasl.mechanism": "OAUTHBEARER", **more}
            settings["oauth_cb"] = lambda _: (bare(said), time.time() + 3600)
            return AdminClient(settings)

        good = client(signing.signed())
        good.poll(1)
        assert "t" in good.list_topics(timeout=20).topics
        told: list[KafkaError] = []
        wrong = client(signing.signed(key=signing.STRANGER), error_cb=told.append)
        deadline = time.monotonic() + 20
        while not any(error.code() == KafkaError._AUTHENTICATION for error in told) and time.monotonic() < deadline:
            wrong.poll(0.1)
        assert any(error.code() == KafkaError._AUTHENTICATION for error in told)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("https://issuer.test/keys", "keys are read from files"),
        ("file:///no/such/file.json", "Cannot read /no/such/file.json"),
        ("not keys", "names no JSON Web Key Set"),
    ],
)
def test_keys_that_cannot_be_used(tmp_path: Path, keys: str, expected: str) -> None:
    if "://" not in keys:
        (tmp_path / "keys.json").write_text(keys)
        keys = (tmp_path / "keys.json").as_uri()
    config = {"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url": keys}
    config["listeners"] = "SASL_PLAINTEXT://127.0.0.1:0"
    with pytest.raises(UsageError, match=expected), Cluster(config=config):
        raise AssertionError("it starts")
