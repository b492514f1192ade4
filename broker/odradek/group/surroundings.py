"""The surroundings of a group coordinator: the settings of groups, and functions that it calls at each request."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from msgspec import Struct, field

from odradek.group.consumer.topics import Topics
from odradek.group.modern_member import FIRST_EPOCH
from odradek.group.seekers import Seekers

__all__ = ["ConsumerSettings", "MigrationPolicy", "ModernSettings", "ShareSettings", "StreamsSettings", "Surroundings"]


class MigrationPolicy(Enum):
    """`group.consumer.migration.policy`: which protocol a group with members may change to."""

    DISABLED = "disabled"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


class ModernSettings(Struct, frozen=True):
    """The settings of one group of any newer protocol as of now; times in ms."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 1000
    max_size: int = 2**31 - 1


class ConsumerSettings(ModernSettings, frozen=True):
    """The settings of a consumer group."""

    regex_refresh_interval_ms: int = 600_000
    classic_max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    """In the order of preference; the first is that of members which prefer none."""
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    first_epoch: int = FIRST_EPOCH
    """The epoch of a group before its first member."""


class ShareSettings(ModernSettings, frozen=True):
    """The settings of a share group."""

    max_size: int = 200


class StreamsSettings(ModernSettings, frozen=True):
    """The settings of a streams group."""

    initial_rebalance_delay_ms: int = 3000
    task_offset_interval_ms: int = 60_000
    acceptable_recovery_lag: int = 10_000
    """How many offsets a copy of a task may be behind to be taken for caught up."""
    num_standby_replicas: int = 0
    rack_aware_assignment_tags: tuple[str, ...] = ()
    assignor: str = "sticky"

    @property
    def assignment_configs(self) -> dict[str, str]:
        """The settings of assignments, as the log has them: a change leads to another assignment."""
        configs = {"num.standby.replicas": str(self.num_standby_replicas)}
        if self.rack_aware_assignment_tags:
            configs["rack.aware.assignment.tags"] = ",".join(self.rack_aware_assignment_tags)
        return configs


class Surroundings(Struct, frozen=True):
    """Functions that a group coordinator calls at each request, because their results change."""

    topics: Callable[[], Topics]
    consumer: Callable[[str], ConsumerSettings]
    """The settings of a consumer group by its id."""
    member_id: Callable[[], str]
    """A random id of a member."""
    streams: Callable[[str], StreamsSettings] = lambda _: StreamsSettings()
    share: Callable[[str], ShareSettings] = lambda _: ShareSettings()
    seekers: Seekers = field(default_factory=Seekers)
    """Clients that may be about to join a group."""
