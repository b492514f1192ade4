"""AlterReplicaLogDirs, whose answer has other lists than its request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek.access.acls import AclOperation
from odradek.metadata.api.cluster import moves_answered
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.access.guards.parts import Node, Serve
    from odradek.host.call import Call

__all__ = ["alter_replica_log_dirs"]


async def alter_replica_log_dirs(authority: Authority, node: Node, call: Call, serve: Serve) -> Any:
    """ALTER of the cluster; what is refused is told of each partition."""
    if authority.allows(call, AclOperation.ALTER):
        return await serve(node, call)
    return moves_answered(call.request, lambda path, topic, index: ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
