"""UpdateFeatures, and blocks of producer ids for brokers; the controller decides both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.access.acls import AclOperation
from odradek.access.needs import allowed_on_cluster
from odradek.host.endpoint import endpoint
from odradek.wire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from odradek.wire.messages.apis import ALLOCATE_PRODUCER_IDS, UPDATE_FEATURES
from odradek.wire.messages.update_features_response import UpdateFeaturesResponse

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.host.forwarding import Forwarding
    from odradek.wire.errors import ErrorCode
    from odradek.wire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
    from odradek.wire.messages.update_features_request import UpdateFeaturesRequest

__all__ = [
    "FeatureApi",
]


class FeatureApi:
    """UpdateFeatures, AllocateProducerIds."""

    def __init__(self, forwarding: Forwarding) -> None:
        self._forwarding = forwarding

    @endpoint(UPDATE_FEATURES, needs=allowed_on_cluster(AclOperation.ALTER, names_itself=True))
    async def update_features(self, call: Call[UpdateFeaturesRequest]) -> UpdateFeaturesResponse:
        """UpdateFeatures (key 57), versions 0 to 2: 1 adds upgrade types and validate_only, 2 drops results."""
        request = call.request

        def refuse(error: ErrorCode, message: str | None) -> UpdateFeaturesResponse:
            return UpdateFeaturesResponse(error_code=error, error_message=message)

        return await self._forwarding.ask(
            call, lambda controller: controller.update_features(request), refuse, UpdateFeaturesResponse
        )

    @endpoint(ALLOCATE_PRODUCER_IDS, needs=allowed_on_cluster(AclOperation.CLUSTER_ACTION))
    async def allocate_producer_ids(self, call: Call[AllocateProducerIdsRequest]) -> AllocateProducerIdsResponse:
        """AllocateProducerIds (key 67), version 0 (KIP-730); for brokers only."""
        request = call.request

        def refuse(error: ErrorCode, message: str | None) -> AllocateProducerIdsResponse:
            return AllocateProducerIdsResponse(error_code=error)

        return await self._forwarding.ask(
            call, lambda controller: controller.allocate_producer_ids(request), refuse, AllocateProducerIdsResponse
        )
