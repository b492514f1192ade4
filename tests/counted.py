"""What something costs, as a count that is the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["calls_of", "lines_of"]


def calls_of(act: Callable[[], object]) -> int:
    """Calls of Python and of C."""
    count = 0

    def entered(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(entered)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


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
