"""The settings of a group: its own configs, within the bounds of the broker, before those of the broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from odradek.config.keys import INT_MAX, LONG_MAX
from odradek.group.surroundings import ConsumerSettings, MigrationPolicy, ShareSettings, StreamsSettings
from odradek.metadata.image import ResourceType

if TYPE_CHECKING:
    from odradek.config.table import Config
    from odradek.host.metadata import Metadata
    from odradek.host.settings import Settings

__all__ = ["Resolved", "consumer_settings", "share_settings", "streams_settings"]

S = TypeVar("S")


class Resolved(Generic[S]):
    """The settings of a group by its id, as of now.

    Most groups have no configs of their own, and what is resolved last is what is asked for next.
    """

    def __init__(
        self, settings: Settings, metadata: Metadata, resolve: Callable[[Config, Mapping[str, str]], S]
    ) -> None:
        self._settings = settings
        self._metadata = metadata
        self._resolve = resolve
        self._last: tuple[Config, Mapping[str, str], S] | None = None

    def __call__(self, group_id: str) -> S:
        config, own = self._settings.config, self._metadata.image.config(ResourceType.GROUP, group_id)
        last = self._last
        # Neither is ever changed: what has changed is another object.
        if last is not None and last[0] is config and last[1] is own:
            return last[2]
        resolved = self._resolve(config, own)
        self._last = config, own, resolved
        return resolved


def _number(kind: str, own: Mapping[str, str], key: str, default: int, low: int, high: int) -> int:
    text = own.get(f"{kind}.{key}")
    return default if text is None else min(max(int(text), low), high)


def share_settings(config: Config, own: Mapping[str, str]) -> ShareSettings:
    """The settings of a share group."""
    number = partial(_number, "share", own)
    return ShareSettings(
        session_timeout_ms=number(
            "session.timeout.ms",
            config.group_share_session_timeout_ms,
            config.group_share_min_session_timeout_ms,
            config.group_share_max_session_timeout_ms,
        ),
        heartbeat_interval_ms=number(
            "heartbeat.interval.ms",
            config.group_share_heartbeat_interval_ms,
            config.group_share_min_heartbeat_interval_ms,
            config.group_share_max_heartbeat_interval_ms,
        ),
        assignment_interval_ms=number(
            "assignment.interval.ms",
            config.group_share_assignment_interval_ms,
            config.group_share_min_assignment_interval_ms,
            config.group_share_max_assignment_interval_ms,
        ),
        max_size=config.group_share_max_size,
    )


def streams_settings(config: Config, own: Mapping[str, str]) -> StreamsSettings:
    """The settings of a streams group."""
    number = partial(_number, "streams", own)
    tags = own.get("streams.rack.aware.assignment.tags")
    return StreamsSettings(
        session_timeout_ms=number(
            "session.timeout.ms",
            config.group_streams_session_timeout_ms,
            config.group_streams_min_session_timeout_ms,
            config.group_streams_max_session_timeout_ms,
        ),
        heartbeat_interval_ms=number(
            "heartbeat.interval.ms",
            config.group_streams_heartbeat_interval_ms,
            config.group_streams_min_heartbeat_interval_ms,
            config.group_streams_max_heartbeat_interval_ms,
        ),
        assignment_interval_ms=number(
            "assignment.interval.ms",
            config.group_streams_assignment_interval_ms,
            config.group_streams_min_assignment_interval_ms,
            config.group_streams_max_assignment_interval_ms,
        ),
        initial_rebalance_delay_ms=number(
            "initial.rebalance.delay.ms", config.group_streams_initial_rebalance_delay_ms, 0, INT_MAX
        ),
        task_offset_interval_ms=number(
            "task.offset.interval.ms",
            config.group_streams_task_offset_interval_ms,
            config.group_streams_min_task_offset_interval_ms,
            INT_MAX,
        )
        if config.release.tells_task_offset_intervals
        else 0,
        acceptable_recovery_lag=number(
            "acceptable.recovery.lag", config.group_streams_acceptable_recovery_lag, 0, LONG_MAX
        ),
        num_standby_replicas=number(
            "num.standby.replicas",
            config.group_streams_num_standby_replicas,
            0,
            config.group_streams_max_standby_replicas,
        ),
        rack_aware_assignment_tags=(
            config.group_streams_rack_aware_assignment_tags
            if tags is None
            else tuple(tag.strip() for tag in tags.split(",") if tag.strip())
        ),
        max_size=config.group_streams_max_size,
        assignor=own.get("streams.assignor.name", config.group_streams_assignors[0]),
    )


def consumer_settings(config: Config, own: Mapping[str, str]) -> ConsumerSettings:
    """The settings of a consumer group."""
    number = partial(_number, "consumer", own)
    return ConsumerSettings(
        session_timeout_ms=number(
            "session.timeout.ms",
            config.group_consumer_session_timeout_ms,
            config.group_consumer_min_session_timeout_ms,
            config.group_consumer_max_session_timeout_ms,
        ),
        heartbeat_interval_ms=number(
            "heartbeat.interval.ms",
            config.group_consumer_heartbeat_interval_ms,
            config.group_consumer_min_heartbeat_interval_ms,
            config.group_consumer_max_heartbeat_interval_ms,
        ),
        assignment_interval_ms=number(
            "assignment.interval.ms",
            config.group_consumer_assignment_interval_ms,
            config.group_consumer_min_assignment_interval_ms,
            config.group_consumer_max_assignment_interval_ms,
        ),
        max_size=config.group_consumer_max_size,
        classic_max_size=config.group_max_size,
        regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        assignors=config.group_consumer_assignors,
        migration=MigrationPolicy(config.group_consumer_migration_policy.lower()),
        first_epoch=config.release.first_group_epoch,
    )
