"""Where two runs differ first, and what is no difference."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.show.event_files import line, played

from odradek.show.difference import difference
from odradek.show.events import Event, event_of
from odradek.show.history import History, history_of

PLACE: dict[str, Any] = {"topic": "t", "partition": 0}


def events(lines: Sequence[bytes]) -> list[Event]:
    return [event for event in map(event_of, lines) if event is not None]


def run(*lines: bytes, title: str = "it", left_out: int = 0) -> History:
    return history_of(events(lines), title=title, left_out=left_out)


def without_messages(lines: Sequence[bytes]) -> list[bytes]:
    """The lines that are no requests and responses: with them what a client asks is the first difference."""
    return [each for each in lines if b'"kind":"re' not in each or b'"kind":"resumed"' in each]


def request(seq: int, api: str, **fields: Any) -> bytes:
    named: dict[str, Any] = {"client_id": "till", "from_broker": False, "version": 5, "correlation": seq}
    return line(seq, "request", api=api, **(named | fields))


def state(seq: int, after: str, tid: str = "x", pid: int = 7, node: int = 1) -> bytes:
    return line(seq, "state_change", node, transactional_id=tid, producer_id=pid, producer_epoch=0, state_to=after)


def test_the_decision_in_which_two_runs_differ() -> None:
    """Brokers have other places in them, because the seed is another."""
    left = run(*without_messages(played(commits=[True, True])), title="left")
    right = run(*without_messages(played(commits=[True, False], seed=2)), title="right")
    found = difference(left, right)
    steps = {side: {step.seq: step for step in history.steps} for side, history in (("l", left), ("r", right))}
    assert found.left is not None
    assert found.right is not None
    assert steps["l"][found.left].text == "Ongoing → PrepareCommit, epoch 2"
    assert steps["r"][found.right].text == "Ongoing → PrepareAbort, epoch 2"
    assert found.sentence == (
        f"They differ first in x, coordinator: left has “Ongoing → PrepareCommit, epoch 2” (event {found.left}), "
        f"right has “Ongoing → PrepareAbort, epoch 2” (event {found.right})."
    )
    assert {(left.kind, left.text) for left in (steps["l"][seq] for seq, _ in found.pairs)} == {
        (right.kind, right.text) for right in (steps["r"][seq] for _, seq in found.pairs)
    }


@pytest.mark.parametrize("seed", [1, 3, 4])
def test_runs_of_the_same_test_do_not_differ(seed: int) -> None:
    found = difference(run(*played("xy"), title="a"), run(*played("xy", seed=seed), title="b"))
    assert found.sentence == "a and b do not differ, except in times and in ids that are drawn."
    assert (found.left, found.right) == (None, None)
    assert len(found.pairs) > 30


def test_names_with_random_parts_are_numbered_as_they_appear() -> None:
    def of(names: Sequence[str], pids: Sequence[int]) -> History:
        lines = [state(number, "Empty", tid, pid) for number, (tid, pid) in enumerate(zip(names, pids, strict=True))]
        return run(*lines)

    def drawn() -> str:
        return f"till-{uuid.uuid4()}"

    assert difference(of([drawn(), drawn()], [4, 5]), of([drawn(), drawn()], [9, 3])).left is None
    same = drawn()
    assert difference(of([same, same], [4, 5]), of([drawn(), drawn()], [9, 3])).left is not None
    assert difference(of(["till-1", "till-2"], [4, 5]), of(["till-2", "till-1"], [9, 3])).left is None
    assert difference(of(["till-1", "till-2"], [4, 5]), of(["till-1", "till-3"], [9, 3])).left is not None


def test_brokers_that_do_not_wait_for_each_other_act_in_any_order() -> None:
    one = [state(1, "Empty"), state(2, "Empty", "y", 8, node=2), state(3, "Ongoing")]
    other = [state(1, "Empty", "y", 8, node=1), state(2, "Empty", node=2), state(3, "Ongoing", node=2)]
    assert difference(run(*one), run(*other)).left is None
    turned = [state(1, "Ongoing"), state(2, "Empty", "y", 8), state(3, "Empty")]
    assert difference(run(*one), run(*turned)).left == 1


def test_how_often_is_no_difference_where_requests_are_repeated_as_time_passes() -> None:
    fetches = [request(number, "FETCH") for number in range(1, 5)]
    refused: dict[str, Any] = {
        "api": "END_TXN",
        "client_id": "till",
        "from_broker": False,
        "version": 5,
        "connection": 1,
    }
    retried = [
        request(5, "END_TXN", connection=1),
        line(6, "response", correlation=5, error="CONCURRENT_TRANSACTIONS", **refused),
    ]
    served = [
        request(7, "END_TXN", connection=1),
        line(8, "response", correlation=7, error="NONE", **refused),
    ]
    fenced = [served[0], line(8, "response", correlation=7, error="PRODUCER_FENCED", **refused)]
    assert difference(run(*fetches, *retried, *served), run(*served)).left is None
    found = difference(run(*served), run(*fenced))
    assert (found.left, found.right) == (8, 8)


def test_what_one_run_lacks() -> None:
    both = [state(1, "Ongoing")]
    found = difference(run(*both, state(2, "PrepareCommit"), title="a"), run(*both, title="b"))
    assert (found.left, found.right, found.pairs) == (2, None, ((1, 1),))
    assert found.sentence == (
        "They differ first in x, coordinator: a has “PrepareCommit, epoch 0” (event 2), and b has nothing more there."
    )
    found = difference(run(*both, title="a"), run(*both, state(2, "PrepareCommit"), title="b"))
    assert (found.left, found.right) == (None, 2)
    assert "b has “PrepareCommit, epoch 0” (event 2), and a has nothing more there." in found.sentence


def test_what_is_behind_a_window_is_not_known() -> None:
    both = [state(1, "Ongoing")]
    found = difference(run(*both, state(2, "PrepareCommit")), run(*both, title="cut", left_out=5))
    assert found.left is None
    assert found.sentence == "it and cut do not differ in the events that were read."


def test_a_difference_that_the_text_does_not_show_is_named() -> None:
    one, other = ([line(1, "lso_moved", **PLACE, hw=1, lso=1, more=more)] for more in (1, 2))
    assert difference(run(*one), run(*other)).sentence.endswith(": more is 1 and 2.")


def test_of_bodies_what_a_client_decides_is_compared() -> None:
    def ends(committed: bool, timeout_ms: int) -> History:
        body = {"transactionalId": "x", "committed": committed, "timeoutMs": timeout_ms}
        return run(request(1, "END_TXN", connection=2, body=body))

    assert difference(ends(True, 1), ends(True, 2)).left is None
    assert difference(ends(True, 1), ends(False, 1)).left == 1


def test_the_first_difference_is_the_one_that_is_told() -> None:
    one = [state(1, "Empty"), state(2, "Empty", "y", 8), state(3, "Ongoing", "y", 8), state(4, "Ongoing")]
    other = [*one[:2], state(3, "Dead", "y", 8), state(4, "Dead")]
    found = difference(run(*one), run(*other))
    assert (found.left, found.right) == (3, 3)
    assert re.search(r"first in y, coordinator", found.sentence)
