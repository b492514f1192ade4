"""Snapshots of a partition's producers, named by the offset as of which they are (Kafka's `ProducerStateManager`).

Version 1: a CRC-32C over everything behind it, a count, and an entry for each producer with its last batch. The batches
before, by which older retries are recognised, are not in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct as Layout

from crc32c import crc32c

from odradek.log.disk import DamagedFile
from odradek.log.producers import NO_OFFSET, CachedBatch, Producer
from odradek.records.batch import NO_SEQUENCE

__all__ = ["read_producers", "write_producers"]

_VERSION = 1
_HEAD = Layout(">hI")  # version, checksum
_COUNT = Layout(">i")
# producer id and epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of the
# open transaction
_ENTRY = Layout(">qhiqiqiq")
_SEQUENCE_MAX = 2**31 - 1


def write_producers(producers: Iterable[Producer]) -> bytes:
    """A snapshot of these producers."""
    entries = [_entry(producer) for producer in producers]
    covered = _COUNT.pack(len(entries)) + b"".join(entries)
    return _HEAD.pack(_VERSION, crc32c(covered)) + covered


def _entry(producer: Producer) -> bytes:
    last = producer.batches[-1] if producer.batches else None
    return _ENTRY.pack(
        producer.producer_id,
        producer.epoch,
        NO_SEQUENCE if last is None else last.last_sequence,
        NO_OFFSET if last is None else last.last_offset,
        0 if last is None else last.last_offset - last.base_offset,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.first_offset,
    )


def read_producers(data: bytes) -> tuple[Producer, ...]:
    """The producers of a snapshot. Raises `DamagedFile`."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise DamagedFile(f"its {len(data)} bytes are fewer than those of an empty snapshot")
    version, checksum = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise DamagedFile(f"it is of version {version}, and version {_VERSION} is known")
    covered = memoryview(data)[_HEAD.size :]
    if crc32c(covered) != checksum:
        raise DamagedFile("its checksum is not that of its bytes")
    (count,) = _COUNT.unpack_from(covered)
    entries = covered[_COUNT.size :]
    if len(entries) != count * _ENTRY.size:
        raise DamagedFile(f"it announces {count} producers, and {len(entries)} bytes follow")
    return tuple(_producer(*fields) for fields in _ENTRY.iter_unpack(entries))


def _producer(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    delta: int,
    timestamp: int,
    coordinator_epoch: int,
    first_offset: int,
) -> Producer:
    producer = Producer(producer_id, epoch, coordinator_epoch, timestamp, NO_SEQUENCE, first_offset, [])
    if last_offset >= 0:
        first_sequence = NO_SEQUENCE if last_sequence == NO_SEQUENCE else (last_sequence - delta) & _SEQUENCE_MAX
        producer.batches.append(CachedBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp))
        producer.last_sequence = last_sequence
    return producer
