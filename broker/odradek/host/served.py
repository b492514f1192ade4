"""Every API that a family serves, and which family: the start of a broker imports no family for it.

The rows are written by `python -m odradek.tools.apis` from the endpoints; a test compares them.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.wire.registry import APIS, ApiKey

__all__ = ["SERVED", "Served"]


class Served(NamedTuple):
    """One API; its versions are those of the schema, from `lowest` on."""

    api_key: ApiKey
    family: str
    """The name of the family in `Families`, which makes it."""
    module: str
    """The module of the family."""
    lowest: int = 0
    is_told: bool = True
    in_parts: bool = False

    @property
    def highest(self) -> int:
        """The highest version that is served."""
        return APIS[self.api_key].highest

    @property
    def is_unstable(self) -> bool:
        """Whether the highest version needs `unstable.api.versions.enable`."""
        return APIS[self.api_key].unstable

    @property
    def is_for_clients(self) -> bool:
        """Whether clients may ask; else only brokers ask one another."""
        return "broker" in APIS[self.api_key].listeners


# ---- derived from the endpoints: python -m odradek.tools.apis
SERVED: tuple[Served, ...] = (
    Served(ApiKey.PRODUCE, "produce", "odradek.data.produce"),
    Served(ApiKey.FETCH, "fetch", "odradek.data.fetch", in_parts=True),
    Served(ApiKey.API_VERSIONS, "cluster", "odradek.metadata.api.cluster"),
    Served(ApiKey.DESCRIBE_CLUSTER, "cluster", "odradek.metadata.api.cluster"),
    Served(ApiKey.DESCRIBE_LOG_DIRS, "cluster", "odradek.metadata.api.cluster"),
    Served(ApiKey.ALTER_REPLICA_LOG_DIRS, "cluster", "odradek.metadata.api.cluster"),
    Served(ApiKey.DESCRIBE_QUORUM, "quorum", "odradek.metadata.api.quorum"),
    Served(ApiKey.ADD_RAFT_VOTER, "quorum", "odradek.metadata.api.quorum"),
    Served(ApiKey.REMOVE_RAFT_VOTER, "quorum", "odradek.metadata.api.quorum"),
    Served(ApiKey.UNREGISTER_BROKER, "quorum", "odradek.metadata.api.quorum"),
    Served(ApiKey.UNREGISTER_CONTROLLER, "quorum", "odradek.metadata.api.quorum"),
    Served(ApiKey.UPDATE_FEATURES, "features", "odradek.metadata.api.features"),
    Served(ApiKey.ALLOCATE_PRODUCER_IDS, "features", "odradek.metadata.api.features"),
    Served(ApiKey.METADATA, "metadata", "odradek.metadata.api.metadata", in_parts=True),
    Served(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "topic_partitions", "odradek.metadata.api.topic_partitions"),
    Served(ApiKey.CREATE_TOPICS, "topics", "odradek.metadata.api.topics"),
    Served(ApiKey.DELETE_TOPICS, "topics", "odradek.metadata.api.topics"),
    Served(ApiKey.CREATE_PARTITIONS, "topics", "odradek.metadata.api.topics"),
    Served(ApiKey.ELECT_LEADERS, "replicas", "odradek.metadata.api.replicas"),
    Served(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "replicas", "odradek.metadata.api.replicas"),
    Served(ApiKey.LIST_PARTITION_REASSIGNMENTS, "replicas", "odradek.metadata.api.replicas"),
    Served(ApiKey.ALTER_PARTITION, "replicas", "odradek.metadata.api.replicas", lowest=3),
    Served(ApiKey.DESCRIBE_CONFIGS, "configs", "odradek.metadata.api.configs", in_parts=True),
    Served(ApiKey.ALTER_CONFIGS, "configs", "odradek.metadata.api.configs"),
    Served(ApiKey.INCREMENTAL_ALTER_CONFIGS, "configs", "odradek.metadata.api.configs"),
    Served(ApiKey.LIST_CONFIG_RESOURCES, "configs", "odradek.metadata.api.configs"),
    Served(ApiKey.ENVELOPE, "envelopes", "odradek.host.envelopes"),
    Served(ApiKey.CREATE_ACLS, "acls", "odradek.access.api.permissions"),
    Served(ApiKey.DELETE_ACLS, "acls", "odradek.access.api.permissions"),
    Served(ApiKey.DESCRIBE_ACLS, "acls", "odradek.access.api.permissions"),
    Served(ApiKey.SASL_HANDSHAKE, "credentials", "odradek.access.api.credentials"),
    Served(ApiKey.SASL_AUTHENTICATE, "credentials", "odradek.access.api.credentials"),
    Served(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "credentials", "odradek.access.api.credentials"),
    Served(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "credentials", "odradek.access.api.credentials"),
    Served(ApiKey.CREATE_DELEGATION_TOKEN, "tokens", "odradek.access.api.tokens"),
    Served(ApiKey.RENEW_DELEGATION_TOKEN, "tokens", "odradek.access.api.tokens"),
    Served(ApiKey.EXPIRE_DELEGATION_TOKEN, "tokens", "odradek.access.api.tokens"),
    Served(ApiKey.DESCRIBE_DELEGATION_TOKEN, "tokens", "odradek.access.api.tokens"),
    Served(ApiKey.DESCRIBE_CLIENT_QUOTAS, "limits", "odradek.limits.api"),
    Served(ApiKey.ALTER_CLIENT_QUOTAS, "limits", "odradek.limits.api"),
    Served(ApiKey.LIST_OFFSETS, "log_offsets", "odradek.data.log_offsets", in_parts=True),
    Served(ApiKey.OFFSET_FOR_LEADER_EPOCH, "log_offsets", "odradek.data.log_offsets", in_parts=True),
    Served(ApiKey.DELETE_RECORDS, "log_offsets", "odradek.data.log_offsets", in_parts=True),
    Served(ApiKey.DESCRIBE_PRODUCERS, "log_offsets", "odradek.data.log_offsets", in_parts=True),
    Served(ApiKey.READ_SHARE_GROUP_STATE, "share_state", "odradek.share.state_api"),
    Served(ApiKey.WRITE_SHARE_GROUP_STATE, "share_state", "odradek.share.state_api"),
    Served(ApiKey.INITIALIZE_SHARE_GROUP_STATE, "share_state", "odradek.share.state_api"),
    Served(ApiKey.DELETE_SHARE_GROUP_STATE, "share_state", "odradek.share.state_api"),
    Served(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "share_state", "odradek.share.state_api"),
    Served(ApiKey.SHARE_FETCH, "share_fetch", "odradek.share.fetch", lowest=1),
    Served(ApiKey.SHARE_ACKNOWLEDGE, "share_fetch", "odradek.share.fetch", lowest=1),
    Served(ApiKey.SHARE_GROUP_HEARTBEAT, "share_groups", "odradek.group.share.api", lowest=1),
    Served(ApiKey.SHARE_GROUP_DESCRIBE, "share_groups", "odradek.group.share.api", lowest=1),
    Served(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "share_groups", "odradek.group.share.api"),
    Served(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "share_groups", "odradek.group.share.api"),
    Served(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "share_groups", "odradek.group.share.api"),
    Served(ApiKey.INIT_PRODUCER_ID, "transactions", "odradek.txn.api"),
    Served(ApiKey.ADD_PARTITIONS_TO_TXN, "transactions", "odradek.txn.api"),
    Served(ApiKey.ADD_OFFSETS_TO_TXN, "transactions", "odradek.txn.api"),
    Served(ApiKey.END_TXN, "transactions", "odradek.txn.api"),
    Served(ApiKey.DESCRIBE_TRANSACTIONS, "transactions", "odradek.txn.api", in_parts=True),
    Served(ApiKey.LIST_TRANSACTIONS, "transactions", "odradek.txn.api"),
    Served(ApiKey.WRITE_TXN_MARKERS, "markers", "odradek.txn.write_markers"),
    Served(ApiKey.JOIN_GROUP, "groups", "odradek.group.classic.api"),
    Served(ApiKey.SYNC_GROUP, "groups", "odradek.group.classic.api"),
    Served(ApiKey.HEARTBEAT, "groups", "odradek.group.classic.api"),
    Served(ApiKey.LEAVE_GROUP, "groups", "odradek.group.classic.api"),
    Served(ApiKey.DESCRIBE_GROUPS, "groups", "odradek.group.classic.api", in_parts=True),
    Served(ApiKey.LIST_GROUPS, "groups", "odradek.group.classic.api"),
    Served(ApiKey.DELETE_GROUPS, "groups", "odradek.group.classic.api", in_parts=True),
    Served(ApiKey.CONSUMER_GROUP_HEARTBEAT, "consumer_groups", "odradek.group.consumer.api"),
    Served(ApiKey.CONSUMER_GROUP_DESCRIBE, "consumer_groups", "odradek.group.consumer.api"),
    Served(ApiKey.STREAMS_GROUP_HEARTBEAT, "streams_groups", "odradek.group.streams.api"),
    Served(ApiKey.STREAMS_GROUP_DESCRIBE, "streams_groups", "odradek.group.streams.api"),
    Served(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, "streams_groups", "odradek.group.streams.api"),
    Served(ApiKey.OFFSET_COMMIT, "offsets", "odradek.group.offsets.api"),
    Served(ApiKey.OFFSET_FETCH, "offsets", "odradek.group.offsets.api"),
    Served(ApiKey.OFFSET_DELETE, "offsets", "odradek.group.offsets.api"),
    Served(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "telemetry", "odradek.telemetry.api", is_told=False),
    Served(ApiKey.PUSH_TELEMETRY, "telemetry", "odradek.telemetry.api", is_told=False),
    Served(ApiKey.TXN_OFFSET_COMMIT, "txn_offsets", "odradek.group.offsets.txn_api"),
    Served(ApiKey.FIND_COORDINATOR, "find_coordinator", "odradek.metadata.api.find_coordinator", in_parts=True),
)
