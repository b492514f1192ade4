"""Metadata transactions (KIP-868): what is seen, and when."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from tests.unit.metadata.helpers import batch_of, control_of, image_of, level, override, quorum_batch, topic_id

from odradek.core.machine import LogRecord
from odradek.metadata.image import MetadataImage
from odradek.metadata.loader import NO_TRANSACTION, MetadataLoader
from odradek.records.control import ControlType, control_key
from odradek.wire.messages.abort_transaction_record import AbortTransactionRecord
from odradek.wire.messages.access_control_entry_record import AccessControlEntryRecord
from odradek.wire.messages.begin_transaction_record import BeginTransactionRecord
from odradek.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from odradek.wire.messages.end_transaction_record import EndTransactionRecord
from odradek.wire.messages.fence_broker_record import FenceBrokerRecord
from odradek.wire.messages.no_op_record import NoOpRecord
from odradek.wire.messages.partition_change_record import PartitionChangeRecord
from odradek.wire.messages.partition_record import PartitionRecord
from odradek.wire.messages.producer_ids_record import ProducerIdsRecord
from odradek.wire.messages.remove_topic_record import RemoveTopicRecord
from odradek.wire.messages.topic_record import TopicRecord
from odradek.wire.messages.unregister_broker_record import UnregisterBrokerRecord

BEGIN = BeginTransactionRecord(name="test")
END = EndTransactionRecord()
ABORT = AbortTransactionRecord(reason="test")
A, B, C, D = (TopicRecord(name=name, topic_id=topic_id(name)) for name in "ABCD")


def fold(*batches: Sequence[Struct | bytes], loader: MetadataLoader | None = None) -> list[tuple[int, str]]:
    """Offset and topics of each published image."""
    loader = loader or MetadataLoader()
    published = []
    for records in batches:
        published += loader.apply(batch_of(records, loader.last_offset + 1))
    return [(image.offset, "".join(image.topics)) for image in published]


def faults(loader: MetadataLoader) -> list[tuple[object, object]]:
    return [(fact.fields["offset"], fact.fields["reason"]) for fact in loader.facts if fact.kind == "metadata_fault"]


def test_a_batch_is_published_as_a_whole() -> None:
    assert [(1, "AB"), (2, "ABC")] == fold([A, B], [C])


def test_nothing_is_seen_from_begin_to_end() -> None:
    assert [(3, "AB")] == fold([BEGIN], [A], [B], [END])


def test_a_transaction_in_one_batch() -> None:
    assert [(2, "A")] == fold([BEGIN, A, END])


def test_an_abort_moves_only_the_offset() -> None:
    assert [(2, "")] == fold([BEGIN], [A], [ABORT])


def test_what_stands_before_begin_is_published_first() -> None:
    assert [(0, "A"), (4, "ABC")] == fold([A, BEGIN, B], [C, END])


def test_batches_before_begin_are_not_published_twice() -> None:
    assert [(0, "A"), (3, "AB")] == fold([A], [BEGIN, B], [END])


def test_what_follows_end_in_its_batch_is_published_with_it() -> None:
    assert [(3, "AB")] == fold([BEGIN, A], [END, B])


def test_two_transactions_in_one_batch() -> None:
    assert [(2, "A"), (5, "AB")] == fold([BEGIN, A, END, BEGIN, B, END])


def test_aborted_records_stay_unseen_when_more_follows_the_abort() -> None:
    # Kafka 4.4 publishes A here, because its delta outlives the Abort until the end of the commit.
    assert [(3, "C")] == fold([BEGIN, A], [ABORT, C])


def test_aborted_records_stay_unseen_when_a_transaction_follows_the_abort() -> None:
    # What a controller writes after a failed bootstrap; Kafka 4.4 publishes A at the second Begin.
    assert [(2, ""), (5, "C")] == fold([BEGIN, A], [ABORT, BEGIN, C, END])


def test_an_abort_in_the_batch_of_its_begin() -> None:
    assert [(0, "A"), (4, "AC")] == fold([A, BEGIN, B, ABORT, C])


def test_an_open_transaction_is_known() -> None:
    loader = MetadataLoader()

    fold([A, BEGIN, B], loader=loader)

    assert 1 == loader.transaction_start
    assert (0, 2) == (loader.image.offset, loader.last_offset)


def test_a_second_begin_is_a_fault_and_the_transaction_goes_on() -> None:
    loader = MetadataLoader()

    assert [(4, "AB")] == fold([BEGIN, A], [BEGIN, B], [END], loader=loader)
    assert [(2, "the transaction that began at 0 is still open")] == faults(loader)


def test_an_end_or_abort_of_nothing_is_a_fault() -> None:
    loader = MetadataLoader()

    assert [(0, ""), (2, "A"), (3, "AB")] == fold([END], [A, ABORT], [B], loader=loader)
    assert [
        (0, "no transaction is open that could end"),
        (2, "no transaction is open that could be aborted"),
    ] == faults(loader)


def test_a_record_that_cannot_be_read_is_a_fault_and_skipped() -> None:
    loader = MetadataLoader()

    assert [(2, "AB")] == fold([A, b"\x01\xff\xff", B], loader=loader)
    assert [1] == [offset for offset, _ in faults(loader)]


def test_a_record_of_a_later_release_is_a_fault_and_skipped() -> None:
    loader = MetadataLoader()

    assert [(3, "AB")] == fold([A, b"\x01\x63\x00later", b"\x01\x02\x09later", B], loader=loader)
    assert [
        (1, "records of type 99 are not known"),
        (2, "the record is of type 2 in version 9, and versions 0 to 0 are known"),
    ] == faults(loader)
    assert "at offset 1: records of type 99 are not known" == loader.fault


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (PartitionRecord(partition_id=0, topic_id=topic_id("Z")), "no topic has the id Wi4uLi4uLi4uLi4uLi4uLg"),
        (PartitionChangeRecord(partition_id=0, topic_id=topic_id("Z")), "no topic has the id Wi4uLi4uLi4uLi4uLi4uLg"),
        (PartitionChangeRecord(partition_id=7, topic_id=topic_id("A")), "topic A has no partition 7"),
        (RemoveTopicRecord(topic_id=topic_id("Z")), "no topic has the id Wi4uLi4uLi4uLi4uLi4uLg"),
        (UnregisterBrokerRecord(broker_id=5), "broker 5 is not registered"),
        (FenceBrokerRecord(id=5), "broker 5 is not registered"),
        (BrokerRegistrationChangeRecord(broker_id=5, fenced=1), "broker 5 is not registered"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_change_of_something_that_there_is_not_is_a_fault_and_skipped(record: Struct, reason: str) -> None:
    loader = MetadataLoader()

    assert [(2, "AB")] == fold([A, record, B], loader=loader)
    assert [(1, reason)] == faults(loader)


def test_a_snapshot_that_makes_no_sense_is_known() -> None:
    loader = MetadataLoader()

    loader.load_snapshot([A, RemoveTopicRecord(topic_id=topic_id("Z"))], offset=10, epoch=3)

    assert "in its snapshot: no topic has the id Wi4uLi4uLi4uLi4uLi4uLg" == loader.fault


def test_a_record_of_no_use_moves_the_offset() -> None:
    loader = MetadataLoader()

    assert [(0, ""), (1, "")] == fold([AccessControlEntryRecord()], [NoOpRecord()], loader=loader)
    assert [] == faults(loader)


def test_a_control_batch_moves_the_offset() -> None:
    loader = MetadataLoader()

    (image,) = loader.apply(batch_of([b"leader change"], 0, epoch=5, control=True))

    assert (0, 5) == (image.offset, image.epoch)


def test_the_version_of_the_quorum_is_a_control_record() -> None:
    """As in Kafka a FeatureLevelRecord of kraft.version changes nothing (KAFKA-18979)."""
    loader = MetadataLoader()

    fold(level(kraft_version=1, group_version=1), loader=loader)
    assert {"group.version": 1} == loader.image.features
    (image,) = loader.apply(quorum_batch(2))

    assert (2, {"group.version": 1, "kraft.version": 1}) == (image.offset, image.features)


def test_the_version_of_the_quorum_is_no_part_of_a_transaction() -> None:
    loader = MetadataLoader()

    fold([BEGIN, A], loader=loader)
    assert [] == loader.apply(quorum_batch(2))
    (image,) = loader.apply(batch_of([ABORT], 3))
    assert ({"kraft.version": 1}, []) == (image.features, list(image.topics))
    fold([BEGIN, B], [ABORT], loader=loader)

    assert ({"kraft.version": 1}, []) == (loader.image.features, list(loader.image.topics))


def test_a_record_of_the_quorum_that_cannot_be_read_is_a_fault() -> None:
    loader = MetadataLoader()

    loader.apply(control_of([LogRecord(control_key(ControlType.KRAFT_VERSION), b"\0")], 0))

    [(offset, reason)] = faults(loader)
    assert (0, True) == (offset, str(reason).startswith("a record of the quorum cannot be read: "))


def test_transactions_are_told_as_facts() -> None:
    loader = MetadataLoader()

    fold([BEGIN, A, END], [BEGIN], [ABORT], loader=loader)

    assert [
        ("metadata_transaction_began", {"offset": 0, "name": "test"}),
        ("metadata_transaction_ended", {"offset": 2}),
        ("metadata_transaction_began", {"offset": 3, "name": "test"}),
        ("metadata_transaction_aborted", {"offset": 4, "reason": "test"}),
    ] == [(fact.kind, fact.fields) for fact in loader.facts]


def test_a_snapshot_replaces_everything_and_forgets_an_open_transaction() -> None:
    loader = MetadataLoader()
    fold([A], [BEGIN, B], loader=loader)

    image = loader.load_snapshot([C], offset=10, epoch=3)

    assert (10, 3, ["C"]) == (image.offset, image.epoch, list(image.topics))
    assert NO_TRANSACTION == loader.transaction_start
    assert [(12, "CD")] == [
        (later.offset, "".join(later.topics)) for later in loader.apply(batch_of([NoOpRecord(), D], 11, epoch=3))
    ]


# ---------------------------------------------------------------------- any log, cut into any batches

NAMES = st.sampled_from("ABC")
RECORDS = st.one_of(
    NAMES.map(lambda name: TopicRecord(name=name, topic_id=topic_id(name))),
    NAMES.map(lambda name: RemoveTopicRecord(topic_id=topic_id(name))),
    st.tuples(NAMES, st.sampled_from(["1", "2", None])).map(lambda pair: override("retention.ms", pair[1], of=pair[0])),
    st.integers(0, 2).map(lambda value: level(transaction_version=value)[0]),
    st.integers(1, 9).map(lambda number: ProducerIdsRecord(broker_id=1, next_producer_id=1000 * number)),
    st.just(NoOpRecord()),
    st.sampled_from([BEGIN, END, ABORT, BEGIN, END]),
)


@st.composite
def cuts(draw: st.DrawFn) -> tuple[list[Struct], list[list[Struct]]]:
    records = draw(st.lists(RECORDS, min_size=1, max_size=25))
    ends = sorted(draw(st.sets(st.integers(1, len(records)), max_size=8)) | {len(records)})
    return records, [records[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def committed(records: Sequence[Struct]) -> list[Struct]:
    """What an observer may see of a log, by a reading of KIP-868 that knows no batches."""
    seen: list[Struct] = []
    held: list[Struct] | None = None
    for record in records:
        if isinstance(record, BeginTransactionRecord):
            held = [] if held is None else held
        elif isinstance(record, EndTransactionRecord):
            seen += held or []
            held = None
        elif isinstance(record, AbortTransactionRecord):
            held = None
        else:
            (seen if held is None else held).append(record)
    return seen


def published_by(batches: Sequence[Sequence[Struct]]) -> tuple[MetadataLoader, list[MetadataImage]]:
    loader = MetadataLoader()
    images: list[MetadataImage] = []
    for records in batches:
        images += loader.apply(batch_of(records, loader.last_offset + 1))
    return loader, images


def content(image: MetadataImage) -> tuple[object, ...]:
    return image.topics, image.topics_by_id, image.configs, image.features, image.next_producer_id


@given(cuts())
def test_every_cut_shows_the_same_images(cut: tuple[list[Struct], list[list[Struct]]]) -> None:
    records, batches = cut

    fine, each = published_by([[record] for record in records])
    coarse, some = published_by(batches)

    by_offset = {image.offset: image for image in each}
    assert all(image == by_offset[image.offset] for image in some)
    assert fine.image == coarse.image
    assert fine.transaction_start == coarse.transaction_start
    assert sorted(image.offset for image in some) == [image.offset for image in some]


@given(cuts())
def test_an_image_holds_what_is_committed_up_to_its_offset(cut: tuple[list[Struct], list[list[Struct]]]) -> None:
    records, batches = cut

    _, images = published_by(batches)

    for image in images:
        assert content(image_of(committed(records[: image.offset + 1]))) == content(image)


def test_a_removal_is_told_when_it_is_published_and_not_if_it_is_aborted() -> None:
    loader = MetadataLoader()
    remove = RemoveTopicRecord(topic_id=topic_id("A"))
    fold([A, B], [BEGIN, remove], loader=loader)
    assert [] == loader.removed
    fold([ABORT], loader=loader)
    assert [] == loader.removed
    fold([BEGIN, remove], [END], [remove], loader=loader)
    assert [topic_id("A")] == loader.removed
