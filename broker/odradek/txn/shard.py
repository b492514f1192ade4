"""The transaction coordinator on a node: its shard, and how its works are done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from odradek.host.peers import HasPeers
from odradek.host.router import HasRouter
from odradek.host.seams import HasMetadata, HasRules, HasTurns
from odradek.host.shard import Shard, ShardNode
from odradek.txn.coordinator import TxnCoordinator
from odradek.txn.ledger import AbortTimedOut, ExpireId, TxnWork
from odradek.txn.markers import NO_LEADER, WriteMarkers, marker_results, markers_request
from odradek.txn.producer_id_supply import HasProducerIds
from odradek.wire.messages.write_txn_markers_response import WriteTxnMarkersResponse
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.log.partition import Partition
    from odradek.txn.partitions import TopicPartition
    from odradek.wire.errors import ErrorCode

__all__ = ["TransactionShard"]


class Node(ShardNode, HasMetadata, HasPeers, HasProducerIds, HasRouter, HasRules, HasTurns, Protocol):
    """What a transaction coordinator touches of its broker."""


class TransactionShard(Shard[TxnWork]):
    """A coordinator over a partition of `__transaction_state`, not loaded yet."""

    node: Node

    def __init__(self, node: Node, partition: Partition) -> None:
        self.machine = TxnCoordinator(
            config=node.config, coordinator_epoch=partition.leader_epoch, leader_of=self._leader_of
        )
        self.machine.tells = node.facts.told
        super().__init__(node, partition, self.machine)

    async def perform(self, work: TxnWork) -> None:
        """Write markers, abort what has timed out, forget what has expired."""
        node, machine = self.node, self.machine
        results: Mapping[TopicPartition, ErrorCode] = {}
        if isinstance(work, WriteMarkers) and work.leader is not None:
            results = await self._write_markers(work, work.leader)
            if self.resigned:
                return
        tv = node.image.transaction_version
        match work:
            case WriteMarkers():
                await self.carry_out(machine.complete(work, results, now=node.now, tv=tv))
            case AbortTimedOut():
                await self.carry_out(machine.abort_timed_out(work, now=node.now, tv=tv, ids=node.producer_ids))
            case ExpireId():
                await self.carry_out(machine.expire(work, now=node.now))

    async def _write_markers(self, work: WriteMarkers, leader: int) -> Mapping[TopicPartition, ErrorCode]:
        node = self.node
        if node.peers.is_here(leader):
            # The client hears of its outcome first; on its way to another broker a marker is later than that anyway.
            await node.turns.behind_answers()
        response = await node.peers.call(
            leader,
            ApiKey.WRITE_TXN_MARKERS,
            node.router.newest(ApiKey.WRITE_TXN_MARKERS),
            markers_request([work]),
            WriteTxnMarkersResponse,
            deadline=node.now + node.config.request_timeout_ms,
        )
        return {} if response is None else marker_results(response, work.producer_id)

    def _leader_of(self, topic: str, index: int) -> int | None:
        image = self.node.image
        registered = image.partition(topic, index)
        if registered is None:
            return None
        return registered.leader if image.is_alive(registered.leader) else NO_LEADER
