"""What a leader does about the other replicas: it counts what they acknowledge, and proposes who is in sync.

A replica of another broker is how far it has acknowledged (`log.followers`), and its leader knows how long its broker
takes (`odradek.replica.lag.ms`). With the default, at once, none of this runs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from odradek.host.peers import HasPeers
from odradek.host.router import HasRouter
from odradek.host.seams import (
    HasAppends,
    HasClock,
    HasConfig,
    HasIdentity,
    HasKernel,
    HasMetadata,
    HasPartitions,
    HasPumps,
    HasPurgatory,
    HasStaticConfig,
    HasTimers,
)
from odradek.log.followers import NEVER
from odradek.metadata.elections import replica_lag_ms
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.log.partition import Partition
    from odradek.metadata.image import PartitionImage

__all__ = ["HasReplication", "Replication"]


class HasReplication(Protocol):
    """The other replicas of what this broker leads."""

    @property
    def replication(self) -> Replication: ...


class Node(
    HasAppends,
    HasClock,
    HasConfig,
    HasIdentity,
    HasKernel,
    HasMetadata,
    HasPartitions,
    HasPeers,
    HasPumps,
    HasPurgatory,
    HasRouter,
    HasStaticConfig,
    HasTimers,
    Protocol,
):
    """What a leader touches of its broker for the sake of the other replicas."""


COMMITTED = "committed"
"""First part of the purgatory key of those who wait for the high watermark of a partition."""
RETRY_MS = 50
"""When an ISR that the controller did not take is proposed again."""


class Replication:
    """The replicas of the partitions that a broker leads."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._unsure: dict[tuple[str, int], Partition] = {}
        """Partitions whose ISR may have to change."""
        self._proposing = False

    # ------------------------------------------------------------------ what is new

    def adopt(self, partition: Partition, registered: PartitionImage) -> None:
        """The metadata says who has replicas, who is in sync, and how long each broker takes."""
        node, image = self._node, self._node.image
        others = [each for each in registered.replicas if each != node.node_id]
        if not others and partition.config.min_insync_replicas <= 1 and not partition.is_short:
            return
        moved = partition.replicate(
            replicas=registered.replicas,
            in_sync=registered.isr,
            lags={each: self._lag_ms(each) for each in others},
            alive=[each for each in others if image.is_alive(each)],
            new=registered.adding_replicas,
            epoch=registered.partition_epoch,
            now=node.now,
        )
        self._look_again(partition)
        if moved:
            self._moved(partition)
        else:
            node.purgatory.wake((COMMITTED, partition.topic, partition.index))

    def adopt_all(self) -> None:
        """Some broker takes another time from now on, or is there again."""
        for partition in list(self._node.partitions.values()):
            registered = self._node.image.partition(partition.topic, partition.index)
            if registered is not None and registered.leader_epoch == partition.leader_epoch:
                self.adopt(partition, registered)

    def _lag_ms(self, broker: int) -> int:
        node = self._node
        return NEVER if broker in node.cluster.unheard else replica_lag_ms(node.image, node.static_config, broker)

    def appended(self, partition: Partition) -> None:
        """Something was appended, and not every replica has it at once."""
        self._plan(partition)
        self._node.purgatory.wake((COMMITTED, partition.topic, partition.index))

    def resign(self, partition: Partition) -> None:
        """Leadership is gone: whoever waits for the high watermark learns it."""
        if self._unsure.get(partition.key) is partition:
            del self._unsure[partition.key]
        if partition.key not in self._node.partitions:
            self._node.timers.set(_timer(partition), None, _nothing)
        self._node.purgatory.wake((COMMITTED, partition.topic, partition.index))

    async def committed(self, partition: Partition, offset: int, *, deadline: int) -> ErrorCode:
        """Wait until the high watermark is at this offset: NONE; or what has come before it."""
        node = self._node
        key = (COMMITTED, partition.topic, partition.index)
        while True:
            if not self._leads(partition):
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            if partition.high_watermark >= offset:
                return ErrorCode.NONE
            if node.now >= deadline:
                return ErrorCode.REQUEST_TIMED_OUT
            await node.purgatory.park([key], deadline=deadline)

    async def begun(self, partition: Partition, *, since: int, deadline: int) -> ErrorCode:
        """Wait until every replica that is alive begins where the leader does since then: NONE; or what came before.

        Kafka's `DelayedDeleteRecords`: a follower learns where the log begins with what it fetches.
        """
        node = self._node
        key = (COMMITTED, partition.topic, partition.index)
        while True:
            if not self._leads(partition):
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            at = partition.followers.begin_there_at(since)
            if at is not None and at <= node.now:
                return ErrorCode.NONE
            if node.now >= deadline:
                return ErrorCode.REQUEST_TIMED_OUT
            await node.purgatory.park([key], deadline=deadline if at is None else min(at, deadline))

    def _leads(self, partition: Partition) -> bool:
        held = self._node.partitions.get(partition.key)
        return held is partition and partition.is_leader

    # ------------------------------------------------------------------ acknowledgements

    def _plan(self, partition: Partition) -> None:
        """Look at the partition again when the next replica acknowledges something, or falls out of sync."""
        followers = partition.followers
        falls_out_at = followers.falls_out_at(self._node.config.replica_lag_time_max_ms)
        # Whoever has fallen out already is proposed, and proposed again if need be.
        if falls_out_at is not None and falls_out_at <= self._node.now:
            falls_out_at = None
        times = [at for at in (followers.next_at(), falls_out_at) if at is not None]
        self._node.timers.set(_timer(partition), min(times, default=None), partial(self._look, partition))

    def _look(self, partition: Partition) -> None:
        if not self._leads(partition):
            return
        if partition.acknowledged(self._node.now):
            self._moved(partition)
        self._look_again(partition)

    def _moved(self, partition: Partition) -> None:
        node = self._node
        node.purgatory.wake((COMMITTED, partition.topic, partition.index))
        node.replicas.appended(partition)

    def _look_again(self, partition: Partition) -> None:
        self._plan(partition)
        if self._wanted(partition) is not None:
            self._unsure[partition.key] = partition
            self._node.pumps.soon(self)

    # ------------------------------------------------------------------ who is in sync

    def _wanted(self, partition: Partition) -> list[int] | None:
        followers = partition.followers
        wanted = followers.wanted(
            self._node.now,
            lag_max_ms=self._node.config.replica_lag_time_max_ms,
            first_offset=partition.first_offset,
        )
        return None if set(wanted) == set(followers.in_sync) else wanted

    def pump(self) -> None:
        """Propose what has come together, unless a proposal is on its way."""
        if self._unsure and not self._proposing:
            self._proposing = True
            self._node.kernel.spawn(self._propose())

    async def _propose(self) -> None:
        node = self._node
        try:
            unsure, self._unsure = self._unsure, {}
            proposed = [
                (partition, wanted)
                for partition in unsure.values()
                if self._leads(partition) and (wanted := self._wanted(partition)) is not None
            ]
            if proposed:
                await self._alter(proposed)
        finally:
            self._proposing = False
        node.pumps.soon(self)

    async def _alter(self, proposed: list[tuple[Partition, list[int]]]) -> None:
        # Most clusters never come here, and message classes take their time.
        from odradek.host.alter_partition import alter_partition_request, isr_results
        from odradek.wire.messages.alter_partition_response import AlterPartitionResponse

        node = self._node
        for partition, isr in proposed:
            followers = partition.followers
            followers.joining = frozenset(isr) & node.image.brokers.keys() - frozenset(followers.in_sync)
        request = alter_partition_request(node.image, node.node_id, proposed)
        response = await node.peers.call_controller(
            ApiKey.ALTER_PARTITION, request, node.router.newest(ApiKey.ALTER_PARTITION), AlterPartitionResponse
        )
        results = {} if response is None else isr_results(response)
        for partition, _ in proposed:
            error = results.get((partition.topic_id, partition.index))
            # What was taken comes with the metadata, and so does what is newer than what was proposed of.
            if error is ErrorCode.NONE or not self._leads(partition):
                continue
            if error is ErrorCode.INELIGIBLE_REPLICA:
                partition.followers.joining = frozenset()
            self._retry(partition)

    def _retry(self, partition: Partition) -> None:
        at = self._node.now + RETRY_MS
        key = ("isr", partition.topic, partition.index)
        self._node.timers.set(key, at, partial(self._look, partition))


def _timer(partition: Partition) -> tuple[str, str, int]:
    return ("acknowledgements", partition.topic, partition.index)


def _nothing() -> None:
    pass
