"""Log directories of any size, quickly: a unit of batches is encoded once, and repeated with what must differ.

Two topics: `transfers`, whose transactions span all its partitions (level 2 of transaction.version: each marker bumps
the epoch, every third one aborts), and `events`, whose producers are idempotent. Beside the segments lie their indexes,
aborted transactions and snapshots, and `__transaction_state` has every step of every transaction. All of it is valid;
`hanging` adds one late batch that nobody will ever end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from crc32c import crc32c

from odradek.records.control import end_txn_marker
from odradek.records.record import Record, build_batch
from odradek.records.state import encode_key, encode_value
from odradek.wire.messages.transaction_log_key import TransactionLogKey
from odradek.wire.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from odradek_pipeline.logs.layout import TRANSACTION_STATE
from odradek_pipeline.logs.payload import STATES
from odradek_pipeline.logs.scan import HEADER, HEADER_BYTES
from odradek_pipeline.logs.sidecars import ABORTED, INDEX, PRODUCER, TIME_INDEX

__all__ = ["EVENTS", "TRANSFERS", "Made", "Plan", "make_logs"]

TRANSFERS, EVENTS = "transfers", "events"
BATCHES = 6
"""Batches of a transaction in each partition."""
UNIT_BYTES = 2 << 20
ROUND_MS = 100
BEGAN_MS = 1_700_000_000_000
EPOCHS_MAX = 30_000
INDEX_INTERVAL_BYTES = 4096
TIMEOUT_MS = 60_000


@dataclass(frozen=True)
class Plan:
    """What to make: bytes of segments in all, how they are spread, and how large batches and segments are."""

    total_bytes: int
    batch_bytes: int = 16 << 10
    segment_bytes: int = 256 << 20
    transactional_partitions: int = 4
    idempotent_partitions: int = 2
    producers: int = 5
    hanging: bool = False
    compacted: bool = False
    """The topic of idempotent producers has lost every second batch to the cleaner, up to its last segment."""
    skew: float = 0.0
    """The part of all bytes that the one partition of idempotent producers has; 0 shares them out evenly."""
    linked: bool = False
    """The equal partitions of a topic are hard links to the files of its first one, so that they take no space."""

    @property
    def records(self) -> int:
        """Records of a batch."""
        return max(1, self.batch_bytes // 1024)

    @property
    def value_bytes(self) -> int:
        """Bytes of a record's value: what a header and the record itself leave of a small batch."""
        return max(1, min(960, self.batch_bytes - 72))

    @property
    def rounds(self) -> int:
        """Rounds of transactions in a unit: a multiple of three, since every third one aborts."""
        return 3 * max(1, UNIT_BYTES // (3 * self.producers * BATCHES * self.batch_bytes))

    @property
    def epochs(self) -> int:
        """Transactions of a producer id before it is replaced by another, between two units."""
        return EPOCHS_MAX // self.rounds * self.rounds

    def partition_bytes(self, topic: str) -> int:
        """Bytes of each partition of a topic."""
        if not self.skew:
            return self.total_bytes // (self.transactional_partitions + self.idempotent_partitions)
        if topic == EVENTS:
            return int(self.total_bytes * self.skew / self.idempotent_partitions)
        return int(self.total_bytes * (1 - self.skew) / self.transactional_partitions)

    @property
    def disk_bytes(self) -> int:
        """What the segments take on the disk."""
        if not self.linked:
            return self.total_bytes
        there = ((TRANSFERS, self.transactional_partitions), (EVENTS, self.idempotent_partitions))
        return sum(self.partition_bytes(topic) for topic, count in there if count)


@dataclass
class Made:
    """What was made; `hanging` is the first offset of the one transaction that hangs, in partition 0 of `transfers`."""

    bytes: int = 0
    batches: int = 0
    transactions: int = 0
    hanging: int | None = None


@dataclass
class Unit:
    """Batches as they follow one another, and how each header changes when the unit is repeated."""

    batches: list[bytes]
    rounds: int
    """Rounds of transactions, or of batches, of all producers."""
    producers: int
    epochs: int = 0
    """Epochs of a producer id; 0 if its batches are in no transaction, and its epoch stays."""
    sequence_step: int = 0
    every: int = 1
    """Of so many batches the cleaner has left one."""
    content: bytes = b""
    positions: Any = None
    headers: Any = None
    ends: list[int] = field(default_factory=list)
    offsets: int = 0

    def __post_init__(self) -> None:
        everything = b"".join(self.batches)
        starts = np.cumsum([0, *(len(batch) for batch in self.batches[:-1])])
        counts = _headers(everything, starts)["last_offset_delta"].astype(np.int64) + 1
        self.offsets = int(counts.sum())
        kept = slice((len(self.batches) - 1) % self.every, None, self.every)  # no cleaner removes what is last
        self.batches = self.batches[kept]
        self.content = b"".join(self.batches)
        self.ends = np.cumsum([len(batch) for batch in self.batches]).tolist()
        self.positions = np.array([0, *self.ends[:-1]], np.int64)
        self.headers = _headers(self.content, self.positions).copy()
        self.headers["base_offset"] = (np.cumsum(counts) - counts)[kept]

    def repeated(self, number: int) -> tuple[bytearray, Any]:
        """The unit for the `number`th time, and its headers."""
        content = bytearray(self.content)
        headers = self.headers.copy()
        headers["base_offset"] += number * self.offsets
        for name in ("base_timestamp", "max_timestamp"):
            headers[name] += number * self.rounds * ROUND_MS
        if self.epochs:
            generation, epoch = divmod(number * self.rounds, self.epochs)
            headers["producer_id"] += generation * self.producers
            headers["producer_epoch"] += epoch
        numbered = headers["base_sequence"] >= 0
        wrapped = (headers["base_sequence"].astype(np.int64) + number * self.sequence_step) & 0x7FFFFFFF
        headers["base_sequence"] = np.where(numbered, wrapped, headers["base_sequence"])
        _put(content, self.positions, headers)
        with memoryview(content) as view:
            headers["crc"] = [
                crc32c(view[start + 21 : end]) for start, end in zip(self.positions.tolist(), self.ends, strict=True)
            ]
        _put(content, self.positions, headers)
        return content, headers


def _everywhere(content: bytes | bytearray) -> Any:
    return np.ndarray((len(content) - HEADER_BYTES + 1,), HEADER, buffer=content, strides=(1,))


def _headers(content: bytes | bytearray, positions: Any) -> Any:
    return _everywhere(content)[positions]


def _put(content: bytearray, positions: Any, headers: Any) -> None:
    _everywhere(content)[positions] = headers


# ---------------------------------------------------------------------- units


def _records(plan: Plan, random: Random, timestamp: int) -> list[Record]:
    return [Record(value=random.randbytes(plan.value_bytes), timestamp=timestamp) for _ in range(plan.records)]


def _transactional_unit(plan: Plan) -> Unit:
    random = Random(1)
    batches = []
    for number in range(plan.rounds):
        began = BEGAN_MS + number * ROUND_MS
        for batch in range(BATCHES):
            batches += [
                build_batch(
                    _records(plan, random, began + batch),
                    producer_id=1000 + producer,
                    producer_epoch=number,
                    base_sequence=batch * plan.records,
                    transactional=True,
                    leader_epoch=0,
                )
                for producer in range(plan.producers)
            ]
        batches += [
            bytes(
                end_txn_marker(
                    producer_id=1000 + producer,
                    producer_epoch=number + 1,
                    commit=_commits(number, producer),
                    coordinator_epoch=0,
                    timestamp=began + ROUND_MS - 10,
                ).view
            )
            for producer in range(plan.producers)
        ]
    return Unit(batches, plan.rounds, plan.producers, epochs=plan.epochs)


def _commits(number: int, producer: int) -> bool:
    return (number + producer) % 3 != 2


def _idempotent_unit(plan: Plan) -> Unit:
    random = Random(2)
    rounds = max(1, UNIT_BYTES // (plan.producers * plan.batch_bytes))
    batches = [
        build_batch(
            _records(plan, random, BEGAN_MS + number * ROUND_MS),
            producer_id=10 + producer,
            producer_epoch=0,
            base_sequence=number * plan.records,
            leader_epoch=0,
        )
        for number in range(rounds)
        for producer in range(plan.producers)
    ]
    every = 2 if plan.compacted else 1
    return Unit(batches, rounds, plan.producers, sequence_step=rounds * plan.records, every=every)


# ---------------------------------------------------------------------- partitions


class _Partition:
    """Equal partitions of one topic, written side by side, with what lies beside their segments."""

    def __init__(self, directories: Sequence[Path], plan: Plan, unit: Unit) -> None:
        self.directories, self.plan, self.unit = directories, plan, unit
        self.indexed = _indexed(unit)
        self.made = Made()
        self.units = 0
        self.bytes = plan.partition_bytes(directories[0].name.rpartition("-")[0])
        """So many are to be made in each directory."""
        self.producers: dict[int, tuple[int, ...]] = {}
        self.written = directories[:1] if plan.linked else directories
        """Where files are written; the other directories get links to those of the first one."""
        for directory in directories:
            directory.mkdir(parents=True)

    @property
    def offset(self) -> int:
        """The next offset."""
        return self.units * self.unit.offsets

    def write(self) -> None:
        """All segments."""
        while self.made.bytes < self.bytes:
            self._segment()

    def _segment(self) -> None:
        base, size = self.offset, 0
        index, times, aborted = [], [], []
        if base and self.unit.every == 1:
            self._beside(base, "snapshot", _snapshot(self.producers))
        files = [(directory / f"{base:020}.log").open("wb") for directory in self.written]
        try:
            while size == 0 or (
                size + len(self.unit.content) <= self.plan.segment_bytes and self.made.bytes < self.bytes
            ):
                content, headers = self.unit.repeated(self.units)
                for file in files:
                    file.write(content)
                last = headers["base_offset"] + headers["last_offset_delta"]
                chosen = self.indexed[self.unit.positions[self.indexed] + size > 0]
                index.append(_entries(INDEX, offset=last[chosen] - base, position=self.unit.positions[chosen] + size))
                times.append(
                    _entries(TIME_INDEX, timestamp=headers["max_timestamp"][chosen], offset=last[chosen] - base)
                )
                aborted.append(_aborted(content, self.unit.positions, headers))
                self._remember(headers)
                size += len(content)
                self.units += 1
                self.made.bytes += len(content)
                self.made.batches += len(headers)
        finally:
            for file in files:
                file.close()
        for suffix, parts in (("index", index), ("timeindex", times), ("txnindex", aborted)):
            whole = b"".join(part.tobytes() for part in parts)
            if whole or suffix != "txnindex":
                self._beside(base, suffix, whole)
        self._link(f"{base:020}.log")

    def _beside(self, base: int, suffix: str, content: bytes) -> None:
        for directory in self.written:
            (directory / f"{base:020}.{suffix}").write_bytes(content)
        self._link(f"{base:020}.{suffix}")

    def _link(self, name: str) -> None:
        for directory in self.directories[len(self.written) :]:
            (directory / name).hardlink_to(self.directories[0] / name)

    def _remember(self, headers: Any) -> None:
        """What a broker would know of each producer behind this unit: its last batch, or its last marker."""
        for header in headers[-self.plan.producers :]:
            producer_id, epoch = int(header["producer_id"]), int(header["producer_epoch"])
            delta = int(header["last_offset_delta"])
            if self.unit.epochs:  # the marker has bumped the epoch, and with it the sequences begin again
                self.producers[producer_id] = (producer_id, epoch, -1, -1, 0, int(header["max_timestamp"]), 0, -1)
            else:
                sequence = (int(header["base_sequence"]) + delta) & 0x7FFFFFFF
                offset = int(header["base_offset"]) + delta
                self.producers[producer_id] = (
                    *(producer_id, epoch, sequence, offset, delta),
                    *(int(header["max_timestamp"]), -1, -1),
                )


def _entries(kind: Any, **columns: Any) -> Any:
    entries = np.zeros(len(next(iter(columns.values()))), kind)
    for name, values in columns.items():
        entries[name] = values
    return entries


def _indexed(unit: Unit) -> Any:
    """Which batches of a unit get an index entry: as in a broker, at most one every 4 KiB."""
    chosen, since = [], INDEX_INTERVAL_BYTES + 1
    for at, batch in enumerate(unit.batches):
        if since > INDEX_INTERVAL_BYTES:
            chosen.append(at)
            since = 0
        since += len(batch)
    return np.array(chosen, np.int64)


def _aborted(content: bytearray, positions: Any, headers: Any) -> Any:
    control = (headers["attributes"] & 0x20) != 0
    abort = control.copy()
    # The type is the last int16 of a marker's key, behind five one-byte fields and the key's version.
    abort[control] = [content[at + HEADER_BYTES + 8] == 0 for at in positions[control].tolist()]
    ends = headers[abort]
    data = headers[~control]
    keys = {
        (producer, epoch): offset
        for producer, epoch, offset in zip(
            *(data[name][::-1].tolist() for name in ("producer_id", "producer_epoch", "base_offset")), strict=True
        )
    }
    first = [
        keys[producer, epoch - 1]
        for producer, epoch in zip(ends["producer_id"].tolist(), ends["producer_epoch"].tolist(), strict=True)
    ]
    return _entries(
        ABORTED,
        producer_id=ends["producer_id"],
        first_offset=np.array(first, np.int64),
        last_offset=ends["base_offset"],
        last_stable_offset=ends["base_offset"] + 1,
    )


def _snapshot(producers: dict[int, tuple[int, ...]]) -> bytes:
    entries = np.array(list(producers.values()), PRODUCER) if producers else np.zeros(0, PRODUCER)
    body: bytes = len(entries).to_bytes(4) + entries.tobytes()
    return (1).to_bytes(2) + crc32c(body).to_bytes(4) + body


# ---------------------------------------------------------------------- coordinators


def _transaction_state(directory: Path, plan: Plan, rounds: int) -> None:
    """Every step of every transaction, as coordinators write them, one partition for each of the producers."""
    everywhere = [
        PartitionsSchema(topic=TRANSFERS, partition_ids=list(range(plan.transactional_partitions))),
    ]
    for producer in range(plan.producers):
        partition = directory / f"{TRANSACTION_STATE}-{producer}"
        partition.mkdir()
        content = bytearray()
        steps = _steps(producer, rounds, everywhere, plan)
        for offset, (value, transactional_id) in enumerate(steps):
            record = Record(
                key=encode_key(TransactionLogKey(transactional_id=transactional_id)),
                value=encode_value(value, 1),
                timestamp=value.transaction_last_update_timestamp_ms,
            )
            content += build_batch([record], base_offset=offset, leader_epoch=0)
        (partition / f"{0:020}.log").write_bytes(content)


def _steps(
    producer: int, rounds: int, everywhere: list[PartitionsSchema], plan: Plan
) -> Iterator[tuple[TransactionLogValue, str]]:
    for number in range(rounds):
        generation, epoch = divmod(number, plan.epochs)
        began = BEGAN_MS + number * ROUND_MS
        ending = "Commit" if _commits(number, producer) else "Abort"
        made: list[tuple[str, int, list[PartitionsSchema], int]] = [("Empty", 0, [], began - 1)] if not epoch else []
        for state, bumped, partitions, at in (
            *made,
            ("Ongoing", 0, everywhere, began),
            (f"Prepare{ending}", 1, everywhere, began + ROUND_MS - 11),
            (f"Complete{ending}", 1, [], began + ROUND_MS - 9),
        ):
            value = TransactionLogValue(
                producer_id=1000 + generation * plan.producers + producer,
                producer_epoch=epoch + bumped,
                transaction_timeout_ms=TIMEOUT_MS,
                transaction_status=STATES.index(state),
                transaction_partitions=partitions,
                transaction_last_update_timestamp_ms=at,
                transaction_start_timestamp_ms=began if state != "Empty" else -1,
                client_transaction_version=2,
            )
            yield value, f"transfer-{generation}-{producer}"


# ---------------------------------------------------------------------- all of it


def make_logs(directory: Path, plan: Plan) -> Made:
    """The log directory of a broker that was stopped, which must not be there yet."""
    directory.mkdir(parents=True)
    (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    made = Made()
    makers: list[tuple[str, int, Callable[[Plan], Unit]]] = [
        (TRANSFERS, plan.transactional_partitions, _transactional_unit),
        (EVENTS, plan.idempotent_partitions, _idempotent_unit),
    ]
    for topic, count, unit in makers:
        if count == 0:
            continue
        partition = _Partition([directory / f"{topic}-{number}" for number in range(count)], plan, unit(plan))
        partition.write()
        if topic == EVENTS and plan.compacted:
            lines = [f"{topic} {number} {partition.offset}\n" for number in range(count)]
            (directory / "cleaner-offset-checkpoint").write_text(f"0\n{count}\n{''.join(lines)}")
        made.bytes += partition.made.bytes * count
        made.batches += partition.made.batches * count
        if topic == TRANSFERS:
            rounds = partition.units * partition.unit.rounds
            made.transactions = rounds * plan.producers
            _transaction_state(directory, plan, rounds)
            if plan.hanging:
                made.hanging = partition.offset
                _hang(partition, rounds)
    return made


def _hang(partition: _Partition, rounds: int) -> None:
    """A late batch of a transaction that has ended."""
    generation, epoch = divmod(rounds - 1, partition.plan.epochs)
    late = build_batch(
        [Record(value=b"late", timestamp=BEGAN_MS + rounds * ROUND_MS)],
        base_offset=partition.offset,
        producer_id=1000 + generation * partition.plan.producers,
        producer_epoch=epoch + 1,
        base_sequence=0,
        transactional=True,
        leader_epoch=0,
    )
    last = max(partition.directories[0].glob("*.log"))
    content = last.read_bytes() + late
    last.unlink()  # other partitions may be links to it
    last.write_bytes(content)
