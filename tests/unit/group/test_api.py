"""Group and offset APIs at the border of a node: what depends on the version, the metadata and who coordinates."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.group.desk import subscription
from tests.unit.host.helpers import topic_id

from odradek.core.internal_topics import CoordinatorKind
from odradek.sim import World
from odradek.sim.world.client import SimClient
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_groups_request import DeleteGroupsRequest
from odradek.wire.messages.describe_groups_request import DescribeGroupsRequest
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.heartbeat_request import HeartbeatRequest
from odradek.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.list_groups_request import ListGroupsRequest
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
from odradek.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from odradek.wire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment

OFFSETS_TOPIC = CoordinatorKind.GROUP.topic


def world_with_coordinator(*, brokers: int = 1, **config: object) -> World:
    """A cluster whose groups are all coordinated by one partition, led by the first broker."""
    world = World(
        brokers=brokers, topics=["orders:2", "refunds:1"], config={"offsets.topic.num.partitions": 1, **config}
    )
    client = world.client()
    found = world.run_until(
        lambda: client.ask(FindCoordinatorRequest(key="g"), 1).error_code == ErrorCode.NONE, within_ms=60_000
    )
    assert found
    if brokers > 1:
        world.move_leader(OFFSETS_TOPIC, 0, 1)
    return world


def join_request(member_id: str = "", *, group: str = "g", instance: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription(["orders"]))],
    )


def enter(client: SimClient, *, group: str = "g", version: int = 9) -> Any:
    required = client.ask(join_request(group=group), version)
    return client.ask(join_request(required.member_id, group=group), version)


def sync_request(joined: Any, assignments: dict[str, bytes] | None = None) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in (assignments or {}).items()
        ],
    )


def commit_request(
    *partitions: int, group: str = "g", topic: str = "", topic_id: bytes = bytes(16), generation: int = -1
) -> OffsetCommitRequest:
    wanted = [OffsetCommitRequestPartition(partition_index=index, committed_offset=index + 5) for index in partitions]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        topics=[OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=wanted)],
    )


def errors_of(response: Any) -> list[int]:
    return [partition.error_code for topic in response.topics for partition in topic.partitions]


# ---------------------------------------------------------------------- members


def test_two_members_share_and_one_takes_over() -> None:
    world = world_with_coordinator()
    one, two = world.client(client_id="one"), world.client(client_id="two")
    first = enter(one)
    assert b"all" == one.ask(sync_request(first, {first.member_id: b"all"}), 5).assignment
    waiting = two.send(join_request(two.ask(join_request(), 9).member_id), 9)
    world.run()
    assert not waiting.arrived
    assert ErrorCode.REBALANCE_IN_PROGRESS == one.ask(HeartbeatRequest("g", 1, first.member_id), 4).error_code
    leader = one.ask(join_request(first.member_id), 9)
    follower = waiting.response
    parked = two.send(sync_request(follower), 5)
    world.run()
    assert not parked.arrived
    one.ask(sync_request(leader, {leader.member_id: b"L", follower.member_id: b"F"}), 5)
    assert b"F" == parked.response.assignment
    leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=leader.member_id)])
    assert [0] == [member.error_code for member in one.ask(leave, 5).members]
    assert (3, follower.member_id) == (
        (last := two.ask(join_request(follower.member_id), 9)).generation_id,
        last.leader,
    )


def world_whose_replicas_take(milliseconds: int | None) -> World:
    """Two brokers that have every record of a group, the second one so much later or never; the first coordinates."""
    world = world_with_coordinator(brokers=2, **{"offsets.topic.replication.factor": 2})
    world.set_replica_lag(2, milliseconds)
    return world


def test_a_leader_hears_of_whoever_joins_while_its_assignment_is_on_its_way_to_the_replicas() -> None:
    world = world_whose_replicas_take(100)
    one, two = world.client(1), world.client(1)
    leader = enter(one)
    overtaken = one.send(sync_request(leader, {leader.member_id: b"all"}), 5)
    two.send(join_request(), 3)
    world.advance(50)
    assert ErrorCode.REBALANCE_IN_PROGRESS == overtaken.response.error_code
    again = one.ask(join_request(leader.member_id), 9)
    assert (2, 2) == (again.generation_id, len(again.members))


def test_a_leader_is_answered_when_the_replicas_have_its_assignment() -> None:
    world = world_whose_replicas_take(100)
    client = world.client(1)
    leader = enter(client)
    parked = client.send(sync_request(leader, {leader.member_id: b"all"}), 5)
    world.advance(50)
    assert not parked.arrived
    world.advance(60)
    assert b"all" == parked.response.assignment


def test_a_leader_whose_assignment_never_gets_to_the_replicas_is_told_so() -> None:
    world = world_whose_replicas_take(None)
    client = world.client(1)
    leader = enter(client)
    parked = client.send(sync_request(leader, {leader.member_id: b"all"}), 5)
    world.advance(5_001)
    assert ErrorCode.COORDINATOR_NOT_AVAILABLE == parked.response.error_code


@pytest.mark.parametrize(("version", "nothing"), [(0, ""), (6, ""), (7, None), (9, None)])
def test_no_protocol_is_empty_or_null_by_version(version: int, nothing: str | None) -> None:
    refused = world_with_coordinator().client().ask(join_request("unknown"), version)
    assert (ErrorCode.UNKNOWN_MEMBER_ID, nothing, "unknown") == (
        refused.error_code,
        refused.protocol_name,
        refused.member_id,
    )


def test_a_full_group_does_not_hand_the_member_id_back() -> None:
    client = world_with_coordinator(**{"group.max.size": 1}).client()
    client.ask(join_request(), 3)
    refused = client.ask(join_request("somebody"), 3)
    assert (ErrorCode.GROUP_MAX_SIZE_REACHED, "") == (refused.error_code, refused.member_id)


def test_members_are_described_with_the_host_they_come_from() -> None:
    client = world_with_coordinator().client(client_id="mine")
    client.ask(sync_request(enter(client)), 5)
    request = DescribeGroupsRequest(groups=["g", "none"], include_authorized_operations=True)
    [found, missing] = client.ask(request, 6).groups
    assert ("mine", "/client") == (found.members[0].client_id, found.members[0].client_host)
    read_delete_describe_and_configs = 0b1101_0100_1000
    assert read_delete_describe_and_configs == found.authorized_operations
    assert (ErrorCode.GROUP_ID_NOT_FOUND, -(2**31)) == (missing.error_code, missing.authorized_operations)


def test_the_empty_group_id() -> None:
    client = world_with_coordinator().client()
    assert ErrorCode.INVALID_GROUP_ID == client.ask(join_request(group=""), 9).error_code
    assert ErrorCode.INVALID_GROUP_ID == client.ask(HeartbeatRequest(), 4).error_code
    assert ErrorCode.INVALID_GROUP_ID == client.ask(LeaveGroupRequest(), 5).error_code
    assert ErrorCode.INVALID_GROUP_ID == client.ask(OffsetDeleteRequest(), 0).error_code
    assert "Dead" == client.ask(DescribeGroupsRequest(groups=[""]), 5).groups[0].group_state


def test_groups_are_listed_and_deleted() -> None:
    client = world_with_coordinator().client()
    client.ask(commit_request(0, group="a", topic="orders"), 9)
    enter(client, group="b")
    assert ["a", "b"] == [group.group_id for group in client.ask(ListGroupsRequest(), 5).groups]
    assert ["a"] == [group.group_id for group in client.ask(ListGroupsRequest(states_filter=["Empty"]), 5).groups]
    results = client.ask(DeleteGroupsRequest(groups_names=["a", "b", "none", "a"]), 3).results
    expected = {"a": ErrorCode.NONE, "b": ErrorCode.NON_EMPTY_GROUP, "none": ErrorCode.GROUP_ID_NOT_FOUND}
    assert expected == {result.group_id: result.error_code for result in results}
    assert ["b"] == [group.group_id for group in client.ask(ListGroupsRequest(), 5).groups]


# ---------------------------------------------------------------------- who coordinates


@pytest.mark.parametrize("version", [1, 2, 8])
def test_before_its_topic_is_there_nobody_is_the_coordinator(version: int) -> None:
    world = World(topics=["orders:1"], config={"odradek.internal.topics.at.start": False})
    client = world.client()
    assert ErrorCode.NOT_COORDINATOR == client.ask(HeartbeatRequest(group_id="g", member_id="m"), 4).error_code
    if version >= 8:
        group = OffsetFetchRequestGroup(
            group_id="g", topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
        )
        answer = client.ask(OffsetFetchRequest(groups=[group]), version).groups[0].error_code
    else:
        request = OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]
        )
        fetched = client.ask(request, version)
        answer = fetched.topics[0].partitions[0].error_code if version == 1 else fetched.error_code
    assert ErrorCode.NOT_COORDINATOR == answer


def test_another_broker_is_not_the_coordinator() -> None:
    client = world_with_coordinator(brokers=2).client(2)
    refused = client.ask(join_request("mine"), 9)
    assert (ErrorCode.NOT_COORDINATOR, "") == (refused.error_code, refused.member_id)
    assert ErrorCode.NOT_COORDINATOR == client.ask(HeartbeatRequest("g", 1, "mine"), 4).error_code
    assert ErrorCode.NOT_COORDINATOR == client.ask(LeaveGroupRequest(group_id="g"), 5).error_code
    assert [ErrorCode.NOT_COORDINATOR] == errors_of(client.ask(commit_request(0, topic="orders"), 9))
    assert ErrorCode.NOT_COORDINATOR == client.ask(DescribeGroupsRequest(groups=["g"]), 5).groups[0].error_code
    assert ErrorCode.NOT_COORDINATOR == client.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code
    assert [] == client.ask(ListGroupsRequest(), 5).groups


def test_a_member_that_waits_is_told_when_the_coordinator_moves_and_finds_its_group_there() -> None:
    world = world_with_coordinator(brokers=2)
    one, two = world.client(), world.client()
    first = enter(one)
    one.ask(sync_request(first, {first.member_id: b"all"}), 5)
    waiting = two.send(join_request(two.ask(join_request(), 9).member_id), 9)
    world.run()
    world.move_leader(OFFSETS_TOPIC, 0, 2)
    assert ErrorCode.NOT_COORDINATOR == waiting.response.error_code
    assert ErrorCode.NOT_COORDINATOR == one.ask(HeartbeatRequest("g", 1, first.member_id), 4).error_code
    successor = world.client(2)
    assert ErrorCode.NONE == successor.ask(HeartbeatRequest("g", 1, first.member_id), 4).error_code
    assert b"all" == successor.ask(sync_request(first), 5).assignment


def test_a_member_whose_connection_breaks_is_replaced_in_time() -> None:
    world = world_with_coordinator()
    one, two = world.client(), world.client()
    first = enter(one)
    one.ask(sync_request(first), 5)
    two.send(join_request(two.ask(join_request(), 9).member_id), 9)
    world.run()
    two.close()
    world.run()
    leader = one.ask(join_request(first.member_id), 9)
    assert 2 == len(leader.members)
    one.ask(sync_request(leader), 5)
    for _ in range(3):
        world.advance(5_000)
        one.ask(HeartbeatRequest("g", leader.generation_id, leader.member_id), 4)
    assert 1 == len(one.ask(join_request(leader.member_id), 9).members)


# ---------------------------------------------------------------------- OffsetCommit


def test_unknown_topics_and_partitions_are_answered_beside_the_others() -> None:
    client = world_with_coordinator().client()
    request = commit_request(0, 7, 1, topic="orders")
    request.topics += commit_request(0, topic="none").topics
    response = client.ask(request, 9)
    errors = {
        (topic.name, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {("orders", 0): 0, ("orders", 1): 0, ("orders", 7): missing, ("none", 0): missing} == errors


def test_topics_by_id() -> None:
    world = world_with_coordinator()
    client = world.client()
    assert [0] == errors_of(client.ask(commit_request(0, topic_id=topic_id(world, "orders")), 10))
    unknown = client.ask(commit_request(0, topic_id=b"?" * 16), 10)
    assert [ErrorCode.UNKNOWN_TOPIC_ID] == errors_of(unknown)
    assert b"?" * 16 == unknown.topics[0].topic_id


@pytest.mark.parametrize("version", range(11))
def test_a_refusal_is_answered_for_every_partition(version: int) -> None:
    world = world_with_coordinator()
    request = commit_request(0, 1, topic="orders", topic_id=topic_id(world, "orders"), generation=3)
    expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    if version == 0:
        expected = ErrorCode.NONE  # there was no generation yet
    assert [expected, expected] == errors_of(world.client().ask(request, version))


# ---------------------------------------------------------------------- OffsetFetch


def fetch_request(group: str = "g", **topics: list[int]) -> OffsetFetchRequest:
    wanted = [OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
    return OffsetFetchRequest(group_id=group, topics=wanted)


@pytest.mark.parametrize("version", range(1, 8))
def test_offsets_of_one_group(version: int) -> None:
    client = world_with_coordinator().client()
    client.ask(commit_request(0, topic="orders"), 9)
    response = client.ask(fetch_request(orders=[0, 1], none=[0]), version)
    found = [(partition.committed_offset, partition.error_code) for t in response.topics for partition in t.partitions]
    assert [(5, 0), (-1, 0), (-1, 0)] == found
    assert [] == client.ask(fetch_request(), version).topics
    assert [(-1, 0)] == [
        (partition.committed_offset, partition.error_code)
        for partition in client.ask(fetch_request("nobody", orders=[0]), version).topics[0].partitions
    ]


def test_version_0_calls_an_offset_that_is_not_there_an_error() -> None:
    client = world_with_coordinator().client()
    client.ask(commit_request(0, topic="orders"), 9)
    response = client.ask(fetch_request(orders=[0, 1]), 0)
    assert [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] == errors_of(response)


@pytest.mark.parametrize("version", range(2, 8))
def test_all_offsets_of_one_group(version: int) -> None:
    client = world_with_coordinator().client()
    client.ask(commit_request(0, 1, topic="orders"), 9)
    [topic] = client.ask(OffsetFetchRequest(group_id="g", topics=None), version).topics
    assert [5, 6] == [partition.committed_offset for partition in topic.partitions]


@pytest.mark.parametrize("version", [8, 9])
def test_offsets_of_several_groups(version: int) -> None:
    client = world_with_coordinator().client()
    client.ask(commit_request(0, topic="orders"), 9)
    wanted = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
    groups = [OffsetFetchRequestGroup(group_id=group, topics=wanted) for group in ("g", "none")]
    groups.append(OffsetFetchRequestGroup(group_id="g", topics=None))
    response = client.ask(OffsetFetchRequest(groups=groups), version)
    offsets = [group.topics[0].partitions[0].committed_offset for group in response.groups]
    assert [5, -1, 5] == offsets
    assert ["g", "none", "g"] == [group.group_id for group in response.groups]


def test_offsets_by_topic_id() -> None:
    world = world_with_coordinator()
    client = world.client()
    orders = topic_id(world, "orders")
    client.ask(commit_request(0, topic="orders"), 9)
    wanted = [
        OffsetFetchRequestTopics(topic_id=orders, partition_indexes=[0]),
        OffsetFetchRequestTopics(topic_id=b"?" * 16, partition_indexes=[0]),
    ]
    groups = [
        OffsetFetchRequestGroup(group_id="g", topics=wanted),
        OffsetFetchRequestGroup(group_id="g", topics=None),
    ]
    [asked, everything] = client.ask(OffsetFetchRequest(groups=groups), 10).groups
    found = [(topic.topic_id, topic.partitions[0].committed_offset) for topic in asked.topics]
    assert [(orders, 5), (b"?" * 16, -1)] == found
    assert ErrorCode.UNKNOWN_TOPIC_ID == asked.topics[1].partitions[0].error_code
    assert [orders] == [topic.topic_id for topic in everything.topics]


@pytest.mark.parametrize("version", range(11))
def test_who_does_not_coordinate_says_so_where_the_version_has_a_place_for_it(version: int) -> None:
    world = world_with_coordinator(brokers=2)
    client = world.client(2)
    request = fetch_request(orders=[0])
    wanted = [OffsetFetchRequestTopics(name="orders", topic_id=topic_id(world, "orders"), partition_indexes=[0])]
    request.groups = [OffsetFetchRequestGroup(group_id="g", topics=wanted)]
    if version < 8:
        request.groups = []
    else:
        request.group_id, request.topics = "", []
    response = client.ask(request, version)
    if version >= 8:
        assert (ErrorCode.NOT_COORDINATOR, []) == (response.groups[0].error_code, response.groups[0].topics)
    elif version >= 2:
        assert (ErrorCode.NOT_COORDINATOR, []) == (response.error_code, response.topics)
    else:
        assert [ErrorCode.NOT_COORDINATOR] == errors_of(response)


# ---------------------------------------------------------------------- OffsetDelete


def test_offsets_are_deleted_where_partitions_exist() -> None:
    client = world_with_coordinator().client()
    client.ask(commit_request(0, 1, topic="orders"), 9)
    wanted = [
        OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(each) for each in indexes])
        for name, indexes in (("orders", [0, 9]), ("none", [0]))
    ]
    response = client.ask(OffsetDeleteRequest(group_id="g", topics=wanted), 0)
    errors = {
        (topic.name, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {("orders", 0): 0, ("orders", 9): missing, ("none", 0): missing} == errors
    fetched = client.ask(OffsetFetchRequest(group_id="g", topics=None), 5)
    assert [(1, 6)] == [
        (partition.partition_index, partition.committed_offset) for partition in fetched.topics[0].partitions
    ]


def test_an_error_of_the_group_hides_those_of_its_topics() -> None:
    client = world_with_coordinator().client()
    wanted = [OffsetDeleteRequestTopic(name="none", partitions=[OffsetDeleteRequestPartition(0)])]
    response = client.ask(OffsetDeleteRequest(group_id="nobody", topics=wanted), 0)
    assert (ErrorCode.GROUP_ID_NOT_FOUND, []) == (response.error_code, response.topics)
