"""The state of one partition of a share group in `__share_group_state`: its records, and their fold.

A snapshot has the whole state; updates after it have changes, which are laid over it.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from enum import IntEnum

from msgspec import Struct

from odradek.core.machine import LogRecord
from odradek.records.state import encode_key, encode_value
from odradek.wire.messages.share_snapshot_key import ShareSnapshotKey
from odradek.wire.messages.share_snapshot_value import ShareSnapshotValue
from odradek.wire.messages.share_snapshot_value import StateBatch as SnapshotBatch
from odradek.wire.messages.share_update_key import ShareUpdateKey
from odradek.wire.messages.share_update_value import ShareUpdateValue
from odradek.wire.messages.share_update_value import StateBatch as UpdateBatch

__all__ = [
    "NO_COUNT",
    "NO_OFFSET",
    "Delivery",
    "ShareKey",
    "ShareState",
    "StateBatch",
    "coordinator_key",
    "forgotten",
    "laid_over",
    "snapshot_record",
    "state_of_snapshot",
    "state_of_update",
    "update_record",
]

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
    ARCHIVED = 4


class ShareKey(Struct, frozen=True):
    """A partition of a share group."""

    group_id: str
    topic_id: bytes
    partition: int


class StateBatch(Struct, frozen=True):
    """Records from `first` to `last` with the same state and delivery count."""

    first: int
    last: int
    state: int
    count: int


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
    topic = urlsafe_b64encode(key.topic_id).decode().rstrip("=")
    return f"{key.group_id}:{topic}:{key.partition}"


def laid_over(below: Sequence[StateBatch], above: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """The batches of an update laid over the earlier ones, from the start offset on; equal neighbours are joined.

    If two have the same record, the one with the higher delivery count wins, then the one with the later state.
    """
    merged = list(below)
    for new in above:
        merged = _with(merged, new)
    joined: list[StateBatch] = []
    for each in merged:
        if each.last < start_offset:
            continue
        first = max(each.first, start_offset)
        before = joined[-1] if joined else None
        if before is not None and before.last + 1 == first and (before.state, before.count) == (each.state, each.count):
            joined[-1] = StateBatch(before.first, each.last, each.state, each.count)
        else:
            joined.append(StateBatch(first, each.last, each.state, each.count))
    return tuple(joined)


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
                result.append(StateBatch(position, new.last, new.state, new.count))
                position = new.last + 1
            result.append(old)
            continue
        if old.first < new.first:
            result.append(StateBatch(old.first, new.first - 1, old.state, old.count))
        elif position < old.first:
            result.append(StateBatch(position, old.first - 1, new.state, new.count))
        first, last = max(old.first, new.first), min(old.last, new.last)
        right = new if (new.count, new.state) >= (old.count, old.state) else old
        result.append(StateBatch(first, last, right.state, right.count))
        position = last + 1
        if old.last > new.last:
            result.append(StateBatch(new.last + 1, old.last, old.state, old.count))
    if position <= new.last:
        result.append(StateBatch(position, new.last, new.state, new.count))
    return result


# ---------------------------------------------------------------------- records


def snapshot_record(key: ShareKey, state: ShareState) -> LogRecord:
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
    return LogRecord(_snapshot_key(key), encode_value(value, VALUE_VERSION))


def update_record(key: ShareKey, state: ShareState, batches: Iterable[StateBatch]) -> LogRecord:
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
    update_key = ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return LogRecord(encode_key(update_key), encode_value(value, VALUE_VERSION))


def forgotten(key: ShareKey) -> LogRecord:
    """The tombstone of a partition."""
    return LogRecord(_snapshot_key(key), None)


def _snapshot_key(key: ShareKey) -> bytes:
    return encode_key(ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition))


def state_of_snapshot(value: ShareSnapshotValue) -> ShareState:
    """The state in a snapshot."""
    return ShareState(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        complete_count=value.delivery_complete_count,
        batches=tuple(
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in value.state_batches
        ),
        created=value.create_timestamp,
        written=value.write_timestamp,
    )


def state_of_update(before: ShareState, value: ShareUpdateValue, written: int) -> ShareState:
    """The state after an update."""
    batches = (
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in value.state_batches
    )
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
