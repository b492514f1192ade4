"""The ids of brokers: 1, 2, … or those that were chosen, 0 among them."""

from __future__ import annotations

import pytest
from tests.kips.helpers import NEW, OK, Cluster, Producer

from odradek.host.cluster_spec import NODE_ID_MAX, node_ids_of, read_node_ids
from odradek.sim import World
from odradek.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.metadata_request import MetadataRequest


@pytest.mark.parametrize(
    ("brokers", "chosen", "ids"),
    [
        (None, None, (1,)),
        (3, None, (1, 2, 3)),
        (None, [0, 1, 2], (0, 1, 2)),
        (2, [7, 0], (7, 0)),
        (None, [NODE_ID_MAX], (NODE_ID_MAX,)),
    ],
)
def test_ids(brokers: int | None, chosen: list[int] | None, ids: tuple[int, ...]) -> None:
    assert ids == node_ids_of(brokers, chosen)


@pytest.mark.parametrize(
    ("brokers", "chosen", "sentence"),
    [
        (0, None, "A cluster has at least one broker."),
        (None, [], "A cluster has at least one broker."),
        (None, [1, 2, 1, 1], "Each node id is given once, and 1 is given 3 times."),
        (None, [-1], f"A node id is from 0 to {NODE_ID_MAX}, not -1."),
        (None, [NODE_ID_MAX + 1], f"A node id is from 0 to {NODE_ID_MAX}, not {NODE_ID_MAX + 1}."),
        (1, [0, 1], "1 broker cannot have 2 node ids: give one id for each."),
    ],
)
def test_ids_that_cannot_be(brokers: int | None, chosen: list[int] | None, sentence: str) -> None:
    with pytest.raises(ValueError) as raised:
        node_ids_of(brokers, chosen)
    assert sentence == str(raised.value)


def test_ids_are_read() -> None:
    assert [0, 1, -2] == read_node_ids("0, 1,-2")


@pytest.mark.parametrize("text", ["", "a", "0,,1", "0;1", "1.0", "--1", "9" * 5000])
def test_what_is_no_list_of_ids_is_said(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Node ids are numbers, separated by commas, like 0,1,2; not '"):
        read_node_ids(text)


def test_the_first_of_the_list_is_the_controller() -> None:
    world = World(node_ids=[5, 0], topics=["t:2"])
    told = world.client(0).ask(MetadataRequest(topics=None), 12)
    assert ({0, 5}, 5) == ({broker.node_id for broker in told.brokers}, told.controller_id)
    [topic] = [each for each in told.topics if each.name == "t"]
    assert {0, 5} == {partition.leader_id for partition in topic.partitions}


def test_broker_0_tells_of_itself() -> None:
    resource = DescribeConfigsResource(resource_type=4, resource_name="0", configuration_keys=["node.id", "broker.id"])
    [result] = World(node_ids=[0]).client(0).ask(DescribeConfigsRequest(resources=[resource]), 4).results
    assert [("broker.id", "0"), ("node.id", "0")] == [(each.name, each.value) for each in result.configs]


@pytest.mark.parametrize("node_ids", [[0, 1, 2], [9, 0], [0]])
def test_transactions_where_0_coordinates_and_leads(node_ids: list[int]) -> None:
    cluster = Cluster(node_ids=node_ids)
    tid, partition = cluster.coordinator_on(0), cluster.partition_on(0)
    producer = Producer.started(cluster, NEW, tid=tid)
    producer.transact(partition, b"one")
    for to in reversed(node_ids):
        cluster.world.move_leader(*cluster.log_of(tid), to)
        cluster.world.move_leader(*partition, to)
        assert OK is producer.send(partition, b"two")
        assert OK is producer.finish(True)
        cluster.world.advance(1000)
    assert [b"one"] + [b"two"] * len(node_ids) == cluster.consumed(partition)
