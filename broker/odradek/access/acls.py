"""Permissions, as Kafka's ACLs have them: who, from where, may do or not do what, to which resource (KIP-11, 290)."""

from __future__ import annotations

from enum import IntEnum
from ipaddress import ip_address, ip_network

from msgspec import Struct

__all__ = [
    "CLUSTER_NAME",
    "WILDCARD",
    "Acl",
    "AclFilter",
    "AclOperation",
    "AclResource",
    "PatternType",
    "Permission",
    "host_matches",
    "invalid_host",
]

WILDCARD = "*"
CLUSTER_NAME = "kafka-cluster"
BITS_DIGITS_MAX = 9
"""More digits of a width are out of range without being read, and some would be too long for Python to read."""
"""The only name that the cluster has as a resource."""


class AclResource(IntEnum):
    """Kinds of resources, numbered as on the wire."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a permission names resources; the first three are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """What may be done, numbered as on the wire."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether an operation is allowed or denied."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(Struct, frozen=True):
    """One permission."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class AclFilter(Struct, frozen=True):
    """Which permissions are meant; None and ANY leave open."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, acl: Acl) -> bool:
        """Whether this permission is meant."""
        return (
            self.resource_type in (AclResource.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._names(acl)
        )

    def _names(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.resource_name is None or self.resource_name == acl.resource_name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return self.resource_name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD


def invalid_host(host: str) -> str | None:
    """Why a permission cannot be for this host, or None; a host is an address, a range (KIP-1276), or anything."""
    if not host:
        return "Host pattern cannot be null or empty"
    address, slash, bits = host.partition("/")
    if not slash:
        return None
    try:
        width = 32 if ip_address(address).version == 4 else 128
    except ValueError:
        return f"Invalid CIDR notation '{host}': Could not parse [{address}]"
    if not bits.isdecimal() or len(bits) > BITS_DIGITS_MAX or int(bits) > width:
        return f"Invalid CIDR notation '{host}': Value [{bits}] not in range [0,{width}]"
    return None


def host_matches(pattern: str, host: str) -> bool:
    """Whether a connection from this address is meant."""
    if pattern in (WILDCARD, host):
        return True
    if "/" not in pattern and ":" not in pattern:
        return False
    try:
        if "/" not in pattern:
            # An address of IPv6 can be written in many ways, of which who denies it has chosen one.
            return ip_address(host) == ip_address(pattern)
        return ip_address(host) in ip_network(pattern, strict=False)
    except ValueError:
        return False
