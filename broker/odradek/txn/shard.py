"""The transaction coordinator on a node: its shard, and how its works are done."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING

from odradek.host.shard import Shard, ShardParts
from odradek.txn.coordinator import TxnCoordinator
from odradek.txn.ledger import AbortTimedOut, ExpireId, TxnWork
from odradek.txn.markers import NO_LEADER, WriteMarkers, marker_results, markers_request
from odradek.wire.messages.write_txn_markers_response import WriteTxnMarkersResponse
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.metadata import Metadata
    from odradek.host.peers import Peers
    from odradek.log.partition import Partition
    from odradek.txn.partitions import TopicPartition
    from odradek.txn.producer_id_supply import ProducerIdSupply
    from odradek.wire.errors import ErrorCode

__all__ = ["TransactionShard"]


class TransactionShard(Shard[TxnWork]):
    """A coordinator over a partition of `__transaction_state`, not loaded yet."""

    def __init__(
        self,
        parts: ShardParts,
        partition: Partition,
        *,
        metadata: Metadata,
        peers: Peers,
        producer_ids: ProducerIdSupply,
        write_here: Callable[[WriteMarkers], Coroutine[object, None, Mapping[TopicPartition, ErrorCode]]],
        markers_version: int,
    ) -> None:
        """`write_here` writes markers to partitions of this broker.

        `markers_version`: of WriteTxnMarkers, as brokers of this release speak it.
        """
        self.metadata = metadata
        self._peers = peers
        self._producer_ids = producer_ids
        self._write_here = write_here
        self._markers_version = markers_version
        self.machine = TxnCoordinator(
            config=parts.settings.config, coordinator_epoch=partition.leader_epoch, leader_of=self._leader_of
        )
        self.machine.tells = parts.facts.told
        super().__init__(parts, partition, self.machine)

    async def perform(self, work: TxnWork) -> None:
        """Write markers, abort what has timed out, forget what has expired."""
        machine, clock = self.machine, self._clock
        results: Mapping[TopicPartition, ErrorCode] = {}
        if isinstance(work, WriteMarkers) and work.leader is not None:
            results = await self._write_markers(work, work.leader)
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

    async def _write_markers(self, work: WriteMarkers, leader: int) -> Mapping[TopicPartition, ErrorCode]:
        # The client hears of its outcome first; on its way to another broker a marker is later than that anyway.
        if self._peers.asks_itself(leader, ApiKey.WRITE_TXN_MARKERS):
            await self._turns.behind_answers()
            return await self._write_here(work)
        if self._peers.is_here(leader):
            await self._turns.behind_answers()
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
