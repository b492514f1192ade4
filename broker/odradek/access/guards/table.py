"""API -> what its sender needs (the permissions of Kafka 4.4, recorded in `tests/security/recorded/denials.json`).

None is an API that everybody may ask, or whose route looks at permissions itself (Fetch, whose sessions outlive them;
delegation tokens, which belong to users).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.access.acls import AclOperation, AclResource
from odradek.access.guards import groups
from odradek.access.guards.parts import (
    Guard,
    in_series,
    of_entries,
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

GUARDS: Mapping[ApiKey, Guard | None] = {
    ApiKey.OFFSET_COMMIT: in_series(_MEMBER, of_entries("topics", "topics", READ)),
    ApiKey.OFFSET_FETCH: groups.offset_fetch,
    ApiKey.JOIN_GROUP: groups.join,
    ApiKey.HEARTBEAT: _MEMBER,
    ApiKey.LEAVE_GROUP: _MEMBER,
    ApiKey.SYNC_GROUP: in_series(groups.sync_protocol, _MEMBER),
    ApiKey.DESCRIBE_GROUPS: in_series(groups.with_group_operations, of_entries("groups", "groups", DESCRIBE, GROUP)),
    ApiKey.LIST_GROUPS: groups.list_groups,
    ApiKey.DELETE_GROUPS: of_entries("groups_names", "results", DELETE, GROUP),
    ApiKey.OFFSET_DELETE: in_series(whole(DELETE, GROUP, _group), of_entries("topics", "topics", READ)),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: in_series(_MEMBER, groups.subscribed),
    ApiKey.CONSUMER_GROUP_DESCRIBE: in_series(
        groups.of_assigned_topics, groups.with_group_operations, of_entries("group_ids", "groups", DESCRIBE, GROUP)
    ),
    ApiKey.STREAMS_GROUP_HEARTBEAT: in_series(_MEMBER, groups.of_topology),
    ApiKey.STREAMS_GROUP_DESCRIBE: in_series(
        groups.describe_streams, groups.with_group_operations, of_entries("group_ids", "groups", DESCRIBE, GROUP)
    ),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: _MEMBER,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: None,
    ApiKey.PUSH_TELEMETRY: None,
}
"""Every API that is served; a test holds it to the list of routes."""
