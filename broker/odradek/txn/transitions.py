"""Transitions of an entry (Kafka's `TransactionMetadata.prepare...`), and their invariants.

Every function is pure: the old entry and the time in, the new entry out.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from odradek.txn.entry import EPOCH_MAX, NONE, Entry
from odradek.txn.partitions import ManyPartitions, Partitions, TopicPartition, includes, sorted_partitions
from odradek.txn.states import ALLOWED, COMPLETED_STATES, PREPARED, PREPARED_STATES, RESTING, Outcome, TxnState

__all__ = [
    "BUMPING",
    "added",
    "bumped",
    "check_transition",
    "completed",
    "created",
    "fenced",
    "kept",
    "prepared",
    "prepared_bumping",
    "replayed",
    "rotated",
]

BUMPING = 2
"""The client transaction version whose EndTxn bumps the epoch."""


def created(transactional_id: str, producer_id: int, *, timeout_ms: int, now: int) -> Entry:
    """The first InitProducerId of an id."""
    return Entry(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=timeout_ms,
        state=TxnState.EMPTY,
        last_update_timestamp=now,
        previous_producer_id=producer_id,
    )


def bumped(entry: Entry, *, timeout_ms: int, keep_last: bool, now: int) -> Entry:
    """InitProducerId: the next epoch; `keep_last` if the holder of the present one asked and may retry."""
    return replace(
        _emptied(entry, timeout_ms=timeout_ms, now=now),
        producer_epoch=entry.producer_epoch + 1,
        last_producer_epoch=entry.producer_epoch if keep_last else NONE,
    )


def rotated(entry: Entry, producer_id: int, *, timeout_ms: int, keep_last: bool, now: int) -> Entry:
    """InitProducerId when the epochs are used up: another producer id, beginning at epoch 0."""
    return replace(
        _emptied(entry, timeout_ms=timeout_ms, now=now),
        producer_id=producer_id,
        producer_epoch=0,
        last_producer_epoch=entry.producer_epoch if keep_last else NONE,
    )


def replayed(entry: Entry, *, timeout_ms: int, now: int) -> Entry:
    """The retry of an InitProducerId that had bumped: only the timestamps change.

    The previous producer id stays, so that the retry can be retried (KIP-360, 2b); Kafka overwrites it here.
    """
    return replace(_emptied(entry, timeout_ms=timeout_ms, now=now), previous_producer_id=entry.previous_producer_id)


def kept(entry: Entry, *, next_producer_id: int, now: int) -> Entry:
    """InitProducerId that keeps the open transaction (KIP-939): its owner has another epoch from now on.

    The transaction keeps its own id and epoch, which are in its records, and its timeout. The owner's next epoch is in
    `next_producer_epoch`; it is 0 if the epochs of its id were used up and `next_producer_id` is a fresh one.
    """
    is_fresh = next_producer_id != NONE
    return replace(
        entry,
        next_producer_id=next_producer_id if is_fresh else entry.owner_id,
        next_producer_epoch=0 if is_fresh else entry.owner_epoch + 1,
        last_update_timestamp=now,
        previous_producer_id=entry.producer_id,
        epoch_used=False,
    )


def added(entry: Entry, partitions: Iterable[TopicPartition], *, client_version: int, now: int) -> Entry:
    """Partitions join the transaction; the first ones open it."""
    present = entry.partitions
    if type(present) is ManyPartitions:
        joined: Partitions = present.grow(partitions)
    else:
        joined = (*present, *partitions)
        if len(joined) > 1:
            joined = sorted_partitions(joined)
    return replace(
        entry,
        state=TxnState.ONGOING,
        partitions=joined,
        start_timestamp=now if entry.state in RESTING else entry.start_timestamp,
        last_update_timestamp=now,
        previous_producer_id=entry.producer_id,
        client_transaction_version=client_version,
        epoch_used=False,
    )


def prepared(entry: Entry, outcome: Outcome, *, client_version: int = 0, now: int) -> Entry:
    """The end of a transaction in its own epoch (EndTxn up to v4)."""
    return replace(
        entry,
        state=PREPARED_STATES[outcome],
        last_update_timestamp=now,
        previous_producer_id=entry.producer_id,
        next_producer_id=NONE,
        client_transaction_version=client_version,
        epoch_used=True,
    )


def prepared_bumping(
    entry: Entry, outcome: Outcome, *, next_producer_id: int, client_version: int = BUMPING, now: int
) -> Entry:
    """The end of a transaction with the bumped epoch (KIP-890); also an abort without an open transaction.

    If this uses up the epochs, the markers carry the very last one, and the client goes on with the next producer id.
    The owner
    of a kept transaction goes on beyond its own epoch: a delayed EndTxn of that epoch could end the next transaction
    (KIP-939).
    """
    previous_producer_id, next_producer_epoch = entry.producer_id, NONE
    if entry.next_producer_epoch != NONE and entry.is_kept:
        previous_producer_id = entry.owner_id
        next_producer_epoch = 0 if next_producer_id != NONE else entry.owner_epoch + 1
        next_producer_id = next_producer_id if next_producer_id != NONE else entry.owner_id
    return replace(
        entry,
        state=PREPARED_STATES[outcome],
        # Beyond the very last epoch, which only a broken client can have reached, an abort still goes through.
        producer_epoch=min(entry.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=entry.producer_epoch,
        start_timestamp=now if entry.state in RESTING else entry.start_timestamp,
        last_update_timestamp=now,
        previous_producer_id=previous_producer_id,
        next_producer_id=next_producer_id,
        next_producer_epoch=next_producer_epoch,
        client_transaction_version=client_version,
        epoch_used=False,
    )


def fenced(entry: Entry, *, now: int) -> Entry:
    """An abort by the coordinator below transaction.version 2: the owner is fenced with the bumped epoch."""
    return replace(
        prepared(entry, Outcome.ABORT, now=now),
        producer_epoch=min(entry.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=NONE,
        epoch_used=False,
    )


def completed(entry: Entry, now: int) -> Entry:
    """All markers are written."""
    moves_on = entry.next_producer_id != NONE
    return replace(
        entry,
        producer_id=entry.next_producer_id if moves_on else entry.producer_id,
        producer_epoch=max(entry.next_producer_epoch, 0) if moves_on else entry.producer_epoch,
        state=COMPLETED_STATES[entry.state],
        partitions=(),
        last_update_timestamp=now,
        # That of a kept transaction is its owner's, who may retry.
        previous_producer_id=entry.producer_id if entry.next_producer_epoch == NONE else entry.previous_producer_id,
        next_producer_id=NONE,
        next_producer_epoch=NONE,
    )


def _emptied(entry: Entry, *, timeout_ms: int, now: int) -> Entry:
    return replace(
        entry,
        timeout_ms=timeout_ms,
        state=TxnState.EMPTY,
        partitions=(),
        start_timestamp=NONE,
        last_update_timestamp=now,
        previous_producer_id=entry.producer_id,
        epoch_used=False,
    )


def check_transition(old: Entry | None, new: Entry) -> None:
    """Assert the invariants of every transition (Kafka's `TransactionMetadata.completeTransitionTo`)."""
    assert new.producer_id >= 0
    assert 0 <= new.producer_epoch <= EPOCH_MAX
    if old is None:
        assert new.state is TxnState.EMPTY, f"{new.transactional_id} begins in {new.state.title}"
        return
    assert old.state in ALLOWED[new.state], f"{new.transactional_id}: {old.state.title} before {new.state.title}"
    same_producer = new.producer_id == old.producer_id
    if old.state in PREPARED and old.next_producer_epoch != NONE:
        assert (new.producer_id, new.producer_epoch) == (old.next_producer_id, old.next_producer_epoch)
    elif same_producer:
        assert old.producer_epoch <= new.producer_epoch <= old.producer_epoch + 1
    else:
        assert new.producer_epoch == 0
        assert new.previous_producer_id == old.producer_id
    if new.state in PREPARED:
        assert same_producer
        assert new.partitions == old.partitions
        assert new.timeout_ms == old.timeout_ms
    elif new.state is TxnState.ONGOING:
        assert (new.producer_id, new.producer_epoch) == (old.producer_id, old.producer_epoch)
        assert not old.partitions or includes(new.partitions, old.partitions)
    else:
        assert not new.partitions
    assert (new.state is TxnState.EMPTY) == (new.start_timestamp == NONE)
