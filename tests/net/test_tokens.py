"""Delegation tokens over sockets: brokers that are not the controller, and the clock of the brokers."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.security.tokens import log_in, made
from tests.security.wire import Raw, plain

from odradek.testing import Cluster
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from odradek.wire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from odradek.wire.messages.list_groups_request import ListGroupsRequest
from odradek.wire.messages.renew_delegation_token_request import RenewDelegationTokenRequest

pytestmark = pytest.mark.slow

CONFIG = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "odradek.sasl.users": "alice:alice-secret,bob:bob-secret",
}
SECRET = {"delegation.token.secret.key": "hush"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, config=CONFIG | SECRET) as cluster:
        yield cluster


def address(cluster: Cluster, index: int) -> tuple[str, int]:
    host, _, port = cluster.bootstrap.split(",")[index].rpartition(":")
    return host, int(port)


def come_in(raw: Raw, user: str = "alice") -> None:
    raw.handshake("PLAIN")
    raw.authenticate(plain(user, f"{user}-secret"))


def tokens(raw: Raw) -> list[Any]:
    found: list[Any] = raw.ask(DescribeDelegationTokenRequest(owners=None), 3).tokens
    return found


@pytest.mark.parametrize("version", [1, 2, 3])
def test_any_broker_passes_on_who_asks(cluster: Cluster, version: int) -> None:
    for index in range(3):
        with Raw(address(cluster, index)) as raw:
            come_in(raw)
            token = made(raw, version=version)
            assert ("User", "alice", 0) == (token.principal_type, token.principal_name, token.error_code)
        with Raw(address(cluster, (index + 1) % 3)) as raw:
            come_in(raw, "bob")
            shown = bytes(token.hmac)
            mismatch = raw.ask(RenewDelegationTokenRequest(hmac=shown), min(version, 2)).error_code
            assert ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH == mismatch
            assert 0 == log_in(raw, token).error_code
            assert 0 == raw.ask(ListGroupsRequest(), 4).error_code
        with Raw(address(cluster, (index + 2) % 3)) as raw:
            come_in(raw)
            assert token.token_id in {each.token_id for each in tokens(raw)}
            ended = raw.ask(ExpireDelegationTokenRequest(hmac=shown, expiry_time_period_ms=-1), min(version, 2))
            assert 0 == ended.error_code
            assert token.token_id not in {each.token_id for each in tokens(raw)}


def test_a_session_lasts_no_longer_than_its_token_which_is_forgotten(cluster: Cluster) -> None:
    with Raw(address(cluster, 1)) as raw:
        come_in(raw)
        token = made(raw, lifetime_ms=60_000)
        admitted = log_in(raw, token)
        assert 0 < admitted.session_lifetime_ms <= 60_000
        cluster.advance(timedelta(seconds=61))
        assert raw.ask(ListGroupsRequest(), 4) is None
    with Raw(address(cluster, 1)) as raw:
        come_in(raw)
        assert token.token_id in {each.token_id for each in tokens(raw)}
        cluster.advance(timedelta(hours=1))
    with Raw(address(cluster, 1)) as raw:
        come_in(raw)
        assert token.token_id not in {each.token_id for each in tokens(raw)}
        assert log_in(raw, token).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_token_s_password_is_its_own(cluster: Cluster) -> None:
    with Raw(address(cluster, 0)) as raw:
        come_in(raw)
        one, other = made(raw), made(raw)
        password = base64.b64encode(bytes(other.hmac)).decode()
        assert log_in(raw, one, secret=password).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
        (SECRET | {"odradek.metadata.version": "13"}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_where_there_are_none(config: dict[str, str], expected: ErrorCode) -> None:
    with Cluster(config=CONFIG | config) as cluster, Raw(address(cluster, 0)) as raw:
        come_in(raw)
        assert expected == made(raw).error_code
        assert expected == raw.ask(RenewDelegationTokenRequest(hmac=b"x"), 2).error_code
        assert expected == raw.ask(ExpireDelegationTokenRequest(hmac=b"x"), 2).error_code
