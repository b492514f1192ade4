"""The model: each promise about events and reads, kept and broken; every event and read of a run is judged by it."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.sim.model.model import Model, ReadBatch
from odradek.sim.model.promises import PROMISES
from odradek.sim.run import Run
from odradek.sim.workloads.catalogue import FOCUSES
from odradek.sim.workloads.draw import draw

KEY = ("t", 0)
WHERE: dict[str, Any] = {"topic": "t", "partition": 0}
Event = tuple[str, dict[str, Any]]


def state(before: str | None, after: str, *, epoch: int = 0, name: str = "a", producer_id: int = 7) -> Event:
    fields: dict[str, Any] = {"transactional_id": name, "producer_id": producer_id, "producer_epoch": epoch}
    return "state_change", fields | {"state_to": after} | ({} if before is None else {"state_from": before})


def added(epoch: int = 0) -> Event:
    return "partitions_added", {"transactional_id": "a", "producer_id": 7, "producer_epoch": epoch} | WHERE


def begun(epoch: int = 0) -> Event:
    return "init_producer_id", {"transactional_id": "a", "producer_id": 7, "producer_epoch": epoch}


def opened(offset: int, epoch: int = 0) -> Event:
    return "transaction_opened", {"producer_id": 7, "producer_epoch": epoch, "offset": offset} | WHERE


def ended(first: int, offset: int, *, commit: bool = True, epoch: int = 1) -> list[Event]:
    fields = {"producer_id": 7, "producer_epoch": epoch, "offset": offset, "commit": commit} | WHERE
    return [("marker_written", fields), ("transaction_closed", fields | {"first_offset": first})]


def stable(lso: int, hw: int) -> Event:
    return "lso_moved", {"lso": lso, "hw": hw} | WHERE


def led(leader_epoch: int, topic: str = "t") -> Event:
    return "leadership_taken", {"topic": topic, "partition": 0, "leader_epoch": leader_epoch}


BEGUN = [led(0), state(None, "Empty"), begun(), state("Empty", "Ongoing"), added(), opened(0), stable(0, 2)]
DECIDED = [*BEGUN, state("Ongoing", "PrepareCommit", epoch=1)]
MARKED = [*DECIDED, *ended(0, 2), stable(3, 3)]
COMPLETE = [*MARKED, state("PrepareCommit", "CompleteCommit", epoch=1)]
NEXT = [*COMPLETE, state("CompleteCommit", "Ongoing", epoch=1), added(1)]


def after(events: list[Event]) -> Model:
    model = Model()
    for kind, fields in events:
        model.take(1, kind, fields)
    return model


def broken(events: list[Event]) -> list[str]:
    return [each.name for each in after(events).problems]


def test_transactions_one_after_the_other_break_nothing() -> None:
    model = after([*NEXT, opened(3, 1), state("Ongoing", "PrepareAbort", epoch=2), *ended(3, 4, commit=False, epoch=2)])
    model.take(1, *state("PrepareAbort", "CompleteAbort", epoch=2))
    model.read(KEY, [ReadBatch(7, 0, is_seen=True), ReadBatch(7, 1, is_seen=True), ReadBatch(7, 3, is_seen=False)])
    model.end()
    assert model.problems == []


VERIFIED = {"transactional_id": "a", "producer_id": 7, "producer_epoch": 0} | WHERE
ACCEPTED = VERIFIED | {"verdict": "accepted", "error": "NONE"}


@pytest.mark.parametrize(
    ("events", "name"),
    [
        ([*COMPLETE, opened(3)], "late record"),
        ([*NEXT[:-1], opened(3, 1)], "late record"),
        ([*DECIDED, *ended(0, 2, commit=False)], "wrong marker"),
        ([*MARKED, *ended(3, 4, epoch=0)], "wrong marker"),
        ([*BEGUN, opened(1)], "overlapping transactions"),
        ([*BEGUN, stable(1, 2)], "last stable offset"),
        ([*MARKED, stable(2, 3)], "last stable offset"),
        ([*MARKED, stable(5, 4)], "last stable offset"),
        ([*DECIDED, *ended(0, 2), stable(2, 2)], "last stable offset"),
        ([*BEGUN, *ended(0, 2, epoch=0), state("Ongoing", "CompleteCommit")], "wrong transition"),
        ([*COMPLETE, state("Empty", "Ongoing", epoch=1)], "wrong transition"),
        ([*COMPLETE, begun(0)], "reused epoch"),
        ([*COMPLETE, ("verify_start", VERIFIED), ("verify_end", ACCEPTED)], "wrong verdict"),
        ([*NEXT, ("verify_start", VERIFIED), ("verify_end", ACCEPTED)], "wrong verdict"),
        (
            [
                *NEXT,
                ("verify_start", VERIFIED | {"producer_epoch": 1, "partition": 1}),
                ("verify_end", ACCEPTED | {"producer_epoch": 1, "partition": 1}),
            ],
            "wrong verdict",
        ),
    ],
)
def test_what_does_not_follow_is_named(events: list[Event], name: str) -> None:
    assert broken(events) == [name]
    assert name in PROMISES


def test_answers_belong_to_questions_in_their_order() -> None:
    asks, told = ("verify_start", VERIFIED), ("verify_end", ACCEPTED)
    asked_thrice = [*BEGUN, asks, asks, told, state("Ongoing", "PrepareCommit", epoch=1), asks]
    assert broken([*asked_thrice, told]) == []
    assert broken([*asked_thrice, told, told]) == ["wrong verdict"]


@pytest.mark.parametrize(
    ("events", "batch", "name"),
    [
        (BEGUN, ReadBatch(7, 0, is_seen=True), "dirty read"),
        (BEGUN, ReadBatch(9, 0, is_seen=True), "dirty read"),
        (MARKED, ReadBatch(7, 1, is_seen=False), "lost write"),
        ([*BEGUN, *ended(0, 2, commit=False)], ReadBatch(7, 0, is_seen=True), "aborted read"),
    ],
)
def test_what_no_transaction_explains_is_not_read(events: list[Event], batch: ReadBatch, name: str) -> None:
    model = after(events)
    model.read(KEY, [batch])
    assert [each.name for each in model.problems] == [name]


def test_what_was_open_while_its_coordinator_rests_hangs_in_the_end() -> None:
    model = after([*COMPLETE, opened(3)])
    model.problems.clear()
    model.end()
    assert [each.name for each in model.problems] == ["hanging transaction"]


ENDED_BELOW = [*DECIDED, state("PrepareCommit", "CompleteCommit", epoch=1)]


def test_what_is_open_when_its_transaction_is_complete_hangs() -> None:
    model = after([*ENDED_BELOW, *ended(0, 2)])
    model.end()
    assert [each.name for each in model.problems] == ["hanging transaction"]


@pytest.mark.parametrize("events", [ENDED_BELOW, [*COMPLETE, opened(3)]])
def test_neither_does_what_a_dead_leader_had_open_in_a_topic_that_was_deleted_meanwhile(events: list[Event]) -> None:
    model, other = after(events), after(events)
    model.problems.clear()
    other.problems.clear()
    model.end(deleted=("t",))
    other.end(deleted=("u",))
    assert ([], ["hanging transaction"]) == (model.problems, [each.name for each in other.problems])


def test_what_is_open_in_a_topic_that_is_deleted_does_not_hang() -> None:
    gone: Event = ("leadership_given_up", {"leader_epoch": 0} | WHERE)
    model = after([*ENDED_BELOW, gone])
    model.end()
    assert model.problems == []


def test_a_leader_that_has_not_heard_of_another_topic_of_the_name_speaks_of_its_own() -> None:
    first: Event = ("leadership_taken", {"topic_id": "one", "leader_epoch": 0} | WHERE)
    second: Event = ("leadership_taken", {"topic_id": "two", "leader_epoch": 0} | WHERE)
    model = Model()
    for node, (kind, fields) in [(1, first), (1, stable(5, 5)), (2, second), (2, stable(1, 1)), (1, stable(6, 6))]:
        model.take(node, kind, fields)
    assert model.problems == []
    model.take(2, *stable(0, 1))
    assert [each.name for each in model.problems] == ["last stable offset"]


def test_a_coordinator_that_takes_over_is_not_judged_by_what_the_one_before_has_said() -> None:
    assert broken([*COMPLETE, led(1, "__transaction_state"), opened(3, 1)]) == []
    assert broken([*COMPLETE, led(1, "__transaction_state"), state("Empty", "Ongoing", epoch=1)]) == []


UNREPLICATED = [*DECIDED, *ended(0, 2)]


def test_a_transaction_whose_marker_is_not_replicated_holds_the_last_stable_offset_back() -> None:
    assert broken([*UNREPLICATED, stable(0, 2), stable(3, 3)]) == []
    assert broken([*UNREPLICATED, stable(0, 2), led(1), stable(1, 2)]) == ["last stable offset"]


def test_who_reads_is_not_told_that_it_is_decided_before_its_marker_is_replicated() -> None:
    model = after(UNREPLICATED)
    model.read(KEY, [], end=0, high_watermark=2)
    model.read(KEY, [], end=3, high_watermark=3)
    # Where a partition ends is told without its high watermark.
    model.read(KEY, [], end=2)
    assert model.problems == []
    model.read(KEY, [], end=2, high_watermark=2)
    assert [each.name for each in model.problems] == ["last stable offset"]


def test_a_marker_that_a_leader_has_lost_is_not_waited_for() -> None:
    marker: Event = ("log_truncated", {"end_offset": 2, "lost_offsets": 1} | WHERE)
    everything: Event = ("log_truncated", {"end_offset": 0, "lost_offsets": 3} | WHERE)
    assert broken([*UNREPLICATED, marker, *ended(0, 5), stable(6, 6)]) == []
    assert broken([*UNREPLICATED, everything, stable(2, 2)]) == []


def test_what_a_leader_has_lost_was_never_there() -> None:
    truncated: Event = ("log_truncated", {"end_offset": 2, "lost_offsets": 1} | WHERE)
    model = after([*MARKED, truncated, stable(0, 2)])
    model.read(KEY, [ReadBatch(7, 0, is_seen=True)])
    # The marker is gone, and the last stable offset may go back with it.
    assert [each.name for each in model.problems] == ["dirty read"]


def test_a_topic_that_is_made_again_begins_anew() -> None:
    assert broken([led(3), *MARKED[1:], led(0), stable(0, 0)]) == []


def test_a_topic_that_is_made_again_at_its_first_epoch_begins_anew() -> None:
    given_up = "leadership_given_up", {"topic": "t", "partition": 0, "leader_epoch": 0}
    assert broken([led(0), stable(5, 5), led(0), stable(0, 0)])
    assert broken([led(0), stable(5, 5), given_up, led(0), stable(0, 0)]) == []


def test_committed_records_are_told_to_end_before_what_is_open() -> None:
    model = after(BEGUN)
    model.read(KEY, [], end=0)
    assert model.problems == []
    model.read(KEY, [], end=1)
    assert [each.name for each in model.problems] == ["last stable offset"]


@pytest.mark.slow
@pytest.mark.parametrize("workload", FOCUSES)
def test_every_event_and_read_of_a_run_is_judged(workload: str) -> None:
    played = Run(draw(1, workload))
    played.play()
    assert played.model.events == len(played.facts)
    assert played.model.reads > 0
    assert played.model.problems == []
