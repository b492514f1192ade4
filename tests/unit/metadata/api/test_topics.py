"""CreateTopics, DeleteTopics and CreatePartitions through any broker, in every version."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.host.helpers import topic_id

from odradek.sim import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState


def create(name: str = "new", partitions: int = 2, replicas: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)], timeout_ms=5000
    )


@pytest.mark.parametrize("node", [1, 2])
@pytest.mark.parametrize("version", range(8))
def test_create_topics(version: int, node: int) -> None:
    world = World(brokers=2)

    [result] = world.client(node).ask(create(), version).topics

    assert ("new", 0) == (result.name, result.error_code)
    world.run()
    assert all(2 == len(each.image.topics["new"].partitions) for each in world.nodes.values())
    if version >= 5:
        assert (2, 1, 37) == (result.num_partitions, result.replication_factor, len(result.configs))
    if version >= 7:
        assert topic_id(world, "new") == result.topic_id


@pytest.mark.parametrize("version", range(8))
def test_a_topic_that_exists(version: int) -> None:
    client = World(topics=["new"]).client()

    [result] = client.ask(create(), version).topics

    assert ErrorCode.TOPIC_ALREADY_EXISTS == result.error_code
    if version >= 1:
        assert "Topic 'new' already exists." == result.error_message


@pytest.mark.parametrize("node", [1, 2])
@pytest.mark.parametrize("version", range(7))
def test_delete_topics(version: int, node: int) -> None:
    world = World(brokers=2, topics=["t", "u"])
    names = ["t", "nope"]
    request = DeleteTopicsRequest(timeout_ms=5000)
    if version < 6:
        request.topic_names = names
    else:
        request.topics = [DeleteTopicState(topic_id=topic_id(world)), DeleteTopicState(name="nope")]

    response = world.client(node).ask(request, version)

    assert [("t", 0), ("nope", 3)] == [(result.name, result.error_code) for result in response.responses]
    world.run()
    assert all("t" not in each.image.topics for each in world.nodes.values())
    assert ("t", 0) not in world.nodes[1].partitions
    assert ("t", 0) not in world.nodes[2].partitions


@pytest.mark.parametrize("node", [1, 2])
@pytest.mark.parametrize("version", range(4))
def test_create_partitions(version: int, node: int) -> None:
    world = World(brokers=2, topics=["t"])
    topics = [
        CreatePartitionsTopic(name="t", count=4, assignments=None),
        CreatePartitionsTopic(name="nope", count=4, assignments=None),
    ]

    response = world.client(node).ask(CreatePartitionsRequest(topics=topics, timeout_ms=5000), version)

    assert [("t", 0), ("nope", 3)] == [(result.name, result.error_code) for result in response.results]
    world.run()
    assert 4 == len(world.nodes[node].image.topics["t"].partitions)
    assert 4 == sum(("t", index) in each.partitions for each in world.nodes.values() for index in range(4))


def refused(world: World, request: Any, version: int) -> list[int]:
    response = world.client(2).ask(request, version)
    results = getattr(response, "topics", None) or getattr(response, "responses", None) or response.results
    return [result.error_code for result in results]


def test_a_controller_that_is_not_there() -> None:
    world = World(brokers=2, topics=["t"], config={"request.timeout.ms": 100})
    world.spec.controller_id = 3  # nobody

    assert [ErrorCode.REQUEST_TIMED_OUT] == refused(world, create(), 7)
    assert [ErrorCode.REQUEST_TIMED_OUT] == refused(
        world, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=9), 6
    )
    assert [ErrorCode.REQUEST_TIMED_OUT] == refused(world, DeleteTopicsRequest(topic_names=["t"], timeout_ms=9), 5)
    assert [ErrorCode.REQUEST_TIMED_OUT] == refused(
        world, CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=4, assignments=None)]), 3
    )


def test_a_broker_that_is_taken_for_the_controller_passes_nothing_on() -> None:
    world = World(brokers=3, topics=["t"])
    world.spec.controller_id = 3  # which does not know it

    assert [ErrorCode.NOT_CONTROLLER] == refused(world, create(), 7)


def test_a_topic_with_more_partitions_than_a_batch_has_records() -> None:
    world = World(brokers=2, config={"odradek.metadata.batch.records.max": 10})

    [result] = world.client(2).ask(create(partitions=25), 7).topics
    world.run()

    assert (0, 25) == (result.error_code, result.num_partitions)
    assert 25 == len(world.nodes[2].image.topics["new"].partitions)
    kinds = [fact.kind for node, fact in world.facts if node == 2 and fact.kind.startswith("metadata_transaction")]
    assert ["metadata_transaction_began", "metadata_transaction_ended"] == kinds[-2:]
