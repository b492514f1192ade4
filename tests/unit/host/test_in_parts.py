"""Requests that change very many things are decided and written in parts: others are served in between."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.host.helpers import batch, produce_request
from tests.unit.host.test_long_requests import others_served

from odradek.host.in_parts import entries_in_parts, in_parts
from odradek.host.replicas import LED_AT_ONCE
from odradek.sim import SimClient, World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import alter_client_quotas_request as quotas
from odradek.wire.messages import alter_user_scram_credentials_request as scram
from odradek.wire.messages import incremental_alter_configs_request as configs
from odradek.wire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.messages.create_acls_request import AclCreation, CreateAclsRequest
from odradek.wire.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from odradek.wire.messages.delete_groups_request import DeleteGroupsRequest
from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest
from odradek.wire.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from odradek.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
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
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

MANY = 1_000
AT_ONCE = 250
"""No more of these are decided in one go; written here, so that who makes it more has to think of it."""
CONFIG = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
INDEXES = list(range(MANY))


def commit(*, metadata: str = "", group: str = "g") -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=index, committed_metadata=metadata)
        for index in INDEXES
    ]
    topic = OffsetCommitRequestTopic(name="t", partitions=partitions)
    return OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=[topic])


def large(partitions: int = MANY, name: str = "large") -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=1_000)


def records() -> list[PartitionProduceData]:
    return [PartitionProduceData(index=index, records=memoryview(batch(b"a"))) for index in INDEXES]


def acl(index: int) -> AclCreation:
    return AclCreation(2, "t", 3, f"User:u{index}", "*", 3, 3)


def entity(index: int) -> quotas.EntryData:
    return quotas.EntryData(
        entity=[quotas.EntityData(entity_type="user", entity_name=f"u{index}")],
        ops=[quotas.OpData(key="producer_byte_rate", value=1e9)],
    )


CHANGES: dict[str, tuple[list[tuple[msgspec.Struct, int]], msgspec.Struct, int, int]] = {
    "OffsetCommit": ([], commit(), 8, MANY // AT_ONCE),
    "OffsetDelete": (
        [(commit(), 8)],
        OffsetDeleteRequest(
            group_id="g",
            topics=[
                OffsetDeleteRequestTopic(
                    name="t", partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in INDEXES]
                )
            ],
        ),
        0,
        MANY // AT_ONCE,
    ),
    "DeleteGroups": ([(commit(), 8)], DeleteGroupsRequest(groups_names=["g"]), 2, MANY // AT_ONCE),
    "Produce": (
        [],
        ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(name="t", partition_data=records())]),
        9,
        MANY,
    ),
    "WriteTxnMarkers": (
        [],
        WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=7,
                    producer_epoch=0,
                    transaction_result=True,
                    topics=[WritableTxnMarkerTopic(name="t", partition_indexes=INDEXES)],
                )
            ]
        ),
        1,
        MANY // 100,
    ),
    "CreateTopics": ([], large(), 7, MANY // AT_ONCE),
    "CreatePartitions": (
        [],
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="t", count=2 * MANY, assignments=None)], timeout_ms=1_000
        ),
        3,
        MANY // AT_ONCE,
    ),
    "CreateAcls": ([], CreateAclsRequest(creations=list(map(acl, INDEXES))), 3, MANY // AT_ONCE),
    "DeleteAcls": (
        [(CreateAclsRequest(creations=list(map(acl, INDEXES))), 3)],
        DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=2,
                    pattern_type_filter=3,
                    principal_filter=f"User:u{index}",
                    operation=3,
                    permission_type=3,
                )
                for index in INDEXES[:200]
            ]
        ),
        3,
        200 // 10,
    ),
    "IncrementalAlterConfigs": (
        [],
        configs.IncrementalAlterConfigsRequest(
            resources=[
                configs.AlterConfigsResource(
                    resource_type=32,
                    resource_name=f"g{index}",
                    configs=[
                        configs.AlterableConfig(name="consumer.session.timeout.ms", config_operation=0, value="50000")
                    ],
                )
                for index in INDEXES[:500]
            ]
        ),
        1,
        10,
    ),
    "AlterClientQuotas": (
        [],
        quotas.AlterClientQuotasRequest(entries=list(map(entity, INDEXES))),
        1,
        MANY // AT_ONCE,
    ),
    "AlterUserScramCredentials": (
        [],
        scram.AlterUserScramCredentialsRequest(
            upsertions=[scram.ScramCredentialUpsertion(f"u{index}", 1, 4096, b"s" * 16, b"p" * 32) for index in INDEXES]
        ),
        0,
        MANY // AT_ONCE,
    ),
    "AlterPartitionReassignments": (
        [],
        AlterPartitionReassignmentsRequest(
            timeout_ms=1_000,
            topics=[ReassignableTopic("t", [ReassignablePartition(index, [1]) for index in INDEXES])],
        ),
        0,
        MANY // AT_ONCE,
    ),
    "ElectLeaders": (
        [],
        ElectLeadersRequest(timeout_ms=1_000, topic_partitions=[TopicPartitions("t", INDEXES)]),
        2,
        MANY // AT_ONCE,
    ),
}
"""What is asked before, what is asked, and between how many parts at least others are served."""


def cluster() -> tuple[World, SimClient, SimClient]:
    world = World(topics=[f"t:{MANY}"], config=CONFIG)
    client, other = world.client(), world.client()
    world.run()
    return world, client, other


def codes(response: object) -> set[int]:
    """Every error code that an answer has."""
    if isinstance(response, list):
        return set().union(*map(codes, response))
    if not isinstance(response, msgspec.Struct):
        return set()
    found: set[int] = set()
    for field in response.__struct_fields__:
        value = getattr(response, field)
        found |= {value} if field.endswith("error_code") else codes(value)
    return found


@pytest.mark.parametrize("change", CHANGES)
def test_others_are_served_between_the_parts(change: str) -> None:
    world, client, other = cluster()
    before, asked, version, least = CHANGES[change]
    for earlier, earlier_version in before:
        client.ask(earlier, earlier_version)
    answer = client.send(asked, version)
    assert others_served(world, answer, other) >= least - 1
    expected = {ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.NONE} if change == "ElectLeaders" else {ErrorCode.NONE}
    assert codes(answer.response) <= expected


def test_others_are_served_between_the_parts_of_requests_that_are_pipelined() -> None:
    world, client, other = cluster()
    answers = [client.send(commit(group=f"g{number}"), 8) for number in range(10)]
    assert others_served(world, answers[-1], other) >= 10 * (MANY // AT_ONCE) - 1
    assert all(answer.arrived for answer in answers)


def test_what_is_committed_in_parts_is_committed_and_forgotten_as_a_whole() -> None:
    _, client, _ = cluster()
    answer = client.ask(commit(), 8)
    [told] = answer.topics
    assert INDEXES == [each.partition_index for each in told.partitions]
    [found] = client.ask(OffsetFetchRequest(group_id="g", topics=None), 7).topics
    assert {index: index for index in INDEXES} == {
        each.partition_index: each.committed_offset for each in found.partitions
    }
    client.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert [] == client.ask(OffsetFetchRequest(group_id="g", topics=None), 7).topics


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        pytest.param([], [("t", 300), ("u", 1), ("t", 300)], id="a topic that is named twice is answered twice"),
        pytest.param(["none"], [("none", 1), ("t", 600), ("u", 1)], id="once, where something is missing"),
    ],
)
def test_topics_of_a_commit_in_parts_that_are_named_twice(missing: list[str], told: list[tuple[str, int]]) -> None:
    _, client, _ = cluster()
    client.ask(large(1, "u"), 5)

    def committed(name: str, indexes: range) -> OffsetCommitRequestTopic:
        return OffsetCommitRequestTopic(
            name=name, partitions=[OffsetCommitRequestPartition(partition_index=index) for index in indexes]
        )

    twice = [committed("t", range(300)), committed("u", range(1)), committed("t", range(300, 600))]
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[*twice, *(committed(name, range(1)) for name in missing)],
    )
    assert told == [(topic.name, len(topic.partitions)) for topic in client.ask(request, 8).topics]


def test_the_offsets_of_a_deleted_topic_are_forgotten_in_parts_too() -> None:
    _, client, _ = cluster()
    client.ask(commit(), 8)
    client.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000), 5)
    assert [] == client.ask(OffsetFetchRequest(group_id="g", topics=None), 7).topics


def test_a_commit_that_is_refused_on_the_way_is_answered_partition_by_partition() -> None:
    world, client, other = cluster()
    answer = client.send(commit(), 8)
    world._deliver()
    joins = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    other.send(joins, 3)
    world.run()
    errors = [each.error_code for each in answer.response.topics[0].partitions]
    assert MANY == len(errors)
    committed = errors.count(ErrorCode.NONE)
    assert 0 < committed < MANY
    assert [ErrorCode.UNKNOWN_MEMBER_ID] * (MANY - committed) == errors[committed:]
    [found] = client.ask(OffsetFetchRequest(group_id="g", topics=None), 7).topics
    assert committed == len(found.partitions)


def test_more_than_one_batch_may_hold_is_refused_before_anything_is_written() -> None:
    _, client, _ = cluster()
    [told] = client.ask(commit(metadata="x" * 2_000), 8).topics
    assert {ErrorCode.UNKNOWN_SERVER_ERROR} == {each.error_code for each in told.partitions}
    assert [] == client.ask(OffsetFetchRequest(group_id="g", topics=None), 7).topics


def test_what_is_produced_to_a_topic_by_its_id_does_not_get_into_its_namesake() -> None:
    world, client, other = cluster()
    node = world.nodes[1]
    gone = node.image.topics["t"].id
    data = [TopicProduceData(topic_id=gone, partition_data=records())]
    answer = client.send(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=data), 13)
    for _ in range(50):  # it has been read, and some of it admitted
        world._deliver()
    deleted = other.send(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000), 5)
    while not deleted.arrived:
        world._deliver()
    created = other.send(large(MANY, "t"), 7)
    while not created.arrived:
        world._deliver()
    assert not answer.arrived
    world.run()
    assert ErrorCode.UNKNOWN_TOPIC_ID in codes(answer.response)
    assert {0} == {partition.high_watermark for key, partition in node.partitions.items() if key[0] == "t"}


# ---------------------------------------------------------------------- what the controller writes in several batches


def test_a_topic_that_is_being_created_is_not_there_before_its_end() -> None:
    world, client, _ = cluster()
    client.send(large(), 7)
    world._deliver()
    node = world.nodes[1]
    shard = node.controller.active
    assert shard is not None
    assert shard.machine.loader.in_transaction
    assert "large" not in node.image.topics
    world.run()
    assert MANY == len(node.image.topics["large"].partitions)


def test_a_topic_is_created_though_its_client_has_gone_away() -> None:
    world, client, _ = cluster()
    client.send(large(), 7)
    world._deliver()
    client.close()
    world.run()
    assert MANY == len(world.nodes[1].image.topics["large"].partitions)


def test_who_decides_at_once_has_what_is_being_written_before_it() -> None:
    world, client, _ = cluster()
    answer = client.send(large(), 7)
    world._deliver()
    world.set_replica_lag(1, 0)
    world.run()
    assert codes(answer.response) == {ErrorCode.NONE}
    assert MANY == len(world.nodes[1].image.topics["large"].partitions)


def test_who_asks_meanwhile_is_answered_behind_it() -> None:
    world, client, other = cluster()
    first = client.send(large(), 7)
    world._deliver()
    again, second = other.send(large(), 7), other.send(large(1, "small"), 7)
    world.run()
    assert codes(first.response) == codes(second.response) == {ErrorCode.NONE}
    assert {ErrorCode.TOPIC_ALREADY_EXISTS} <= codes(again.response)


def test_a_controller_that_dies_in_the_middle_leaves_nothing() -> None:
    world = World(brokers=2, topics=["t"], config={"default.replication.factor": 2})
    client = world.client(1)
    world.run()
    client.send(large(), 7)
    world._deliver()
    shard = world.nodes[1].controller.active
    assert shard is not None
    assert shard.machine.loader.in_transaction
    world.stop_broker(1)
    world.run()
    assert "large" not in world.nodes[2].image.topics
    assert {ErrorCode.NONE} == codes(world.client(2).ask(large(), 7))
    assert MANY == len(world.nodes[2].image.topics["large"].partitions)


# ---------------------------------------------------------------------- partitions that are led later


def test_a_partition_that_is_led_later_is_there_for_who_asks_for_it() -> None:
    world, client, other = cluster()
    answer = client.send(large(), 7)
    while not answer.arrived:
        world._deliver()
    node = world.nodes[1]
    assert len([key for key in node.partitions if key[0] == "large"]) < MANY
    request = produce_request(batch(b"a"), topic="large", partition=MANY - 1)
    written = other.send(request, 9)
    while not written.arrived:
        world._deliver()
    assert len([key for key in node.partitions if key[0] == "large"]) < MANY
    assert {ErrorCode.NONE} == codes(written.response)
    world.run()
    assert MANY == len([key for key in node.partitions if key[0] == "large"])


def test_a_topic_that_goes_before_all_of_it_is_led_leaves_nothing() -> None:
    world, client, other = cluster()
    answer = client.send(large(), 7)
    while not answer.arrived:
        world._deliver()
    deleted = other.send(DeleteTopicsRequest(topic_names=["large"], timeout_ms=1_000), 5)
    world.run()
    assert {ErrorCode.NONE} == codes(deleted.response)
    assert not [key for key in world.nodes[1].partitions if key[0] == "large"]


def test_a_new_topic_of_the_same_name_is_led_while_the_old_one_is_given_up() -> None:
    world, client, _ = cluster()
    client.ask(large(), 7)
    gone = client.send(DeleteTopicsRequest(topic_names=["large"], timeout_ms=1_000), 5)
    while not gone.arrived:
        world._deliver()
    client.ask(large(2 * LED_AT_ONCE), 7)
    world.run()
    node = world.nodes[1]
    led = [partition for key, partition in node.partitions.items() if key[0] == "large"]
    assert 2 * LED_AT_ONCE == len(led)
    assert all(partition.is_leader for partition in led)


# ---------------------------------------------------------------------- settings that many partitions have


ADOPTED_AT_ONCE = 1_000
"""No more partitions are held to new settings in one go."""


def in_steps(world: World, owner: object, method: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often this is called in each step of broker 1 from now on."""
    node = world.nodes[1]
    step, called = node.step, getattr(owner, method)
    counts: list[int] = []

    def steps(*arguments: Any) -> Any:
        counts.append(0)
        return step(*arguments)

    def calls(*arguments: Any, **named: Any) -> Any:
        counts[-1] += 1
        return called(*arguments, **named)

    monkeypatch.setattr(node, "step", steps)
    monkeypatch.setattr(owner, method, calls)
    return counts


def set_config(resource_type: int, name: str, key: str, value: str) -> configs.IncrementalAlterConfigsRequest:
    config = configs.AlterableConfig(name=key, config_operation=0, value=value)
    return configs.IncrementalAlterConfigsRequest(
        resources=[configs.AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[config])]
    )


def test_only_the_partitions_of_a_topic_are_looked_at_when_its_configs_change(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(topics=[f"t:{MANY}", "small:3"], config=CONFIG)
    client = world.client()
    world.run()
    counts = in_steps(world, world.nodes[1].replicas.replication, "adopt", monkeypatch)
    client.ask(set_config(2, "small", "retention.ms", "5000"), 1)
    client.ask(set_config(32, "g", "consumer.session.timeout.ms", "50000"), 1)
    assert 3 == sum(counts)
    assert 5000 == world.nodes[1].partitions["small", 2].config.retention_ms


def test_the_settings_of_a_broker_hold_for_very_many_partitions_a_part_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(topics=[f"t:{2 * MANY}", f"u:{MANY}"], config=CONFIG)
    client, other = world.client(), world.client()
    world.run()
    counts = in_steps(world, world.nodes[1].replicas.replication, "adopt", monkeypatch)
    answer = client.send(set_config(4, "", "message.max.bytes", "100"), 1)
    while not answer.arrived:
        world._deliver()
    assert max(counts) <= ADOPTED_AT_ONCE
    # It holds for whoever writes now, to the last of them.
    written = other.send(produce_request(batch(b"x" * 200), topic="u", partition=MANY - 1), 9)
    world.run()
    assert {ErrorCode.MESSAGE_TOO_LARGE} <= codes(written.response)
    assert sum(counts) >= 3 * MANY
    assert max(counts) <= ADOPTED_AT_ONCE + 1
    assert {100} == {partition.config.max_message_bytes for partition in world.nodes[1].partitions.values()}


def test_a_marker_finds_the_settings_of_a_broker_too() -> None:
    world = World(topics=[f"t:{2 * MANY}", f"u:{MANY}"], config=CONFIG)
    client, other = world.client(), world.client()
    world.run()
    answer = client.send(set_config(4, "", "message.max.bytes", "100"), 1)
    while not answer.arrived:
        world._deliver()
    marker = WritableTxnMarker(
        producer_id=1,
        producer_epoch=0,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name="u", partition_indexes=[MANY - 1])],
    )
    written = other.send(WriteTxnMarkersRequest(markers=[marker]), 1)
    while not written.arrived:
        world._deliver()
    assert world.nodes[1].replicas.to_adopt
    assert 100 == world.nodes[1].partitions["u", MANY - 1].config.max_message_bytes


def test_a_partition_that_goes_before_it_has_its_settings_leaves_nothing() -> None:
    world = World(topics=[f"t:{2 * MANY}"], config=CONFIG)
    client, other = world.client(), world.client()
    world.run()
    client.send(set_config(2, "t", "retention.ms", "5000"), 1)
    world._deliver()
    assert world.nodes[1].replicas.to_adopt
    other.send(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000), 5)
    world.run()
    assert not world.nodes[1].replicas.to_adopt


def test_the_whole_answer_is_written_in_parts_where_only_a_part_may_be_served() -> None:
    """What a guard has taken out of a request does not make the answer to the rest short."""
    world = World(topics=["t"], config=CONFIG)
    client, other = world.client(), world.client()
    world.run()
    topics = [CreatableTopic(name=f"n{index}", num_partitions=1, replication_factor=1) for index in range(200)]
    answer = client.send(CreateTopicsRequest(topics=topics, timeout_ms=1_000), 7)
    node = world.nodes[1]
    while not all(f"n{index}" in node.image.topics for index in range(200)):
        world._deliver()
    # 37 configs of each are told.
    assert others_served(world, answer, other) > 20


# ---------------------------------------------------------------------- the parts


def topic(name: str, count: int) -> TopicPartitions:
    return TopicPartitions(name, list(range(count)))


def test_few_partitions_are_one_part() -> None:
    topics = [topic("a", 2), topic("b", 0), topic("c", 1)]
    assert [topics] == list(in_parts(topics, 4))
    assert [[]] == list(in_parts([], 4))


def test_many_are_cut_in_their_order() -> None:
    parts = list(in_parts([topic("a", 5), topic("b", 0), topic("c", 4)], 3))
    assert [
        [("a", [0, 1, 2])],
        [("a", [3, 4]), ("b", [])],
        [("c", [0, 1, 2])],
        [("c", [3])],
    ] == [[(each.topic, each.partitions) for each in part] for part in parts]


def test_what_has_one_key_comes_together() -> None:
    assert [["aa", "ab"], ["b"], ["c"]] == list(entries_in_parts(["aa", "b", "ab", "c"], key=lambda e: e[0], size=1))
    assert [[1, 2], [3]] == list(entries_in_parts([1, 2, 3], size=2))
    assert [[1, 1]] == list(entries_in_parts([1, 1], size=2))
