"""What a broker counts while it serves."""

from __future__ import annotations

__all__ = ["Counters"]


class Counters:
    """Plain numbers that only grow."""

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
