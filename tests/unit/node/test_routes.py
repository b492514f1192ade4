"""Every route takes what the real node is: mypy compares them here, because the table names them by strings."""

from __future__ import annotations

from collections.abc import Callable, Coroutine

from msgspec import Struct

from odradek.node.node import Node
from odradek.node.routes import (
    cluster,
    configs,
    consumer_groups,
    credentials,
    envelopes,
    features,
    fetch,
    find_coordinator,
    groups,
    log_offsets,
    markers,
    metadata,
    offsets,
    permissions,
    produce,
    quorum,
    quotas,
    replicas,
    topic_partitions,
    topics,
    transactions,
    txn_offsets,
)
from odradek.node.transport.call import Call
from odradek.node.transport.router import BROKER_ROUTES, ROUTES
from odradek.wire.registry import ApiKey

SERVED: dict[ApiKey, Callable[[Node, Call], Coroutine[object, None, Struct | None]]] = {
    ApiKey.PRODUCE: produce.produce,
    ApiKey.FETCH: fetch.fetch,
    ApiKey.LIST_OFFSETS: log_offsets.list_offsets,
    ApiKey.METADATA: metadata.metadata,
    ApiKey.OFFSET_COMMIT: offsets.offset_commit,
    ApiKey.OFFSET_FETCH: offsets.offset_fetch,
    ApiKey.FIND_COORDINATOR: find_coordinator.find_coordinator,
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
    ApiKey.INIT_PRODUCER_ID: transactions.init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: log_offsets.offset_for_leader_epoch,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets_to_txn,
    ApiKey.END_TXN: transactions.end_txn,
    ApiKey.WRITE_TXN_MARKERS: markers.write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: txn_offsets.txn_offset_commit,
    ApiKey.DESCRIBE_ACLS: permissions.describe_acls,
    ApiKey.CREATE_ACLS: permissions.create_acls,
    ApiKey.DELETE_ACLS: permissions.delete_acls,
    ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
    ApiKey.ALTER_CONFIGS: configs.alter_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: cluster.alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: cluster.describe_log_dirs,
    ApiKey.SASL_AUTHENTICATE: credentials.sasl_authenticate,
    ApiKey.CREATE_PARTITIONS: topics.create_partitions,
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
    ApiKey.DESCRIBE_TRANSACTIONS: transactions.describe_transactions,
    ApiKey.LIST_TRANSACTIONS: transactions.list_transactions,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_groups.consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_groups.consumer_group_describe,
    ApiKey.LIST_CONFIG_RESOURCES: configs.list_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: topic_partitions.describe_topic_partitions,
    ApiKey.ADD_RAFT_VOTER: quorum.add_raft_voter,
    ApiKey.REMOVE_RAFT_VOTER: quorum.remove_raft_voter,
    ApiKey.UNREGISTER_CONTROLLER: quorum.unregister_controller,
    ApiKey.ALTER_PARTITION: replicas.alter_partition,
    ApiKey.ALLOCATE_PRODUCER_IDS: features.allocate_producer_ids,
    ApiKey.ENVELOPE: envelopes.envelope,
}


def test_the_table_names_every_route_by_its_module_and_function() -> None:
    table = {route.api_key: route.target for route in (*ROUTES, *BROKER_ROUTES)}
    named = {key: f"{serve.__module__.rsplit('.', 1)[-1]}:{serve.__name__}" for key, serve in SERVED.items()}
    assert table == named
