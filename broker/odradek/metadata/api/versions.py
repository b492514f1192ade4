"""ApiVersions, the first request of every client: it has a module of its own, so that its answer waits for no other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from odradek.host.endpoint import EVERYBODY, endpoint
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from odradek.wire.messages.apis import API_VERSIONS

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.host.exchange import Serving
    from odradek.wire.messages.api_versions_request import ApiVersionsRequest

__all__ = ["VersionsApi"]

FEATURES_SINCE = 3
FEATURES_FROM_ZERO_SINCE = 4
"""Version 3 cannot have a lowest level of 0, so it leaves such features out (KAFKA-17011)."""
ADDRESSEE_SINCE = 5
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


class VersionsApi:
    """ApiVersions."""

    def __init__(self, node: Serving) -> None:
        self._node_id = node.node_id
        self._cluster = node.cluster
        self._connections = node.connections
        self._router = node.router
        self._metadata = node.metadata
        self._settings = node.settings

    @endpoint(API_VERSIONS, needs=EVERYBODY)
    async def api_versions(self, call: Call[ApiVersionsRequest]) -> ApiVersionsResponse:
        """ApiVersions (key 18), versions 0 to 5: 3 adds features (KIP-511, 584), 5 names the cluster and node."""
        request = call.request
        error = self._unacceptable(request, call.version)
        if error is not ErrorCode.NONE:
            return ApiVersionsResponse(error_code=error)
        if call.version >= FEATURES_SINCE and (connection := self._connections.get(call.conn)) is not None:
            connection.software = (request.client_software_name, request.client_software_version)
        response = ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in self._router.ranges()
            ]
        )
        if call.version >= FEATURES_SINCE:
            self._tell_features(response, call.version)
        return response

    def _unacceptable(self, request: ApiVersionsRequest, version: int) -> ErrorCode:
        if version >= FEATURES_SINCE and not (
            _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
        ):
            return ErrorCode.INVALID_REQUEST
        if version >= ADDRESSEE_SINCE and (request.cluster_id is not None or request.node_id != -1):
            if request.cluster_id is None or request.node_id == -1:
                return ErrorCode.INVALID_REQUEST
            if (request.cluster_id, request.node_id) != (self._cluster.cluster_id, self._node_id):
                return ErrorCode.REBOOTSTRAP_REQUIRED
        return ErrorCode.NONE

    def _tell_features(self, response: ApiVersionsResponse, version: int) -> None:
        image = self._metadata.image
        if not self._settings.release.tells_features:
            response.finalized_features_epoch = 0  # the epoch of a cluster without a finalized feature
            return
        response.supported_features = [
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in self._settings.release.features.items()
            if low > 0 or version >= FEATURES_FROM_ZERO_SINCE
        ]
        response.finalized_features_epoch = image.offset
        response.finalized_features = [
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in image.features.items()
        ]
