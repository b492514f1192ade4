"""Blocks of producer ids (KIP-730; Kafka's `ProducerIdControlManager`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.metadata.brokers import stale
from odradek.metadata.change import Change
from odradek.metadata.image import MetadataImage
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from odradek.wire.messages.producer_ids_record import ProducerIdsRecord

if TYPE_CHECKING:
    from odradek.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest

__all__ = ["BLOCK", "next_block"]

BLOCK = 1000
"""Ids in a block."""


def next_block(request: AllocateProducerIdsRequest, image: MetadataImage) -> Change[AllocateProducerIdsResponse]:
    """The next block of ids; ids of a block that a broker does not use are lost."""
    error = stale(image, broker_id=request.broker_id, epoch=request.broker_epoch)
    if error is not ErrorCode.NONE:
        return Change(AllocateProducerIdsResponse(error_code=error))
    start = image.next_producer_id
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=start + BLOCK
    )
    return Change(AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=BLOCK), [record])
