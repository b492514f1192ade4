"""The controller: activation, one operation at a time, long ones as metadata transactions."""

from __future__ import annotations

from msgspec import Struct
from tests.unit.metadata.helpers import CONTROLLERS, NOW, World, control_of

from odradek.core.machine import Answered, Proposed, Refused
from odradek.metadata.controller import Activation, Fencing
from odradek.metadata.quorum import decode_quorum, encode_quorum, quorum_at
from odradek.records.control import quorum_records
from odradek.records.state import decode_metadata
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.abort_transaction_record import AbortTransactionRecord
from odradek.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from odradek.wire.messages.alter_configs_request import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from odradek.wire.messages.begin_transaction_record import BeginTransactionRecord
from odradek.wire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from odradek.wire.messages.config_record import ConfigRecord
from odradek.wire.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.end_transaction_record import EndTransactionRecord
from odradek.wire.messages.feature_level_record import FeatureLevelRecord
from odradek.wire.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from odradek.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

MINUTE = 60_000

LEVELS = {
    "metadata.version": 33,
    "group.version": 1,
    "share.version": 2,
    "transaction.version": 2,
    "eligible.leader.replicas.version": 1,
    "streams.version": 1,
}


def create(*names: str, partitions: int = 1, replicas: int = 1) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=1000)


def proposed(decision: object) -> list[Struct]:
    """The records that are proposed."""
    assert isinstance(decision, Proposed)
    return [decode_metadata(record.value or b"") for record in decision.records]


def kinds(decision: object) -> list[str]:
    """Their types."""
    return [type(record).__name__ for record in proposed(decision)]


# ---------------------------------------------------------------------- activation


def test_a_new_cluster_begins_with_a_transaction() -> None:
    world = World(brokers=0)

    assert [Activation()] == list(world.controller.due(NOW))
    decision = world.controller.activate()

    assert [
        BeginTransactionRecord(name="Bootstrap records"),
        FeatureLevelRecord(name="metadata.version", feature_level=33),
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="share.version", feature_level=2),
        FeatureLevelRecord(name="transaction.version", feature_level=2),
        FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
        FeatureLevelRecord(name="streams.version", feature_level=1),
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
        EndTransactionRecord(),
    ] == proposed(decision)
    world.carry_out(decision)
    assert [] == list(world.controller.due(NOW))
    assert LEVELS == world.image.features


def test_the_quorum_of_a_new_cluster_has_a_batch_of_its_own() -> None:
    """Before the transaction, which may have many batches."""
    world = World(brokers=0, odradek_kraft_version="1", odradek_metadata_batch_records_max="2")

    decision = world.controller.activate()
    assert isinstance(decision, Proposed)
    quorum, begin, *_ = world.controller.batches(decision.records)
    assert [quorum_at(1, CONTROLLERS), [BeginTransactionRecord(name="Bootstrap records")]] == [
        decode_quorum(quorum_records([control_of(quorum, 0)])),
        [decode_metadata(each.value or b"") for each in begin][:1],
    ]
    world.carry_out(decision)
    assert LEVELS | {"kraft.version": 1} == world.image.features


def test_the_version_of_the_quorum_goes_up() -> None:
    world = World()
    keys = [FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)]
    request = UpdateFeaturesRequest(feature_updates=keys)

    decision = world.controller.update_features(request)
    assert isinstance(decision, Proposed)
    assert [encode_quorum(quorum_at(1, CONTROLLERS))] == [*world.controller.batches(decision.records)]
    world.carry_out(decision)
    assert LEVELS | {"kraft.version": 1} == world.image.features
    assert isinstance(world.controller.update_features(request), Answered), "it is there"


def test_a_feature_at_level_zero_is_left_out() -> None:
    world = World(odradek_transaction_version="0")

    assert {name: level for name, level in LEVELS.items() if name != "transaction.version"} == world.image.features


def test_before_kip_868_the_bootstrap_is_one_plain_batch() -> None:
    world = World(brokers=0, odradek_metadata_version="12")

    assert ["FeatureLevelRecord"] * 5 == kinds(world.controller.activate())


def test_a_controller_serves_only_when_active() -> None:
    world = World(brokers=0)

    assert Refused(ErrorCode.NOT_CONTROLLER) == world.controller.create_topics(create("a"))


def test_a_successor_of_a_tidy_controller_has_nothing_to_do() -> None:
    world = World()

    controller = world.fail_over()

    assert [] == list(controller.due(NOW))
    assert Answered(None) == controller.activate()
    assert world.image.topics == controller.image.topics


def test_a_successor_aborts_what_was_left_open() -> None:
    world = World(odradek_metadata_batch_records_max="4")
    world.carry_out(world.controller.create_topics(create("a", partitions=10)), batches=2)
    assert world.loader.in_transaction

    controller = world.fail_over()

    assert [Activation()] == list(controller.due(NOW))
    assert Refused(ErrorCode.NOT_CONTROLLER) == controller.create_topics(create("b"))
    decision = controller.perform(Activation())
    assert [AbortTransactionRecord(reason="Controller failover")] == proposed(decision)
    world.carry_out(decision)
    assert {} == world.image.topics
    assert not world.loader.in_transaction
    world.carry_out(controller.create_topics(create("a", partitions=2)))
    assert 2 == len(world.image.topics["a"].partitions)


def test_a_bootstrap_that_was_cut_short_is_aborted_and_begun_again() -> None:
    world = World(brokers=0, odradek_metadata_batch_records_max="3")
    world.carry_out(world.controller.activate(), batches=1)

    controller = world.fail_over()
    decision = controller.activate()

    assert [
        "AbortTransactionRecord",
        "BeginTransactionRecord",
        *["FeatureLevelRecord"] * 6,
        "ConfigRecord",
        "EndTransactionRecord",
    ] == kinds(decision)
    world.carry_out(decision)
    assert LEVELS == world.image.features


# ---------------------------------------------------------------------- long operations (KIP-868)


def test_an_operation_that_fits_is_one_plain_batch() -> None:
    world = World(odradek_metadata_batch_records_max="4")

    assert ["TopicRecord", *["PartitionRecord"] * 3] == kinds(world.controller.create_topics(create("a", partitions=3)))


def test_a_longer_one_is_a_transaction_in_batches() -> None:
    world = World(odradek_metadata_batch_records_max="4")

    decision = world.controller.create_topics(create("a", partitions=8))

    assert isinstance(decision, Proposed)
    assert ["BeginTransactionRecord", "TopicRecord", *["PartitionRecord"] * 8, "EndTransactionRecord"] == kinds(
        decision
    )
    assert [4, 4, 3] == [len(batch) for batch in world.controller.batches(decision.records)]


def test_nobody_sees_a_topic_in_the_making() -> None:
    world = World(odradek_metadata_batch_records_max="4")
    decision = world.controller.create_topics(create("a", partitions=8))
    assert isinstance(decision, Proposed)
    seen = []

    for records in world.controller.batches(decision.records):
        world.append([record.value or b"" for record in records])
        seen.append(len(world.image.topics["a"].partitions) if "a" in world.image.topics else None)
        busy = isinstance(world.controller.create_topics(create("b")), Refused)
        assert busy == world.controller.loader.in_transaction
        assert [] == list(world.controller.due(NOW))

    assert [None, None, 8] == seen


def test_without_transactions_a_long_operation_is_refused() -> None:
    world = World(odradek_metadata_version="12", odradek_metadata_batch_records_max="4")

    created = world.carry_out(world.controller.create_topics(create("a", partitions=5)))
    tight = world.controller.create_topics(create("b", partitions=4))

    assert [ErrorCode.POLICY_VIOLATION] == [result.error_code for result in created.topics]
    assert isinstance(tight, Refused)
    assert ErrorCode.POLICY_VIOLATION == tight.error
    assert "CreateTopics" in (tight.message or "")


# ---------------------------------------------------------------------- operations


def test_the_life_of_a_topic() -> None:
    world = World(brokers=3)
    controller = world.controller

    world.carry_out(controller.create_topics(create("a", partitions=2, replicas=3)))
    more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=3, assignments=None)], timeout_ms=9)
    world.carry_out(controller.create_partitions(more))

    assert [0, 1, 2] == list(world.image.topics["a"].partitions)
    world.carry_out(controller.delete_topics(DeleteTopicsRequest(topics=[DeleteTopicState("a")], timeout_ms=9), 6))
    assert {} == world.image.topics


def test_configs_take_effect_on_the_next_topic() -> None:
    world = World()
    defaults = AlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=4,
                resource_name="",
                configs=[
                    AlterableConfig(name="message.max.bytes", value="9"),
                    AlterableConfig(name="min.insync.replicas", value="1"),
                ],
            )
        ]
    )

    world.carry_out(world.controller.alter_configs(defaults))
    reply = world.carry_out(world.controller.create_topics(create("a")))

    told = {entry.name: (entry.value, entry.config_source) for entry in reply.topics[0].configs}
    assert ("9", 3) == told["max.message.bytes"]
    assert {"message.max.bytes": "9", "min.insync.replicas": "1"} == world.image.config(4, "")
    nothing = IncrementalAlterConfigsRequest(resources=[])
    assert [] == world.carry_out(world.controller.incremental_alter_configs(nothing)).responses


def test_a_refusal_of_everything_is_an_answer() -> None:
    world = World()

    decision = world.controller.create_topics(create(""))

    assert isinstance(decision, Answered)


def test_the_transaction_version_changes_at_run_time() -> None:
    world = World()
    down = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature="transaction.version", max_version_level=0, upgrade_type=2)]
    )

    world.carry_out(world.controller.update_features(down))

    assert 0 == world.image.feature("transaction.version")
    assert "transaction.version" not in world.image.features


def test_blocks_of_producer_ids_follow_one_another() -> None:
    world = World()
    epoch = world.image.brokers[1].epoch

    blocks = [
        world.carry_out(
            world.controller.allocate_producer_ids(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch))
        )
        for _ in range(2)
    ]
    world.fail_over()
    blocks.append(
        world.carry_out(
            world.controller.allocate_producer_ids(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch))
        )
    )

    assert [(0, 1000), (1000, 1000), (2000, 1000)] == [(b.producer_id_start, b.producer_id_len) for b in blocks]


def test_a_block_is_for_a_broker_that_is_known() -> None:
    world = World()

    errors = [
        world.carry_out(
            world.controller.allocate_producer_ids(AllocateProducerIdsRequest(broker_id=who, broker_epoch=epoch))
        ).error_code
        for who, epoch in ((9, 0), (1, -1))
    ]

    assert [ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.STALE_BROKER_EPOCH] == errors


# ---------------------------------------------------------------------- brokers


def test_the_epoch_of_a_broker_is_the_offset_of_its_registration() -> None:
    world = World(brokers=0)
    world.carry_out(world.controller.activate())

    assert 9 == world.admit(1)
    assert not world.image.brokers[1].fenced


def test_a_broker_is_let_in_when_it_has_read_its_own_registration() -> None:
    world = World()
    epoch = world.admit(2)
    world.beat(2, epoch, fence=True)
    late = BrokerHeartbeatRequest(broker_id=2, broker_epoch=epoch, current_metadata_offset=epoch - 1)
    behind = world.controller.heartbeat(late)

    assert isinstance(behind, Answered)
    assert (False, True) == (behind.reply.is_caught_up, behind.reply.is_fenced)
    assert not world.beat(2, epoch).is_fenced
    assert world.image.is_alive(2)


def test_heartbeats_of_strangers_are_refused() -> None:
    world = World()

    assert ErrorCode.BROKER_ID_NOT_REGISTERED == world.beat(9, 0).error_code
    assert ErrorCode.STALE_BROKER_EPOCH == world.beat(1, -5).error_code


def test_a_broker_that_leaves_gives_its_partitions_away() -> None:
    world = World(brokers=2)
    world.carry_out(world.controller.create_topics(create("a", partitions=2, replicas=2)))

    reply = world.beat(1, world.image.brokers[1].epoch, leave=True)

    assert (True, True) == (reply.should_shut_down, reply.is_fenced)
    assert [2, 2] == [partition.leader for partition in world.image.topics["a"].partitions.values()]


def test_a_broker_that_is_gone_is_fenced_once() -> None:
    world = World(brokers=2)
    controller = world.controller
    world.carry_out(controller.create_topics(create("a", replicas=2)))
    gone = Fencing(2, world.image.brokers[2].epoch)

    world.carry_out(controller.fence_broker(gone))

    assert [1] == [broker.id for broker in world.image.brokers.values() if not broker.fenced]
    assert 1 == world.image.topics["a"].partitions[0].leader
    assert Answered(None) == controller.fence_broker(gone)


def test_leaders_are_moved() -> None:
    world = World(brokers=2)
    world.carry_out(world.controller.create_topics(create("a")))
    old = world.image.topics["a"].partitions[0]
    to = 3 - old.leader

    world.carry_out(world.controller.move_leader("a", 0, to))

    moved = world.image.topics["a"].partitions[0]
    assert (to, 1, (to,)) == (moved.leader, moved.leader_epoch, moved.replicas)
    assert Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == world.controller.move_leader("a", 9, to)
    assert Refused(ErrorCode.BROKER_NOT_AVAILABLE) == world.controller.move_leader("a", 0, 9)


def test_what_a_controller_shows_is_what_brokers_see() -> None:
    world = World(brokers=3)
    world.carry_out(world.controller.create_topics(create("a", "b", partitions=3)))

    assert world.image == world.controller.image
    assert world.controller.published[-1] == world.image
