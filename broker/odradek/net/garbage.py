"""What Python's garbage collector does in a process that is ours (`odradek serve`, a hub): never much at a time.

A full collection looks at everything that has come since the one before, and finds next to nothing: state is freed as
soon as nobody refers to it. With 30,000 partitions that takes 0.15 s, in which nobody is served. Here what a full
collection has left is put aside (`gc.freeze`), so that the next one looks only at what is newer. What was put aside and
has become garbage since, in circles, is found by a whole look: in a moment in which the process does nothing, once
there is half as much again.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import anyio

__all__ = ["Garbage"]

FULL = 2
"""The generation of a full collection."""
LOOK_EVERY_S = 5.0
"""How long the process has to do nothing before a whole look."""
IDLE_SHARE = 0.02
"""Of a processor: who uses no more does nothing."""
GROWN = 1.5
"""How many times as much has to be put aside as after the whole look before."""


class Garbage:
    """Keeps collections short as long as it is entered; what is put aside then stays so."""

    def __init__(
        self, *, used_s: Callable[[], float] = time.process_time, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._used_s, self._now_s = used_s, now_s
        self._used, self._at = used_s(), now_s()
        self._has_more = False
        self._after_look = 0

    def __enter__(self) -> Self:
        gc.callbacks.append(self._collected)
        self._look()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        gc.callbacks.remove(self._collected)

    async def look_in_idle_moments(self) -> None:
        """Run until it is cancelled."""
        while True:
            await anyio.sleep(LOOK_EVERY_S)
            self.look_if_idle()

    def look_if_idle(self) -> bool:
        """A whole look, if the process has done nothing since this was asked last and there is enough; whether."""
        used, at = self._used_s(), self._now_s()
        is_idle = used - self._used <= IDLE_SHARE * (at - self._at)
        self._used, self._at = used, at
        if not is_idle or not self._has_more or gc.get_freeze_count() < GROWN * self._after_look:
            return False
        self._look()
        return True

    def _look(self) -> None:
        gc.unfreeze()
        gc.collect()
        self._after_look = gc.get_freeze_count()
        self._has_more = False

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == FULL:
            gc.freeze()
            self._has_more = True
