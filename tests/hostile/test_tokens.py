"""Tokens and addresses of clients that mean no good: forged, confused, nested without end, written otherwise."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.hashes import SHA256
from tests.hostile.test_logins import Everything
from tests.security.brokers import keys
from tests.security.signed import CONFIG, EC, ISSUER, RSA, STRANGER
from tests.security.wire import Raw

from odradek.testing import Cluster

pytestmark = pytest.mark.slow

ES = {"alg": "ES256", "kid": "ec"}


@pytest.fixture(scope="module")
def log() -> Everything:
    return Everything()


@pytest.fixture(scope="module")
def cluster(log: Everything) -> Iterator[Cluster]:
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "connection.failed.authentication.delay.ms": 0,
        **CONFIG,
    }
    with keys() as url, Cluster(config={**config, "sasl.oauthbearer.jwks.endpoint.url": url}, log=log) as made:
        yield made


def claims(**others: Any) -> dict[str, Any]:
    now = int(time.time())
    return {"user": "alice", "iss": ISSUER, "aud": "kafka", "iat": now, "exp": now + 3600, **others}


def part(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def bearer(header: object, payload: object, signature: bytes = b"") -> bytes:
    said = base64.urlsafe_b64encode(signature).decode().rstrip("=")
    return f"n,,\x01auth=Bearer {part(header)}.{part(payload)}.{said}\x01\x01".encode()


def signed(header: object, payload: object) -> bytes:
    """With the signature of a key that the broker trusts, whatever header and payload are."""
    key = serialization.load_pem_private_key(EC.as_pem(private=True), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    r, s = utils.decode_dss_signature(key.sign(f"{part(header)}.{part(payload)}".encode(), ec.ECDSA(SHA256())))
    return bearer(header, payload, r.to_bytes(32) + s.to_bytes(32))


def confused(secret: bytes) -> bytes:
    """Signed with the public key, as if it were a secret that both sides share."""
    header = {"alg": "HS256", "kid": "rsa"}
    signature = hmac.new(secret, f"{part(header)}.{part(claims())}".encode(), hashlib.sha256).digest()
    return bearer(header, claims(), signature)


def let_in(cluster: Cluster, said: bytes) -> bool:
    host, _, port = cluster.bootstrap.rpartition(":")
    with Raw((host, int(port))) as raw:
        raw.handshake("OAUTHBEARER")
        answer = raw.authenticate(said)
        if answer.error_code == 0 and not answer.auth_bytes:
            return True
        assert answer.error_code or b"invalid_token" in bytes(answer.auth_bytes)
        return False


def test_who_has_a_good_token_is_let_in(cluster: Cluster) -> None:
    assert let_in(cluster, signed(ES, claims()))


@pytest.mark.parametrize(
    "said",
    {
        "the public key as a secret": lambda: confused(RSA.as_pem(private=False)),
        "the same without its last line": lambda: confused(RSA.as_pem(private=False).strip()),
        "no algorithm": lambda: bearer({"alg": "none", "kid": "ec"}, claims()),
        "no algorithm, in other letters": lambda: bearer({"alg": "nOnE", "kid": "ec"}, claims()),
        "a key within the token": lambda: bearer({**ES, "jwk": STRANGER.as_dict(private=False)}, claims(), bytes(64)),
        "what nobody understands and is critical": lambda: signed({**ES, "crit": ["exp2"], "exp2": 1}, claims()),
        "a payload that is not encoded": lambda: signed({**ES, "b64": False, "crit": ["b64"]}, claims()),
        "nested without end, and signed": lambda: signed(ES, "[" * 20_000),
        "nested without end": lambda: bearer(ES, "[" * 20_000),
        "a header nested without end": lambda: bearer("[" * 20_000, claims()),
        "an end that is no number": lambda: signed(ES, claims(exp=float("nan"))),
        "an end that never comes": lambda: signed(ES, claims(exp=float("inf"))),
        "an end of many digits": lambda: signed(ES, claims(exp=10**300)),
        "an end in words": lambda: signed(ES, claims(exp=str(int(time.time()) + 3600))),
        "an end that is true": lambda: signed(ES, claims(exp=True)),
        "an audience in a list in a list": lambda: signed(ES, claims(aud=[["kafka"]])),
        "an audience in other letters": lambda: signed(ES, claims(aud="KAFKA")),
        "two users, of whom one is the second": lambda: signed(ES, json.dumps(claims())[:-1] + ', "user": "bob"}'),
        "made before 1970": lambda: signed(ES, claims(iat=-5)),
        "several issuers": lambda: signed(ES, claims(iss=[ISSUER])),
        "several users": lambda: signed(ES, claims(user=["alice", "bob"])),
        "ended before it began": lambda: signed(ES, claims(iat=int(time.time()) + 20, exp=int(time.time()) + 10)),
        "for somebody else": lambda: signed(ES, claims()).replace(b"n,,", b"n,a=bob,"),
        "bound to a channel": lambda: signed(ES, claims()).replace(b"n,,", b"y,,"),
    }.items(),
    ids=lambda item: item[0],
)
def test_no_other_token_lets_anybody_in(cluster: Cluster, log: Everything, said: Any) -> None:
    assert not let_in(cluster, said[1]())
    assert "step_failed" not in log.text
    assert let_in(cluster, signed(ES, claims()))


def test_a_client_of_ipv4_is_the_same_over_a_listener_of_ipv6() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("IPv4 does not reach sockets of IPv6 here")
    config = {"max.connections.per.ip.overrides": "127.0.0.1:1"}
    with Cluster(host="::", config=config) as cluster:
        port = int(cluster.bootstrap.rpartition(":")[2])
        with (
            socket.create_connection(("127.0.0.1", port), 10),
            socket.create_connection(("127.0.0.1", port), 10) as second,
        ):
            second.settimeout(10)
            assert b"" == second.recv(1)
