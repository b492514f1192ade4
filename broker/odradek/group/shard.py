"""The group coordinator on a node: its shard, what it is shown of the cluster, and how its works are done."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar
from uuid import UUID

from odradek.core.machine import Answered, Decision, Refused
from odradek.group.consumer.settings import Surroundings
from odradek.group.coordinator import GroupCoordinator
from odradek.group.settings import Resolved, consumer_settings, share_settings, streams_settings
from odradek.group.work import ExpireOffsets, InitializeShares, Work
from odradek.host.seams import HasMetadata, HasRandom
from odradek.host.shard import Shard, ShardNode
from odradek.records.compression import Compression
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.log.partition import Partition
    from odradek.share.state_client import ShareStateClient

__all__ = ["GroupShard"]

T = TypeVar("T")


class Node(ShardNode, HasMetadata, HasRandom, Protocol):
    """What a group coordinator touches of its broker."""

    @property
    def share_states(self) -> ShareStateClient: ...


class GroupShard(Shard[Work]):
    """A coordinator over a partition of `__consumer_offsets`, not loaded yet."""

    def __init__(self, node: Node, partition: Partition) -> None:
        around = Surroundings(
            topics=lambda: node.image,
            settings=Resolved(node, consumer_settings),
            streams=Resolved(node, streams_settings),
            share_settings=Resolved(node, share_settings),
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
        self.node = node
        super().__init__(node.shard_parts, partition, self.machine)
        self.compression = Compression(node.config.offsets_topic_compression_codec)

    async def decided(self, decision: Decision[T]) -> T | Refused:
        """What was decided about a group of a newer protocol, told when it is committed.

        It follows from all that was decided before, committed or not. What writes nothing is told when all that the
        partition has been written before is committed, and a refusal at once, as by Kafka's coordinator runtime.
        """
        if not isinstance(decision, Answered):
            return await self.carry_out(decision)
        self.settle()
        error = await self.all_committed()
        return decision.reply if error is ErrorCode.NONE else Refused(error)

    @property
    def waits_for_replicas(self) -> bool:
        """Whether something may have been written that is not committed yet."""
        return self.partition.log.mark is not None

    async def all_committed(self) -> ErrorCode:
        """Wait until all that the partition has been written so far is committed, and folded; or what came before."""
        if not self.waits_for_replicas:
            return ErrorCode.NONE
        partition = self.partition
        deadline = self.node.now + self.write_timeout_ms
        return await self.node.replication.committed(partition, partition.log.end_offset, deadline=deadline)

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
            from odradek.group.share.state_calls import initialize_shares  # few clusters have share groups

            await initialize_shares(self, self.node.share_states, self._turns, work.group_id)
        elif isinstance(work, ExpireOffsets):
            while await self.carry_out(self.machine.expire_offsets(self.node.now)) is True:
                await self.node.turns.breathe_behind()
        else:
            await self.carry_out(self.machine.perform(work, self.node.now))


def _random_uuid(node: Node) -> UUID:
    return UUID(int=node.random.getrandbits(128), version=4)
