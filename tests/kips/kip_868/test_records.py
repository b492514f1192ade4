"""KIP-868, Metadata Transactions: the records, the example of the text, snapshots, and the level that gates them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import Struct
from tests.unit.metadata.helpers import World, batch_of, override, topic, topic_id

from odradek.core.machine import Proposed
from odradek.metadata.features import METADATA_TRANSACTIONS
from odradek.metadata.loader import MetadataLoader
from odradek.metadata.snapshot import snapshot_records
from odradek.records.state import decode_metadata, encode_metadata
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.abort_transaction_record import AbortTransactionRecord
from odradek.wire.messages.begin_transaction_record import BeginTransactionRecord
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.end_transaction_record import EndTransactionRecord
from odradek.wire.messages.topic_record import TopicRecord
from odradek.wire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

MARKERS = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)


def published(*batches: Sequence[Struct]) -> list[list[str]]:
    """Names of the topics in each image that the batches publish."""
    loader = MetadataLoader()
    images = []
    for records in batches:
        images += loader.apply(batch_of(records, loader.last_offset + 1))
    return [list(image.topics) for image in images]


# ---------------------------------------------------------------------- Public Interfaces


@pytest.mark.parametrize(
    ("record", "value"),
    [
        (BeginTransactionRecord(name=None), "01 17 00 00"),
        (BeginTransactionRecord(name="ab"), "01 17 00 01 00 03 03 6162"),
        (EndTransactionRecord(), "01 18 00 00"),
        (AbortTransactionRecord(reason=None), "01 19 00 00"),
        (AbortTransactionRecord(reason="ab"), "01 19 00 01 00 03 03 6162"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Struct) else value,
)
def test_the_records_on_the_wire(record: Struct, value: str) -> None:
    """Public Interfaces: three records of version 0, flexible; name and reason are optional tagged fields."""
    assert bytes.fromhex(value) == encode_metadata(record, 0)
    assert record == decode_metadata(bytes.fromhex(value))


# ---------------------------------------------------------------------- Proposed Changes


def test_the_example_of_the_text() -> None:
    """Proposed Changes: a topic and its partitions in four batches become visible together, with the last of them."""
    created, *partitions = topic("t", [1], [1], [1], [1])
    batches: list[list[Struct]] = [
        [BeginTransactionRecord(name="create t"), created, *partitions[:2]],
        partitions[2:],
        [override("retention.ms", "1", of="t")],
        [EndTransactionRecord()],
    ]
    assert [] == published(*batches[:1])
    assert [] == published(*batches[:3])
    assert [["t"]] == published(*batches)


def test_a_transaction_of_one_batch_and_one_of_many_show_the_same() -> None:
    """Proposed Changes: where batches end plays no part."""
    records: list[Struct] = [BeginTransactionRecord(), *topic("t", [1], [1]), EndTransactionRecord()]
    assert [["t"]] == published(records)
    assert [["t"]] == published(*([record] for record in records))


def test_only_one_transaction_at_a_time() -> None:
    """Controller Failover: since only a single transaction is allowed, a partial one is easily told."""
    world = World(odradek_metadata_batch_records_max="4")
    request = CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=10, replication_factor=1)])
    world.carry_out(world.controller.create_topics(request), batches=1)
    assert world.loader.in_transaction
    other = CreateTopicsRequest(topics=[CreatableTopic(name="b", num_partitions=10, replication_factor=1)])
    assert not isinstance(world.fail_over().create_topics(other), Proposed)


def test_the_example_of_a_failover() -> None:
    """Controller Failover: Begin, a topic and two partitions, and then the Abort of the next controller: nothing."""
    created, *partitions = topic("t", [1], [1])
    lost: list[Struct] = [BeginTransactionRecord(), created, *partitions]
    assert [[]] == published(lost, [AbortTransactionRecord(reason="Controller failover")])
    after = TopicRecord(name="u", topic_id=topic_id("u"))
    assert [["u"]] == published(lost, [AbortTransactionRecord(), after])


# ---------------------------------------------------------------------- Snapshots


def test_a_snapshot_has_no_transactions() -> None:
    """Snapshots: they are atomic as a whole, and made of what is visible: nothing of a transaction that is open."""
    loader = MetadataLoader()
    loader.apply(batch_of([BeginTransactionRecord(), *topic("seen", [1]), EndTransactionRecord()], 0))
    loader.apply(batch_of([BeginTransactionRecord(), *topic("open", [1])], loader.last_offset + 1))
    records = list(snapshot_records(loader.image))
    assert [] == [record for record in records if isinstance(record, MARKERS)]
    assert ["seen"] == [record.name for record in records if isinstance(record, TopicRecord)]


# ---------------------------------------------------------------------- Compatibility


@pytest.mark.parametrize(
    ("level", "allowed"), [(METADATA_TRANSACTIONS - 1, False), (METADATA_TRANSACTIONS, True), (33, True)]
)
def test_a_level_gates_the_records(level: int, allowed: bool) -> None:
    """Compatibility: the usage of the new records is gated by a new metadata.version."""
    world = World(odradek_metadata_version=str(level), odradek_metadata_batch_records_max="4")
    request = CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=10, replication_factor=1)])
    decision = world.controller.create_topics(request)
    records = decision.records if isinstance(decision, Proposed) else ()
    begins = [record for record in records if isinstance(decode_metadata(record.value or b""), BeginTransactionRecord)]
    reply = world.carry_out(decision)
    # An operation that needs them cannot be done without.
    expected = (1, ErrorCode.NONE) if allowed else (0, ErrorCode.POLICY_VIOLATION)
    assert expected == (len(begins), reply.topics[0].error_code)
    assert allowed is ("a" in world.image.topics)


def test_going_back_below_that_level_is_refused() -> None:
    """Compatibility: a downgrade would lose records, which Kafka has never implemented: it is refused."""
    world = World()
    update = FeatureUpdateKey(feature="metadata.version", max_version_level=METADATA_TRANSACTIONS - 1, upgrade_type=2)
    reply = world.carry_out(world.controller.update_features(UpdateFeaturesRequest(feature_updates=[update])))
    assert ErrorCode.INVALID_UPDATE_VERSION == reply.error_code
    assert 33 == world.image.feature("metadata.version")
