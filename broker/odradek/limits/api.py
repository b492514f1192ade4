"""DescribeClientQuotas and AlterClientQuotas (KIP-546): described by any broker, decided by the controller."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from odradek.access.acls import AclOperation
from odradek.access.needs import TEXTS, asks
from odradek.host.endpoint import endpoint
from odradek.host.in_parts import entries_in_parts
from odradek.metadata.client_quotas import describe_quotas, entity_of
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_client_quotas_response import AlterClientQuotasResponse, EntityData, EntryData
from odradek.wire.messages.apis import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from odradek.wire.messages.describe_client_quotas_response import DescribeClientQuotasResponse

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.host.call import Call, Serve
    from odradek.host.forwarding import Forwarding
    from odradek.host.host import Host
    from odradek.wire.messages.alter_client_quotas_request import AlterClientQuotasRequest
    from odradek.wire.messages.alter_client_quotas_request import EntryData as EntryToAlter
    from odradek.wire.messages.describe_client_quotas_request import DescribeClientQuotasRequest

__all__ = ["LimitApi"]


DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@asks("DESCRIBE_CONFIGS on the cluster")
async def _may_describe(
    authority: Authority,
    call: Call[DescribeClientQuotasRequest],
    serve: Serve[DescribeClientQuotasRequest, DescribeClientQuotasResponse],
) -> DescribeClientQuotasResponse:
    """Refused with no list at all."""
    if authority.allows(call, AclOperation.DESCRIBE_CONFIGS):
        return await serve(call)
    return DescribeClientQuotasResponse(error_code=DENIED, error_message=None, entries=None)


@asks("ALTER_CONFIGS on the cluster")
async def _may_alter(
    authority: Authority,
    call: Call[AlterClientQuotasRequest],
    serve: Serve[AlterClientQuotasRequest, AlterClientQuotasResponse],
) -> AlterClientQuotasResponse:
    """Refused entity by entity."""
    if authority.allows(call, AclOperation.ALTER_CONFIGS):
        return await serve(call)
    return _refused(call.request, DENIED, TEXTS[DENIED])


class LimitApi:
    """DescribeClientQuotas, AlterClientQuotas."""

    def __init__(self, node: Host, forwarding: Forwarding) -> None:
        self._forwarding = forwarding
        self._metadata = node.metadata

    @endpoint(DESCRIBE_CLIENT_QUOTAS, needs=_may_describe)
    async def describe_client_quotas(self, call: Call[DescribeClientQuotasRequest]) -> DescribeClientQuotasResponse:
        """DescribeClientQuotas (key 48), versions 0 and 1; 1 is flexible."""
        request = call.request
        return describe_quotas(request, self._metadata.image)

    @endpoint(ALTER_CLIENT_QUOTAS, needs=_may_alter)
    async def alter_client_quotas(self, call: Call[AlterClientQuotasRequest]) -> AlterClientQuotasResponse:
        """AlterClientQuotas (key 49), versions 0 and 1; 1 is flexible."""
        request = call.request

        def entity(entry: EntryToAlter) -> Hashable:
            return entity_of((part.entity_type, part.entity_name) for part in entry.entity)

        return await self._forwarding.ask_in_parts(
            call,
            (replace(request, entries=part) for part in entries_in_parts(request.entries, key=entity)),
            lambda controller, part: controller.alter_quotas(part),
            _refused,
            AlterClientQuotasResponse,
            lambda joined, more: joined.entries.extend(more.entries),
        )


def _refused(request: AlterClientQuotasRequest, error: ErrorCode, message: str | None) -> AlterClientQuotasResponse:
    """The answer to a request no part of which is served."""
    return AlterClientQuotasResponse(
        entries=[
            EntryData(
                error_code=error,
                error_message=message,
                entity=[EntityData(entity_type=e.entity_type, entity_name=e.entity_name) for e in entry.entity],
            )
            for entry in request.entries
        ]
    )
