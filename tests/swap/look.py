"""Everything that clients and tools see of a broker, so that two systems can be compared on one directory."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from typing import Any, Self

from msgspec import Struct

from odradek.net.client import BlockingClient
from odradek.records.legacy import batches_of_log
from odradek.records.record import iterate_records
from odradek.records.state import decode_key, decode_value
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from odradek.wire.messages.describe_acls_request import DescribeAclsRequest
from odradek.wire.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from odradek.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.describe_groups_request import DescribeGroupsRequest
from odradek.wire.messages.describe_groups_response import DescribedGroupMember
from odradek.wire.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from odradek.wire.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from odradek.wire.messages.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.list_groups_request import ListGroupsRequest
from odradek.wire.messages.list_groups_response import ListedGroup
from odradek.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.list_transactions_request import ListTransactionsRequest
from odradek.wire.messages.metadata_request import MetadataRequest
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.wire.messages.share_group_describe_request import ShareGroupDescribeRequest
from odradek.wire.messages.share_snapshot_key import ShareSnapshotKey
from odradek.wire.messages.share_snapshot_value import ShareSnapshotValue
from odradek.wire.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from odradek.wire.messages.streams_group_describe_response import Assignment as StreamsAssignment

__all__ = [
    "GROUP_KEY",
    "TRANSACTION_KEY",
    "Brokers",
    "NotReady",
    "WrongChecksum",
    "is_compacted",
    "look",
    "members_of",
    "transaction_of",
]

COMMITTED = 1
GROUP_KEY, TRANSACTION_KEY = 0, 1
TOPIC = 2
BYTES = 50_000_000
RESOURCES = ((4, ""), (16, "watched"), (32, "kept-share"), (32, "kept-consumer"))
"""Other resources with configs, by type and name: all brokers, a client metrics subscription, groups."""
SET = (1, 2, 3, 7, 8)
"""Sources of a config that was set, for each kind of resource. Defaults of the two systems are no state."""
SHARE_STATE = "__share_group_state"
CONSUMER, SHARE, STREAMS = "consumer", "share", "streams"


class WrongChecksum(Exception):
    """A batch was served that a client refuses."""


class NotReady(Exception):
    """A leader or a coordinator is not there yet."""


def _check(error_code: int, what: str) -> None:
    if error_code:
        raise NotReady(f"{what}: {ErrorCode(error_code).name}")


class Brokers:
    """Connections to the brokers of a cluster. Raises `NotReady` while nobody leads, or coordinates."""

    def __init__(self, bootstrap: str, *, client_id: str = "look", timeout_s: float = 60) -> None:
        self._exits = ExitStack()
        self._connect = partial(BlockingClient, client_id=client_id, timeout_s=timeout_s)
        self.any = self._exits.enter_context(self._connect(bootstrap))
        found = self.any.ask(MetadataRequest(topics=None), 12)
        self._addresses = {each.node_id: f"{each.host}:{each.port}" for each in found.brokers}
        self._clients: dict[int, BlockingClient] = {}
        self._leaders = {
            (topic.name, part.partition_index): part.leader_id for topic in found.topics for part in topic.partitions
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    @property
    def all(self) -> Iterable[BlockingClient]:
        return [self._client(node_id, "a list of all") for node_id in self._addresses]

    def leader_of(self, topic: str, index: int) -> BlockingClient:
        return self._client(self._leaders.get((topic, index), -1), f"{topic}-{index}")

    def coordinator_of(self, kind: int, key: str) -> int:
        """The node id."""
        [found] = self.any.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4).coordinators
        _check(found.error_code, f"the coordinator of {key}")
        return found.node_id

    def coordinated(self, kind: int, key: str) -> BlockingClient:
        """The connection to the coordinator."""
        return self._client(self.coordinator_of(kind, key), f"the coordinator of {key}")

    def _client(self, node_id: int, what: str) -> BlockingClient:
        if node_id not in self._addresses:
            raise NotReady(f"{what}: no broker {node_id}")
        if node_id not in self._clients:
            client = self._exits.enter_context(self._connect(self._addresses[node_id]))
            self._clients[node_id] = client
        return self._clients[node_id]


def look(bootstrap: str, *, whole: bool = False) -> dict[str, Any]:
    """What is there, by what it is about; offsets, values, states and settings, and no addresses or times.

    With `whole` all records of compacted logs are there, also those that the cleaner may remove.
    """
    with Brokers(bootstrap) as brokers:
        topics = _topics(brokers)
        configs = _all_configs(brokers, topics)
        return {
            "topics": topics,
            "logs": {
                f"{topic}-{index}": (_compacted if is_compacted(configs, topic) and not whole else _log)(
                    brokers, topic, index
                )
                for topic, (_, count) in topics.items()
                for index in range(count)
                if not topic.startswith("__")
            },
            "configs": configs,
            "quotas": _quotas(brokers),
            "groups": _groups(brokers),
            "members": members_of(brokers),
            "shares": _shares(brokers),
            "share_snapshots": _share_snapshots(brokers, topics),
            "transactions": _transactions(brokers),
            "acls": _acls(brokers),
            "users": _users(brokers),
            "features": _features(brokers),
        }


def _topics(brokers: Brokers) -> dict[str, tuple[bytes, int]]:
    found = brokers.any.ask(MetadataRequest(topics=None), 12)
    return {
        topic.name: (bytes(topic.topic_id), len(topic.partitions))
        for topic in sorted(found.topics, key=lambda topic: topic.name or "")
        if topic.name is not None
    }


def _log(brokers: Brokers, topic: str, index: int) -> dict[str, Any]:
    return {
        "start": _offset(brokers, topic, index, -2),
        "end": _offset(brokers, topic, index, -1),
        "stable": _offset(brokers, topic, index, -1, isolation=COMMITTED),
        "latest": _offset(brokers, topic, index, -3),
        "first": _offset(brokers, topic, index, 1),
        "records": _records(brokers, topic, index),
        "aborted": _aborted(brokers, topic, index),
        "producers": _producers(brokers, topic, index),
    }


def is_compacted(configs: dict[str, dict[str, str]], topic: str) -> bool:
    """Whether the cleaner may remove records of the topic."""
    return configs.get(f"{TOPIC} {topic}", {}).get("cleanup.policy") == "compact"


def _compacted(brokers: Brokers, topic: str, index: int) -> dict[str, Any]:
    """Each system's cleaner goes on when it likes: only the newest record of each key counts."""
    log = _log(brokers, topic, index)
    newest = {record[2]: record for record in log["records"]}
    return {**log, "records": sorted(newest.values()), "first": None}


def _offset(brokers: Brokers, topic: str, index: int, timestamp: int, isolation: int = 0) -> int:
    partition = ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=topic, partitions=[partition])],
    )
    [found] = brokers.leader_of(topic, index).ask(request, 7).topics
    [one] = found.partitions
    _check(one.error_code, f"{topic}-{index}")
    offset: int = one.offset
    return offset


def _fetch(brokers: Brokers, topic: str, index: int, offset: int, isolation: int = 0) -> Any:
    partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=BYTES)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=BYTES,
        isolation_level=isolation,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    [found] = brokers.leader_of(topic, index).ask(request, 11).responses
    [one] = found.partitions
    _check(one.error_code, f"{topic}-{index}")
    return one


def _records(brokers: Brokers, topic: str, index: int) -> list[tuple[Any, ...]]:
    offset = _offset(brokers, topic, index, -2)
    end = _offset(brokers, topic, index, -1)
    found: list[tuple[Any, ...]] = []
    while offset < end:
        read = _fetch(brokers, topic, index, offset).records
        if not read:
            break
        for one in batches_of_log(memoryview(read)):
            if not one.crc_is_valid():
                raise WrongChecksum(f"{topic}-{index} at offset {one.base_offset}")
            found += [
                (
                    *(record.offset, record.timestamp, record.key, record.value, one.magic),
                    *(one.producer_id, one.producer_epoch, one.base_sequence, one.attributes),
                )
                for record in iterate_records(one)
            ]
            offset = one.next_offset
    return found


def _aborted(brokers: Brokers, topic: str, index: int) -> list[tuple[int, int]]:
    """All of them: an answer tells those of the segment that it is from."""
    offset = _offset(brokers, topic, index, -2)
    aborted: dict[tuple[int, int], None] = {}
    while True:
        found = _fetch(brokers, topic, index, offset, COMMITTED)
        aborted |= {(one.producer_id, one.first_offset): None for one in found.aborted_transactions or ()}
        if not found.records:
            return [*aborted]
        *_, last = batches_of_log(memoryview(found.records))
        offset = last.next_offset


def _producers(brokers: Brokers, topic: str, index: int) -> list[tuple[int, ...]]:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[index])])
    [found] = brokers.leader_of(topic, index).ask(request, 0).topics
    [one] = found.partitions
    _check(one.error_code, f"{topic}-{index}")
    return sorted(
        (
            *(each.producer_id, each.producer_epoch, each.last_sequence),
            *(each.coordinator_epoch, each.current_txn_start_offset),
        )
        for each in one.active_producers
    )


def _all_configs(brokers: Brokers, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    resources = [*((TOPIC, topic) for topic in topics), *RESOURCES]
    found = {f"{kind} {name}": _configs(brokers, kind, name) for kind, name in resources}
    return {name: configs for name, configs in found.items() if configs}


def _configs(brokers: Brokers, kind: int, name: str) -> dict[str, str]:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    [found] = brokers.any.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    _check(found.error_code, f"configs of {name}")
    chosen = (each for each in found.configs if each.config_source in SET)
    return {each.name: each.value or "" for each in sorted(chosen, key=lambda each: each.name)}


def _quotas(brokers: Brokers) -> list[tuple[Any, ...]]:
    found = brokers.any.ask(DescribeClientQuotasRequest(), 1).entries
    return sorted(
        (
            [(entity.entity_type, entity.entity_name) for entity in entry.entity],
            sorted((each.key, each.value) for each in entry.values),
        )
        for entry in found or ()
    )


def _listed_groups(brokers: Brokers, kinds: Iterable[str] = ()) -> list[ListedGroup]:
    """The groups of these kinds, or of all, by name: each broker lists those that it coordinates."""
    found = []
    for client in brokers.all:
        listed = client.ask(ListGroupsRequest(types_filter=[*kinds]), 5)
        _check(listed.error_code, "groups")
        found += listed.groups
    return sorted(found, key=lambda group: group.group_id)


def members_of(brokers: Brokers) -> dict[str, tuple[Any, ...]]:
    """State, epoch and members of each group, by the description of its kind."""
    found = {}
    for group in _listed_groups(brokers):
        answer: Any = brokers.coordinated(GROUP_KEY, group.group_id).ask(
            *_description(group.group_type, group.group_id)
        )
        [described] = answer.groups
        _check(described.error_code, group.group_id)
        present = sorted(
            (
                each.member_id,
                getattr(each, "member_epoch", 0),
                each.client_id,
                _assigned(each),
            )
            for each in described.members
        )
        found[group.group_id] = (described.group_state, getattr(described, "group_epoch", 0), present)
    return found


def _description(kind: str, group: str) -> tuple[Struct, int]:
    asks: dict[str, tuple[Struct, int]] = {
        CONSUMER: (ConsumerGroupDescribeRequest(group_ids=[group]), 1),
        SHARE: (ShareGroupDescribeRequest(group_ids=[group]), 1),
        STREAMS: (StreamsGroupDescribeRequest(group_ids=[group]), 1),
    }
    return asks.get(kind, (DescribeGroupsRequest(groups=[group]), 5))


def _assigned(member: Any) -> list[Any]:
    if isinstance(member, DescribedGroupMember):
        return [bytes(member.member_metadata), bytes(member.member_assignment)]
    if isinstance(member.assignment, StreamsAssignment):
        return [(task.subtopology_id, task.partitions) for task in member.assignment.active_tasks]
    return sorted((each.topic_name, sorted(each.partitions)) for each in member.assignment.topic_partitions)


def _shares(brokers: Brokers) -> dict[str, list[tuple[str, int, int]]]:
    """The offset where each share group begins, by topic and partition."""
    found = {}
    for group in _listed_groups(brokers, [SHARE]):
        asked = DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group.group_id, topics=None)]
        )
        [described] = brokers.coordinated(GROUP_KEY, group.group_id).ask(asked, 1).groups
        _check(described.error_code, group.group_id)
        parts = [(topic.topic_name, part) for topic in described.topics for part in topic.partitions]
        for name, part in parts:
            _check(part.error_code, f"{group.group_id} of {name}")
        found[group.group_id] = sorted((name, part.partition_index, part.start_offset) for name, part in parts)
    return found


def _share_snapshots(brokers: Brokers, topics: dict[str, tuple[bytes, int]]) -> dict[tuple[str, bytes, int], int]:
    """How often the state of each partition of a share group was written as a whole."""
    found = {}
    _, count = topics.get(SHARE_STATE, (b"", 0))
    for index in range(count):
        for _, _, key, value, *_ in _records(brokers, SHARE_STATE, index):
            snapshot = decode_key(bytes(key or b""), ShareSnapshotKey)
            if snapshot is not None:
                written = decode_value(bytes(value), ShareSnapshotValue)
                epoch = -1 if written is None else written.snapshot_epoch
                found[snapshot.group_id, bytes(snapshot.topic_id), snapshot.partition] = epoch
    return found


def _groups(brokers: Brokers) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for group in _listed_groups(brokers):
        if group.group_type == "share":
            found[group.group_id] = (group.group_type,)
            continue
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group.group_id, topics=None)])
        [answer] = brokers.coordinated(GROUP_KEY, group.group_id).ask(request, 8).groups
        _check(answer.error_code, group.group_id)
        found[group.group_id] = (
            group.group_type,
            sorted(
                (topic.name, one.partition_index, one.committed_offset, one.committed_leader_epoch, one.metadata)
                for topic in answer.topics
                for one in topic.partitions
            ),
        )
    return found


def _transactions(brokers: Brokers) -> dict[str, Any]:
    ids = []
    for client in brokers.all:
        listed = client.ask(ListTransactionsRequest(), 0)
        _check(listed.error_code, "transactions")
        ids += [each.transactional_id for each in listed.transaction_states]
    return {name: transaction_of(brokers, name) for name in sorted(ids)}


def transaction_of(brokers: Brokers, name: str) -> tuple[Any, ...]:
    """State, producer and partitions of a transactional id."""
    asked = DescribeTransactionsRequest(transactional_ids=[name])
    [found] = brokers.coordinated(TRANSACTION_KEY, name).ask(asked, 0).transaction_states
    _check(found.error_code, name)
    return (
        *(found.transaction_state, found.producer_id, found.producer_epoch, found.transaction_timeout_ms),
        sorted((topic.topic, sorted(topic.partitions)) for topic in found.topics),
    )


def _acls(brokers: Brokers) -> list[tuple[Any, ...]]:
    request = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    found = brokers.any.ask(request, 2).resources
    return sorted(
        (
            *(resource.resource_type, resource.resource_name, resource.pattern_type),
            *(acl.principal, acl.host, acl.operation, acl.permission_type),
        )
        for resource in found
        for acl in resource.acls
    )


def _users(brokers: Brokers) -> list[tuple[Any, ...]]:
    found = brokers.any.ask(DescribeUserScramCredentialsRequest(users=None), 0).results
    return sorted((each.user, [(info.mechanism, info.iterations) for info in each.credential_infos]) for each in found)


def _features(brokers: Brokers) -> dict[str, int]:
    found = brokers.any.ask(ApiVersionsRequest(client_software_name="look", client_software_version="1"), 3)
    return {each.name: each.max_version_level for each in sorted(found.finalized_features, key=lambda f: f.name)}
