"""Producers, transactions, and what only brokers and operators may ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek.node.guards.parts import NO_OPERATIONS, denied, part_of
from odradek.node.transport.failures import refusal
from odradek.security.acls import AclOperation, AclResource
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from odradek.wire.messages.describe_transactions_response import DescribeTransactionsResponse, TransactionState

if TYPE_CHECKING:
    from odradek.node.authority import Authority
    from odradek.node.guards.parts import Node
    from odradek.node.transport.call import Call, Serve
    from odradek.wire.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest

__all__ = [
    "add_partitions_to_txn",
    "alter_credentials",
    "describe_cluster",
    "describe_transactions",
    "init_producer_id",
    "list_transactions",
]

TOPIC, TRANSACTIONAL_ID = AclResource.TOPIC, AclResource.TRANSACTIONAL_ID
OF_BROKERS_SINCE = 4
FORBIDDEN = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def init_producer_id(authority: Authority, node: Node, call: Call, serve: Serve) -> Any:
    """WRITE of the transactional id; without one IDEMPOTENT_WRITE of the cluster, or WRITE of some topic (KIP-679)."""
    request = call.request
    if request.transactional_id is None:
        allowed = authority.allows(call, AclOperation.IDEMPOTENT_WRITE) or authority.allows_some(
            call, AclOperation.WRITE, TOPIC
        )
        return await serve(node, call) if allowed else denied(call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    needed = [AclOperation.WRITE]
    if request.enable2_pc:
        needed.append(AclOperation.TWO_PHASE_COMMIT)
    if not all(authority.allows(call, each, TRANSACTIONAL_ID, request.transactional_id) for each in needed):
        return denied(call, FORBIDDEN)
    return await serve(node, call)


async def add_partitions_to_txn(authority: Authority, node: Node, call: Call, serve: Serve) -> Any:
    """Of brokers from version 4 on; of clients all or nothing, and who may not add one adds none."""
    request = call.request
    if call.version >= OF_BROKERS_SINCE:
        allowed = authority.allows(call, AclOperation.CLUSTER_ACTION)
        return await serve(node, call) if allowed else denied(call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not authority.allows(call, AclOperation.WRITE, TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        return refusal(call, FORBIDDEN)
    field = "v3_and_below_topics"
    topics = request.v3_and_below_topics
    refused = [each for each in topics if not authority.allows(call, AclOperation.WRITE, TOPIC, each.name)]
    if not refused:
        return await serve(node, call)
    others = [each for each in topics if each not in refused]
    answer = refusal(part_of(call, field, refused), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if others:
        untried = refusal(part_of(call, field, others), ErrorCode.OPERATION_NOT_ATTEMPTED)
        answer.results_by_topic_v3_and_below += untried.results_by_topic_v3_and_below
    return answer


async def list_transactions(authority: Authority, node: Node, call: Call, serve: Serve) -> Any:
    """Those that may be described."""
    response = await serve(node, call)
    response.transaction_states = [
        each
        for each in response.transaction_states
        if authority.allows(call, AclOperation.DESCRIBE, TRANSACTIONAL_ID, each.transactional_id)
    ]
    return response


async def describe_transactions(authority: Authority, node: Node, call: Call, serve: Serve) -> Any:
    """Of the topics in a transaction those that may be described."""
    response: DescribeTransactionsResponse = await serve(node, call)
    response.transaction_states = [
        TransactionState(error_code=FORBIDDEN, transactional_id=each.transactional_id)
        if each.error_code == FORBIDDEN
        else each
        for each in response.transaction_states
    ]
    for state in response.transaction_states:
        state.topics = [
            each for each in state.topics if authority.allows(call, AclOperation.DESCRIBE, TOPIC, each.topic)
        ]
    return response


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
