"""Who may describe and alter the limits of clients; the refusals are shaped as no schema says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek.access.acls import AclOperation
from odradek.access.guards.parts import TEXTS
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.access.guards.parts import Node, Serve
    from odradek.host.call import Call

__all__ = ["alter_client_quotas", "describe_client_quotas"]

DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def describe_client_quotas(authority: Authority, node: Node, call: Call, serve: Serve) -> Any:
    """DescribeClientQuotas asks for DESCRIBE_CONFIGS of the cluster."""
    if authority.allows(call, AclOperation.DESCRIBE_CONFIGS):
        return await serve(node, call)
    from odradek.wire.messages.describe_client_quotas_response import DescribeClientQuotasResponse

    return DescribeClientQuotasResponse(error_code=DENIED, error_message=None, entries=None)


async def alter_client_quotas(authority: Authority, node: Node, call: Call, serve: Serve) -> Any:
    """AlterClientQuotas asks for ALTER_CONFIGS of the cluster, and refuses each entity by its name."""
    if authority.allows(call, AclOperation.ALTER_CONFIGS):
        return await serve(node, call)
    from odradek.limits.api import refused

    return refused(call.request, DENIED, TEXTS[DENIED])
