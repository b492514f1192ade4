"""KIP-868, Metadata Transactions: an operation of many records is seen as a whole, by every broker, or not at all."""

from __future__ import annotations

from odradek.core.machine import Proposed
from odradek.host.events import Command, MetadataAdvanced
from odradek.metadata.controller import Controller
from odradek.records.record import iterate_records
from odradek.records.state import decode_metadata
from odradek.sim import World
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic

PARTITIONS = 20


def world_of_small_batches(brokers: int = 3) -> World:
    return World(
        brokers=brokers,
        config={
            "odradek.metadata.batch.records.max": 4,
            "odradek.internal.topics.at.start": False,
            "auto.create.topics.enable": False,
        },
    )


def creation(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)], timeout_ms=5000
    )


def seen(world: World, name: str) -> list[int]:
    """How many partitions of the topic each broker tells its clients of."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    return [len(world.client(node).ask(request, 12).topics[0].partitions) for node in world.nodes]


def records(world: World) -> list[str]:
    """The types of the records of the metadata log."""
    [log] = [log for log in world.store.logs() if log.topic_id == (1).to_bytes(16, "big")]
    return [
        type(decode_metadata(record.value or b"")).__name__
        for batch in log.batches()
        for record in iterate_records(batch)
    ]


def write_half(world: World, name: str) -> None:
    """The controller appends the first half of a long operation; every broker reads it."""
    shard = world.nodes[1].controller.shard
    assert shard is not None
    controller: Controller = shard.machine
    decision = controller.create_topics(creation(name))
    assert isinstance(decision, Proposed)
    batches = list(controller.batches(decision.records))
    for batch in batches[: len(batches) // 2]:
        shard.partition.append_records(batch, world.now)
    shard.advance()
    for node in (2, 3):
        world.post(node, MetadataAdvanced(shard.partition.high_watermark))
    world.run()


def take_over(world: World, node: int) -> None:
    """Another node becomes the controller."""
    world.spec.controller_id = node
    world.post(node, Command(world.nodes[node].controller.activate))
    world.run()


def test_the_whole_operation_becomes_visible_at_its_end() -> None:
    world = world_of_small_batches()

    world.client(2).ask(creation("t"), 7)
    world.run()

    assert [PARTITIONS] * 3 == seen(world, "t")
    written = records(world)[-(PARTITIONS + 3) :]
    assert ["BeginTransactionRecord", "TopicRecord"] == written[:2]
    assert ["PartitionRecord", "EndTransactionRecord"] == written[-2:]


def test_nothing_of_it_is_visible_before() -> None:
    world = world_of_small_batches()

    write_half(world, "t")

    assert [0, 0, 0] == seen(world, "t")
    assert records(world).count("PartitionRecord") > 0
    assert all(("t", 0) not in node.partitions for node in world.nodes.values())


def test_the_offset_that_clients_see_does_not_enter_a_transaction() -> None:
    world = world_of_small_batches()
    before = world.nodes[3].image.offset

    write_half(world, "t")

    assert before == world.nodes[3].image.offset


def test_a_new_controller_aborts_what_the_old_one_left_open() -> None:
    world = world_of_small_batches()
    write_half(world, "t")

    take_over(world, 2)

    assert "AbortTransactionRecord" == records(world)[-1]
    assert [0, 0, 0] == seen(world, "t")
    aborted = [fact.fields["reason"] for _, fact in world.facts if fact.kind == "metadata_transaction_aborted"]
    assert {"Controller failover"} == set(aborted)


def test_after_an_abort_the_operation_can_be_done_again() -> None:
    world = world_of_small_batches()
    write_half(world, "t")
    take_over(world, 2)

    world.client(3).ask(creation("t"), 7)
    world.run()

    assert [PARTITIONS] * 3 == seen(world, "t")
    for node in world.nodes.values():
        led = [p.index for p in node.image.topics["t"].partitions.values() if p.leader == node.node_id]
        assert all(("t", index) in node.partitions for index in led)


def test_a_new_cluster_begins_with_a_transaction() -> None:
    world = world_of_small_batches(brokers=1)

    levels = ["FeatureLevelRecord"] * len(world.nodes[1].image.features)
    bootstrap = ["BeginTransactionRecord", *levels, "ConfigRecord", "EndTransactionRecord"]
    assert bootstrap == records(world)[: len(bootstrap)]
