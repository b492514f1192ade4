"""A topic of very many partitions is decided, written and led in parts: no step of a broker makes all records."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.metadata.helpers import BROKERS, image_of

import odradek.metadata.assignment
from odradek.metadata.controller import WRITTEN_AT_ONCE
from odradek.metadata.image import PartitionImage
from odradek.metadata.placement import place
from odradek.metadata.snapshot import partition_record
from odradek.sim import World
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.partition_record import PartitionRecord

PARTITIONS = 3_000
THREE = image_of(BROKERS).brokers.values()
BILLION = 1_000_000_000


@pytest.mark.parametrize("brokers", [1, 3])
def test_no_step_makes_all_partitions(brokers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(brokers=brokers, topics=["t"], config={"odradek.internal.topics.at.start": "false"})
    client = world.client()
    world.run()
    made = [0]

    def counted(topic_id: bytes, partition: PartitionImage) -> PartitionRecord:
        made[-1] += 1
        return partition_record(topic_id, partition)

    for node in world.nodes.values():

        def step(*arguments: object, step: object = node.step) -> object:
            made.append(0)
            return step(*arguments)  # type: ignore[operator]

        node.step = step  # type: ignore[method-assign, assignment]
    monkeypatch.setattr(odradek.metadata.assignment, "partition_record", counted)
    topic = CreatableTopic(name="long", num_partitions=PARTITIONS, replication_factor=brokers)
    client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
    world.run()
    assert sum(made) == PARTITIONS
    assert max(made) <= WRITTEN_AT_ONCE
    for node_id, node in world.nodes.items():
        known = node.image.topics["long"].partitions
        assert list(known) == list(range(PARTITIONS))
        led = {("long", index) for index, partition in known.items() if partition.leader == node_id}
        assert led
        assert led == {key for key in node.partitions if key[0] == "long"}


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_a_placement_is_read_in_any_order(replicas: int) -> None:
    placed = place(THREE, partitions=50, replicas=replicas, rng=Random(7))
    whole = list(placed)
    assert len(placed) == len(whole) == 50
    assert [placed[index] for index in reversed(range(50))] == whole[::-1]
    assert placed[10:20] == whole[10:20]
    assert all(len(set(each)) == replicas for each in whole)
    assert {each[0] for each in whole} == {broker.id for broker in THREE}
    with pytest.raises(IndexError):
        placed[50]


def test_a_placement_makes_nothing_before_it_is_read() -> None:
    placed = place(THREE, partitions=BILLION, replicas=2, rng=Random(7))
    assert len(set(placed[BILLION - 1])) == 2
