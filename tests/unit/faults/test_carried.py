"""Which ids a request carries, and which stand together in it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec import Struct
from tests.unit.faults.sample import sample
from tests.unit.host.helpers import batch, produce_request

from odradek.faults.carried import carried
from odradek.host.router import Router
from odradek.wire.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.registry import ApiKey

VERSIONS = [(api_key, version) for api_key, low, high in Router().ranges() for version in range(low, high + 1)]
EXPECTED = {
    ApiKey.PRODUCE: "producer_id topic partition",
    ApiKey.FETCH: "topic partition",
    ApiKey.OFFSET_COMMIT: "group topic partition",
    ApiKey.OFFSET_FETCH: "group topic partition",
    ApiKey.FIND_COORDINATOR: "group transactional_id",
    ApiKey.INIT_PRODUCER_ID: "transactional_id",
    ApiKey.ADD_PARTITIONS_TO_TXN: "transactional_id producer_id topic partition",
    ApiKey.ADD_OFFSETS_TO_TXN: "transactional_id producer_id group",
    ApiKey.END_TXN: "transactional_id producer_id",
    ApiKey.WRITE_TXN_MARKERS: "producer_id topic partition",
    ApiKey.TXN_OFFSET_COMMIT: "transactional_id producer_id group topic partition",
    ApiKey.JOIN_GROUP: "group",
    ApiKey.HEARTBEAT: "group",
    ApiKey.METADATA: "topic",
    ApiKey.DESCRIBE_TRANSACTIONS: "transactional_id",
    ApiKey.DESCRIBE_PRODUCERS: "topic partition",
    ApiKey.CREATE_TOPICS: "topic",
    ApiKey.DELETE_GROUPS: "group",
    ApiKey.DESCRIBE_CONFIGS: "topic group",
    ApiKey.API_VERSIONS: "",
}
EXACT = {ApiKey.END_TXN, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT, ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.FETCH}


def name_of(topic_id: bytes) -> str:
    return f"topic-{int.from_bytes(topic_id, 'big')}"


def holds(api_key: ApiKey, version: int, request: Struct, wanted: Mapping[str, str | int]) -> bool:
    tests = {kind: value.__eq__ for kind, value in wanted.items()}
    return carried(api_key, version).holds(request, tests, name_of)


@pytest.mark.parametrize(("api_key", "version"), VERSIONS, ids=[f"{key.name}-{version}" for key, version in VERSIONS])
def test_what_is_there_is_found(api_key: ApiKey, version: int) -> None:
    request, ids = sample(api_key, version), carried(api_key, version)
    assert set(EXPECTED.get(api_key, "").split()) <= ids.kinds
    if api_key in EXACT:
        assert set(EXPECTED[api_key].split()) == ids.kinds
    for kind, values in ids.ids(request, name_of).items():
        assert all(holds(api_key, version, request, {kind: value}) for value in values)
        assert not holds(api_key, version, request, {kind: -7 if isinstance(values[0], int) else "nobody"})


def test_ids_have_to_stand_together() -> None:
    topics = [TopicProduceData(name, partition_data=[PartitionProduceData(index=index)]) for name, index in
              (("orders", 0), ("menus", 1))]  # fmt: skip
    request = ProduceRequest(transactional_id="till-1", topic_data=topics)
    assert holds(ApiKey.PRODUCE, 9, request, {"topic": "menus", "partition": 1, "transactional_id": "till-1"})
    assert not holds(ApiKey.PRODUCE, 9, request, {"topic": "orders", "partition": 1})
    assert not holds(ApiKey.PRODUCE, 9, request, {"topic": "menus", "partition": 1, "transactional_id": "till-2"})


def test_each_transaction_of_a_batch_has_its_own() -> None:
    asked = [
        AddPartitionsToTxnTransaction(
            transactional_id=tid, producer_id=pid, topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])]
        )
        for tid, pid, topic, partition in (("a", 1, "orders", 0), ("b", 2, "menus", 1))
    ]
    request = AddPartitionsToTxnRequest(transactions=asked)
    batched = ApiKey.ADD_PARTITIONS_TO_TXN, 4, request
    assert holds(*batched, {"transactional_id": "b", "producer_id": 2, "topic": "menus", "partition": 1})
    assert not holds(*batched, {"transactional_id": "a", "topic": "menus"})
    assert not holds(*batched, {"transactional_id": "a", "producer_id": 2})
    assert {
        "transactional_id": ["a", "b"],
        "producer_id": [1, 2],
        "topic": ["orders", "menus"],
        "partition": [0, 1],
    } == (carried(ApiKey.ADD_PARTITIONS_TO_TXN, 4).ids(request, name_of))


def test_the_same_before_there_were_batches() -> None:
    topics = [AddPartitionsToTxnTopic(name="orders", partitions=[0])]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="a", v3_and_below_producer_id=1, v3_and_below_topics=topics
    )
    single = ApiKey.ADD_PARTITIONS_TO_TXN, 3, request
    assert holds(*single, {"transactional_id": "a", "producer_id": 1, "topic": "orders", "partition": 0})
    assert not holds(*single, {"transactional_id": "b", "topic": "orders"})


def test_offsets_in_a_transaction() -> None:
    partitions = [TxnOffsetCommitRequestPartition(partition_index=3)]
    request = TxnOffsetCommitRequest(
        transactional_id="a",
        group_id="g",
        producer_id=7,
        topics=[TxnOffsetCommitRequestTopic("t", partitions=partitions)],
    )
    for version in range(6):
        everything: dict[str, str | int] = {
            "transactional_id": "a",
            "group": "g",
            "producer_id": 7,
            "topic": "t",
            "partition": 3,
        }
        assert holds(ApiKey.TXN_OFFSET_COMMIT, version, request, everything)


def test_the_producer_id_of_records_stands_in_their_batch() -> None:
    request = produce_request(batch(b"a", producer_id=4711, producer_epoch=0, sequence=0))
    assert holds(ApiKey.PRODUCE, 9, request, {"producer_id": 4711, "topic": "t", "partition": 0})
    assert not holds(ApiKey.PRODUCE, 9, request, {"producer_id": 4712})
    assert not holds(ApiKey.PRODUCE, 9, produce_request(None), {"producer_id": -1})
    assert not holds(ApiKey.PRODUCE, 0, produce_request(bytes(20)), {"producer_id": 0})


def test_a_topic_that_has_only_its_id_is_known_by_name() -> None:
    request = produce_request(batch(b"a"), topic="", topic_id=(5).to_bytes(16, "big"))
    assert holds(ApiKey.PRODUCE, 13, request, {"topic": "topic-5"})
    assert not holds(ApiKey.PRODUCE, 13, request, {"topic": "topic-6"})


@pytest.mark.parametrize(("key_type", "kind", "other"), [
    (0, "group", "transactional_id"), (1, "transactional_id", "group")
])  # fmt: skip
def test_a_key_is_what_the_field_beside_it_says(key_type: int, kind: str, other: str) -> None:
    one = FindCoordinatorRequest(key="x", key_type=key_type)
    many = FindCoordinatorRequest(coordinator_keys=["w", "x"], key_type=key_type)
    for version, request in ((3, one), (4, many)):
        assert holds(ApiKey.FIND_COORDINATOR, version, request, {kind: "x"})
        assert not holds(ApiKey.FIND_COORDINATOR, version, request, {other: "x"})


def test_a_resource_is_what_the_field_beside_it_says() -> None:
    request = DescribeConfigsRequest(resources=[DescribeConfigsResource(2, "t"), DescribeConfigsResource(4, "1")])
    assert holds(ApiKey.DESCRIBE_CONFIGS, 4, request, {"topic": "t"})
    assert not holds(ApiKey.DESCRIBE_CONFIGS, 4, request, {"topic": "1"})
