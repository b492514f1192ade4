"""Batches for the tests of this package, honest and lying ones."""

from __future__ import annotations

from collections.abc import Sequence

from crc32c import crc32c
from hypothesis import strategies as st

from odradek.records.batch import HEADER_BYTES, Batch, parse_batch, write_header
from odradek.records.compression import Compression
from odradek.records.compressors import compress
from odradek.records.record import Record, build_batch
from odradek.records.validate import TopicRules, Validated, validate_produce
from odradek.wire.errors import ErrorCode

PLAIN_TOPIC = TopicRules()
NOW = 1_760_000_000_000
CODECS = [codec for codec in Compression if codec is not Compression.NONE]

payloads = st.none() | st.binary(max_size=80)
headers = st.lists(st.tuples(st.text(max_size=6), payloads), max_size=3).map(tuple)
timestamps = st.integers(NOW - 20_000, NOW + 20_000) | st.just(-1)
records = st.builds(Record, timestamp=timestamps, key=payloads, value=payloads, headers=headers)


def parsed(data: bytes | bytearray) -> Batch:
    """The one batch that these bytes are."""
    batch = parse_batch(memoryview(data))
    assert len(data) == batch.size
    return batch


def plain(count: int = 2, *, size: int = 10, step: int = 1, key: bytes | None = b"k") -> list[Record]:
    """Records of one size, `step` ms apart."""
    return [Record(timestamp=NOW + step * index, key=key, value=b"v" * size) for index in range(count)]


def payload_of(records: Sequence[Record]) -> bytes:
    """The records as they lie in an uncompressed batch."""
    return build_batch(records)[HEADER_BYTES:]


def framed(
    payload: bytes | bytearray,
    count: int = 1,
    *,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_offset: int = 0,
    base_timestamp: int = NOW,
    max_timestamp: int = NOW,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """A batch with a right checksum around any payload, so that only what a test lies about is wrong."""
    codec = Compression(attributes & 7) if attributes & 7 < len(Compression) else Compression.NONE
    batch = bytearray(HEADER_BYTES) + (compress(codec, payload) if codec else payload)
    write_header(
        batch,
        base_offset=base_offset,
        leader_epoch=-1,
        attributes=attributes,
        last_offset_delta=count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=count,
    )
    return bytes(batch)


def patched(data: bytes, at: int, new: bytes) -> bytes:
    """The same bytes with some replaced; the checksum is not touched."""
    return data[:at] + new + data[at + len(new) :]


def resealed(data: bytes) -> bytes:
    """The batch with the checksum that belongs to its bytes."""
    return patched(data, 17, crc32c(data[21:]).to_bytes(4))


def converted(data: bytes | memoryview, now: int, topic: TopicRules = PLAIN_TOPIC) -> Batch | ErrorCode:
    """What a leader makes of the message set of an old producer, or its error."""
    view = memoryview(data)
    taken = validate_produce(view, produce_version=2, topic=topic, now=now)
    return taken.batch if isinstance(taken, Validated) else taken.error


def converted_batch(data: bytes | memoryview, now: int, topic: TopicRules = PLAIN_TOPIC) -> Batch:
    """The same where it is taken."""
    batch = converted(data, now, topic)
    assert isinstance(batch, Batch), batch
    return batch
