"""What share groups are configured with, as whoever runs the coordinator resolves it: a group's own values first."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["ShareSettings"]


class ShareSettings(Struct, frozen=True):
    """What holds for one group now; times in ms."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 1000
    max_size: int = 200
