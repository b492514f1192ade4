"""Every route takes what the real node is: mypy compares them here, because the table names them by strings."""

from __future__ import annotations

from collections.abc import Callable, Coroutine

from msgspec import Struct

from odradek.access.api import credentials, permissions, tokens
from odradek.broker import Node
from odradek.data import log_offsets
from odradek.group.classic import api as groups
from odradek.group.consumer import api as consumer_groups
from odradek.group.offsets import api as offsets
from odradek.group.share import api as share_groups
from odradek.group.streams import api as streams_groups
from odradek.host import envelopes
from odradek.host.call import Call
from odradek.host.router import BROKER_ROUTES, ROUTES
from odradek.limits import api as quotas
from odradek.metadata.api import cluster, configs, features, metadata, quorum, replicas, topic_partitions, topics
from odradek.share import fetch as share_fetch
from odradek.share import state_api as share_state
from odradek.telemetry import api as telemetry
from odradek.wire.registry import ApiKey

SERVED: dict[ApiKey, Callable[[Node, Call], Coroutine[object, None, Struct | None]]] = {
    ApiKey.LIST_OFFSETS: log_offsets.list_offsets,
    ApiKey.METADATA: metadata.metadata,
    ApiKey.OFFSET_COMMIT: offsets.offset_commit,
    ApiKey.OFFSET_FETCH: offsets.offset_fetch,
    ApiKey.JOIN_GROUP: groups.join_group,
    ApiKey.HEARTBEAT: groups.heartbeat,
    ApiKey.LEAVE_GROUP: groups.leave_group,
    ApiKey.SYNC_GROUP: groups.sync_group,
    ApiKey.DESCRIBE_GROUPS: groups.describe_groups,
    ApiKey.LIST_GROUPS: groups.list_groups,
    ApiKey.SASL_HANDSHAKE: credentials.sasl_handshake,
    ApiKey.API_VERSIONS: cluster.api_versions,
    ApiKey.CREATE_TOPICS: topics.create_topics,
    ApiKey.DELETE_TOPICS: topics.delete_topics,
    ApiKey.DELETE_RECORDS: log_offsets.delete_records,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: log_offsets.offset_for_leader_epoch,
    ApiKey.DESCRIBE_ACLS: permissions.describe_acls,
    ApiKey.CREATE_ACLS: permissions.create_acls,
    ApiKey.DELETE_ACLS: permissions.delete_acls,
    ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
    ApiKey.ALTER_CONFIGS: configs.alter_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: cluster.alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: cluster.describe_log_dirs,
    ApiKey.SASL_AUTHENTICATE: credentials.sasl_authenticate,
    ApiKey.CREATE_PARTITIONS: topics.create_partitions,
    ApiKey.CREATE_DELEGATION_TOKEN: tokens.create_delegation_token,
    ApiKey.RENEW_DELEGATION_TOKEN: tokens.renew_delegation_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: tokens.expire_delegation_token,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: tokens.describe_delegation_token,
    ApiKey.DELETE_GROUPS: groups.delete_groups,
    ApiKey.ELECT_LEADERS: replicas.elect_leaders,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.incremental_alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: replicas.alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: replicas.list_partition_reassignments,
    ApiKey.OFFSET_DELETE: offsets.offset_delete,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: quotas.describe_client_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: quotas.alter_client_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: credentials.describe_user_scram_credentials,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: credentials.alter_user_scram_credentials,
    ApiKey.DESCRIBE_QUORUM: quorum.describe_quorum,
    ApiKey.UPDATE_FEATURES: features.update_features,
    ApiKey.DESCRIBE_CLUSTER: cluster.describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: log_offsets.describe_producers,
    ApiKey.UNREGISTER_BROKER: quorum.unregister_broker,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_groups.consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_groups.consumer_group_describe,
    ApiKey.STREAMS_GROUP_HEARTBEAT: streams_groups.streams_group_heartbeat,
    ApiKey.STREAMS_GROUP_DESCRIBE: streams_groups.streams_group_describe,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: streams_groups.streams_group_topology_description_update,
    ApiKey.SHARE_GROUP_HEARTBEAT: share_groups.share_group_heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: share_groups.share_group_describe,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: telemetry.get_telemetry_subscriptions,
    ApiKey.PUSH_TELEMETRY: telemetry.push_telemetry,
    ApiKey.LIST_CONFIG_RESOURCES: configs.list_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: topic_partitions.describe_topic_partitions,
    ApiKey.ADD_RAFT_VOTER: quorum.add_raft_voter,
    ApiKey.REMOVE_RAFT_VOTER: quorum.remove_raft_voter,
    ApiKey.UNREGISTER_CONTROLLER: quorum.unregister_controller,
    ApiKey.SHARE_FETCH: share_fetch.share_fetch,
    ApiKey.SHARE_ACKNOWLEDGE: share_fetch.share_acknowledge,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: share_state.initialize_share_group_state,
    ApiKey.READ_SHARE_GROUP_STATE: share_state.read_share_group_state,
    ApiKey.WRITE_SHARE_GROUP_STATE: share_state.write_share_group_state,
    ApiKey.DELETE_SHARE_GROUP_STATE: share_state.delete_share_group_state,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: share_state.read_share_group_state_summary,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: share_groups.describe_share_group_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: share_groups.alter_share_group_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: share_groups.delete_share_group_offsets,
    ApiKey.ALTER_PARTITION: replicas.alter_partition,
    ApiKey.ALLOCATE_PRODUCER_IDS: features.allocate_producer_ids,
    ApiKey.ENVELOPE: envelopes.envelope,
}


def test_the_table_names_every_route_by_its_module_and_function() -> None:
    table = {route.api_key: route.target for route in (*ROUTES, *BROKER_ROUTES)}
    named = {key: f"{serve.__module__.removeprefix('odradek.')}:{serve.__name__}" for key, serve in SERVED.items()}
    assert table == named
