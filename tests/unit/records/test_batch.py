from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.records.helpers import NOW, framed, parsed, patched, plain

from odradek.records.batch import (
    LOG_APPEND_TIME,
    InvalidBatch,
    TimestampType,
    batches,
    increment_sequence,
    parse_batch,
    stamp,
    whole_size_at,
)
from odradek.records.compression import Compression
from odradek.records.record import build_batch
from odradek.wire.errors import ErrorCode


def test_every_header_field_is_read() -> None:
    data = build_batch(
        plain(3, step=5),
        base_offset=70,
        compression=Compression.GZIP,
        producer_id=9,
        producer_epoch=4,
        base_sequence=100,
        transactional=True,
        leader_epoch=16,
    )
    batch = parsed(data)
    assert (70, 72, 73) == (batch.base_offset, batch.last_offset, batch.next_offset)
    assert (16, 2, 3) == (batch.partition_leader_epoch, batch.magic, batch.record_count)
    assert (NOW, NOW + 10) == (batch.base_timestamp, batch.max_timestamp)
    assert (9, 4, 100, 102) == (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence)
    assert batch.is_transactional
    assert batch.has_producer_id
    assert not batch.is_control
    assert batch.compression is Compression.GZIP
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert batch.delete_horizon_ms is None
    assert len(data) == batch.size
    assert batch.crc_is_valid()


def test_a_batch_is_a_view_and_not_a_copy() -> None:
    buffer = bytearray(b"xx" + build_batch(plain()) + b"yy")
    batch = parse_batch(memoryview(buffer), 2)
    assert batch.view.obj is buffer
    buffer[-3] ^= 1
    assert not batch.crc_is_valid()


def test_no_producer_means_no_sequence() -> None:
    batch = parsed(build_batch(plain()))
    assert -1 == batch.last_sequence
    assert not batch.has_producer_id


@pytest.mark.parametrize(
    ("sequence", "increment", "expected"),
    [(0, 1, 1), (2147483647, 0, 2147483647), (2147483647, 1, 0), (2147483646, 3, 1), (5, 2147483647, 4)],
)
def test_sequences_wrap_behind_the_largest_int(sequence: int, increment: int, expected: int) -> None:
    assert expected == increment_sequence(sequence, increment)


def test_the_last_sequence_of_a_batch_wraps() -> None:
    batch = parsed(build_batch(plain(3), producer_id=1, producer_epoch=0, base_sequence=2147483646))
    assert 0 == batch.last_sequence


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", ErrorCode.CORRUPT_MESSAGE),
        (build_batch(plain())[:60], ErrorCode.CORRUPT_MESSAGE),
        (build_batch(plain())[:-1], ErrorCode.CORRUPT_MESSAGE),
        (patched(build_batch(plain()), 16, b"\3"), ErrorCode.CORRUPT_MESSAGE),
        (patched(build_batch(plain()), 8, (48).to_bytes(4)), ErrorCode.CORRUPT_MESSAGE),
        (patched(build_batch(plain()), 8, (-1).to_bytes(4, signed=True)), ErrorCode.CORRUPT_MESSAGE),
        (patched(build_batch(plain()), 8, (2**31 - 1).to_bytes(4)), ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_what_is_no_whole_batch_is_refused(data: bytes, error: ErrorCode) -> None:
    with pytest.raises(InvalidBatch) as caught:
        parse_batch(memoryview(data))
    assert error is caught.value.error


def test_a_codec_that_nobody_has_defined_is_refused_when_asked_for() -> None:
    batch = parsed(framed(b"x", attributes=5))
    with pytest.raises(InvalidBatch) as caught:
        _ = batch.compression
    assert ErrorCode.UNKNOWN_SERVER_ERROR is caught.value.error


def test_batches_end_at_a_partial_tail() -> None:
    one, two = build_batch(plain()), build_batch(plain(5), base_offset=2)
    for cut in range(len(two)):
        assert [0] == [batch.base_offset for batch in batches(memoryview(one + two[:cut]))]
    assert [0, 2] == [batch.base_offset for batch in batches(memoryview(one + two))]


def test_batches_do_not_step_over_what_is_wrong() -> None:
    one = build_batch(plain())
    with pytest.raises(InvalidBatch, match="Invalid magic found in record: -1"):
        list(batches(memoryview(one + patched(one, 16, b"\xff"))))
    with pytest.raises(InvalidBatch, match="Record size 13 is less than the minimum record overhead"):
        list(batches(memoryview(one + patched(one, 8, (13).to_bytes(4)))))


@given(st.binary(max_size=120), st.integers(0, 20))
def test_any_bytes_end_in_batches_or_in_invalid_batch(data: bytes, position: int) -> None:
    view = memoryview(data)
    error = None
    try:
        whole_size_at(view, min(position, len(data)))
        for batch in batches(view):
            batch.crc_is_valid()
    except InvalidBatch as invalid:
        error = invalid.error
    assert error in (None, ErrorCode.CORRUPT_MESSAGE)


def test_offset_and_epoch_are_stamped_outside_the_checksum() -> None:
    data = build_batch(plain())
    buffer = bytearray(b"??" + data)
    stamp(buffer, 2, base_offset=2**40, leader_epoch=7)
    batch = parse_batch(memoryview(buffer), 2)
    assert (2**40, 7) == (batch.base_offset, batch.partition_leader_epoch)
    assert batch.crc_is_valid()
    assert data[16:] == batch.view[16:]


def test_log_append_time_is_stamped_with_a_new_checksum() -> None:
    buffer = bytearray(build_batch(plain()))
    stamp(buffer, 0, base_offset=1, leader_epoch=0, max_timestamp=NOW + 99, log_append_time=True)
    batch = parsed(buffer)
    assert TimestampType.LOG_APPEND_TIME is batch.timestamp_type
    assert NOW + 99 == batch.max_timestamp
    assert batch.crc_is_valid()


def test_create_time_takes_log_append_time_away_again() -> None:
    buffer = bytearray(framed(b"", 0, attributes=LOG_APPEND_TIME))
    stamp(buffer, 0, base_offset=0, leader_epoch=0, max_timestamp=NOW)
    batch = parsed(buffer)
    assert TimestampType.CREATE_TIME is batch.timestamp_type
    assert batch.crc_is_valid()


def test_a_checksum_is_computed_again_only_if_it_must() -> None:
    buffer = bytearray(patched(build_batch(plain(1)), 17, b"\0\0\0\0"))
    stamp(buffer, 0, base_offset=0, leader_epoch=0, max_timestamp=NOW)
    assert not parsed(buffer).crc_is_valid()
    stamp(buffer, 0, base_offset=0, leader_epoch=0, max_timestamp=NOW + 1)
    assert parsed(buffer).crc_is_valid()


def test_only_the_bytes_of_its_batch_are_stamped() -> None:
    one = build_batch(plain())
    buffer = bytearray(one * 3)
    with memoryview(buffer) as view:
        stamp(view, len(one), base_offset=8, leader_epoch=1, max_timestamp=NOW + 7)
    assert one == buffer[: len(one)] == buffer[2 * len(one) :]
    assert [0, 8, 0] == [batch.base_offset for batch in batches(memoryview(buffer))]
    assert all(batch.crc_is_valid() for batch in batches(memoryview(buffer)))
