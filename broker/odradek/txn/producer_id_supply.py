"""The producer ids a broker may give out, and the calls to the controller that bring the next block of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.txn.producer_ids import ProducerIds
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from odradek.wire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.core.clock import Clock
    from odradek.core.flow import Kernel
    from odradek.core.timers import Timers
    from odradek.host.metadata import Metadata
    from odradek.host.peers import Peers
    from odradek.host.settings import Settings

__all__ = ["ProducerIdSupply"]


class ProducerIdSupply(ProducerIds):
    """Blocks of ids that are fetched before they are needed; the first one too, unless the cluster starts bare."""

    def __init__(
        self,
        node_id: int,
        peers: Peers,
        *,
        metadata: Metadata,
        settings: Settings,
        clock: Clock,
        kernel: Kernel,
        timers: Timers,
    ) -> None:
        super().__init__(at_start=settings.config.odradek_internal_topics_at_start)
        self._node_id = node_id
        self._peers = peers
        self._metadata = metadata
        self._clock = clock
        self._kernel = kernel
        self._timers = timers
        self._asking = False

    def take(self) -> int | None:
        """A fresh id, or None until a block comes."""
        producer_id = super().take()
        self.pump()
        return producer_id

    def pump(self) -> None:
        """Ask for the block that is wanted, unless that is under way."""
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
