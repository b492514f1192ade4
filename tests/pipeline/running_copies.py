"""Histories of a running broker's files, and copies of them: each file as it was at a time of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from odradek.core.internal_topics import partition_for
from odradek.records.control import end_txn_marker
from odradek.records.record import Record, build_batch
from odradek.records.state import encode_key, encode_value
from odradek.wire.messages.transaction_log_key import TransactionLogKey
from odradek.wire.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from odradek_pipeline.payload import STATES
from odradek_pipeline.proof import ABORT_MS, MAX_TIMEOUT_MS

__all__ = ["DESTROYS", "ORDERS", "Copy", "History", "grown_old", "hung", "whole"]

COORDINATORS, ORDERS = 2, 2
BATCHES_PER_SEGMENT = 4
DESTROYS = ("abort --topic", "remove", "Stop the broker, ", "stop the broker, ")
"""What commands say that cannot be undone."""
HIGH_WATERMARKS = "replication-offset-checkpoint"


@dataclass(slots=True)
class Written:
    """A batch, when it was appended, and the offset behind it."""

    time: int
    content: bytes
    following: int


@dataclass(slots=True)
class Producer:
    """A transactional client of level 2."""

    name: str
    producer_id: int
    epoch: int = 0
    sequences: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class History:
    """What a healthy broker has appended to its logs, in the order of time; `now` is its clock, ms."""

    now: int = 1_700_000_000_000
    logs: dict[str, list[Written]] = field(default_factory=dict)
    producers: dict[str, Producer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number in range(COORDINATORS):
            self.logs[f"__transaction_state-{number}"] = []
        for number in range(ORDERS):
            self.logs[f"orders-{number}"] = []

    def end(self, partition: str) -> int:
        """The next offset."""
        log = self.logs[partition]
        return log[-1].following if log else 0

    def append(self, partition: str, content: bytes) -> None:
        """One batch of one record; its offset is filled in, as a leader does it."""
        offset = self.end(partition)
        self.logs[partition].append(Written(self.now, offset.to_bytes(8) + content[8:], offset + 1))

    def begin(self, name: str, number: int) -> Producer:
        """A client begins a transaction in one partition of orders."""
        if name not in self.producers:
            self.producers[name] = Producer(name, 100 + len(self.producers))
            self.note(self.producers[name], "Empty", [], start=-1)
        one = self.producers[name]
        self.note(one, "Ongoing", [number], start=self.now)
        return one

    def note(self, one: Producer, state: str, numbers: list[int], *, start: int) -> None:
        """A record of the coordinator."""
        value = TransactionLogValue(
            producer_id=one.producer_id,
            producer_epoch=one.epoch,
            transaction_timeout_ms=60_000,
            transaction_status=STATES.index(state),
            transaction_partitions=[PartitionsSchema(topic="orders", partition_ids=numbers)] if numbers else [],
            transaction_last_update_timestamp_ms=self.now,
            transaction_start_timestamp_ms=start,
            client_transaction_version=2,
        )
        key = encode_key(TransactionLogKey(transactional_id=one.name))
        record = Record(key=key, value=encode_value(value, 1), timestamp=self.now)
        self.append(f"__transaction_state-{partition_for(one.name, COORDINATORS)}", build_batch([record]))

    def write(self, one: Producer, number: int, timestamp: int) -> None:
        """Data of a transaction; producers give the time of whatever their records are about."""
        partition = f"orders-{number}"
        sequence = one.sequences.get(partition, 0)
        one.sequences[partition] = sequence + 1
        self.append(
            partition,
            build_batch(
                [Record(value=b"x", timestamp=timestamp)],
                producer_id=one.producer_id,
                producer_epoch=one.epoch,
                base_sequence=sequence,
                transactional=True,
            ),
        )

    def finish(self, one: Producer, number: int, *, commit: bool, start: int, steps: int) -> None:
        """Decision, marker, completion, each a few milliseconds after the one before."""
        outcome = "Commit" if commit else "Abort"
        one.epoch += 1
        one.sequences.clear()
        self.note(one, f"Prepare{outcome}", [number], start=start)
        self.now += steps
        marker = end_txn_marker(
            producer_id=one.producer_id,
            producer_epoch=one.epoch,
            commit=commit,
            coordinator_epoch=0,
            timestamp=self.now,
        )
        self.append(f"orders-{number}", bytes(marker.view))
        self.now += steps
        self.note(one, f"Complete{outcome}", [], start=start)

    def transaction(self, name: str, number: int, *, lasts: int = 5, timestamp: int | None = None) -> None:
        """A whole one."""
        one, start = self.begin(name, number), self.now
        self.write(one, number, self.now if timestamp is None else timestamp)
        self.now += lasts
        self.finish(one, number, commit=True, start=start, steps=3)


@dataclass(frozen=True, slots=True)
class Copy:
    """What a copy has: of each log how many of its batches, and how many bytes of the next one."""

    batches: Mapping[str, int]
    torn: Mapping[str, int] = field(default_factory=dict)
    checkpoint: Mapping[str, int] = field(default_factory=dict)
    """The high watermarks that were copied, in batches."""

    def write(self, history: History, directory: Path, *, closed: bool = False) -> Path:
        """The directory; its checkpoint is newer than its segments."""
        directory.mkdir(parents=True)
        (directory / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
        if closed:
            (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
        for partition, log in history.logs.items():
            folder = directory / partition
            folder.mkdir()
            (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
            kept = log[: self.batches[partition]]
            following = log[len(kept)].content if len(kept) < len(log) else b""
            parts = [kept[at : at + BATCHES_PER_SEGMENT] for at in range(0, len(kept), BATCHES_PER_SEGMENT)] or [[]]
            for at, part in enumerate(parts):
                base = parts[at - 1][-1].following if at else 0
                content = b"".join(one.content for one in part)
                if part is parts[-1] and len(part) < BATCHES_PER_SEGMENT:
                    content += following[: self.torn.get(partition, 0)]
                path = folder / f"{base:020}.log"
                path.write_bytes(content)
                os.utime(path, (1, 1))
        marks = {name: history.logs[name][count - 1].following for name, count in self.checkpoint.items() if count}
        rows = [f"{' '.join(name.rsplit('-', 1))} {offset}" for name, offset in marks.items()]
        (directory / HIGH_WATERMARKS).write_text("\n".join(["0", str(len(rows)), *rows]) + "\n")
        return directory


def whole(history: History) -> Copy:
    """All of it."""
    return Copy({name: len(log) for name, log in history.logs.items()})


def hung() -> History:
    """A batch of a transaction that nobody has begun, and some more transactions of another client behind it."""
    history = History()
    history.transaction("shop", 0)
    history.now += 1_000
    history.write(history.producers["shop"], 0, history.now)
    history.now += 1_000
    history.transaction("till", 0)
    return history


def grown_old(history: History) -> str:
    """Longer than a transaction may last passes; then the partition and the coordinator of what hangs go on."""
    history.now += MAX_TIMEOUT_MS + ABORT_MS
    coordinator = partition_for("shop", COORDINATORS)
    names = (f"beside-{number}" for number in range(99))
    beside = next(name for name in names if partition_for(name, COORDINATORS) == coordinator)
    for name in ("till", beside):
        history.now += 5_000
        history.transaction(name, 0)
    return f"__transaction_state-{coordinator}"
