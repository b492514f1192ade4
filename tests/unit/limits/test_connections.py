"""How many connections a broker takes, and how fast; what happens to one too many is recorded from Kafka 4.4."""

from __future__ import annotations

import pytest

from odradek.config.addresses import parse_overrides
from odradek.config.table import Config, ConfigError
from odradek.sim import World
from odradek.sim.world.client import SimClient
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

BROKER = 4


def alter(world: World, client: SimClient, **values: str | None) -> tuple[int, str | None]:
    """Set keys for all brokers; the error, and what is said of it."""
    configs = [
        AlterableConfig(name=key.replace("_", "."), config_operation=int(value is None), value=value)
        for key, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=configs)
    [answer] = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    world.run()
    return answer.error_code, answer.error_message


def seen(world: World, *clients: SimClient) -> list[str]:
    """What becomes of a request of each."""
    asked = [None if client.closed else client.send(ApiVersionsRequest(), 0) for client in clients]
    world.run()
    return [
        "closed" if client.closed or answer is None else "answered" if answer.arrived else "waits"
        for client, answer in zip(clients, asked, strict=True)
    ]


def connected(world: World, number: int) -> list[SimClient]:
    clients = [world.client() for _ in range(number)]
    world.run()
    return clients


def test_one_too_many_of_an_address_is_hung_up_on() -> None:
    world = World(config={"max.connections.per.ip": "3"})
    clients = connected(world, 5)
    assert ["answered"] * 3 + ["closed"] * 2 == seen(world, *clients)
    clients[0].close()
    world.run()
    assert ["answered", "closed"] == seen(world, *connected(world, 2))


def test_numbers_by_address() -> None:
    found = parse_overrides("localhost:2, 10.0.0.1:9,[::0001]:3,nobody.invalid:4,")
    assert {"127.0.0.1": 2, "::1": 3, "10.0.0.1": 9} == found


def test_one_too_many_waits_until_there_is_room() -> None:
    world = World(config={"max.connections": "3"})
    clients = connected(world, 5)
    assert ["answered"] * 3 + ["waits"] * 2 == seen(world, *clients)
    first = clients[3].send(ApiVersionsRequest(), 0)
    clients[0].close()
    world.run()
    assert first.arrived
    assert ["waits"] == seen(world, clients[4])


def test_who_gives_up_waiting_leaves_its_place() -> None:
    world = World(config={"max.connections": "1"})
    first, second, third = connected(world, 3)
    second.close()
    world.run()
    assert ["answered", "waits"] == seen(world, first, third)
    first.close()
    world.run()
    assert ["answered"] == seen(world, third)


def test_when_there_may_be_fewer_those_go_that_have_been_silent_longest() -> None:
    world = World()
    silent, talking, admin = connected(world, 3)
    for each in (talking, admin):
        world.advance(1000)
        assert ["answered"] == seen(world, each)
    world.advance(1000)
    assert (0, None) == alter(world, admin, max_connections="2")
    assert ["closed", "answered", "answered"] == seen(world, silent, talking, admin)
    late = world.client()
    assert ["waits"] == seen(world, late)
    assert (0, None) == alter(world, admin, max_connections=None)
    assert ["answered"] == seen(world, late)


def test_new_ones_come_no_faster_than_they_may() -> None:
    world = World(config={"max.connection.creation.rate": "1"})
    free = connected(world, 10)
    assert ["answered"] * 10 == seen(world, *free)
    late = connected(world, 2)
    assert ["waits", "waits"] == seen(world, *late)
    world.advance(999)
    assert ["waits", "waits"] == seen(world, *late)
    world.advance(1)
    assert ["answered", "waits"] == seen(world, *late)
    world.advance(1000)
    assert ["answered", "answered"] == seen(world, *late)


def test_a_connection_between_brokers_is_none_of_them() -> None:
    world = World(brokers=3, config={"max.connections": "1", "max.connection.creation.rate": "1"}, topics=["t:3:3"])
    assert ["answered"] == seen(world, world.client())


def test_what_nobody_could_take_back_is_refused() -> None:
    world = World()
    admin = world.client()
    invalid = "Invalid value org.apache.kafka.common.config.ConfigException: Invalid {} 0 for configuration Invalid"
    for key in ("max.connections", "max.connection.creation.rate"):
        code, message = alter(world, admin, **{key: "0"})
        assert (42, f"{invalid.format(key)} dynamic configuration") == (code, message)
    needs = "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
    assert (42, f"requirement failed: {needs}") == alter(world, admin, max_connections_per_ip="0")
    assert (42, 'For input string: "x"') == alter(world, admin, max_connections_per_ip_overrides="127.0.0.1:x")
    assert (0, None) == alter(world, admin, max_connections_per_ip_overrides="nobody.invalid:3")
    assert (0, None) == alter(world, admin, max_connections_per_ip="0", max_connections_per_ip_overrides="localhost:9")
    assert ["closed"] == seen(world, world.client())


@pytest.mark.parametrize("text", ["127.0.0.1", "127.0.0.1:x"])
def test_numbers_by_address_are_read_at_the_start(text: str) -> None:
    with pytest.raises(ConfigError):
        Config.parse({"max.connections.per.ip.overrides": text})
