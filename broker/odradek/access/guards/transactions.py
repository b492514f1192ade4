"""Requests of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek.access.acls import AclOperation, AclResource
from odradek.access.guards.parts import NO_OPERATIONS
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.access.guards.parts import Node, Serve
    from odradek.host.call import Call
    from odradek.wire.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest

__all__ = [
    "alter_credentials",
    "describe_cluster",
]


async def alter_credentials(authority: Authority, node: Node, call: Call, serve: Serve) -> Any:
    """ALTER of the cluster; each user is told."""
    if authority.allows(call, AclOperation.ALTER):
        return await serve(node, call)
    request: AlterUserScramCredentialsRequest = call.request
    users = [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user,
                error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                error_message=f"Request {call.api_key.name} needs ALTER permission.",
            )
            for user in dict.fromkeys(users)
        ]
    )


async def describe_cluster(authority: Authority, node: Node, call: Call, serve: Serve) -> Any:
    """Everybody may know the brokers; what may be done to the cluster only who may describe it."""
    response = await serve(node, call)
    if response.cluster_authorized_operations != NO_OPERATIONS:
        allowed = authority.allows(call, AclOperation.DESCRIBE)
        response.cluster_authorized_operations = authority.operations(call, AclResource.CLUSTER) if allowed else 0
    return response
