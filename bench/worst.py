"""The worst single request of every API that the limits let through, and for how long it holds everybody else up.

    python -m bench.worst                            # all of them
    python -m bench.worst OffsetCommit DeleteGroups  # some

What is measured is the processor time of each step of a broker: nobody else is served in one. It is the same whatever
else the machine does, but for its caches. What a first request imports is imported before, and the garbage collector
works as in `odradek serve`.
They are about a cluster with the topic `t`, of 10,000 partitions, and the topics `s0` to `s999` with one each.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Struct, convert

from odradek.host.router import ENTRIES_MAX, SERVED, SHARED_ENTRIES_MAX
from odradek.net.garbage import Garbage
from odradek.net.outside import TURN_S
from odradek.net.warm import pieces
from odradek.records.record import Record, build_batch
from odradek.releases.table import WIDEST
from odradek.sim import World
from odradek.wire import registry
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.registry import ApiKey

__all__ = ["SHORT", "TOPICS", "WORST", "Survey", "Worst"]

LARGE, SMALL = 10_000, 1_000
"""Partitions of the large topic, and how many small topics there are."""
TOPICS = [f"t:{LARGE}", *(f"s{index}" for index in range(SMALL))]
CONFIG = {
    "odradek.internal.topics.at.start": "true",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
SPARE = 10
"""Entries that are not the many: of topics, groups and the like around them."""

IN_PARTS = frozenset(served.api_key for served in SERVED if served.in_parts)

Body: TypeAlias = Mapping[str, object] | Struct


class Worst(Struct, frozen=True):
    """One request: the API, its version, and its fields as builtins, from the id of the topic `t`."""

    api_key: ApiKey
    version: int
    body: Callable[[bytes], Body]
    before: str | None = None
    """What has to be played first: the name of another one."""

    def request(self, topic_id: bytes) -> Struct:
        """The message."""
        body = self.body(topic_id)
        return body if isinstance(body, Struct) else convert(body, registry.request_type(self.api_key))


def _many(api_key: ApiKey) -> range:
    return range((SHARED_ENTRIES_MAX if api_key in IN_PARTS else ENTRIES_MAX) - SPARE)


def _topic(
    key: str, name: str, partitions: str, of: Callable[[int], object]
) -> Callable[[ApiKey], Mapping[str, object]]:
    """All partitions of the large topic."""
    return lambda api_key: {key: [{name: "t", partitions: [of(index % LARGE) for index in _many(api_key)]}]}


def _indexes(key: str, name: str, partitions: str) -> Callable[[ApiKey], Mapping[str, object]]:
    return _topic(key, name, partitions, lambda index: index)


def _names(api_key: ApiKey, prefix: str = "n") -> list[str]:
    return [f"{prefix}{index}" for index in _many(api_key)]


RECORDS = memoryview(build_batch([Record(timestamp=1_700_000_000_000, key=None, value=b"x")]))
TXN = {"transactional_id": "x", "producer_id": 0, "producer_epoch": 0}


def _committed(index: int) -> Mapping[str, object]:
    return {"partition_index": index, "committed_offset": 5, "committed_metadata": ""}


def _acl(index: int) -> Mapping[str, object]:
    principal = f"User:u{index}"
    return {
        "resource_type": 2, "resource_name": "t", "resource_pattern_type": 3,
        "principal": principal, "host": "*", "operation": 3, "permission_type": 3,
    }  # fmt: skip


def _quota(index: int) -> Mapping[str, object]:
    entity = [{"entity_type": "user", "entity_name": f"u{index}"}]
    return {"entity": entity, "ops": [{"key": "producer_byte_rate", "value": 1e9}]}


def _produce(indexes: range) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=RECORDS) for index in indexes]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name="t", partition_data=data)])


def _worst(api_key: ApiKey, version: int, of: Callable[[ApiKey], Body], before: str | None = None) -> Worst:
    return Worst(api_key, version, lambda _: of(api_key), before)


def _states(api_key: ApiKey, of_partition: Mapping[str, object], before: str | None = None) -> Worst:
    """The states of a share group, at the share coordinator."""

    def body(topic_id: bytes) -> Mapping[str, object]:
        partitions = [{"partition": index, **of_partition} for index in range(LARGE - SPARE)]
        return {"group_id": "ss", "topics": [{"topic_id": topic_id, "partitions": partitions}]}

    return Worst(api_key, 0, body, before)


A = ApiKey
SHORT = frozenset({
    A.ADD_OFFSETS_TO_TXN, A.ADD_RAFT_VOTER, A.ALLOCATE_PRODUCER_IDS, A.ALTER_PARTITION, A.API_VERSIONS,
    A.DESCRIBE_CLUSTER, A.ENVELOPE, A.EXPIRE_DELEGATION_TOKEN, A.GET_TELEMETRY_SUBSCRIPTIONS, A.HEARTBEAT,
    A.PUSH_TELEMETRY, A.REMOVE_RAFT_VOTER, A.RENEW_DELEGATION_TOKEN, A.SASL_AUTHENTICATE, A.SASL_HANDSHAKE,
    A.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, A.UNREGISTER_BROKER, A.UNREGISTER_CONTROLLER,
})  # fmt: skip
"""APIs about one thing, those that brokers alone ask for, and PushTelemetry, whose bytes are read beside the steps."""
WORST: dict[str, Worst] = {
    "Produce": _worst(A.PRODUCE, 9, lambda key: _produce(_many(key))),
    "Fetch": _worst(A.FETCH, 12, lambda key: {
        "max_wait_ms": 0,
        **_topic("topics", "topic", "partitions", lambda i: {"partition": i, "partition_max_bytes": 1})(key),
    }),
    "ListOffsets": _worst(A.LIST_OFFSETS, 7, lambda key: {
        "replica_id": -1,
        **_topic("topics", "name", "partitions", lambda i: {"partition_index": i, "timestamp": -1})(key),
    }),
    "Metadata": _worst(A.METADATA, 12, lambda key: {"topics": None}),
    "Metadata of names": _worst(A.METADATA, 12, lambda key: {
        "topics": [{"name": name} for name in _names(key)], "allow_auto_topic_creation": False,
    }),
    "OffsetCommit": _worst(A.OFFSET_COMMIT, 9, lambda key: {
        "group_id": "g", "generation_id_or_member_epoch": -1,
        **_topic("topics", "name", "partitions", _committed)(key),
    }),
    "OffsetFetch": _worst(A.OFFSET_FETCH, 7, lambda key: {"group_id": "g", "topics": None}, "OffsetCommit"),
    "OffsetFetch by groups": _worst(A.OFFSET_FETCH, 8, lambda key: {
        "groups": [{"group_id": "g", **_indexes("topics", "name", "partition_indexes")(key)}],
    }, "OffsetCommit"),
    "OffsetDelete": _worst(A.OFFSET_DELETE, 0, lambda key: {
        "group_id": "g", **_topic("topics", "name", "partitions", lambda i: {"partition_index": i})(key),
    }, "OffsetCommit"),
    "DeleteGroups": _worst(A.DELETE_GROUPS, 2, lambda key: {"groups_names": ["g"]}, "OffsetCommit"),
    "DeleteGroups of none": _worst(A.DELETE_GROUPS, 2, lambda key: {"groups_names": _names(key)}),
    "FindCoordinator": _worst(A.FIND_COORDINATOR, 4, lambda key: {"coordinator_keys": _names(key)}),
    "JoinGroup": _worst(A.JOIN_GROUP, 3, lambda key: {
        "group_id": "j", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": "",
        "protocol_type": "consumer", "protocols": [{"name": name, "metadata": b""} for name in _names(key)],
    }),
    "LeaveGroup": _worst(A.LEAVE_GROUP, 5, lambda key: {
        "group_id": "j", "members": [{"member_id": name} for name in _names(key)],
    }),
    "DescribeGroups": _worst(A.DESCRIBE_GROUPS, 5, lambda key: {"groups": _names(key)}),
    "ListGroups": _worst(A.LIST_GROUPS, 4, lambda key: {"states_filter": _names(key)}),
    "CreateTopics": _worst(A.CREATE_TOPICS, 7, lambda key: {
        "timeout_ms": 30_000,
        "topics": [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in _names(key, "c")],
    }),
    "CreateTopics of 10,000 partitions": _worst(A.CREATE_TOPICS, 7, lambda key: {
        "timeout_ms": 30_000, "topics": [{"name": "large", "num_partitions": 10_000, "replication_factor": 1}],
    }),
    "CreateTopics by hand": _worst(A.CREATE_TOPICS, 7, lambda key: {
        "timeout_ms": 30_000, "topics": [{
            "name": "hand", "num_partitions": -1, "replication_factor": -1,
            "assignments": [{"partition_index": i, "broker_ids": [1]} for i in range(ENTRIES_MAX // 2 - SPARE)],
        }],
    }),
    "CreatePartitions": _worst(A.CREATE_PARTITIONS, 3, lambda key: {
        "timeout_ms": 30_000, "topics": [{"name": "s0", "count": 10_001, "assignments": None}],
    }),
    "CreatePartitions of topics": _worst(A.CREATE_PARTITIONS, 3, lambda key: {
        "timeout_ms": 30_000,
        "topics": [{"name": f"s{i}", "count": 10, "assignments": None} for i in range(1, 101)],
    }),
    "DeleteTopics of 10,000 partitions": _worst(
        A.DELETE_TOPICS, 5, lambda key: {"timeout_ms": 30_000, "topic_names": ["large"]},
        "CreateTopics of 10,000 partitions",
    ),
    "DeleteTopics": _worst(
        A.DELETE_TOPICS, 5, lambda key: {"timeout_ms": 30_000, "topic_names": _names(key, "c")}, "CreateTopics"
    ),
    "DeleteRecords": _worst(A.DELETE_RECORDS, 2, lambda key: {
        "timeout_ms": 30_000,
        **_topic("topics", "name", "partitions", lambda i: {"partition_index": i, "offset": -1})(key),
    }),
    "OffsetForLeaderEpoch": _worst(A.OFFSET_FOR_LEADER_EPOCH, 4, lambda key: {
        "replica_id": -1, **_topic("topics", "topic", "partitions", lambda i: {"partition": i, "leader_epoch": 0})(key),
    }),
    "InitProducerId": _worst(
        A.INIT_PRODUCER_ID, 4, lambda key: {"transactional_id": "x", "transaction_timeout_ms": 60_000}
    ),
    "AddPartitionsToTxn": _worst(A.ADD_PARTITIONS_TO_TXN, 3, lambda key: {
        "v3_and_below_transactional_id": "x", "v3_and_below_producer_id": 0, "v3_and_below_producer_epoch": 0,
        **_indexes("v3_and_below_topics", "name", "partitions")(key),
    }, "InitProducerId"),
    "AddPartitionsToTxn beside 10,000": _worst(A.ADD_PARTITIONS_TO_TXN, 3, lambda key: {
        "v3_and_below_transactional_id": "x", "v3_and_below_producer_id": 0, "v3_and_below_producer_epoch": 0,
        "v3_and_below_topics": [
            {"name": "t", "partitions": list(range(SMALL, LARGE - SPARE))},
            *({"name": f"s{i}", "partitions": [0]} for i in range(SMALL // 2)),
        ],
    }, "AddPartitionsToTxn"),
    "TxnOffsetCommit": _worst(A.TXN_OFFSET_COMMIT, 5, lambda key: {
        **TXN, "group_id": "h", **_topic("topics", "name", "partitions", _committed)(key),
    }, "InitProducerId"),
    "EndTxn": _worst(A.END_TXN, 3, lambda key: {**TXN, "committed": True}, "AddPartitionsToTxn"),
    "WriteTxnMarkers": _worst(A.WRITE_TXN_MARKERS, 1, lambda key: {
        "markers": [{
            "producer_id": 7, "producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0,
            **_indexes("topics", "name", "partition_indexes")(key),
        }],
    }),
    "CreateAcls": _worst(A.CREATE_ACLS, 3, lambda key: {"creations": [_acl(i) for i in _many(key)]}),
    "DescribeConfigs": _worst(A.DESCRIBE_CONFIGS, 4, lambda key: {
        "resources": [{"resource_type": 2, "resource_name": "t", "configuration_keys": None} for _ in range(300)],
        "include_documentation": True, "include_synonyms": True,
    }),
    "AlterConfigs": _worst(A.ALTER_CONFIGS, 2, lambda key: {
        "resources": [
            {"resource_type": 2, "resource_name": f"s{i}", "configs": [{"name": "retention.ms", "value": "1000000"}]}
            for i in range(SMALL)
        ],
    }),
    "IncrementalAlterConfigs": _worst(A.INCREMENTAL_ALTER_CONFIGS, 1, lambda key: {
        "resources": [
            {
                "resource_type": 2, "resource_name": f"s{i}",
                "configs": [{"name": "retention.ms", "config_operation": 0, "value": "2000000"}],
            }
            for i in range(SMALL)
        ],
    }),
    "IncrementalAlterConfigs of groups": _worst(A.INCREMENTAL_ALTER_CONFIGS, 1, lambda key: {
        "resources": [
            {
                "resource_type": 32, "resource_name": f"g{i}",
                "configs": [{"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "50000"}],
            }
            for i in range(ENTRIES_MAX // 2 - SPARE)
        ],
    }),
    "IncrementalAlterConfigs of all brokers": _worst(A.INCREMENTAL_ALTER_CONFIGS, 1, lambda key: {
        "resources": [{
            "resource_type": 4, "resource_name": "",
            "configs": [{"name": "log.retention.ms", "config_operation": 0, "value": "2000000"}],
        }],
    }),
    "AlterReplicaLogDirs": _worst(A.ALTER_REPLICA_LOG_DIRS, 2, lambda key: {
        "dirs": [{"path": "/nowhere", **_indexes("topics", "name", "partitions")(key)}],
    }),
    "DescribeLogDirs": _worst(A.DESCRIBE_LOG_DIRS, 4, lambda key: {"topics": None}),
    "ElectLeaders": _worst(A.ELECT_LEADERS, 2, lambda key: {
        "election_type": 0, "timeout_ms": 30_000, **_indexes("topic_partitions", "topic", "partitions")(key),
    }),
    "ElectLeaders of all": _worst(
        A.ELECT_LEADERS, 2, lambda key: {"election_type": 0, "timeout_ms": 30_000, "topic_partitions": None}
    ),
    "AlterPartitionReassignments": _worst(A.ALTER_PARTITION_REASSIGNMENTS, 0, lambda key: {
        "timeout_ms": 30_000, "topics": [{
            "name": "t",
            "partitions": [{"partition_index": i, "replicas": [1]} for i in range(ENTRIES_MAX // 2 - SPARE)],
        }],
    }),
    "ListPartitionReassignments": _worst(A.LIST_PARTITION_REASSIGNMENTS, 0, lambda key: {
        "timeout_ms": 30_000, **_indexes("topics", "name", "partition_indexes")(key),
    }),
    "AlterClientQuotas": _worst(A.ALTER_CLIENT_QUOTAS, 1, lambda key: {
        "entries": [_quota(i) for i in range(ENTRIES_MAX // 3 - SPARE)],
    }),
    "AlterUserScramCredentials": _worst(A.ALTER_USER_SCRAM_CREDENTIALS, 0, lambda key: {
        "deletions": [], "upsertions": [
            {"name": f"u{i}", "mechanism": 1, "iterations": 4096, "salt": b"s" * 16, "salted_password": b"p" * 32}
            for i in _many(key)
        ],
    }),
    "DescribeUserScramCredentials": _worst(A.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, lambda key: {
        "users": [{"name": name} for name in _names(key)],
    }),
    "DescribeProducers": _worst(
        A.DESCRIBE_PRODUCERS, 0, lambda key: _indexes("topics", "name", "partition_indexes")(key)
    ),
    "DescribeTransactions": _worst(A.DESCRIBE_TRANSACTIONS, 0, lambda key: {"transactional_ids": _names(key)}),
    "ListTransactions": _worst(A.LIST_TRANSACTIONS, 1, lambda key: {
        "state_filters": _names(key), "duration_filter": -1,
    }),
    "ConsumerGroupHeartbeat of names": _worst(A.CONSUMER_GROUP_HEARTBEAT, 1, lambda key: {
        "group_id": "cn", "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": [*_names(key), "t"], "topic_partitions": [],
    }),
    "ConsumerGroupHeartbeat": _worst(A.CONSUMER_GROUP_HEARTBEAT, 1, lambda key: {
        "group_id": "c", "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["t", *(f"s{i}" for i in range(SMALL))], "topic_partitions": [],
    }),
    "ConsumerGroupHeartbeat that owns": Worst(A.CONSUMER_GROUP_HEARTBEAT, 1, lambda topic_id: {
        "group_id": "c", "member_id": "m", "member_epoch": 1, "rebalance_timeout_ms": 60_000,
        "topic_partitions": [{"topic_id": topic_id, "partitions": list(range(9_900))}],
    }, "ConsumerGroupHeartbeat"),
    "ConsumerGroupDescribe": _worst(A.CONSUMER_GROUP_DESCRIBE, 1, lambda key: {"group_ids": _names(key)}),
    "ConsumerGroupDescribe of one": _worst(
        A.CONSUMER_GROUP_DESCRIBE, 1, lambda key: {"group_ids": ["c"]}, "ConsumerGroupHeartbeat"
    ),
    "ShareGroupHeartbeat": _worst(A.SHARE_GROUP_HEARTBEAT, 1, lambda key: {
        "group_id": "sh", "member_id": "m", "member_epoch": 0,
        "subscribed_topic_names": ["t", *(f"s{i}" for i in range(SMALL))],
    }),
    "ShareGroupDescribe": _worst(A.SHARE_GROUP_DESCRIBE, 1, lambda key: {"group_ids": _names(key)}),
    "ShareFetch": Worst(A.SHARE_FETCH, 1, lambda topic_id: {
        "group_id": "sh", "member_id": "m", "share_session_epoch": 0, "max_wait_ms": 0, "max_bytes": 1,
        "max_records": 1, "batch_size": 1,
        "topics": [{
            "topic_id": topic_id,
            "partitions": [{"partition_index": i, "acknowledgement_batches": []} for i in range(9_900)],
        }],
    }, "ShareGroupHeartbeat"),
    "ShareFetch again": _worst(A.SHARE_FETCH, 1, lambda _: {
        "group_id": "sh", "member_id": "m", "share_session_epoch": 1, "max_wait_ms": 0, "max_bytes": 1,
        "max_records": 1, "batch_size": 1,
    }, "ShareFetch"),
    "ShareAcknowledge": Worst(A.SHARE_ACKNOWLEDGE, 1, lambda topic_id: {
        "group_id": "sh", "member_id": "m", "share_session_epoch": 2,
        "topics": [{
            "topic_id": topic_id,
            "partitions": [
                {"partition_index": i, "acknowledgement_batches": [
                    {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]},
                ]}
                for i in range(2_400)
            ],
        }],
    }, "ShareFetch again"),
    "DescribeShareGroupOffsets": _worst(A.DESCRIBE_SHARE_GROUP_OFFSETS, 1, lambda key: {
        "groups": [{"group_id": "sh", **_indexes("topics", "topic_name", "partitions")(key)}],
    }, "ShareGroupHeartbeat"),
    "AlterShareGroupOffsets": _worst(A.ALTER_SHARE_GROUP_OFFSETS, 0, lambda key: {
        "group_id": "so",
        **_topic("topics", "topic_name", "partitions", lambda i: {"partition_index": i, "start_offset": 0})(key),
    }),
    "StreamsGroupHeartbeat": _worst(A.STREAMS_GROUP_HEARTBEAT, 0, lambda key: {
        "group_id": "st", "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 60_000, "process_id": "p",
        "topology": {"epoch": 1, "subtopologies": [{
            "subtopology_id": "0", "source_topics": ["t", *(f"s{i}" for i in range(SMALL))],
        }]},
        "active_tasks": [], "standby_tasks": [], "warmup_tasks": [],
    }),
    "StreamsGroupDescribe": _worst(A.STREAMS_GROUP_DESCRIBE, 1, lambda key: {"group_ids": _names(key)}),
    "StreamsGroupDescribe of one": _worst(
        A.STREAMS_GROUP_DESCRIBE, 1, lambda key: {"group_ids": ["st"]}, "StreamsGroupHeartbeat"
    ),
    "DeleteShareGroupOffsets": _worst(A.DELETE_SHARE_GROUP_OFFSETS, 0, lambda key: {
        "group_id": "sd", "topics": [{"topic_name": name} for name in _names(key)],
    }),
    "DeleteShareGroupOffsets of 10,000 partitions": _worst(A.DELETE_SHARE_GROUP_OFFSETS, 0, lambda key: {
        "group_id": "so", "topics": [{"topic_name": "t"}],
    }, "AlterShareGroupOffsets"),
    "InitializeShareGroupState": _states(A.INITIALIZE_SHARE_GROUP_STATE, {"state_epoch": 0, "start_offset": 0}),
    "WriteShareGroupState": _states(
        A.WRITE_SHARE_GROUP_STATE,
        {"state_epoch": 0, "leader_epoch": 0, "start_offset": 0, "state_batches": []},
        "InitializeShareGroupState",
    ),
    "ReadShareGroupState": _states(
        A.READ_SHARE_GROUP_STATE, {"leader_epoch": 0}, "InitializeShareGroupState"
    ),
    "ReadShareGroupStateSummary": _states(
        A.READ_SHARE_GROUP_STATE_SUMMARY, {"leader_epoch": 0}, "InitializeShareGroupState"
    ),
    "DeleteShareGroupState": _states(A.DELETE_SHARE_GROUP_STATE, {}, "InitializeShareGroupState"),
    "SyncGroup": _worst(A.SYNC_GROUP, 4, lambda key: {
        "group_id": "g", "generation_id": 1, "member_id": "m",
        "assignments": [{"member_id": name, "assignment": b""} for name in _names(key)],
    }),
    "DescribeAcls": _worst(A.DESCRIBE_ACLS, 3, lambda key: {
        "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
        "host_filter": None, "operation": 1, "permission_type": 1,
    }, "CreateAcls"),
    "DescribeClientQuotas": _worst(
        A.DESCRIBE_CLIENT_QUOTAS, 1, lambda key: {"components": []}, "AlterClientQuotas"
    ),
    "ListConfigResources": _worst(
        A.LIST_CONFIG_RESOURCES, 1, lambda key: {}, "IncrementalAlterConfigs of groups"
    ),
    "UpdateFeatures": _worst(A.UPDATE_FEATURES, 2, lambda key: {
        "timeout_ms": 30_000,
        "feature_updates": [{"feature": name, "max_version_level": 1, "upgrade_type": 1} for name in _names(key)],
    }),
    "CreateDelegationToken": _worst(A.CREATE_DELEGATION_TOKEN, 3, lambda key: {
        "max_lifetime_ms": -1,
        "renewers": [{"principal_type": "User", "principal_name": name} for name in _names(key)],
    }),
    "DescribeDelegationToken": _worst(A.DESCRIBE_DELEGATION_TOKEN, 3, lambda key: {
        "owners": [{"principal_type": "User", "principal_name": name} for name in _names(key)],
    }),
    "DescribeTopicPartitions": _worst(A.DESCRIBE_TOPIC_PARTITIONS, 0, lambda key: {
        "topics": [{"name": "t"}, *({"name": f"s{i}"} for i in range(SMALL))], "response_partition_limit": 2_000,
    }),
    "DescribeQuorum": _worst(A.DESCRIBE_QUORUM, 1, lambda key: {
        "topics": [{"topic_name": "t", "partitions": [{"partition_index": i} for i in _many(key)]}],
    }),
    "DeleteAcls": _worst(A.DELETE_ACLS, 3, lambda key: {
        "filters": [
            {
                "resource_type_filter": 2, "pattern_type_filter": 3, "principal_filter": f"User:u{i}", "operation": 3,
                "permission_type": 3,
            }
            for i in range(ENTRIES_MAX // 2 - SPARE)
        ],
    }, "CreateAcls"),
    "CreateTopics of 100,000 partitions": _worst(A.CREATE_TOPICS, 7, lambda key: {
        "timeout_ms": 30_000, "topics": [{"name": "largest", "num_partitions": 100_000, "replication_factor": 1}],
    }),
}  # fmt: skip
"""By what is asked; order matters little, but for what is played `before`."""


class Survey:
    """One broker, and how long its steps take (processor time, ms)."""

    def __init__(self) -> None:
        self._world = World(topics=TOPICS, config=CONFIG, tells=False, calls_itself=True)
        self._node = self._world.nodes[1]
        self._topic_id = self._node.image.topics["t"].id
        self._played: set[str] = set()
        self._steps: list[tuple[float, float]] = []
        self._ends = self._collecting_since = self._collected = 0.0
        gc.callbacks.append(self._collects)
        self._node.turns.is_over = lambda: time.process_time() >= self._ends
        step = self._node.step

        def timed(*arguments: object) -> object:
            began = time.process_time()
            self._ends = began + TURN_S
            self._collected = 0.0
            try:
                return step(*arguments)  # type: ignore[arg-type]
            finally:
                lasted = time.process_time() - began
                self._steps.append((lasted * 1000, (lasted - self._collected) * 1000))

        self._node.step = timed  # type: ignore[method-assign, assignment]

    def _collects(self, phase: str, _: object) -> None:
        now = time.process_time()
        if phase == "start":
            self._collecting_since = now
        else:
            self._collected += now - self._collecting_since

    def play(self, name: str) -> list[tuple[float, float]]:
        """Ask for this, once what comes before it has been asked for; the steps until it is answered and done.

        Of each how long it took, with and without the garbage collector.
        """
        worst = WORST[name]
        if worst.before is not None and worst.before not in self._played:
            self.play(worst.before)
        self._played.add(name)
        client = self._world.client()
        request = worst.request(self._topic_id)
        self._world.run()
        self._steps.clear()
        client.ask(request, worst.version)
        self._world.run()
        return list(self._steps)


def main() -> None:
    for piece in pieces(WIDEST):
        piece()
    survey = Survey()
    with Garbage():
        _print(survey)


def _print(survey: Survey) -> None:
    print("| request | steps | longest, ms | without the garbage collector | all, ms |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in sys.argv[1:] or WORST:
        steps = survey.play(name)
        longest, alone = (max(column) for column in zip(*steps, strict=True))
        print(
            f"| {name} | {len(steps):,} | {longest:.1f} | {alone:.1f} | {sum(step for step, _ in steps):,.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
