"""What a version cannot carry is refused as Kafka refuses it, with the name of the field."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from odradek.wire import registry
from odradek.wire.errors import EncodeError
from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from odradek.wire.messages.api_versions_response import ApiVersionsResponse, SupportedFeatureKey
from odradek.wire.messages.consumer_group_heartbeat_response import Assignment, ConsumerGroupHeartbeatResponse
from odradek.wire.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from odradek.wire.messages.fetch_response import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData
from odradek.wire.messages.join_group_request import JoinGroupRequest
from odradek.wire.messages.list_offsets_response import ListOffsetsResponse
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData


def topic(**fields: Any) -> FetchRequest:
    return FetchRequest(topics=[FetchTopic("t", partitions=[FetchPartition(**fields)])])


@pytest.mark.parametrize(
    ("message", "version", "field", "reason"),
    [
        # Not there in this version, and not ignorable.
        (ProduceRequest("t"), 2, "transactional_id", "cannot carry it"),
        (JoinGroupRequest(group_instance_id="i"), 4, "group_instance_id", "cannot carry it"),
        (topic(last_fetched_epoch=1), 11, "topics[0].partitions[0].last_fetched_epoch", "cannot carry it"),
        (FetchRequest(replica_state=ReplicaState(3)), 14, "replica_state", "cannot carry it"),
        (FetchRequest(replica_id=3), 15, "replica_id", "cannot carry it"),
        (MetadataRequest([], allow_auto_topic_creation=False), 3, "allow_auto_topic_creation", "cannot carry it"),
        (AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction("t")]), 3, "transactions", "cannot carry it"),
        (OffsetFetchRequest(require_stable=True), 6, "require_stable", "cannot carry it"),
        # Null where it is not allowed.
        (MetadataRequest(None), 0, "topics", "null"),
        (MetadataRequest([MetadataRequestTopic(name=None)]), 9, "topics[0].name", "null"),
        (EndTxnRequest(None), 3, "transactional_id", "null"),  # type: ignore[arg-type]
        (EndTxnRequest("t", None), 3, "producer_id", "null"),  # type: ignore[arg-type]
        (ProduceRequest(topic_data=None), 9, "topic_data", "null"),  # type: ignore[arg-type]
        # Out of range, or of another type.
        (EndTxnRequest("t", 1, 2**15), 0, "producer_epoch", "32768 is out of range for int16"),
        (EndTxnRequest("t", -(2**63) - 1), 0, "producer_id", "out of range for int64"),
        (EndTxnRequest(b"t"), 0, "transactional_id", "bytes is not string"),  # type: ignore[arg-type]
        (EndTxnRequest("t", "1"), 0, "producer_id", "str is not int64"),  # type: ignore[arg-type]
        (EndTxnRequest("\ud800"), 0, "transactional_id", "cannot be encoded"),
        (EndTxnRequest("x" * 0x8000), 0, "transactional_id", "32768 bytes is longer than 32767"),
        (EndTxnRequest("x" * 0x8000), 3, "transactional_id", "32768 bytes is longer than 32767"),
        (FetchRequest(topics=[FetchTopic(topic_id=b"short")]), 13, "topics[0].topic_id", "a uuid of 5 bytes"),
        (FetchRequest(topics=[7]), 13, "topics[0].topic", "int has no such field"),  # type: ignore[list-item]
        (FetchRequest(topics=7), 13, "topics", "int is not a list"),  # type: ignore[arg-type]
        (
            ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(2**31)])]),
            3,
            "topic_data[0].partition_data[0].index",
            "out of range for int32",
        ),
        # Tagged fields.
        (EndTxnRequest(unknown_tagged_fields=[(1, b"")]), 2, "unknown_tagged_fields", "no tagged fields"),
        (EndTxnRequest(unknown_tagged_fields=[(2, b""), (1, b"")]), 3, "unknown_tagged_fields", "do not rise"),
        (EndTxnRequest(unknown_tagged_fields=[(1, b""), (1, b"")]), 3, "unknown_tagged_fields", "do not rise"),
        (EndTxnRequest(unknown_tagged_fields=[(2**31, b"")]), 3, "unknown_tagged_fields", "not the tag"),
        (FetchRequest(unknown_tagged_fields=[(0, b"")]), 12, "unknown_tagged_fields", "0 is not the tag"),
        (
            FetchResponse(
                responses=[FetchableTopicResponse(partitions=[PartitionData(unknown_tagged_fields=[(0, b"")])])]
            ),
            12,
            "responses[0].partitions[0].unknown_tagged_fields",
            "0 is not the tag",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(message: msgspec.Struct, version: int, field: str, reason: str) -> None:
    with pytest.raises(EncodeError) as caught:
        registry.encode(message, version)
    assert field == caught.value.field
    assert reason in caught.value.reason
    assert type(message).__name__ == caught.value.message


@pytest.mark.parametrize(
    ("message", "version"),
    [
        # Ignorable: the value is dropped.
        (FetchRequest(rack_id="rack", session_id=5, isolation_level=1), 3),
        (JoinGroupRequest(rebalance_timeout_ms=5), 0),
        (ApiVersionsResponse(supported_features=[SupportedFeatureKey("f")]), 2),
        # Not ignorable, but at its default.
        (MetadataRequest([], allow_auto_topic_creation=True), 3),
        (ListOffsetsResponse(), 1),
        (topic(last_fetched_epoch=-1), 11),
    ],
)
def test_what_is_dropped(message: msgspec.Struct, version: int) -> None:
    decoded = registry.decode(type(message), registry.encode(message, version), version)
    assert registry.encode(message, version) == registry.encode(decoded, version)


def test_tagged_field_at_its_default_is_not_written() -> None:
    partition = PartitionData(diverging_epoch=EpochEndOffset())
    message = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
    plain = registry.encode(message, 12)
    partition.diverging_epoch = EpochEndOffset(5, 77)
    tagged = registry.encode(message, 12)
    assert 2 + 13 == len(tagged) - len(plain)
    assert message == registry.decode(FetchResponse, tagged, 12)


def test_nullable_struct() -> None:
    without = registry.encode(ConsumerGroupHeartbeatResponse(), 0)
    assert b"\xff\x00" == without[-2:]
    with_one = registry.encode(ConsumerGroupHeartbeatResponse(assignment=Assignment()), 0)
    assert b"\x01\x01\x00\x00" == with_one[-4:]


def test_nullable_struct_as_a_tagged_field() -> None:
    """Its default is an empty struct, so null is what has to be written."""
    value = ConsumerGroupMemberMetadataValue()
    assert ClassicMemberMetadata() == value.classic_member_metadata
    plain = registry.encode(value, 0)
    assert 0 == plain[-1]
    value.classic_member_metadata = None
    assert plain[:-1] + bytes([1, 0, 1, 0]) == registry.encode(value, 0)
    value.classic_member_metadata = ClassicMemberMetadata(7)
    assert plain[:-1] + bytes([1, 0, 7, 1, 0, 0, 0, 7, 1, 0]) == registry.encode(value, 0)


def test_records_may_be_a_view() -> None:
    for size in (10, 5000):
        data = bytes(range(250)) * 20
        view = memoryview(data)[7 : 7 + size]
        copied, viewed = (
            ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(1, records)])])
            for records in (bytes(view), view)
        )
        for version in (3, 9):
            assert registry.encode(copied, version) == registry.encode(viewed, version)
