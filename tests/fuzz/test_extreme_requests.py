"""Requests that nobody sends but that can be read: each is answered, or its connection ends with a line in the log."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.host.router import Router
from odradek.sim import SimClient, World
from odradek.wire import registry
from odradek.wire.errors import EncodeError
from odradek.wire.messages.metadata_request import MetadataRequest
from odradek.wire.registry import ApiKey
from odradek.wire.schema import Field, StructSpec

LONGEST = "x" * 32_767
TEXTS = ["", "t", "1", LONGEST, "é" * 16_383, "a\0b", "__consumer_offsets", "9" * 5_000]
WITHIN_MS = 2**31
BITS = {"int8": 7, "int16": 15, "uint16": 16, "int32": 31, "uint32": 32, "int64": 63}


def numbers(kind: str) -> st.SearchStrategy[int]:
    """The ends of the range, and what is common."""
    top = 1 << BITS[kind]
    ends = [top - 1, 0, 1] if kind.startswith("u") else [-top, top - 1, -2, -1, 0, 1, 2]
    return st.sampled_from(ends)


def values(field: Field, version: int, module: Any) -> st.SearchStrategy[Any]:
    """What a field may hold in this version."""
    one: st.SearchStrategy[Any]
    if field.struct is not None:
        one = structs(field.struct, version, module)
    elif field.kind in BITS:
        one = numbers(field.kind)
    else:
        one = {
            "bool": st.booleans(),
            "float64": st.floats(),
            "string": st.sampled_from(TEXTS),
            "bytes": st.sampled_from([b"", bytes(16), b"\xff" * 70_000]),
            "records": st.sampled_from([memoryview(b""), memoryview(b"\xff" * 100)]),
            "uuid": st.sampled_from([bytes(16), b"\xff" * 16]),
        }[field.kind]
    if field.is_array:
        one = st.lists(one, max_size=2)
    return st.one_of(st.none(), one) if version in field.nullable else one


def structs(spec: StructSpec, version: int, module: Any) -> st.SearchStrategy[Any]:
    """Any value of a struct."""
    fields = {field.python_name: values(field, version, module) for field in spec.present(version)}
    return st.builds(getattr(module, spec.name), **fields)


def request(api_key: ApiKey, version: int) -> st.SearchStrategy[msgspec.Struct]:
    """Any request of an API."""
    request_type = registry.request_type(api_key)
    return structs(registry.spec(request_type).root, version, sys.modules[request_type.__module__])


RANGES = Router().ranges()


def lines(world: World) -> list[str]:
    """The events in the log of the world."""
    return [event for _, event, _ in world.log.lines]


@pytest.mark.parametrize(("api_key", "low", "high"), RANGES, ids=[key.name for key, _, _ in RANGES])
@pytest.mark.parametrize("node_id", [1, 2], ids=["controller", "other"])
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_an_extreme_request_is_answered_or_its_connection_ends(
    api_key: ApiKey, low: int, high: int, node_id: int, data: st.DataObject
) -> None:
    version = data.draw(st.integers(low, high))
    asked = data.draw(request(api_key, version))
    try:
        registry.encode(asked, version)
    except EncodeError:
        return
    world = World(brokers=2, topics=["t"], config={"offsets.topic.num.partitions": 2})
    world.log.raises = False
    client: SimClient = world.client(node_id)
    answer = client.send(asked, version)
    world.run_until(lambda: answer.arrived or client.closed, within_ms=WITHIN_MS)
    unanswered = api_key is ApiKey.PRODUCE and asked.acks == 0  # type: ignore[attr-defined]
    assert answer.arrived or unanswered or (client.closed and "connection_closed" in lines(world))
    assert not {"step_failed", "flow_failed", "request_failed"} & set(lines(world)), world.log.lines
    assert world.client(node_id).ask(MetadataRequest(topics=None), 12).brokers
