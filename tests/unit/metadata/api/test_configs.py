"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources at the border of a node."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.sim import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import alter_configs_request as plain
from odradek.wire.messages import incremental_alter_configs_request as incremental
from odradek.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.list_config_resources_request import ListConfigResourcesRequest

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def describe(
    world: World, kind: int, name: str, *keys: str, version: int = 4, node: int = 1, documentation: bool = False
) -> Any:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) if keys else None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=version >= 1, include_documentation=documentation
    )
    [result] = world.client(node).ask(request, version).results
    return result


def value(world: World, kind: int, name: str, key: str, node: int = 1) -> tuple[str | None, int]:
    [config] = describe(world, kind, name, key, node=node).configs
    return config.value, config.config_source


def change(world: World, kind: int, name: str, key: str, value: str | None, *, node: int = 1, version: int = 1) -> Any:
    configs = [incremental.AlterableConfig(name=key, config_operation=0 if value is not None else 1, value=value)]
    resource = incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    response = world.client(node).ask(incremental.IncrementalAlterConfigsRequest(resources=[resource]), version)
    world.run()
    [result] = response.responses
    return result


@pytest.fixture
def world() -> World:
    return World(brokers=2, topics=["t"], config={"odradek.internal.topics.at.start": False, "num.io.threads": 3})


@pytest.mark.parametrize("version", range(5))
def test_describe_configs_of_a_topic(world: World, version: int) -> None:
    result = describe(world, TOPIC, "t", version=version)

    assert (0, 37) == (result.error_code, len(result.configs))
    config = next(config for config in result.configs if config.name == "retention.bytes")
    assert ("-1", False, False) == (config.value, config.read_only, config.is_sensitive)
    if version == 0:
        assert config.is_default
    else:
        assert 5 == config.config_source
        assert [("log.retention.bytes", "-1", 5)] == [(s.name, s.value, s.source) for s in config.synonyms]
    if version >= 3:
        assert (5, None) == (config.config_type, config.documentation)


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "t"), (BROKER, "1"), (BROKER, ""), (METRICS, "m"), (GROUP, "g")])
def test_every_key_is_documented_for_who_asks(world: World, kind: int, name: str) -> None:
    asked = describe(world, kind, name, documentation=True).configs

    assert all(config.documentation for config in asked)
    assert len(asked) == len({config.documentation for config in asked}) or kind == BROKER
    assert all(config.documentation is None for config in describe(world, kind, name).configs)


@pytest.mark.parametrize(
    ("kind", "name", "error", "message"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        (
            BROKER,
            "2",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1 or empty string, but received 2",
        ),
        (BROKER, "x", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (GROUP, "", ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
        (METRICS, "", ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"),
        (LOGGER, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1 but received 2"),
    ],
)
def test_what_cannot_be_described(world: World, kind: int, name: str, error: ErrorCode, message: str) -> None:
    result = describe(world, kind, name)

    assert (error, message, []) == (result.error_code, result.error_message, result.configs)


@pytest.mark.parametrize("kind", [0, 3])
def test_kinds_without_configs(world: World, kind: int) -> None:
    assert ErrorCode.INVALID_REQUEST == describe(world, kind, "1").error_code


def test_a_broker_describes_itself(world: World) -> None:
    configs = {config.name: config for config in describe(world, BROKER, "2", node=2).configs}

    assert ("2", True) == (configs["node.id"].value, configs["node.id"].read_only)
    assert "PLAINTEXT://broker-2:9092" == configs["advertised.listeners"].value
    assert "broker" == configs["process.roles"].value
    assert ("PLAINTEXT://broker-2:9092", False) == (configs["listeners"].value, configs["listeners"].read_only)
    assert ("memory", True) == (configs["log.dirs"].value, configs["log.dirs"].read_only)
    assert ("1@broker-1:9092", 4) == (
        configs["controller.quorum.voters"].value,
        configs["controller.quorum.voters"].config_source,
    )
    assert "CONTROLLER" == configs["controller.listener.names"].value
    assert ("3", 4) == (configs["num.io.threads"].value, configs["num.io.threads"].config_source)
    assert ("1048588", False) == (configs["message.max.bytes"].value, configs["message.max.bytes"].read_only)


def test_a_broker_shows_the_directory_and_the_quorum_that_it_was_given() -> None:
    given = {"log.dirs": "/data", "controller.listener.names": "INSIDE", "controller.quorum.voters": "7@h:1"}
    world = World(brokers=1, config={"odradek.internal.topics.at.start": False, **given})

    assert {name: (text, 4) for name, text in given.items()} == {
        name: value(world, BROKER, "1", name) for name in given
    }


def test_only_the_keys_that_are_asked_for(world: World) -> None:
    assert [] == describe(world, TOPIC, "t", "nope").configs
    assert ["flush.ms", "retention.ms"] == [
        c.name for c in describe(world, TOPIC, "t", "retention.ms", "flush.ms").configs
    ]


@pytest.mark.parametrize("node", [1, 2])
@pytest.mark.parametrize("version", range(2))
def test_one_config_is_changed_through_any_broker(world: World, version: int, node: int) -> None:
    result = change(world, TOPIC, "t", "retention.ms", "5", node=node, version=version)

    assert (0, None, TOPIC, "t") == (
        result.error_code,
        result.error_message,
        result.resource_type,
        result.resource_name,
    )
    assert {("5", 1)} == {value(world, TOPIC, "t", "retention.ms", each) for each in (1, 2)}


@pytest.mark.parametrize("version", range(3))
def test_all_configs_are_replaced(world: World, version: int) -> None:
    change(world, TOPIC, "t", "retention.ms", "5")
    configs = [plain.AlterableConfig(name="segment.ms", value="9")]
    resource = plain.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=configs)

    [result] = world.client(2).ask(plain.AlterConfigsRequest(resources=[resource]), version).responses
    world.run()

    assert 0 == result.error_code
    assert {"segment.ms": "9"} == world.nodes[1].image.config(TOPIC, "t")


def test_a_changed_topic_is_obeyed(world: World) -> None:
    change(world, TOPIC, "t", "max.message.bytes", "7")

    [partition] = [p for node in world.nodes.values() for p in node.partitions.values()]
    assert 7 == partition.config.max_message_bytes


def test_brokers_adopt_what_is_set_for_all_of_them_or_for_one(world: World) -> None:
    change(world, BROKER, "", "message.max.bytes", "100")
    change(world, BROKER, "2", "message.max.bytes", "200", node=2)

    assert [100, 200] == [node.config.message_max_bytes for node in world.nodes.values()]
    assert [("100", 3), ("200", 2)] == [
        value(world, BROKER, str(node), "message.max.bytes", node) for node in world.nodes
    ]
    assert [("message.max.bytes", "100"), ("min.insync.replicas", "1")] == [
        (c.name, c.value) for c in describe(world, BROKER, "").configs
    ]
    change(world, BROKER, "2", "message.max.bytes", None, node=2)
    assert [100, 100] == [node.config.message_max_bytes for node in world.nodes.values()]


def test_a_broker_does_not_speak_for_another(world: World) -> None:
    result = change(world, BROKER, "2", "message.max.bytes", "200", node=1)

    assert (ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1, but received 2") == (
        result.error_code,
        result.error_message,
    )


def test_a_resource_astray_does_not_spoil_the_others(world: World) -> None:
    resources = [
        incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
        for kind, name in ((BROKER, "9"), (TOPIC, "t"))
    ]

    response = world.client(2).ask(incremental.IncrementalAlterConfigsRequest(resources=resources), 1)

    assert {("t", 0), ("9", 42)} == {(result.resource_name, result.error_code) for result in response.responses}


def test_no_controller_to_change_anything(world: World) -> None:
    world.spec.controller_id = 9

    assert ErrorCode.REQUEST_TIMED_OUT == change(world, TOPIC, "t", "retention.ms", "5", node=2).error_code


def listed(world: World, version: int, *kinds: int) -> Any:
    response = world.client().ask(ListConfigResourcesRequest(resource_types=list(kinds)), version)
    return response.error_code, [(entry.resource_type, entry.resource_name) for entry in response.config_resources]


def test_what_has_configs(world: World) -> None:
    change(world, GROUP, "g", "consumer.session.timeout.ms", "46000")

    brokers = [(kind, str(node)) for kind in (LOGGER, BROKER) for node in (1, 2)]
    assert (0, [(GROUP, "g"), *brokers, (TOPIC, "t")]) == listed(world, 1)
    assert (0, [(TOPIC, "t")]) == listed(world, 1, TOPIC)
    assert (0, []) == listed(world, 1, METRICS)
    assert (ErrorCode.UNSUPPORTED_VERSION, []) == listed(world, 1, 99)
    assert (0, []) == listed(world, 0)
    assert ("46000", 8) == value(world, GROUP, "g", "consumer.session.timeout.ms")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("streams.num.standby.replicas", "1"),
        ("share.auto.offset.reset", "earliest"),
        ("share.assignor.offload.enable", "true"),
    ],
)
def test_what_a_group_can_be_told_without_effect_is_kept_and_shown(world: World, key: str, text: str) -> None:
    assert ErrorCode.NONE == change(world, GROUP, "g", key, text).error_code
    assert (text, 8) == value(world, GROUP, "g", key)
