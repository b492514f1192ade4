"""The two brokers that the stories are told to, with the same users: a real one, and Odradek."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

from tests.oracle.real_kafka import RealKafka, free_port
from tests.security import stores
from tests.security.signed import CONFIG, JWKS

from odradek.testing import Cluster

__all__ = ["RECORDED", "odradek", "real", "stores_of_a_real_one"]

RECORDED = Path(__file__).parent / "recorded"
Addresses = Mapping[str, tuple[str, int]]
"""By listener: PLAINTEXT, where everybody may do everything, and SASL_PLAINTEXT."""

USERS = {"alice": "alice-secret", "bob": "bob-secret", "carol": "carol-secret"}
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
HOUR_MS = "3600000"
SASL = "listener.name.sasl_plaintext."
SIGNED = "listener.name.signed."
KEYS_URL = f"{SIGNED}sasl.oauthbearer.jwks.endpoint.url"
LISTENERS = ("PLAINTEXT", "SASL_PLAINTEXT", "SIGNED")
PROTOCOLS = "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SIGNED:SASL_PLAINTEXT"
MODULE = "org.apache.kafka.common.security"
ALIKE: Mapping[str, str] = {
    f"{SASL}sasl.enabled.mechanisms": MECHANISMS,
    f"{SASL}plain.connections.max.reauth.ms": HOUR_MS,
    f"{SASL}scram-sha-256.connections.max.reauth.ms": HOUR_MS,
    f"{SASL}scram-sha-512.connections.max.reauth.ms": HOUR_MS,
    "listener.name.signed.sasl.enabled.mechanisms": "OAUTHBEARER",
    **{f"listener.name.signed.{name}": value for name, value in CONFIG.items()},
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:bob",
    "delegation.token.secret.key": "of-both-brokers",
    "num.partitions": "1",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
"""What both are configured with."""
REAL: Mapping[str, str] = {
    "inter.broker.listener.name": "PLAINTEXT",
    f"{SASL}plain.sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule required "
    + " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
    + ";",
    f"{SASL}scram-sha-256.sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required;",
    f"{SASL}scram-sha-512.sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required;",
    f"{SASL}oauthbearer.sasl.jaas.config": f"{MODULE}.oauthbearer.OAuthBearerLoginModule required;",
    f"{SIGNED}oauthbearer.sasl.jaas.config": f"{MODULE}.oauthbearer.OAuthBearerLoginModule required;",
    f"{SIGNED}oauthbearer.sasl.server.callback.handler.class": (
        f"{MODULE}.oauthbearer.OAuthBearerValidatorCallbackHandler"
    ),
}


class SaslKafka(RealKafka):
    """A real broker with a second listener."""

    def addresses(self) -> dict[str, str]:
        self.sasl_port = free_port()
        self.signed_port = free_port()
        told = ",".join(
            f"{name}://127.0.0.1:{port}"
            for name, port in zip(LISTENERS, (self.port, self.sasl_port, self.signed_port), strict=True)
        )
        return {
            **super().addresses(),
            "listeners": f"{told},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": told,
            "listener.security.protocol.map": f"{PROTOCOLS},CONTROLLER:PLAINTEXT",
        }


@contextmanager
def real() -> Iterator[Addresses]:
    """The real broker."""
    from tests.security.credentials import put_password
    from tests.security.permissions import prepare
    from tests.security.tokens import come_as, ended, made
    from tests.security.wire import Raw

    Raw.settle_s = 1.0
    with keys() as url:
        kafka = SaslKafka(
            properties={**ALIKE, **REAL, KEYS_URL: url},
            jvm_options=("-Xmx1g", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}"),
        )
        with kafka:
            with Raw(("127.0.0.1", kafka.port)) as raw:
                put_password(raw, "alice", USERS["alice"])
                prepare(raw)
            with Raw(("127.0.0.1", kafka.sasl_port)) as raw:
                come_as(raw, "alice")
                token = made(raw)
                time.sleep(5)  # the first token takes the longest to be heard of
                ended(raw, token.hmac)
            ports = (kafka.port, kafka.sasl_port, kafka.signed_port)
            yield {name: ("127.0.0.1", port) for name, port in zip(LISTENERS, ports, strict=True)}


class TlsKafka(RealKafka):
    """A real broker with the listeners whose certificates change."""

    def addresses(self) -> dict[str, str]:
        self.ports = {name: self.port if name == "PLAINTEXT" else free_port() for name in stores.LISTENERS}
        told = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        return {
            **super().addresses(),
            "listeners": f"{told},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": told,
            "listener.security.protocol.map": f"{stores.PROTOCOLS},CONTROLLER:PLAINTEXT",
        }


def stores_of_a_real_one() -> dict[str, list[str]]:
    """The stories of certificates that change, as the real broker plays them."""
    from tests.security.wire import Raw

    Raw.settle_s = 3.0  # what is altered is taken up a while later
    with TemporaryDirectory() as path:
        folder = Path(path)
        stores.make_stores(folder)
        kafka = TlsKafka(properties=stores.config(folder))
        with kafka:
            return {story: stores.play(story, folder, kafka.ports) for story in stores.STORES}


@contextmanager
def keys() -> Iterator[str]:
    """A file with the keys of those who sign tokens, as a URL, for as long as a broker may read it."""
    with NamedTemporaryFile(suffix=".json") as file:
        file.write(JWKS.encode())
        file.flush()
        yield f"file://{file.name}"


@contextmanager
def odradek() -> Iterator[Addresses]:
    """Ours."""
    config = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
        "listener.security.protocol.map": PROTOCOLS,
        "odradek.sasl.users": ",".join(f"{user}:{password}" for user, password in USERS.items()),
        **ALIKE,
    }
    from tests.security.permissions import prepare
    from tests.security.wire import Raw

    with keys() as url, Cluster(config={**config, KEYS_URL: url}, log_level="error") as cluster:
        addresses = {name: _address(cluster.bootstrap_of(name)) for name in LISTENERS}
        with Raw(addresses["PLAINTEXT"]) as raw:
            prepare(raw)
        yield addresses


def _address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)
