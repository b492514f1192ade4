"""UpdateFeatures through any broker, and the blocks of producer ids that brokers fetch."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.sim import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest


def update(world: World, level: int, *, kind: int = 2, version: int = 1, node: int = 1) -> Any:
    key = FeatureUpdateKey(feature="transaction.version", max_version_level=level)
    if version >= 1:
        key.upgrade_type = kind
    else:
        key.allow_downgrade = kind != 1
    response = world.client(node).ask(UpdateFeaturesRequest(feature_updates=[key]), version)
    world.run()
    return response


@pytest.mark.parametrize("node", [1, 2])
@pytest.mark.parametrize("version", [1, 2])
def test_the_transaction_version_goes_down_at_run_time(version: int, node: int) -> None:
    world = World(brokers=2)

    response = update(world, 1, version=version, node=node)

    assert (0, None) == (response.error_code, response.error_message)
    assert ([("transaction.version", 0, "NONE")] if version < 2 else []) == [
        (result.feature, result.error_code, result.error_message) for result in response.results
    ]
    assert [1, 1] == [each.image.feature("transaction.version") for each in world.nodes.values()]


def test_version_0_cannot_go_down() -> None:
    # AllowDowngrade is not read, by Kafka's controller neither.
    response = update(World(), 1, version=0)

    assert ErrorCode.INVALID_UPDATE_VERSION == response.error_code


@pytest.mark.parametrize("version", range(3))
def test_an_unknown_level(version: int) -> None:
    response = update(World(), 5, kind=1, version=version)

    assert (ErrorCode.INVALID_UPDATE_VERSION, []) == (response.error_code, response.results)
    assert "only supports versions 0-2" in response.error_message


def test_without_a_controller() -> None:
    world = World(brokers=2, config={"request.timeout.ms": 100})
    world.spec.controller_id = 9

    assert ErrorCode.REQUEST_TIMED_OUT == update(world, 1, node=2).error_code


def test_brokers_draw_from_blocks_of_their_own() -> None:
    world = World(brokers=2)
    drawn = {}
    for node in (1, 2):
        client = world.client(node)
        for _ in range(3):
            response = client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4)
            if response.error_code == 0:
                drawn[node] = response.producer_id
            world.advance(100)

    assert {0, 1} == {drawn[1] // 1000, drawn[2] // 1000}


def test_a_client_cannot_fetch_a_block() -> None:
    world = World()
    client = world.client()

    with pytest.raises(ConnectionError):
        client.ask(AllocateProducerIdsRequest(broker_id=1), 0)
