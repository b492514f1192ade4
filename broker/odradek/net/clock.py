"""The time of a cluster's brokers: that of the machine, until somebody advances it or makes it stand still."""

from __future__ import annotations

import time

__all__ = ["TIME_MAX_MS", "Clock"]

TIME_MAX_MS = 1 << 62
"""No time of brokers is later: Kafka's records have 64 bits for one, and deadlines are added to it."""


class Clock:
    """Milliseconds since 1970, the same for every broker of a cluster; it never goes back.

    What it was advanced by, and how long it stood still, stays between it and the machine's clock.
    """

    def __init__(self) -> None:
        self._ahead_ms = 0
        self._last_ms = 0
        self._frozen = False

    def now(self) -> int:
        """What time it is (ms)."""
        if not self._frozen:
            now = time.time_ns() // 1_000_000 + self._ahead_ms
            if now > self._last_ms:
                self._last_ms = now
        return self._last_ms

    @property
    def frozen(self) -> bool:
        """Whether it stands still."""
        return self._frozen

    @property
    def ahead_ms(self) -> int:
        """How far it is ahead of the machine's clock; below 0 where it has stood still."""
        return self.now() - time.time_ns() // 1_000_000

    def advance(self, milliseconds: int) -> None:
        """Go on by so much at once, whether it stands still or not. Raises ValueError for what `check` refuses."""
        self.check(milliseconds)
        self._last_ms = self.now() + milliseconds
        self._ahead_ms += milliseconds

    def check(self, milliseconds: int) -> None:
        """Whether it can go on by so much. Raises ValueError for less than 0, and for a time above `TIME_MAX_MS`."""
        if milliseconds < 0:
            raise ValueError(f"The clock of brokers never goes back, so it is not advanced by {milliseconds} ms.")
        if self.now() + milliseconds > TIME_MAX_MS:
            raise ValueError(
                f"The clock of brokers ends {TIME_MAX_MS} ms after 1970, so it is not advanced by {milliseconds} ms."
            )

    def freeze(self) -> None:
        """Stand still, until `resume`; it may stand still already."""
        self.now()
        self._frozen = True

    def resume(self) -> None:
        """Go on from where it stands; it may go already."""
        if self._frozen:
            self._frozen = False
            self._ahead_ms = self._last_ms - time.time_ns() // 1_000_000
