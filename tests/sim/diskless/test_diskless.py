"""Transactions in diskless topics: every schedule of a small cluster, in designs that hold and in others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from odradek.sim.diskless.__main__ import main
from odradek.sim.diskless.machines import Batch, Design, Entry, Size, Stage, State, first, steps
from odradek.sim.diskless.promises import broken, broken_at_the_end, broken_between, last_stable_offset, visible
from odradek.sim.diskless.search import search

ONE = Size(transactions=2, partitions=1, brokers=1)
SIZES = [ONE, Size(2, 1, 2), Size(3, 1, 1)]
UNCHECKED = Design(checks_batches=False)
ABORTED = "p0: a reader gets offset {} of transaction 0, which was aborted"
DATA, MARKER = Entry(0), Entry(0, is_marker=True)


def reachable(design: Design, size: Size) -> Iterator[State]:
    seen = {first(size, design)}
    waiting = list(seen)
    while waiting:
        state = waiting.pop()
        yield state
        new = {after for _, after in steps(state, size, design)} - seen
        seen |= new
        waiting.extend(new)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "design",
    [
        Design(),
        Design(end_waits_for_markers=True),
        replace(UNCHECKED, markers_wait_for_objects=True),
    ],
    ids=["batches are checked", "and EndTxn waits", "markers wait for objects"],
)
def test_designs_that_keep_every_promise(design: Design, size: Size) -> None:
    found = search(design, size)

    assert (found.promise, found.schedule) == (None, ())
    assert found.states == len(list(reachable(design, size))) > 70


@pytest.mark.slow
def test_two_partitions_whose_batches_share_an_object() -> None:
    assert search(Design(), Size(2, 2, 1)).promise is None


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("end_waits", [False, True], ids=["EndTxn answers at once", "EndTxn waits for markers"])
def test_a_batch_that_is_taken_unchecked_is_committed_with_the_next_transaction(end_waits: bool, size: Size) -> None:
    """Whether EndTxn waits changes nothing: it does not wait for what a broker holds."""
    found = search(replace(UNCHECKED, end_waits_for_markers=end_waits), size)

    assert found.promise == ABORTED.format(1)
    assert len(found.schedule) == 11
    assert found.schedule[-1] == "the batch coordinator takes the commit marker of transaction 1 for p0"


def test_or_it_holds_the_last_stable_offset_for_ever() -> None:
    found = search(UNCHECKED, ONE, "stays")

    assert found.promise == "p0: the last stable offset stays at 2, for a transaction that is over"
    assert len(found.schedule) == 12


@pytest.mark.parametrize("end_waits", [False, True])
def test_two_reads_of_one_coordinator_show_what_was_aborted(end_waits: bool) -> None:
    """The last stable offset is newer than the list of aborted transactions."""
    found = search(Design(end_waits_for_markers=end_waits, reads_one_snapshot=False), ONE)

    assert found.promise == ABORTED.format(0)
    assert (len(found.schedule), found.schedule[-1]) == (7, "the reader's broker learns the log of p0")


@pytest.mark.parametrize("waits", [False, True])
def test_what_the_answer_of_end_txn_says(waits: bool) -> None:
    """Not that the records can be read, unless it waits for the markers; so it is with leaders, too."""
    design = Design(end_waits_for_markers=waits)
    unread = [
        state
        for state in reachable(design, ONE)
        for transaction, commit in enumerate(state.commits[: state.completed] if waits else state.commits)
        if commit and transaction not in {seen for _, seen in visible(state, 0)}
    ]

    assert bool(unread) is not waits


def state_with(*log: Entry, commits: tuple[bool, ...] = (), views: tuple[tuple[int, int], ...] = ()) -> State:
    taken = tuple(Batch(entry.transaction, 0, 0, Stage.TAKEN) for entry in log if not entry.is_marker)
    return State(commits, len(commits), frozenset(), taken, (log,), views)


def test_the_last_stable_offset_is_that_of_the_first_open_batch() -> None:
    later = Entry(1)

    assert [0, 0, 2, 2, 4] == [
        last_stable_offset(log)
        for log in ((), (DATA,), (DATA, MARKER), (DATA, MARKER, later), (DATA, MARKER, later, Entry(1, True)))
    ]


def test_each_promise_is_seen_where_it_is_broken() -> None:
    """States that the designs above do not reach, or not all of them."""
    seen = state_with(DATA, MARKER, commits=(True,))
    complaints = {
        "of transaction 0, which was aborted": broken(state_with(DATA, Entry(1, True), commits=(False, True)), ONE),
        "of transaction 1, which is open": broken(state_with(Entry(1), MARKER, commits=(True,)), ONE),
        "stays at 2": broken_at_the_end(state_with(DATA, MARKER, DATA, commits=(True,)), ONE),
        "no reader gets its batch": broken_at_the_end(replace(seen, logs=((MARKER,),)), ONE),
        "what a reader has passed changes": broken_between(seen, replace(seen, commits=(False,)), ONE),
    }

    for text, found in complaints.items():
        assert any(text in each for each in found), text
    assert not [*broken(seen, ONE), *broken_at_the_end(seen, ONE), *broken_between(state_with(DATA), seen, ONE)]


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out == "131 states: every promise is kept\n"
    assert main(["--unchecked", "--end-waits"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert (len(told), told[0][:5], told[-1]) == (12, "  1. ", f"92 states: {ABORTED.format(1)}")
    assert main(["--unchecked", "--markers-wait", "--brokers", "2"]) == 0
    assert main(["--two-reads", "--promise", "stays"]) == 0
