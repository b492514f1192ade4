"""Permissions, as in Kafka's ACLs: a principal may or may not do an operation on a resource (KIP-11, KIP-290)."""

from __future__ import annotations

from enum import IntEnum

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
"""The cluster is one resource, and this is its only name."""
BITS_DIGITS_MAX = 9
"""A longer number of bits in a network is out of range; it is not parsed, for Python refuses very long numbers."""


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
    """How the name in a permission is compared with names of resources; the first three are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """Operations, numbered as on the wire."""

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
    """A filter of permissions; None and ANY match everything."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, acl: Acl) -> bool:
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
    """Why a permission cannot have this host, or None. A host is an address, a range (KIP-1276), or `*`."""
    if not host:
        return "Host pattern cannot be null or empty"
    address, slash, bits = host.partition("/")
    if not slash:
        return None
    from ipaddress import ip_address  # here and below: most starts have no permissions, and the import takes 1 ms

    try:
        width = 32 if ip_address(address).version == 4 else 128
    except ValueError:
        return f"Invalid CIDR notation '{host}': Could not parse [{address}]"
    if not bits.isdecimal() or len(bits) > BITS_DIGITS_MAX or int(bits) > width:
        return f"Invalid CIDR notation '{host}': Value [{bits}] not in range [0,{width}]"
    return None


def host_matches(pattern: str, host: str) -> bool:
    """Whether a permission with this host applies to a connection from this address."""
    if pattern in (WILDCARD, host):
        return True
    if "/" not in pattern and ":" not in pattern:
        return False
    from ipaddress import ip_address, ip_network

    try:
        if "/" not in pattern:
            # One IPv6 address has many spellings; the client's may differ from the one in the permission.
            return ip_address(host) == ip_address(pattern)
        return ip_address(host) in ip_network(pattern, strict=False)
    except ValueError:
        return False
