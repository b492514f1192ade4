"""UpdateFeatures, and the blocks of producer ids that brokers fetch: decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from odradek.host.forwarding import AsksController, ask_controller
from odradek.wire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from odradek.wire.messages.update_features_response import UpdateFeaturesResponse

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.wire.errors import ErrorCode
    from odradek.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
    from odradek.wire.messages.update_features_request import UpdateFeaturesRequest

__all__ = ["allocate_producer_ids", "update_features"]


class Node(AsksController, Protocol):
    """What these routes touch of their broker."""


async def update_features(node: Node, call: Call) -> UpdateFeaturesResponse:
    """UpdateFeatures (key 57), versions 0 to 2: 1 adds upgrade types and validate_only, 2 has no results by feature."""
    request: UpdateFeaturesRequest = call.request

    def refuse(error: ErrorCode, message: str | None) -> UpdateFeaturesResponse:
        return UpdateFeaturesResponse(error_code=error, error_message=message)

    return await ask_controller(
        node, call, lambda controller: controller.update_features(request), refuse, UpdateFeaturesResponse
    )


async def allocate_producer_ids(node: Node, call: Call) -> AllocateProducerIdsResponse:
    """AllocateProducerIds (key 67), version 0 (KIP-730); only brokers ask."""
    request: AllocateProducerIdsRequest = call.request

    def refuse(error: ErrorCode, message: str | None) -> AllocateProducerIdsResponse:
        return AllocateProducerIdsResponse(error_code=error)

    return await ask_controller(
        node, call, lambda controller: controller.allocate_producer_ids(request), refuse, AllocateProducerIdsResponse
    )
