"""Every API with its family, so that the start of a broker imports no family.

`python -m odradek.tools.apis` writes the rows from the endpoints; a test compares them.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.wire.registry import APIS, ApiKey

__all__ = ["SERVED", "Served"]


class Served(NamedTuple):
    """One API; its versions are those of the schema, from `lowest` on."""

    api_key: ApiKey
    family: str
    """The name of the family in `odradek.broker.FAMILIES`, which makes it."""
    lowest: int = 0
    is_told: bool = True
    in_parts: bool = False

    @property
    def highest(self) -> int:
        return APIS[self.api_key].highest

    @property
    def is_unstable(self) -> bool:
        """Whether the highest version needs `unstable.api.versions.enable`."""
        return APIS[self.api_key].unstable

    @property
    def is_draft(self) -> bool:
        """Whether only a dialect offers it."""
        return APIS[self.api_key].draft

    @property
    def is_for_clients(self) -> bool:
        """Whether clients may use it; otherwise it is for brokers only."""
        return "broker" in APIS[self.api_key].listeners


# ---- derived from the endpoints: python -m odradek.tools.apis
SERVED: tuple[Served, ...] = (
    Served(ApiKey.PRODUCE, "produce"),
    Served(ApiKey.FETCH, "fetch", in_parts=True),
    Served(ApiKey.API_VERSIONS, "versions"),
    Served(ApiKey.DESCRIBE_CLUSTER, "cluster"),
    Served(ApiKey.DESCRIBE_LOG_DIRS, "cluster"),
    Served(ApiKey.ALTER_REPLICA_LOG_DIRS, "cluster"),
    Served(ApiKey.DESCRIBE_QUORUM, "quorum"),
    Served(ApiKey.ADD_RAFT_VOTER, "quorum"),
    Served(ApiKey.REMOVE_RAFT_VOTER, "quorum"),
    Served(ApiKey.UNREGISTER_BROKER, "quorum"),
    Served(ApiKey.UNREGISTER_CONTROLLER, "quorum"),
    Served(ApiKey.UPDATE_FEATURES, "features"),
    Served(ApiKey.ALLOCATE_PRODUCER_IDS, "features"),
    Served(ApiKey.METADATA, "metadata", in_parts=True),
    Served(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "topic_partitions"),
    Served(ApiKey.CREATE_TOPICS, "topics"),
    Served(ApiKey.DELETE_TOPICS, "topics"),
    Served(ApiKey.CREATE_PARTITIONS, "topics"),
    Served(ApiKey.ELECT_LEADERS, "replicas"),
    Served(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "replicas"),
    Served(ApiKey.LIST_PARTITION_REASSIGNMENTS, "replicas"),
    Served(ApiKey.ALTER_PARTITION, "replicas", lowest=3),
    Served(ApiKey.DESCRIBE_CONFIGS, "configs", in_parts=True),
    Served(ApiKey.ALTER_CONFIGS, "configs"),
    Served(ApiKey.INCREMENTAL_ALTER_CONFIGS, "configs"),
    Served(ApiKey.LIST_CONFIG_RESOURCES, "configs"),
    Served(ApiKey.ENVELOPE, "envelopes"),
    Served(ApiKey.CREATE_ACLS, "acls"),
    Served(ApiKey.DELETE_ACLS, "acls"),
    Served(ApiKey.DESCRIBE_ACLS, "acls"),
    Served(ApiKey.SASL_HANDSHAKE, "credentials"),
    Served(ApiKey.SASL_AUTHENTICATE, "credentials"),
    Served(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "credentials"),
    Served(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "credentials"),
    Served(ApiKey.CREATE_DELEGATION_TOKEN, "tokens"),
    Served(ApiKey.RENEW_DELEGATION_TOKEN, "tokens"),
    Served(ApiKey.EXPIRE_DELEGATION_TOKEN, "tokens"),
    Served(ApiKey.DESCRIBE_DELEGATION_TOKEN, "tokens"),
    Served(ApiKey.DESCRIBE_CLIENT_QUOTAS, "limits"),
    Served(ApiKey.ALTER_CLIENT_QUOTAS, "limits"),
    Served(ApiKey.LIST_OFFSETS, "log_offsets", in_parts=True),
    Served(ApiKey.OFFSET_FOR_LEADER_EPOCH, "log_offsets", in_parts=True),
    Served(ApiKey.DELETE_RECORDS, "log_offsets", in_parts=True),
    Served(ApiKey.DESCRIBE_PRODUCERS, "log_offsets", in_parts=True),
    Served(ApiKey.READ_SHARE_GROUP_STATE, "share_state"),
    Served(ApiKey.WRITE_SHARE_GROUP_STATE, "share_state"),
    Served(ApiKey.INITIALIZE_SHARE_GROUP_STATE, "share_state"),
    Served(ApiKey.DELETE_SHARE_GROUP_STATE, "share_state"),
    Served(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "share_state"),
    Served(ApiKey.SHARE_FETCH, "share_fetch", lowest=1),
    Served(ApiKey.SHARE_ACKNOWLEDGE, "share_fetch", lowest=1),
    Served(ApiKey.TXN_SHARE_ACKNOWLEDGE, "txn_shares"),
    Served(ApiKey.SHARE_GROUP_HEARTBEAT, "share_groups", lowest=1),
    Served(ApiKey.SHARE_GROUP_DESCRIBE, "share_groups", lowest=1),
    Served(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "share_offsets"),
    Served(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "share_offsets"),
    Served(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "share_offsets"),
    Served(ApiKey.INIT_PRODUCER_ID, "transactions"),
    Served(ApiKey.ADD_PARTITIONS_TO_TXN, "transactions"),
    Served(ApiKey.ADD_OFFSETS_TO_TXN, "transactions"),
    Served(ApiKey.END_TXN, "transactions"),
    Served(ApiKey.DESCRIBE_TRANSACTIONS, "transactions", in_parts=True),
    Served(ApiKey.LIST_TRANSACTIONS, "transactions"),
    Served(ApiKey.WRITE_TXN_MARKERS, "markers"),
    Served(ApiKey.JOIN_GROUP, "groups"),
    Served(ApiKey.SYNC_GROUP, "groups"),
    Served(ApiKey.HEARTBEAT, "groups"),
    Served(ApiKey.LEAVE_GROUP, "groups"),
    Served(ApiKey.DESCRIBE_GROUPS, "groups", in_parts=True),
    Served(ApiKey.LIST_GROUPS, "groups"),
    Served(ApiKey.DELETE_GROUPS, "groups", in_parts=True),
    Served(ApiKey.CONSUMER_GROUP_HEARTBEAT, "consumer_groups"),
    Served(ApiKey.CONSUMER_GROUP_DESCRIBE, "consumer_groups"),
    Served(ApiKey.STREAMS_GROUP_HEARTBEAT, "streams_groups"),
    Served(ApiKey.STREAMS_GROUP_DESCRIBE, "streams_groups"),
    Served(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, "streams_groups"),
    Served(ApiKey.OFFSET_COMMIT, "offsets"),
    Served(ApiKey.OFFSET_FETCH, "offsets"),
    Served(ApiKey.OFFSET_DELETE, "offsets"),
    Served(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "telemetry", is_told=False),
    Served(ApiKey.PUSH_TELEMETRY, "telemetry", is_told=False),
    Served(ApiKey.TXN_OFFSET_COMMIT, "txn_offsets"),
    Served(ApiKey.FIND_COORDINATOR, "find_coordinator", in_parts=True),
)
