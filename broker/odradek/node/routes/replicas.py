"""Replicas and leaders of partitions: AlterPartition of leaders, decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.node.routes.forwarding import ask_controller
from odradek.wire.messages.alter_partition_response import AlterPartitionResponse

if TYPE_CHECKING:
    from odradek.node.node import Node
    from odradek.node.transport.router import Call
    from odradek.wire.errors import ErrorCode
    from odradek.wire.messages.alter_partition_request import AlterPartitionRequest

__all__ = ["alter_partition"]


async def alter_partition(node: Node, call: Call) -> AlterPartitionResponse:
    """AlterPartition (key 56), version 3: a leader tells which replicas are in sync (KIP-497, KIP-903)."""
    request: AlterPartitionRequest = call.request

    def refuse(error: ErrorCode, message: str | None) -> AlterPartitionResponse:
        return AlterPartitionResponse(error_code=error)

    return await ask_controller(
        node, call, lambda controller: controller.alter_partitions(request), refuse, AlterPartitionResponse
    )
