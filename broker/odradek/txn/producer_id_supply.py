"""The producer ids of a broker, and its requests to the controller for the next block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.txn.producer_ids import ProducerIds
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from odradek.wire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.host import Host
    from odradek.host.peers import Peers

__all__ = ["ProducerIdSupply"]


class ProducerIdSupply(ProducerIds):
    """Blocks of ids that are fetched before they are needed; also the first one, unless the cluster starts bare."""

    def __init__(self, node: Host, peers: Peers) -> None:
        super().__init__(at_start=node.settings.config.odradek_internal_topics_at_start)
        self._node_id = node.node_id
        self._peers = peers
        self._metadata = node.metadata
        self._clock = node.clock
        self._kernel = node.kernel
        self._timers = node.timers
        self._asking = False

    def take(self) -> int | None:
        """A fresh id, or None until a block comes."""
        producer_id = super().take()
        self.pump()
        return producer_id

    def pump(self) -> None:
        """Request a block if one is due and none is on its way."""
        for _ in self.due(self._clock.now):
            if not self._asking:
                self._asking = True
                self._kernel.spawn(self._ask())
        self._timers.set("producer_ids", self.wake_at(), self.pump)

    async def _ask(self) -> None:
        registered = self._metadata.image.brokers.get(self._node_id)
        request = AllocateProducerIdsRequest(
            broker_id=self._node_id, broker_epoch=-1 if registered is None else registered.epoch
        )
        response = await self._peers.call_controller(
            ApiKey.ALLOCATE_PRODUCER_IDS, request, 0, AllocateProducerIdsResponse
        )
        self._asking = False
        if response is None or response.error_code != ErrorCode.NONE:
            self.failed(self._clock.now)
        else:
            self.granted(response.producer_id_start, response.producer_id_len)
        self.pump()
