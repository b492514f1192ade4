"""The codes and texts are those that a Kafka 4.4.0 broker answered for the same bytes."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.records.helpers import CODECS, NOW, framed, patched, payload_of, plain, resealed

from odradek.records.batch import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, TimestampType
from odradek.records.compression import Compression
from odradek.records.message_set import message_set
from odradek.records.record import Record, build_batch, iterate_records
from odradek.records.validate import Rejected, TakesLong, TopicRules, Validated, validate_produce
from odradek.wire.errors import ErrorCode

PLAIN = TopicRules(name="plain")
COMPACTED = TopicRules(name="compacted", compacted=True)
STAMPED = TopicRules(name="stamped", message_timestamp_type="LogAppendTime")
BODY = payload_of(plain(1))
TWO = payload_of(plain(2, step=0))
GOOD = build_batch(plain())
OLD = [Record(offset=index, timestamp=NOW, key=b"k", value=b"v") for index in range(3)]


def validate(data: bytes | None, topic: TopicRules = PLAIN, *, version: int = 9) -> Validated | Rejected:
    return validate_produce(
        None if data is None else memoryview(data), produce_version=version, topic=topic, now=NOW, partition=4
    )


def accepted(data: bytes, topic: TopicRules = PLAIN, *, version: int = 9) -> Validated:
    validated = validate(data, topic, version=version)
    assert isinstance(validated, Validated), validated
    assert validated.batch.crc_is_valid()
    return validated


def refused(data: bytes | None, topic: TopicRules = PLAIN, *, version: int = 9) -> Rejected:
    rejected = validate(data, topic, version=version)
    assert isinstance(rejected, Rejected), rejected
    assert rejected.reason
    return rejected


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("topic", [PLAIN, COMPACTED])
def test_the_usual_batch_goes_on_as_it_came(codec: Compression, topic: TopicRules) -> None:
    data = build_batch(plain(100), compression=codec, producer_id=5, producer_epoch=0, base_sequence=7)
    validated = accepted(data, topic)
    assert validated.batch.view.obj is data
    assert -1 == validated.log_append_time


def large(*, step: int = 0) -> bytes:
    """A batch of large records."""
    headers = (("h", b"v"),)
    return build_batch(
        [Record(timestamp=NOW + step * index, key=b"k", value=b"v" * 50_000, headers=headers) for index in range(12)]
    )


def test_large_records_are_looked_at_where_they_lie() -> None:
    data = large()
    accepted(data)
    tracemalloc.start()
    try:
        accepted(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000 < len(data)


def test_large_records_are_refused_or_rewritten_as_small_ones_are() -> None:
    data = large(step=PLAIN.message_timestamp_after_max_ms // 4)
    assert [5, 6, 7, 8, 9, 10, 11] == [index for index, _ in refused(data).record_errors]
    assert b"\2k" == data[67:69], "a key of one byte"
    assert ErrorCode.INVALID_RECORD is refused(resealed(patched(large(), 67, b"\4"))).error
    stamped = accepted(large(), STAMPED)
    assert NOW == stamped.log_append_time == stamped.batch.max_timestamp
    assert [b"k"] * 12 == [record.key for record in iterate_records(stamped.batch)]


@pytest.mark.parametrize("tail", [b"12345", GOOD[:40], GOOD[:-1]])
def test_a_partial_batch_behind_the_first_does_not_count(tail: bytes) -> None:
    assert GOOD == accepted(GOOD + tail).batch.view


@pytest.mark.parametrize(
    ("data", "version", "error"),
    [
        (None, 9, ErrorCode.INVALID_RECORD),
        (b"", 9, ErrorCode.INVALID_RECORD),
        (GOOD[:11], 9, ErrorCode.INVALID_RECORD),
        (GOOD[:30], 9, ErrorCode.INVALID_RECORD),
        (GOOD[:-1], 9, ErrorCode.INVALID_RECORD),
        (GOOD + GOOD, 9, ErrorCode.INVALID_RECORD),
        (GOOD + GOOD, 2, ErrorCode.INVALID_RECORD),
        (GOOD + patched(GOOD, 16, b"\7"), 9, ErrorCode.CORRUPT_MESSAGE),
        (GOOD + patched(GOOD, 8, b"\0\0\0\3"), 9, ErrorCode.CORRUPT_MESSAGE),
        (patched(GOOD, 16, b"\3"), 9, ErrorCode.CORRUPT_MESSAGE),
        (patched(GOOD, 16, b"\xff"), 9, ErrorCode.CORRUPT_MESSAGE),
        (patched(GOOD, 16, b"\1"), 9, ErrorCode.INVALID_RECORD),
        (message_set(OLD, magic=1), 3, ErrorCode.INVALID_RECORD),
        (patched(GOOD, 8, (13).to_bytes(4)), 9, ErrorCode.CORRUPT_MESSAGE),
        (patched(GOOD, 8, (20).to_bytes(4)), 9, ErrorCode.CORRUPT_MESSAGE),
        (patched(GOOD, 8, (48).to_bytes(4)), 9, ErrorCode.CORRUPT_MESSAGE),
        (patched(GOOD, 8, b"\xff\xff\xff\xff"), 9, ErrorCode.CORRUPT_MESSAGE),
        (build_batch(plain(), compression=Compression.ZSTD), 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_what_the_request_may_not_be(data: bytes | None, version: int, error: ErrorCode) -> None:
    assert error is refused(data, version=version).error


def test_zstd_came_with_produce_7() -> None:
    accepted(build_batch(plain(), compression=Compression.ZSTD), version=7)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (patched(GOOD, len(GOOD) - 1, b"\x55"), ErrorCode.CORRUPT_MESSAGE),
        (build_batch(plain(), base_offset=5), ErrorCode.INVALID_RECORD),
        (patched(GOOD, 0, b"\xff" * 8), ErrorCode.INVALID_RECORD),
        (build_batch(plain(), control=True), ErrorCode.INVALID_RECORD),
        (build_batch(plain(), producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD),
        (framed(TWO, 2, last_offset_delta=5), ErrorCode.INVALID_RECORD),
        (framed(b"", 0), ErrorCode.INVALID_RECORD),
        (framed(b"", 0, last_offset_delta=0), ErrorCode.INVALID_RECORD),
        (framed(BODY, 1, last_offset_delta=-5), ErrorCode.INVALID_RECORD),
        (framed(BODY, -1, last_offset_delta=-2), ErrorCode.INVALID_RECORD),
        (framed(BODY, attributes=5), ErrorCode.UNKNOWN_SERVER_ERROR),
        (framed(BODY, attributes=CONTROL | TRANSACTIONAL), ErrorCode.INVALID_RECORD),
    ],
)
def test_what_a_header_may_not_say(data: bytes, error: ErrorCode) -> None:
    rejected = refused(data)
    assert (error, None, ()) == (rejected.error, rejected.message, rejected.record_errors)


@pytest.mark.parametrize(
    "data",
    [
        build_batch(plain(), transactional=True),
        build_batch(plain(), producer_id=77, producer_epoch=-1, base_sequence=0),
        build_batch(plain(), producer_id=-2, producer_epoch=0, base_sequence=0),
        build_batch(plain(), producer_epoch=0, base_sequence=5),
        framed(BODY, attributes=0x7F00),
        framed(patched(BODY, 1, b"\x07")),
        framed(patched(BODY, 3, b"\x12")),
    ],
)
def test_what_kafka_takes_all_the_same(data: bytes) -> None:
    assert data == accepted(data).batch.view


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (TWO, 3),
        (TWO, 1),
        (TWO + b"z", 2),
        (patched(BODY, 0, b"\x7e"), 1),
        (patched(BODY, 0, b"\x03"), 1),
        (patched(BODY, 4, b"\x70"), 1),
        (patched(BODY, len(BODY) - 1, b"\x7e"), 1),
        (payload_of(plain(500)), 501),
        (payload_of(plain(500))[:-1], 500),
    ],
)
def test_counts_and_sizes_that_lie(payload: bytes, count: int, codec: Compression) -> None:
    assert ErrorCode.INVALID_RECORD is refused(framed(payload, count, attributes=codec)).error


@pytest.mark.parametrize("codec", CODECS)
def test_damage_under_a_right_checksum(codec: Compression) -> None:
    data = resealed(patched(framed(b"no compressed data"), 22, bytes([codec])))
    assert ErrorCode.UNKNOWN_SERVER_ERROR is refused(data).error


def test_sizes_are_limited() -> None:
    small = replace(PLAIN, max_message_bytes=500)
    exact = build_batch([Record(timestamp=NOW, value=b"x" * 430)])
    assert 500 == len(exact)
    accepted(exact, small)
    assert ErrorCode.MESSAGE_TOO_LARGE is refused(build_batch([Record(timestamp=NOW, value=b"x" * 431)]), small).error


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_too_large(codec: Compression) -> None:
    limited = replace(PLAIN, decompressed_bytes_max=10_000)
    bomb = build_batch([Record(timestamp=NOW, value=bytes(100_000))], compression=codec)
    assert ErrorCode.MESSAGE_TOO_LARGE is refused(bomb, limited).error
    accepted(bomb)


# Timestamps

HOUR_MS = 3_600_000
BOUNDED = TopicRules(name="bounded", message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=1000)


@pytest.mark.parametrize("codec", Compression)
def test_timestamps_out_of_bounds_are_listed(codec: Compression) -> None:
    times = [NOW - 1001, NOW - 1000, NOW, -1, NOW + 1000, NOW + 1001]
    rejected = refused(build_batch([Record(timestamp=time) for time in times], compression=codec), BOUNDED)
    assert ErrorCode.INVALID_TIMESTAMP is rejected.error
    assert "One or more records have been rejected due to invalid timestamp" == rejected.message
    bounds = f"is out of range. The timestamp should be within [{NOW - 1000}, {NOW + 1000}]"
    assert (
        (0, f"Timestamp {NOW - 1001} of message with offset 0 {bounds}"),
        (5, f"Timestamp {NOW + 1001} of message with offset 5 {bounds}"),
    ) == rejected.record_errors


@pytest.mark.parametrize("before", [3, 50])
def test_a_record_may_be_older_than_the_first(before: int) -> None:
    times = [NOW] * before + [NOW - 1001]
    rejected = refused(build_batch([Record(timestamp=time) for time in times]), BOUNDED)
    assert [before] == [index for index, _ in rejected.record_errors]


@pytest.mark.parametrize("count", [1, 5, 300])
def test_timestamps_at_the_bounds_pass(count: int) -> None:
    for time in (NOW - 1000, NOW, NOW + 1000, -1):
        data = build_batch([Record(timestamp=time, value=b"v") for _ in range(count)])
        assert data == accepted(data, BOUNDED).batch.view


def test_the_default_lets_nobody_live_an_hour_ahead() -> None:
    accepted(build_batch([Record(timestamp=NOW + HOUR_MS)]))
    accepted(build_batch([Record(timestamp=0)]))
    assert ErrorCode.INVALID_TIMESTAMP is refused(build_batch([Record(timestamp=NOW + HOUR_MS + 1)])).error


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("lie", [-100_000, -1, 1, 100_000_000])
@pytest.mark.parametrize("count", [1, 40])
def test_a_header_that_lies_about_time_is_put_right(lie: int, count: int, codec: Compression) -> None:
    payload = payload_of(plain(count))
    validated = accepted(framed(payload, count, attributes=codec, max_timestamp=NOW + count - 1 + lie))
    assert NOW + count - 1 == validated.batch.max_timestamp
    assert (codec, count) == (validated.batch.compression, len(list(iterate_records(validated.batch))))


def test_a_lying_header_does_not_hide_a_bad_record() -> None:
    payload = payload_of([Record(timestamp=NOW)])
    rejected = refused(framed(payload, base_timestamp=NOW + 2 * HOUR_MS, max_timestamp=NOW))
    assert ErrorCode.INVALID_TIMESTAMP is rejected.error


def test_negative_timestamps_are_no_timestamp() -> None:
    validated = accepted(framed(BODY, base_timestamp=-5, max_timestamp=-5))
    assert -1 == validated.batch.max_timestamp


def test_the_broker_sets_the_time_where_the_topic_says_so() -> None:
    for codec in Compression:
        validated = accepted(build_batch([Record(timestamp=5), Record(timestamp=9)], compression=codec), STAMPED)
        assert NOW == validated.log_append_time == validated.batch.max_timestamp
        assert TimestampType.LOG_APPEND_TIME is validated.batch.timestamp_type
        assert [NOW, NOW] == [record.timestamp for record in iterate_records(validated.batch)]


def test_producers_do_not_set_log_append_time() -> None:
    text = (
        "Invalid timestamp type in message DefaultRecord(offset=0, timestamp=%d, key=1 bytes, value=10 bytes). "
        "Producer should not set timestamp type to LogAppendTime."
    )
    rejected = refused(framed(BODY, attributes=LOG_APPEND_TIME), STAMPED)
    assert (ErrorCode.INVALID_TIMESTAMP, ((0, text % NOW),)) == (rejected.error, rejected.record_errors)
    rejected = refused(framed(BODY, attributes=LOG_APPEND_TIME, base_timestamp=-1, max_timestamp=-1))
    assert (ErrorCode.INVALID_TIMESTAMP, ((0, text % -1),)) == (rejected.error, rejected.record_errors)


def test_but_a_create_time_topic_only_takes_the_mark_away() -> None:
    validated = accepted(framed(BODY, attributes=LOG_APPEND_TIME))
    assert TimestampType.CREATE_TIME is validated.batch.timestamp_type


# Compacted topics


@pytest.mark.parametrize("codec", Compression)
def test_compacted_topics_need_keys(codec: Compression) -> None:
    keys = [b"a", None, b"", None, None, None]
    data = build_batch([Record(timestamp=NOW, key=key, value=b"v") for key in keys], compression=codec)
    text = "Compacted topic cannot accept message without key in topic partition compacted-4"
    rejected = refused(data, COMPACTED)
    assert ErrorCode.INVALID_RECORD is rejected.error
    assert tuple((index, text) for index in (1, 3, 4, 5)) == rejected.record_errors
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index in (1, 3, 4))
    assert (
        "One or more records have been rejected due to 4 record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    ) == rejected.message
    accepted(data)


def test_one_bad_timestamp_among_the_errors_names_the_batch() -> None:
    bad = [Record(timestamp=NOW, value=b"y"), Record(timestamp=NOW + 10**9, key=b"k")]
    rejected = refused(build_batch(bad), COMPACTED)
    assert ErrorCode.INVALID_TIMESTAMP is rejected.error
    assert [0, 1] == [index for index, _ in rejected.record_errors]


def test_a_compacted_topic_with_the_time_of_the_broker() -> None:
    both = replace(STAMPED, compacted=True)
    assert NOW == accepted(GOOD, both).batch.max_timestamp
    assert ErrorCode.INVALID_RECORD is refused(build_batch(plain(key=None)), both).error


# Another compression


@pytest.mark.parametrize("source", Compression)
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
@pytest.mark.parametrize("stamped", [False, True])
def test_the_topic_decides_about_compression(source: Compression, target: str, stamped: bool) -> None:
    topic = replace(STAMPED if stamped else PLAIN, compression_type=target)
    records = [Record(timestamp=NOW + 5, key=b"1", value=b"2", headers=(("h", b"x"),)), Record(timestamp=NOW)]
    data = build_batch(
        records, compression=source, producer_id=500, producer_epoch=2, base_sequence=2147483647, transactional=True
    )
    batch = accepted(data, topic).batch
    expected = {"producer": source, "uncompressed": Compression.NONE}.get(target)
    assert batch.compression is (Compression[target.upper()] if expected is None else expected)
    assert (500, 2, 2147483647, 0) == (
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.last_sequence,
    )
    assert (0, 2, True) == (batch.base_offset, batch.record_count, batch.is_transactional)
    read = list(iterate_records(batch))
    assert [(b"1", b"2", (("h", b"x"),)), (None, None, ())] == [(r.key, r.value, r.headers) for r in read]
    assert ([NOW, NOW] if stamped else [NOW + 5, NOW]) == [record.timestamp for record in read]


def test_compressed_anew_the_records_are_counted_anew() -> None:
    data = framed(patched(BODY, 3, b"\x12"))
    (record,) = iterate_records(accepted(data, replace(PLAIN, compression_type="gzip")).batch)
    assert 0 == record.offset


def test_a_batch_that_grows_too_large_is_refused() -> None:
    topic = replace(PLAIN, compression_type="uncompressed", max_message_bytes=500)
    data = build_batch([Record(timestamp=NOW, value=b"x" * 1000)], compression=Compression.GZIP)
    assert len(data) < 500
    assert ErrorCode.MESSAGE_TOO_LARGE is refused(data, topic).error


# Old clients


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
def test_old_messages_are_converted(magic: int, codec: Compression) -> None:
    data = message_set(OLD, magic=magic, compression=codec)
    for version in (0, 1, 2):
        validated = accepted(data, version=version)
        assert (codec, 3) == (validated.batch.compression, validated.batch.record_count)
        assert NOW == accepted(data, STAMPED, version=version).batch.max_timestamp
    zstd = replace(PLAIN, compression_type="zstd")
    assert Compression.ZSTD is accepted(data, zstd, version=2).batch.compression


def test_a_batch_may_come_in_an_old_request() -> None:
    assert GOOD == accepted(GOOD, version=2).batch.view


@pytest.mark.parametrize(
    ("data", "topic", "error"),
    [
        (message_set(OLD, magic=1)[:-1] + b"?", PLAIN, ErrorCode.CORRUPT_MESSAGE),
        (message_set(OLD, magic=1) + message_set(OLD, magic=0), PLAIN, ErrorCode.INVALID_RECORD),
        (message_set(OLD, magic=1), replace(PLAIN, max_message_bytes=30), ErrorCode.MESSAGE_TOO_LARGE),
        (message_set([Record(offset=0)], magic=0), COMPACTED, ErrorCode.INVALID_RECORD),
        (message_set([Record(offset=0, timestamp=5)], magic=1), BOUNDED, ErrorCode.INVALID_TIMESTAMP),
        (
            message_set(OLD, magic=1, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=NOW),
            STAMPED,
            ErrorCode.INVALID_TIMESTAMP,
        ),
        (
            message_set([Record(offset=0, value=bytes(100_000))], magic=1, compression=Compression.GZIP),
            replace(PLAIN, decompressed_bytes_max=1000),
            ErrorCode.MESSAGE_TOO_LARGE,
        ),
    ],
)
def test_old_messages_are_checked_too(data: bytes, topic: TopicRules, error: ErrorCode) -> None:
    assert error is refused(data, topic, version=2).error


@given(
    st.binary(max_size=100),
    st.sampled_from([PLAIN, COMPACTED, STAMPED, BOUNDED, replace(PLAIN, compression_type="gzip")]),
    st.sampled_from([0, 2, 3, 9]),
    st.integers(0, 2),
)
def test_any_bytes_are_accepted_or_refused(data: bytes, topic: TopicRules, version: int, magic: int) -> None:
    validate(data, topic, version=version)
    validate(framed(data, 1), topic, version=version)
    if len(data) > 16:
        validate(patched(patched(data, 16, bytes([magic])), 8, (len(data) - 12).to_bytes(4)), topic, version=version)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=3), st.integers(-(2**63), 2**63 - 1))
def test_timestamps_that_nobody_means_do_no_harm(times: list[int], claimed: int) -> None:
    data = build_batch([Record(timestamp=time) for time in times], max_timestamp=claimed)
    no_bounds = TopicRules(message_timestamp_after_max_ms=2**63 - 1)
    for topic in (PLAIN, BOUNDED, STAMPED, no_bounds):
        validate(data, topic)


LONG = {
    "unpacks to 5 MB": (build_batch([Record(0, NOW, None, bytes(5 << 20))], compression=Compression.GZIP), PLAIN),
    "11,000 records": (build_batch(plain(11_000)), PLAIN),
    "70 KB of messages": (message_set([Record(0, NOW, b"k", bytes(70 << 10))], magic=1), PLAIN),
    "messages that unpack to 5 MB": (
        message_set([Record(0, NOW, b"k", bytes(5 << 20))], magic=1, compression=Compression.GZIP),
        TopicRules(name="large", max_message_bytes=6 << 20),
    ),
}


@pytest.mark.parametrize("name", LONG)
def test_what_takes_long_is_not_done_at_once(name: str) -> None:
    data, topic = LONG[name]
    version = 2 if "messages" in name else 9
    with pytest.raises(TakesLong):
        validate_produce(memoryview(data), produce_version=version, topic=topic, now=NOW, at_once=True)
    assert isinstance(validate_produce(memoryview(data), produce_version=version, topic=topic, now=NOW), Validated)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_what_is_too_large_for_the_topic_is_refused_at_once(codec: Compression) -> None:
    data = build_batch([Record(0, NOW, None, bytes(2 << 20))], compression=codec)
    topic = TopicRules(name="small", decompressed_bytes_max=1 << 20)
    rejected = validate_produce(memoryview(data), produce_version=9, topic=topic, now=NOW, at_once=True)
    assert isinstance(rejected, Rejected)
    assert ErrorCode.MESSAGE_TOO_LARGE is rejected.error


@given(st.binary(max_size=200), st.sampled_from(Compression))
def test_at_once_is_the_same(value: bytes, codec: Compression) -> None:
    data = memoryview(build_batch([Record(0, NOW, None, value)], compression=codec))
    whole = validate_produce(data, produce_version=9, topic=PLAIN, now=NOW)
    at_once = validate_produce(data, produce_version=9, topic=PLAIN, now=NOW, at_once=True)
    assert isinstance(whole, Validated)
    assert isinstance(at_once, Validated)
    assert whole.batch.view == at_once.batch.view
