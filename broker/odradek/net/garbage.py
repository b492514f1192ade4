"""Short garbage collections in our own processes (`odradek serve`, a hub).

A full collection visits every object created since the one before, and finds next to nothing: state is freed by
reference counting. With 30,000 partitions it takes 0.15 s, in which no client is served. Here what the imports have
created is frozen at once (`gc.freeze`), and later the survivors of each full collection, so that the next one visits
only newer objects. Frozen cycles that have become garbage are found by a collection of everything: the first time that
the process is idle, and then when there are half as many frozen objects again.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

__all__ = ["Garbage"]

FULL = 2
"""The generation of a full collection."""
LOOK_EVERY_S = 5.0
"""How long the process has to be idle before everything is collected."""
IDLE_SHARE = 0.02
"""Share of one processor below which the process counts as idle."""
GROWN = 1.5
"""The growth of the number of frozen objects that makes another collection of everything worth it."""


class Garbage:
    """Keeps collections short inside the block; frozen objects stay frozen after it."""

    def __init__(
        self, *, used_s: Callable[[], float] = time.process_time, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._used_s, self._now_s = used_s, now_s
        self._used, self._at = used_s(), now_s()
        self._has_more = False
        self._after_look = 0

    def __enter__(self) -> Self:
        gc.callbacks.append(self._collected)
        gc.freeze()
        self._has_more, self._after_look = True, 0
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        gc.callbacks.remove(self._collected)

    async def look_in_idle_moments(self) -> None:
        """Run until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.look_if_idle()

    def look_if_idle(self) -> bool:
        """Collect everything, if the process was idle since the last call and enough is frozen; whether it did."""
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
