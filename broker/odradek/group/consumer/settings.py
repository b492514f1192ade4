"""The settings of groups; the broker resolves them: a group's own values come first."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from msgspec import Struct

from odradek.group.consumer.topics import Topics
from odradek.group.modern import FIRST_EPOCH
from odradek.group.share.settings import ShareSettings
from odradek.group.streams.settings import StreamsSettings

__all__ = ["ConsumerSettings", "MigrationPolicy", "Surroundings"]


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


class ConsumerSettings(Struct, frozen=True):
    """The settings of one group as of now; times in ms."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 1000
    regex_refresh_interval_ms: int = 600_000
    max_size: int = 2**31 - 1
    classic_max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    """In the order of preference; the first is that of members which prefer none."""
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    first_epoch: int = FIRST_EPOCH
    """The epoch of a group before its first member."""


class Surroundings(Struct, frozen=True):
    """Functions that a group coordinator calls at each request, because their results change."""

    topics: Callable[[], Topics]
    settings: Callable[[str], ConsumerSettings]
    """By the id of the group."""
    member_id: Callable[[], str]
    """A random id of a member."""
    streams: Callable[[str], StreamsSettings] = lambda _: StreamsSettings()
    """By the id of a streams group."""
    share_settings: Callable[[str], ShareSettings] = lambda _: ShareSettings()
    """The same of a share group."""
