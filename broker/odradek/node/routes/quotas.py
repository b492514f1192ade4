"""DescribeClientQuotas and AlterClientQuotas (KIP-546): described by any broker, decided by the controller."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from odradek.metadata.quotas import describe_quotas
from odradek.node.routes.forwarding import AsksController, ask_controller
from odradek.node.seams import HasMetadata
from odradek.wire.messages.alter_client_quotas_response import AlterClientQuotasResponse, EntityData, EntryData

if TYPE_CHECKING:
    from odradek.node.transport.call import Call
    from odradek.wire.errors import ErrorCode
    from odradek.wire.messages.alter_client_quotas_request import AlterClientQuotasRequest
    from odradek.wire.messages.describe_client_quotas_request import DescribeClientQuotasRequest
    from odradek.wire.messages.describe_client_quotas_response import DescribeClientQuotasResponse

__all__ = ["alter_client_quotas", "describe_client_quotas", "refused"]


class Node(AsksController, HasMetadata, Protocol):
    """What these routes touch of their broker."""


async def describe_client_quotas(node: Node, call: Call) -> DescribeClientQuotasResponse:
    """DescribeClientQuotas (key 48), versions 0 and 1; 1 is flexible."""
    request: DescribeClientQuotasRequest = call.request
    return describe_quotas(request, node.image)


async def alter_client_quotas(node: Node, call: Call) -> AlterClientQuotasResponse:
    """AlterClientQuotas (key 49), versions 0 and 1; 1 is flexible."""
    request: AlterClientQuotasRequest = call.request

    return await ask_controller(
        node,
        call,
        lambda controller: controller.alter_quotas(request),
        partial(refused, request),
        AlterClientQuotasResponse,
    )


def refused(request: AlterClientQuotasRequest, error: ErrorCode, message: str | None) -> AlterClientQuotasResponse:
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
