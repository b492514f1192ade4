"""The clock of a cluster's brokers: the machine's, until a test advances or stops it."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["TIME_MAX_MS", "Clock"]

TIME_MAX_MS = 1 << 62
"""The latest time of brokers: records have 64 bits for a timestamp, and deadlines are added to it."""


def machine_ms() -> int:
    """Milliseconds since 1970, by the clock of this machine."""
    return time.time_ns() // 1_000_000


class Clock:
    """Milliseconds since 1970, the same for every broker of a cluster; it never goes back.

    Its difference to the machine's clock, from advancing and stopping it, stays.
    """

    def __init__(
        self, machine: Callable[[], int] = machine_ms, *, at_ms: int | None = None, frozen: bool = False
    ) -> None:
        """It begins with the time of the machine's clock (ms), or with another one."""
        self._machine = machine
        self._ahead_ms = 0 if at_ms is None else at_ms - machine()
        self._last_ms = at_ms or 0
        self._frozen = frozen

    def now(self) -> int:
        """The current time in ms."""
        if not self._frozen:
            now = self._machine() + self._ahead_ms
            if now > self._last_ms:
                self._last_ms = now
        return self._last_ms

    @property
    def frozen(self) -> bool:
        """Whether the clock is stopped."""
        return self._frozen

    @property
    def ahead_ms(self) -> int:
        """Milliseconds by which it is ahead of the machine's clock; below 0 after it was stopped."""
        return self.now() - self._machine()

    def advance(self, milliseconds: int) -> None:
        """Advance by this many ms at once, also while it is stopped. Raises ValueError as `check` does."""
        self.check(milliseconds)
        self._last_ms = self.now() + milliseconds
        self._ahead_ms += milliseconds

    def check(self, milliseconds: int) -> None:
        """Check that it can advance by this many ms. Raises ValueError below 0, and for a time above `TIME_MAX_MS`."""
        if milliseconds < 0:
            raise ValueError(f"The clock of brokers never goes back, so it is not advanced by {milliseconds} ms.")
        if self.now() + milliseconds > TIME_MAX_MS:
            raise ValueError(
                f"The clock of brokers ends {TIME_MAX_MS} ms after 1970, so it is not advanced by {milliseconds} ms."
            )

    def freeze(self) -> None:
        """Stop until `resume`; no effect if it is stopped."""
        self.now()
        self._frozen = True

    def resume(self) -> None:
        """Go on from the time at which it was stopped; no effect if it runs."""
        if self._frozen:
            self._frozen = False
            self._ahead_ms = self._last_ms - self._machine()
