"""The answer to an ApiVersions in an unknown version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.router import Router

__all__ = ["unsupported_api_versions"]


def unsupported_api_versions(router: Router) -> ApiVersionsResponse:
    """The answer to an ApiVersions of an unknown version, always in the layout of version 0 (KIP-511)."""
    own = [
        ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, low, high in router.ranges()
        if key == ApiKey.API_VERSIONS
    ]
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)
