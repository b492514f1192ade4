"""Replicas and leaders of partitions: elections, reassignments, AlterPartition of leaders; the controller decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from odradek.access.acls import AclOperation
from odradek.access.needs import allowed_on_cluster
from odradek.host.endpoint import endpoint
from odradek.host.in_parts import in_parts
from odradek.wire.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from odradek.wire.messages.alter_partition_response import AlterPartitionResponse
from odradek.wire.messages.apis import (
    ALTER_PARTITION,
    ALTER_PARTITION_REASSIGNMENTS,
    ELECT_LEADERS,
    LIST_PARTITION_REASSIGNMENTS,
)
from odradek.wire.messages.elect_leaders_response import ElectLeadersResponse
from odradek.wire.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.host.forwarding import Forwarding
    from odradek.wire.errors import ErrorCode
    from odradek.wire.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
    from odradek.wire.messages.alter_partition_request import AlterPartitionRequest
    from odradek.wire.messages.elect_leaders_request import ElectLeadersRequest
    from odradek.wire.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest

__all__ = [
    "ReplicaApi",
]


class ReplicaApi:
    """ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments, AlterPartition."""

    def __init__(self, forwarding: Forwarding) -> None:
        self._forwarding = forwarding

    @endpoint(ELECT_LEADERS, needs=allowed_on_cluster(AclOperation.ALTER, names_itself=True))
    async def elect_leaders(self, call: Call[ElectLeadersRequest]) -> ElectLeadersResponse:
        """ElectLeaders (key 43), versions 0 to 2: 1 adds unclean elections (KIP-460), 2 is flexible."""
        request = call.request

        def refuse(part: ElectLeadersRequest, error: ErrorCode, message: str | None) -> ElectLeadersResponse:
            return ElectLeadersResponse(error_code=error)

        return await self._forwarding.ask_in_parts(
            call,
            [request]
            if request.topic_partitions is None
            else (replace(request, topic_partitions=part) for part in in_parts(request.topic_partitions)),
            lambda controller, part: controller.elect_leaders(part, call.version),
            refuse,
            ElectLeadersResponse,
            _join_elections,
        )

    @endpoint(ALTER_PARTITION_REASSIGNMENTS, needs=allowed_on_cluster(AclOperation.ALTER, names_itself=True))
    async def alter_partition_reassignments(
        self, call: Call[AlterPartitionReassignmentsRequest]
    ) -> AlterPartitionReassignmentsResponse:
        """AlterPartitionReassignments (key 45), versions 0 and 1 (KIP-455): 1 can keep the replication factor."""
        request = call.request

        def refuse(
            part: AlterPartitionReassignmentsRequest, error: ErrorCode, message: str | None
        ) -> AlterPartitionReassignmentsResponse:
            return AlterPartitionReassignmentsResponse(error_code=error, error_message=message)

        return await self._forwarding.ask_in_parts(
            call,
            (replace(request, topics=part) for part in in_parts(request.topics)),
            lambda controller, part: controller.alter_reassignments(part),
            refuse,
            AlterPartitionReassignmentsResponse,
            _join_reassignments,
        )

    @endpoint(LIST_PARTITION_REASSIGNMENTS, needs=allowed_on_cluster(AclOperation.DESCRIBE, names_itself=True))
    async def list_partition_reassignments(
        self, call: Call[ListPartitionReassignmentsRequest]
    ) -> ListPartitionReassignmentsResponse:
        """ListPartitionReassignments (key 46), version 0 (KIP-455): the reassignments that are under way."""
        request = call.request

        def refuse(error: ErrorCode, message: str | None) -> ListPartitionReassignmentsResponse:
            return ListPartitionReassignmentsResponse(error_code=error, error_message=message)

        return await self._forwarding.ask(
            call,
            lambda controller: controller.list_reassignments(request),
            refuse,
            ListPartitionReassignmentsResponse,
        )

    @endpoint(ALTER_PARTITION, needs=allowed_on_cluster(AclOperation.CLUSTER_ACTION), lowest=3)
    async def alter_partition(self, call: Call[AlterPartitionRequest]) -> AlterPartitionResponse:
        """AlterPartition (key 56), version 3: a leader proposes the in-sync replicas (KIP-497, KIP-903)."""
        request = call.request

        def refuse(error: ErrorCode, message: str | None) -> AlterPartitionResponse:
            return AlterPartitionResponse(error_code=error)

        return await self._forwarding.ask(
            call, lambda controller: controller.alter_partitions(request), refuse, AlterPartitionResponse
        )


def _join_elections(joined: ElectLeadersResponse, more: ElectLeadersResponse) -> None:
    joined.error_code = joined.error_code or more.error_code
    for result in more.replica_election_results:
        last = joined.replica_election_results[-1:]
        if last and last[0].topic == result.topic:
            last[0].partition_result += result.partition_result
        else:
            joined.replica_election_results.append(result)


def _join_reassignments(joined: AlterPartitionReassignmentsResponse, more: AlterPartitionReassignmentsResponse) -> None:
    if more.error_code:
        joined.error_code, joined.error_message = more.error_code, more.error_message
    for response in more.responses:
        last = joined.responses[-1:]
        if last and last[0].name == response.name:
            last[0].partitions += response.partitions
        else:
            joined.responses.append(response)
