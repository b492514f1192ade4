"""Credentials that are altered and described, by who may do everything: played against both brokers."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

from tests.security.wire import Raw

from odradek.wire.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.wire.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

__all__ = ["CREDENTIALS", "put_password"]

SHA_256, SHA_512, UNKNOWN = 1, 2, 9


def put(name: str, mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = b"salt") -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=b"salted"
    )


def put_password(raw: Raw, user: str, password: str) -> None:
    """Have a user log in by both mechanisms with this password."""
    for mechanism, algorithm in ((SHA_256, "sha256"), (SHA_512, "sha512")):
        salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), b"salt", 4096)
        alter(
            raw,
            ScramCredentialUpsertion(
                name=user, mechanism=mechanism, iterations=4096, salt=b"salt", salted_password=salted
            ),
        )


def gone(name: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(raw: Raw, *changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> None:
    raw.ask(
        AlterUserScramCredentialsRequest(
            upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
            deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        ),
        0,
    )
    time.sleep(0.2)  # until the broker that is asked next has heard of it


def describe(raw: Raw, *names: str) -> None:
    raw.ask(DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names]), 0)


def they_come_and_go(raw: Raw) -> None:
    alter(raw, put("u1", iterations=8192))
    alter(raw, put("u1", SHA_512), put("u2"))
    describe(raw, "u1", "u2", "u3")
    alter(raw, gone("u1"))
    describe(raw, "u1")
    alter(raw, gone("u1", SHA_512), gone("u2"))
    describe(raw, "u1", "u2")


def twice_in_a_request(raw: Raw) -> None:
    alter(raw, put("u1"), put("u1", SHA_512))
    alter(raw, put("u1"), gone("u1"))
    alter(raw, gone("u1"), gone("u1"))
    describe(raw, "u1", "u1")


def what_no_credential_can_have(raw: Raw) -> None:
    alter(raw, put("u1", iterations=4095))
    alter(raw, put("u1", iterations=16385))
    alter(raw, put("u1", UNKNOWN))
    alter(raw, put("u1", 0))
    alter(raw, put(""))
    alter(raw, put("u1", salt=b""))
    alter(raw, gone("u1", UNKNOWN))
    alter(raw, gone(""))
    alter(raw, gone("nobody"))
    describe(raw, "u1", "")
    alter(raw, gone("u1"))


def one_fails_and_another_does_not(raw: Raw) -> None:
    alter(raw, put("u1", iterations=1), put("u2"), gone("u3"))
    describe(raw, "u1", "u2", "u3")
    alter(raw, gone("u2"), gone("u1"))


def nothing_is_asked(raw: Raw) -> None:
    alter(raw)


CREDENTIALS: dict[str, Callable[[Raw], None]] = {
    play.__name__: play
    for play in (
        they_come_and_go,
        twice_in_a_request,
        what_no_credential_can_have,
        one_fails_and_another_does_not,
        nothing_is_asked,
    )
}
"""Every story, by its name."""
