"""The group coordinator on a node: its shard, what it is shown of the cluster, and how its works are done."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar
from uuid import UUID

from odradek.config.keys import INT_MAX, LONG_MAX
from odradek.group.consumer.settings import ConsumerSettings, MigrationPolicy, Surroundings
from odradek.group.coordinator import GroupCoordinator
from odradek.group.share.settings import ShareSettings
from odradek.group.streams.settings import StreamsSettings
from odradek.group.work import InitializeShares, Work
from odradek.log.machine import Answered, Decision, Refused
from odradek.metadata.image import ResourceType
from odradek.node.hosting.asking import AsksShares
from odradek.node.hosting.shard import Shard, ShardNode
from odradek.node.seams import HasMetadata, HasRandom
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.log.partition import Partition

__all__ = ["GroupShard"]

T = TypeVar("T")


class Node(AsksShares, ShardNode, HasMetadata, HasRandom, Protocol):
    """What a group coordinator touches of its broker."""


class GroupShard(Shard[Work]):
    """A coordinator over a partition of `__consumer_offsets`, not loaded yet."""

    node: Node

    def __init__(self, node: Node, partition: Partition) -> None:
        around = Surroundings(
            topics=lambda: node.image,
            settings=lambda group_id: _settings(node, group_id),
            streams=lambda group_id: _streams_settings(node, group_id),
            share_settings=lambda group_id: _share_settings(node, group_id),
            member_id=lambda: urlsafe_b64encode(_random_uuid(node).bytes).decode().rstrip("="),
        )
        suffix = lambda: str(_random_uuid(node))  # noqa: E731 - a name for what the next lines are handed
        self._begin: Callable[[], GroupCoordinator] = lambda: GroupCoordinator(
            node.config, member_suffix=suffix, surroundings=around
        )
        self.machine = GroupCoordinator(
            node.config, member_suffix=suffix, surroundings=around, as_committed=self._as_committed
        )
        self._committed: tuple[GroupCoordinator, int] | None = None
        """A coordinator that has folded what is committed up to an offset, while the machine is ahead of that."""
        super().__init__(node, partition, self.machine)

    async def decided(self, decision: Decision[T]) -> T | Refused:
        """What was decided about a group of a newer protocol, told when it is committed.

        It follows from all that was decided before, committed or not. What writes nothing is told when all that the
        partition has been written before is committed, and a refusal at once, as by Kafka's coordinator runtime.
        """
        partition = self.partition
        if partition.log.mark is None or not isinstance(decision, Answered):
            return await self.carry_out(decision)
        self.settle()
        deadline = self.node.now + self.write_timeout_ms
        error = await self.node.replication.committed(partition, partition.log.end_offset, deadline=deadline)
        return decision.reply if error is ErrorCode.NONE else Refused(error)

    def _as_committed(self) -> GroupCoordinator:
        folded, mark = self._committed or (self._begin(), 0)
        for batch in self.partition.committed_since(mark):
            mark = batch.next_offset
            folded.apply(batch)
        self._committed = folded, mark
        return folded

    def advance(self) -> None:
        """Fold what has been committed since; nobody is asked for that alone when it is everything."""
        super().advance()
        if not self.machine.is_ahead:
            self._committed = None

    @property
    def write_timeout_ms(self) -> int:
        """Kafka's timeout of all that a group coordinator writes."""
        return self.node.config.offsets_commit_timeout_ms

    async def perform(self, work: Work) -> None:
        """Go on with a rebalance, resolve patterns, let offsets expire, or tell the share coordinator."""
        if isinstance(work, InitializeShares):
            from odradek.node.hosting.share_groups import initialize_shares  # few clusters have share groups

            await initialize_shares(self, work.group_id)
        else:
            await self.carry_out(self.machine.perform(work, self.node.now))


def _random_uuid(node: Node) -> UUID:
    return UUID(int=node.random.getrandbits(128), version=4)


def _milliseconds(node: Node, group_id: str) -> Callable[[str, int, int, int], int]:
    """Reads a key of a group: its own value within the bounds of the broker, or the broker's."""
    own = node.image.config(ResourceType.GROUP, group_id)

    def milliseconds(key: str, default: int, low: int, high: int) -> int:
        text = own.get(key)
        return default if text is None else min(max(int(text), low), high)

    return milliseconds


def _share_settings(node: Node, group_id: str) -> ShareSettings:
    config, milliseconds = node.config, _milliseconds(node, group_id)
    return ShareSettings(
        session_timeout_ms=milliseconds(
            "share.session.timeout.ms",
            config.group_share_session_timeout_ms,
            config.group_share_min_session_timeout_ms,
            config.group_share_max_session_timeout_ms,
        ),
        heartbeat_interval_ms=milliseconds(
            "share.heartbeat.interval.ms",
            config.group_share_heartbeat_interval_ms,
            config.group_share_min_heartbeat_interval_ms,
            config.group_share_max_heartbeat_interval_ms,
        ),
        assignment_interval_ms=milliseconds(
            "share.assignment.interval.ms",
            config.group_share_assignment_interval_ms,
            config.group_share_min_assignment_interval_ms,
            config.group_share_max_assignment_interval_ms,
        ),
        max_size=config.group_share_max_size,
    )


def _streams_settings(node: Node, group_id: str) -> StreamsSettings:
    config, number = node.config, _milliseconds(node, group_id)
    own = node.image.config(ResourceType.GROUP, group_id)
    tags = own.get("streams.rack.aware.assignment.tags")
    return StreamsSettings(
        session_timeout_ms=number(
            "streams.session.timeout.ms",
            config.group_streams_session_timeout_ms,
            config.group_streams_min_session_timeout_ms,
            config.group_streams_max_session_timeout_ms,
        ),
        heartbeat_interval_ms=number(
            "streams.heartbeat.interval.ms",
            config.group_streams_heartbeat_interval_ms,
            config.group_streams_min_heartbeat_interval_ms,
            config.group_streams_max_heartbeat_interval_ms,
        ),
        assignment_interval_ms=number(
            "streams.assignment.interval.ms",
            config.group_streams_assignment_interval_ms,
            config.group_streams_min_assignment_interval_ms,
            config.group_streams_max_assignment_interval_ms,
        ),
        initial_rebalance_delay_ms=number(
            "streams.initial.rebalance.delay.ms", config.group_streams_initial_rebalance_delay_ms, 0, INT_MAX
        ),
        task_offset_interval_ms=number(
            "streams.task.offset.interval.ms",
            config.group_streams_task_offset_interval_ms,
            config.group_streams_min_task_offset_interval_ms,
            INT_MAX,
        ),
        acceptable_recovery_lag=number(
            "streams.acceptable.recovery.lag", config.group_streams_acceptable_recovery_lag, 0, LONG_MAX
        ),
        num_standby_replicas=number(
            "streams.num.standby.replicas",
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


def _settings(node: Node, group_id: str) -> ConsumerSettings:
    """What holds for a group now: its own values, within the bounds of the broker, before those of the broker."""
    config = node.config
    milliseconds = _milliseconds(node, group_id)
    return ConsumerSettings(
        session_timeout_ms=milliseconds(
            "consumer.session.timeout.ms",
            config.group_consumer_session_timeout_ms,
            config.group_consumer_min_session_timeout_ms,
            config.group_consumer_max_session_timeout_ms,
        ),
        heartbeat_interval_ms=milliseconds(
            "consumer.heartbeat.interval.ms",
            config.group_consumer_heartbeat_interval_ms,
            config.group_consumer_min_heartbeat_interval_ms,
            config.group_consumer_max_heartbeat_interval_ms,
        ),
        assignment_interval_ms=milliseconds(
            "consumer.assignment.interval.ms",
            config.group_consumer_assignment_interval_ms,
            config.group_consumer_min_assignment_interval_ms,
            config.group_consumer_max_assignment_interval_ms,
        ),
        max_size=config.group_consumer_max_size,
        classic_max_size=config.group_max_size,
        regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        assignors=config.group_consumer_assignors,
        migration=MigrationPolicy(config.group_consumer_migration_policy.lower()),
    )
