"""Histories of a running broker's files, and copies of them: each file as it was at a time of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from crc32c import crc32c

from odradek.core.internal_topics import partition_for
from odradek.records.batch import batches
from odradek.records.control import end_txn_marker
from odradek.records.record import Record, build_batch
from odradek.records.state import encode_key, encode_value
from odradek.wire.messages.transaction_log_key import TransactionLogKey
from odradek.wire.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from odradek_pipeline.directories.proof import ABORT_MS, MAX_TIMEOUT_MS
from odradek_pipeline.logs.payload import STATES
from odradek_pipeline.logs.sidecars import INDEX, PRODUCER, TIME_INDEX

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
    beside: Mapping[str, int] = field(default_factory=dict)
    """Of each log how many batches it had when the files beside its segments were copied; none are there without."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """How many bytes are missing at the end of each file beside the last segment."""

    def write(self, history: History, directory: Path, *, closed: bool = False) -> Path:
        """The directory; its checkpoint is newer than its segments."""
        directory.mkdir(parents=True)
        (directory / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
        if closed:
            (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
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
            if partition in self.beside:
                self.write_beside(log[: self.beside[partition]], folder, self.left_out.get(partition, 0))
        marks = {name: history.logs[name][count - 1].following for name, count in self.checkpoint.items() if count}
        rows = [f"{' '.join(name.rsplit('-', 1))} {offset}" for name, offset in marks.items()]
        (directory / HIGH_WATERMARKS).write_text("\n".join(["0", str(len(rows)), *rows]) + "\n")
        return directory

    def write_beside(self, log: list[Written], folder: Path, left_out: int) -> None:
        """Indexes and snapshots as they were at another time than the segments."""
        parts = [log[at : at + BATCHES_PER_SEGMENT] for at in range(0, len(log), BATCHES_PER_SEGMENT)] or [[]]
        for at, part in enumerate(parts):
            base = parts[at - 1][-1].following if at else 0
            is_last = part is parts[-1]
            files = {".index": _index(part, base), ".timeindex": _times(part, base)}
            if base:
                files[".snapshot"] = _snapshot([one for before in parts[:at] for one in before])
            for suffix, content in files.items():
                kept = content[: max(0, len(content) - left_out)] if is_last else content
                (folder / f"{base:020}{suffix}").write_bytes(kept)


def _index(part: list[Written], base: int) -> bytes:
    """An entry for each batch but the first: its last offset, and where it begins."""
    position, entries = 0, []
    for one in part:
        if position:
            entries.append((one.following - 1 - base, position))
        position += len(one.content)
    return np.array(entries, INDEX).tobytes()


def _times(part: list[Written], base: int) -> bytes:
    """An entry where there is a newer time than before."""
    newest, entries = -1, []
    for one in part:
        (batch,) = batches(memoryview(one.content))
        if batch.max_timestamp > newest:
            newest = batch.max_timestamp
            entries.append((newest, one.following - 1 - base))
    return np.array(entries, TIME_INDEX).tobytes()


def _snapshot(before: list[Written]) -> bytes:
    """What the broker knew of each producer then."""
    known: dict[int, tuple[int, ...]] = {}
    for one in before:
        (batch,) = batches(memoryview(one.content))
        who = batch.producer_id
        if who < 0:
            continue
        if batch.is_control:
            known[who] = (who, batch.producer_epoch, -1, -1, 0, batch.max_timestamp, 0, -1)
            continue
        first = known[who][7] if who in known and known[who][7] >= 0 else batch.base_offset
        last = (batch.base_sequence, one.following - 1, 0, batch.max_timestamp)
        known[who] = (who, batch.producer_epoch, *last, 0 if who in known else -1, first)
    entries = np.array(list(known.values()), PRODUCER) if known else np.zeros(0, PRODUCER)
    body: bytes = len(entries).to_bytes(4) + entries.tobytes()
    return (1).to_bytes(2) + crc32c(body).to_bytes(4) + body


def whole(history: History) -> Copy:
    """All of it."""
    every = {name: len(log) for name, log in history.logs.items()}
    return Copy(every, beside=every)


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
