"""The defences that the simulation must miss, each with how it is taken away; and the search for seeds that need it.

`python -m tests.sim.defences FIRST COUNT [NAME ...]` says of each what the runs with these seeds find.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from msgspec import Struct

from odradek.core.machine import Answered
from odradek.group import commits
from odradek.host.replication import Replication
from odradek.log.answers import Duplicate
from odradek.log.guards import Guards
from odradek.log.partition import Partition
from odradek.log.producers import ProducerState
from odradek.sim.run import run
from odradek.sim.workloads.draw import Settings, draw
from odradek.txn.coordinator import TxnCoordinator
from odradek.txn.works import AbortTimedOut
from odradek.wire.errors import ErrorCode

__all__ = ["DEFENCES", "Defence"]

Patch = pytest.MonkeyPatch


def without_second_look_at_the_guard(patch: Patch) -> None:
    """Who was given a guard may append, whatever marker has passed since."""
    patch.setattr(Guards, "holds", lambda self, producer_id, guard: guard is not None)


def without_sequences(patch: Patch) -> None:
    """A batch is taken whatever its sequence, unless it is a duplicate."""
    patch.setattr(ProducerState, "_in_sequence", lambda self, batch, producer: True)


def without_aborts_of_timed_out_transactions(patch: Patch) -> None:
    """The coordinator sees that a transaction has timed out, and forgets it."""

    def forget(self: TxnCoordinator, work: AbortTimedOut, **how: Any) -> Answered[None]:
        self._deadlines.drop(work.transactional_id)
        return Answered(None)

    patch.setattr(TxnCoordinator, "abort_timed_out", forget)


def without_epochs_of_coordinators(patch: Patch) -> None:
    """A marker is taken from any coordinator, however long ago it was one."""
    admit = ProducerState.admit_marker

    def admit_from_anybody(self: ProducerState, **marker: Any) -> ErrorCode:
        return admit(self, **{**marker, "coordinator_epoch": 2**31 - 1})

    patch.setattr(ProducerState, "admit_marker", admit_from_anybody)


def without_generations(patch: Patch) -> None:
    """A member may commit offsets of any generation."""
    refusal_of_commit = commits.refusal_of_commit

    def refuse_no_generation(*request: Any, **how: Any) -> ErrorCode | None:
        refusal = refusal_of_commit(*request, **how)
        return None if refusal is ErrorCode.ILLEGAL_GENERATION else refusal

    patch.setattr(commits, "refusal_of_commit", refuse_no_generation)


def with_wrong_offsets_of_duplicates(patch: Patch) -> None:
    """A batch that was sent again is said to lie behind where it lies."""
    duplicate = Partition._duplicate

    def told_wrongly(self: Partition, cached: Any) -> Duplicate:
        told = duplicate(self, cached)
        return Duplicate(told.base_offset + 1, told.next_offset, told.log_append_time, told.log_start_offset)

    patch.setattr(Partition, "_duplicate", told_wrongly)


def without_waiting_for_replicas(patch: Patch) -> None:
    """What is appended is said to be committed, whoever has acknowledged it."""

    async def committed(self: Replication, *what: Any, **how: Any) -> ErrorCode:
        return ErrorCode.NONE

    patch.setattr(Replication, "committed", committed)


def _with_everything(patch: Patch) -> None:
    """What is missing is switched off by the configuration."""


class Defence(Struct, frozen=True):
    """A defence that is missing, and the runs that look for what it is there for."""

    workload: str
    remove: Callable[[Patch], None] = _with_everything
    settings: Settings = Settings()
    """How the run is configured."""

    def problem(self, seed: int) -> str | None:
        """What does not hold in the run of a seed without it; None if everything does."""
        with Patch.context() as patch:
            self.remove(patch)
            try:
                run(draw(seed, self.workload, self.settings))
            except AssertionError as problem:
                return str(problem).partition("\n")[0] or type(problem).__name__
        return None


DEFENCES: Mapping[str, Defence] = MappingProxyType(
    {
        "second look at the guard": Defence("late-verdicts", without_second_look_at_the_guard),
        "sequences": Defence("in-flight", without_sequences),
        "aborts of timed-out transactions": Defence("walking-away", without_aborts_of_timed_out_transactions),
        "epochs of coordinators": Defence("late-markers", without_epochs_of_coordinators),
        "generations": Defence("general", without_generations),
        "offsets of duplicates": Defence("duplicates", with_wrong_offsets_of_duplicates),
        "waiting for replicas": Defence("lagging", without_waiting_for_replicas),
        "verification at level 0": Defence("late-records", settings=Settings(verification=False, levels=(0,))),
        "verification at level 1": Defence("late-records", settings=Settings(verification=False, levels=(1,))),
    }
)


def main(arguments: list[str]) -> None:
    """Say which seeds need each defence."""
    first, count = int(arguments[0]), int(arguments[1])
    for name in arguments[2:] or DEFENCES:
        found = {}
        for seed in range(first, first + count):
            problem = DEFENCES[name].problem(seed)
            if problem is not None:
                found[seed] = problem
        print(f"{name}: {'found' if found else 'NOT FOUND'} by {len(found)} of {count}", flush=True)
        for seed, problem in found.items():
            print(f"    {seed} {problem}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
