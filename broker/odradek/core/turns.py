"""Work for the next turn: connections with more requests, and long requests.

The node serves one request of each connection, and more of them while a turn lasts, two milliseconds by the
clock of its driver. Then it gives way: what is left goes on in a later step (`NextTurn`, `Turn`), one after the other,
and other sockets are read in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from odradek.core.flow import Wait

if TYPE_CHECKING:
    from odradek.core.flow import Kernel

__all__ = ["Pause", "Share", "TooManyEntries", "Turns"]


T = TypeVar("T")

SHARED_ENTRIES = 32
"""How many entries a request is served at most between two breaths; most take some 5 µs."""
CODEC_ENTRIES = 256
"""The same for reading and writing, which take 1 µs an entry."""


class Lengthy(Protocol):
    """A request that may turn out to be long while it is served.

    A Protocol: a call is in the host, which the core must not import.
    """

    is_long: bool


class TooManyEntries(Exception):
    """A request with more entries than the broker serves at once."""


class Pause(Wait[None]):
    """The wait of a request that only lets others go on first."""

    __slots__ = ()


def _at_once() -> bool:
    return True


class Share(Generic[T]):
    """Some entries after the other; made by `Turns.share`.

    The cost of an entry is unknown beforehand: a group may have ten thousand offsets, and be named a hundred times.
    So it begins with one, and takes twice as many as long as the turn is not over; half as many where they alone have
    lasted a whole turn.
    """

    def __init__(self, turns: Turns, call: Lengthy, entries: list[T]) -> None:
        self._turns = turns
        self._call = call
        self._entries = entries
        self._position = 0
        self._count = 1 if turns.has_clock else SHARED_ENTRIES
        self._had_the_turn = False
        """Whether nothing else was served in this turn."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[T]:
        position = self._position
        if position >= len(self._entries):
            raise StopAsyncIteration
        if position:
            if not await self._turns.breathe(self._call):
                self._count = min(2 * self._count, SHARED_ENTRIES)
            elif self._had_the_turn and self._turns.has_clock:
                self._count = max(self._count // 2, 1)
            else:
                self._had_the_turn = True
        self._position = position + self._count
        return self._entries[position : self._position]


class Turns:
    """The requests that wait for the node's next turn, in the order in which they gave way."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.waiting: deque[Callable[[], object]] = deque()
        self.behind: list[Pause] = []
        """Work that goes on before them, as soon as the responses of the step have left."""
        self.asked = False
        """Whether the driver was asked to come back."""
        self.is_over: Callable[[], bool] = _at_once
        """Whether the turn has lasted long enough; the driver's, which has a clock. Without one, after each request."""

    def later(self, go_on: Callable[[], object]) -> None:
        """Go on with this in a later turn."""
        self.waiting.append(go_on)

    def behind_answers(self) -> Pause:
        """Something to await for what no client waits for: the answers of this step leave before it goes on.

        It goes on before anything more is read, so that no request finds it undone whose sender had such an answer.
        """
        wait = Pause(self._kernel)
        self.behind.append(wait)
        return wait

    def next(self) -> Pause:
        """Something to await that lets everybody else go on first."""
        wait = Pause(self._kernel)
        self.waiting.append(lambda: wait.settle(None))
        return wait

    @property
    def has_clock(self) -> bool:
        """Whether a turn lasts for a time, and not for one request."""
        return self.is_over is not _at_once

    async def breathe(self, call: Lengthy) -> bool:
        """Between two parts of a long request: let others go on if the turn is over; whether it was.

        What was looked up before is stale afterwards.
        """
        if not self.is_over():
            return False
        call.is_long = True
        await self.next()
        return True

    async def breathe_behind(self) -> None:
        """The same for work that nobody has asked for, or whose answer is short."""
        if self.is_over():
            await self.next()

    def weigh(self, call: Lengthy, entries: int) -> None:
        """A request whose answer has so many entries may be long: then it is written a few at a time."""
        if entries > CODEC_ENTRIES:
            call.is_long = True

    def share(self, call: Lengthy, entries: Iterable[T]) -> Share[T]:
        """The entries, a few at a time, with a breath in between: `async for some in node.turns.share(call, many)`."""
        return Share(self, call, entries if isinstance(entries, list) else list(entries))

    async def run_long(self, steps: Generator[int, None, T], *, entries_max: int | None = None) -> T:
        """The result of a codec that gives way. Raises `TooManyEntries`."""
        entries = looked = 0
        while True:
            try:
                entries += next(steps)
            except StopIteration as stop:
                result: T = stop.value
                return result
            if entries_max is not None and entries > entries_max:
                raise TooManyEntries(f"more than {entries_max:,} entries")
            if entries - looked >= CODEC_ENTRIES:
                looked = entries
                await self.breathe_behind()

    def run(self) -> None:
        """One turn: what was left behind the answers, then first come, first served, until it is over."""
        self.asked = False
        if self.behind:
            behind, self.behind = self.behind, []
            for wait in behind:
                wait.settle(None)
            self._kernel.run_ready()
        waiting = self.waiting
        while waiting:
            waiting.popleft()()
            self._kernel.run_ready()
            if self.is_over():
                return

    def wants_another(self) -> bool:
        """Whether the driver is to be asked to come back: somebody waits, and it has not been asked."""
        if self.asked or not (self.waiting or self.behind):
            return False
        self.asked = True
        return True
