"""A partition on its leader: the only access to its log.

Every append, of a client, a coordinator or a transaction marker, is checked by the producer state; then the batch is
copied into the log; then the state is updated. There is one copy of each log: a replica is an acknowledged offset
(`followers`). While all replicas acknowledge at once the high watermark is the end of the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from odradek.config.table import TopicConfig
from odradek.core.machine import ControlRecord, Fact, LogRecord, Refused, TransactionalAppend
from odradek.log.aborted import AbortedTransaction
from odradek.log.answers import AlreadyOpen, Appended, Duplicate, ProducerDescription, ReadResult
from odradek.log.disk import DiskError
from odradek.log.epochs import EpochEnd
from odradek.log.followers import Followers
from odradek.log.guards import Guard
from odradek.log.log import NO_REPLICA, Log
from odradek.log.offsets import OffsetAnswer, find_offset, offsets_before
from odradek.log.producers import CachedBatch, Completed, Origin, ProducerState, Snapshot, described
from odradek.log.replica import check_leader_epoch
from odradek.log.retention import retain
from odradek.log.transaction_facts import marker_facts, opened_fact, stable_offset_fact
from odradek.records.batch import LENGTH_BASE, NO_SEQUENCE, NO_TIMESTAMP, TRANSACTIONAL, Batch, payload_of, plain_batch
from odradek.records.compression import DECOMPRESSED_BYTES_MAX, Compression
from odradek.records.control import Marker, control_batch, end_txn_marker
from odradek.records.validate import TopicRules
from odradek.releases.release import ProducerRules
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.log.compaction import Compaction

__all__ = [
    "AlreadyOpen",
    "Appended",
    "Duplicate",
    "Guard",
    "OffsetAnswer",
    "Partition",
    "ProducerDescription",
    "ReadResult",
]

HIGH_WATERMARK = -1
"""In DeleteRecords: delete everything that is committed."""
LARGE_BYTES = 64 * 1024
"""A batch of a coordinator from this size on has its log compacted as it grows."""
COMPACTED_PER_BYTE = 4
"""How many bytes are then compacted for each one: more than the two passes read, so that the log stays behind."""
_NOT_LEADER = Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
NOT_ENOUGH_REPLICAS = Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
_LOGS_FULL = Refused(ErrorCode.KAFKA_STORAGE_ERROR, "The memory for logs is used up (odradek.log.memory.bytes.max)")


class Partition:
    """Leadership of one partition, from taking its log over until another leader does."""

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        log: Log,
        leader_epoch: int,
        config: TopicConfig,
        now: int,
        producer_rules: ProducerRules | None = None,
        leader: int = NO_REPLICA,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.key = topic, index
        self.log = log
        self.leader_epoch = leader_epoch
        self.is_leader = True
        """Whether no later leader has taken the log over; kept by the log."""
        self.leader_since = now
        self.producers = ProducerState(producer_rules)
        self.facts: list[Fact] | None = None
        """A list for facts, or None if they are not wanted; its reader empties it."""
        self.followers = Followers(log, leader=leader)
        self.is_short = False
        """Whether too few replicas are in sync for a write that wants all of them."""
        self._compaction: Compaction | None = None
        self.configure(config)
        self.lost_offsets = log.lead(leader_epoch, topic=topic, replica=leader)
        """How many the leader before had, and this one has not."""
        self.first_offset = log.end_offset
        """The end offset of the log when this leader began."""
        self._replay()

    def configure(self, config: TopicConfig) -> None:
        self.config = config
        self.rules = _rules(self.topic, config, ahead_ms=self.log.store.clients_ahead_ms)
        """The validation of records of clients."""
        self._log_append_time = config.message_timestamp_type == "LogAppendTime"
        if self.log.config is not config:  # one that was opened just now has it
            self.log.configure(config)

    def _replay(self) -> None:
        """Fold the batches of earlier leaders; verification guards are volatile and lost."""
        log = self.log
        snapshot = log.snapshots[-1] if log.snapshots else Snapshot(0, ())
        self.producers.restore(snapshot)
        for batch in log.batches_of_producers(snapshot.offset):
            self.producers.apply(batch, batch.base_offset)
        self.producers.high_watermark_moved(self.high_watermark)
        log.leader = self

    def snapshot(self) -> Snapshot:
        return self.producers.snapshot(self.log.end_offset)

    def is_last_of_producer(self, batch: Batch) -> bool:
        return self.producers.is_last(batch)

    @property
    def high_watermark(self) -> int:
        """Everything below is on all replicas that are in sync: it outlives this leader, and may be read."""
        mark = self.log.mark
        return self.log.end_offset if mark is None else mark

    @property
    def is_new(self) -> bool:
        """Whether records from before this leader are not committed yet."""
        mark = self.log.mark
        return mark is not None and mark < self.first_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.end_offset

    @property
    def log_start_offset(self) -> int:
        return self.log.start_offset

    @property
    def last_stable_offset(self) -> int:
        """Everything below is decided: no transaction is open there.

        Of a transaction that begins before the log does, Kafka goes by the batch that holds the log start offset, and
        answers where that batch begins, which may be below the log start offset.
        """
        first = self.producers.first_unstable_offset
        if first is None:
            return self.high_watermark
        start = self.log.start_offset
        if first < start:
            first = self.log.batch_begin(start) if self.producers.rules.stable_where_batch_begins else start
        return min(first, self.high_watermark)

    @property
    def size_bytes(self) -> int:
        return self.log.size_bytes

    def replicate(
        self,
        *,
        replicas: tuple[int, ...],
        in_sync: tuple[int, ...],
        lags: Mapping[int, int],
        alive: Collection[int],
        new: Collection[int],
        epoch: int,
        now: int,
    ) -> bool:
        """Adopt the replicas and their state (`Followers.adopt`); whether that has moved the high watermark.

        `min.insync.replicas` is limited to the number of replicas.
        """
        required = min(self.config.min_insync_replicas, len(replicas))
        self.is_short = len(in_sync) < required
        stable = self.last_stable_offset if self.facts is not None else 0
        moved = self.followers.adopt(
            replicas=replicas,
            in_sync=in_sync,
            required=required,
            lags=lags,
            alive=alive,
            new=new,
            epoch=epoch,
            now=now,
        )
        if moved:
            self._mark_moved(stable)
        return moved

    def acknowledged(self, now: int) -> bool:
        """Apply the acknowledgements of other replicas up to now (ms); whether that moved the high watermark."""
        if not self.is_leader:
            return False
        stable = self.last_stable_offset if self.facts is not None else 0
        moved = self.followers.advance(now)
        if moved:
            self._mark_moved(stable)
        return moved

    def _mark_moved(self, stable: int) -> None:
        """Transactions that ended below the high watermark hold nothing back any more."""
        self.producers.high_watermark_moved(self.high_watermark)
        if self.facts is not None:
            self._tell_stable_offset(self.facts, stable)

    def check_leader_epoch(self, leader_epoch: int) -> ErrorCode:
        """The error for a request with this leader epoch (KIP-320); -1 is not checked."""
        return check_leader_epoch(leader_epoch, self.leader_epoch)

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, supports_epoch_bump: bool, now: int
    ) -> AlreadyOpen | Guard | Refused:
        """Whether the coordinator must be asked before this producer's transactional batch is appended.

        A guard says yes: ask, then append with it (KIP-890, part 1).
        """
        if not self.is_leader:
            return _NOT_LEADER
        producers = self.producers
        producer = producers.producers.get(producer_id)
        if producer is not None:
            if producers.rules.refuses_older_epochs and producer_epoch < producer.epoch:
                return Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
            if producers.is_admitted(producer, producer_epoch):
                return AlreadyOpen()
        return producers.guards.ask(
            producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            supports_epoch_bump=supports_epoch_bump,
            now=now,
        )

    def append_client(
        self, batch: Batch, *, now: int, guard: Guard | None = None, verification_enabled: bool = True
    ) -> Appended | Duplicate | Refused:
        """Append a validated batch of a client; its view is free again afterwards."""
        store = self.log.store
        size = batch.batch_length + LENGTH_BASE
        if store.room < size and not store.shed(size):
            return _LOGS_FULL
        if self._log_append_time:
            batch.max_timestamp = now
        return self._append(batch, Origin.CLIENT, now, guard, verification_enabled)

    def append_coordinator(
        self,
        records: Sequence[LogRecord],
        *,
        now: int,
        producer: TransactionalAppend | None = None,
        guard: Guard | None = None,
        verification_enabled: bool = True,
        compression: Compression = Compression.NONE,
        base_sequence: int = NO_SEQUENCE,
    ) -> Appended | Refused:
        """Append a coordinator's records as one batch, as part of the producer's transaction if one is named.

        Their sequence is not looked at, whatever it is.
        """
        if not records:
            end = self.log.end_offset
            return Appended(end, end, NO_TIMESTAMP, self.log.start_offset)
        if self.is_short:
            return NOT_ENOUGH_REPLICAS if self.is_leader else _NOT_LEADER
        if producer is None:
            batch = plain_batch(records, timestamp=now, base_sequence=base_sequence, compression=compression)
        else:
            batch = _transactional(records, now, producer, base_sequence, compression)
        size = batch.batch_length + LENGTH_BASE
        if size > self.config.max_message_bytes:
            return Refused(ErrorCode.MESSAGE_TOO_LARGE)
        store = self.log.store
        if store.room < size:
            store.shed(size)
        appended = self._append(batch, Origin.COORDINATOR, now, guard, verification_enabled)
        assert type(appended) is not Duplicate, "of coordinators nothing is a duplicate"
        if size >= LARGE_BYTES:
            # Such a record replaces one of the same size, and comes more often than the cleaner runs.
            self.compact(now, COMPACTED_PER_BYTE * size)
        return appended

    def append_records(self, records: Sequence[LogRecord], now: int) -> Appended | Refused:
        """Append a batch of the metadata log, which knows no producers and no limit for a batch.

        The records are all of the quorum itself, or none is.
        """
        if isinstance(records[0], ControlRecord):
            batch = control_batch(payload_of(records), timestamp=now, count=len(records))
        else:
            batch = plain_batch(records, timestamp=now)
        self.log.store.shed(batch.size)
        appended = self._append(batch, Origin.COORDINATOR, now, None, False)
        assert not isinstance(appended, Duplicate), "without a producer nothing is a duplicate"
        return appended

    def append_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
        now: int,
    ) -> Appended | Refused:
        """End the producer's transaction here; a marker that finds none is written all the same."""
        if not self.is_leader:
            return _NOT_LEADER
        if self.is_short:
            return NOT_ENOUGH_REPLICAS
        error = self.producers.admit_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
        if error is not ErrorCode.NONE:
            return Refused(error)
        batch = end_txn_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            timestamp=now,
        )
        store = self.log.store
        if store.room < (size := batch.batch_length + LENGTH_BASE):
            store.shed(size)
        stable = self.last_stable_offset if self.facts is not None else 0
        try:
            offset = self.log.append(
                batch, leader_epoch=self.leader_epoch, now=now, log_append_time=self._log_append_time
            )
        except DiskError as failed:
            return _storage_error(failed)
        completed = self.producers.apply_marker(
            batch, Marker(commit, coordinator_epoch), offset, transaction_version=transaction_version
        )
        if completed is not None and not commit:
            self._note_aborted(completed)
        if self.log.mark is None:
            self.producers.unreplicated.clear()  # all replicas have the marker
        else:
            self.followers.grew(now)
            self.producers.high_watermark_moved(self.high_watermark)
        if self.facts is not None:
            self.facts += marker_facts(self.topic, self.index, batch, offset=offset, commit=commit, completed=completed)
            self._tell_stable_offset(self.facts, stable)
        return Appended(offset, offset + 1, NO_TIMESTAMP, self.log.start_offset)

    def _append(
        self, batch: Batch, origin: Origin, now: int, guard: Guard | None, verification_enabled: bool
    ) -> Appended | Duplicate | Refused:
        log = self.log
        if log.leader_epoch != self.leader_epoch:
            return _NOT_LEADER
        stable = self.last_stable_offset if self.facts is not None else 0
        log_append_time = self._log_append_time
        if batch.producer_id < 0:
            try:
                offset = log.append(batch, leader_epoch=self.leader_epoch, now=now, log_append_time=log_append_time)
            except DiskError as failed:
                return _storage_error(failed)
        else:
            verdict = self.producers.admit(batch, origin=origin, guard=guard, verification_enabled=verification_enabled)
            if verdict is not None:
                return verdict if isinstance(verdict, Refused) else self._duplicate(verdict)
            try:
                offset = log.append(batch, leader_epoch=self.leader_epoch, now=now, log_append_time=log_append_time)
            except DiskError as failed:
                return _storage_error(failed)
            self.producers.apply(batch, offset)
        if log.mark is not None:
            self.followers.grew(now)
        if self.facts is not None:
            if self.producers.ongoing.get(offset) == batch.producer_id:
                self.facts.append(opened_fact(self.topic, self.index, batch, offset=offset))
            self._tell_stable_offset(self.facts, stable)
        return Appended(offset, log.end_offset, now if log_append_time else NO_TIMESTAMP, log.start_offset)

    def _duplicate(self, cached: CachedBatch) -> Duplicate:
        # Kafka answers the batch's own timestamp as log append time, even if a client set it.
        return Duplicate(cached.base_offset, cached.last_offset + 1, cached.timestamp, self.log.start_offset)

    def _note_aborted(self, completed: Completed) -> None:
        entry = AbortedTransaction(
            completed.producer_id,
            completed.first_offset,
            completed.last_offset,
            self.producers.stable_offset_after(completed),
        )
        self.log.aborted.append(entry)

    def _tell_stable_offset(self, facts: list[Fact], before: int) -> None:
        stable = self.last_stable_offset
        if stable != before:
            end = self.high_watermark
            facts.append(stable_offset_fact(self.topic, self.index, high_watermark=end, last_stable_offset=stable))

    def read(
        self, offset: int, *, max_bytes: int, read_committed: bool = False, min_one: bool = True
    ) -> ReadResult | Refused:
        """The records from the batch with this offset on, up to the reader's limit; the last batch may be cut."""
        log = self.log
        if log.leader_epoch != self.leader_epoch:
            # The next leader has appended batches that this state does not know, so the last stable offset is unknown
            # here.
            return _NOT_LEADER
        start, end = log.start_offset, log.end_offset
        if not start <= offset <= end:
            return Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
        if log.mark is not None:
            end = log.mark
        if not read_committed:
            records = log.read(offset, max_bytes=max_bytes, until=end, min_one=min_one)
            stable = self.last_stable_offset if self.producers.ongoing or log.mark is not None else end
            return ReadResult(records, end, stable, start, None)
        stable = self.last_stable_offset
        records = log.read(offset, max_bytes=max_bytes, until=stable, min_one=min_one)
        return ReadResult(records, end, stable, start, log.aborted_in(offset, len(records)))

    def committed_since(self, position: int) -> Iterator[Batch]:
        """Every committed batch from this offset on, in order, those included that are committed meanwhile.

        A caller that keeps `batch.next_offset` as its next position gets each batch exactly once.
        """
        batches = self.log.batches(max(position, self.log.start_offset))
        return batches if self.log.mark is None else self._below_mark(batches)

    def newest_committed(self, count: int) -> Iterator[Batch]:
        """The newest of the last `count` batches that are committed, the oldest first."""
        batches = self.log.newest_batches(count)
        return batches if self.log.mark is None else self._below_mark(batches)

    def _below_mark(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            if batch.next_offset > self.high_watermark:
                return
            yield batch

    def list_offset(self, timestamp: int, *, read_committed: bool = False) -> OffsetAnswer:
        """The offset for a timestamp, or for one of the special timestamps of ListOffsets."""
        visible_end = self.last_stable_offset if read_committed else self.high_watermark
        return find_offset(self.log, timestamp, visible_end=visible_end, leader_epoch=self.leader_epoch)

    def offsets_before(self, timestamp: int) -> list[int]:
        """Where the segments begin that are older than this, newest first: ListOffsets as it was up to version 0."""
        return offsets_before(self.log, timestamp, visible_end=self.high_watermark)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        return self.log.epochs.end_of(epoch, log_end_offset=self.log.end_offset)

    def describe_producers(self) -> list[ProducerDescription]:
        """Every producer that the log still knows."""
        return [described(producer) for producer in self.producers.producers.values()]

    def delete_records(self, before: int) -> int | Refused:
        """Let the log begin at this offset, or at the high watermark for -1; the new log start offset."""
        log = self.log
        if self.config.compacts and not self.config.deletes:
            return Refused(ErrorCode.POLICY_VIOLATION)
        offset = self.high_watermark if before == HIGH_WATERMARK else before
        if not 0 <= offset <= self.high_watermark:
            return Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
        log.advance_start(offset)
        return log.start_offset

    def retain(self, now: int) -> None:
        """Delete segments beyond the limits of retention."""
        if self.is_leader:
            retain(self.log, now)

    def forget_producers(self, now: int, *, after_ms: int) -> None:
        """Forget expired producers and guards; a producer with an open transaction stays."""
        if self.is_leader:
            self.producers.expire(now, after_ms=after_ms)

    def compact(self, now: int, compaction_bytes: int | None = None) -> bool:
        """Compact about so many bytes, else what one step takes, if it is time; whether there is more to do soon."""
        if not self.is_leader or not self.config.compacts:
            return False
        if self._compaction is None:
            from odradek.log.compaction import Compaction, cleanable_until, is_due  # no start has a log to compact

            until = cleanable_until(self.log, now, last_stable_offset=self.last_stable_offset)
            if not is_due(self.log, now, until=until):
                return False
            self._compaction = Compaction(self.log, now, until=until)
        if self._compaction.step() if compaction_bytes is None else self._compaction.step(compaction_bytes):
            self._compaction = None
        return self._compaction is not None


def _storage_error(failed: DiskError) -> Refused:
    return Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(failed))


def _transactional(
    records: Sequence[LogRecord],
    now: int,
    producer: TransactionalAppend,
    base_sequence: int,
    compression: Compression,
) -> Batch:
    return plain_batch(
        records,
        timestamp=now,
        attributes=TRANSACTIONAL,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=base_sequence,
        compression=compression,
    )


def _rules(topic: str, config: TopicConfig, *, ahead_ms: int) -> TopicRules:
    return TopicRules(
        name=topic,
        max_message_bytes=config.max_message_bytes,
        message_timestamp_type=config.message_timestamp_type,
        message_timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        message_timestamp_after_max_ms=config.message_timestamp_after_max_ms + ahead_ms,
        compacted=config.compacts,
        compression_type=config.compression_type,
        decompressed_bytes_max=min(config.max_decompressed_message_bytes, DECOMPRESSED_BYTES_MAX),
    )
