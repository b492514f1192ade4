"""The transaction coordinator on a node: its shard, and its works."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING

from odradek.host.exchange import asks_itself
from odradek.host.shard import Shard
from odradek.txn.coordinator import TxnCoordinator
from odradek.txn.works import NO_LEADER, AbortTimedOut, ExpireId, TxnWork, WriteMarkers, marker_results, markers_request
from odradek.wire.messages.write_txn_markers_response import WriteTxnMarkersResponse
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.exchange import Serving
    from odradek.host.peers import Peers
    from odradek.host.replicas import Replicas
    from odradek.log.partition import Partition
    from odradek.txn.partitions import TopicPartition
    from odradek.txn.producer_id_supply import ProducerIdSupply
    from odradek.wire.errors import ErrorCode

__all__ = ["TransactionShard"]


class TransactionShard(Shard[TxnWork]):
    """A coordinator over a partition of `__transaction_state`, not loaded yet."""

    def __init__(
        self,
        node: Serving,
        replicas: Replicas,
        partition: Partition,
        *,
        peers: Peers,
        producer_ids: ProducerIdSupply,
        write_here: Callable[[WriteMarkers], Coroutine[object, None, Mapping[TopicPartition, ErrorCode]]],
        markers_version: int,
    ) -> None:
        """`write_here` writes markers to partitions of this broker; `markers_version`: of WriteTxnMarkers."""
        self.metadata = node.metadata
        self.settings = node.settings
        self._node = node
        self._peers = peers
        self._producer_ids = producer_ids
        self._write_here = write_here
        self._markers_version = markers_version
        self.machine = TxnCoordinator(
            config=node.settings.config, coordinator_epoch=partition.leader_epoch, leader_of=self._leader_of
        )
        self.machine.tells = node.facts.told
        super().__init__(node, replicas.replication, replicas.appended, partition, self.machine)

    async def perform(self, work: TxnWork) -> None:
        """Write markers, abort timed-out transactions, forget expired ids."""
        machine, clock = self.machine, self._clock
        results: Mapping[TopicPartition, ErrorCode] = {}
        if isinstance(work, WriteMarkers) and (leader := work.leader) is not None:
            # The client hears of its outcome first; on its way to another broker a marker is later than that anyway.
            is_here = asks_itself(self._node, leader, ApiKey.WRITE_TXN_MARKERS)
            if is_here or self._peers.is_here(leader):
                await self._turns.behind_answers()
            results = await (self._write_here(work) if is_here else self._ask_to_write(work, leader))
            if self.resigned:
                return
        tv = self.metadata.transaction_version
        match work:
            case WriteMarkers():
                await self.carry_out(machine.complete(work, results, now=clock.now, tv=tv))
            case AbortTimedOut():
                await self.carry_out(machine.abort_timed_out(work, now=clock.now, tv=tv, ids=self._producer_ids))
            case ExpireId():
                await self.carry_out(machine.expire(work, now=clock.now))

    async def _ask_to_write(self, work: WriteMarkers, leader: int) -> Mapping[TopicPartition, ErrorCode]:
        response = await self._peers.call(
            leader,
            ApiKey.WRITE_TXN_MARKERS,
            self._markers_version,
            markers_request([work]),
            WriteTxnMarkersResponse,
            deadline=self._clock.now + self._settings.config.request_timeout_ms,
        )
        return {} if response is None else marker_results(response, work.producer_id)

    def _leader_of(self, topic: str, index: int) -> int | None:
        image = self.metadata.image
        known = image.topics.get(topic)
        if known is None or index not in known.partitions:
            return None
        leader = known.partitions[index].leader
        broker = image.brokers.get(leader)
        return NO_LEADER if broker is None or broker.fenced else leader
