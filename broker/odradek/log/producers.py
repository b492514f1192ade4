"""Producer state: the fold of a partition's batches that makes producers idempotent and transactions visible.

    admit, admit_marker     decide: may this batch, this marker, be appended? They change nothing.
    apply                   the only writer: fold one appended batch, at the leader and at a replay alike.

A batch without producer id never comes here.
Rules: KIP-98 and KIP-360 for epochs and sequences, KIP-890 for guards, first sequences and marker epochs.
Kafka spreads them over `ProducerStateManager`, `ProducerStateEntry`, `ProducerAppendInfo` and `UnifiedLog`.
"""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

from odradek.core.machine import Refused
from odradek.log.answers import ProducerDescription
from odradek.log.guards import Guard, Guards
from odradek.log.markers import admit_marker
from odradek.records.batch import CONTROL, NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, TRANSACTIONAL, Batch
from odradek.records.control import Marker, read_marker
from odradek.releases.release import ProducerRules
from odradek.wire.errors import ErrorCode

__all__ = [
    "CACHED_BATCHES",
    "NO_OFFSET",
    "CachedBatch",
    "Completed",
    "Origin",
    "Producer",
    "ProducerState",
    "SESSION",
    "Snapshot",
    "described",
]

CACHED_BATCHES = 5
"""Number of batches of a producer by which a retry is recognised: as many as a client has in flight."""
NO_OFFSET = -1
SESSION = 1
"""The transaction version of a marker after which its producer continues in a session (KIP-609's draft)."""
_SEQUENCE_MAX = 2**31 - 1


class Origin(Enum):
    """The origin of a batch: batches of clients are fully checked, those of coordinators not for their sequence."""

    CLIENT = auto()
    COORDINATOR = auto()


class CachedBatch(Struct, frozen=True, gc=False):
    """A batch in the log, with the fields by which a retry of it is recognised."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class Producer(Struct):
    """The state of one producer id in the log. `batches` are those of the present epoch only."""

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = NO_TIMESTAMP
    last_sequence: int = NO_SEQUENCE
    first_offset: int = NO_OFFSET
    """First offset of its open transaction."""
    batches: list[CachedBatch] = []

    def copy(self) -> Producer:
        return Producer(
            self.producer_id,
            self.epoch,
            self.coordinator_epoch,
            self.last_timestamp,
            self.last_sequence,
            self.first_offset,
            self.batches.copy(),
        )

    def adopt_epoch(self, epoch: int) -> None:
        """Begin another epoch, with its own sequences."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.last_sequence = NO_SEQUENCE


class Completed(Struct, frozen=True):
    """A transaction that its marker has ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    commit: bool


class Snapshot(Struct, frozen=True):
    """The state as of an offset: a replay may begin there."""

    offset: int
    producers: tuple[Producer, ...]
    unreplicated: tuple[Completed, ...] = ()
    """Transactions whose marker is not committed yet: for the next leader they hold the last stable offset back."""


class ProducerState:
    """All producers of one partition, their open transactions, and the guards of those about to open one."""

    def __init__(self, rules: ProducerRules | None = None) -> None:
        self.rules = rules or ProducerRules()
        self.producers: dict[int, Producer] = {}
        self.guards = Guards()
        self.ongoing: dict[int, int] = {}
        """First offset of each open transaction, and its producer id, in offset order."""
        self.sessions: dict[int, int] = {}
        """Epochs of producers that need no verification, by producer id; volatile like guards."""
        self.unreplicated: list[Completed] = []
        """Ended transactions whose marker lies above the high watermark."""

    def admit(
        self, batch: Batch, *, origin: Origin, guard: Guard | None = None, verification_enabled: bool = True
    ) -> CachedBatch | Refused | None:
        """Whether this data batch may be appended: None if it may, the batch that it repeats, or the refusal."""
        producer = self.producers.get(batch.producer_id)
        # Nearly every batch is the next one of a known producer: no other check is needed.
        if (
            producer is not None
            and batch.producer_epoch == producer.epoch
            and batch.base_sequence == producer.last_sequence + 1
            and (batch.attributes & TRANSACTIONAL != 0) is (producer.first_offset != NO_OFFSET)
            and batch.producer_id not in self.guards.pending
            and origin is Origin.CLIENT
        ):
            return None
        # Nor for the first one of its transaction, with its guard.
        if (
            guard is not None
            and producer is not None
            and batch.producer_epoch == producer.epoch
            and batch.base_sequence == producer.last_sequence + 1
            and batch.attributes & TRANSACTIONAL
            and producer.first_offset == NO_OFFSET
            and origin is Origin.CLIENT
            and self.guards.lets_begin(batch.producer_id, guard, batch.base_sequence)
        ):
            return None
        return self._judged(batch, producer, origin, guard, verification_enabled)

    def _judged(
        self, batch: Batch, producer: Producer | None, origin: Origin, guard: Guard | None, verification_enabled: bool
    ) -> CachedBatch | Refused | None:
        """As `admit`, with every check in its order."""
        if producer is None:
            producer = Producer(batch.producer_id)
        if origin is Origin.CLIENT and (duplicate := _duplicate_of(batch, producer)) is not None:
            return duplicate
        if batch.producer_epoch < producer.epoch:
            return Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
        unguarded = self._unguarded(batch, producer, guard, verification_enabled)
        if unguarded is not None:
            return unguarded
        if self.rules.refuses_unknown and origin is Origin.CLIENT and _is_unknown(batch, producer):
            return Refused(ErrorCode.UNKNOWN_PRODUCER_ID)
        if origin is Origin.CLIENT and not self._in_sequence(batch, producer):
            return Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        keeps_apart = verification_enabled and self.rules.asks_by_epoch
        return _transaction_conflict(batch, producer, keeps_apart=keeps_apart)

    def _unguarded(
        self, batch: Batch, producer: Producer, guard: Guard | None, verification_enabled: bool
    ) -> Refused | None:
        """KIP-890, "Race Condition": a batch that opens a transaction needs the guard that no marker has taken away."""
        if not (batch.attributes & TRANSACTIONAL and verification_enabled):
            return None
        if self.is_admitted(producer, batch.producer_epoch):
            return None
        return None if self.guards.holds(batch.producer_id, guard) else Refused(ErrorCode.INVALID_TXN_STATE)

    def _in_sequence(self, batch: Batch, producer: Producer) -> bool:
        sequence = batch.base_sequence
        pending = self.guards.pending.get(batch.producer_id)
        if pending is not None:
            # KIP-890, part 2: each transaction has its own epoch, so its first batch here begins at 0.
            if pending.supports_epoch_bump and not producer.batches and sequence != 0 and self.rules.begins_at_zero:
                return False
            if sequence > pending.lowest_sequence:
                return False
        if producer.epoch == NO_PRODUCER_EPOCH:
            return True  # KIP-360: lost state is no reason to refuse
        if batch.producer_epoch != producer.epoch:
            return sequence == 0
        return sequence == (producer.last_sequence + 1) & _SEQUENCE_MAX

    def admit_marker(
        self, *, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> ErrorCode:
        """Whether this marker may be appended."""
        producer = self.producers.get(producer_id)
        if producer is None:
            return ErrorCode.NONE if producer_epoch >= NO_PRODUCER_EPOCH else ErrorCode.INVALID_PRODUCER_EPOCH
        error = admit_marker(
            epoch=producer_epoch,
            stored_epoch=producer.epoch,
            is_open=producer.first_offset != NO_OFFSET,
            transaction_version=transaction_version,
        )
        if error is ErrorCode.NONE and coordinator_epoch < producer.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return error

    def is_admitted(self, producer: Producer, epoch: int) -> bool:
        """Whether it has an open transaction here, with this epoch if that matters, or a session."""
        if producer.first_offset != NO_OFFSET and (producer.epoch == epoch or not self.rules.asks_by_epoch):
            return True
        return bool(self.sessions) and self.sessions.get(producer.producer_id) == epoch

    def epoch_of(self, producer_id: int) -> int:
        """The epoch of the producer's last batch or marker; -1 if it is not known."""
        producer = self.producers.get(producer_id)
        return NO_PRODUCER_EPOCH if producer is None else producer.epoch

    def apply(self, batch: Batch, base_offset: int) -> Completed | None:
        """Fold a batch with a producer id at this offset; returns the transaction that it ended, if any."""
        producer = self.producers.get(batch.producer_id)
        if producer is None:
            producer = self.producers[batch.producer_id] = Producer(batch.producer_id)
        if batch.attributes & CONTROL:
            marker = read_marker(batch)
            return None if marker is None else self._end_transaction(batch, marker, base_offset, producer)
        if batch.producer_epoch != producer.epoch:
            producer.adopt_epoch(batch.producer_epoch)
        last_offset = base_offset + batch.last_offset_delta
        first = batch.base_sequence
        last_sequence = first if first == NO_SEQUENCE else (first + batch.last_offset_delta) & _SEQUENCE_MAX
        batches = producer.batches
        if len(batches) == CACHED_BATCHES:
            del batches[0]
        batches.append(CachedBatch(batch.base_sequence, last_sequence, base_offset, last_offset, batch.max_timestamp))
        producer.last_sequence = last_sequence
        producer.last_timestamp = batch.max_timestamp
        if batch.attributes & TRANSACTIONAL:
            if self.guards.pending:
                self.guards.transaction_opened(batch.producer_id)
            if producer.first_offset == NO_OFFSET:
                producer.first_offset = base_offset
                self.ongoing[base_offset] = batch.producer_id
        return None

    def apply_marker(
        self, batch: Batch, marker: Marker, offset: int, *, transaction_version: int = 0
    ) -> Completed | None:
        """Fold the marker of this batch; returns the transaction that it ended, if any."""
        producer = self.producers.get(batch.producer_id)
        if producer is None:
            producer = self.producers[batch.producer_id] = Producer(batch.producer_id)
        if self.rules.keeps_sessions:
            self.sessions.pop(batch.producer_id, None)
            if transaction_version == SESSION:
                self.sessions[batch.producer_id] = batch.producer_epoch
        return self._end_transaction(batch, marker, offset, producer)

    def _end_transaction(self, batch: Batch, marker: Marker, offset: int, producer: Producer) -> Completed | None:
        producer.adopt_epoch(batch.producer_epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = batch.max_timestamp
        if self.guards.pending:
            self.guards.marker_passed(batch.producer_id, producer_epoch=batch.producer_epoch)
        first_offset = producer.first_offset
        if first_offset == NO_OFFSET:
            return None
        producer.first_offset = NO_OFFSET
        del self.ongoing[first_offset]
        completed = Completed(batch.producer_id, first_offset, offset, marker.commit)
        self.unreplicated.append(completed)
        return completed

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Ended transactions with a marker below no longer hold the last stable offset back."""
        if self.unreplicated:
            self.unreplicated = [ended for ended in self.unreplicated if ended.last_offset >= high_watermark]

    def expire(self, now: int, *, after_ms: int) -> None:
        """Forget producers and guards that were idle for this time; an open transaction never expires."""
        for producer_id in [
            producer.producer_id
            for producer in self.producers.values()
            if producer.first_offset == NO_OFFSET and now - producer.last_timestamp >= after_ms
        ]:
            del self.producers[producer_id]
            self.sessions.pop(producer_id, None)
        self.guards.expire(now, after_ms=after_ms)

    def is_last(self, batch: Batch) -> bool:
        """Whether the batch holds the last sequence of its producer, or else its epoch."""
        producer = self.producers.get(batch.producer_id)
        if producer is None:
            return False
        if producer.batches:
            return batch.last_offset == producer.batches[-1].last_offset
        return batch.is_control and batch.producer_epoch == producer.epoch

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest transaction that is open, or ended above the high watermark."""
        first = next(iter(self.ongoing), None)
        for ended in self.unreplicated:
            if first is None or ended.first_offset < first:
                first = ended.first_offset
        return first

    def stable_offset_after(self, completed: Completed) -> int:
        """The last stable offset after the end of this transaction: the next open one, or the offset behind it."""
        return next(iter(self.ongoing), completed.last_offset + 1)

    def snapshot(self, offset: int) -> Snapshot:
        """The state for the next leader, as of this offset; without guards."""
        producers = tuple(producer.copy() for producer in self.producers.values())
        return Snapshot(offset, producers, tuple(self.unreplicated))

    def restore(self, snapshot: Snapshot) -> None:
        """Begin with this state."""
        self.producers = {producer.producer_id: producer.copy() for producer in snapshot.producers}
        firsts = [producer for producer in self.producers.values() if producer.first_offset != NO_OFFSET]
        firsts.sort(key=lambda producer: producer.first_offset)
        self.ongoing = {producer.first_offset: producer.producer_id for producer in firsts}
        self.unreplicated = list(snapshot.unreplicated)


def described(producer: Producer) -> ProducerDescription:
    """The producer as DescribeProducers shows it."""
    return ProducerDescription(
        producer.producer_id,
        producer.epoch,
        producer.last_sequence,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.first_offset,
    )


def _duplicate_of(batch: Batch, producer: Producer) -> CachedBatch | None:
    if batch.producer_epoch != producer.epoch or not producer.batches:
        return None
    first, last = batch.base_sequence, batch.last_sequence
    for cached in producer.batches:
        if cached.base_sequence == first and cached.last_sequence == last:
            return cached
    return None


def _is_unknown(batch: Batch, producer: Producer) -> bool:
    """Whether the last sequence before this batch is unknown: there is no state, or only a marker."""
    known = producer.last_sequence != NO_SEQUENCE or producer.epoch not in (NO_PRODUCER_EPOCH, batch.producer_epoch)
    return batch.base_sequence != 0 and not known


def _transaction_conflict(batch: Batch, producer: Producer, *, keeps_apart: bool) -> Refused | None:
    """The refusal of a valid batch because of the producer's open transaction; None without a conflict."""
    if producer.first_offset == NO_OFFSET:
        return None
    if not batch.attributes & TRANSACTIONAL:
        return Refused(ErrorCode.INVALID_TXN_STATE)
    # The one deliberate difference from Kafka: a transaction of an older epoch is still open here, so its marker was
    # lost. Kafka lets the new batch join it, and commits records that may have been aborted when the new transaction
    # commits. KIP-890 promises that a transaction has only records of its own epoch, so the batch is refused: the
    # client aborts, and the marker of that abort ends both. With verification switched off, or as an older release, the
    # behaviour is Kafka's.
    if keeps_apart and batch.producer_epoch > producer.epoch:
        return Refused(ErrorCode.INVALID_TXN_STATE)
    return None
