"""The producer ids a broker may give out, and the calls to the controller that bring the next block of them."""

from __future__ import annotations

from typing import Protocol

from odradek.host.peers import HasPeers
from odradek.host.seams import HasClock, HasConfig, HasIdentity, HasKernel, HasMetadata, HasTimers
from odradek.txn.producer_ids import ProducerIds
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from odradek.wire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from odradek.wire.registry import ApiKey

__all__ = ["HasProducerIds", "ProducerIdSupply"]


class HasProducerIds(Protocol):
    """The producer ids that this broker may give out."""

    @property
    def producer_ids(self) -> ProducerIdSupply: ...


class Node(HasClock, HasConfig, HasIdentity, HasKernel, HasMetadata, HasPeers, HasTimers, Protocol):
    """What the supply of producer ids touches of its broker."""


class ProducerIdSupply(ProducerIds):
    """Blocks of ids that are fetched before they are needed; the first one too, unless the cluster starts bare."""

    def __init__(self, node: Node) -> None:
        super().__init__(at_start=node.config.odradek_internal_topics_at_start)
        self._node = node
        self._asking = False

    def take(self) -> int | None:
        """A fresh id, or None until a block comes."""
        producer_id = super().take()
        self.pump()
        return producer_id

    def pump(self) -> None:
        """Ask for the block that is wanted, unless that is under way."""
        for _ in self.due(self._node.now):
            if not self._asking:
                self._asking = True
                self._node.kernel.spawn(self._ask())
        self._node.timers.set("producer_ids", self.wake_at(), self.pump)

    async def _ask(self) -> None:
        node = self._node
        registered = node.image.brokers.get(node.node_id)
        request = AllocateProducerIdsRequest(
            broker_id=node.node_id, broker_epoch=-1 if registered is None else registered.epoch
        )
        response = await node.peers.call_controller(
            ApiKey.ALLOCATE_PRODUCER_IDS, request, 0, AllocateProducerIdsResponse
        )
        self._asking = False
        if response is None or response.error_code != ErrorCode.NONE:
            self.failed(node.now)
        else:
            self.granted(response.producer_id_start, response.producer_id_len)
        self.pump()
