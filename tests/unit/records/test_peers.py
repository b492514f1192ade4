"""The record classes of kafka-python and aiokafka read what we build, and we what they build."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder as AioOldBuilder
from aiokafka.record.memory_records import MemoryRecords as AioRecords
from tests.unit.records.helpers import NOW, converted_batch, parsed

from odradek.records.compression import Compression
from odradek.records.legacy import down_convert, entries
from odradek.records.message_set import Message, iterate_messages, message_set
from odradek.records.record import Record, build_batch, iterate_records
from odradek.records.validate import TopicRules, Validated, validate_produce

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of how kafka-python finds its own files
    from kafka.record.default_records import DefaultRecordBatchBuilder as PythonBuilder
    from kafka.record.legacy_records import LegacyRecordBatchBuilder as PythonOldBuilder
    from kafka.record.memory_records import MemoryRecords as PythonRecords

# kafka-python needs libraries of its own for the other codecs.
PEERS = [(AioBuilder, AioRecords, codec) for codec in Compression] + [
    (PythonBuilder, PythonRecords, codec) for codec in (Compression.NONE, Compression.GZIP)
]
# aiokafka refuses LZ4 of magic 0, for its checksum: kafka-python's codec for it is not installed either.
OLD_PEERS = [
    (AioOldBuilder, AioRecords, codec, magic)
    for magic, codecs in ((0, "NONE GZIP SNAPPY"), (1, "NONE GZIP SNAPPY LZ4"))
    for codec in map(Compression.__getitem__, codecs.split())
] + [
    (PythonOldBuilder, PythonRecords, codec, magic)
    for magic in (0, 1)
    for codec in (Compression.NONE, Compression.GZIP)
]
SOME = [
    Record(
        offset=index,
        timestamp=NOW + 37 * index,
        key=None if index % 3 == 0 else b"key %d" % index,
        value=None if index % 7 == 5 else b"value " * index,
        headers=(("trace", b"%d" % index), ("null", None)) if index % 2 else (),
    )
    for index in range(150)
]


def seen_by_peer(reader: Any, data: bytes) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    records = reader(data)
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        for record in batch:
            headers = tuple((name, value) for name, value in record.headers or ())
            found.append((record.offset, record.timestamp, record.key, record.value, headers))
    return found


def fields(records: list[Record], *, headers: bool = True) -> list[tuple[object, ...]]:
    return [(r.offset, r.timestamp, r.key, r.value, r.headers if headers else ()) for r in records]


@pytest.mark.parametrize(("builder", "reader", "codec"), PEERS)
def test_we_read_their_batches(builder: Any, reader: Any, codec: Compression) -> None:
    theirs = builder(2, int(codec), False, 7, 1, 5, 10**6)
    for record in SOME:
        theirs.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    data = bytes(theirs.build())
    batch = parsed(data)
    assert batch.crc_is_valid()
    assert (codec, 7, 1, 5) == (batch.compression, batch.producer_id, batch.producer_epoch, batch.base_sequence)
    assert fields(SOME) == fields(list(iterate_records(batch)))
    validated = validate_produce(memoryview(data), produce_version=9, topic=TopicRules(), now=NOW)
    assert isinstance(validated, Validated)
    assert validated.batch.view.obj is data


@pytest.mark.parametrize(("builder", "reader", "codec"), PEERS)
def test_they_read_our_batches(builder: Any, reader: Any, codec: Compression) -> None:
    data = build_batch(SOME, compression=codec)
    assert fields(SOME) == seen_by_peer(reader, data + build_batch((), base_offset=200)[:30])


@pytest.mark.parametrize(("builder", "reader", "codec", "magic"), OLD_PEERS)
def test_we_read_their_old_messages(builder: Any, reader: Any, codec: Compression, magic: int) -> None:
    theirs = builder(magic, int(codec), 10**6)
    for record in SOME:
        theirs.append(record.offset, record.timestamp, record.key, record.value)
    data = memoryview(bytes(theirs.build()))
    read = [r for entry in entries(data) if isinstance(entry, Message) for r in iterate_messages(entry)]
    expected = [(r.offset, r.timestamp if magic else -1, r.key, r.value, ()) for r in SOME]
    if codec and magic:
        # They leave the offset of the wrapper 0, so these records have relative offsets.
        assert 0 == next(iter(entries(data))).view[7]
    assert expected == fields(read)
    assert expected == fields(list(iterate_records(converted_batch(data, NOW))))


@pytest.mark.parametrize(("builder", "reader", "codec", "magic"), OLD_PEERS)
def test_they_read_our_old_messages(builder: Any, reader: Any, codec: Compression, magic: int) -> None:
    shifted = [Record(500 + r.offset, r.timestamp, r.key, r.value) for r in SOME]
    expected = [(r.offset, r.timestamp if magic else None, r.key, r.value, ()) for r in shifted]
    assert expected == seen_by_peer(reader, message_set(shifted, magic=magic, compression=codec))
    batch = build_batch(SOME[:], base_offset=0, compression=codec)
    converted = seen_by_peer(reader, down_convert(memoryview(batch), magic))
    assert [(r.offset, r.timestamp if magic else None, r.key, r.value, ()) for r in SOME] == converted
