from __future__ import annotations

import pytest
from tests.unit.records.helpers import NOW, converted, converted_batch, parsed, plain

from odradek.records.batch import Batch, InvalidBatch, TimestampType
from odradek.records.compression import Compression
from odradek.records.control import end_txn_marker
from odradek.records.legacy import down_convert, entries, read_messages
from odradek.records.message_set import Message, iterate_messages, message_set
from odradek.records.record import Record, build_batch, iterate_records
from odradek.records.validate import TopicRules
from odradek.wire.errors import ErrorCode

OLD_CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
SOME = [Record(offset=index, timestamp=NOW + index, key=b"k", value=b"v%d" % index) for index in range(3)]


def all_records(data: bytes) -> list[Record]:
    return [
        record
        for entry in entries(memoryview(data))
        for record in (iterate_messages(entry) if isinstance(entry, Message) else iterate_records(entry))
    ]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_old_messages_become_one_batch(magic: int, codec: Compression) -> None:
    batch = converted_batch(message_set(SOME, magic=magic, compression=codec), NOW)
    assert batch.crc_is_valid()
    assert codec is batch.compression
    assert (0, 2, -1, -1) == (batch.base_offset, batch.last_offset, batch.producer_id, batch.base_sequence)
    times = [NOW, NOW + 1, NOW + 2] if magic else [-1, -1, -1]
    assert times[-1] == batch.max_timestamp
    assert times == [record.timestamp for record in iterate_records(batch)]
    assert [(b"k", b"v0"), (b"k", b"v1"), (b"k", b"v2")] == [(r.key, r.value) for r in iterate_records(batch)]


def test_offsets_of_producers_do_not_count() -> None:
    odd = [Record(offset=7, value=b"a"), Record(offset=7, value=b"b"), Record(offset=0, value=b"c")]
    batch = converted_batch(message_set(odd, magic=0), NOW)
    assert [0, 1, 2] == [record.offset for record in iterate_records(batch)]


def test_another_compression_and_the_time_of_the_broker() -> None:
    data = message_set(SOME, magic=1)
    rules = TopicRules(compression_type="zstd", message_timestamp_type="LogAppendTime")
    batch = converted_batch(data, NOW + 50, rules)
    assert Compression.ZSTD is batch.compression
    assert [NOW + 50] * 3 == [record.timestamp for record in iterate_records(batch)]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (message_set(SOME, magic=0) + message_set(SOME, magic=1), ErrorCode.INVALID_RECORD),
        (message_set(SOME, magic=1) + build_batch(plain()), ErrorCode.INVALID_RECORD),
        (message_set(SOME, magic=1, compression=Compression.GZIP) * 2, ErrorCode.INVALID_RECORD),
        (
            message_set(SOME, magic=1) + message_set(SOME, magic=1, compression=Compression.LZ4),
            ErrorCode.INVALID_RECORD,
        ),
        (message_set(SOME, magic=1)[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_what_producers_may_not_send(data: bytes, error: ErrorCode) -> None:
    assert error is converted(data, NOW)


def test_messages_and_their_records_are_both_of_interest() -> None:
    messages, records = read_messages(memoryview(message_set(SOME, magic=1, compression=Compression.GZIP)))
    assert (1, 3) == (len(messages), len(records))


def test_a_set_may_mix_all_formats() -> None:
    data = message_set(SOME, magic=0) + message_set(SOME, magic=1) + build_batch(plain())
    kinds = [type(entry) for entry in entries(memoryview(data + b"partial"))]
    assert [Message] * 6 + [Batch] == kinds


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_batches_become_old_messages(magic: int, codec: Compression) -> None:
    built = [Record(timestamp=NOW + 1, key=b"k", value=b"v", headers=(("h", b"x"),)), Record(timestamp=NOW, value=b"w")]
    data = build_batch(built, base_offset=500, compression=codec, producer_id=1, producer_epoch=0, base_sequence=0)
    old = down_convert(memoryview(data), magic)
    assert all(entry.crc_is_valid() and magic == entry.magic for entry in entries(memoryview(old)))
    expected = [
        Record(offset=500, timestamp=NOW + 1 if magic else -1, key=b"k", value=b"v"),
        Record(offset=501, timestamp=NOW if magic else -1, value=b"w"),
    ]
    assert expected == all_records(old)


def test_markers_do_not_reach_old_clients() -> None:
    marker = end_txn_marker(producer_id=1, producer_epoch=0, commit=True, coordinator_epoch=0, timestamp=NOW)
    transactional = build_batch(plain(1), transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    old = down_convert(memoryview(transactional + bytes(marker.view) + build_batch(plain(1), base_offset=2)), 1)
    assert [0, 2] == [record.offset for record in all_records(old)]


def test_gaps_of_compaction_stay() -> None:
    kept = [Record(offset=103, timestamp=NOW, value=b"a"), Record(offset=107, timestamp=NOW, value=b"b")]
    for codec in OLD_CODECS:
        for magic in (0, 1):
            data = build_batch(kept, base_offset=100, last_offset=120, compression=codec)
            assert [103, 107] == [record.offset for record in all_records(down_convert(memoryview(data), magic))]


def test_empty_batches_vanish() -> None:
    data = build_batch((), last_offset=5) + build_batch(plain(1), base_offset=6)
    assert [6] == [record.offset for record in all_records(down_convert(memoryview(data), 1))]


def test_uncompressed_records_begin_where_the_client_is() -> None:
    data = build_batch(plain(4)) + build_batch(plain(4), base_offset=4, compression=Compression.GZIP)
    assert [3, 4, 5, 6, 7] == [r.offset for r in all_records(down_convert(memoryview(data), 1, first_offset=3))]
    assert [4, 5, 6, 7] == [r.offset for r in all_records(down_convert(memoryview(data), 1, first_offset=6))]


def test_the_time_of_the_broker_stays_the_time_of_the_broker() -> None:
    data = build_batch(plain(2), timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=NOW + 9)
    old = down_convert(memoryview(data), 1)
    assert [NOW + 9] * 2 == [record.timestamp for record in all_records(old)]
    assert {TimestampType.LOG_APPEND_TIME} == {entry.timestamp_type for entry in entries(memoryview(old))}


def test_zstd_cannot_be_given_to_old_clients() -> None:
    with pytest.raises(InvalidBatch) as caught:
        down_convert(memoryview(build_batch(plain(), compression=Compression.ZSTD)), 1)
    assert ErrorCode.UNSUPPORTED_COMPRESSION_TYPE is caught.value.error


def test_there_and_back_again() -> None:
    data = build_batch(plain(20, step=3), compression=Compression.LZ4)
    assert list(iterate_records(parsed(data))) == list(
        iterate_records(converted_batch(down_convert(memoryview(data), 1), NOW))
    )
