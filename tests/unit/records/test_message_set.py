from __future__ import annotations

import contextlib
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.records.helpers import NOW, payloads

from odradek.records.batch import InvalidBatch, TimestampType
from odradek.records.compression import Compression
from odradek.records.compressors import compress
from odradek.records.legacy import entries
from odradek.records.message_set import Message, iterate_messages, message_set, parse_message
from odradek.records.record import Record
from odradek.wire.errors import ErrorCode

OLD_CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
SOME = [Record(offset=40 + index, timestamp=NOW + index, key=b"k%d" % index, value=b"v") for index in range(3)]
LOG_APPEND_TIME = TimestampType.LOG_APPEND_TIME


def read(data: bytes) -> tuple[list[Message], list[Record]]:
    messages = [entry for entry in entries(memoryview(data)) if isinstance(entry, Message)]
    return messages, [record for message in messages for record in iterate_messages(message)]


def with_checksum(message: bytes | bytearray) -> bytes:
    return bytes(message[:12]) + crc32(message[16:]).to_bytes(4) + bytes(message[16:])


@given(
    st.lists(st.tuples(payloads, payloads), min_size=1, max_size=8),
    st.sampled_from([0, 1]),
    st.sampled_from(OLD_CODECS),
    st.integers(0, 2**40),
)
def test_messages_come_back(
    pairs: list[tuple[bytes | None, bytes | None]], magic: int, codec: Compression, offset: int
) -> None:
    built = [
        Record(offset=offset + index, timestamp=NOW - index, key=key, value=value)
        for index, (key, value) in enumerate(pairs)
    ]
    messages, records = read(message_set(built, magic=magic, compression=codec))
    assert all(message.crc_is_valid() and message.compression is codec for message in messages)
    assert (1 if codec else len(built)) == len(messages)
    expected = [
        Record(offset=record.offset, timestamp=record.timestamp if magic else -1, key=record.key, value=record.value)
        for record in built
    ]
    assert expected == records


def test_a_wrapper_has_the_last_offset_and_the_largest_timestamp() -> None:
    (wrapper,), _ = read(message_set(list(reversed(SOME))[::-1], magic=1, compression=Compression.GZIP))
    assert (42, NOW + 2, None) == (wrapper.offset, wrapper.timestamp, wrapper.key)
    assert TimestampType.CREATE_TIME is wrapper.timestamp_type


def test_log_append_time_is_that_of_the_wrapper() -> None:
    for codec in OLD_CODECS:
        data = message_set(SOME, magic=1, compression=codec, timestamp_type=LOG_APPEND_TIME, log_append_time=NOW + 77)
        messages, records = read(data)
        assert LOG_APPEND_TIME is messages[0].timestamp_type
        assert [NOW + 77] * 3 == [record.timestamp for record in records]


def test_magic_0_knows_no_time() -> None:
    messages, _ = read(message_set(SOME, magic=0, timestamp_type=LOG_APPEND_TIME, log_append_time=NOW))
    assert [None] * 3 == [message.timestamp_type for message in messages]
    assert {0} == {message.attributes for message in messages}


def test_offsets_in_a_wrapper_are_relative_since_magic_1() -> None:
    (wrapper,), _ = read(message_set(SOME, magic=1, compression=Compression.GZIP))
    moved = (1000).to_bytes(8) + bytes(wrapper.view[8:])
    assert [998, 999, 1000] == [record.offset for record in read(moved)[1]]
    # librdkafka 0.9 left the wrapper's offset 0.
    assert [0, 1, 2] == [record.offset for record in read(bytes(8) + moved[8:])[1]]


def test_lz4_of_magic_0_keeps_the_checksum_of_old_clients() -> None:
    assert b"\x04\x22\x4d\x18\x60\x40\x1a" in message_set(SOME, magic=0, compression=Compression.LZ4)
    assert b"\x04\x22\x4d\x18\x60\x40\x82" in message_set(SOME, magic=1, compression=Compression.LZ4)


def test_no_records_no_bytes() -> None:
    assert b"" == message_set((), magic=1, compression=Compression.GZIP)


def test_zstd_came_after_these_formats() -> None:
    with pytest.raises(InvalidBatch) as caught:
        message_set(SOME, magic=1, compression=Compression.ZSTD)
    assert ErrorCode.UNSUPPORTED_COMPRESSION_TYPE is caught.value.error
    data = bytearray(message_set(SOME[:1], magic=1))
    data[17] = 4
    with pytest.raises(InvalidBatch) as caught:
        read(bytes(data))
    assert ErrorCode.UNKNOWN_SERVER_ERROR is caught.value.error


def wrapper_of(value: bytes | None, *, magic: int = 1, codec: Compression = Compression.GZIP) -> bytes:
    data = bytearray(message_set([Record(offset=1, timestamp=NOW, value=value)], magic=magic))
    data[17] |= codec
    return with_checksum(data)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (wrapper_of(None), ErrorCode.INVALID_RECORD),
        (wrapper_of(compress(Compression.GZIP, b"")), ErrorCode.INVALID_RECORD),
        (wrapper_of(b"junk"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (wrapper_of(b"junk", magic=0, codec=Compression.LZ4), ErrorCode.UNKNOWN_SERVER_ERROR),
        (wrapper_of(compress(Compression.GZIP, message_set(SOME, magic=0))), ErrorCode.INVALID_RECORD),
        (
            wrapper_of(compress(Compression.GZIP, message_set(SOME, magic=1, compression=Compression.GZIP))),
            ErrorCode.INVALID_RECORD,
        ),
        (wrapper_of(compress(Compression.GZIP, message_set(SOME, magic=1)[:-1] + b"!")), ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_wrappers_that_hold_something_else(data: bytes, error: ErrorCode) -> None:
    with pytest.raises(InvalidBatch) as caught:
        read(data)
    assert error is caught.value.error


def test_a_partial_message_inside_is_ignored() -> None:
    inner = message_set(SOME, magic=1)
    assert 2 == len(read(wrapper_of(compress(Compression.GZIP, inner[:-1])))[1])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        message_set(SOME[:1], magic=1)[:-1],
        message_set(SOME[:1], magic=0)[:8] + (14).to_bytes(4) + message_set(SOME[:1], magic=1)[12:26],
        message_set(SOME[:1], magic=1)[:26] + (2**31 - 1).to_bytes(4) + message_set(SOME[:1], magic=1)[30:],
        message_set(SOME[:1], magic=1)[:26] + (6).to_bytes(4) + message_set(SOME[:1], magic=1)[30:],
    ],
)
def test_sizes_that_lie(data: bytes) -> None:
    with pytest.raises(InvalidBatch) as caught:
        parse_message(memoryview(data))
    assert ErrorCode.CORRUPT_MESSAGE is caught.value.error


@given(st.binary(max_size=60), st.sampled_from(OLD_CODECS), st.sampled_from([0, 1]))
def test_any_bytes_end_in_messages_or_in_invalid_batch(data: bytes, codec: Compression, magic: int) -> None:
    for hostile in (data, wrapper_of(compress(codec, data), magic=magic, codec=codec)):
        with contextlib.suppress(InvalidBatch):
            read(hostile)
