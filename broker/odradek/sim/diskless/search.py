"""All schedules of a design, the shortest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from msgspec import Struct

from odradek.sim.diskless.machines import Design, Size, State, first, steps
from odradek.sim.diskless.promises import broken, broken_at_the_end, broken_between

__all__ = ["Found", "search"]


class Found(Struct, frozen=True):
    """The end of a search: how many states there are, and the shortest schedule that breaks a promise, if one does."""

    states: int
    schedule: tuple[str, ...] = ()
    promise: str | None = None


def search(design: Design, size: Size, promise: str = "") -> Found:
    """Every state that can be reached, breadth first; only promises with these words in them are judged."""
    start = first(size, design)
    came: dict[State, tuple[State, str] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        before = waiting.popleft()
        following = list(steps(before, size, design))
        if not following and (found := _first(broken_at_the_end(before, size), promise)):
            return Found(len(came), _way(came, before), found)
        for text, state in following:
            complaints = [*broken_between(before, state, size)]
            if state not in came:
                came[state] = (before, text)
                waiting.append(state)
                complaints += broken(state, size)
            if found := _first(complaints, promise):
                return Found(len(came), (*_way(came, before), text), found)
    return Found(len(came))


def _first(complaints: Iterable[str], words: str) -> str | None:
    return next((each for each in complaints if words in each), None)


def _way(came: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    way: list[str] = []
    while (step := came[state]) is not None:
        state, text = step
        way.append(text)
    return tuple(reversed(way))
