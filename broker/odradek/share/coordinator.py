"""The share coordinator: the machine over one partition of `__share_group_state`.

Its clients are the leaders of partitions, which continue where the last leader ended, and group coordinators, which
initialize and delete the state of a partition for a group. Its state is a fold over its records.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from odradek.core.machine import (
    Answered,
    Decision,
    Fact,
    LogRecord,
    Machine,
    Proposed,
    Refused,
    TransactionalAppend,
)
from odradek.records.control import read_marker
from odradek.records.record import iterate_records
from odradek.records.state import decode_key, decode_value
from odradek.share.state import (
    NO_COUNT,
    NO_OFFSET,
    Delivery,
    ShareKey,
    ShareState,
    Staged,
    StateBatch,
    forgotten,
    laid_over,
    settled,
    snapshot_record,
    state_of_snapshot,
    state_of_update,
    update_record,
)
from odradek.wire.codecs import PLAIN, Codecs
from odradek.wire.errors import DecodeError, ErrorCode
from odradek.wire.messages.share_snapshot_key import ShareSnapshotKey
from odradek.wire.messages.share_snapshot_value import ShareSnapshotValue
from odradek.wire.messages.share_update_key import ShareUpdateKey
from odradek.wire.messages.share_update_value import ShareUpdateValue

if TYPE_CHECKING:
    from odradek.records.batch import Batch

__all__ = ["Owner", "Prune", "ShareCoordinator", "Written", "refused_by"]

T = TypeVar("T")

FENCED_LEADER = Refused(
    ErrorCode.FENCED_LEADER_EPOCH, "The leader epoch in the request is older than the epoch on the broker."
)
FENCED_STATE = Refused(
    ErrorCode.FENCED_STATE_EPOCH, "The coordinator rejected the request because the state epoch did not match."
)
UNKNOWN_PARTITION = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
NEGATIVE_PARTITION = Refused(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")
NEGATIVE_LEADER = Refused(ErrorCode.INVALID_REQUEST, "The leader epoch cannot be a negative number.")
NEGATIVE_STATE = Refused(ErrorCode.INVALID_REQUEST, "The state epoch cannot be a negative number.")
READ_UNINITIALIZED = Refused(ErrorCode.INVALID_REQUEST, "Read operation on uninitialized share partition not allowed.")
WRITE_UNINITIALIZED = Refused(
    ErrorCode.INVALID_REQUEST, "Write operation on uninitialized share partition not allowed."
)


class Owner(Struct, frozen=True):
    """The transaction that a write of staged records is a part of (KIP-1289)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


def refused_by(verdict: ErrorCode) -> Refused:
    """The refusal that follows from the verdict on an owner; a coordinator that cannot be reached is asked again."""
    unreached = verdict == ErrorCode.NETWORK_EXCEPTION
    return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE if unreached else verdict)


class Written(Struct, frozen=True):
    """A write of the leader of a partition; with an `owner` its batches are staged in that transaction."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    batches: tuple[StateBatch, ...]
    owner: Owner | None = None


class Prune(Struct, frozen=True):
    """Work: the log may begin at the oldest snapshot that is still needed."""

    @property
    def key(self) -> Hashable:
        return Prune


class ShareCoordinator(Machine[Prune]):
    """Keeps the states of share partitions; `exists` tells whether a partition (topic id, index) exists.

    `matches_exactly`: the marker of a transaction settles only what was staged with its very epoch, as the draft of
    KIP-1289 has it, and not what was staged with an earlier one.
    """

    def __init__(
        self,
        *,
        updates_per_snapshot: int,
        prune_interval_ms: int,
        exists: Callable[[bytes, int], bool],
        codecs: Codecs = PLAIN,
        matches_exactly: bool = False,
    ) -> None:
        super().__init__()
        self._codecs = codecs
        self._matches_exactly = matches_exactly
        self._staged: dict[int, dict[ShareKey, None]] = {}
        """The partitions in which each producer may have staged records."""
        self._updates_per_snapshot = updates_per_snapshot
        self._prune_interval_ms = prune_interval_ms
        self._next_prune: int | None = None
        self._since: dict[ShareKey, int] = {}
        """The offset of each partition's last snapshot: earlier records are not needed."""
        self._exists = exists
        self._states: dict[ShareKey, ShareState] = {}
        self._proposed: tuple[Proposed[object], ShareKey, ShareState | None] | None = None
        """The last proposal with the state that it leads to, which need not be decoded again."""

    def read(self, key: ShareKey, leader_epoch: int, now: int) -> Decision[ShareState]:
        """The state, for a new leader; from now on no earlier leader may change it."""
        if key.partition < 0:
            return NEGATIVE_PARTITION
        if leader_epoch < 0:
            return NEGATIVE_LEADER
        state = self._states.get(key)
        if state is None:
            return READ_UNINITIALIZED
        if leader_epoch < state.leader_epoch:
            return FENCED_LEADER
        if not self._exists(key.topic_id, key.partition):
            return UNKNOWN_PARTITION
        if leader_epoch == state.leader_epoch:
            return Answered(state)
        after, record = self._changed(key, replace(state, leader_epoch=leader_epoch), (), now)
        return self._propose(key, record, after, after)

    def write(self, key: ShareKey, written: Written, now: int) -> Decision[None]:
        """A leader writes the delivery states of records."""
        if key.partition < 0:
            return NEGATIVE_PARTITION
        state = self._states.get(key)
        if state is None:
            return WRITE_UNINITIALIZED
        if written.leader_epoch < state.leader_epoch:
            return FENCED_LEADER
        if written.state_epoch < state.state_epoch:
            return FENCED_STATE
        if not self._exists(key.topic_id, key.partition):
            return UNKNOWN_PARTITION
        if written.start_offset > state.start_offset:
            state = replace(state, start_offset=written.start_offset, complete_count=written.complete_count)
        elif written.start_offset == state.start_offset:
            state = replace(state, complete_count=max(state.complete_count, written.complete_count))
        after, record = self._changed(key, state, written.batches, now)
        owner = written.owner
        transactional = None if owner is None else TransactionalAppend(owner.producer_id, owner.producer_epoch)
        return self._propose(key, record, after, None, transactional)

    def _changed(
        self, key: ShareKey, state: ShareState, batches: Sequence[StateBatch], now: int
    ) -> tuple[ShareState, LogRecord]:
        """The state with these batches, and its record: an update, or a snapshot after a number of updates."""
        laid = laid_over(state.batches, batches, state.start_offset)
        if state.updates >= self._updates_per_snapshot:
            epoch = state.snapshot_epoch + 1
            after = replace(state, snapshot_epoch=epoch, batches=laid, written=now, updates=0)
            return after, snapshot_record(key, after, self._codecs)
        after = replace(state, batches=laid, written=now, updates=state.updates + 1)
        return after, update_record(key, state, laid_over((), batches, state.start_offset), self._codecs)

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int, now: int) -> Decision[None]:
        """A group begins to read a partition, or starts again at another offset."""
        if key.partition < 0:
            return NEGATIVE_PARTITION
        if state_epoch < 0:
            return NEGATIVE_STATE
        before = self._states.get(key)
        if before is not None and state_epoch < before.state_epoch:
            return FENCED_STATE
        if not self._exists(key.topic_id, key.partition):
            return UNKNOWN_PARTITION
        after = ShareState(
            snapshot_epoch=0 if before is None else before.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=0,
            start_offset=start_offset,
            complete_count=NO_COUNT if start_offset == NO_OFFSET else 0,
            batches=(),
            created=now,
            written=now,
        )
        return self._propose(key, snapshot_record(key, after, self._codecs), after, None)

    def delete(self, key: ShareKey) -> Decision[None]:
        """A group reads a partition no longer."""
        if key.partition < 0:
            return NEGATIVE_PARTITION
        if not self._exists(key.topic_id, key.partition):
            return UNKNOWN_PARTITION
        if key not in self._states:
            return Answered(None)
        return self._propose(key, forgotten(key), None, None)

    def summary(self, key: ShareKey) -> Decision[ShareState | None]:
        """The state, for a description; None if the group has not begun to read the partition."""
        if key.partition < 0:
            return NEGATIVE_PARTITION
        if not self._exists(key.topic_id, key.partition):
            return UNKNOWN_PARTITION
        return Answered(self._states.get(key))

    def topics_deleted(self, topic_ids: Iterable[bytes]) -> Decision[None]:
        gone = set(topic_ids)
        records = tuple(forgotten(key) for key in self._states if key.topic_id in gone)
        return Proposed(records, None) if records else Answered(None)

    def _propose(
        self,
        key: ShareKey,
        record: LogRecord,
        after: ShareState | None,
        reply: T,
        transactional: TransactionalAppend | None = None,
    ) -> Proposed[T]:
        proposed = Proposed((record,), reply, transactional)
        self._proposed = proposed, key, after
        return proposed

    def fold_own(self, proposed: Proposed[object], base_offset: int) -> bool:
        """Adopt the last proposal as it was decided."""
        if self._proposed is None or self._proposed[0] is not proposed:
            return False
        _, key, after = self._proposed
        self._proposed = None
        self._keep(key, after, base_offset)
        if proposed.transactional is not None:
            self._staged.setdefault(proposed.transactional.producer_id, {})[key] = None
        return True

    def _keep(self, key: ShareKey, state: ShareState | None, offset: int) -> None:
        if state is None:
            self._states.pop(key, None)
            self._since.pop(key, None)
        else:
            self._states[key] = state
            if state.updates == 0:
                self._since[key] = offset

    def apply(self, batch: Batch) -> None:
        """Fold snapshots and updates; the marker of a transaction settles the records that it has staged."""
        if batch.is_control:
            self._end(batch)
            return
        for record in iterate_records(batch):
            try:
                self._apply(record.key or b"", record.value, record.timestamp, record.offset)
            except DecodeError as error:
                self.facts.append(Fact("group_record_skipped", {"offset": record.offset, "error": str(error)}))

    def _apply(self, key: bytes, value: bytes | None, timestamp: int, offset: int) -> None:
        snapshot_key = decode_key(key, ShareSnapshotKey)
        if snapshot_key is not None:
            known = ShareKey(snapshot_key.group_id, snapshot_key.topic_id, snapshot_key.partition)
            snapshot = None if value is None else decode_value(value, self._codecs.type_of(ShareSnapshotValue))
            if value is None or snapshot is not None:
                state = None if snapshot is None else state_of_snapshot(snapshot)
                self._keep(known, state, offset)
                self._find_staged(known, state)
            return
        update_key = decode_key(key, ShareUpdateKey)
        if update_key is None or value is None:
            return
        known = ShareKey(update_key.group_id, update_key.topic_id, update_key.partition)
        update, before = decode_value(value, self._codecs.type_of(ShareUpdateValue)), self._states.get(known)
        if update is not None and before is not None and update.snapshot_epoch == before.snapshot_epoch:
            state = self._states[known] = state_of_update(before, update, timestamp)
            self._find_staged(known, state)

    def _find_staged(self, key: ShareKey, state: ShareState | None) -> None:
        for each in () if state is None else state.batches:
            if each.staged is not None:
                self._staged.setdefault(each.staged.producer_id, {})[key] = None

    def _end(self, batch: Batch) -> None:
        """A transaction ends: what its producer has staged in it gets its outcome, or is AVAILABLE again (KIP-1289)."""
        keys = self._staged.get(batch.producer_id)
        marker = read_marker(batch) if keys else None
        if keys is None or marker is None:
            return
        producer_id, epoch, exactly = batch.producer_id, batch.producer_epoch, self._matches_exactly

        def belongs(staged: Staged) -> bool:
            # Markers of a transaction that bumps its epoch have the next one (KIP-890).
            earlier = staged.producer_epoch == epoch if exactly else staged.producer_epoch <= epoch
            return staged.producer_id == producer_id and earlier

        for key in list(keys):
            state = self._states.get(key)
            if state is not None:
                self._states[key] = state = _ended(state, belongs, commit=marker.commit)
            if state is None or all(each.staged is None for each in state.batches):
                del keys[key]
        if not keys:
            del self._staged[producer_id]

    def due(self, now: int) -> Sequence[Prune]:
        """Prune from time to time, if there are states."""
        if not self._states:
            return ()
        if self._next_prune is None:
            self._next_prune = now + self._prune_interval_ms
        return (Prune(),) if self._next_prune <= now else ()

    def wake_at(self) -> int | None:
        """The time (ms) of the next pruning; the first one is due at once."""
        return (self._next_prune or 0) if self._states else None

    def prunable(self, end: int, now: int) -> int:
        """The offset before which no record is needed; sets the time of the next pruning."""
        self._next_prune = now + self._prune_interval_ms
        return min(self._since.values(), default=end)

    def durable_state(self) -> dict[ShareKey, ShareState]:
        return dict(self._states)


def _ended(state: ShareState, belongs: Callable[[Staged], bool], *, commit: bool) -> ShareState:
    """The state after the end of a transaction; records that it has finished are counted."""
    done = sum(
        each.last - each.first + 1
        for each in state.batches
        if commit
        and each.staged is not None
        and belongs(each.staged)
        and each.staged.outcome in (Delivery.ACKNOWLEDGED, Delivery.ARCHIVED)
    )
    return replace(
        state,
        batches=settled(state.batches, state.start_offset, belongs=belongs, commit=commit),
        complete_count=state.complete_count if state.complete_count == NO_COUNT else state.complete_count + done,
    )
