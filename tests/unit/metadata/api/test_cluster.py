"""ApiVersions, DescribeCluster, DescribeQuorum and DescribeLogDirs at the border of a node."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.host.helpers import batch, produce_request

from odradek.host.events import Command
from odradek.host.router import SERVED
from odradek.sim import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import APIS
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.describe_cluster_request import DescribeClusterRequest
from odradek.wire.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from odradek.wire.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData

CLUSTER = "simulated-cluster-id-0"


@pytest.fixture(scope="module")
def world() -> World:
    return World(topics=["t:2"], config={"odradek.internal.topics.at.start": False})


def api_versions(world: World, version: int, **fields: Any) -> Any:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    for name, value in fields.items():
        setattr(request, name, value)
    return world.client().ask(request, version)


@pytest.mark.parametrize("version", range(6))
def test_api_versions_lists_what_is_routed(world: World, version: int) -> None:
    response = api_versions(world, version)

    assert 0 == response.error_code
    told = {served.api_key for served in SERVED if served.is_told and served.is_for_clients}
    assert {api_key for api_key in told if not APIS[api_key].draft} == {entry.api_key for entry in response.api_keys}
    assert (18, 0, 5) in [(entry.api_key, entry.min_version, entry.max_version) for entry in response.api_keys]


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        (2, []),
        (3, [("metadata.version", 7, 33)]),
        (
            4,
            [
                ("group.version", 0, 1),
                ("kraft.version", 0, 1),
                ("metadata.version", 7, 33),
                ("share.version", 0, 2),
                ("streams.version", 0, 1),
                ("transaction.version", 0, 2),
                ("eligible.leader.replicas.version", 0, 1),
            ],
        ),
    ],
)
def test_features(world: World, version: int, supported: list[tuple[str, int, int]]) -> None:
    response = api_versions(world, version)

    assert supported == [(f.name, f.min_version, f.max_version) for f in response.supported_features]
    finalized = {f.name: (f.min_version_level, f.max_version_level) for f in response.finalized_features}
    told = {
        "metadata.version": (33, 33),
        "group.version": (1, 1),
        "share.version": (2, 2),
        "transaction.version": (2, 2),
        "eligible.leader.replicas.version": (1, 1),
        "streams.version": (1, 1),
    }
    assert (told if version >= 3 else {}) == finalized
    assert (world.nodes[1].image.offset if version >= 3 else -1) == response.finalized_features_epoch


def test_the_epoch_of_the_features_is_the_offset_of_the_image(world: World) -> None:
    before = api_versions(world, 4).finalized_features_epoch

    World.move_leader(world, "t", 0, 1)

    assert before + 1 == api_versions(world, 4).finalized_features_epoch


@pytest.mark.parametrize(
    ("name", "number", "error"),
    [("a", "1", 0), ("a.b-c", "1-2", 0), ("", "", 42), ("a", "_", 42), ("-a", "1", 42), ("a b", "1", 42)],
)
def test_software_has_a_proper_name(world: World, name: str, number: str, error: int) -> None:
    response = api_versions(world, 3, client_software_name=name, client_software_version=number)

    assert (error, error == 0) == (response.error_code, bool(response.api_keys))


@pytest.mark.parametrize(
    ("cluster", "node", "error"),
    [
        (CLUSTER, 1, ErrorCode.NONE),
        (None, -1, ErrorCode.NONE),
        ("other", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER, 9, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER, -1, ErrorCode.INVALID_REQUEST),
        (None, 9, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_client_may_say_whom_it_means(world: World, cluster: str | None, node: int, error: ErrorCode) -> None:
    assert error == api_versions(world, 5, cluster_id=cluster, node_id=node).error_code


# ---------------------------------------------------------------------- DescribeCluster


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster(world: World, version: int) -> None:
    response = world.client().ask(DescribeClusterRequest(), version)

    assert (0, None, CLUSTER, 1) == (
        response.error_code,
        response.error_message,
        response.cluster_id,
        response.controller_id,
    )
    assert [(1, "broker-1", 9092)] == [(broker.broker_id, broker.host, broker.port) for broker in response.brokers]


def test_describe_cluster_knows_no_other_endpoints(world: World) -> None:
    client = world.client()

    controllers = client.ask(DescribeClusterRequest(endpoint_type=2), 1)
    others = client.ask(DescribeClusterRequest(endpoint_type=9), 1)

    assert [ErrorCode.MISMATCHED_ENDPOINT_TYPE, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE] == [
        controllers.error_code,
        others.error_code,
    ]


def test_fenced_brokers_are_shown_on_demand() -> None:
    world = World(brokers=2)
    world.post(1, Command(lambda: world.nodes[1].controller.fence(2)))
    client = world.client()

    hidden = client.ask(DescribeClusterRequest(), 2)
    shown = client.ask(DescribeClusterRequest(include_fenced_brokers=True), 2)

    assert [(1, False)] == [(broker.broker_id, broker.is_fenced) for broker in hidden.brokers]
    assert [(1, False), (2, True)] == [(broker.broker_id, broker.is_fenced) for broker in shown.brokers]


def test_permitted_operations_are_told_on_demand(world: World) -> None:
    response = world.client().ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 0)

    assert 8096 == response.cluster_authorized_operations


# ---------------------------------------------------------------------- DescribeQuorum


def quorum(world: World, version: int, *partitions: int, topic: str = "__cluster_metadata") -> Any:
    asked = TopicData(topic_name=topic, partitions=[PartitionData(partition_index=index) for index in partitions])
    return world.client().ask(DescribeQuorumRequest(topics=[asked]), version)


@pytest.mark.parametrize("version", range(3))
def test_the_controller_is_the_only_voter(version: int) -> None:
    world = World(brokers=3)

    response = quorum(world, version, 0)

    [state] = response.topics[0].partitions
    assert (0, 1, world.nodes[1].image.offset + 1) == (state.error_code, state.leader_id, state.high_watermark)
    assert [1] == [replica.replica_id for replica in state.current_voters]
    assert [2, 3] == [replica.replica_id for replica in state.observers]
    assert ([1] if version >= 2 else []) == [node.node_id for node in response.nodes]


@pytest.mark.parametrize(
    ("topic", "partitions"), [("t", [0]), ("__cluster_metadata", [1]), ("__cluster_metadata", [0, 1])]
)
def test_there_is_no_other_quorum(world: World, topic: str, partitions: list[int]) -> None:
    response = quorum(world, 2, *partitions, topic=topic)

    assert [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * len(partitions) == [
        state.error_code for state in response.topics[0].partitions
    ]
    assert [] == response.nodes


# ---------------------------------------------------------------------- DescribeLogDirs


@pytest.mark.parametrize("version", range(6))
def test_log_dirs(version: int) -> None:
    world = World(topics=["t:2"], config={"odradek.internal.topics.at.start": False})
    client = world.client()
    records = batch(b"x" * 100)
    client.ask(produce_request(records, partition=1), 9)

    response = client.ask(DescribeLogDirsRequest(topics=None), version)

    [result] = response.results
    assert 0 == result.error_code
    assert [("t", [(0, 0), (1, len(records))])] == [
        (topic.name, [(p.partition_index, p.partition_size) for p in topic.partitions]) for topic in result.topics
    ]
    assert (2 * 1024**3 if version >= 4 else -1) == result.total_bytes


def test_log_dirs_of_some_partitions() -> None:
    world = World(topics=["t:2", "u"], config={"odradek.internal.topics.at.start": False})
    asked = [DescribableLogDirTopic(topic="t", partitions=[1, 7]), DescribableLogDirTopic(topic="nope", partitions=[0])]

    response = world.client().ask(DescribeLogDirsRequest(topics=asked), 4)

    assert [("t", [1])] == [
        (topic.name, [p.partition_index for p in topic.partitions]) for topic in response.results[0].topics
    ]
    assert [] == world.client().ask(DescribeLogDirsRequest(topics=[]), 4).results[0].topics


def test_a_broker_tells_of_its_own_replicas() -> None:
    world = World(brokers=2, topics=["t:2:1"], config={"odradek.internal.topics.at.start": False})

    told = [
        [p.partition_index for topic in response.results[0].topics for p in topic.partitions]
        for response in (world.client(node).ask(DescribeLogDirsRequest(topics=None), 4) for node in (1, 2))
    ]

    assert [0, 1] == sorted(index for indexes in told for index in indexes)
    assert [1, 1] == [len(indexes) for indexes in told]
