"""What something costs, as a count that is the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

__all__ = ["Calls", "calls_of", "lines_of"]

T = TypeVar("T")


class Calls:
    """The calls of what is done under it: of functions in Python, and of functions in C."""

    def __init__(self) -> None:
        self.python = 0
        self.c = 0

    @property
    def all(self) -> int:
        """Both kinds."""
        return self.python + self.c

    def __str__(self) -> str:
        return f"{self.all} calls, {self.python} of them of Python functions"

    def of(self, act: Callable[[], T]) -> T:
        """Count what this does; its result."""
        sys.setprofile(self._entered)
        try:
            return act()
        finally:
            sys.setprofile(None)
            self.c -= 1  # the end of the counting is a call, too

    def _entered(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            self.python += 1
        elif event == "c_call":
            self.c += 1


def calls_of(act: Callable[[], object]) -> int:
    """Calls of Python and of C."""
    calls = Calls()
    calls.of(act)
    return calls.all


def lines_of(act: Callable[[], object]) -> int:
    """Lines and calls of Python: what a loop goes through, as long as the loop is written in Python."""
    count = 0

    def seen(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event in ("line", "call")
        return seen

    before = sys.gettrace()
    sys.settrace(seen)
    try:
        act()
    finally:
        sys.settrace(before)
    return count
