"""Builders for the tests of the log: batches, partitions, and what lies in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.config.table import TopicConfig
from odradek.core.machine import Refused
from odradek.log.log import Log
from odradek.log.log_store import LogStore
from odradek.log.partition import AlreadyOpen, Appended, Duplicate, Guard, Partition
from odradek.records.batch import Batch, batches, parse_batch
from odradek.records.compression import Compression
from odradek.records.control import read_marker
from odradek.records.record import Record, build_batch, iterate_records
from odradek.wire.errors import ErrorCode

NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
GIB = 1024**3
Pair = tuple[bytes | None, bytes | None]


def batch(
    *records: Record | bytes | Pair,
    timestamp: int = NOW,
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> Batch:
    """A batch as a client sends it; bytes are values, pairs are keys and values."""
    data = build_batch(
        [_record(record, timestamp) for record in records or (b"value",)],
        compression=compression,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return parse_batch(memoryview(data))


def _record(record: Record | bytes | Pair, timestamp: int) -> Record:
    if isinstance(record, Record):
        return record
    if isinstance(record, tuple):
        return Record(timestamp=timestamp, key=record[0], value=record[1])
    return Record(timestamp=timestamp, value=record)


def new_store(bytes_max: int = GIB) -> LogStore:
    return LogStore(bytes_max=bytes_max)


def new_log(store: LogStore | None = None, *, index: int = 0, **config: Any) -> Log:
    return (store or new_store()).open(TOPIC_ID, index, TopicConfig(**config))


def new_partition(log: Log | None = None, *, leader_epoch: int = 0, now: int = NOW, **config: Any) -> Partition:
    log = log or new_log(**config)
    return Partition("topic", TOPIC_ID, log.index, log, leader_epoch, log.config, now)


def values(view: memoryview) -> list[bytes | None]:
    """The values of all data records in fetched bytes."""
    return [record.value for one in batches(view) if not one.is_control for record in iterate_records(one)]


def offsets_and_keys(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every data record of the log."""
    return [
        (record.offset, record.key, record.value)
        for one in log.batches()
        if not one.is_control
        for record in iterate_records(one)
    ]


def kinds(log: Log) -> list[tuple[int, str, int]]:
    """Base offset, kind and producer epoch of every batch of the log."""
    found = []
    for one in log.batches():
        marker = read_marker(one)
        kind = "data" if marker is None else "COMMIT" if marker.commit else "ABORT"
        found.append((one.base_offset, kind, one.producer_epoch))
    return found


class Leader:
    """A partition as the tests of transactions speak to it: one producer id, short names, error codes for answers."""

    def __init__(self, partition: Partition | None = None, *, producer_id: int = 7, verification: bool = True) -> None:
        self.partition = partition or new_partition()
        self.producer_id = producer_id
        self.verification = verification
        self.now = NOW

    def ask(
        self, epoch: int, sequence: int, *, bump: bool = False, producer_id: int | None = None
    ) -> AlreadyOpen | Guard | Refused:
        """What the leader does before it asks the coordinator."""
        return self.partition.begin_verification(
            self.producer_id if producer_id is None else producer_id,
            epoch,
            sequence,
            supports_epoch_bump=bump,
            now=self.now,
        )

    def append(
        self,
        epoch: int,
        sequence: int,
        *,
        guard: Guard | None = None,
        transactional: bool = True,
        producer_id: int | None = None,
        count: int = 1,
    ) -> Appended | Duplicate | Refused:
        """Append a batch without asking first."""
        return self.partition.append_client(
            batch(
                *[b"v"] * count,
                producer_id=self.producer_id if producer_id is None else producer_id,
                epoch=epoch,
                sequence=sequence,
                transactional=transactional,
                timestamp=self.now,
            ),
            now=self.now,
            guard=guard,
            verification_enabled=self.verification,
        )

    def produce(self, epoch: int, sequence: int, *, bump: bool = False, producer_id: int | None = None) -> int:
        """Ask, be told by the coordinator that all is well, append: the base offset, or minus the error code."""
        answer = self.ask(epoch, sequence, bump=bump, producer_id=producer_id)
        if isinstance(answer, Refused):
            return -answer.error
        guard = answer if isinstance(answer, Guard) else None
        appended = self.append(epoch, sequence, guard=guard, producer_id=producer_id)
        return -appended.error if isinstance(appended, Refused) else appended.base_offset

    def marker(
        self,
        version: int,
        epoch: int,
        *,
        commit: bool = True,
        coordinator_epoch: int = 0,
        producer_id: int | None = None,
    ) -> ErrorCode:
        """Write an end-transaction marker."""
        answer = self.partition.append_marker(
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            transaction_version=version,
            now=self.now,
        )
        return answer.error if isinstance(answer, Refused) else ErrorCode.NONE

    def aborted(self, offset: int = 0) -> list[tuple[int, int]]:
        """The aborted transactions that a committed read is told of."""
        result = self.partition.read(offset, max_bytes=1 << 20, read_committed=True)
        assert not isinstance(result, Refused)
        assert result.aborted is not None
        return result.aborted

    @property
    def stable(self) -> tuple[int, int]:
        """Last stable offset and high watermark."""
        return self.partition.last_stable_offset, self.partition.high_watermark


def error(answer: object) -> ErrorCode:
    """The error of an answer that should be a refusal, else NONE."""
    return answer.error if isinstance(answer, Refused) else ErrorCode.NONE


def appended(answers: Sequence[object]) -> list[int]:
    """Base offsets of answers that should all be appends."""
    offsets = []
    for answer in answers:
        assert isinstance(answer, Appended), answer
        offsets.append(answer.base_offset)
    return offsets
