"""Requests about very many things are read, served and written a few at a time, and have a ceiling."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.host.helpers import batch, fetch_request, produce_request, topic_id

from odradek.host.router import ENTRIES_MAX, SHARED_ENTRIES_MAX
from odradek.metadata.api.metadata import CREATED_MAX
from odradek.offsets.api import FETCHED_MAX
from odradek.sim import SimClient, World
from odradek.sim.world.client import Answer
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.describe_groups_request import DescribeGroupsRequest
from odradek.wire.messages.describe_log_dirs_request import DescribeLogDirsRequest
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.wire.messages.read_share_group_state_request import (
    PartitionData,
    ReadShareGroupStateRequest,
    ReadStateData,
)

MANY = 5_000
SMALL = {"offsets.topic.num.partitions": 1}


def names(count: int) -> list[str]:
    """Names that make a request longer than 32 KiB when there are many."""
    return [f"name-{index:06}" for index in range(count)]


def partitions(count: int) -> list[ListOffsetsPartition]:
    return [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(count)]


def others_served(world: World, answer: Answer, other: SimClient) -> int:
    """How many requests of another client are answered, one after the other, before this answer comes."""
    served = 0
    while not answer.arrived:
        between = other.send(ApiVersionsRequest(), 0)
        while not between.arrived and not answer.arrived:
            world._deliver()
        served += between.arrived
    return served


LONG: list[tuple[str, msgspec.Struct, int]] = [
    ("FindCoordinator", FindCoordinatorRequest(coordinator_keys=names(MANY)), 4),
    ("DescribeGroups", DescribeGroupsRequest(groups=names(MANY)), 5),
    (
        "ListOffsets",
        ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=partitions(MANY))]),
        7,
    ),
    (
        "ReadShareGroupState",
        ReadShareGroupStateRequest(
            group_id="g",
            topics=[
                ReadStateData(topic_id=bytes(15) + b"1", partitions=[PartitionData(partition=i) for i in range(MANY)])
            ],
        ),
        0,
    ),
    ("Fetch", fetch_request(*((index, 0) for index in range(MANY))), 12),
    (
        "Metadata",
        MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names(MANY)], allow_auto_topic_creation=False
        ),
        12,
    ),
    (
        "CreateTopics",
        CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names(1_000)],
            timeout_ms=1_000,
            validate_only=True,
        ),
        7,
    ),
]


@pytest.mark.parametrize(("asked", "version"), [case[1:] for case in LONG], ids=[case[0] for case in LONG])
def test_others_are_served_while_a_long_request_is(asked: msgspec.Struct, version: int) -> None:
    world = World(topics=["t"], config=SMALL)
    client, other = world.client(), world.client()
    world.run()
    answer = client.send(asked, version)
    assert others_served(world, answer, other) > 50


def test_every_entry_is_answered_in_order() -> None:
    world = World(topics=["t"], config=SMALL)
    found = world.client().ask(FindCoordinatorRequest(coordinator_keys=names(MANY)), 4)
    assert names(MANY) == [each.key for each in found.coordinators]


def test_metadata_about_everything_gives_way() -> None:
    world = World(topics=[f"t{index}:50" for index in range(40)], config=SMALL)
    client, other = world.client(), world.client()
    world.run()
    answer = client.send(MetadataRequest(topics=None), 12)
    assert others_served(world, answer, other) > 20
    assert 2_000 == sum(len(topic.partitions) for topic in answer.response.topics if topic.name.startswith("t"))


def test_the_sizes_of_many_logs_give_way() -> None:
    world = World(topics=["t:2000", "u:3"], config=SMALL)
    client, other = world.client(), world.client()
    world.run()
    client.ask(produce_request(batch(b"a"), topic="u", partition=2), 9)
    answer = client.send(DescribeLogDirsRequest(topics=None), 4)
    assert others_served(world, answer, other) > 50
    [told] = answer.response.results
    sizes = {topic.name: [partition.partition_size for partition in topic.partitions] for topic in told.topics}
    assert 2_000 == len(sizes["t"])
    assert [0, 0] == sizes["u"][:2]
    assert sizes["u"][2] > 0


def test_a_topic_that_goes_meanwhile_is_not_told() -> None:
    world = World(topics=[f"t{index}" for index in range(200)], config=SMALL)
    client = world.client()
    world.run()
    answer = client.send(MetadataRequest(topics=None), 12)
    world._deliver()
    node = world.nodes[1]
    before = node.image
    kept = {name: topic for name, topic in before.topics.items() if name != "t199"}
    node.metadata.image = msgspec.structs.replace(before, topics=kept)
    world.run()
    assert kept.keys() == {topic.name for topic in answer.response.topics}


def test_what_is_appended_while_a_long_fetch_reads_is_not_waited_for() -> None:
    world = World(topics=["t:300"], config=SMALL)
    reader, writer = world.client(), world.client()
    world.run()
    asked = fetch_request(*((index, 0) for index in range(300)), max_wait_ms=10_000)
    answer = reader.send(asked, 12)
    for _ in range(15):
        world._deliver()
    assert not answer.arrived
    writer.send(produce_request(batch(b"a"), partition=0), 9)
    world.run()
    assert answer.arrived
    assert topic_id(world)


def close_reasons(world: World) -> list[str]:
    return [fields["error"] for _, event, fields in world.log.lines if event == "connection_closed"]


@pytest.mark.parametrize("count", [SHARED_ENTRIES_MAX, SHARED_ENTRIES_MAX + 1])
def test_more_entries_than_a_broker_bears_end_the_connection(count: int) -> None:
    world = World(config=SMALL)
    client = world.client()
    world.run()
    world.nodes[1].turns.is_over = lambda: False
    answer = client.send(FindCoordinatorRequest(coordinator_keys=["key"] * count), 4)
    world.run()
    assert (count > SHARED_ENTRIES_MAX) == client.closed
    assert (count <= SHARED_ENTRIES_MAX) == answer.arrived
    assert (["more than 20,000 entries"] if client.closed else []) == close_reasons(world)


def test_what_is_decided_in_one_go_may_have_fewer() -> None:
    world = World(topics=["t"], config=SMALL)
    client = world.client()
    deleted = [OffsetDeleteRequestPartition(partition_index=0)] * (ENTRIES_MAX + 1)
    client.send(OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=deleted)]), 0)
    world.run()
    assert client.closed
    assert ["more than 10,000 entries"] == close_reasons(world)


def test_one_request_creates_a_thousand_topics_and_no_more() -> None:
    world = World(config=SMALL)
    asked = [MetadataRequestTopic(name=name) for name in names(CREATED_MAX + 1)]
    topics = world.client().ask(MetadataRequest(topics=asked, allow_auto_topic_creation=True), 12).topics
    assert [0] * CREATED_MAX == [topic.error_code for topic in topics[:-1]]
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION == topics[-1].error_code
    again = MetadataRequest(topics=asked[-1:], allow_auto_topic_creation=True)
    assert [0] == [topic.error_code for topic in world.client().ask(again, 12).topics]


COMMITTED = 500


def with_offsets() -> tuple[World, SimClient]:
    """A group that has committed very many offsets, and a broker with a clock by which every turn is over at once."""
    world = World(topics=[f"t:{COMMITTED}"], config=SMALL)
    client = world.client()
    partitions = [OffsetCommitRequestPartition(partition_index=n, committed_offset=n) for n in range(COMMITTED)]
    topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
    client.ask(OffsetCommitRequest(group_id="g", topics=topics), 9)
    world.nodes[1].turns.is_over = lambda: True
    return world, client


def all_offsets(times: int) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)] * times)


def test_a_group_with_many_offsets_that_is_named_often_gives_way_each_time() -> None:
    world, client = with_offsets()
    other = world.client()
    world.run()
    answer = client.send(all_offsets(100), 8)
    assert others_served(world, answer, other) > 90
    assert [COMMITTED] * 100 == [len(group.topics[0].partitions) for group in answer.response.groups]


@pytest.mark.parametrize("version", [7, 8])
def test_many_offsets_of_one_group_are_written_a_few_at_a_time(version: int) -> None:
    world, client = with_offsets()
    other = world.client()
    world.run()
    asked = OffsetFetchRequest(group_id="g", topics=None) if version < 8 else all_offsets(1)
    assert others_served(world, client.send(asked, version), other) > 0


def test_more_offsets_than_a_broker_bears_end_the_connection() -> None:
    world, client = with_offsets()
    client.send(all_offsets(FETCHED_MAX // COMMITTED), 8)
    world.run()
    assert not client.closed
    client.send(all_offsets(FETCHED_MAX // COMMITTED + 1), 8)
    world.run()
    assert client.closed
