"""The keys of listeners: which hold for one mechanism of one listener."""

from __future__ import annotations

import pytest

from odradek.config.security import KEYS, SecurityConfig, is_listener_key

ISSUER = "sasl.oauthbearer.expected.issuer"


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("", "them"),
        ("listener.name.outside.", "them"),
        ("listener.name.outside.oauthbearer.", "them"),
        ("listener.name.inside.", None),
        ("listener.name.outside.plain.", None),
    ],
)
def test_who_signs_tokens_may_be_said_of_one_mechanism_of_a_listener(prefix: str, expected: str | None) -> None:
    texts = {prefix + ISSUER: "them"}
    found = SecurityConfig.of(texts, listener="OUTSIDE", mechanism="OAUTHBEARER")
    assert expected == found.sasl_oauthbearer_expected_issuer


@pytest.mark.parametrize(
    ("name", "known"),
    [
        (f"listener.name.outside.oauthbearer.{ISSUER}", True),
        ("listener.name.outside.oauthbearer.sasl.oauthbearer.jwks.endpoint.url", True),
        ("listener.name.outside.plain.sasl.jaas.config", True),
        ("listener.name.outside.plain.ssl.keystore.location", False),
        ("listener.name.outside.no.such.key", False),
    ],
)
def test_which_keys_a_mechanism_of_a_listener_has(name: str, known: bool) -> None:
    assert known is is_listener_key(name)


def test_all_that_is_said_of_signed_tokens_may_be_said_of_one_mechanism() -> None:
    names = [name for name in KEYS if "oauthbearer" in name]
    assert "sasl.oauthbearer.sub.claim.name" in names
    assert [] == [name for name in names if not is_listener_key(f"listener.name.outside.oauthbearer.{name}")]
