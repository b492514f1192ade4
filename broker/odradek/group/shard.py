"""The group coordinator on a node: its shard, what it is shown of the cluster, and how its works are done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from odradek.core.machine import Answered, Decision, Refused
from odradek.group.coordinator import GroupCoordinator
from odradek.group.settings import Resolved, consumer_settings, share_settings, streams_settings
from odradek.group.surroundings import Surroundings
from odradek.group.work import ExpireOffsets, InitializeShares, Work
from odradek.host.shard import Shard
from odradek.records.compression import Compression
from odradek.wire.errors import ErrorCode
from odradek.wire.primitives import uuid_text

if TYPE_CHECKING:
    from odradek.core.clock import Rng
    from odradek.group.seekers import Seekers
    from odradek.group.share.states import ShareStates
    from odradek.host.host import Host
    from odradek.host.replicas import Replicas
    from odradek.log.partition import Partition
    from odradek.metadata.image import TopicImage
    from odradek.share.state_calls import Failures
    from odradek.share.state_client import ShareStateClient

__all__ = ["GroupShard"]

T = TypeVar("T")


class GroupShard(Shard[Work]):
    """A coordinator over a partition of `__consumer_offsets`, not loaded yet."""

    def __init__(
        self,
        node: Host,
        replicas: Replicas,
        partition: Partition,
        *,
        share_states: Callable[[], ShareStateClient],
        seekers: Seekers,
    ) -> None:
        """`share_states`: the client of share coordinators; imported by the first share group."""
        settings = node.settings
        around = Surroundings(
            topics=lambda: node.metadata.image,
            consumer=Resolved(settings, node.metadata, consumer_settings),
            streams=Resolved(settings, node.metadata, streams_settings),
            share=Resolved(settings, node.metadata, share_settings),
            seekers=seekers,
            member_id=lambda: uuid_text(_random_uuid(node.random).bytes),
        )
        suffix = lambda: str(_random_uuid(node.random))  # noqa: E731 - a name for what the next lines are handed
        self._share_states = share_states
        self._begin: Callable[[], GroupCoordinator] = lambda: GroupCoordinator(
            settings.config, member_suffix=suffix, surroundings=around
        )
        self.machine = GroupCoordinator(
            settings.config,
            member_suffix=suffix,
            surroundings=around,
            as_committed=self._as_committed,
            caught_up=self._forget_committed,
        )
        self._committed: tuple[GroupCoordinator, int] | None = None
        """A coordinator that has folded what is committed up to an offset, while the machine is ahead of that."""
        super().__init__(node, replicas.replication, replicas.appended, partition, self.machine)
        self.compression = Compression(settings.config.offsets_topic_compression_codec)
        self.base_sequence = 0  # as Kafka's coordinator runtime has it, and its transaction coordinator has not

    async def decided(self, decision: Decision[T]) -> T | Refused:
        """The outcome of a decision about a group of a newer protocol, once it is committed.

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
        deadline = self._clock.now + self.write_timeout_ms
        return await self._replication.committed(partition, partition.log.end_offset, deadline=deadline)

    def _as_committed(self) -> GroupCoordinator:
        folded, mark = self._committed or (self._begin(), 0)
        for batch in self.partition.committed_since(mark):
            mark = batch.next_offset
            folded.apply(batch)
        self._committed = folded, mark
        return folded

    def _forget_committed(self) -> None:
        self._committed = None

    @property
    def write_timeout_ms(self) -> int:
        """Kafka's timeout of all that a group coordinator writes."""
        return self._settings.config.offsets_commit_timeout_ms

    async def perform(self, work: Work) -> None:
        """Go on with a rebalance, resolve patterns, let offsets expire, or tell the share coordinator."""
        if isinstance(work, InitializeShares):
            await self._initialize_shares(work.group_id)
        elif isinstance(work, ExpireOffsets):
            while await self.carry_out(self.machine.expire_offsets(self._clock.now)) is True:
                await self._turns.breathe_behind()
        else:
            await self.carry_out(self.machine.perform(work, self._clock.now))

    async def topic_deleted(self, topic: TopicImage) -> None:
        """Forget the offsets that groups have committed for it, a few at a time."""
        while await self.carry_out(self.machine.topics_deleted([(topic.name, topic.id)])) is True:
            await self._turns.breathe_behind()

    async def _initialize_shares(self, group_id: str) -> None:
        """Have the share coordinator begin with the partitions that a share group has come to read."""
        # What the group is to begin with may not be committed yet.
        states = await self.decided(Answered(self.machine.share.initializing(group_id)))
        if states is not None and not isinstance(states, Refused):
            await self.begin_states(states)

    async def begin_states(self, states: ShareStates) -> Failures:
        """Have the share coordinator begin with these partitions, and the group know of it; what failed, and why."""
        from odradek.share.state_calls import begin_states  # few clusters have share groups

        begun = await begin_states(self._share_states(), self._turns, states)
        if not self.resigned and (begun.ready or begun.lost):
            await self.decided(self.machine.share.initialized(states.group_id, begun.ready, begun.lost))
        return begun.failures


def _random_uuid(random: Rng) -> UUID:
    return UUID(int=random.getrandbits(128), version=4)
