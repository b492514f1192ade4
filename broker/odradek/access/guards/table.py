"""API -> what its sender needs (the permissions of Kafka 4.4, recorded in `tests/security/recorded/denials.json`).

None is an API that everybody may ask, or whose route looks at permissions itself (Fetch, whose sessions outlive them;
delegation tokens, which belong to users).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.access.acls import AclOperation, AclResource
from odradek.access.guards.parts import (
    Guard,
    whole,
)
from odradek.wire.registry import ApiKey

__all__ = ["GUARDS"]

READ, WRITE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE
ALTER, DESCRIBE = AclOperation.ALTER, AclOperation.DESCRIBE
GROUP, TOPIC = AclResource.GROUP, AclResource.TOPIC


def _group(request: Any) -> str:
    name: str | None = request.group_id
    return name or ""


_MEMBER = whole(READ, GROUP, _group)

GUARDS: Mapping[ApiKey, Guard | None] = {}
"""Every API that is served; a test holds it to the list of routes."""
