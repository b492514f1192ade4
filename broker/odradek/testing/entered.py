"""Entered clusters: their end when Python exits, and their protection from forked processes."""

from __future__ import annotations

import atexit
import os
import sys
import warnings
from collections.abc import Callable

__all__ = ["Entered", "place"]

NEVER_LEFT = "The Cluster that was entered here was never left; it has ended with the interpreter."
FORKED = (
    "This cluster runs in the process that this one was forked from: its brokers can be reached from here, but it can "
    "neither be driven nor left."
)
NOT_THE_TESTS = ("odradek.testing", "contextlib")
"""Modules that enter a cluster on behalf of a test."""


class Entered:
    """A cluster that is entered in this process; `end` ends one that was never left, when Python exits."""

    def __init__(self, end: Callable[[], None] | None = None) -> None:
        self.end = end
        self.file, self.line = place()
        self._process = os.getpid()
        if end is not None:
            _TO_END[self] = None

    @property
    def is_here(self) -> bool:
        """Whether this process has entered it; a forked process lacks the thread of the cluster."""
        return os.getpid() == self._process

    def check_process(self) -> None:
        """Raise RuntimeError in another process."""
        if not self.is_here:
            raise RuntimeError(FORKED)

    def left(self) -> None:
        """Note that the cluster was left."""
        _TO_END.pop(self, None)


_TO_END: dict[Entered, None] = {}


def place() -> tuple[str, int]:
    """File and line of the test that enters or uses a cluster."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(NOT_THE_TESTS):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _end_all() -> None:
    for entered in list(_TO_END):
        entered.left()
        assert entered.end is not None, "those that do not end by themselves are listed"
        entered.end()
        warnings.warn_explicit(NEVER_LEFT, RuntimeWarning, entered.file, entered.line)


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):  # Windows forks nothing
    os.register_at_fork(after_in_child=_TO_END.clear)
