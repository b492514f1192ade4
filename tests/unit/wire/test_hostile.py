"""Bytes that are no message: each ends in a DecodeError that says where, and costs no more than the bytes do."""

# ruff: noqa: E501 - a table of bytes

from __future__ import annotations

import contextlib
import tracemalloc

import msgspec
import pytest
from tests.unit.wire.helpers import MESSAGES, all_versions, numbered_message

from odradek.wire import registry
from odradek.wire.errors import DecodeError
from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from odradek.wire.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest
from odradek.wire.messages.fetch_request import FetchRequest
from odradek.wire.messages.fetch_response import FetchResponse
from odradek.wire.messages.metadata_request import MetadataRequest
from odradek.wire.messages.metadata_response import MetadataResponse
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.request_header import RequestHeader

PRODUCE_3 = "ffff 0001 00000064 "  # no transactional id, acks, timeout
PRODUCE_9 = "00 0001 00000064 "
FETCH_12 = "ffffffff 00000001 00000001 00000001 00 00000000 00000000 01 01 01 "  # up to its tagged fields
LONG_VARINT = "ff ff ff ff ff 01"


@pytest.mark.parametrize(
    ("cls", "version", "data", "field", "offset"),
    [
        # Too short.
        (ProduceRequest, 3, "", "transactional_id", 0),
        (ProduceRequest, 3, "ff", "transactional_id", 0),
        (ProduceRequest, 3, "ffff 00", "acks", 2),
        (ProduceRequest, 3, "ffff 0001 0000", "timeout_ms", 4),
        (ProduceRequest, 3, "0005 6162", "transactional_id", 2),
        (ProduceRequest, 9, "06 6162", "transactional_id", 1),
        (ProduceRequest, 3, PRODUCE_3 + "00000001", "topic_data", 8),
        (ProduceRequest, 3, PRODUCE_3 + "00000001 0001 74 00000001 00000007 00000005 7273", "topic_data[0].partition_data[0].records", 27),
        (ProduceRequest, 9, PRODUCE_9 + "02 02 74 02 00000007 06 7273 00 00 00", "topic_data[0].partition_data[0].tagged_fields", 21),
        (ProduceRequest, 9, PRODUCE_9 + "02 02 74 02 00000007 06 7273727372", "topic_data[0].partition_data[0].tagged_fields", 21),
        (FetchResponse, 4, "00000000 00000001 0001 74 00000002" + "00" * 30, "responses[0].partitions[1].partition_index", 45),
        # Lengths below null.
        (ProduceRequest, 3, "fffe", "transactional_id", 0),
        (ProduceRequest, 3, "8000", "transactional_id", 0),
        (ProduceRequest, 3, PRODUCE_3 + "fffffffe", "topic_data", 8),
        (ProduceRequest, 3, PRODUCE_3 + "00000001 0001 74 00000001 00000007 fffffffe", "topic_data[0].partition_data[0].records", 23),
        # Null where it is not allowed.
        (ProduceRequest, 3, PRODUCE_3 + "ffffffff", "topic_data", 8),
        (ProduceRequest, 9, PRODUCE_9 + "00", "topic_data", 7),
        (ProduceRequest, 3, PRODUCE_3 + "00000001 ffff 00000000", "topic_data[0].name", 12),
        (ProduceRequest, 9, PRODUCE_9 + "02 00 01 00 00", "topic_data[0].name", 8),
        (ProduceRequest, 9, PRODUCE_9 + "8000", "topic_data", 7),
        (ProduceRequest, 9, PRODUCE_9 + "02 8000 01 00 00", "topic_data[0].name", 8),
        (DeleteTopicsRequest, 1, "00000001 ffff 00000000", "topic_names[0]", 4),
        (DeleteTopicsRequest, 4, "02 00 00000000 00", "topic_names[0]", 1),
        (MetadataRequest, 0, "ffffffff", "topics", 0),
        # Counts that the bytes cannot hold.
        (ProduceRequest, 3, PRODUCE_3 + "7fffffff", "topic_data", 8),
        (ProduceRequest, 9, PRODUCE_9 + "ffffffff07", "topic_data", 7),
        (DeleteTopicsRequest, 1, "7fffffff 0001 61", "topic_names", 0),
        (MetadataResponse, 0, "00000000 00000001 0000 0001 74 00000001 0000 00000000 00000000 7fffffff", "topics[0].partitions[0].replica_nodes", 27),
        # Varints.
        (ProduceRequest, 9, LONG_VARINT, "transactional_id", 0),
        (ProduceRequest, 9, "ffffffff0f", "transactional_id", 0),
        (ProduceRequest, 9, "80", "transactional_id", 1),
        (ProduceRequest, 9, PRODUCE_9 + LONG_VARINT, "topic_data", 7),
        # Strings.
        (ProduceRequest, 3, "0002 c328", "transactional_id", 2),
        (ProduceRequest, 9, "04 61 ff 62", "transactional_id", 2),
        (ProduceRequest, 3, "0003 eda080", "transactional_id", 2),
        (ProduceRequest, 9, "818002" + "61" * 0x8000, "transactional_id", 0),
        (RequestHeader, 2, "0000 0009 00000001 fffe 00", "client_id", 8),
        # Nullable structs.
        (ConsumerGroupHeartbeatResponse, 0, "00000000 0000 00 00 00000001 00000001 01", "assignment.topic_partitions", 17),
        (ConsumerGroupHeartbeatResponse, 0, "00000000 0000 00 00 00000001 00000001", "assignment", 16),
        # Tagged fields.
        (ApiVersionsRequest, 3, "01 01", "tagged_fields", 2),
        (ApiVersionsRequest, 3, "01 01 01", "tagged_fields", 3),
        (ApiVersionsRequest, 3, "01 01 01 05", "tagged_fields[5]", 4),
        (ApiVersionsRequest, 3, "01 01 01 05 03 6162", "tagged_fields[5]", 5),
        (ApiVersionsRequest, 3, "01 01 02 05 01 61 06 7f", "tagged_fields[6]", 8),
        (ApiVersionsRequest, 3, "01 01" + LONG_VARINT, "tagged_fields", 2),
        (FetchRequest, 12, FETCH_12 + "01 01 0d" + "00" * 13, "tagged_fields", 29),
        (FetchRequest, 12, FETCH_12 + "01 00 05 0261", "cluster_id", 30),
        (FetchRequest, 12, FETCH_12 + "01 00 01 0261", "cluster_id", 30),
        (FetchRequest, 12, FETCH_12 + "01 00 02 0761", "cluster_id", 32),
        (ConsumerGroupMemberMetadataValue, 0, "00 00 01 01 01 00 00000001 00 01 00 02 0100", "classic_member_metadata.session_timeout_ms", 15),
        (AddPartitionsToTxnRequest, 4, "02 02 74 0000000000000001 0001 00 02 02 74 06 00000001 00 00 00 00", "transactions[0].topics[0].partitions[2]", 26),
    ],
)  # fmt: skip
def test_where_it_goes_wrong(cls: type[msgspec.Struct], version: int, data: str, field: str, offset: int) -> None:
    with pytest.raises(DecodeError) as caught:
        registry.decode(cls, bytes.fromhex(data), version)
    assert (field, offset) == (caught.value.field, caught.value.offset), caught.value
    assert cls.__name__ == caught.value.message


@pytest.mark.parametrize(
    ("cls", "version", "start", "filler", "field"),
    [
        (DeleteTopicsRequest, 1, "000f4241", "0000", "topic_names"),
        (DeleteTopicsRequest, 4, "c2843d", "01", "topic_names"),
        (MetadataRequest, 1, "000f4241", "0000", "topics"),
        (MetadataRequest, 9, "c2843d", "0100", "topics"),
        (ApiVersionsRequest, 3, "01 01 914e", "000000", "tagged_fields"),
        (FetchRequest, 12, FETCH_12 + "914e", "000261", "tagged_fields"),
    ],
)
def test_more_than_kafka_reads(cls: type[msgspec.Struct], version: int, start: str, filler: str, field: str) -> None:
    """One element above the limit, and all of them there."""
    data = bytes.fromhex(start) + bytes.fromhex(filler) * 1_000_001 + bytes(10)
    with pytest.raises(DecodeError, match="more than") as caught:
        registry.decode(cls, data, version, exact=False)
    assert field == caught.value.field


def test_as_many_as_kafka_reads() -> None:
    """The oldest version of the request, in which an element is one empty string."""
    data = (1_000_000).to_bytes(4, "big") + bytes(2_000_000) + bytes(4)
    assert 1_000_000 == len(registry.decode(DeleteTopicsRequest, data, 1).topic_names)


def test_offset_counts_from_the_beginning_of_the_buffer() -> None:
    with pytest.raises(DecodeError) as caught:
        registry.reader(ProduceRequest, 3)(memoryview(b"header: " + bytes.fromhex("ffff 00")), 8)
    assert "acks" == caught.value.field
    assert 10 == caught.value.offset


@pytest.mark.parametrize("name", MESSAGES)
def test_every_prefix_is_refused(name: str) -> None:
    cls = registry.message_type(name)
    lowest, highest = registry.valid_versions(cls)
    for version in {lowest, (lowest + highest) // 2, highest}:
        encoded = registry.encode(numbered_message(cls, version), version)
        last = -1
        for end in range(0, len(encoded), max(1, len(encoded) // 80)):
            with pytest.raises(DecodeError) as caught:
                registry.decode(cls, encoded[:end], version)
            # The more is there, the further it gets; only a count may fall back to the front of its array.
            assert caught.value.field
            assert caught.value.offset <= end
            last = max(last, caught.value.offset)
        assert len(encoded) == 0 or last >= 0


def test_null_may_be_spelled_longer() -> None:
    """Kafka reads it so; nobody writes it."""
    assert ProduceRequest(None, 1, 100) == registry.decode(ProduceRequest, bytes.fromhex("8000 0001 00000064 01 00"), 9)


def test_second_tag_wins() -> None:
    """As in Kafka, which looks at neither order nor repetition when it reads."""
    plain = bytes.fromhex(FETCH_12)
    decoded = registry.decode(FetchRequest, plain + bytes.fromhex("02 00 02 0261 00 02 0262"), 12)
    assert "b" == decoded.cluster_id
    falling = registry.decode(FetchRequest, plain + bytes.fromhex("02 09 00 00 02 0261"), 12)
    assert "a" == falling.cluster_id
    assert [(9, b"")] == falling.unknown_tagged_fields


def peak_of_decoding(cls: type[msgspec.Struct], version: int, data: bytes) -> int:
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    with contextlib.suppress(DecodeError):
        registry.decode(cls, data, version)
    return tracemalloc.get_traced_memory()[1] - before


@pytest.mark.parametrize("name", ["ProduceRequest", "FetchRequest", "MetadataResponse", "JoinGroupRequest"])
def test_memory_is_bounded_by_the_bytes(name: str) -> None:
    """Every place of a message once overwritten with a huge length."""
    cls = registry.message_type(name)
    registry.spec(cls)  # is kept, so it is not counted
    worst = 0
    tracemalloc.start()
    try:
        for version in registry.valid_versions(cls):
            encoded = registry.encode(numbered_message(cls, version), version)
            for length in (bytes.fromhex("7fffffff"), bytes.fromhex("ffffffff07")):
                for position in range(len(encoded)):
                    data = encoded[:position] + length + encoded[position + len(length) :]
                    worst = max(worst, peak_of_decoding(cls, version, data))
    finally:
        tracemalloc.stop()
    assert worst < 20_000, f"{worst} bytes"


def test_elements_that_take_no_bytes_are_counted() -> None:
    """No message has an array of them today, but the generator has to know what to do."""
    sizes = [
        spec.minimal_size(field.struct, version)
        for cls, version in all_versions()
        for spec in [registry.spec(cls)]
        for struct in spec.structs()
        for field in struct.fields
        if field.struct is not None and field.is_array and version in field.versions and version in struct.versions
    ]
    assert min(sizes) > 0


def test_deep_nesting_has_a_bottom() -> None:
    """A schema cannot contain itself (test_schema), so no input makes a reader go deeper than its schema."""
    request = ProduceRequest(topic_data=[TopicProduceData(partition_data=[PartitionProduceData()])])
    assert request == registry.decode(ProduceRequest, registry.encode(request, 9), 9)
