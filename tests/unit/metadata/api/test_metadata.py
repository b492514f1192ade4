"""Metadata at the border of a node, in every version."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.host.helpers import topic_id

from odradek.host.events import Command
from odradek.sim import World
from odradek.sim.world.client import SimClient
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic

OK = ErrorCode.NONE


def ask(client: SimClient, *names: str | None, version: int = 12, create: bool = False, ids: Any = ()) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    topics += [MetadataRequestTopic(name=None if version >= 10 else "", topic_id=topic_id) for topic_id in ids]
    return client.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=create or version < 4), version)


def errors(response: Any) -> list[tuple[int, str | None]]:
    return [(topic.error_code, topic.name) for topic in response.topics]


def without_creation(**config: object) -> World:
    return World(topics=["t:2", "u"], config={"auto.create.topics.enable": False, **config})


@pytest.mark.parametrize("version", range(14))
def test_every_version(version: int) -> None:
    response = ask(without_creation().client(), "t", "nope", "a b", version=version)

    assert [(0, "t"), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "nope"), (ErrorCode.INVALID_TOPIC_EXCEPTION, "a b")] == (
        errors(response)
    )
    assert [(1, "broker-1", 9092)] == [(broker.node_id, broker.host, broker.port) for broker in response.brokers]
    assert [(0, 1, [1], [1]), (1, 1, [1], [1])] == [
        (p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes) for p in response.topics[0].partitions
    ]
    assert (1 if version >= 1 else -1) == response.controller_id
    assert ("simulated-cluster-id-0" if version >= 2 else None) == response.cluster_id
    assert (0 if version >= 7 else -1) == response.topics[0].partitions[0].leader_epoch
    assert (version >= 10) == any(response.topics[0].topic_id)


def test_all_topics_are_asked_for_with_null_or_in_version_0_with_nothing() -> None:
    client = without_creation(**{"odradek.internal.topics.at.start": False}).client()

    assert ["t", "u"] == [topic.name for topic in client.ask(MetadataRequest(topics=[]), 0).topics]
    assert ["t", "u"] == [topic.name for topic in client.ask(MetadataRequest(topics=None), 1).topics]
    assert [] == client.ask(MetadataRequest(topics=[]), 1).topics


def test_topics_by_id() -> None:
    world = without_creation()
    unknown = bytes(range(16))

    response = ask(world.client(), ids=[topic_id(world), unknown])

    assert [(0, "t", topic_id(world)), (ErrorCode.UNKNOWN_TOPIC_ID, None, unknown)] == [
        (topic.error_code, topic.name, topic.topic_id) for topic in response.topics
    ]


def test_one_id_makes_it_a_request_by_id() -> None:
    world = without_creation()

    assert [(0, "t")] == errors(ask(world.client(), "u", ids=[topic_id(world)]))


@pytest.mark.parametrize("version", [10, 11])
def test_ids_before_their_time_are_malformed(version: int) -> None:
    world = without_creation()

    response = ask(world.client(), ids=[topic_id(world)], version=version)

    assert [(ErrorCode.INVALID_REQUEST, "")] == errors(response)
    assert ([], -1) == (response.brokers, response.controller_id)


def test_neither_name_nor_id() -> None:
    assert [(ErrorCode.UNKNOWN_SERVER_ERROR, "")] == errors(ask(without_creation().client(), None))


def test_names_that_repeat_are_answered_once() -> None:
    assert [(0, "t")] == errors(ask(without_creation().client(), "t", "t"))


@pytest.mark.parametrize("version", [0, 3, 4, 12])
def test_an_unknown_topic_is_created_and_there(version: int) -> None:
    client = World(config={"num.partitions": 3}).client()

    response = ask(client, "new", version=version, create=True)

    assert [(0, "new")] == errors(response)
    assert 3 == len(response.topics[0].partitions)


def test_a_topic_that_its_own_creation_does_not_tell_of_yet() -> None:
    world = World(brokers=2, topics=["t"], config={"odradek.auto.created.topics.at.once": False})
    client = world.client(2)

    first = ask(client, "new", "t", "a b", create=True)
    world.advance(50)

    assert [(3, "new"), (0, "t"), (17, "a b")] == errors(first)
    assert [] == first.topics[0].partitions
    assert [(0, "new")] == errors(ask(client, "new", create=True))


def test_creation_can_be_forbidden_by_either_side() -> None:
    assert [(3, "new")] == errors(ask(World().client(), "new", create=False))
    assert [(3, "new")] == errors(ask(without_creation().client(), "new", create=True))


def test_a_topic_that_cannot_be_created_is_not_there() -> None:
    world = World(topics=["my.topic"])

    assert [(3, "my_topic"), (17, "a b")] == errors(ask(world.client(), "my_topic", "a b", create=True))


def test_an_internal_topic_is_created_as_such() -> None:
    world = World(config={"odradek.internal.topics.at.start": False, "offsets.topic.num.partitions": 5})

    [topic] = ask(world.client(), "__consumer_offsets", create=True).topics

    assert (True, 5) == (topic.is_internal, len(topic.partitions))
    assert "compact" == world.nodes[1].image.config(2, "__consumer_offsets")["cleanup.policy"]


def test_creation_through_a_broker_that_is_not_the_controller() -> None:
    world = World(brokers=3, delay_ms=(1, 5))
    client = world.client(3)
    world.run_until(lambda: len(world.nodes[3].image.brokers) == 3, within_ms=1000)

    ask(client, "new", create=True)
    world.advance(50)

    assert [(0, "new")] == errors(ask(client, "new"))


def test_permitted_operations_are_told_on_demand() -> None:
    client = without_creation().client()
    topics = [MetadataRequestTopic(name="t")]

    told = client.ask(
        MetadataRequest(
            topics=topics, include_cluster_authorized_operations=True, include_topic_authorized_operations=True
        ),
        10,
    )
    silent = client.ask(MetadataRequest(topics=topics), 10)

    assert (8096, 3576) == (told.cluster_authorized_operations, told.topics[0].topic_authorized_operations)
    assert {-(2**31)} == {silent.cluster_authorized_operations, silent.topics[0].topic_authorized_operations}


def fenced_world() -> World:
    """Topic t on broker 2, which is fenced, and topic u on both."""
    world = World(brokers=2)
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)],
        )
        for name, replicas in (("t", [2]), ("u", [2, 1]))
    ]
    world.client().ask(CreateTopicsRequest(topics=topics), 7)
    world.post(1, Command(lambda: world.nodes[1].controller.fence(2)))
    world.run()
    return world


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, [(ErrorCode.LEADER_NOT_AVAILABLE, -1, [], []), (ErrorCode.REPLICA_NOT_AVAILABLE, 1, [1], [1])]),
        (1, [(ErrorCode.LEADER_NOT_AVAILABLE, -1, [2], []), (OK, 1, [2, 1], [1])]),
        (12, [(ErrorCode.LEADER_NOT_AVAILABLE, -1, [2], []), (OK, 1, [2, 1], [1])]),
    ],
)
def test_partitions_of_a_fenced_broker(version: int, expected: list[tuple[int, int, list[int], list[int]]]) -> None:
    response = ask(fenced_world().client(), "t", "u", version=version)

    partitions = [partition for topic in response.topics for partition in topic.partitions]
    assert expected == [(p.error_code, p.leader_id, p.replica_nodes, p.isr_nodes) for p in partitions]
    assert [1] == [broker.node_id for broker in response.brokers]
    if version >= 5:
        assert [[2], [2]] == [partition.offline_replicas for partition in partitions]
