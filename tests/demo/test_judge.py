"""The verdict: each violation is found, with its kind, and a right run has none."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.demo.samples import posting, promised, seen, written

from odradek.demo.judge import Kind, Verdict, judge
from odradek.demo.ledger import Promise, Stage
from odradek.demo.lines import Seen
from odradek.demo.log import Outcome, Written
from odradek.demo.transfers import Fate

PROMISES = {
    "good": promised(Stage.COMMITTED),
    "bad": promised(Stage.ABORTED),
    "cut": promised(Stage.BEGAN),
    "lucky": promised(Stage.COMMITTING),
    "unlucky": promised(Stage.COMMITTING),
}
LOG = [
    written(0, posting("good", 0)),
    written(1, posting("good", 1)),
    written(3, posting("bad", 0), Outcome.ABORTED),
    written(5, posting("cut", 0), Outcome.ABORTED),
    written(7, posting("lucky", 0)),
    written(7, posting("lucky", 1), partition=1),
    written(9, posting("unlucky", 0), Outcome.ABORTED),
]
READ = [
    seen(0, posting("good", 0)),
    seen(1, posting("good", 1)),
    seen(7, posting("lucky", 0)),
    seen(7, posting("lucky", 1), partition=1),
]


def kinds(verdict: Verdict) -> dict[Kind, int]:
    return {kind: count for kind, (count, _) in verdict.violations.items()}


def test_a_right_run() -> None:
    verdict = judge(PROMISES, LOG, READ)
    assert verdict.held
    assert (2, 3) == (verdict.committed, verdict.not_committed)
    assert (1, 1) == (verdict.unknown_committed, verdict.unknown_aborted)
    assert (4, 3, 4) == (verdict.records_committed, verdict.records_aborted, verdict.records_read)


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ([seen(0, posting("good", 0))], {Kind.READ_TWICE: 1}),
        ([seen(3, posting("bad", 0))], {Kind.READ_ABORTED: 1}),
        ([seen(5, posting("cut", 0)), seen(9, posting("unlucky", 0))], {Kind.READ_ABORTED: 2}),
        ([seen(99, posting("good", 0))], {Kind.READ_FROM_NOWHERE: 1}),
    ],
)
def test_records_that_must_not_be_read(more: list[Seen], found: dict[Kind, int]) -> None:
    assert found == kinds(judge(PROMISES, LOG, READ + more))


def test_a_record_that_was_not_read() -> None:
    verdict = judge(PROMISES, LOG, READ[1:])
    assert {Kind.NOT_READ: (1, ["offset 0 of partition 0"])} == verdict.violations


def test_a_record_that_was_read_otherwise() -> None:
    changed = [seen(0, posting("good", 0, amount=-11)), *READ[1:]]
    assert {Kind.READ_DIFFERENT: 1} == kinds(judge(PROMISES, LOG, changed))


@pytest.mark.parametrize(
    ("promises", "log", "found"),
    [
        ({}, [written(0, posting("t", 0)), written(1, posting("t", 1))], {Kind.UNKNOWN: 1}),
        (
            {"t": promised(Stage.COMMITTED)},
            [written(0, posting("t", 0))],
            {Kind.BROKEN_COMMIT: 1, Kind.TORN: 1},
        ),
        (
            {"t": promised(Stage.COMMITTING)},
            [written(0, posting("t", 0)), written(1, posting("t", 1), Outcome.ABORTED)],
            {Kind.TORN: 1},
        ),
        (
            {"t": promised(Stage.COMMITTED), "gone": promised(Stage.COMMITTED)},
            [written(0, posting("t", 0)), written(1, posting("t", 1))],
            {Kind.BROKEN_COMMIT: 1},
        ),
        (
            {"t": promised(Stage.ABORTED)},
            [written(0, posting("t", 0)), written(1, posting("t", 1))],
            {Kind.BROKEN_ABORT: 1},
        ),
        (
            {"t": promised(Stage.BEGAN)},
            [written(0, posting("t", 0)), written(1, posting("t", 1))],
            {Kind.BROKEN_ABORT: 1},
        ),
        (
            {"t": promised(Stage.COMMITTED)},
            [written(0, posting("t", 0)), written(1, posting("t", 1)), written(2, posting("t", 1))],
            {Kind.WRITTEN_TWICE: 1},
        ),
        (
            {"t": promised(Stage.COMMITTED), "o": promised(Stage.BEGAN)},
            [written(0, posting("t", 0)), written(1, posting("t", 1)), written(2, posting("o", 0), Outcome.OPEN)],
            {Kind.NEVER_ENDED: 1},
        ),
        ({"t": promised(Stage.ABORTED)}, [written(0, posting("t", 0), Outcome.ABORTED)], {Kind.NOTHING: 0}),
    ],
)
def test_logs_that_break_a_promise(promises: dict[str, Promise], log: list[Written], found: dict[Kind, int]) -> None:
    read = [seen(at.offset, at.posting) for at in log if at.outcome is Outcome.COMMITTED]
    assert found == kinds(judge(promises, log, read))


def test_what_an_open_transaction_wrote_must_not_be_read() -> None:
    log = [*LOG, written(11, posting("cut", 1), Outcome.OPEN)]
    read = [*READ, seen(11, posting("cut", 1))]
    assert {Kind.NEVER_ENDED: 1, Kind.READ_OPEN: 1} == kinds(judge(PROMISES, log, read))


def test_what_the_consumer_says_counts() -> None:
    verdict = judge(PROMISES, LOG, READ, noticed=["a", "b", "c", "d"], stuck=["partition 1 at 7 of 9"])
    assert {
        Kind.CONSUMER_STUCK: (1, ["partition 1 at 7 of 9"]),
        Kind.CONSUMER_SAYS: (4, ["a", "b", "c"]),
    } == verdict.violations
    assert not verdict.held


def test_every_kind_is_tried_here() -> None:
    source = Path(__file__).read_text()
    assert set() == {kind for kind in Kind if f"Kind.{kind.name}" not in source}


def test_fates_do_not_count_as_evidence() -> None:
    """An abort that was planned as a commit is an abort."""
    log = [*LOG[:2], written(3, posting("bad", 0, fate=Fate.COMMIT), Outcome.ABORTED)]
    assert judge({name: PROMISES[name] for name in ("good", "bad")}, log, READ[:2]).held
