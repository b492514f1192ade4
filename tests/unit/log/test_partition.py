"""The door to a partition: appends, reads, leadership, housekeeping. Transactions: test_transactions."""

from __future__ import annotations

import pytest
from tests.unit.log.helpers import (
    NOW,
    Leader,
    batch,
    error,
    new_log,
    new_partition,
    new_store,
    offsets_and_keys,
    values,
)

from odradek.core.machine import LogRecord, Refused, TransactionalAppend
from odradek.log.epochs import EpochEnd
from odradek.log.partition import Appended, Partition, ProducerDescription, ReadResult
from odradek.records.batch import TimestampType, batches
from odradek.records.record import iterate_records
from odradek.wire.errors import ErrorCode

DAY_MS = 86_400_000


def read(partition: Partition, offset: int, *, max_bytes: int = 1 << 20, committed: bool = False) -> ReadResult:
    result = partition.read(offset, max_bytes=max_bytes, read_committed=committed)
    assert isinstance(result, ReadResult)
    return result


def test_append_tells_where_it_is() -> None:
    partition = new_partition()
    assert Appended(0, 2, -1, 0) == partition.append_client(batch(b"a", b"b"), now=NOW)
    assert Appended(2, 3, -1, 0) == partition.append_client(batch(b"c"), now=NOW)


def test_what_was_appended_is_read() -> None:
    partition = new_partition(leader_epoch=5)
    partition.append_client(batch(b"a", b"b"), now=NOW)
    partition.append_client(batch(b"c"), now=NOW)
    result = read(partition, 0)
    assert [b"a", b"b", b"c"] == values(result.records)
    assert [(0, 5), (2, 5)] == [(one.base_offset, one.partition_leader_epoch) for one in batches(result.records)]
    assert (3, 3, 0, None) == (
        result.high_watermark,
        result.last_stable_offset,
        result.log_start_offset,
        result.aborted,
    )
    assert b"" == bytes(read(partition, 3).records)


def test_offsets_out_of_range() -> None:
    partition = new_partition()
    for _ in range(4):
        partition.append_client(batch(), now=NOW)
    partition.delete_records(2)
    outside = [error(partition.read(offset, max_bytes=1)) for offset in (-1, 1, 5)]
    assert [ErrorCode.OFFSET_OUT_OF_RANGE] * 3 == outside


def test_log_append_time_is_stamped_and_answered() -> None:
    partition = new_partition(message_timestamp_type="LogAppendTime")
    answer = partition.append_client(batch(b"a", timestamp=5), now=NOW)
    assert isinstance(answer, Appended)
    assert NOW == answer.log_append_time
    one = next(batches(read(partition, 0).records))
    assert (TimestampType.LOG_APPEND_TIME, NOW) == (one.timestamp_type, one.max_timestamp)
    assert [NOW] == [record.timestamp for record in iterate_records(one)]
    assert one.crc_is_valid()


def test_a_coordinators_records_become_one_batch() -> None:
    partition = new_partition()
    answer = partition.append_coordinator([LogRecord(b"k", b"v"), LogRecord(b"k", None)], now=NOW)
    assert Appended(0, 2, -1, 0) == answer
    (one,) = partition.committed_since(0)
    found = [(record.key, record.value, record.timestamp) for record in iterate_records(one)]
    assert [(b"k", b"v", NOW), (b"k", None, NOW)] == found
    assert not one.has_producer_id
    assert Appended(2, 2, -1, 0) == partition.append_coordinator([], now=NOW)


def test_a_coordinators_batch_may_be_too_large_but_metadata_may_not() -> None:
    partition = new_partition(max_message_bytes=100)
    records = [LogRecord(b"k" * 100, b"v")]
    assert ErrorCode.MESSAGE_TOO_LARGE is error(partition.append_coordinator(records, now=NOW))
    assert isinstance(partition.append_records(records, NOW), Appended)


def test_coordinators_are_never_short_of_memory() -> None:
    partition = new_partition(new_log(new_store(100), cleanup_policy=("compact",)))
    assert isinstance(partition.append_coordinator([LogRecord(b"k" * 200, b"v")], now=NOW), Appended)
    assert ErrorCode.KAFKA_STORAGE_ERROR is error(partition.append_client(batch(), now=NOW))


def test_a_coordinator_that_writes_large_records_has_its_log_compacted_as_it_grows() -> None:
    """As the record of a transaction that partitions join one by one; the cleaner comes every 15 seconds."""
    store = new_store(16 * 1024 * 1024)
    partition = new_partition(new_log(store, cleanup_policy=("compact",)))
    partition.append_coordinator([LogRecord(b"at rest", b"v")], now=NOW)
    held = []
    for _ in range(600):
        partition.append_coordinator([LogRecord(b"growing", b"v" * 100_000)], now=NOW)
        held.append(store.bytes_held)
    assert max(held) < 5 * 1024 * 1024
    assert offsets_and_keys(partition.log)[0] == (0, b"at rest", b"v")
    assert offsets_and_keys(partition.log)[-1] == (600, b"growing", b"v" * 100_000)


def test_each_committed_batch_comes_once_and_in_order() -> None:
    partition = new_partition(segment_bytes=150)
    seen = []
    mark = 0
    for number in range(10):
        partition.append_client(batch(b"a", b"b"), now=NOW)
        for one in partition.committed_since(mark):
            seen.append(one.base_offset)
            mark = one.next_offset
            if number == 4 and len(seen) < 7:
                # Who folds may append: that batch comes in the same go.
                partition.append_client(batch(b"c"), now=NOW)
    assert sorted(set(seen)) == seen
    assert partition.high_watermark == mark
    moved = new_partition(partition.log, leader_epoch=1)
    assert seen == [one.base_offset for one in moved.committed_since(0)]


def test_committed_batches_begin_where_the_log_begins() -> None:
    partition = new_partition()
    for _ in range(3):
        partition.append_client(batch(), now=NOW)
    partition.delete_records(2)
    assert [2] == [one.base_offset for one in partition.committed_since(0)]


# -- leadership


def test_a_leader_that_was_replaced_appends_nothing() -> None:
    old = new_partition(leader_epoch=3)
    old.append_client(batch(b"a"), now=NOW)
    new = new_partition(old.log, leader_epoch=4)
    assert (False, True) == (old.is_leader, new.is_leader)
    marker = old.append_marker(
        producer_id=1, producer_epoch=0, commit=True, coordinator_epoch=0, transaction_version=2, now=NOW
    )
    refused = [
        old.append_client(batch(), now=NOW),
        old.append_coordinator([LogRecord(b"k", b"v")], now=NOW),
        marker,
        old.begin_verification(1, 0, 0, supports_epoch_bump=True, now=NOW),
    ]
    assert [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 4 == [error(answer) for answer in refused]
    old.retain(NOW + 30 * DAY_MS)
    assert not old.compact(NOW + 30 * DAY_MS)
    assert 0 == old.log_start_offset
    assert 1 == new.high_watermark
    assert isinstance(new.append_client(batch(), now=NOW), Appended)


def test_epochs_of_leaders() -> None:
    log = new_log()
    for epoch, count in ((0, 2), (3, 1), (4, 0), (6, 2)):
        partition = new_partition(log, leader_epoch=epoch)
        for _ in range(count):
            partition.append_client(batch(), now=NOW)
    ends = [partition.end_offset_for_epoch(epoch) for epoch in (0, 2, 3, 4, 6, 7)]
    assert [EpochEnd(0, 2), EpochEnd(0, 2), EpochEnd(3, 3), EpochEnd(3, 3), EpochEnd(6, 5), EpochEnd(-1, -1)] == ends


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (-1, ErrorCode.NONE),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.NONE),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_the_epoch_a_client_believes_in(asked: int, expected: ErrorCode) -> None:
    assert expected is new_partition(leader_epoch=5).check_leader_epoch(asked)


def test_a_new_leader_knows_the_producers_but_not_the_guards() -> None:
    leader = Leader()
    leader.produce(0, 0)
    leader.ask(0, 0, producer_id=8)
    moved = new_partition(leader.partition.log, leader_epoch=1)
    assert leader.partition.describe_producers() == moved.describe_producers()
    assert {} == moved.producers.guards.pending
    assert 0 == moved.last_stable_offset


# -- housekeeping


def test_delete_records() -> None:
    partition = new_partition()
    for _ in range(5):
        partition.append_client(batch(), now=NOW)
    assert 2 == partition.delete_records(2)
    assert 2 == partition.delete_records(1)
    assert [ErrorCode.OFFSET_OUT_OF_RANGE] * 2 == [error(partition.delete_records(offset)) for offset in (6, -2)]
    assert 5 == partition.delete_records(-1)
    assert (5, 5, 0) == (partition.log_start_offset, partition.log_end_offset, partition.size_bytes)


def test_records_of_a_compacted_topic_cannot_be_deleted() -> None:
    partition = new_partition(cleanup_policy=("compact",))
    assert ErrorCode.POLICY_VIOLATION is error(partition.delete_records(0))
    assert 0 == new_partition(cleanup_policy=("compact", "delete")).delete_records(0)


def test_the_last_stable_offset_is_never_before_the_log() -> None:
    leader = Leader()
    leader.produce(0, 0)
    leader.append(0, 1)
    leader.partition.delete_records(1)
    assert (1, 2) == leader.stable
    assert b"" == bytes(read(leader.partition, 1, committed=True).records)


def test_retention_and_the_expiry_of_producers_are_two_things() -> None:
    leader = Leader(new_partition(retention_ms=1000))
    leader.partition.append_client(batch(producer_id=3, epoch=0, sequence=0), now=NOW)
    leader.ask(0, 0)
    leader.partition.forget_producers(NOW + 1001, after_ms=1002)
    assert 0 == leader.partition.log_start_offset
    leader.partition.retain(NOW + 1002)
    assert 1 == leader.partition.log_start_offset
    assert [3] == [one.producer_id for one in leader.partition.describe_producers()]
    leader.partition.forget_producers(NOW + 1002, after_ms=1002)
    assert [] == leader.partition.describe_producers()
    assert {} == leader.partition.producers.guards.pending


def test_producers_survive_the_deletion_of_their_batches() -> None:
    leader = Leader(new_partition(retention_ms=1000, segment_bytes=1))
    for sequence in range(3):
        leader.append(0, sequence, transactional=False)
    leader.partition.retain(NOW + 2000)
    assert 3 == leader.partition.log_start_offset
    moved = Leader(new_partition(leader.partition.log, leader_epoch=1))
    assert [ProducerDescription(7, 0, 2, NOW, -1, -1)] == moved.partition.describe_producers()
    assert ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER is error(moved.append(0, 5, transactional=False))
    assert isinstance(moved.append(0, 3, transactional=False), Appended)


def test_rules_follow_the_config() -> None:
    partition = new_partition(cleanup_policy=("compact",), max_message_bytes=77, compression_type="zstd")
    rules = partition.rules
    assert ("topic", True, 77, "zstd") == (rules.name, rules.compacted, rules.max_message_bytes, rules.compression_type)
    partition.configure(type(partition.config)())
    assert not partition.rules.compacted


def test_configure_reaches_the_log() -> None:
    partition = new_partition()
    partition.configure(type(partition.config)(message_timestamp_type="LogAppendTime", retention_ms=7))
    assert 7 == partition.log.config.retention_ms
    answer = partition.append_client(batch(timestamp=1), now=NOW)
    assert isinstance(answer, Appended)
    assert NOW == answer.log_append_time


# -- facts


def test_facts_are_kept_only_if_somebody_wants_them() -> None:
    leader = Leader()
    leader.produce(0, 0)
    assert leader.partition.facts is None


def test_facts_tell_what_happens_to_transactions() -> None:
    leader = Leader()
    leader.partition.facts = []
    leader.partition.append_client(batch(), now=NOW)
    leader.produce(0, 0)
    leader.append(0, 1)
    leader.marker(2, 1, commit=False)
    leader.marker(2, 1, commit=False)
    here = {"topic": "topic", "partition": 0}
    producer = {"producer_id": 7}
    marker = {**here, **producer, "producer_epoch": 1, "offset": 3, "commit": False}
    assert [
        ("lso_moved", {**here, "hw": 1, "lso": 1}),
        ("transaction_opened", {**here, **producer, "producer_epoch": 0, "offset": 1}),
        ("marker_written", marker),
        ("transaction_closed", {**marker, "first_offset": 1}),
        ("lso_moved", {**here, "hw": 4, "lso": 4}),
        ("marker_written", {**marker, "offset": 4}),
        ("lso_moved", {**here, "hw": 5, "lso": 5}),
    ] == [(fact.kind, fact.fields) for fact in leader.partition.facts]


def test_a_coordinators_transactional_batch_holds_the_stable_offset() -> None:
    partition = new_partition()
    guard = partition.begin_verification(7, 0, -1, supports_epoch_bump=True, now=NOW)
    assert not isinstance(guard, Refused)
    producer = TransactionalAppend(7, 0)
    records = [LogRecord(b"k", b"v")]
    assert ErrorCode.INVALID_TXN_STATE is error(partition.append_coordinator(records, now=NOW, producer=producer))
    answer = partition.append_coordinator(records, now=NOW, producer=producer, guard=guard)  # type: ignore[arg-type]
    assert Appended(0, 1, -1, 0) == answer
    again = partition.append_coordinator(records, now=NOW, producer=producer)
    assert Appended(1, 2, -1, 0) == again
    assert (0, 2) == (partition.last_stable_offset, partition.high_watermark)
