"""Brokers that die and come back: who controls the cluster then, and what every broker believes."""

from __future__ import annotations

from itertools import permutations

import pytest

from odradek.host.events import Command
from odradek.sim import World
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest

INTERNAL = {"odradek.internal.topics.at.start": False}


def new_world() -> World:
    return World(brokers=3, topics=["t:3:3"], config=INTERNAL)


def leaders(world: World, node_id: int) -> list[int]:
    image = world.nodes[node_id].image.topic("t")
    assert image is not None
    return [image.partitions[index].leader for index in range(3)]


def in_service(world: World, node_id: int) -> list[int]:
    image = world.nodes[node_id].image
    return [broker.id for broker in image.brokers.values() if not broker.fenced]


def create(world: World, name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
    [created] = world.client(world.running[0]).ask(request, 7).topics
    assert 0 == created.error_code
    world.run()


def test_another_one_takes_office_and_the_image_goes_on() -> None:
    world = new_world()
    before = {node_id: node.image for node_id, node in world.nodes.items()}
    world.stop_broker(1)
    assert 2 == world.spec.controller_id
    assert world.nodes[2].controller.active is not None
    assert 1 not in leaders(world, 2)
    assert leaders(world, 2) == leaders(world, 3)
    assert all(world.nodes[each].image.offset > before[each].offset for each in (2, 3))
    create(world, "later")
    world.start_broker(1)
    assert 2 == world.spec.controller_id
    assert world.nodes[1].controller.active is None
    assert world.nodes[2].image == world.nodes[1].image == world.nodes[3].image
    assert [1, 2, 3] == sorted(in_service(world, 1))


def test_a_controller_that_was_replaced_reads_what_its_successor_writes() -> None:
    world = new_world()
    world.spec.controller_id = 2
    world.post(2, Command(world.nodes[2].controller.activate))
    world.run()
    create(world, "later")
    assert world.nodes[1].controller.active is None
    assert world.nodes[1].image == world.nodes[2].image
    assert world.nodes[1].image.topic("later") is not None


@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
def test_who_does_not_run_leads_nothing_when_the_first_one_starts_again(order: tuple[int, ...]) -> None:
    world = new_world()
    for node_id in (1, 2, 3):
        world.stop_broker(node_id)
    first, *others = order
    world.start_broker(first)
    assert [first] == in_service(world, first)
    # Only the last one to go has everything that was committed.
    assert [3 if first == 3 else -1] * 3 == leaders(world, first)
    assert first == world.spec.controller_id
    for node_id in others:
        world.start_broker(node_id)
    assert [1, 2, 3] == sorted(in_service(world, first))
    assert [3] * 3 == leaders(world, first)
    topic = world.nodes[first].image.topics["t"]
    assert [{1, 2, 3}] * 3 == [set(topic.partitions[index].isr) for index in range(3)]


def test_the_only_broker_leads_in_a_new_epoch_when_it_starts_again() -> None:
    world = World(topics=["t:3"], config=INTERNAL)
    before = world.nodes[1].partitions["t", 0]
    world.stop_broker(1)
    world.start_broker(1)
    assert world.nodes[1].partitions["t", 0].leader_epoch > before.leader_epoch
    assert not before.is_leader


def test_only_the_removal_of_a_topic_ends_its_log() -> None:
    """Every broker that starts reads of it again, by when another topic may have the name."""
    world = new_world()
    first = {log.topic_id for log in world.store.logs()}
    world.client(1).ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=5_000), 5)
    world.run()
    create(world, "t")
    second = {log.topic_id for log in world.store.logs()}
    assert 1 == len(first & second)  # the metadata log
    logs = set(map(id, world.store.logs()))
    for node_id in (1, 2, 3, 1, 2, 3):
        world.stop_broker(node_id)
        world.start_broker(node_id)
        assert logs == set(map(id, world.store.logs()))


def test_an_image_that_was_shown_is_not_shown_again() -> None:
    controller = new_world().nodes[2].controller
    with pytest.raises(AssertionError, match="an image never goes back"):
        controller.show([controller.image])


@pytest.mark.parametrize("dead", [1, 2, 3])
def test_who_died_unnoticed_is_in_service_and_leads_until_it_is_noticed(dead: int) -> None:
    world = new_world()
    others = [each for each in (1, 2, 3) if each != dead]
    world.stop_broker(dead, noticed=False)
    assert world.spec.controller_id in others
    for other in others:
        assert [1, 2, 3] == sorted(in_service(world, other))
        assert dead in leaders(world, other)
    world.notice_crash(dead)
    for other in others:
        assert others == sorted(in_service(world, other))
        assert dead not in leaders(world, other)
    world.start_broker(dead)
    assert [1, 2, 3] == sorted(in_service(world, dead))


def test_who_starts_leaves_a_death_unnoticed() -> None:
    world = new_world()
    world.stop_broker(3)
    world.stop_broker(2, noticed=False)
    world.start_broker(3)
    assert [1, 2, 3] == sorted(in_service(world, 3))
    world.start_broker(2)
    assert 2 not in leaders(world, 1)
    assert frozenset() == world.spec.unheard
