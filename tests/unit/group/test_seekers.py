"""Clients that look for a coordinator and then join over other connections, as consumers that start together."""

from odradek.group.seekers import GATHERING_MS
from odradek.sim import SimClient, World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol

GROUP, TRANSACTION = 0, 1


def look(world: World, *groups: str, key_type: int = GROUP) -> SimClient:
    client = world.client()
    found = client.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(groups)), 4)
    assert {ErrorCode.NONE} == {each.error_code for each in found.coordinators}
    return client


def joining(member_id: str = "") -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=protocols,
    )


def has_joined_after(world: World, milliseconds: int) -> bool:
    """Whether a new client that joins has its generation then."""
    client = world.client()
    required = client.ask(joining(), 5)
    assert ErrorCode.MEMBER_ID_REQUIRED == required.error_code
    joined = client.send(joining(required.member_id), 5)
    world.run()
    world.advance(milliseconds)
    return joined.arrived


def test_clients_that_start_together_have_one_generation() -> None:
    world = World()
    for _ in range(3):
        look(world, "g")
    clients = [world.client() for _ in range(3)]
    waiting = []
    for client in clients:
        required = client.ask(joining(), 5)
        waiting.append(client.send(joining(required.member_id), 5))
        world.run()
    assert [1, 1, 1] == [each.response.generation_id for each in waiting]
    assert [3] == [len(each.response.members) for each in waiting if each.response.members]


def test_one_client_alone_waits_for_nobody() -> None:
    world = World()
    look(world, "g")
    assert has_joined_after(world, 0)


def test_another_client_that_looks_and_does_not_come_is_waited_for() -> None:
    world = World()
    look(world, "g")
    look(world, "g")
    assert not has_joined_after(world, GATHERING_MS - 1)


def test_it_is_waited_for_no_longer_than_that() -> None:
    world = World()
    look(world, "g")
    look(world, "g")
    assert has_joined_after(world, GATHERING_MS)


def test_a_client_that_looks_again_over_another_connection_is_one_client() -> None:
    world = World()
    look(world, "g").close()
    world.run()
    look(world, "g")
    assert has_joined_after(world, 0)


def test_who_looks_for_many_groups_or_for_a_transaction_is_no_consumer() -> None:
    world = World()
    look(world, "g", "h")
    look(world, "g", key_type=TRANSACTION)
    look(world, "g")
    assert has_joined_after(world, 0)


def test_only_the_coordinator_waits_and_only_for_those_that_have_asked_it() -> None:
    world = World(brokers=2)
    for node_id, node in world.nodes.items():
        client = world.client(node_id)
        [found] = client.ask(FindCoordinatorRequest(key_type=GROUP, coordinator_keys=["g"]), 4).coordinators
        assert (found.node_id == node_id) == bool(node.seekers.groups)
