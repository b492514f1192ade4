"""Every dialect under the faults of the simulator; and what does not hold in a draft, with the seed that shows it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from odradek.releases.dialects.load import names
from odradek.sim.model.promises import Violation
from odradek.sim.run import Run, run
from odradek.sim.schedules.schedule import Schedule, read_schedule
from odradek.sim.workloads.draw import Settings, draw

SEEDS = int(os.environ.get("ODRADEK_SIM_SEEDS", "48")) // 8
LATE_MARKER = Path(__file__).parent / "late_marker.json"
"""What was left of seed 6 of the workload in-flight, at level 2 and with markers that are delayed by 2.5 s."""
NEXT_JOINS = Path(__file__).parent / "next_joins.json"
"""What was left of seed 2, with the producers of KIP-609's draft as it has them."""


def broken(schedule: Schedule) -> frozenset[str]:
    """The promises that are broken by the first of some runs that breaks any: they differ in the delays of messages."""
    for seed in range(schedule.seed, schedule.seed + 20):
        try:
            run(replace(schedule, seed=seed))
        except Violation as violation:
            return violation.names
    return frozenset()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
@pytest.mark.parametrize("name", names())
def test_exactly_once_under_faults(name: str, seed: int) -> None:
    report = run(draw(seed, settings=Settings(dialect=name, careful=True)))
    # Where brokers die all the time a run may abort whatever it begins.
    assert report.committed + report.aborted > 0


def test_a_late_marker_ends_the_next_transaction_of_kip_890_text() -> None:
    """The marker of a transaction has the epoch of the next one, and the page has leaders fence older epochs only.

    A marker that is answered too late is sent again; the first one then arrives in the middle of the next transaction
    and ends it there. Kafka 4.4 tells leaders the level with the marker, and takes no equal epoch (KIP-1228).
    """
    schedule = read_schedule(LATE_MARKER.read_bytes())
    assert "kip-890-text" == schedule.dialect
    assert broken(schedule) & {"wrong records", "aborted read"}
    assert run(replace(schedule, dialect=None)).committed > 0


def test_the_next_transaction_of_kip_609_draft_joins_the_one_before() -> None:
    """In a session nobody is asked when a transaction begins, and the marker of the one before may be on its way.

    A careful producer asks its coordinator, which waits for that marker.
    """
    schedule = read_schedule(NEXT_JOINS.read_bytes())
    assert ("kip-609-draft", False) == (schedule.dialect, schedule.careful)
    assert broken(schedule) & {"wrong records", "aborted read"}
    assert run(replace(schedule, careful=True)).committed > 0


@pytest.mark.parametrize("seed", [1, 49])
def test_work_of_a_share_group_is_done_once_under_faults(seed: int) -> None:
    """KIP-1289: records are acknowledged in the transaction of their copies.

    Seed 49 found that a member could acknowledge what another one's transaction had finished.
    """
    played = Run(draw(seed, "share-work"))
    played.play()
    worked = [each for worker in played.share_workers for each in worker.worked]
    assert any(each.committed_at is not None for each in worked)
    assert any(each.record.count > 1 for each in worked)


@pytest.mark.parametrize(("asked", "played", "workers"), [(None, "kip-1289", 3), ("kip-939", "kip-939", 0)])
def test_only_a_dialect_with_the_request_has_such_work(asked: str | None, played: str, workers: int) -> None:
    schedule = draw(1, "share-work", settings=Settings(dialect=asked))
    assert (played, workers) == (schedule.dialect, schedule.share_workers)


def test_prepared_transactions_are_kept_under_faults() -> None:
    """KIP-939: producers die between the store's commit and their own, and whoever comes next ends what it finds."""
    played = Run(draw(2, settings=Settings(dialect="kip-939", levels=(2,))))
    report = played.play()
    kept = [fact for _, _, fact in played.facts if fact.kind == "transaction_kept"]
    assert kept
    assert report.committed > len(kept)
