"""The rules of Kafka's StandardAuthorizer over the permissions in the metadata log (KIP-801).

A super user may do everything. For other principals the permissions decide that name the resource, a prefix of its
name, or all names: one that denies wins over all that allow. If the resource has no permission at all,
`allow.everyone.if.no.acl.found` decides; otherwise a principal that is not allowed is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from odradek.access.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclOperation,
    AclResource,
    PatternType,
    Permission,
    host_matches,
)
from odradek.access.principal import Principal

__all__ = ["OPERATIONS", "Authorizer"]

EVERYBODY = "User:*"
IMPLIED: Mapping[int, frozenset[int]] = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS}),
}
"""Operations whose ALLOW implies another one, besides itself and ALL. A DENY applies only to itself, or is for ALL."""

OPERATIONS: Mapping[int, tuple[int, ...]] = {
    AclResource.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    AclResource.GROUP: (3, 6, 8, 10, 11),
    AclResource.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
}
"""The operations on a resource that responses list as authorized operations (KIP-430)."""
_SOME_NAME = "hardcode"
"""The name in the log for "any resource of this kind", where a check concerns no single one."""


Named: TypeAlias = "dict[str, list[Acl]]"
"""Permissions on a name, or on a prefix of names, by principal."""


class Authorizer:
    """The permissions of a cluster, and its super users.

    Those of others, and on other names, are not looked at: a request may name thousands of resources, where there are
    thousands of permissions.
    """

    def __init__(self, *, super_users: Iterable[Principal] = (), allow_everyone: bool = False) -> None:
        self._super_users = frozenset(map(str, super_users))
        self._allow_everyone = allow_everyone
        self._literal: dict[tuple[int, str], Named] = {}
        self._prefixed: dict[tuple[int, str], Named] = {}
        self._lengths: dict[int, set[int]] = {}
        """The lengths of all prefixes, by kind of resource."""

    def adopt(self, acls: Iterable[Acl]) -> None:
        """Replace all permissions."""
        self._literal, self._prefixed, self._lengths = {}, {}, {}
        for acl in acls:
            named = self._literal
            if acl.pattern_type == PatternType.PREFIXED:
                named = self._prefixed
                self._lengths.setdefault(acl.resource_type, set()).add(len(acl.resource_name))
            by_principal = named.setdefault((acl.resource_type, acl.resource_name), {})
            by_principal.setdefault(acl.principal, []).append(acl)

    def allows(self, principal: Principal, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Whether a principal may do this to a resource."""
        who = str(principal)
        if who in self._super_users:
            return True
        found = allowed = False
        for named in self._about(resource_type, name):
            found = True
            for acl in _of(named, who):
                if not host_matches(acl.host, host):
                    continue
                if acl.permission == Permission.DENY and acl.operation in (operation, AclOperation.ALL):
                    return False
                allowed = allowed or _grants(acl, operation)
        return allowed if found else self._allow_everyone

    def allows_some(self, principal: Principal, host: str, operation: int, resource_type: int) -> bool:
        """Whether a principal may do this to at least one resource of the kind, of any name."""
        who = str(principal)
        if who in self._super_users:
            return True
        meant = [
            acl for named in self._of_kind(resource_type) for acl in _of(named, who) if host_matches(acl.host, host)
        ]
        denied = [
            acl for acl in meant if acl.permission == Permission.DENY and acl.operation in (operation, AclOperation.ALL)
        ]
        if any(acl.pattern_type == PatternType.LITERAL and acl.resource_name == WILDCARD for acl in denied):
            return False
        if any(_grants(acl, operation) and not _is_covered(acl, denied) for acl in meant):
            return True
        return self.allows(principal, host, operation, resource_type, _SOME_NAME)

    def allowed_operations(self, principal: Principal, host: str, resource_type: int, name: str = CLUSTER_NAME) -> int:
        """All operations that a principal may do on a resource, one bit each."""
        return sum(
            1 << operation
            for operation in OPERATIONS[resource_type]
            if self.allows(principal, host, operation, resource_type, name)
        )

    def _about(self, resource_type: int, name: str) -> list[Named]:
        patterns = [self._literal.get((resource_type, name))]
        if name != WILDCARD:
            patterns.append(self._literal.get((resource_type, WILDCARD)))
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name):
                patterns.append(self._prefixed.get((resource_type, name[:length])))
        return [named for named in patterns if named is not None]

    def _of_kind(self, resource_type: int) -> Iterator[Named]:
        for patterns in (self._literal, self._prefixed):
            for (kind, _), named in patterns.items():
                if kind == resource_type:
                    yield named


def _of(named: Named, who: str) -> Sequence[Acl]:
    """The permissions of a principal, its own and those of everybody."""
    own, everybodys = named.get(who, ()), named.get(EVERYBODY, ())
    return (*own, *everybodys) if own and everybodys and who != EVERYBODY else own or everybodys


def _grants(acl: Acl, operation: int) -> bool:
    if acl.permission != Permission.ALLOW:
        return False
    return acl.operation in (operation, AclOperation.ALL) or acl.operation in IMPLIED.get(operation, ())


def _is_covered(acl: Acl, denied: Iterable[Acl]) -> bool:
    """Whether other permissions deny everything that one permission allows."""
    for each in denied:
        if each.pattern_type == PatternType.PREFIXED:
            if acl.resource_name.startswith(each.resource_name):
                return True
        elif acl.pattern_type == PatternType.LITERAL and acl.resource_name == each.resource_name:
            return True
    return False
