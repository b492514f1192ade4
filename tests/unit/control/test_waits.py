"""Open waits: what wakes them, what they read, and how they end. Nothing here waits for a clock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Hashable
from itertools import count

import pytest

from odradek.control import waits as module
from odradek.control.waits import REST, ClusterGone, Condition, NotYet, TookTooLong, Waits
from odradek.net.changes import Changes

LONG_S = 60.0


class Board:
    """State that conditions read, and how often they did."""

    def __init__(self) -> None:
        self.values: dict[Hashable, int] = {}
        self.reads = 0
        self.asked = 0


class AtLeast(Condition):
    """A value of the board that has to come so far."""

    def __init__(self, board: Board, subject: Hashable, least: int) -> None:
        super().__init__(subject)
        self._board = board
        self._least = least

    def read(self) -> int:
        self._board.reads += 1
        return self._value()

    def _value(self) -> int:
        value = self._board.values.get(self.subject, 0)
        if value < 0:
            raise LookupError(f"{self.subject} is gone")
        return value

    def holds(self) -> bool:
        self._board.asked += 1
        return self._value() >= self._least

    def found(self) -> object:
        return self.subject, self.read()

    def lacking(self) -> NotYet:
        return NotYet(f"{self.subject} is {self.read()}", self.subject)


class Room:
    """A cluster without brokers: a board, and the waits for it."""

    def __init__(self) -> None:
        self.board = Board()
        self.changes = Changes()
        self.waits = Waits(asyncio.get_running_loop(), self.changes)

    def until(self, timeout_s: float = LONG_S, **least: int) -> Coroutine[None, None, list[object]]:
        """A wait for these values."""
        conditions = [AtLeast(self.board, name, value) for name, value in least.items()]
        return self.waits.until(conditions, timeout_s)

    async def begin(self, timeout_s: float = LONG_S, **least: int) -> asyncio.Task[list[object]]:
        """A wait that is open when this returns."""
        task = asyncio.ensure_future(self.until(timeout_s, **least))
        await asyncio.sleep(0)
        assert not task.done()
        return task

    async def change(self, **values: int) -> None:
        """A step of a broker that changes these values; who waits has looked when this returns."""
        self.waits._rests_until = 0.0  # another test is about the rest
        self.board.values.update(values)
        self.changes.tell()
        for _ in range(3):
            await asyncio.sleep(0)


async def test_what_is_so_already_is_found_at_once() -> None:
    room = Room()
    room.board.values["a"] = 3
    assert [("a", 3)] == await room.until(a=2, timeout_s=0)
    assert room.changes.watcher is None


async def test_a_change_wakes_those_who_wait_for_it_and_nobody_else() -> None:
    room = Room()
    first, other = await room.begin(a=2), await room.begin(b=1)
    await room.change(a=1)
    assert not first.done()
    asked = room.board.asked
    await room.change(a=2)
    assert [("a", 2)] == await first
    assert asked + 1 == room.board.asked, "who waits for another subject was asked"
    assert not other.done()
    await room.change(b=1)
    assert [("b", 1)] == await other


async def test_a_subject_is_read_once_however_many_wait_for_it() -> None:
    room = Room()
    open_waits = [await room.begin(a=least) for least in range(10, 110)]
    before = room.board.reads
    await room.change()
    assert before + 1 == room.board.reads
    await room.change(a=10)
    assert [True, False] == [each.done() for each in open_waits[:2]]
    for each in open_waits:
        each.cancel()


async def test_without_a_step_nothing_is_read() -> None:
    room = Room()
    waiting = await room.begin(a=1)
    before = room.board.reads
    for _ in range(10):
        await asyncio.sleep(0)
    assert before == room.board.reads
    waiting.cancel()


async def test_all_that_is_named_has_to_be_so_at_once() -> None:
    room = Room()
    waiting = await room.begin(a=1, b=1)
    await room.change(a=1)
    await room.change(a=0, b=1)
    assert not waiting.done()
    await room.change(a=1)
    assert [("a", 1), ("b", 1)] == await waiting


async def test_what_was_found_stays_found_though_it_changes_in_the_same_turn() -> None:
    room = Room()
    waiting = await room.begin(a=1)
    room.board.values["a"] = 1
    room.waits._look()
    room.board.values["a"] = -1
    room.waits._look()
    assert [("a", 1)] == await waiting


async def test_a_wait_ends_with_what_a_condition_raises() -> None:
    room = Room()
    waiting = await room.begin(a=1)
    await room.change(a=-1)
    with pytest.raises(LookupError, match="a is gone"):
        await waiting
    assert room.changes.watcher is None


async def test_who_waits_too_long_is_told_what_is_not_so() -> None:
    room = Room()
    room.board.values["a"] = 1
    with pytest.raises(TookTooLong, match=r"After 1 ms: b is 0\.") as caught:
        await room.until(a=1, b=2, timeout_s=0.001)
    assert ["b"] == caught.value.nearest
    assert room.changes.watcher is None


async def test_a_change_counts_that_nobody_has_looked_at_when_the_time_is_over() -> None:
    room = Room()
    waiting = await room.begin(a=1, timeout_s=0.001)
    room.board.values["a"] = 1  # others keep everybody from looking
    assert [("a", 1)] == await waiting


async def test_the_end_of_the_cluster_ends_every_wait() -> None:
    room = Room()
    waiting = [await room.begin(a=1), await room.begin(a=1, b=1)]
    room.board.values.update(a=1, b=1)  # what brokers that have ended would say counts for nothing
    room.changes.end()
    for each in waiting:
        with pytest.raises(ClusterGone):
            await each
    with pytest.raises(ClusterGone):
        await room.until(a=1)


async def test_a_wait_that_is_given_up_leaves_nothing_behind() -> None:
    room = Room()
    waiting = await room.begin(a=1)
    beside = await room.begin(a=2)
    for each in (waiting, beside):
        assert room.changes.watcher is room.waits
        each.cancel()
        with pytest.raises(asyncio.CancelledError):
            await each
    assert room.changes.watcher is None
    assert not room.waits._subjects


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look takes a second."""
    ticks = count()
    monkeypatch.setattr(module, "perf_counter", lambda: float(next(ticks)))


@pytest.mark.usefixtures("ticking")
async def test_after_a_look_that_was_long_the_next_one_comes_later() -> None:
    room = Room()
    waiting = await room.begin(a=1)
    room.changes.tell()
    assert room.waits._planned is not None
    assert not isinstance(room.waits._planned, asyncio.TimerHandle)
    await asyncio.sleep(0)  # the look: from second 1 to 2
    now = asyncio.get_running_loop().time()
    room.changes.tell()
    planned = room.waits._planned
    room.changes.tell()
    assert planned is room.waits._planned, "one look is planned, however many steps there are"
    assert isinstance(planned, asyncio.TimerHandle)
    assert REST - 1 <= round(planned.when() - now) <= REST  # at second 3
    planned.cancel()
    waiting.cancel()
