"""The registry agrees with Kafka's own table of APIs, and refuses what is not in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from odradek.wire import registry
from odradek.wire.errors import DecodeError
from odradek.wire.messages import METADATA_RECORDS
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from odradek.wire.messages.topic_record import TopicRecord
from odradek.wire.primitives import SPLICE_BYTES_MIN, Splices
from odradek.wire.registry import ApiKey

TABLE: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "vectors/data/api-table.json").read_text())
OF_TODAY = [row for row in TABLE if row["validVersions"] != "none"]
APIS = [row for row in OF_TODAY if row["type"] in ("request", "response")]


def ends(text: str) -> tuple[int, int]:
    lowest, _, highest = text.partition("-")
    return int(lowest), int(highest or lowest)


@pytest.mark.parametrize("row", OF_TODAY, ids=lambda row: row["name"])
def test_versions(row: dict[str, Any]) -> None:
    cls = registry.message_type(row["name"])
    lowest, highest = ends(row["validVersions"])
    # We go on reading old versions that Kafka 4 has dropped.
    assert registry.valid_versions(cls)[0] <= lowest
    assert highest == registry.valid_versions(cls)[1]
    flexible = row["flexibleVersions"]
    first = None if flexible == "none" else int(flexible.removesuffix("+"))
    for version in range(lowest, highest + 1):
        assert (first is not None and version >= first) == registry.is_flexible(cls, version)


@pytest.mark.parametrize("row", APIS, ids=lambda row: row["name"])
def test_apis(row: dict[str, Any]) -> None:
    is_request = row["type"] == "request"
    key = row["apiKey"]
    cls = registry.request_type(key) if is_request else registry.response_type(key)
    assert row["name"] == cls.__name__
    header_version = registry.request_header_version if is_request else registry.response_header_version
    assert row["headerVersions"] == {version: header_version(key, int(version)) for version in row["headerVersions"]}
    if is_request:
        assert row["latestVersionUnstable"] == registry.APIS[key].unstable
        assert set(row["listeners"]) == set(registry.APIS[key].listeners)


def test_headers_of_removed_versions() -> None:
    assert 0 == registry.request_header_version(ApiKey.CONTROLLED_SHUTDOWN, 0)
    assert 1 == registry.request_header_version(ApiKey.CONTROLLED_SHUTDOWN, 1)
    assert 1 == registry.request_header_version(ApiKey.PRODUCE, 0)
    assert 0 == registry.response_header_version(ApiKey.FETCH, 0)


def test_api_keys() -> None:
    assert ApiKey.PRODUCE is ApiKey(0)
    assert ApiKey.END_TXN is ApiKey(26)
    drafts = {key for key in ApiKey if registry.APIS[key].draft}
    assert {ApiKey.TXN_SHARE_ACKNOWLEDGE} == drafts
    assert {row["apiKey"] for row in TABLE if row["type"] == "request"} == set(ApiKey) - drafts
    assert set(ApiKey) == registry.APIS.keys()


def test_metadata_records() -> None:
    assert TopicRecord is registry.metadata_record_type(2)
    kinds = {row["apiKey"]: row["name"] for row in TABLE if row["artifact"] == "kafka-metadata"}
    assert kinds == {kind: registry.metadata_record_type(kind).__name__ for kind in METADATA_RECORDS}
    with pytest.raises(KeyError):
        registry.metadata_record_type(999)


def test_unknown_api() -> None:
    with pytest.raises(KeyError):
        registry.request_type(999)


@pytest.mark.parametrize("version", [-1, 6, 99])
def test_unknown_version(version: int) -> None:
    with pytest.raises(ValueError, match="EndTxnRequest has versions 0 to 5"):
        registry.reader(EndTxnRequest, version)
    with pytest.raises(ValueError, match="EndTxnRequest has versions 0 to 5"):
        registry.writer(EndTxnRequest, version)


def test_inner_struct_is_no_message() -> None:
    with pytest.raises(TypeError, match="PartitionData is not a message"):
        registry.encode(PartitionData(), 4)


def test_bytes_behind_the_end() -> None:
    encoded = registry.encode(EndTxnRequest("t", 1, 2, True), 0)
    with pytest.raises(DecodeError, match="2 bytes follow") as caught:
        registry.decode(EndTxnRequest, encoded + b"??", 0)
    assert len(encoded) == caught.value.offset
    assert EndTxnRequest("t", 1, 2, True) == registry.decode(EndTxnRequest, encoded + b"??", 0, exact=False)


def test_reading_from_the_middle_of_a_frame() -> None:
    encoded = registry.encode(EndTxnRequest("t", 1, 2, True), 3)
    message, end = registry.reader(EndTxnRequest, 3)(memoryview(b"head" + encoded + b"tail"), 4)
    assert EndTxnRequest("t", 1, 2, True) == message
    assert 4 + len(encoded) == end


@pytest.mark.parametrize("data", [bytes, bytearray, memoryview])
def test_any_buffer_is_decoded(data: Any) -> None:
    message = EndTxnRequest("t", 1, 2, True)
    assert message == registry.decode(EndTxnRequest, data(registry.encode(message, 3)), 3)


def fetched(*sizes: int) -> FetchResponse:
    partitions = [PartitionData(index, records=bytes([index]) * size) for index, size in enumerate(sizes)]
    return FetchResponse(responses=[FetchableTopicResponse("t", partitions=partitions)])


def test_large_records_are_not_copied() -> None:
    message = fetched(10, SPLICE_BYTES_MIN, 0, 100_000)
    out = bytearray(b"head")
    splices: Splices = []
    registry.writer(type(message), 12)(message, out, splices)
    partitions = message.responses[0].partitions
    assert [partitions[1].records, partitions[3].records] == [view.obj for _, view in splices]
    assert len(out) < 500
    assert b"head" + registry.encode(message, 12) == b"".join(registry.join(out, splices))


@pytest.mark.parametrize("sizes", [(), (SPLICE_BYTES_MIN,), (5000, 5000), (5000, 0, 3)])
def test_spliced_message_is_the_copied_one(sizes: tuple[int, ...]) -> None:
    message = fetched(*sizes)
    assert message == registry.decode(FetchResponse, registry.encode(message, 4), 4)


def test_every_message_is_a_struct() -> None:
    for row in TABLE:
        assert issubclass(registry.message_type(row["name"]), msgspec.Struct)
