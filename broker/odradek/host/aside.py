"""Work that takes long and touches nothing of the node: its driver does it beside the event loop.

What the node alone may touch never leaves its steps; a batch that unpacks to 120 MB is read beside them, so that others
are served meanwhile. The simulator does such work at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from odradek.core.flow import Wait

if TYPE_CHECKING:
    from odradek.core.flow import Kernel
    from odradek.host.events import Work

__all__ = ["Aside"]

T = TypeVar("T")


class _Work(Generic[T]):
    """One call, and what came of it."""

    def __init__(self, call: Callable[[], T], kernel: Kernel) -> None:
        self._call = call
        self._result: T
        self._error: Exception | None = None
        self.wait: Wait[None] = Wait(kernel)

    def run(self) -> None:
        """Do it, on whatever thread this is."""
        try:
            self._result = self._call()
        except Exception as error:
            self._error = error

    def done(self) -> None:
        """Let the flow go on that waits for it; in a step of the node."""
        self.wait.settle(None)

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result


class Aside:
    """What the driver is to be asked for at the end of the step."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.unasked: list[Work] = []

    async def do(self, call: Callable[[], T]) -> T:
        """The result of a call that takes long, or its exception; it must not look at anything that steps change.

        What was looked up before is stale afterwards.
        """
        work = _Work(call, self._kernel)
        self.unasked.append(work)
        await work.wait
        return work.result()

    def take(self) -> list[Work]:
        """What has come up in this step."""
        taken, self.unasked = self.unasked, []
        return taken
