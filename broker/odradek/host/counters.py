"""Counters of a broker."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Counters", "DeadLetterCounts"]


class DeadLetterCounts(Struct):
    """Counts of the dead letter queue of one share group (ShareGroupMetrics, KIP-1191)."""

    records: int = 0
    produces: int = 0
    """Produce requests with records of the group, failed ones included."""
    failed_produces: int = 0


class Counters:
    """Numbers that only grow."""

    def __init__(self) -> None:
        self.requests = 0
        self.markers_written = 0
        self.coordinator_loads = 0
        self.logins_refused = 0
        self.logins_again_refused = 0
        self.sessions_expired = 0
        self.telemetry_pushes = 0
        self.telemetry_throttled = 0
        self.telemetry_unknown = 0
        self.telemetry_refused = 0
        self.dead_letters: dict[str, DeadLetterCounts] = {}
        """By share group."""

    def dead_letters_of(self, group_id: str) -> DeadLetterCounts:
        return self.dead_letters.setdefault(group_id, DeadLetterCounts())
