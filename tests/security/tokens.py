"""Delegation tokens (KIP-48, KIP-373): made, renewed, ended and logged in with; played against both brokers.

alice may make no token for anybody else; bob may do everything.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from tests.security.wire import Raw, client_final, client_first, plain

from odradek.wire.messages.create_acls_request import AclCreation, CreateAclsRequest
from odradek.wire.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from odradek.wire.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from odradek.wire.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from odradek.wire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from odradek.wire.messages.list_groups_request import ListGroupsRequest
from odradek.wire.messages.renew_delegation_token_request import RenewDelegationTokenRequest

__all__ = ["TOKENS", "TOKENS_OF_NOBODY"]

GROUPS = ListGroupsRequest()
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
DELEGATION_TOKEN, USER = 6, 7
DESCRIBE, CREATE_TOKENS, DESCRIBE_TOKENS = 8, 13, 14
LITERAL, ALLOW = 3, 3
NO_TOKEN = b"\x01\x02\x03"


def come_as(raw: Raw, user: str) -> None:
    """Go on as somebody else."""
    raw.reopen()
    told = len(raw.lines)
    raw.handshake("PLAIN")
    raw.authenticate(plain(user, f"{user}-secret"))
    del raw.lines[told:]
    raw.lines.append(f"as {user}")


def made(
    raw: Raw,
    *,
    owner: tuple[str, str] | None = None,
    renewers: tuple[tuple[str, str], ...] = (),
    lifetime_ms: int = -1,
    version: int = 3,
) -> Any:
    """A new token; before version 3 nobody makes one for somebody else."""
    nobody = None if version >= 3 else ""
    answer = raw.ask(
        CreateDelegationTokenRequest(
            owner_principal_type=owner[0] if owner else nobody,
            owner_principal_name=owner[1] if owner else nobody,
            renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in renewers],
            max_lifetime_ms=lifetime_ms,
        ),
        version,
    )
    raw.settle()
    return answer


def renewed(raw: Raw, hmac: bytes, period_ms: int = -1, version: int = 2) -> None:
    raw.ask(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), version)
    raw.settle()


def ended(raw: Raw, hmac: bytes, period_ms: int = -1, version: int = 2) -> None:
    raw.ask(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms), version)
    raw.settle()


def described(raw: Raw, *owners: str, everybody: bool = False, version: int = 3) -> None:
    named = [DescribeDelegationTokenOwner(principal_type="User", principal_name=owner) for owner in owners]
    raw.ask(DescribeDelegationTokenRequest(owners=None if everybody else named), version)


def log_in(raw: Raw, token: Any, *, mechanism: str = "SCRAM-SHA-256", secret: str | None = None) -> Any:
    """Log in with a token: its id is the user, and its HMAC the password."""
    raw.reopen()
    password = base64.b64encode(bytes(token.hmac)).decode() if secret is None else secret
    algorithm = mechanism.lower().removeprefix("scram-").replace("-", "")
    raw.handshake(mechanism)
    said = client_first(token.token_id) + b",tokenauth=true"
    first = raw.authenticate(said)
    if first is None or first.error_code:
        return first
    final = client_final(token.token_id, password, bytes(first.auth_bytes), algorithm, extensions=",tokenauth=true")
    return raw.authenticate(final)


def one_comes_and_goes(raw: Raw) -> None:
    token = made(raw)
    described(raw, everybody=True)
    described(raw, "alice")
    renewed(raw, token.hmac)
    ended(raw, token.hmac)
    described(raw, everybody=True)
    ended(raw, token.hmac)
    renewed(raw, token.hmac)


def every_version(raw: Raw) -> None:
    for version in (1, 2, 3):
        token = made(raw, version=version)
        described(raw, "alice", version=version)
        renewed(raw, token.hmac, version=min(version, 2))
        ended(raw, token.hmac, version=min(version, 2))


def lifetimes(raw: Raw) -> None:
    for lifetime_ms in (0, 1, 2 * HOUR_MS, 30 * DAY_MS, -7):
        token = made(raw, lifetime_ms=lifetime_ms)
        if not token.error_code:
            ended(raw, token.hmac)


def periods(raw: Raw) -> None:
    token = made(raw, lifetime_ms=2 * DAY_MS)
    renewed(raw, token.hmac, HOUR_MS)
    renewed(raw, token.hmac, 9 * DAY_MS)
    renewed(raw, token.hmac, 0)
    renewed(raw, token.hmac, -9)
    renewed(raw, token.hmac)
    ended(raw, token.hmac, HOUR_MS)
    ended(raw, token.hmac, 9 * DAY_MS)
    ended(raw, token.hmac, 0)
    described(raw, "alice")
    ended(raw, token.hmac, -2)
    described(raw, "alice")


def renewers(raw: Raw) -> None:
    token = made(raw, renewers=(("User", "carol"), ("User", "bob")))
    described(raw, "alice")
    come_as(raw, "bob")
    renewed(raw, token.hmac)
    described(raw, "alice", "bob")
    described(raw, "bob")
    ended(raw, token.hmac)
    made(raw, renewers=(("Group", "x"),))
    made(raw, renewers=(("", ""),))


def named_twice(raw: Raw) -> None:
    token = made(raw, renewers=(("User", "carol"), ("User", "carol")))
    described(raw, "alice", "alice")
    described(raw, "nobody", "nobody")
    ended(raw, token.hmac)


def who_is_no_renewer(raw: Raw) -> None:
    come_as(raw, "bob")
    token = made(raw)
    come_as(raw, "alice")
    described(raw, everybody=True)
    described(raw, "bob")
    described(raw)
    renewed(raw, token.hmac)
    ended(raw, token.hmac)
    come_as(raw, "bob")
    ended(raw, token.hmac)


def for_somebody_else(raw: Raw) -> None:
    made(raw, owner=("User", "bob"))
    made(raw, owner=("User", "alice"))
    made(raw, owner=("User", ""))
    made(raw, owner=("Group", "alice"))
    made(raw, owner=("", "alice"))
    come_as(raw, "bob")
    token = made(raw, owner=("User", "alice"))
    described(raw, "alice")
    described(raw, "bob")
    renewed(raw, token.hmac)
    ended(raw, token.hmac)
    log_in(raw, token)
    raw.ask(GROUPS, 0)
    come_as(raw, "alice")
    described(raw, everybody=True)
    while (told := described_ids(raw)) and told:
        for hmac in told:
            ended(raw, hmac)
    described(raw, everybody=True)


def described_ids(raw: Raw) -> list[bytes]:
    told = len(raw.lines)
    answer = raw.ask(DescribeDelegationTokenRequest(owners=None), 3)
    del raw.lines[told:]
    return [bytes(each.hmac) for each in answer.tokens]


def by_permission(raw: Raw) -> None:
    come_as(raw, "bob")
    token = made(raw)
    create_acls(raw, (DELEGATION_TOKEN, token.token_id, DESCRIBE))
    come_as(raw, "alice")
    described(raw, everybody=True)
    described(raw, "bob")
    described(raw, "alice")
    come_as(raw, "bob")
    remove_acls(raw)
    create_acls(raw, (USER, "User:bob", DESCRIBE_TOKENS), (USER, "User:carol", CREATE_TOKENS))
    come_as(raw, "alice")
    described(raw, everybody=True)
    for_carol = made(raw, owner=("User", "carol"), renewers=(("User", "bob"),))
    made(raw, owner=("User", "bob"))
    renewed(raw, for_carol.hmac)
    ended(raw, for_carol.hmac)
    described(raw, everybody=True)
    described(raw, "carol")
    come_as(raw, "bob")
    remove_acls(raw)
    ended(raw, token.hmac)
    log_in(raw, for_carol)
    raw.ask(GROUPS, 0)
    come_as(raw, "bob")
    ended(raw, for_carol.hmac)


def create_acls(raw: Raw, *entries: tuple[int, str, int]) -> None:
    """Let alice do this."""
    told = len(raw.lines)
    creations = [
        AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=LITERAL,
            principal="User:alice",
            host="*",
            operation=operation,
            permission_type=ALLOW,
        )
        for kind, name, operation in entries
    ]
    answer = raw.ask(CreateAclsRequest(creations=creations), 3)
    assert not any(each.error_code for each in answer.results)
    raw.settle()
    del raw.lines[told:]


def remove_acls(raw: Raw) -> None:
    """Let her do it no more."""
    told = len(raw.lines)
    filters = [
        DeleteAclsFilter(
            resource_type_filter=kind,
            resource_name_filter=None,
            pattern_type_filter=LITERAL,
            principal_filter="User:alice",
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        for kind in (DELEGATION_TOKEN, USER)
    ]
    raw.ask(DeleteAclsRequest(filters=filters), 3)
    raw.settle()
    del raw.lines[told:]


def of_nobody(raw: Raw) -> None:
    renewed(raw, NO_TOKEN)
    ended(raw, NO_TOKEN)
    renewed(raw, b"")
    ended(raw, b"", 1000)


def logging_in(raw: Raw) -> None:
    token = made(raw)
    log_in(raw, token)
    raw.ask(GROUPS, 0)
    made(raw)
    renewed(raw, token.hmac)
    ended(raw, token.hmac)
    described(raw, everybody=True)
    log_in(raw, token, mechanism="SCRAM-SHA-512")
    raw.ask(GROUPS, 0)
    log_in(raw, token, secret="wrong")
    raw.ends()
    raw.reopen()
    raw.scram("SCRAM-SHA-256", token.token_id, base64.b64encode(bytes(token.hmac)).decode())
    raw.ends()
    come_as(raw, "alice")
    ended(raw, token.hmac)
    log_in(raw, token)
    raw.ends()


def with_an_extension_that_says_no(raw: Raw) -> None:
    raw.reopen()
    raw.handshake("SCRAM-SHA-256")
    raw.authenticate(client_first("alice") + b",tokenauth=false")
    raw.reopen()
    raw.handshake("SCRAM-SHA-256")
    raw.authenticate(client_first("alice") + b",tokenauth=TRUE")
    raw.ends()


def that_have_run_out(raw: Raw) -> None:
    token = made(raw, lifetime_ms=1500)
    raw.wait(2)
    described(raw, everybody=True)
    renewed(raw, token.hmac)
    ended(raw, token.hmac, HOUR_MS)
    log_in(raw, token)
    raw.ends()
    come_as(raw, "alice")
    ended(raw, token.hmac)
    described(raw, everybody=True)


def nobody_makes_one(raw: Raw) -> None:
    made(raw)
    made(raw, owner=("User", "alice"))
    described(raw, everybody=True)
    renewed(raw, NO_TOKEN)
    ended(raw, NO_TOKEN)


TOKENS: dict[str, Callable[[Raw], None]] = {
    play.__name__: play
    for play in (
        one_comes_and_goes,
        every_version,
        lifetimes,
        periods,
        renewers,
        named_twice,
        who_is_no_renewer,
        for_somebody_else,
        by_permission,
        of_nobody,
        logging_in,
        with_an_extension_that_says_no,
        that_have_run_out,
    )
}
"""What alice does, by the name of the story."""
TOKENS_OF_NOBODY: dict[str, Callable[[Raw], None]] = {nobody_makes_one.__name__: nobody_makes_one}
"""What is told to who came without a name."""
