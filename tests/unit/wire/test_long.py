"""The codecs that give way read and write what the ordinary ones do."""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.test_extreme_requests import structs
from tests.unit.wire.helpers import PROFILE

from odradek.host.router import Router
from odradek.wire import registry
from odradek.wire.errors import DecodeError, EncodeError
from odradek.wire.long import long_reader, long_writer
from odradek.wire.messages.describe_groups_request import DescribeGroupsRequest
from odradek.wire.messages.metadata_request import MetadataRequest
from odradek.wire.primitives import Splices

T = TypeVar("T")
RANGES = Router().ranges()


def run(steps: Generator[int, None, T]) -> tuple[T, int]:
    """The result, and how many entries there were."""
    entries = 0
    while True:
        try:
            entries += next(steps)
        except StopIteration as stop:
            return stop.value, entries


@pytest.mark.parametrize(("key", "low", "high"), RANGES, ids=[key.name for key, _, _ in RANGES])
@PROFILE
@given(data=st.data())
def test_they_agree_with_the_ordinary_ones(key: int, low: int, high: int, data: st.DataObject) -> None:
    version = data.draw(st.integers(low, high))
    cls = data.draw(st.sampled_from([registry.request_type(key), registry.response_type(key)]))
    message = data.draw(structs(registry.spec(cls).root, version, sys.modules[cls.__module__]))
    out, splices = bytearray(), Splices()
    try:
        written = registry.encode(message, version)
    except EncodeError:
        with pytest.raises(EncodeError):
            run(long_writer(cls, version)(message, out, splices))
        return
    run(long_writer(cls, version)(message, out, splices))
    assert written == b"".join(registry.join(out, splices))
    (read, end), _ = run(long_reader(cls, version)(memoryview(written), 0))
    assert registry.decode(cls, written, version) == read or message != message  # NaN
    assert len(written) == end


def test_every_entry_is_counted() -> None:
    data = registry.encode(DescribeGroupsRequest(groups=["a"] * 300), 5)
    (read, _), entries = run(long_reader(DescribeGroupsRequest, 5)(memoryview(data), 0))
    assert ["a"] * 300 == read.groups
    assert 300 == entries


def test_bytes_that_are_no_message_are_refused() -> None:
    with pytest.raises(DecodeError):
        run(long_reader(DescribeGroupsRequest, 5)(memoryview(b"\x09"), 0))


def test_a_message_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(EncodeError):
        run(long_writer(MetadataRequest, 12)(DescribeGroupsRequest(), bytearray(), []))
