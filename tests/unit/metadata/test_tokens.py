"""Delegation tokens in the metadata log: how they end, and that a snapshot has them."""

from __future__ import annotations

import pytest
from msgspec import Struct
from msgspec.structs import replace

from odradek.access.principal import Principal
from odradek.access.tokens import Token, token_hmac
from odradek.config.keys import LONG_MAX
from odradek.config.security import SecurityConfig
from odradek.metadata.delta import Delta
from odradek.metadata.image import EMPTY, MetadataImage
from odradek.metadata.snapshot import snapshot_records
from odradek.metadata.tokens import create_token, expire_token, remove_expired, renew_token
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from odradek.wire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from odradek.wire.messages.renew_delegation_token_request import RenewDelegationTokenRequest

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
SETTINGS = SecurityConfig(delegation_token_secret_key="hush")
ALICE = Principal("alice")


def folded(records: list[Struct], base: MetadataImage = EMPTY) -> MetadataImage:
    delta = Delta(base)
    for record in records:
        assert delta.replay(record)
    return delta.build(offset=base.offset + 1, epoch=1)


@pytest.fixture
def image() -> MetadataImage:
    renewers = [CreatableRenewers(principal_type="User", principal_name="bob")]
    request = CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=3 * DAY_MS)
    return folded(create_token(request, ALICE, "id", SETTINGS, NOW).records)


def test_the_record_holds_no_secret(image: MetadataImage) -> None:
    expected = Token("id", "User:alice", "User:alice", ("User:bob",), NOW, NOW + DAY_MS, NOW + 3 * DAY_MS)

    assert {"id": expected} == image.tokens
    assert token_hmac("hush", "id").hex() not in repr(image)


def test_a_snapshot_has_them(image: MetadataImage) -> None:
    assert image.tokens == folded(list(snapshot_records(image))).tokens


def test_it_is_renewed_until_its_last_day(image: MetadataImage) -> None:
    request = RenewDelegationTokenRequest(hmac=token_hmac("hush", "id"), renew_period_ms=-1)
    for hours, expected in ((12, 36), (35, 59), (58, 72)):
        change = renew_token(request, "User:bob", image, SETTINGS, NOW + hours * HOUR_MS)
        assert NOW + expected * HOUR_MS == change.reply.expiry_timestamp_ms
        image = folded(change.records, image)
    change = renew_token(request, "User:bob", image, SETTINGS, NOW + 3 * DAY_MS + 1)
    assert ErrorCode.DELEGATION_TOKEN_EXPIRED == change.reply.error_code


def test_a_token_that_lives_for_ever_ends_at_the_last_moment_that_can_be_said() -> None:
    for_ever = replace(SETTINGS, delegation_token_max_lifetime_ms=LONG_MAX, delegation_token_expiry_time_ms=LONG_MAX)
    created = create_token(CreateDelegationTokenRequest(max_lifetime_ms=LONG_MAX), ALICE, "id", for_ever, NOW)
    assert (LONG_MAX, LONG_MAX) == (created.reply.expiry_timestamp_ms, created.reply.max_timestamp_ms)
    made = folded(created.records)
    (token,) = made.tokens.values()
    assert (LONG_MAX, LONG_MAX) == (token.expires_ms, token.max_ms)
    renewal = RenewDelegationTokenRequest(hmac=token_hmac("hush", "id"), renew_period_ms=LONG_MAX)
    assert LONG_MAX == renew_token(renewal, "User:alice", made, for_ever, NOW).reply.expiry_timestamp_ms
    end = ExpireDelegationTokenRequest(hmac=token_hmac("hush", "id"), expiry_time_period_ms=LONG_MAX)
    assert LONG_MAX == expire_token(end, "User:alice", made, for_ever, NOW).reply.expiry_timestamp_ms


def test_only_owner_and_renewers_end_it(image: MetadataImage) -> None:
    request = ExpireDelegationTokenRequest(hmac=token_hmac("hush", "id"), expiry_time_period_ms=-1)
    refused = expire_token(request, "User:carol", image, SETTINGS, NOW)
    assert (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, []) == (refused.reply.error_code, refused.records)
    assert not folded(expire_token(request, "User:alice", image, SETTINGS, NOW).records, image).tokens


def test_those_whose_time_is_over_are_removed(image: MetadataImage) -> None:
    assert [] == remove_expired(image, NOW + DAY_MS).records
    assert not folded(remove_expired(image, NOW + DAY_MS + 1).records, image).tokens


def test_without_a_secret_there_are_none(image: MetadataImage) -> None:
    settings = replace(SETTINGS, delegation_token_secret_key=None)
    change = create_token(CreateDelegationTokenRequest(), ALICE, "id", settings, NOW)
    assert (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, []) == (change.reply.error_code, change.records)
    request = RenewDelegationTokenRequest(hmac=b"")
    disabled = renew_token(request, "User:bob", image, settings, NOW).reply.error_code
    assert ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED == disabled
