"""Compaction: of each key only the newest record stays (`cleanup.policy=compact`), as in Kafka's `Cleaner`.

A pass reads the part of the log that no pass has read yet, notes the newest offset of each key, and then rewrites the
sealed segments without superseded records.
Batches keep their offsets, so the log gets gaps.
Records of aborted transactions are removed, open transactions are not touched, and a marker is removed when no record
of its transaction is left and `delete.retention.ms` has passed.
Tombstones are removed after that time too; the batch holds that time (the delete horizon of KIP-534).
A batch with the last sequence or the epoch of a known producer stays, and so does the last batch of the log: without
records if all are superseded (KIP-98, KIP-360).

A pass is done in steps of limited size, because a node does nothing else meanwhile.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter

from odradek.log.log import Log
from odradek.log.segment import SEGMENT_BYTES, Segment
from odradek.records.batch import MAGIC, Batch, InvalidBatch, parse_batch
from odradek.records.record import Record, build_batch, iterate_records

__all__ = ["KEYS_MAX", "STEP_BYTES", "Compaction", "cleanable_until", "is_due"]

KEYS_MAX = 1_000_000
"""Keys that one pass remembers; a log with more takes several."""
STEP_BYTES = 1024 * 1024

_FIRST = itemgetter(0)


def cleanable_until(log: Log, now: int, *, last_stable_offset: int) -> int:
    """The end of the part that compaction may read: whole sealed segments below the last stable offset, with records
    all older than `min.compaction.lag.ms`."""
    lag_ms = log.config.min_compaction_lag_ms
    until = log.start_offset
    for segment in log.sealed_segments():
        if segment.next_offset > last_stable_offset or (lag_ms > 0 and segment.max_timestamp > now - lag_ms):
            return segment.base_offset
        until = segment.next_offset
    return until


def is_due(log: Log, now: int, *, until: int) -> bool:
    """Whether the dirty part is large enough (`min.cleanable.dirty.ratio`) or too old (`max.compaction.lag.ms`)."""
    clean = dirty = 0
    oldest = now
    for segment in log.sealed_segments():
        if segment.base_offset >= until:
            break
        if segment.next_offset <= log.first_dirty_offset:
            clean += segment.size
        else:
            dirty += segment.size
            oldest = min(oldest, segment.first_timestamp)
    if not dirty or log.first_dirty_offset >= until:
        return False
    config = log.config
    return dirty / (clean + dirty) > config.min_cleanable_dirty_ratio or now - oldest > config.max_compaction_lag_ms


class Compaction:
    """One pass over a log."""

    def __init__(self, log: Log, now: int, *, until: int, keys_max: int = KEYS_MAX) -> None:
        self.log = log
        self.now = now
        self.until = until
        """Batches from here on stay as they are."""
        self._keys_max = keys_max
        self._newest: dict[bytes, int] = {}
        self._aborted: dict[int, list[tuple[int, int]]] = {}
        """Offset ranges of aborted transactions, by producer id, in order: a producer has one transaction at a time."""
        for entry in log.aborted.entries:
            self._aborted.setdefault(entry.producer_id, []).append((entry.first_offset, entry.last_offset))
        self._in_transaction: set[int] = set()
        """Producers with a transactional batch in this pass, whose marker has not come yet."""
        self._ended_empty: set[int] = set()
        """Offsets of markers whose transaction has no batch in this pass."""
        self._work = self._pass()

    def step(self, bytes_max: int = STEP_BYTES) -> bool:
        """Continue for about this many bytes; True when the pass is done."""
        for size in self._work:
            bytes_max -= size
            if bytes_max <= 0:
                return False
        return True

    def _pass(self) -> Iterator[int]:
        yield from self._note_keys()
        for group in self._groups():
            yield from self._rewrite(group)
        log = self.log
        log.aborted.remove(self._ended_empty)
        log.note_compacted(self.until)

    def _note_keys(self) -> Iterator[int]:
        newest = self._newest
        for batch in self.log.batches(self.log.first_dirty_offset):
            if batch.base_offset >= self.until:
                break
            if len(newest) >= self._keys_max:
                self.until = batch.base_offset
                break
            if not batch.is_control and not self._is_aborted(batch):
                for record in _records(batch):
                    if record.key is not None:
                        newest[record.key] = record.offset
            yield batch.size

    def _is_aborted(self, batch: Batch) -> bool:
        if not batch.is_transactional:
            return False
        ranges = self._aborted.get(batch.producer_id)
        if ranges is None:
            return False
        before = bisect_right(ranges, batch.base_offset, key=_FIRST)
        return before > 0 and batch.base_offset <= ranges[before - 1][1]

    def _groups(self) -> list[list[Segment]]:
        """Groups of adjacent segments that are small enough to be joined."""
        groups: list[list[Segment]] = []
        room = 0
        for segment in self.log.sealed_segments():
            if segment.base_offset >= self.until:
                break
            # The first one may be empty: compaction of an earlier process has left it so.
            if not groups or segment.size > room:
                groups.append([])
                room = min(self.log.config.segment_bytes, self.log.store.segment_bytes, SEGMENT_BYTES)
            groups[-1].append(segment)
            room -= segment.size
        return groups

    def _rewrite(self, group: list[Segment]) -> Iterator[int]:
        kept: list[Batch] = []
        changed = len(group) > 1
        for segment in group:
            for index in range(len(segment.offsets)):
                batch = segment.batch(index)
                thinned = batch if batch.base_offset >= self.until else self._thinned(batch)
                changed = changed or thinned is not batch
                if thinned is not None:
                    kept.append(thinned)
                yield batch.size
        if not changed:
            return
        first, last = group[0], group[-1]
        compacted: Segment | None = None
        if kept:
            size = sum(len(batch.view) for batch in kept)
            compacted = Segment(first.base_offset, capacity=size, created=first.created, number=first.number)
            for batch in kept:
                if batch.magic != MAGIC:
                    compacted.keep(batch)
                    continue
                compacted.append(
                    batch,
                    batch.base_offset,
                    size=len(batch.view),
                    leader_epoch=batch.partition_leader_epoch,
                    log_append_time=False,
                )
            compacted.next_offset = last.next_offset
        # Retention may have dropped a segment between two steps; then no segment is replaced.
        self.log.replace(group, compacted)

    def _thinned(self, batch: Batch) -> Batch | None:
        """The batch without its superseded records; None if no record stays."""
        try:
            if batch.is_control:
                kept, ends_nothing = self._kept_of_marker(batch)
            else:
                kept, ends_nothing = self._kept_of_data(batch), False
        except InvalidBatch:
            return batch  # a batch that cannot be read is kept unchanged
        if not kept:
            return self._emptied(batch)
        horizon = batch.delete_horizon_ms
        if horizon is None and (ends_nothing or any(record.value is None for record in kept)):
            horizon = self.now + self.log.config.delete_retention_ms
        elif len(kept) == batch.record_count and batch.magic == MAGIC:
            return batch
        return _rebuilt(batch, kept, horizon=horizon)

    def _kept_of_data(self, batch: Batch) -> list[Record]:
        if batch.is_transactional:
            self._in_transaction.add(batch.producer_id)
        if self._is_aborted(batch):
            return []
        keeps_tombstones = not self._is_past_horizon(batch)
        return [record for record in iterate_records(batch) if self._stays(record, keeps_tombstones=keeps_tombstones)]

    def _stays(self, record: Record, *, keeps_tombstones: bool) -> bool:
        if record.key is None or (record.value is None and not keeps_tombstones):
            return False
        return record.offset >= self._newest.get(record.key, record.offset)

    def _kept_of_marker(self, batch: Batch) -> tuple[list[Record], bool]:
        """The marker, if it stays, and whether its transaction had no batch in this pass."""
        records = list(iterate_records(batch))
        if batch.producer_id in self._in_transaction:
            # Records of its transaction were there when this pass began: the next pass looks again.
            self._in_transaction.discard(batch.producer_id)
            return records, False
        self._ended_empty.add(batch.base_offset)
        return [] if self._is_past_horizon(batch) else records, True

    def _is_past_horizon(self, batch: Batch) -> bool:
        horizon = batch.delete_horizon_ms
        return horizon is not None and self.now >= horizon

    def _emptied(self, batch: Batch) -> Batch | None:
        """Only the header if it is needed, like Kafka's `writeEmptyHeader`; None otherwise."""
        if not self._is_needed(batch):
            return None
        return batch if not batch.record_count else _without_records(batch)

    def _is_needed(self, batch: Batch) -> bool:
        log = self.log
        high_watermark = log.end_offset if log.mark is None else log.mark
        if batch.next_offset == high_watermark:
            return True
        return batch.has_producer_id and log.leader is not None and log.leader.is_last_of_producer(batch)


def _records(batch: Batch) -> list[Record]:
    try:
        return list(iterate_records(batch))
    except InvalidBatch:
        return []


def _rebuilt(batch: Batch, records: list[Record], *, horizon: int | None) -> Batch:
    """The batch with these records only: offsets, producer and sequence stay.

    A message of magic 0 or 1 becomes a batch of format v2, which begins and ends with its records.
    """
    is_old = batch.magic != MAGIC
    data = build_batch(
        records,
        base_offset=records[0].offset if is_old else batch.base_offset,
        last_offset=None if is_old else batch.last_offset,
        compression=batch.compression,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        control=batch.is_control,
        leader_epoch=batch.partition_leader_epoch,
        timestamp_type=batch.timestamp_type,
        delete_horizon_ms=horizon,
    )
    return parse_batch(memoryview(data))


def _without_records(batch: Batch) -> Batch:
    """The header of the batch: it keeps the greatest timestamp, and neither a codec nor a delete horizon."""
    data = build_batch(
        (),
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        control=batch.is_control,
        leader_epoch=batch.partition_leader_epoch,
        timestamp_type=batch.timestamp_type,
        max_timestamp=batch.max_timestamp,
    )
    return parse_batch(memoryview(data))
