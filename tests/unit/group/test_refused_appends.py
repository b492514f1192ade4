"""A coordinator of groups whose log takes nothing more: what was not written is not called done."""

from __future__ import annotations

from typing import Any

from tests.unit.group.test_api import OFFSETS_TOPIC, enter, sync_request, world_with_coordinator

from odradek.sim import World
from odradek.sim.world.client import SimClient
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_groups_request import DeleteGroupsRequest
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
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
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic

FAILED = ErrorCode.UNKNOWN_SERVER_ERROR
"""What clients hear of a record that is too large for the coordinator's log."""


def refuse_appends(world: World) -> None:
    config = AlterableConfig(name="max.message.bytes", value="1")
    resource = AlterConfigsResource(resource_type=2, resource_name=OFFSETS_TOPIC, configs=[config])
    response = world.client().ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert [0] == [each.error_code for each in response.responses]
    world.run()


def committed(client: SimClient, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    [answer] = client.ask(OffsetCommitRequest(group_id="g", topics=[topic]), 8).topics
    error: int = answer.partitions[0].error_code
    return error


def offset_of(client: SimClient) -> int:
    topic = OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
    [answer] = client.ask(OffsetFetchRequest(group_id="g", topics=[topic]), 7).topics
    offset: int = answer.partitions[0].committed_offset
    return offset


def log_end(world: World) -> int:
    return world.nodes[1].partitions[OFFSETS_TOPIC, 0].log_end_offset


def test_offsets() -> None:
    world = world_with_coordinator()
    client = world.client()
    assert ErrorCode.NONE == committed(client, 5)
    refuse_appends(world)
    assert FAILED == committed(client, 6)
    partition = OffsetDeleteRequestPartition(partition_index=0)
    topics = [OffsetDeleteRequestTopic(name="orders", partitions=[partition])]
    assert FAILED == client.ask(OffsetDeleteRequest(group_id="g", topics=topics), 0).error_code
    [deleted] = client.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
    assert FAILED == deleted.error_code
    assert 5 == offset_of(client)


def test_the_assignment_of_a_leader() -> None:
    world = world_with_coordinator()
    client = world.client()
    joined = enter(client)
    refuse_appends(world)
    before = log_end(world)
    assert FAILED == client.ask(sync_request(joined, {joined.member_id: b"all"}), 5).error_code
    assert before == log_end(world)


def test_the_last_member_that_leaves() -> None:
    world = world_with_coordinator()
    client = world.client()
    joined: Any = enter(client)
    client.ask(sync_request(joined, {joined.member_id: b"all"}), 5)
    refuse_appends(world)
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=joined.member_id)])
    assert FAILED == client.ask(request, 4).error_code
