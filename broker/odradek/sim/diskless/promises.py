"""The view of a read_committed reader of a diskless topic, and the promises that a state keeps or breaks."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.sim.diskless.machines import Entry, Size, Stage, State

__all__ = ["broken", "broken_at_the_end", "broken_between", "last_stable_offset", "visible"]


def last_stable_offset(log: tuple[Entry, ...]) -> int:
    """The offset of the first batch without a marker behind it; the end of the log where there is none."""
    for offset, entry in enumerate(log):
        if not entry.is_marker and not any(each.is_marker for each in log[offset:]):
            return offset
    return len(log)


def _marker_behind(log: tuple[Entry, ...], offset: int) -> Entry | None:
    """The marker that ends what is at this offset: the next one of its producer, as in a leader's producer state."""
    return next((entry for entry in log[offset:] if entry.is_marker), None)


def visible(state: State, partition: int) -> list[tuple[int, int]]:
    """Offset and transaction of each batch that a read_committed reader gets from the start of a partition."""
    log = state.logs[partition]
    known, known_aborted = state.views[partition] if state.views else (len(log), len(log))
    aborted_of = log[:known_aborted]
    seen = []
    for offset, entry in enumerate(log[: last_stable_offset(log[:known])]):
        marker = _marker_behind(aborted_of, offset)
        is_aborted = marker is not None and not state.commits[marker.transaction]
        if not entry.is_marker and not is_aborted:
            seen.append((offset, entry.transaction))
    return seen


def broken(state: State, size: Size) -> Iterator[str]:
    """The promises that a state breaks, regardless of later steps."""
    for partition in range(size.partitions):
        for offset, transaction in visible(state, partition):
            if transaction >= state.current:
                yield f"p{partition}: a reader gets offset {offset} of transaction {transaction}, which is open"
            elif not state.commits[transaction]:
                yield f"p{partition}: a reader gets offset {offset} of transaction {transaction}, which was aborted"


def broken_at_the_end(state: State, size: Size) -> Iterator[str]:
    """The promises that a final state breaks: all transactions are over."""
    for partition in range(size.partitions):
        log, seen = state.logs[partition], {transaction for _, transaction in visible(state, partition)}
        stable = last_stable_offset(log)
        if stable < len(log):
            yield f"p{partition}: the last stable offset stays at {stable}, for a transaction that is over"
        for batch in state.batches:
            is_due = batch.partition == partition and batch.stage is Stage.TAKEN and state.commits[batch.transaction]
            if is_due and batch.transaction not in seen:
                yield f"p{partition}: transaction {batch.transaction} was committed, and no reader gets its batch"


def broken_between(before: State, after: State, size: Size) -> Iterator[str]:
    """Promises that one step breaks: a reader at this position would have to read again."""
    for partition in range(size.partitions):
        log = before.logs[partition]
        passed = last_stable_offset(log[: before.views[partition][0]] if before.views else log)
        then = visible(before, partition)
        now = [(offset, transaction) for offset, transaction in visible(after, partition) if offset < passed]
        if then != now:
            yield f"p{partition}: what a reader has passed changes, from {then} to {now}"
