"""Permissions: what alice is refused, what she is allowed, and how they are created, described and deleted."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from tests.security.asked import ASKED, TOPICS, Asking
from tests.security.wire import Raw, plain

from odradek.wire.messages.create_acls_request import AclCreation, CreateAclsRequest
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from odradek.wire.messages.describe_acls_request import DescribeAclsRequest

__all__ = ["ACLS", "DENIALS", "GRANTED", "login", "prepare"]

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, USER = 2, 3, 4, 5, 7
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = 2, 3, 4, 5, 6, 7, 8, 9
DENY, ALLOW = 2, 3


def acl(
    resource_type: int,
    name: str,
    operation: int,
    *,
    pattern: int = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    permission: int = ALLOW,
) -> AclCreation:
    return AclCreation(
        resource_type=resource_type,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


GRANTED = (
    acl(TOPIC, "seen", DESCRIBE),
    acl(TOPIC, "open-", ALL, pattern=PREFIXED),
    acl(TOPIC, "barred", ALL, principal="User:*"),
    acl(TOPIC, "barred", ALL, permission=DENY),
    acl(TOPIC, "seen-not", DESCRIBE),
    acl(GROUP, "mine", ALL),
    acl(GROUP, "watched", DESCRIBE, pattern=PREFIXED),
    acl(CLUSTER, "kafka-cluster", CLUSTER_ACTION, principal="User:carol"),
    acl(TRANSACTIONAL_ID, "mine", ALL),
)
"""What alice and carol may do from the start, and what alice may not."""


def prepare(raw: Raw) -> None:
    """Bring the topics and the permissions about, by who may do everything."""
    raw.ask(
        CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in TOPICS],
            timeout_ms=10_000,
        ),
        7,
    )
    raw.ask(CreateAclsRequest(creations=list(GRANTED)), 3)
    for kind in (0, 1):
        for _ in range(50):  # until the coordinators are there
            found = raw.ask(ASKED[("find_group", "find_transaction")[kind]].make(6), 6)
            if found.coordinators[0].error_code == 0:
                break
            time.sleep(0.2)
    for _ in range(50):  # and the ids of producers
        if raw.ask(ASKED["init_idempotent"].make(5), 5).error_code == 0:
            break
        time.sleep(0.2)
    time.sleep(1)


# ---------------------------------------------------------------------- refusals


def ask_each_version(asking: Asking, raw: Raw) -> None:
    for version in asking.versions:
        raw.ask(asking.make(version), version)


DENIALS: dict[str, Callable[[Raw], None]] = {name: partial(ask_each_version, asking) for name, asking in ASKED.items()}
"""What alice is told of each API."""


def login(raw: Raw) -> None:
    """Come in as alice."""
    raw.handshake("PLAIN")
    raw.authenticate(plain("alice", "alice-secret"))
    raw.lines.clear()


# ---------------------------------------------------------------------- the permissions themselves


def create(raw: Raw, *creations: AclCreation, version: int = 3) -> None:
    if raw.ask(CreateAclsRequest(creations=list(creations)), version) is None:
        raw.reopen()
    time.sleep(0.2)


def described(
    raw: Raw,
    *,
    kind: int = ANY,
    name: str | None = None,
    pattern: int = ANY,
    principal: str | None = None,
    host: str | None = None,
    operation: int = ANY,
    permission: int = ANY,
    version: int = 3,
) -> None:
    answer = raw.ask(
        DescribeAclsRequest(
            resource_type_filter=kind,
            resource_name_filter=name,
            pattern_type_filter=pattern,
            principal_filter=principal,
            host_filter=host,
            operation=operation,
            permission_type=permission,
        ),
        version,
    )
    if answer is None:
        raw.reopen()


def deleted(
    raw: Raw,
    *,
    kind: int = ANY,
    name: str | None = None,
    pattern: int = ANY,
    principal: str | None = "User:zoe",
    operation: int = ANY,
    permission: int = ANY,
) -> None:
    one = DeleteAclsFilter(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=principal,
        host_filter=None,
        operation=operation,
        permission_type=permission,
    )
    if raw.ask(DeleteAclsRequest(filters=[one]), 3) is None:
        raw.reopen()
    time.sleep(0.2)


zoe = partial(acl, principal="User:zoe")


def they_come_and_go(raw: Raw) -> None:
    create(raw, zoe(TOPIC, "z1", READ), zoe(TOPIC, "z", WRITE, pattern=PREFIXED), zoe(TOPIC, "*", DESCRIBE))
    described(raw, principal="User:zoe")
    described(raw, kind=TOPIC, name="z1", pattern=LITERAL, principal="User:zoe")
    described(raw, kind=TOPIC, name="z1", pattern=MATCH, principal="User:zoe")
    described(raw, kind=TOPIC, name="z1", pattern=ANY, principal="User:zoe")
    described(raw, kind=TOPIC, name="z", pattern=PREFIXED, principal="User:zoe")
    described(raw, principal="User:zoe", operation=WRITE)
    described(raw, principal="User:zoe", permission=DENY)
    described(raw, principal="User:zoe", host="1.2.3.4")
    described(raw, principal="User:nobody")
    create(raw, zoe(TOPIC, "z1", READ))
    deleted(raw, kind=TOPIC, name="z1", pattern=MATCH, operation=READ)
    deleted(raw)
    deleted(raw)
    described(raw, principal="User:zoe")


def permissions_that_are_none(raw: Raw) -> None:
    create(raw, zoe(TOPIC, "z1", READ), zoe(TOPIC, "", READ))
    create(raw, zoe(CLUSTER, "z", ALTER))
    create(raw, zoe(CLUSTER, "kafka-cluster", READ))
    create(raw, zoe(TOPIC, "z", CLUSTER_ACTION))
    create(raw, zoe(TOPIC, "z", 0))
    create(raw, zoe(TOPIC, "z", ANY))
    create(raw, zoe(TOPIC, "z", READ, permission=ANY))
    create(raw, zoe(TOPIC, "z", READ, permission=0))
    create(raw, zoe(TOPIC, "z", READ, pattern=MATCH))
    create(raw, zoe(TOPIC, "z", READ, pattern=0))
    create(raw, zoe(ANY, "z", READ))
    create(raw, zoe(0, "z", READ))
    create(raw, acl(TOPIC, "z", READ, principal="zoe"))
    create(raw, zoe(TOPIC, "z", READ, host=""))
    create(raw, zoe(TOPIC, "z", READ, host="10.0.0.0/8"))
    create(raw, zoe(TOPIC, "z", READ, host="10.0.0.0/99"))
    create(raw, zoe(TOPIC, "z", READ, host="a host"))
    described(raw, principal="User:zoe")
    deleted(raw)
    described(raw, operation=0)
    described(raw, kind=0)
    deleted(raw, operation=0)
    create(raw, zoe(GROUP, "g", WRITE), zoe(TRANSACTIONAL_ID, "x", 15), zoe(USER, "User:u", 13))
    create(raw)
    described(raw, principal="User:zoe", version=1)
    deleted(raw)


def elements_without_names(raw: Raw) -> None:
    create(raw, zoe(TOPIC, "z1", READ))
    for number in (8, 32, 127, -1):
        described(raw, kind=number)
        create(raw, zoe(number, "z", READ))
        deleted(raw, kind=number)
    for number in (16, 99, -1):
        described(raw, operation=number)
        create(raw, zoe(TOPIC, "z", number))
        deleted(raw, operation=number)
    for number in (4, 5, -1):
        described(raw, permission=number)
        create(raw, zoe(TOPIC, "z", READ, permission=number))
        deleted(raw, permission=number)
    for number in (5, 9, -1):
        described(raw, pattern=number)
        described(raw, pattern=number, version=1)
        create(raw, zoe(TOPIC, "z", READ, pattern=number))
        deleted(raw, pattern=number)
    create(raw, zoe(TOPIC, "z2", READ), zoe(TOPIC, "z", 99))
    described(raw, kind=TOPIC, name="z1", operation=99, principal="User:zoe")
    described(raw, principal="User:zoe")
    deleted(raw)


ACLS: dict[str, Callable[[Raw], None]] = {
    play.__name__: play for play in (they_come_and_go, permissions_that_are_none, elements_without_names)
}
"""Every story of who may do everything, by its name."""
