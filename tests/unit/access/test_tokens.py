"""Delegation tokens: to whom they are told."""

from __future__ import annotations

from tests.counted import lines_of

from odradek.access.tokens import Token


def token(*renewers: str) -> Token:
    return Token("id", "User:owner", "User:requester", renewers, 0, 1, 2)


def test_a_token_is_told_to_its_owner_its_requester_and_its_renewers() -> None:
    named = token("User:a", "User:b")
    for who in ("User:owner", "User:requester", "User:a", "User:b"):
        assert named.concerns(who)
        assert named.concerns_any({who, "User:x"})
    assert not named.concerns("User:x")
    assert not named.concerns_any({"User:x", "a"})
    assert not named.concerns_any(frozenset())


def test_not_every_owner_is_compared_with_every_renewer() -> None:
    named = token(*(f"User:r{number}" for number in range(100)))
    few, many = ({f"User:o{number}" for number in range(count)} for count in (10, 1_000))
    assert lines_of(lambda: named.concerns_any(few)) == lines_of(lambda: named.concerns_any(many))
