"""ListOffsets: special timestamps, and the first record at or after a time."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.log.helpers import NOW, Leader, batch, new_log, new_partition

from odradek.log.offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    OffsetAnswer,
)
from odradek.log.partition import Partition
from odradek.records.compression import Compression
from odradek.records.record import Record

UNKNOWN = OffsetAnswer(-1, -1, -1)
SPECIAL = [LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD]


def partition_with(*timestamps: int, **config: Any) -> Partition:
    partition = new_partition(new_log(**config), leader_epoch=4)
    for timestamp in timestamps:
        partition.append_client(batch(timestamp=timestamp), now=NOW)
    return partition


@pytest.mark.parametrize(
    ("timestamp", "answer"),
    [
        (LATEST, OffsetAnswer(4, -1, 4)),
        (EARLIEST, OffsetAnswer(0, -1, 4)),
        (MAX_TIMESTAMP, OffsetAnswer(1, 30, 4)),
        (EARLIEST_LOCAL, OffsetAnswer(0, -1, 4)),
        (LATEST_TIERED, UNKNOWN),
        (EARLIEST_PENDING_UPLOAD, UNKNOWN),
        (0, OffsetAnswer(0, 10, 4)),
        (11, OffsetAnswer(1, 30, 4)),
        (30, OffsetAnswer(1, 30, 4)),
        (31, UNKNOWN),
    ],
)
def test_answers(timestamp: int, answer: OffsetAnswer) -> None:
    assert answer == partition_with(10, 30, 20, 30).list_offset(timestamp)
    assert answer == partition_with(10, 30, 20, 30, segment_bytes=1).list_offset(timestamp)


@pytest.mark.parametrize("timestamp", SPECIAL)
def test_an_empty_partition(timestamp: int) -> None:
    expected = OffsetAnswer(0, -1, 4) if timestamp in (LATEST, EARLIEST, EARLIEST_LOCAL) else UNKNOWN
    assert expected == partition_with().list_offset(timestamp)


def test_earliest_is_the_log_start_with_its_epoch() -> None:
    partition = partition_with(1, 2, 3)
    partition.delete_records(2)
    partition = new_partition(partition.log, leader_epoch=9)
    assert OffsetAnswer(2, -1, 4) == partition.list_offset(EARLIEST)
    assert OffsetAnswer(3, -1, 9) == partition.list_offset(LATEST)
    assert OffsetAnswer(2, 3, 4) == partition.list_offset(1)


def test_the_greatest_timestamp_counts_what_was_deleted_within_a_segment() -> None:
    """As recorded, a real Kafka 4.4 that was started again tells an offset below the start, too."""
    partition = partition_with(30, 50, 20, 30)
    partition.delete_records(2)
    assert OffsetAnswer(1, 50, 4) == partition.list_offset(MAX_TIMESTAMP)


def test_the_greatest_timestamp_is_that_of_the_first_of_several_batches_before_the_start() -> None:
    partition = partition_with(10, 50, 50)
    partition.delete_records(2)
    assert OffsetAnswer(1, 50, 4) == partition.list_offset(MAX_TIMESTAMP)


def test_the_greatest_timestamp_of_segments_that_were_deleted_is_gone() -> None:
    partition = partition_with(30, 50, 20, 30, segment_bytes=1)
    partition.delete_records(2)
    assert OffsetAnswer(3, 30, 4) == partition.list_offset(MAX_TIMESTAMP)


@pytest.mark.parametrize("compression", list(Compression))
def test_the_record_is_found_within_its_batch(compression: Compression) -> None:
    partition = partition_with(5)
    records = [Record(timestamp=timestamp, value=b"v") for timestamp in (20, 40, 30, 40)]
    partition.append_client(batch(*records, compression=compression), now=NOW)
    assert OffsetAnswer(2, 40, 4) == partition.list_offset(25)
    assert OffsetAnswer(2, 40, 4) == partition.list_offset(MAX_TIMESTAMP)


def test_deleted_records_of_a_batch_are_not_found() -> None:
    partition = partition_with()
    partition.append_client(batch(*[Record(timestamp=time, value=b"v") for time in (10, 20, 30)]), now=NOW)
    partition.delete_records(1)
    assert OffsetAnswer(1, 20, 4) == partition.list_offset(5)


def test_with_log_append_time_a_batch_has_one_time() -> None:
    partition = partition_with(message_timestamp_type="LogAppendTime")
    partition.append_client(batch(b"a", b"b", timestamp=5), now=NOW)
    assert OffsetAnswer(0, NOW, 4) == partition.list_offset(MAX_TIMESTAMP)
    assert OffsetAnswer(0, NOW, 4) == partition.list_offset(NOW)
    assert UNKNOWN == partition.list_offset(NOW + 1)


def test_a_batch_that_cannot_be_read_is_found_by_its_header() -> None:
    partition = partition_with()
    broken = batch(b"v", timestamp=50)
    damaged = bytearray(broken.view)
    damaged[61] = 0x7F
    broken.view = memoryview(bytes(damaged))
    partition.append_client(broken, now=NOW)
    assert OffsetAnswer(0, 50, 4) == partition.list_offset(50)


def test_a_committed_reader_sees_up_to_the_last_stable_offset() -> None:
    leader = Leader(partition_with(10))
    leader.produce(0, 0)
    leader.partition.append_client(batch(timestamp=NOW + 9), now=NOW)
    assert 3 == leader.partition.list_offset(LATEST).offset
    assert 1 == leader.partition.list_offset(LATEST, read_committed=True).offset
    assert 2 == leader.partition.list_offset(MAX_TIMESTAMP).offset
    # The greatest timestamp is not stable yet: that is no reason to name a smaller one.
    assert UNKNOWN == leader.partition.list_offset(MAX_TIMESTAMP, read_committed=True)
    assert UNKNOWN == leader.partition.list_offset(NOW, read_committed=True)
    assert 0 == leader.partition.list_offset(5, read_committed=True).offset


def test_old_style_lists_where_segments_begin() -> None:
    partition = partition_with(NOW, NOW + 10, NOW + 20, segment_bytes=1)
    assert [3, 2, 1, 0] == partition.offsets_before(LATEST)
    assert [0] == partition.offsets_before(EARLIEST)
    assert [1, 0] == partition.offsets_before(NOW + 19)
    assert [] == partition.offsets_before(NOW - 1)
    assert [0] == partition_with().offsets_before(LATEST)
