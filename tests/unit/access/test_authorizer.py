"""The rules of the StandardAuthorizer, each in a small case."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from odradek.access.acls import (
    Acl,
    AclFilter,
    AclOperation,
    AclResource,
    PatternType,
    Permission,
    host_matches,
    invalid_host,
)
from odradek.access.authorizer import Authorizer
from odradek.access.principal import ANONYMOUS, Principal

ALICE, BOB = Principal("alice"), Principal("bob")
HOST = "10.1.2.3"
ALL, READ, WRITE = AclOperation.ALL, AclOperation.READ, AclOperation.WRITE
DESCRIBE, ALTER = AclOperation.DESCRIBE, AclOperation.ALTER
TOPIC, GROUP = AclResource.TOPIC, AclResource.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def acl(
    name: str = "t",
    operation: AclOperation = READ,
    *,
    who: str = "User:alice",
    host: str = "*",
    pattern: PatternType = LITERAL,
    deny: bool = False,
    kind: AclResource = TOPIC,
) -> Acl:
    return Acl(kind, name, pattern, who, host, operation, Permission.DENY if deny else Permission.ALLOW)


def authorizer(*acls: Acl, allow_everyone: bool = False) -> Authorizer:
    made = Authorizer(super_users=[BOB], allow_everyone=allow_everyone)
    made.adopt(acls)
    return made


def may(made: Authorizer, operation: AclOperation = READ, name: str = "t", who: Principal = ALICE) -> bool:
    return made.allows(who, HOST, operation, TOPIC, name)


def test_who_is_not_allowed_may_not() -> None:
    assert not may(authorizer())
    assert not may(authorizer(acl()), WRITE)
    assert not may(authorizer(acl()), name="t2")
    assert not may(authorizer(acl()), who=ANONYMOUS)
    assert not may(authorizer(acl(kind=GROUP)))
    assert may(authorizer(acl()))


def calls_of(made: Authorizer) -> int:
    """How many functions are called to look at one name."""
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        may(made, name="stock-1")
    finally:
        sys.setprofile(None)
    return calls


def test_permissions_on_other_names_and_of_others_cost_nothing() -> None:
    """A request may name thousands of topics, and each was compared with every prefix and every principal."""

    def filled(many: int) -> Authorizer:
        others = [acl(f"{number:05d}-", pattern=PREFIXED) for number in range(many)]
        of_others = [acl("*", who=f"User:u{number}") for number in range(many)]
        return authorizer(acl("stock-", pattern=PREFIXED), *others, *of_others)

    assert may(filled(1000), name="stock-1")
    assert calls_of(filled(1000)) == calls_of(filled(2))


def test_a_super_user_may_do_everything() -> None:
    assert may(authorizer(acl(who="User:*", operation=ALL, deny=True)), who=BOB)


def test_one_that_denies_wins_over_all_that_allow() -> None:
    allowing = (acl(operation=ALL), acl("*", ALL), acl("", ALL, pattern=PREFIXED))
    for denying in (acl(deny=True), acl("*", ALL, deny=True), acl("t", READ, pattern=PREFIXED, deny=True)):
        assert not may(authorizer(*allowing, denying))
        assert not may(authorizer(denying, *allowing))
    assert may(authorizer(*allowing, acl(deny=True)), WRITE)


def test_names_prefixes_and_everything() -> None:
    assert may(authorizer(acl("te", pattern=PREFIXED)), name="test")
    assert may(authorizer(acl("te", pattern=PREFIXED)), name="te")
    assert not may(authorizer(acl("te", pattern=PREFIXED)), name="t")
    assert may(authorizer(acl("*")), name="anything")
    assert not may(authorizer(acl("*", pattern=PREFIXED)), name="anything")


def test_everybody() -> None:
    assert may(authorizer(acl(who="User:*")), who=ANONYMOUS)
    assert not may(authorizer(acl(who="Group:*")), who=ANONYMOUS)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("*", True), (HOST, True), ("10.0.0.0/8", True), ("10.1.3.0/24", False), ("1.1.1.1", False), ("::/0", False)],
)
def test_hosts(host: str, expected: bool) -> None:
    assert expected == may(authorizer(acl(host=host)))


@pytest.mark.parametrize("operation", list(AclOperation)[3:])
def test_what_implies_what(operation: AclOperation) -> None:
    made = authorizer(acl(operation=operation))
    implied = {READ, WRITE, AclOperation.DELETE, ALTER, DESCRIBE}
    assert (operation in implied) == may(made, DESCRIBE)
    configs = {AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS}
    assert (operation in configs) == may(made, AclOperation.DESCRIBE_CONFIGS)
    denied = authorizer(acl(operation=ALL), acl(operation=operation, deny=True))
    assert (operation is not DESCRIBE) == may(denied, DESCRIBE)


def test_where_nothing_is_said_the_default_decides() -> None:
    made = authorizer(acl("other"), acl("t2", who="User:carol"), allow_everyone=True)
    assert may(made)
    assert not may(made, name="t2")
    assert not may(made, WRITE, "other")


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ((), False),
        ((acl(operation=WRITE),), True),
        ((acl("p", WRITE, pattern=PREFIXED),), True),
        ((acl("*", ALL),), True),
        ((acl(operation=READ),), False),
        ((acl(operation=WRITE), acl(operation=WRITE, deny=True)), False),
        ((acl(operation=WRITE), acl("", WRITE, pattern=PREFIXED, deny=True)), False),
        ((acl("pre-x", WRITE), acl("pre-", ALL, pattern=PREFIXED, deny=True)), False),
        ((acl("pre", WRITE, pattern=PREFIXED), acl("pre-", WRITE, pattern=PREFIXED, deny=True)), True),
        ((acl(operation=WRITE), acl("*", WRITE, deny=True)), False),
        ((acl(operation=WRITE), acl("*", WRITE, who="User:carol", deny=True)), True),
        ((acl(operation=WRITE, kind=GROUP),), False),
    ],
)
def test_at_least_one(acls: tuple[Acl, ...], expected: bool) -> None:
    assert expected == authorizer(*acls).allows_some(ALICE, HOST, WRITE, TOPIC)


def test_the_operations_of_a_resource() -> None:
    assert 3576 == authorizer().allowed_operations(BOB, HOST, TOPIC, "t")
    assert 8096 == authorizer().allowed_operations(BOB, HOST, AclResource.CLUSTER)
    assert 1 << READ | 1 << DESCRIBE == authorizer(acl()).allowed_operations(ALICE, HOST, TOPIC, "t")


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        (None, PatternType.ANY, {"t", "te", "*"}),
        ("test", PatternType.MATCH, {"te", "*"}),
        ("t", PatternType.MATCH, {"t", "*"}),
        ("t", PatternType.ANY, {"t"}),
        ("te", PREFIXED, {"te"}),
        ("te", LITERAL, set()),
        (None, LITERAL, {"t", "*"}),
    ],
)
def test_filters(name: str | None, pattern: PatternType, expected: set[str]) -> None:
    acls = [acl(), acl("te", pattern=PREFIXED), acl("*")]
    meant = AclFilter(AclResource.ANY, name, pattern, None, None, AclOperation.ANY, Permission.ANY)
    assert expected == {each.resource_name for each in acls if meant.matches(each)}


@pytest.mark.parametrize("written", ["::1", "0:0:0:0:0:0:0:1", "0000::0001", "::1/128"])
def test_an_address_is_meant_however_it_is_written(written: str) -> None:
    assert host_matches(written, "::1")
    assert not host_matches(written, "::2")
    assert not host_matches(written, "10.0.0.1")
    assert not host_matches("who:is:this", "::1")


def test_hosts_that_are_none() -> None:
    assert "Invalid CIDR notation 'x/8': Could not parse [x]" == invalid_host("x/8")
    assert "Invalid CIDR notation '::1/129': Value [129] not in range [0,128]" == invalid_host("::1/129")
    long = "9" * 5000
    assert f"Invalid CIDR notation '::1/{long}': Value [{long}] not in range [0,128]" == invalid_host(f"::1/{long}")
    assert invalid_host("::/0") is None
