"""The time, as a broker's parts keep it."""

from __future__ import annotations

__all__ = ["Clock"]


class Clock:
    """Wall time of the current step, in milliseconds; the broker sets it before each step."""

    __slots__ = ("now",)

    def __init__(self, now: int) -> None:
        self.now = now
