from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.unit.records.helpers import CODECS, NOW, framed, parsed, patched, payload_of, plain, records

from odradek.records.batch import InvalidBatch, TimestampType, parse_batch, record_payload
from odradek.records.compression import Compression
from odradek.records.record import Record, build_batch, iterate_records
from odradek.wire.errors import ErrorCode


@examples(50)
@given(st.lists(records, min_size=1, max_size=8), st.sampled_from(Compression), st.integers(0, 2**50))
def test_records_come_back(built: list[Record], codec: Compression, base_offset: int) -> None:
    batch = parsed(build_batch(built, base_offset=base_offset, compression=codec))
    assert batch.crc_is_valid()
    read = list(iterate_records(batch))
    assert [base_offset + index for index in range(len(built))] == [record.offset for record in read]
    for before, after in zip(built, read, strict=True):
        assert (before.timestamp, before.key, before.value) == (after.timestamp, after.key, after.value)
        assert before.headers == after.headers
    assert max(record.timestamp for record in built) == batch.max_timestamp


def test_sequences_count_from_the_first_and_wrap() -> None:
    batch = parsed(build_batch(plain(4), producer_id=1, producer_epoch=0, base_sequence=2147483646))
    assert [2147483646, 2147483647, 0, 1] == [record.sequence for record in iterate_records(batch)]


def test_compaction_leaves_gaps_and_keeps_the_last_offset() -> None:
    kept = [Record(offset=103, timestamp=NOW, value=b"a"), Record(offset=107, timestamp=NOW + 1, value=b"b")]
    batch = parsed(
        build_batch(kept, base_offset=100, last_offset=120, producer_id=3, producer_epoch=0, base_sequence=50)
    )
    assert (100, 120, 2) == (batch.base_offset, batch.last_offset, batch.record_count)
    assert 70 == batch.last_sequence
    assert [(103, 53), (107, 57)] == [(record.offset, record.sequence) for record in iterate_records(batch)]


def test_an_offset_left_out_follows_the_one_before() -> None:
    mixed = [Record(offset=5), Record(), Record(offset=9), Record()]
    assert [5, 6, 9, 10] == [record.offset for record in iterate_records(parsed(build_batch(mixed, base_offset=5)))]


def test_a_batch_can_be_empty() -> None:
    batch = parsed(build_batch((), base_offset=10, last_offset=19, producer_id=1, producer_epoch=2, base_sequence=832))
    assert (10, 19, 0) == (batch.base_offset, batch.last_offset, batch.record_count)
    assert (841, -1, -1) == (batch.last_sequence, batch.base_timestamp, batch.max_timestamp)
    assert [] == list(iterate_records(batch))


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    tombstones = [Record(timestamp=NOW, key=b"k"), Record(timestamp=NOW - 5, key=b"l")]
    batch = parsed(build_batch(tombstones, delete_horizon_ms=NOW + 86_400_000))
    assert NOW + 86_400_000 == batch.delete_horizon_ms == batch.base_timestamp
    assert [NOW, NOW - 5] == [record.timestamp for record in iterate_records(batch)]


def test_log_append_time_is_the_time_of_every_record() -> None:
    batch = parsed(
        build_batch(plain(3, step=7), timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=NOW + 1000)
    )
    assert [NOW + 1000] * 3 == [record.timestamp for record in iterate_records(batch)]


def test_timestamps_overflow_as_in_java() -> None:
    extreme = [Record(timestamp=2**63 - 1), Record(timestamp=-(2**63))]
    assert [2**63 - 1, -(2**63)] == [record.timestamp for record in iterate_records(parsed(build_batch(extreme)))]


def test_a_header_name_that_is_no_utf8_survives() -> None:
    name = b"\xff\xfe"
    payload = bytearray(payload_of([Record(timestamp=NOW, headers=(("ab", b"x"),))]))
    at = payload.index(b"ab")
    payload[at : at + 2] = name
    (record,) = iterate_records(parsed(framed(payload)))
    assert bytes(payload) == payload_of([record])


BODY = payload_of(plain(1))
KEY_AT = 4  # behind length, attributes, timestamp delta and offset delta


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (BODY, 2),
        (BODY + BODY, 1),
        (BODY + b"z", 1),
        (b"", 1),
        (BODY, -1),
        (patched(BODY, 0, b"\x7e"), 1),
        (patched(BODY, 0, b"\x03"), 1),
        (patched(BODY, 0, b"\x04"), 1),
        (b"\x00", 1),
        (b"\x80", 1),
        (b"\xff" * 30, 1),
        (patched(BODY, KEY_AT, b"\x70"), 1),
        (patched(BODY, KEY_AT, b"\xfe"), 1),
        (patched(BODY, len(BODY) - 1, b"\x7e"), 1),
        (patched(BODY, len(BODY) - 1, b"\x01"), 1),
        (payload_of([Record(headers=(("name", b"v"),))]).replace(b"\x08name", b"\x01name"), 1),
    ],
    ids=lambda value: value.hex() if isinstance(value, bytes) else str(value),
)
@pytest.mark.parametrize("codec", Compression)
def test_sizes_and_counts_that_lie_are_refused(payload: bytes, count: int, codec: Compression) -> None:
    with pytest.raises(InvalidBatch) as caught:
        list(iterate_records(parsed(framed(payload, count, attributes=codec))))
    assert ErrorCode.INVALID_RECORD is caught.value.error


@given(st.binary(max_size=100), st.integers(-2, 2**31 - 1))
def test_any_payload_ends_in_records_or_in_invalid_batch(payload: bytes, count: int) -> None:
    batch = parsed(framed(payload, count, last_offset_delta=0))
    error = None
    try:
        assert count == len(list(iterate_records(batch)))
    except InvalidBatch as invalid:
        error = invalid.error
    assert error in (None, ErrorCode.INVALID_RECORD)


@pytest.mark.parametrize("codec", CODECS)
def test_a_payload_is_decompressed_up_to_a_limit(codec: Compression) -> None:
    batch = parsed(build_batch(plain(50), compression=codec))
    payload = payload_of(plain(50))
    assert payload == record_payload(batch, limit=len(payload))
    with pytest.raises(InvalidBatch) as caught:
        record_payload(batch, limit=len(payload) - 1)
    assert ErrorCode.MESSAGE_TOO_LARGE is caught.value.error


def test_damage_in_a_compressed_payload_is_an_invalid_batch() -> None:
    data = bytearray(build_batch(plain(50), compression=Compression.GZIP))
    data[-20] ^= 0xFF
    with pytest.raises(InvalidBatch) as caught:
        iterate_records(parse_batch(memoryview(data)))
    assert ErrorCode.UNKNOWN_SERVER_ERROR is caught.value.error
