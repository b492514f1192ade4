"""The board, and how it looks."""

from __future__ import annotations

import io

from rich.console import Console
from tests.demo.samples import posting, promised, seen, written

from odradek.demo.board import Board
from odradek.demo.judge import judge
from odradek.demo.ledger import Stage
from odradek.demo.lines import AtEnd, Began, Ended, Read, Trouble, Violated
from odradek.demo.log import Marks, Outcome
from odradek.demo.transfers import Fate
from odradek.demo.view import line, live_view, picture, summary


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def filled(clock: Clock) -> Board:
    board = Board(clock)
    board.hear(1, Began("a", 2, Fate.COMMIT))
    board.hear(1, Ended("a", True))
    board.hear(2, Began("b", 2, Fate.ABORT))
    board.hear(2, Trouble("till-2: timed out"))
    board.hear_consumer(Read([seen(4, posting("a", 0), partition=1)]))
    board.hear_consumer(AtEnd(1, 6))
    board.hear_consumer(Violated("part 0 was read twice"))
    board.note_metrics({"purgatory_size": 3.0, "verifications_total": 12.0})
    board.note_metrics({"purgatory_size": 1.0, "verifications_total": 14.0})
    board.note_marks({0: Marks(30, 8), 1: Marks(6, 6)})
    board.note_event({"kind": "state_change", "transactional_id": "till-1", "state_to": "Ongoing"})
    board.note_event({"kind": "state_change", "transactional_id": "till-2", "state_to": "CompleteCommit"})
    board.note_event({"kind": "fenced"})
    board.crashes = 2
    return board


def test_what_it_holds() -> None:
    board = filled(Clock())
    assert (1, 0, 1) == (board.ledger.committed, board.ledger.aborted, board.ledger.open)
    assert {1: 6} == board.read_up_to
    assert (1, 3, 22, 22) == (board.ongoing, board.parked_max, board.behind, board.behind_max)
    assert (1, 1, 1) == (board.events["fenced"], board.events["CompleteCommit"], board.errors)
    assert ["part 0 was read twice"] == board.noticed


def test_rates_are_of_late() -> None:
    clock = Clock()
    board = Board(clock)
    for second in range(10):
        clock.now = 100.0 + second
        for number in range(second):  # ever faster
            board.hear(1, Began(f"{second}-{number}", 2, Fate.COMMIT))
            board.hear(1, Ended(f"{second}-{number}", True))
        board.sample()
    assert (7.5, 0.0) == board.rates  # from 105.0 on


def test_a_line() -> None:
    clock = Clock()
    board = filled(clock)
    clock.now += 2
    assert (
        "  2.0 s playing: committed=1 aborted=0 open=1 crashes=2 records=1 lso_behind=22 parked=1 verified=14 "
        "errors=1 tx/s=0 records/s=0"
    ) == line(board, "playing")


def test_without_a_terminal_there_is_a_line_each_second() -> None:
    clock = Clock()
    board = filled(clock)
    console = Console(file=io.StringIO(), width=40)
    with live_view(console, seconds=30) as show:
        for _ in range(8):
            show(board, "playing")
            clock.now += 0.25
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert ["  0.0 s", "  1.0 s"] == [told[:7] for told in said.splitlines()]


def test_a_picture() -> None:
    console = Console(file=io.StringIO(), width=110)
    console.print(picture(filled(Clock()), "playing", 30))
    said = console.file.getvalue()  # type: ignore[attr-defined]
    for shown in ("30 s to go", "CompleteCommit", "parked requests  1 (max 3)", "high watermark", "till-2: timed out"):
        assert shown in said


def test_a_live_view_needs_a_terminal() -> None:
    console = Console(file=io.StringIO(), width=110, force_terminal=True)
    with live_view(console, seconds=30) as show:
        show(filled(Clock()), "playing")
    assert "last stable offset" in console.file.getvalue()  # type: ignore[attr-defined]


def test_the_summary_of_a_right_run() -> None:
    log = [written(0, posting("a", 0)), written(1, posting("a", 1)), written(2, posting("b", 0), Outcome.ABORTED)]
    promises = {"a": promised(Stage.COMMITTING), "b": promised(Stage.BEGAN)}
    verdict = judge(promises, log, [seen(0, posting("a", 0)), seen(1, posting("a", 1))])
    said = list(summary(filled(Clock()), verdict))
    assert "transactions: 1 committed, 1 aborted (0 by their producers, 1 after a crash)" in said
    assert "crashed in the commit: 1 committed and 0 not, as the log shows" in said
    assert "records: 2 committed and 1 aborted in the log, 2 read" in said
    assert said[-1].startswith("Exactly-once held")


def test_the_summary_says_what_no_broker_has_heard_of() -> None:
    board = filled(Clock())
    board.crashes, board.restarts, board.errors = 1, 1, 1
    board.events["CompleteAbort"] = 1
    fates = {name: promised(Stage.ABORTED) for name in ("a", "b", "c")}
    said = list(summary(board, judge(fates, [], [])))
    assert "1 crash, 1 restart, 1 error" in said[0]
    assert any("CompleteAbort 1 (2 aborted before a broker heard of them)" in each for each in said)


def test_the_summary_of_a_run_that_has_shown_nothing() -> None:
    aborted = [written(0, posting("a", 0), Outcome.ABORTED)]
    said = list(summary(filled(Clock()), judge({"a": promised(Stage.ABORTED)}, aborted, [])))
    assert said[-1].startswith("Nothing was shown: no transaction was committed")
    assert not [line for line in said if "HOLD" in line]


def test_the_summary_of_a_run_without_commits_that_was_wrong_nevertheless() -> None:
    aborted = [written(0, posting("a", 0), Outcome.ABORTED)]
    said = list(summary(filled(Clock()), judge({"a": promised(Stage.ABORTED)}, aborted, [seen(0, posting("a", 0))])))
    assert "EXACTLY-ONCE DID NOT HOLD:" in said


def test_the_summary_of_a_wrong_run() -> None:
    log = [written(0, posting("a", 0)), written(1, posting("a", 1))]
    said = list(summary(filled(Clock()), judge({"a": promised(Stage.COMMITTED)}, log, [seen(0, posting("a", 0))])))
    assert [
        "EXACTLY-ONCE DID NOT HOLD:",
        "  1 committed record was not read, for example offset 1 of partition 0",
    ] == said[-2:]
