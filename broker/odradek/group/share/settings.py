"""Settings of share groups: a group's own values first, then those of the broker."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["ShareSettings"]


class ShareSettings(Struct, frozen=True):
    """The present settings of one group; times in ms."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 1000
    max_size: int = 200
