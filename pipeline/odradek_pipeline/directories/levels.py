"""The levels of transaction.version that a cluster had finalized, and from when on, as its metadata log tells."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

__all__ = ["LEVEL_SLACK_MS", "UNKNOWN", "LevelChange", "Levels"]

UNKNOWN = -1
LEVEL_SLACK_MS = 60_000
"""The controller and the coordinators have clocks of their own."""


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A level of transaction.version, from a time on."""

    offset: int
    timestamp: int
    level: int


@dataclass(frozen=True, slots=True)
class Levels:
    """Changes in the order of the log; a snapshot has but the last one."""

    changes: tuple[LevelChange, ...] = ()
    is_whole: bool = False
    """Whether the log was there from its beginning: then there was no other level before."""

    def at(self, timestamp: int) -> int:
        """What was finalized then, `UNKNOWN` where the log does not reach back."""
        before = bisect_right([change.timestamp for change in self.changes], timestamp)
        return self.changes[before - 1].level if before else UNKNOWN

    def highest_until(self, timestamp: int) -> int:
        """The highest that had been finalized by then, `UNKNOWN` where there may have been others."""
        if not self.is_whole or not self.changes:
            return UNKNOWN
        first = self.changes[0]
        return max([first.level, *(one.level for one in self.changes if one.timestamp <= timestamp + LEVEL_SLACK_MS)])
