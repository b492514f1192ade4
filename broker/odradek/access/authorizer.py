"""The rules of Kafka's StandardAuthorizer over the permissions in the metadata log (KIP-801).

A super user may do everything. For other principals the permissions decide that name the resource, a prefix of its
name, or all names: one that denies wins over all that allow. If the resource has no permission at all,
`allow.everyone.if.no.acl.found` decides; otherwise a principal that is not allowed is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

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


class Authorizer:
    """The permissions of a cluster, and its super users."""

    def __init__(self, *, super_users: Iterable[Principal] = (), allow_everyone: bool = False) -> None:
        self._super_users = frozenset(map(str, super_users))
        self._allow_everyone = allow_everyone
        self._literal: dict[tuple[int, str], list[Acl]] = {}
        self._prefixed: dict[int, dict[str, list[Acl]]] = {}

    def adopt(self, acls: Iterable[Acl]) -> None:
        """Replace all permissions."""
        self._literal, self._prefixed = {}, {}
        for acl in acls:
            if acl.pattern_type == PatternType.PREFIXED:
                by_prefix = self._prefixed.setdefault(acl.resource_type, {})
                by_prefix.setdefault(acl.resource_name, []).append(acl)
            else:
                self._literal.setdefault((acl.resource_type, acl.resource_name), []).append(acl)

    def allows(self, principal: Principal, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Whether a principal may do this to a resource."""
        who = str(principal)
        if who in self._super_users:
            return True
        found = allowed = False
        for acl in self._about(resource_type, name):
            found = True
            if not _is_for(acl, who, host):
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
        meant = [acl for acl in self._of_kind(resource_type) if _is_for(acl, who, host)]
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

    def _about(self, resource_type: int, name: str) -> Iterator[Acl]:
        yield from self._literal.get((resource_type, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource_type, WILDCARD), ())
        for prefix, acls in self._prefixed.get(resource_type, {}).items():
            if name.startswith(prefix):
                yield from acls

    def _of_kind(self, resource_type: int) -> Iterator[Acl]:
        for (kind, _), acls in self._literal.items():
            if kind == resource_type:
                yield from acls
        for acls in self._prefixed.get(resource_type, {}).values():
            yield from acls


def _is_for(acl: Acl, who: str, host: str) -> bool:
    return acl.principal in (who, EVERYBODY) and host_matches(acl.host, host)


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
