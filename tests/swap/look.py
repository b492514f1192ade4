"""Everything that clients and tools see of a broker, so that two systems can be compared on one directory."""

from __future__ import annotations

from typing import Any

from odradek.net.client import BlockingClient
from odradek.records.batch import batches
from odradek.records.record import iterate_records
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.describe_acls_request import DescribeAclsRequest
from odradek.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from odradek.wire.messages.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.list_groups_request import ListGroupsRequest
from odradek.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.list_transactions_request import ListTransactionsRequest
from odradek.wire.messages.metadata_request import MetadataRequest
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup

__all__ = ["NotReady", "look"]

COMMITTED = 1
TOPIC = 2
BYTES = 50_000_000
OF_TOPIC_AND_BROKER = (1, 5)
"""Where a value of a config was set: for the topic, or by default. Defaults of the two systems are no state."""


class NotReady(Exception):
    """A leader or a coordinator is not there yet."""


def _check(error_code: int, what: str) -> None:
    if error_code:
        raise NotReady(f"{what}: {ErrorCode(error_code).name}")


def look(bootstrap: str) -> dict[str, Any]:
    """What is there, by what it is about; offsets, values, states and settings, and no addresses or times."""
    with BlockingClient(bootstrap, client_id="look") as client:
        topics = _topics(client)
        return {
            "topics": topics,
            "logs": {
                f"{topic}-{index}": _log(client, topic, index)
                for topic, (_, count) in topics.items()
                for index in range(count)
                if not topic.startswith("__")
            },
            "configs": {topic: _configs(client, topic) for topic in topics},
            "groups": _groups(client),
            "transactions": _transactions(client),
            "acls": _acls(client),
            "users": _users(client),
            "features": _features(client),
        }


def _topics(client: BlockingClient) -> dict[str, tuple[bytes, int]]:
    found = client.ask(MetadataRequest(topics=None), 12)
    return {
        topic.name: (bytes(topic.topic_id), len(topic.partitions))
        for topic in sorted(found.topics, key=lambda topic: topic.name or "")
        if topic.name is not None
    }


def _log(client: BlockingClient, topic: str, index: int) -> dict[str, Any]:
    return {
        "start": _offset(client, topic, index, -2),
        "end": _offset(client, topic, index, -1),
        "stable": _offset(client, topic, index, -1, isolation=COMMITTED),
        "latest": _offset(client, topic, index, -3),
        "first": _offset(client, topic, index, 1),
        "records": _records(client, topic, index),
        "aborted": _aborted(client, topic, index),
        "producers": _producers(client, topic, index),
    }


def _offset(client: BlockingClient, topic: str, index: int, timestamp: int, isolation: int = 0) -> int:
    partition = ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=topic, partitions=[partition])],
    )
    [found] = client.ask(request, 7).topics
    [one] = found.partitions
    _check(one.error_code, f"{topic}-{index}")
    offset: int = one.offset
    return offset


def _fetch(client: BlockingClient, topic: str, index: int, offset: int, isolation: int = 0) -> Any:
    partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=BYTES)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=BYTES,
        isolation_level=isolation,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    [found] = client.ask(request, 11).responses
    [one] = found.partitions
    _check(one.error_code, f"{topic}-{index}")
    return one


def _records(client: BlockingClient, topic: str, index: int) -> list[tuple[Any, ...]]:
    offset = _offset(client, topic, index, -2)
    end = _offset(client, topic, index, -1)
    found: list[tuple[Any, ...]] = []
    while offset < end:
        read = _fetch(client, topic, index, offset).records
        if not read:
            break
        for one in batches(memoryview(read)):
            assert one.crc_is_valid()
            found += [
                (
                    *(record.offset, record.timestamp, record.key, record.value),
                    *(one.producer_id, one.producer_epoch, one.base_sequence, one.attributes),
                )
                for record in iterate_records(one)
            ]
            offset = one.next_offset
    return found


def _aborted(client: BlockingClient, topic: str, index: int) -> list[tuple[int, int]]:
    start = _offset(client, topic, index, -2)
    found = _fetch(client, topic, index, start, COMMITTED).aborted_transactions or ()
    return [(one.producer_id, one.first_offset) for one in found]


def _producers(client: BlockingClient, topic: str, index: int) -> list[tuple[int, ...]]:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[index])])
    [found] = client.ask(request, 0).topics
    [one] = found.partitions
    _check(one.error_code, f"{topic}-{index}")
    return sorted(
        (
            *(each.producer_id, each.producer_epoch, each.last_sequence),
            *(each.coordinator_epoch, each.current_txn_start_offset),
        )
        for each in one.active_producers
    )


def _configs(client: BlockingClient, topic: str) -> dict[str, str]:
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=None)
    [found] = client.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    return {each.name: each.value for each in sorted(found.configs, key=lambda c: c.name) if each.config_source == 1}


def _groups(client: BlockingClient) -> dict[str, Any]:
    listed = client.ask(ListGroupsRequest(), 5).groups
    found: dict[str, Any] = {}
    for group in sorted(listed, key=lambda group: group.group_id):
        if group.group_type == "share":
            found[group.group_id] = (group.group_type,)
            continue
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group.group_id, topics=None)])
        [answer] = client.ask(request, 8).groups
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


def _transactions(client: BlockingClient) -> dict[str, Any]:
    listed = client.ask(ListTransactionsRequest(), 0).transaction_states
    ids = sorted(each.transactional_id for each in listed)
    if not ids:
        return {}
    described = client.ask(DescribeTransactionsRequest(transactional_ids=ids), 0).transaction_states
    for each in described:
        _check(each.error_code, each.transactional_id)
    return {
        each.transactional_id: (
            *(each.transaction_state, each.producer_id, each.producer_epoch, each.transaction_timeout_ms),
            sorted((topic.topic, sorted(topic.partitions)) for topic in each.topics),
        )
        for each in described
    }


def _acls(client: BlockingClient) -> list[tuple[Any, ...]]:
    request = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    found = client.ask(request, 2).resources
    return sorted(
        (
            *(resource.resource_type, resource.resource_name, resource.pattern_type),
            *(acl.principal, acl.host, acl.operation, acl.permission_type),
        )
        for resource in found
        for acl in resource.acls
    )


def _users(client: BlockingClient) -> list[tuple[Any, ...]]:
    found = client.ask(DescribeUserScramCredentialsRequest(users=None), 0).results
    return sorted((each.user, [(info.mechanism, info.iterations) for info in each.credential_infos]) for each in found)


def _features(client: BlockingClient) -> dict[str, int]:
    found = client.ask(ApiVersionsRequest(client_software_name="look", client_software_version="1"), 3)
    return {each.name: each.max_version_level for each in sorted(found.finalized_features, key=lambda f: f.name)}
