"""Long computations that touch no state of the node: its driver runs them beside the event loop.

Other clients are served while, for example, a batch that unpacks to 120 MB is read. The simulator runs such work at
once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from odradek.core.flow import Wait

if TYPE_CHECKING:
    from odradek.core.flow import Kernel

__all__ = ["Aside", "Errand"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Errand(Generic[T_co]):
    """One call, and its result or exception."""

    def __init__(self, call: Callable[[], T_co], kernel: Kernel) -> None:
        self._call = call
        self._result: T_co
        self._error: Exception | None = None
        self.wait: Wait[None] = Wait(kernel)

    def run(self) -> None:
        """Make the call, on any thread."""
        try:
            self._result = self._call()
        except Exception as error:
            self._error = error

    def done(self) -> None:
        """Resume the flow that waits for the result; in a step of the node."""
        self.wait.settle(None)

    def result(self) -> T_co:
        if self._error is not None:
            raise self._error
        return self._result


class Aside:
    """The calls that the driver has to make after the step."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.unasked: list[Errand[object]] = []

    async def do(self, call: Callable[[], T]) -> T:
        """The result of a long call, or its exception; it must not read anything that steps change.

        Values that were looked up before are stale afterwards.
        """
        work = Errand(call, self._kernel)
        self.unasked.append(work)
        await work.wait
        return work.result()

    def take(self) -> list[Errand[object]]:
        """The calls of this step."""
        taken, self.unasked = self.unasked, []
        return taken
