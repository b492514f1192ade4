"""Every line of the batch vectors: what the Java classes read in these bytes, this package reads in them too."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from odradek.records.batch import MAGIC, Batch, InvalidBatch, TimestampType, record_payload
from odradek.records.compression import Compression
from odradek.records.control import control_type, read_marker
from odradek.records.legacy import batches_of_log, entries
from odradek.records.message_set import Message, iterate_messages, message_set
from odradek.records.record import Record, build_batch, iterate_records
from odradek.records.structure import scan
from odradek.wire.errors import ErrorCode

VECTORS = Path(__file__).parents[2] / "vectors" / "data" / "batches-dev.jsonl.gz"
TIMES = {
    None: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


def cases() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        for line in lines:
            vector = json.loads(line)
            found.setdefault(vector["case"], []).append(vector)
    return found


CASES = cases()


def hexed(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def shown_batch(batch: Batch) -> dict[str, Any]:
    records = list(iterate_records(batch))
    extent = scan(record_payload(batch), batch.record_count, batch.max_timestamp - batch.base_timestamp)
    assert extent.null_key is any(record.key is None for record in records)
    marker = read_marker(batch)
    shown = []
    for record in records:
        fields: dict[str, Any] = {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "sequence": record.sequence,
            "key": hexed(record.key),
            "value": hexed(record.value),
            "headers": [[name, hexed(value)] for name, value in record.headers],
        }
        if batch.is_control:
            assert record.key is not None
            fields["control"] = {"type": control_type(record).name, "typeId": int.from_bytes(record.key[2:4])}
            if marker is not None:
                fields["control"]["coordinatorEpoch"] = marker.coordinator_epoch
        shown.append(fields)
    return {
        "magic": batch.magic,
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "sizeInBytes": batch.size,
        "crc": batch.crc,
        "compression": batch.compression.name.lower(),
        "timestampType": TIMES[batch.timestamp_type],
        "maxTimestamp": batch.max_timestamp,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "isTransactional": batch.is_transactional,
        "isControlBatch": batch.is_control,
        "deleteHorizonMs": batch.delete_horizon_ms,
        "baseTimestamp": batch.base_timestamp,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "count": batch.record_count,
        "records": shown,
    }


def shown_records(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Records of a message of magic 0 or 1, which have no headers."""
    return [
        {"offset": r.offset, "timestamp": r.timestamp, "key": hexed(r.key), "value": hexed(r.value)} for r in records
    ]


def shown_message(message: Message) -> dict[str, Any]:
    records = list(iterate_messages(message))
    shown: dict[str, Any] = {
        "magic": message.magic,
        "baseOffset": records[0].offset,
        "lastOffset": message.offset,
        "sizeInBytes": message.size,
        "crc": message.crc,
        "compression": message.compression.name.lower(),
        "timestampType": TIMES[message.timestamp_type],
        "records": shown_records(records),
    }
    if message.magic:
        shown["maxTimestamp"] = message.timestamp
    return shown


def shown_in_a_log(batch: Batch) -> dict[str, Any]:
    """A message as a batch of a log."""
    shown: dict[str, Any] = {
        "magic": batch.magic,
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "sizeInBytes": batch.size,
        "crc": batch.crc,
        "compression": batch.compression.name.lower(),
        "timestampType": TIMES[batch.timestamp_type if batch.magic else None],
        "records": shown_records(iterate_records(batch)),
    }
    if batch.magic:
        shown["maxTimestamp"] = batch.max_timestamp
    return shown


def rebuilt_batch(batch: Batch, records: list[Record]) -> bytes:
    return build_batch(
        records,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        compression=batch.compression,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        control=batch.is_control,
        leader_epoch=batch.partition_leader_epoch,
        delete_horizon_ms=batch.delete_horizon_ms,
        max_timestamp=None if records else batch.max_timestamp,
    )


def rebuilt_message(message: Message, records: list[Record]) -> bytes:
    return message_set(
        records,
        magic=message.magic,
        compression=message.compression,
        timestamp_type=message.timestamp_type or TimestampType.CREATE_TIME,
        log_append_time=message.timestamp,
    )


def test_the_file_is_whole() -> None:
    assert 439 == sum(len(vectors) for vectors in CASES.values())


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case][0]["valid"]])
def test_what_java_reads(case: str) -> None:
    for vector in CASES[case]:
        data = memoryview(bytes.fromhex(vector["hex"]))
        read = list(entries(data))
        assert all(entry.crc_is_valid() for entry in read)
        shown = [shown_batch(entry) if isinstance(entry, Batch) else shown_message(entry) for entry in read]
        assert vector["json"]["batches"] == shown
        assert vector["json"]["trailingBytes"] == len(data) - sum(entry.size for entry in read)


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case][0]["valid"]])
def test_what_java_reads_is_read_in_a_log(case: str) -> None:
    for vector in CASES[case]:
        data = memoryview(bytes.fromhex(vector["hex"]))
        read = list(batches_of_log(data))
        assert all(batch.crc_is_valid() for batch in read)
        shown = [shown_batch(batch) if batch.magic == MAGIC else shown_in_a_log(batch) for batch in read]
        assert vector["json"]["batches"] == shown
        for batch in read:
            assert (-1, -1, False) == (batch.producer_id, batch.base_sequence, batch.is_control) or batch.magic == MAGIC


def read_all(data: memoryview) -> None:
    for entry in entries(data):
        assert isinstance(entry, Batch)
        if not entry.crc_is_valid():
            raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, "checksum")
        list(iterate_records(entry))


@pytest.mark.parametrize("case", [case for case in CASES if not CASES[case][0]["valid"]])
def test_what_java_refuses(case: str) -> None:
    for vector in CASES[case]:
        with pytest.raises(InvalidBatch):
            read_all(memoryview(bytes.fromhex(vector["hex"])))


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case][0]["valid"]])
def test_what_is_built_again_is_the_same(case: str) -> None:
    for vector in CASES[case]:
        for entry in entries(memoryview(bytes.fromhex(vector["hex"]))):
            if isinstance(entry, Message):
                records = list(iterate_messages(entry))
                built = rebuilt_message(entry, records)
            elif entry.timestamp_type is TimestampType.LOG_APPEND_TIME:
                continue  # the records have the time of the broker, their bytes that of the producer
            else:
                records = list(iterate_records(entry))
                built = rebuilt_batch(entry, records)
            if entry.compression is Compression.NONE:
                assert entry.view == built
                continue
            # How small the bytes get depends on the library, so compare what is in them.
            (again,) = entries(memoryview(built))
            assert records == list(iterate_messages(again) if isinstance(again, Message) else iterate_records(again))
