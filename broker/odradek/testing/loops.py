"""A look into a cluster that runs in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import NoReturn, TypeVar

__all__ = ["in_loop", "runs_here"]

__tracebackhide__ = True
"""An error in a cluster is raised in the test, whose traceback ends with its own line."""
T = TypeVar("T")


def runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this code runs in that event loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def in_loop(loop: asyncio.AbstractEventLoop, function: Callable[[], T], *, timeout_s: float | None = None) -> T:
    """Call a function in an event loop, so that nothing happens there at the same time; returns or raises as it does.

    Raises TimeoutError if the loop does not call it in time, and at once if the loop does not run.
    """
    if runs_here(loop) or not loop.is_running():
        return function()
    # The outcome is passed as a function, because a failed future adds its own frames to the traceback.
    outcome: Future[Callable[[], T]] = Future()

    def run() -> None:
        try:
            value = function()
        except BaseException as error:
            outcome.set_result(partial(_raise, error))
        else:
            outcome.set_result(lambda: value)

    loop.call_soon_threadsafe(run)
    return outcome.result(timeout_s)()


def _raise(error: BaseException) -> NoReturn:
    raise error
