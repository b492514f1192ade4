"""The state of one partition of a share group in `__share_group_state`: its records, and their fold.

A snapshot has the whole state; updates after it have changes, which are laid over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from msgspec import Struct

from odradek.core.machine import LogRecord
from odradek.records.state import encode_key, encode_value
from odradek.wire.codecs import Codecs
from odradek.wire.messages.share_snapshot_key import ShareSnapshotKey
from odradek.wire.messages.share_snapshot_value import ShareSnapshotValue
from odradek.wire.messages.share_snapshot_value import StateBatch as SnapshotBatch
from odradek.wire.messages.share_update_key import ShareUpdateKey
from odradek.wire.messages.share_update_value import ShareUpdateValue
from odradek.wire.messages.share_update_value import StateBatch as UpdateBatch
from odradek.wire.primitives import uuid_text

if TYPE_CHECKING:
    from odradek.wire.messages.read_share_group_state_response import StateBatch as ReadBatch
    from odradek.wire.messages.write_share_group_state_request import StateBatch as WrittenBatch

__all__ = [
    "NO_COUNT",
    "NO_OFFSET",
    "Delivery",
    "ShareKey",
    "ShareState",
    "Staged",
    "StateBatch",
    "batches_of",
    "coordinator_key",
    "forgotten",
    "laid_over",
    "settled",
    "snapshot_record",
    "state_of_snapshot",
    "state_of_update",
    "tell_staged",
    "update_record",
]

_ToldBatch: TypeAlias = "SnapshotBatch | UpdateBatch | ReadBatch | WrittenBatch"

NO_OFFSET = -1
"""The offset of a group that has not begun to read the partition, or of an update without one."""
NO_COUNT = -1
VALUE_VERSION = 0


class Delivery(IntEnum):
    """Delivery state of a record, numbered as in the log (KIP-932, "In-flight records")."""

    AVAILABLE = 0
    ACQUIRED = 1
    """Never in the log: a lock ends with its leader."""
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """On its way to the group's dead letter queue; a leader that loads it writes the record there (KIP-1191)."""
    ARCHIVED = 4
    TX_PENDING = 5
    """Acknowledged in a transaction that has not ended (KIP-1289); only a dialect has it."""


class ShareKey(Struct, frozen=True):
    """A partition of a share group."""

    group_id: str
    topic_id: bytes
    partition: int


class Staged(Struct, frozen=True):
    """The transaction in which records were acknowledged, and their state if it commits (KIP-1289)."""

    producer_id: int
    producer_epoch: int
    outcome: int


class StateBatch(Struct, frozen=True):
    """Records from `first` to `last` with the same state and delivery count; `staged`: of those in TX_PENDING."""

    first: int
    last: int
    state: int
    count: int
    staged: Staged | None = None


class ShareState(Struct, frozen=True):
    """The state of a partition of a share group; times in ms."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    """Number of finished records from the start offset on; -1 if unknown."""
    batches: tuple[StateBatch, ...]
    created: int
    written: int
    updates: int = 0
    """Number of updates since the snapshot."""


def coordinator_key(key: ShareKey) -> str:
    """The key that selects the partition of `__share_group_state`, as in FindCoordinator."""
    topic = uuid_text(key.topic_id)
    return f"{key.group_id}:{topic}:{key.partition}"


def laid_over(below: Sequence[StateBatch], above: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """The batches of an update laid over the earlier ones, from the start offset on; equal neighbours are joined.

    If two have the same record, the one with the higher delivery count wins, then the one with the later state. A
    staged record is the earliest: its leader writes another state of it only where it has given up staging it.
    """
    merged = list(below)
    for new in above:
        merged = _with(merged, new)
    return _joined(merged, start_offset)


def settled(
    batches: Sequence[StateBatch], start_offset: int, *, belongs: Callable[[Staged], bool], commit: bool
) -> tuple[StateBatch, ...]:
    """The batches at the end of a transaction: the staged ones that belong to it get their outcome, or are AVAILABLE
    again.
    """
    every = []
    for each in batches:
        staged = each.staged
        if staged is not None and belongs(staged):
            state = staged.outcome if commit else Delivery.AVAILABLE
            every.append(StateBatch(each.first, each.last, state, each.count))
        else:
            every.append(each)
    return _joined(every, start_offset)


def _joined(batches: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    joined: list[StateBatch] = []
    for each in batches:
        if each.last < start_offset:
            continue
        first = max(each.first, start_offset)
        before = joined[-1] if joined else None
        if (
            before is not None
            and before.last + 1 == first
            and (before.state, before.count, before.staged) == (each.state, each.count, each.staged)
        ):
            joined[-1] = StateBatch(before.first, each.last, each.state, each.count, each.staged)
        else:
            joined.append(StateBatch(first, each.last, each.state, each.count, each.staged))
    return tuple(joined)


def _rank(batch: StateBatch) -> int:
    return -1 if batch.state == Delivery.TX_PENDING else batch.state


def _with(batches: list[StateBatch], new: StateBatch) -> list[StateBatch]:
    result: list[StateBatch] = []
    position = new.first
    """The first offset of the new batch that is not placed yet."""
    for old in batches:
        if old.last < new.first:
            result.append(old)
            continue
        if old.first > new.last:
            if position <= new.last:
                result.append(StateBatch(position, new.last, new.state, new.count, new.staged))
                position = new.last + 1
            result.append(old)
            continue
        if old.first < new.first:
            result.append(StateBatch(old.first, new.first - 1, old.state, old.count, old.staged))
        elif position < old.first:
            result.append(StateBatch(position, old.first - 1, new.state, new.count, new.staged))
        first, last = max(old.first, new.first), min(old.last, new.last)
        right = new if (new.count, _rank(new)) >= (old.count, _rank(old)) else old
        result.append(StateBatch(first, last, right.state, right.count, right.staged))
        position = last + 1
        if old.last > new.last:
            result.append(StateBatch(new.last + 1, old.last, old.state, old.count, old.staged))
    if position <= new.last:
        result.append(StateBatch(position, new.last, new.state, new.count, new.staged))
    return result


class _StagedFields(Protocol):
    """The fields of a batch of KIP-1289 in addition to Kafka's, in messages and in records.

    A Protocol: the classes are generated from schemas when the dialect is loaded.
    """

    producer_id: int
    producer_epoch: int
    outcome: int


def batches_of(told: Iterable[_ToldBatch]) -> tuple[StateBatch, ...]:
    """The batches of a message or record."""
    return tuple(
        StateBatch(
            each.first_offset,
            each.last_offset,
            each.delivery_state,
            each.delivery_count,
            _staged_of(each) if each.delivery_state == Delivery.TX_PENDING else None,
        )
        for each in told
    )


def _staged_of(batch: _ToldBatch) -> Staged | None:
    """The transaction of a batch in TX_PENDING; None if its message or record is not of the dialect."""
    if not hasattr(batch, "outcome"):
        return None
    told = cast("_StagedFields", batch)
    return Staged(told.producer_id, told.producer_epoch, told.outcome)


def tell_staged(told: Iterable[object], batches: Iterable[StateBatch]) -> None:
    """Fill in the transactions of staged batches, in a message or record of the dialect."""
    for into, batch in zip(told, batches, strict=True):
        if batch.staged is not None:
            fields = cast("_StagedFields", into)
            fields.producer_id = batch.staged.producer_id
            fields.producer_epoch = batch.staged.producer_epoch
            fields.outcome = batch.staged.outcome


def snapshot_record(key: ShareKey, state: ShareState, codecs: Codecs) -> LogRecord:
    """A snapshot of the state of a partition."""
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.complete_count,
        create_timestamp=state.created,
        write_timestamp=state.written,
        state_batches=[
            SnapshotBatch(
                first_offset=each.first, last_offset=each.last, delivery_state=each.state, delivery_count=each.count
            )
            for each in state.batches
        ],
    )
    if any(each.staged for each in state.batches):
        value = codecs.own(value)
        tell_staged(value.state_batches, state.batches)
    return LogRecord(_snapshot_key(key), encode_value(value, VALUE_VERSION))


def update_record(key: ShareKey, state: ShareState, batches: Sequence[StateBatch], codecs: Codecs) -> LogRecord:
    """An update: these batches, the start offset, the leader epoch."""
    value = ShareUpdateValue(
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.complete_count,
        state_batches=[
            UpdateBatch(
                first_offset=each.first, last_offset=each.last, delivery_state=each.state, delivery_count=each.count
            )
            for each in batches
        ],
    )
    if any(each.staged for each in batches):
        value = codecs.own(value)
        tell_staged(value.state_batches, batches)
    update_key = ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return LogRecord(encode_key(update_key), encode_value(value, VALUE_VERSION))


def forgotten(key: ShareKey) -> LogRecord:
    """The tombstone of a partition."""
    return LogRecord(_snapshot_key(key), None)


def _snapshot_key(key: ShareKey) -> bytes:
    return encode_key(ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition))


def state_of_snapshot(value: ShareSnapshotValue) -> ShareState:
    return ShareState(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        complete_count=value.delivery_complete_count,
        batches=batches_of(value.state_batches),
        created=value.create_timestamp,
        written=value.write_timestamp,
    )


def state_of_update(before: ShareState, value: ShareUpdateValue, written: int) -> ShareState:
    batches = batches_of(value.state_batches)
    start_offset = before.start_offset if value.start_offset == NO_OFFSET else value.start_offset
    return ShareState(
        snapshot_epoch=before.snapshot_epoch,
        state_epoch=before.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=start_offset,
        complete_count=value.delivery_complete_count,
        batches=laid_over(before.batches, batches, start_offset),
        created=before.created,
        written=written,
        updates=before.updates + 1,
    )
