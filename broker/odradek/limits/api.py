"""DescribeClientQuotas and AlterClientQuotas (KIP-546): described by any broker, decided by the controller."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from odradek.host.forwarding import AsksInParts, ask_in_parts
from odradek.host.in_parts import entries_in_parts
from odradek.host.seams import HasMetadata
from odradek.metadata.quotas import describe_quotas, entity_of
from odradek.wire.messages.alter_client_quotas_response import AlterClientQuotasResponse, EntityData, EntryData

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.wire.errors import ErrorCode
    from odradek.wire.messages.alter_client_quotas_request import AlterClientQuotasRequest
    from odradek.wire.messages.alter_client_quotas_request import EntryData as EntryToAlter
    from odradek.wire.messages.describe_client_quotas_request import DescribeClientQuotasRequest
    from odradek.wire.messages.describe_client_quotas_response import DescribeClientQuotasResponse

__all__ = ["alter_client_quotas", "describe_client_quotas", "refused"]


class Node(AsksInParts, HasMetadata, Protocol):
    """What these routes touch of their broker."""


async def describe_client_quotas(node: Node, call: Call) -> DescribeClientQuotasResponse:
    """DescribeClientQuotas (key 48), versions 0 and 1; 1 is flexible."""
    request: DescribeClientQuotasRequest = call.request
    return describe_quotas(request, node.image)


async def alter_client_quotas(node: Node, call: Call) -> AlterClientQuotasResponse:
    """AlterClientQuotas (key 49), versions 0 and 1; 1 is flexible."""
    request: AlterClientQuotasRequest = call.request

    def entity(entry: EntryToAlter) -> Hashable:
        return entity_of((part.entity_type, part.entity_name) for part in entry.entity)

    return await ask_in_parts(
        node,
        call,
        (replace(request, entries=part) for part in entries_in_parts(request.entries, key=entity)),
        lambda controller, part: controller.alter_quotas(part),
        refused,
        AlterClientQuotasResponse,
        lambda joined, more: joined.entries.extend(more.entries),
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
