"""The transaction coordinator on a node: its shard, and how its works are done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.node.shards import Shard
from odradek.txn.coordinator import TxnCoordinator
from odradek.txn.ledger import AbortTimedOut, ExpireId, TxnWork
from odradek.txn.markers import NO_LEADER, WriteMarkers, marker_results, markers_request
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.log.partition import Partition
    from odradek.node.node import Node
    from odradek.txn.entry import TopicPartition
    from odradek.wire.errors import ErrorCode
    from odradek.wire.messages.write_txn_markers_response import WriteTxnMarkersResponse

__all__ = ["begin"]


def begin(node: Node, partition: Partition) -> Shard[TxnCoordinator]:
    """A shard over a partition of `__transaction_state`, not loaded yet."""
    machine = TxnCoordinator(
        config=node.config, coordinator_epoch=partition.leader_epoch, leader_of=lambda *key: _leader_of(node, *key)
    )
    return Shard(node, partition, machine, _perform)


def _leader_of(node: Node, topic: str, index: int) -> int | None:
    registered = node.image.partition(topic, index)
    if registered is None:
        return None
    return registered.leader if node.image.is_alive(registered.leader) else NO_LEADER


async def _perform(shard: Shard[TxnCoordinator], work: TxnWork) -> None:
    node, machine = shard.node, shard.machine
    results: Mapping[TopicPartition, ErrorCode] = {}
    if isinstance(work, WriteMarkers) and work.leader is not None:
        results = await _write_markers(node, work)
        if shard.resigned:
            return
    match work:
        case WriteMarkers():
            await shard.ask(machine.complete, work, results, now=node.now, tv=node.transaction_version)
        case AbortTimedOut():
            await shard.ask(
                machine.abort_timed_out, work, now=node.now, tv=node.transaction_version, ids=node.producer_ids
            )
        case ExpireId():
            await shard.ask(machine.expire, work, now=node.now)


async def _write_markers(node: Node, work: WriteMarkers) -> Mapping[TopicPartition, ErrorCode]:
    assert work.leader is not None
    response: WriteTxnMarkersResponse | None = await node.peers.call(
        work.leader,
        ApiKey.WRITE_TXN_MARKERS,
        node.router.newest(ApiKey.WRITE_TXN_MARKERS),
        markers_request([work]),
        deadline=node.now + node.config.request_timeout_ms,
    )
    return {} if response is None else marker_results(response, work.producer_id)
