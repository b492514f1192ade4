"""The defences that the simulation must miss, each with how it is taken away; and the search for seeds that need it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from tests.sim.scenario import run

from odradek.group.offset_protocol import OffsetProtocol
from odradek.log.answers import Duplicate
from odradek.log.guards import Guards
from odradek.log.machine import Answered
from odradek.log.partition import Partition
from odradek.log.producers import ProducerState
from odradek.txn.coordinator import TxnCoordinator
from odradek.wire.errors import ErrorCode

__all__ = ["DEFENCES", "broken_runs", "first_problem"]

Patch = pytest.MonkeyPatch


def without_second_look_at_the_guard(patch: Patch) -> None:
    """Who was given a guard may append, whatever marker has passed since."""
    patch.setattr(Guards, "holds", lambda self, producer_id, guard: guard is not None)


def without_sequences(patch: Patch) -> None:
    """A batch is taken whatever its sequence, unless it is a duplicate."""
    patch.setattr(ProducerState, "_in_sequence", lambda self, batch, producer: True)


def without_aborts_of_timed_out_transactions(patch: Patch) -> None:
    """The coordinator sees that a transaction has timed out, and does nothing."""
    patch.setattr(TxnCoordinator, "abort_timed_out", lambda self, work, **how: Answered(None))


def without_epochs_of_coordinators(patch: Patch) -> None:
    """A marker is taken from any coordinator, however long ago it was one."""
    admit = ProducerState.admit_marker

    def admit_from_anybody(self: ProducerState, **marker: Any) -> ErrorCode:
        return admit(self, **{**marker, "coordinator_epoch": 2**31 - 1})

    patch.setattr(ProducerState, "admit_marker", admit_from_anybody)


def without_generations(patch: Patch) -> None:
    """A member may commit offsets of any generation."""
    refusal_of_commit = OffsetProtocol._refusal_of_commit

    def refuse_no_generation(self: OffsetProtocol, *request: Any, **how: Any) -> ErrorCode | None:
        refusal = refusal_of_commit(self, *request, **how)
        return None if refusal is ErrorCode.ILLEGAL_GENERATION else refusal

    patch.setattr(OffsetProtocol, "_refusal_of_commit", refuse_no_generation)


def with_wrong_offsets_of_duplicates(patch: Patch) -> None:
    """A batch that was sent again is said to lie behind where it lies."""
    duplicate = Partition._duplicate

    def told_wrongly(self: Partition, cached: Any) -> Duplicate:
        told = duplicate(self, cached)
        return Duplicate(told.base_offset + 1, told.next_offset, told.log_append_time, told.log_start_offset)

    patch.setattr(Partition, "_duplicate", told_wrongly)


DEFENCES: dict[str, Callable[[Patch], None]] = {
    function.__name__: function
    for function in (
        without_second_look_at_the_guard,
        without_sequences,
        without_aborts_of_timed_out_transactions,
        without_epochs_of_coordinators,
        without_generations,
        with_wrong_offsets_of_duplicates,
    )
}


def first_problem(seed: int, **how: Any) -> str | None:
    """What does not hold in the run of a seed; None if everything does."""
    try:
        run(seed, **how)
    except AssertionError as problem:
        return str(problem).partition("\n")[0] or type(problem).__name__
    return None


def broken_runs(seeds: Iterable[int], **how: Any) -> Iterator[tuple[int, str]]:
    """The seeds whose runs do not hold, with the first problem of each."""
    for seed in seeds:
        problem = first_problem(seed, **how)
        if problem is not None:
            yield seed, problem


def main(first: int, count: int) -> None:
    """Look for seeds that need each defence."""
    seeds = range(first, first + count)
    for name, remove in DEFENCES.items():
        with Patch.context() as patch:
            remove(patch)
            for seed, problem in broken_runs(seeds):
                print(name, seed, problem, flush=True)
    for seed, problem in broken_runs(seeds, verifies=False):
        print("without verification", seed, problem, flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
