"""KIP-714, "Client metrics and observability", with KIP-1000 and KIP-1142."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.config.table import Config
from odradek.host.router import Router
from odradek.records.compression import Compression
from odradek.records.compressors import compress
from odradek.releases.table import RELEASES
from odradek.sim import World
from odradek.sim.world.client import SimClient
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.list_config_resources_request import ListConfigResourcesRequest
from odradek.wire.messages.push_telemetry_request import PushTelemetryRequest
from odradek.wire.registry import ApiKey

CLIENT_METRICS = 16
ZERO, ONE, ID = bytes(16), bytes(15) + b"\x01", bytes(range(16))
METRICS = bytes.fromhex("0a07120512030a016d")
"""MetricsData with one metric, called m, that has no value."""
UNTOLD = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}


def subscribe(world: World, name: str, **values: str | None) -> None:
    configs = [
        AlterableConfig(name=key.replace("_", "."), config_operation=int(value is None), value=value)
        for key, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=configs)
    [result] = world.client().ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert (ErrorCode.NONE, None) == (result.error_code, result.error_message)
    world.run()


def get(client: SimClient, instance_id: bytes = ID) -> Any:
    return client.ask(GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), 0)


def push(
    client: SimClient,
    subscription_id: int,
    *,
    instance_id: bytes = ID,
    terminating: bool = False,
    codec: int = 0,
    metrics: bytes = METRICS,
) -> ErrorCode:
    request = PushTelemetryRequest(
        client_instance_id=instance_id,
        subscription_id=subscription_id,
        terminating=terminating,
        compression_type=codec,
        metrics=metrics,
    )
    return ErrorCode(client.ask(request, 0).error_code)


@pytest.fixture
def world() -> World:
    return World(brokers=2, config={"odradek.telemetry": True, "odradek.internal.topics.at.start": False})


# ---------------------------------------------------------------------- "Client metrics subscription"


@pytest.mark.parametrize("release", RELEASES)
def test_it_is_told_by_a_broker_with_a_sink_alone(release: str) -> None:
    """GetTelemetrySubscriptions: "brokers that have no plug-in do not advertise it"; since 3.7 Kafka serves it."""
    served = {key for key, _, _ in Router(RELEASES[release], tells_all=True).ranges()}
    told = {key for key, _, _ in Router(RELEASES[release]).ranges()}

    assert served - told == (UNTOLD if release in ("3.9", "4.0", "4.3", "4.4") else set())


@pytest.mark.parametrize("takes", [True, False])
def test_api_versions(takes: bool) -> None:
    world = World(config={"odradek.telemetry": takes})
    answer = world.client().ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)

    assert UNTOLD & {each.api_key for each in answer.api_keys} == (UNTOLD if takes else set())


def test_a_client_without_an_id_gets_one(world: World) -> None:
    """Client identification: "the broker generates a client instance id" that the client keeps for its life."""
    client = world.client()
    first, second = get(client, ZERO).client_instance_id, get(client, ZERO).client_instance_id

    assert len({ZERO, ONE, first, second}) == 4
    assert {4} == {each[6] >> 4 for each in (first, second)}
    assert ONE == get(client, ONE).client_instance_id


def test_every_broker_knows_the_subscriptions(world: World) -> None:
    subscribe(world, "s", metrics="a.,b.", interval_ms="100")

    for node in (1, 2):
        answer = get(world.client(node))
        assert (["a.", "b."], 100) == (answer.requested_metrics, answer.push_interval_ms)
    listed = world.client(2).ask(ListConfigResourcesRequest(), 0).config_resources
    assert ["s"] == [each.resource_name for each in listed]


@pytest.mark.parametrize(
    ("pattern", "is_for"),
    [
        ("client_id=app-.*", True),
        ("client_id=app", False),
        ("client_software_name=lib,client_software_version=1[.]2", True),
        ("client_software_name=lib,client_software_version=1.3", False),
        ("client_source_address=broker|client|10[.].*|.+", True),
        ("client_source_port=x", False),
        ("client_instance_id=AAECAwQFBgcICQoLDA0ODw", True),
    ],
)
def test_a_subscription_is_for_the_clients_that_match(world: World, pattern: str, is_for: bool) -> None:
    """Client metrics subscription, selectors: every pattern has to match all of what it is for."""
    subscribe(world, "s", metrics="m", match=pattern)
    client = world.client(client_id="app-1")
    client.ask(ApiVersionsRequest(client_software_name="lib", client_software_version="1.2"), 3)

    assert get(client).requested_metrics == (["m"] if is_for else [])


# ---------------------------------------------------------------------- "PushTelemetry"


def test_what_is_pushed_is_told(world: World) -> None:
    subscribe(world, "s", metrics="m")
    client = world.client(client_id="app")
    subscription_id = get(client).subscription_id
    assert push(client, subscription_id, codec=4, metrics=compress(Compression.ZSTD, METRICS)) is ErrorCode.NONE

    [fact] = [fact for _, fact in world.facts if fact.kind == "telemetry_pushed"]
    assert fact.fields["client_id"] == "app"
    assert ("zstd", 9, False) == (fact.fields["compression"], fact.fields["bytes"], fact.fields["terminating"])
    assert [{"name": "m", "value": None, "attributes": {}}] == fact.fields["metrics"]
    numbers = world.nodes[1].metrics.snapshot()
    assert (1, 1) == (numbers["telemetry_clients"], numbers["telemetry_pushes_total"])


def test_a_large_push_is_read_aside(world: World) -> None:
    client = world.client()
    one = b"\x0a\x07\x12\x05\x12\x03\x0a\x01m"
    assert push(client, get(client).subscription_id, metrics=one * 2000) is ErrorCode.NONE
    assert 2000 == len(world.nodes[1].telemetry.pushes[0].metrics)


def test_without_a_sink_nothing_is_looked_at() -> None:
    world = World()
    client = world.client()
    subscription_id = get(client).subscription_id

    assert push(client, subscription_id, metrics=b"\xff", codec=1) is ErrorCode.NONE
    assert [] == world.nodes[1].telemetry.pushes


def test_pushes_come_at_the_interval(world: World) -> None:
    """Throttling: "a PushTelemetry before the push interval is refused", but for the client's last."""
    subscribe(world, "s", metrics="m", interval_ms="1000")
    client = world.client()
    subscription_id = get(client).subscription_id
    world.advance(10)
    assert push(client, subscription_id) is ErrorCode.NONE
    world.advance(999)
    assert push(client, subscription_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.advance(1)
    assert push(client, subscription_id) is ErrorCode.NONE
    assert push(client, subscription_id, terminating=True) is ErrorCode.NONE
    assert push(client, subscription_id) is ErrorCode.INVALID_REQUEST
    assert 1 == world.nodes[1].metrics.snapshot()["telemetry_throttled_total"]


def test_a_changed_subscription_has_another_id(world: World) -> None:
    """Subscription id: "UNKNOWN_SUBSCRIPTION_ID tells the client to ask again"."""
    subscribe(world, "s", metrics="m")
    client = world.client()
    before = get(client).subscription_id
    subscribe(world, "s", metrics="n")

    assert push(client, before) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    answer = get(client)
    assert (ErrorCode.NONE, ["n"]) == (answer.error_code, answer.requested_metrics)
    assert before != answer.subscription_id
    assert 1 == world.nodes[1].metrics.snapshot()["telemetry_unknown_subscriptions_total"]


@pytest.mark.parametrize(
    ("size", "error"), [(100, ErrorCode.NONE), (101, ErrorCode.TELEMETRY_TOO_LARGE)], ids=["fits", "too large"]
)
def test_telemetry_max_bytes(size: int, error: ErrorCode) -> None:
    world = World(config={"telemetry.max.bytes": 100})
    client = world.client()
    answer = get(client)

    assert 100 == answer.telemetry_max_bytes
    assert error is push(client, answer.subscription_id, metrics=bytes(size))


@pytest.mark.parametrize("instance_id", [ZERO, ONE])
def test_reserved_ids_push_nothing(world: World, instance_id: bytes) -> None:
    assert push(world.client(), 0, instance_id=instance_id) is ErrorCode.INVALID_REQUEST


def test_a_silent_client_is_forgotten_after_three_intervals(world: World) -> None:
    subscribe(world, "s", metrics="m", interval_ms="30000")
    client = world.client()
    get(client)
    world.advance(89_999)
    assert 1 == len(world.nodes[1].telemetry)
    world.advance(1)
    assert 0 == len(world.nodes[1].telemetry)


def test_a_client_is_forgotten_when_its_connection_ends(world: World) -> None:
    client = world.client()
    get(client)
    client.close()
    world.run()
    assert 0 == len(world.nodes[1].telemetry)


def test_the_key_is_odradek_s_own() -> None:
    assert not Config.parse({}).odradek_telemetry
