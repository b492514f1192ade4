"""The part of `odradek codec-check` that checks record batches.

The codec must read what Kafka reads, and refuse what Kafka refuses. An uncompressed v2 batch with the producer's
timestamps is also built from its fields and compared byte by byte. Compressed bytes depend on the library, and log
append time replaces the original timestamps, so those are not built.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.core.wording import counted
from odradek.records.batch import Batch, InvalidBatch, TimestampType
from odradek.records.compression import Compression
from odradek.records.control import ControlType, control_type, read_marker
from odradek.records.legacy import entries
from odradek.records.message_set import Message, iterate_messages
from odradek.records.record import Record, build_batch, iterate_records
from odradek.tools.codec_check_compare import NotAVector, compare_bytes, difference, hexadecimal
from odradek.wire.errors import ErrorCode

__all__ = ["check_batches"]

_TIMESTAMP_TYPES = {
    None: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


def check_batches(vector: Mapping[str, Any]) -> str | None:
    """The first mistake in reading or building these batches; None if there is none."""
    for key in ("valid", "json", "hex"):
        if key not in vector:
            raise NotAVector(f"it has no {key!r}")
    data = memoryview(hexadecimal(vector, "hex"))
    read: list[dict[str, Any]] = []
    try:
        size = _read(data, read)
    except InvalidBatch as error:
        if vector["valid"]:
            return f"refused behind {counted(len(read), 'batch', 'batches')}: {error.error.name}: {error.message}"
    else:
        if not vector["valid"]:
            return f"accepted, but Kafka refuses it: {vector.get('error')}"
        read_json = {"batches": read, "trailingBytes": len(data) - size}
        if read_json != vector["json"]:
            return difference(read_json, vector["json"])
    return _check_building(data, vector["json"]["batches"])


def _read(data: memoryview, read: list[dict[str, Any]]) -> int:
    """Describe every whole batch as Kafka's classes do; return their size in bytes."""
    size = 0
    for entry in entries(data):
        if not entry.crc_is_valid():
            raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, "the checksum is wrong")
        read.append(_batch(entry) if isinstance(entry, Batch) else _message(entry))
        size += entry.size
    return size


def _batch(batch: Batch) -> dict[str, Any]:
    return {
        "magic": batch.magic,
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "sizeInBytes": batch.size,
        "crc": batch.crc,
        "compression": batch.compression.name.lower(),
        "timestampType": _TIMESTAMP_TYPES[batch.timestamp_type],
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
        "records": [_record(record, batch) for record in iterate_records(batch)],
    }


def _record(record: Record, batch: Batch) -> dict[str, Any]:
    described: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "sequence": record.sequence,
        "key": _hex(record.key),
        "value": _hex(record.value),
        "headers": [[name, _hex(value)] for name, value in record.headers],
    }
    if batch.is_control:
        described["control"] = _control(record, batch)
    return described


def _control(record: Record, batch: Batch) -> dict[str, Any]:
    kind = control_type(record)
    number = int.from_bytes((record.key or b"")[2:4], "big", signed=True)
    described: dict[str, Any] = {"type": kind.name, "typeId": number}
    marker = read_marker(batch)
    if marker is not None:
        assert marker.commit == (kind is ControlType.COMMIT)
        described["coordinatorEpoch"] = marker.coordinator_epoch
    return described


def _message(message: Message) -> dict[str, Any]:
    records = list(iterate_messages(message))
    described: dict[str, Any] = {
        "magic": message.magic,
        "baseOffset": records[0].offset,
        "lastOffset": message.offset,
        "sizeInBytes": message.size,
        "crc": message.crc,
        "compression": message.compression.name.lower(),
        "timestampType": _TIMESTAMP_TYPES[message.timestamp_type],
        "records": [
            {"offset": each.offset, "timestamp": each.timestamp, "key": _hex(each.key), "value": _hex(each.value)}
            for each in records
        ],
    }
    if message.magic:
        described["maxTimestamp"] = message.timestamp
    return described


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _check_building(data: memoryview, described: list[Mapping[str, Any]]) -> str | None:
    position = 0
    for index, batch in enumerate(described):
        end = position + batch["sizeInBytes"]
        plain = batch["compression"] == Compression.NONE.name.lower() and batch["timestampType"] == "CreateTime"
        if batch["magic"] == 2 and plain:
            fault = compare_bytes(f"batch {index}, built again", _build(batch), bytes(data[position:end]))
            if fault is not None:
                return fault
        position = end
    return None


def _build(batch: Mapping[str, Any]) -> bytes:
    records = [
        Record(
            offset=record["offset"],
            timestamp=record["timestamp"],
            key=_bytes(record["key"]),
            value=_bytes(record["value"]),
            headers=tuple((name, _bytes(value)) for name, value in record["headers"]),
        )
        for record in batch["records"]
    ]
    return build_batch(
        records,
        base_offset=batch["baseOffset"],
        producer_id=batch["producerId"],
        producer_epoch=batch["producerEpoch"],
        base_sequence=batch["baseSequence"],
        transactional=batch["isTransactional"],
        control=batch["isControlBatch"],
        leader_epoch=batch["partitionLeaderEpoch"],
        base_timestamp=batch["baseTimestamp"],
        max_timestamp=batch["maxTimestamp"],
        delete_horizon_ms=batch["deleteHorizonMs"],
        last_offset=batch["lastOffset"],
    )


def _bytes(data: str | None) -> bytes | None:
    return None if data is None else bytes.fromhex(data)
