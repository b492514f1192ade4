"""The state of a small cluster with diskless topics, and its steps: a producer, brokers, and both coordinators.

No partition has a leader. A broker takes batches, has them added to their transaction, and uploads several as one
object; the batch coordinator takes an object whole, and by that gives offsets. It takes markers in the same way. So the
last stable offset is the batch coordinator's, and EndTxn, which the transaction coordinator answers, knows nothing of
it. Nothing here is a broker of Odradek: the machines are those of the KIPs, as small as the question permits.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

__all__ = ["Batch", "Design", "Entry", "Size", "Stage", "State", "first", "steps"]


class Design(Struct, frozen=True):
    """The decisions of a design of diskless topics."""

    checks_batches: bool = True
    """The batch coordinator refuses a batch whose transaction has its marker in the partition: by the epoch of a new
    client, by the verification of an old one (KIP-890)."""
    end_waits_for_markers: bool = False
    """EndTxn is answered when the markers are written."""
    markers_wait_for_objects: bool = False
    """No marker is written while a broker has a batch of the transaction that the batch coordinator has not taken."""
    reads_one_snapshot: bool = True
    """A broker that serves a Fetch learns the log and the aborted transactions together."""


class Size(Struct, frozen=True):
    """How much is played."""

    transactions: int = 2
    partitions: int = 1
    brokers: int = 1


class Stage(Enum):
    """Where a batch is."""

    SENT = "sent"
    HELD = "held"
    """Added to its transaction, and in the memory of a broker."""
    UPLOADED = "uploaded"
    TAKEN = "taken"
    GONE = "gone"
    """Refused, or lost with its broker."""


class Batch(Struct, frozen=True):
    """One batch of a transaction; there is at most one in each partition."""

    transaction: int
    partition: int
    broker: int
    stage: Stage = Stage.SENT
    object: int = -1


class Entry(Struct, frozen=True):
    """An entry of the batch coordinator at one offset: a batch of this transaction, or its marker."""

    transaction: int
    is_marker: bool = False


class State(Struct, frozen=True):
    """All of it. A transaction that is neither open nor complete is prepared: its end is decided."""

    commits: tuple[bool, ...]
    """The decisions of the transaction coordinator, by transaction."""
    completed: int
    added: frozenset[tuple[int, int]]
    """Transactions and their partitions."""
    batches: tuple[Batch, ...]
    logs: tuple[tuple[Entry, ...], ...]
    views: tuple[tuple[int, int], ...]
    """By partition how much of the log, and how much of it for aborted transactions, the broker knows that serves
    fetches; empty where it learns both together, at each fetch."""

    @property
    def current(self) -> int:
        """The transaction that is open, or would be the next one."""
        return len(self.commits)


def first(size: Size, design: Design) -> State:
    """Nothing has happened."""
    views = () if design.reads_one_snapshot else ((0, 0),) * size.partitions
    return State((), 0, frozenset(), (), ((),) * size.partitions, views)


def steps(state: State, size: Size, design: Design) -> Iterator[tuple[str, State]]:
    """Whatever may happen next: a sentence, and the state after it."""
    yield from _producer(state, size, design)
    yield from _brokers(state, size)
    yield from _batch_coordinator(state, design)
    yield from _transaction_coordinator(state, design)
    for partition, (log, aborted) in enumerate(state.views):
        end = len(state.logs[partition])
        if log < end:
            yield f"the reader's broker learns the log of p{partition}", _seen(state, partition, (end, aborted))
        if aborted < end:
            yield (
                f"the reader's broker learns the aborted transactions of p{partition}",
                _seen(state, partition, (log, end)),
            )


def _producer(state: State, size: Size, design: Design) -> Iterator[tuple[str, State]]:
    current = state.current
    if current == size.transactions or (design.end_waits_for_markers and state.completed < current):
        return
    own = [batch for batch in state.batches if batch.transaction == current]
    for partition in range(size.partitions):
        if all(batch.partition != partition for batch in own):
            for broker in range(size.brokers):
                batch = Batch(current, partition, broker)
                yield (
                    f"the producer sends a batch of transaction {current} for p{partition} to broker {broker}",
                    replace(state, batches=(*state.batches, batch)),
                )
    if state.completed == current and any((current, partition) in state.added for partition in range(size.partitions)):
        # The producer does not wait for a batch any more, or the time of the transaction is over.
        yield f"transaction {current} is to be aborted: EndTxn", replace(state, commits=(*state.commits, False))
        if all(batch.stage is Stage.TAKEN for batch in own):
            yield f"transaction {current} is to be committed: EndTxn", replace(state, commits=(*state.commits, True))


def _brokers(state: State, size: Size) -> Iterator[tuple[str, State]]:
    for place, batch in enumerate(state.batches):
        if batch.stage is Stage.SENT and state.completed == state.current and batch.transaction == state.current:
            after = replace(state, added=state.added | {(batch.transaction, batch.partition)})
            yield (
                f"broker {batch.broker} has p{batch.partition} added to transaction {batch.transaction}",
                _moved(after, {place: replace(batch, stage=Stage.HELD)}),
            )
        elif batch.stage is Stage.SENT and batch.transaction < state.current:
            yield f"the transaction of {_named(batch)} is over", _moved(state, {place: _gone(batch)})
    number = max((batch.object for batch in state.batches), default=-1) + 1
    for broker in range(size.brokers):
        held = {
            place: batch
            for place, batch in enumerate(state.batches)
            if batch.broker == broker and batch.stage is Stage.HELD
        }
        if held:
            uploaded = {place: replace(batch, stage=Stage.UPLOADED, object=number) for place, batch in held.items()}
            yield f"broker {broker} uploads object {number}", _moved(state, uploaded)
            yield (
                f"broker {broker} dies with what it holds",
                _moved(state, {place: _gone(batch) for place, batch in held.items()}),
            )


def _batch_coordinator(state: State, design: Design) -> Iterator[tuple[str, State]]:
    for number in sorted({batch.object for batch in state.batches if batch.stage is Stage.UPLOADED}):
        after = state
        for place, batch in enumerate(state.batches):
            if batch.stage is Stage.UPLOADED and batch.object == number:
                if design.checks_batches and Entry(batch.transaction, True) in state.logs[batch.partition]:
                    after = _moved(after, {place: _gone(batch)})
                else:
                    after = _appended(after, batch.partition, Entry(batch.transaction))
                    after = _moved(after, {place: replace(batch, stage=Stage.TAKEN)})
        yield f"the batch coordinator takes object {number}", after


def _transaction_coordinator(state: State, design: Design) -> Iterator[tuple[str, State]]:
    prepared = state.completed
    if prepared == state.current:
        return
    outcome = "commit" if state.commits[prepared] else "abort"
    partitions = sorted(partition for transaction, partition in state.added if transaction == prepared)
    owed = [each for each in partitions if Entry(prepared, True) not in state.logs[each]]
    waits = design.markers_wait_for_objects and any(
        batch.transaction == prepared and batch.stage in (Stage.HELD, Stage.UPLOADED) for batch in state.batches
    )
    if not owed:
        yield f"transaction {prepared} is complete", replace(state, completed=prepared + 1)
    elif not waits:
        for partition in owed:
            yield (
                f"the batch coordinator takes the {outcome} marker of transaction {prepared} for p{partition}",
                _appended(state, partition, Entry(prepared, True)),
            )


def _named(batch: Batch) -> str:
    return f"the batch of transaction {batch.transaction} for p{batch.partition}"


def _gone(batch: Batch) -> Batch:
    return replace(batch, stage=Stage.GONE, object=-1)


def _moved(state: State, batches: dict[int, Batch]) -> State:
    return replace(state, batches=tuple(batches.get(place, each) for place, each in enumerate(state.batches)))


def _appended(state: State, partition: int, entry: Entry) -> State:
    logs = list(state.logs)
    logs[partition] = (*logs[partition], entry)
    return replace(state, logs=tuple(logs))


def _seen(state: State, partition: int, view: tuple[int, int]) -> State:
    views = list(state.views)
    views[partition] = view
    return replace(state, views=tuple(views))
