"""The settings of streams groups; a group's own values come before those of the broker."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["StreamsSettings"]


class StreamsSettings(Struct, frozen=True):
    """The settings of one group as of now; times in ms."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 1000
    initial_rebalance_delay_ms: int = 3000
    task_offset_interval_ms: int = 60_000
    acceptable_recovery_lag: int = 10_000
    """How many offsets a copy of a task may be behind to be taken for caught up."""
    num_standby_replicas: int = 0
    rack_aware_assignment_tags: tuple[str, ...] = ()
    max_size: int = 2**31 - 1
    assignor: str = "sticky"

    @property
    def assignment_configs(self) -> dict[str, str]:
        """The settings of assignments, as the log has them: a change leads to another assignment."""
        configs = {"num.standby.replicas": str(self.num_standby_replicas)}
        if self.rack_aware_assignment_tags:
            configs["rack.aware.assignment.tags"] = ",".join(self.rack_aware_assignment_tags)
        return configs
