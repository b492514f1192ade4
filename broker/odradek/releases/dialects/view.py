"""Questions of a dialect's steps to the cluster: open transactions, and the producers known to leaders."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from odradek.core.machine import Refused
from odradek.txn.states import TxnState
from odradek.wire.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from odradek.wire.messages.describe_producers_response import DescribeProducersResponse, ProducerState
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.broker import Node
    from odradek.txn.partitions import TopicPartition

__all__ = ["open_transaction", "producer_state"]


def open_transaction(node: Node, transactional_id: str) -> Collection[TopicPartition]:
    """The partitions of an open transaction that this broker coordinates; empty if there is none."""
    shard = node.transaction_coordinators.of(transactional_id) if transactional_id else None
    if shard is None or isinstance(shard, Refused):
        return ()
    entry = shard.machine.entry(transactional_id)
    return entry.partitions if entry is not None and entry.state is TxnState.ONGOING else ()


async def producer_state(node: Node, topic: str, index: int, producer_id: int) -> ProducerState | None:
    """The state of a producer at the leader of a partition; None if it has none, or the leader cannot be asked."""
    registered = node.image.partition(topic, index)
    if registered is None:
        return None
    response = await node.peers.call(
        registered.leader,
        ApiKey.DESCRIBE_PRODUCERS,
        node.router.newest(ApiKey.DESCRIBE_PRODUCERS),
        DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[index])]),
        DescribeProducersResponse,
        deadline=node.clock.now + node.config.request_timeout_ms,
    )
    found = [] if response is None else response.topics[0].partitions[0].active_producers
    return next((each for each in found if each.producer_id == producer_id), None)
