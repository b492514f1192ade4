"""What is inside batches, where a job has to know: single records, and the coordinator's own log."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from odradek.records.batch import InvalidBatch
from odradek.records.legacy import batch_at
from odradek.records.record import Record, iterate_records
from odradek.records.state import decode_key, decode_value
from odradek.wire.errors import DecodeError
from odradek.wire.messages.transaction_log_key import TransactionLogKey
from odradek.wire.messages.transaction_log_value import TransactionLogValue
from odradek_pipeline.logs import files
from odradek_pipeline.logs.layout import TRANSACTION_STATE, FileKind, LogFile
from odradek_pipeline.logs.scan import CONTROL, ByteRange, Chunk, scan_range, scan_segments
from odradek_pipeline.logs.scanned import Scan

__all__ = ["STATES", "TransactionRecord", "records_of", "transaction_log"]

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""Kafka's TransactionState by its number in the log."""


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """One record of `__transaction_state`; a tombstone has no state."""

    path: str
    position: int
    partition: int
    offset: int
    timestamp: int
    transactional_id: str
    value_version: int = -1
    state: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    timeout_ms: int = -1
    last_update: int = -1
    start: int = -1
    previous_producer_id: int = -1
    next_producer_id: int = -1
    client_transaction_version: int = 0
    partitions: tuple[tuple[str, int], ...] = ()

    def row(self) -> dict[str, object]:
        """As a row of a table."""
        row: dict[str, object] = {name: getattr(self, name) for name in _COLUMNS}
        return row | {"partitions": [f"{topic}-{partition}" for topic, partition in self.partitions]}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> TransactionRecord:
        """A record from its row; columns of others are left out."""
        values = {name: row[name] for name in _COLUMNS}
        named = (text.rpartition("-") for text in row["partitions"])
        return cls(**values, partitions=tuple((topic, int(partition)) for topic, _, partition in named))


_COLUMNS = tuple(one.name for one in fields(TransactionRecord) if one.name != "partitions")


def records_of(chunk: Chunk, scan: Scan, *, control: bool = False) -> Iterator[tuple[int, Record]]:
    """Every record of the batches of a chunk, decompressed, with the position of its batch."""
    columns = chunk.columns
    with contextlib.ExitStack() as exits:  # closed also where a generator is left early
        try:
            opened = exits.enter_context(files.opened(chunk.file.path))
        except OSError as error:
            scan.note(chunk.file, 0, "vanished", str(error), severity="info")
            return
        for position, size, attributes in zip(
            columns["position"].tolist(), columns["size"].tolist(), columns["attributes"].tolist(), strict=True
        ):
            if attributes & CONTROL and not control:
                continue
            opened.seek(position)
            try:
                for record in iterate_records(batch_at(memoryview(opened.read(size)))):
                    yield position, record
            except InvalidBatch as error:
                scan.note(chunk.file, position, "bad-records", error.message)


def transaction_log(listed: Iterable[LogFile], scan: Scan) -> list[TransactionRecord]:
    """Every record of the transaction coordinators' log, in the order of each partition."""
    segments = [file for file in listed if file.topic == TRANSACTION_STATE and file.kind is FileKind.SEGMENT]
    found: list[TransactionRecord] = []
    for chunk in scan_segments(segments, scan):
        for position, record in records_of(chunk, scan):
            read = _transaction_record(chunk.file, position, record, scan)
            if read is not None:
                found.append(read)
    return found


def transaction_log_range(part: ByteRange, scan: Scan) -> Iterator[TransactionRecord]:
    """The same for one range."""
    for chunk in scan_range(part, scan):
        for position, record in records_of(chunk, scan):
            read = _transaction_record(part.file, position, record, scan)
            if read is not None:
                yield read


def _transaction_record(file: LogFile, position: int, record: Record, scan: Scan) -> TransactionRecord | None:
    try:
        key = decode_key(record.key or b"", TransactionLogKey)
        if key is None:
            scan.note(
                file, position, "unknown-record", f"offset {record.offset}: a key of another kind", severity="info"
            )
            return None
        where = (file.path, position, file.partition, record.offset, record.timestamp, key.transactional_id)
        if record.value is None:
            return TransactionRecord(*where)
        value = decode_value(record.value, TransactionLogValue)
    except (DecodeError, ValueError, IndexError) as error:
        scan.note(file, position, "bad-records", f"offset {record.offset}: {error}")
        return None
    version = int.from_bytes(record.value[:2], signed=True)
    if value is None:
        scan.note(
            file, position, "unknown-version", f"offset {record.offset}: version {version} of a transaction's value"
        )
        return None
    status = value.transaction_status
    if not 0 <= status < len(STATES):
        scan.note(file, position, "unknown-record", f"offset {record.offset}: transaction state {status}")
        return None
    partitions = tuple(
        sorted(
            (topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        )
    )
    return TransactionRecord(
        *where,
        value_version=version,
        state=STATES[status],
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        last_update=value.transaction_last_update_timestamp_ms,
        start=value.transaction_start_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_transaction_version=value.client_transaction_version,
        partitions=partitions,
    )
