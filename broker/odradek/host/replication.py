"""The leader's work for the other replicas: it counts acknowledgements, and proposes the ISR.

A replica of another broker is an acknowledged offset (`log.followers`); the leader knows the delay of its broker
(`odradek.replica.lag.ms`). With the default, no delay, none of this runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from odradek.log.followers import NEVER
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.exchange import Serving
    from odradek.host.peers import Peers
    from odradek.log.partition import Partition
    from odradek.metadata.image import MetadataImage, PartitionImage

__all__ = ["Replication"]


COMMITTED = "committed"
"""First part of the purgatory key of requests that wait for the high watermark of a partition."""
RETRY_MS = 50
"""Delay (ms) until an ISR that the controller refused is proposed again."""


class Replication:
    """The replicas of the partitions that a broker leads."""

    def __init__(self, node: Serving, peers: Peers, appended: Callable[[Partition], None]) -> None:
        """`appended` announces that more of a partition may be read."""
        self._node = node
        self._peers = peers
        self._appended = appended
        self._unsure: dict[tuple[str, int], Partition] = {}
        """Partitions whose ISR may have to change."""
        self._proposing = False
        self._lags: dict[tuple[int, ...], dict[int, int]] = {}
        """Delays (ms) of several brokers, as of `_lags_as_of`."""
        self._lags_as_of: tuple[Mapping[tuple[int, str], Mapping[str, str]], frozenset[int]] | None = None

    def adopt(self, partition: Partition, registered: PartitionImage) -> None:
        """Adopt the replicas, the ISR and the brokers' delays of a partition."""
        node, image = self._node, self._node.metadata.image
        others = [each for each in registered.replicas if each != node.node_id]
        partition.log.place(registered.replicas)
        if not others and partition.config.min_insync_replicas <= 1 and not partition.is_short:
            return
        moved = partition.replicate(
            replicas=registered.replicas,
            in_sync=registered.isr,
            lags=self._lags_ms(others),
            alive=[each for each in others if image.is_alive(each)],
            new=registered.adding_replicas,
            epoch=registered.partition_epoch,
            now=node.clock.now,
        )
        self._look_again(partition)
        if moved:
            self._moved(partition)
        else:
            node.purgatory.wake((COMMITTED, partition.topic, partition.index))

    def at_once(self, image: MetadataImage) -> set[int]:
        """The brokers whose replicas have everything as soon as it is there."""
        alive = [each for each in image.brokers if image.is_alive(each)]
        lags = self._lags_ms(alive)
        return {each for each in alive if not lags[each]}

    def adopt_all(self) -> None:
        """A broker has another delay, or is back."""
        for partition in list(self._node.partitions.values()):
            registered = self._node.metadata.image.partition(partition.topic, partition.index)
            if registered is not None and registered.leader_epoch == partition.leader_epoch:
                self.adopt(partition, registered)

    def _lags_ms(self, brokers: Sequence[int]) -> Mapping[int, int]:
        """The delays of these brokers; asked once for all partitions with the same replicas."""
        node, ids = self._node, tuple(brokers)
        image, unheard = node.metadata.image, node.cluster.unheard
        known = self._lags_as_of
        if known is None or known[0] is not image.configs or known[1] != unheard:
            self._lags_as_of, self._lags = (image.configs, unheard), {}
        lags = self._lags.get(ids)
        if lags is None:
            default = node.settings.at_start.odradek_replica_lag_ms
            lags = self._lags[ids] = {
                each: NEVER if each in unheard else image.replica_lag_ms(each, default) for each in ids
            }
        return lags

    def appended(self, partition: Partition) -> None:
        """Records were appended that some replicas do not have yet."""
        self._plan(partition)
        self._node.purgatory.wake((COMMITTED, partition.topic, partition.index))

    def resign(self, partition: Partition) -> None:
        """Leadership is lost: requests that wait for the high watermark learn it."""
        if self._unsure.get(partition.key) is partition:
            del self._unsure[partition.key]
        if partition.key not in self._node.partitions:
            self._node.timers.set(_timer(partition), None, _nothing)
        self._node.purgatory.wake((COMMITTED, partition.topic, partition.index))

    async def committed(self, partition: Partition, offset: int, *, deadline: int) -> ErrorCode:
        """Wait until the high watermark reaches this offset: NONE; or the error that came before."""
        node = self._node
        key = (COMMITTED, partition.topic, partition.index)
        while True:
            if not self._leads(partition):
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            if partition.high_watermark >= offset:
                return ErrorCode.NONE
            if node.clock.now >= deadline:
                return ErrorCode.REQUEST_TIMED_OUT
            await node.purgatory.park([key], deadline=deadline)

    async def begun(self, partition: Partition, *, since: int, deadline: int) -> ErrorCode:
        """Wait until every live replica has the leader's log start since then: NONE; or the error that came before.

        Kafka's `DelayedDeleteRecords`: a follower learns the log start by its fetches.
        """
        node = self._node
        key = (COMMITTED, partition.topic, partition.index)
        while True:
            if not self._leads(partition):
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            at = partition.followers.begin_there_at(since)
            if at is not None and at <= node.clock.now:
                return ErrorCode.NONE
            if node.clock.now >= deadline:
                return ErrorCode.REQUEST_TIMED_OUT
            await node.purgatory.park([key], deadline=deadline if at is None else min(at, deadline))

    def _leads(self, partition: Partition) -> bool:
        held = self._node.partitions.get(partition.key)
        return held is partition and partition.is_leader

    def _plan(self, partition: Partition) -> None:
        """Plan the next check: at the next acknowledgement, or when a replica falls out of sync."""
        followers = partition.followers
        falls_out_at = followers.falls_out_at(self._node.settings.config.replica_lag_time_max_ms)
        # Whoever has fallen out already is proposed, and proposed again if need be.
        if falls_out_at is not None and falls_out_at <= self._node.clock.now:
            falls_out_at = None
        times = [at for at in (followers.next_at(), falls_out_at) if at is not None]
        self._node.timers.set(_timer(partition), min(times, default=None), partial(self._look, partition))

    def _look(self, partition: Partition) -> None:
        if not self._leads(partition):
            return
        if partition.acknowledged(self._node.clock.now):
            self._moved(partition)
        self._look_again(partition)

    def _moved(self, partition: Partition) -> None:
        node = self._node
        node.purgatory.wake((COMMITTED, partition.topic, partition.index))
        self._appended(partition)

    def _look_again(self, partition: Partition) -> None:
        if partition.followers.are_level:
            self._node.timers.set(_timer(partition), None, _nothing)
            return
        self._plan(partition)
        if self._wanted(partition) is not None:
            self._unsure[partition.key] = partition
            self._node.pumps.soon(self)

    def _wanted(self, partition: Partition) -> list[int] | None:
        followers = partition.followers
        wanted = followers.wanted(
            self._node.clock.now,
            lag_max_ms=self._node.settings.config.replica_lag_time_max_ms,
            first_offset=partition.first_offset,
        )
        return None if set(wanted) == set(followers.in_sync) else wanted

    def pump(self) -> None:
        """Propose the collected changes, unless a proposal is on its way."""
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
            followers.joining = frozenset(isr) & node.metadata.image.brokers.keys() - frozenset(followers.in_sync)
        request = alter_partition_request(node.metadata.image, node.node_id, proposed)
        response = await self._peers.call_controller(
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
        at = self._node.clock.now + RETRY_MS
        key = ("isr", partition.topic, partition.index)
        self._node.timers.set(key, at, partial(self._look, partition))


def _timer(partition: Partition) -> tuple[str, str, int]:
    return ("acknowledgements", partition.topic, partition.index)


def _nothing() -> None:
    pass
