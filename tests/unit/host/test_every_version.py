"""Every version of every API is answered: no response holds what its version cannot carry."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.host.helpers import batch, produce_request, topic_id

from odradek.host.router import Router
from odradek.sim import World
from odradek.wire import registry
from odradek.wire.errors import EncodeError
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.wire.messages.produce_request import ProduceRequest
from odradek.wire.registry import ApiKey

VERSIONS = [(api_key, version) for api_key, low, high in Router().ranges() for version in range(low, high + 1)]


def filled(api_key: ApiKey, world: World) -> msgspec.Struct:
    """A request about topic t where the API is about partitions; else one that holds nothing but defaults."""
    match api_key:
        case ApiKey.FETCH:
            wanted = [FetchPartition(partition=index, partition_max_bytes=1000) for index in (0, 9)]
            return FetchRequest(topics=[FetchTopic(topic="t", topic_id=topic_id(world), partitions=wanted)])
        case ApiKey.LIST_OFFSETS:
            asked = [ListOffsetsPartition(partition_index=index, timestamp=-1, max_num_offsets=1) for index in (0, 9)]
            return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=asked)])
        case ApiKey.OFFSET_FOR_LEADER_EPOCH:
            epochs = [OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in (0, 9)]
            return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=epochs)])
        case ApiKey.PRODUCE:
            return produce_request(batch(b"a"), topic_id=topic_id(world))
    request: Any = registry.request_type(api_key)()
    if api_key is ApiKey.DESCRIBE_ACLS:
        # Who asks for what nobody knows is hung up on.
        request.resource_type_filter = request.operation = request.permission_type = 1
    for name in ("transactional_id", "group_id", "key"):
        if hasattr(request, name):
            setattr(request, name, "x")
    return request  # type: ignore[no-any-return]


def without_what_the_version_lacks(request: Any, version: int) -> Any:
    """The same request, with what this version cannot say left at its default."""
    for name in request.__struct_fields__:
        try:
            registry.encode(request, version)
        except EncodeError:
            setattr(request, name, getattr(type(request)(), name))
    return request


@pytest.mark.parametrize(("api_key", "version"), VERSIONS, ids=[f"{key.name}-{version}" for key, version in VERSIONS])
def test_every_version_is_answered(api_key: ApiKey, version: int) -> None:
    world = World(topics=["t"])
    world.client().ask(produce_request(batch(b"a")), 9)
    request = without_what_the_version_lacks(filled(api_key, world), version)
    if isinstance(request, ProduceRequest) and version < 3:
        pytest.skip("older message sets have their own tests")
    client = world.client()
    answer = client.send(request, version)
    world.advance(30_000)
    assert answer.arrived
    assert [] == [line for line in world.log.lines if line[0] == "error"]
