"""Replicas and leaders of partitions: elections, reassignments, AlterPartition of leaders; the controller decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from odradek.node.routes.forwarding import AsksController, ask_controller
from odradek.wire.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from odradek.wire.messages.alter_partition_response import AlterPartitionResponse
from odradek.wire.messages.elect_leaders_response import ElectLeadersResponse
from odradek.wire.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse

if TYPE_CHECKING:
    from odradek.node.transport.call import Call
    from odradek.wire.errors import ErrorCode
    from odradek.wire.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
    from odradek.wire.messages.alter_partition_request import AlterPartitionRequest
    from odradek.wire.messages.elect_leaders_request import ElectLeadersRequest
    from odradek.wire.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest

__all__ = ["alter_partition", "alter_partition_reassignments", "elect_leaders", "list_partition_reassignments"]


class Node(AsksController, Protocol):
    """What these routes touch of their broker."""


async def elect_leaders(node: Node, call: Call) -> ElectLeadersResponse:
    """ElectLeaders (key 43), versions 0 to 2: 1 knows unclean elections (KIP-460), 2 is flexible."""
    request: ElectLeadersRequest = call.request

    def refuse(error: ErrorCode, message: str | None) -> ElectLeadersResponse:
        return ElectLeadersResponse(error_code=error)

    return await ask_controller(
        node, call, lambda controller: controller.elect_leaders(request, call.version), refuse, ElectLeadersResponse
    )


async def alter_partition_reassignments(node: Node, call: Call) -> AlterPartitionReassignmentsResponse:
    """AlterPartitionReassignments (key 45), versions 0 and 1 (KIP-455): 1 may keep the replication factor."""
    request: AlterPartitionReassignmentsRequest = call.request

    def refuse(error: ErrorCode, message: str | None) -> AlterPartitionReassignmentsResponse:
        return AlterPartitionReassignmentsResponse(error_code=error, error_message=message)

    return await ask_controller(
        node,
        call,
        lambda controller: controller.alter_reassignments(request),
        refuse,
        AlterPartitionReassignmentsResponse,
    )


async def list_partition_reassignments(node: Node, call: Call) -> ListPartitionReassignmentsResponse:
    """ListPartitionReassignments (key 46), version 0 (KIP-455): those that are under way."""
    request: ListPartitionReassignmentsRequest = call.request

    def refuse(error: ErrorCode, message: str | None) -> ListPartitionReassignmentsResponse:
        return ListPartitionReassignmentsResponse(error_code=error, error_message=message)

    return await ask_controller(
        node,
        call,
        lambda controller: controller.list_reassignments(request),
        refuse,
        ListPartitionReassignmentsResponse,
    )


async def alter_partition(node: Node, call: Call) -> AlterPartitionResponse:
    """AlterPartition (key 56), version 3: a leader tells which replicas are in sync (KIP-497, KIP-903)."""
    request: AlterPartitionRequest = call.request

    def refuse(error: ErrorCode, message: str | None) -> AlterPartitionResponse:
        return AlterPartitionResponse(error_code=error)

    return await ask_controller(
        node, call, lambda controller: controller.alter_partitions(request), refuse, AlterPartitionResponse
    )
