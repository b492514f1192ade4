"""API -> what its sender needs (the permissions of Kafka 4.4, recorded in `tests/security/recorded/denials.json`).

None is an API that everybody may ask, or whose route looks at permissions itself (Fetch, whose sessions outlive them;
delegation tokens, which belong to users).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any

from odradek.access.acls import CLUSTER_NAME, AclOperation, AclResource
from odradek.access.guards import groups, quotas, topics, transactions
from odradek.access.guards.log_dirs import alter_replica_log_dirs
from odradek.access.guards.parts import (
    DENIED,
    TEXTS,
    Guard,
    entries,
    in_series,
    of_cluster,
    of_entries,
    or_of_cluster,
    whole,
)
from odradek.metadata.image import ResourceType
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.access.guards.parts import Node
    from odradek.host.call import Call

__all__ = ["GUARDS"]

READ, WRITE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE
ALTER, DESCRIBE = AclOperation.ALTER, AclOperation.DESCRIBE
GROUP, TOPIC = AclResource.GROUP, AclResource.TOPIC

_CONFIGURED: Mapping[int, AclResource] = {ResourceType.TOPIC: TOPIC, ResourceType.GROUP: GROUP}
"""Whose permissions count for configs; those of everything else belong to the cluster."""


def _group(request: Any) -> str:
    name: str | None = request.group_id
    return name or ""


def _configs(
    asked: str,
    answered: str,
    operation: AclOperation,
    *,
    tells_of_cluster: bool,
    kinds: Container[int] = frozenset(ResourceType),
) -> Guard:
    """Each resource of these kinds whose configs are asked for is looked at."""

    def judge(authority: Authority, node: Node, call: Call, entry: Any) -> ErrorCode:
        if entry.resource_type not in kinds:
            return ErrorCode.NONE
        kind = _CONFIGURED.get(entry.resource_type, AclResource.CLUSTER)
        name = CLUSTER_NAME if kind is AclResource.CLUSTER else entry.resource_name
        return ErrorCode.NONE if authority.allows(call, operation, kind, name) else DENIED[kind]

    cluster = DENIED[AclResource.CLUSTER]
    tells = {error: text for error, text in TEXTS.items() if tells_of_cluster or error is not cluster}
    return entries(asked, answered, judge, tells=tells)


def _altered() -> Guard:
    """Of what the broker that was asked keeps itself nothing is told but the error; the controller says more."""
    told = frozenset({ResourceType.CLIENT_METRICS})
    guards = [
        _configs("resources", "responses", AclOperation.ALTER_CONFIGS, tells_of_cluster=tells, kinds=kinds)
        for tells, kinds in ((True, told), (False, frozenset(ResourceType) - told))
    ]
    return in_series(*guards)


_MEMBER = whole(READ, GROUP, _group)

GUARDS: Mapping[ApiKey, Guard | None] = {
    ApiKey.LIST_OFFSETS: of_entries("topics", "topics", DESCRIBE),
    ApiKey.METADATA: topics.metadata,
    ApiKey.OFFSET_COMMIT: in_series(_MEMBER, of_entries("topics", "topics", READ)),
    ApiKey.OFFSET_FETCH: groups.offset_fetch,
    ApiKey.JOIN_GROUP: groups.join,
    ApiKey.HEARTBEAT: _MEMBER,
    ApiKey.LEAVE_GROUP: _MEMBER,
    ApiKey.SYNC_GROUP: in_series(groups.sync_protocol, _MEMBER),
    ApiKey.DESCRIBE_GROUPS: in_series(groups.with_group_operations, of_entries("groups", "groups", DESCRIBE, GROUP)),
    ApiKey.LIST_GROUPS: groups.list_groups,
    ApiKey.SASL_HANDSHAKE: None,
    ApiKey.API_VERSIONS: None,
    ApiKey.CREATE_TOPICS: topics.create_topics,
    ApiKey.DELETE_TOPICS: topics.delete_topics,
    ApiKey.DELETE_RECORDS: of_entries("topics", "topics", DELETE),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: or_of_cluster(
        AclOperation.CLUSTER_ACTION, of_entries("topics", "topics", DESCRIBE)
    ),
    ApiKey.DESCRIBE_ACLS: of_cluster(DESCRIBE, names_itself=True),
    ApiKey.CREATE_ACLS: of_cluster(ALTER, names_itself=True),
    ApiKey.DELETE_ACLS: of_cluster(ALTER, names_itself=True),
    ApiKey.DESCRIBE_CONFIGS: _configs("resources", "results", AclOperation.DESCRIBE_CONFIGS, tells_of_cluster=True),
    ApiKey.ALTER_CONFIGS: _altered(),
    ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: of_cluster(DESCRIBE),
    ApiKey.SASL_AUTHENTICATE: None,
    ApiKey.CREATE_PARTITIONS: of_entries("topics", "results", ALTER),
    ApiKey.CREATE_DELEGATION_TOKEN: None,
    ApiKey.RENEW_DELEGATION_TOKEN: None,
    ApiKey.EXPIRE_DELEGATION_TOKEN: None,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: None,
    ApiKey.DELETE_GROUPS: of_entries("groups_names", "results", DELETE, GROUP),
    ApiKey.ELECT_LEADERS: of_cluster(ALTER, names_itself=True),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: of_cluster(ALTER, names_itself=True),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: of_cluster(DESCRIBE, names_itself=True),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _altered(),
    ApiKey.OFFSET_DELETE: in_series(whole(DELETE, GROUP, _group), of_entries("topics", "topics", READ)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: quotas.describe_client_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: quotas.alter_client_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: of_cluster(DESCRIBE),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: transactions.alter_credentials,
    ApiKey.DESCRIBE_QUORUM: of_cluster(DESCRIBE, message=TEXTS[ErrorCode.CLUSTER_AUTHORIZATION_FAILED]),
    ApiKey.UPDATE_FEATURES: of_cluster(ALTER, names_itself=True),
    ApiKey.DESCRIBE_CLUSTER: transactions.describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: of_entries("topics", "topics", READ, tells=True),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: in_series(_MEMBER, groups.subscribed),
    ApiKey.CONSUMER_GROUP_DESCRIBE: in_series(
        groups.of_assigned_topics, groups.with_group_operations, of_entries("group_ids", "groups", DESCRIBE, GROUP)
    ),
    ApiKey.STREAMS_GROUP_HEARTBEAT: in_series(_MEMBER, groups.of_topology),
    ApiKey.STREAMS_GROUP_DESCRIBE: in_series(
        groups.describe_streams, groups.with_group_operations, of_entries("group_ids", "groups", DESCRIBE, GROUP)
    ),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: _MEMBER,
    ApiKey.SHARE_GROUP_HEARTBEAT: in_series(_MEMBER, groups.subscribed),
    ApiKey.SHARE_GROUP_DESCRIBE: in_series(
        groups.of_assigned_topics, groups.with_group_operations, of_entries("group_ids", "groups", DESCRIBE, GROUP)
    ),
    ApiKey.SHARE_FETCH: _MEMBER,
    ApiKey.SHARE_ACKNOWLEDGE: _MEMBER,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: of_cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.READ_SHARE_GROUP_STATE: of_cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.WRITE_SHARE_GROUP_STATE: of_cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.DELETE_SHARE_GROUP_STATE: of_cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: of_cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: in_series(
        groups.of_shared_topics, of_entries("groups", "groups", DESCRIBE, GROUP)
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: in_series(
        whole(READ, GROUP, _group, message=TEXTS[DENIED[GROUP]]),
        groups.with_topic_ids,
        of_entries("topics", "responses", READ, tells=True),
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: in_series(
        whole(DELETE, GROUP, _group, message=TEXTS[DENIED[GROUP]]),
        of_entries("topics", "responses", READ, tells=True),
    ),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: None,
    ApiKey.PUSH_TELEMETRY: None,
    ApiKey.LIST_CONFIG_RESOURCES: of_cluster(AclOperation.DESCRIBE_CONFIGS),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: topics.describe_topic_partitions,
    ApiKey.ADD_RAFT_VOTER: of_cluster(ALTER, message=TEXTS[ErrorCode.CLUSTER_AUTHORIZATION_FAILED]),
    ApiKey.REMOVE_RAFT_VOTER: of_cluster(ALTER, message=TEXTS[ErrorCode.CLUSTER_AUTHORIZATION_FAILED]),
    ApiKey.UNREGISTER_BROKER: of_cluster(ALTER, names_itself=True),
    ApiKey.UNREGISTER_CONTROLLER: of_cluster(ALTER, names_itself=True),
    ApiKey.ALTER_PARTITION: of_cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.ALLOCATE_PRODUCER_IDS: of_cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.ENVELOPE: of_cluster(AclOperation.CLUSTER_ACTION),
}
"""Every API that is served; a test holds it to the list of routes."""
