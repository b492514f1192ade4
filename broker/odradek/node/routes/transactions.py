"""What producers and brokers ask of a transaction coordinator (KIP-98, KIP-360, KIP-890, KIP-664).

InitProducerId: version 2 is flexible, 3 takes the id and epoch that the producer has (KIP-360), 4 knows
PRODUCER_FENCED, 6 (unstable) brings two-phase commit (KIP-939).
AddPartitionsToTxn: up to 3 for clients, from 4 for brokers, with several transactions and verify-only (KIP-890).
EndTxn: 5 bumps the epoch and answers with the id and epoch to go on with (KIP-890, part 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

from odradek.log.machine import Decision, Refused
from odradek.node.coordinators import INTERNAL_TOPICS, CoordinatorKind, partition_for
from odradek.node.hosting.coordinators import HasCoordinators
from odradek.node.hosting.producer_ids import HasProducerIds
from odradek.node.seams import HasClock, HasConfig, HasMetadata, HasRules, HasTurns
from odradek.txn.checks import Claim
from odradek.txn.init_table import request_refusal
from odradek.txn.listing import TransactionFilter
from odradek.wire.error_maps import for_client, transaction_log_error
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnTopic
from odradek.wire.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from odradek.wire.messages.describe_transactions_response import DescribeTransactionsResponse
from odradek.wire.messages.describe_transactions_response import TransactionState as DescribedTransaction
from odradek.wire.messages.end_txn_response import EndTxnResponse
from odradek.wire.messages.init_producer_id_response import InitProducerIdResponse
from odradek.wire.messages.list_transactions_response import ListTransactionsResponse
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.node.hosting.transactions import TransactionShard
    from odradek.node.transport.call import Call
    from odradek.txn.coordinator import TxnCoordinator
    from odradek.txn.partitions import TopicPartition
    from odradek.wire.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
    from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
    from odradek.wire.messages.describe_transactions_request import DescribeTransactionsRequest
    from odradek.wire.messages.end_txn_request import EndTxnRequest
    from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
    from odradek.wire.messages.list_transactions_request import ListTransactionsRequest

__all__ = [
    "add_offsets_to_txn",
    "add_partitions_to_txn",
    "describe_transactions",
    "end_txn",
    "init_producer_id",
    "list_transactions",
]


class Node(HasClock, HasConfig, HasCoordinators, HasMetadata, HasProducerIds, HasRules, HasTurns, Protocol):
    """What these routes touch of their broker."""


T = TypeVar("T")

BROKER_FORM_SINCE = 4
CLIENT_STYLE = 0
BROKER_STYLE = 2
"""What an add records as the client's transaction version: 2 where a broker adds on behalf of its client."""
_BEFORE_ABORTABLE = {ErrorCode.TRANSACTION_ABORTABLE: ErrorCode.INVALID_TXN_STATE}


async def init_producer_id(node: Node, call: Call) -> InitProducerIdResponse:
    """InitProducerId (key 22), versions 0 to 6: an id and epoch, for a transactional id or for nobody in particular."""
    request: InitProducerIdRequest = call.request
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return _init_refused(ErrorCode.INVALID_REQUEST, call.version)
    if request.transactional_id is None:
        producer_id = node.producer_ids.take()
        if producer_id is None:
            # Kafka's answer while the broker waits for its block of ids; producers ask again.
            return _init_refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, call.version)
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    refused = request_refusal(request, node.config, node.rules.request_checks)
    if refused is not None:
        return _init_refused(refused.error, call.version)
    outcome = await _ask(
        node,
        request.transactional_id,
        lambda coordinator: coordinator.init_producer_id(
            request, now=node.now, tv=node.image.transaction_version, ids=node.producer_ids
        ),
    )
    return _init_refused(outcome.error, call.version) if isinstance(outcome, Refused) else outcome


def _init_refused(error: ErrorCode, version: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=for_client(ApiKey.INIT_PRODUCER_ID, version, error), producer_id=-1, producer_epoch=-1
    )


async def add_partitions_to_txn(node: Node, call: Call) -> AddPartitionsToTxnResponse:
    """AddPartitionsToTxn (key 24), versions 0 to 5."""
    request: AddPartitionsToTxnRequest = call.request
    version = call.version
    if version < BROKER_FORM_SINCE:
        claim = Claim(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
        )
        topics = request.v3_and_below_topics
        results = await _add(node, claim, topics, version=version, verify_only=False)
        assert not isinstance(results, Refused), "what a client adds itself can be stored at every level"
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    answers = []
    for transaction in request.transactions:
        claim = Claim(transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
        results = await _add(node, claim, transaction.topics, version=version, verify_only=transaction.verify_only)
        if isinstance(results, Refused):
            return AddPartitionsToTxnResponse(error_code=results.error)
        answers.append(AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=results))
    return AddPartitionsToTxnResponse(results_by_transaction=answers)


async def _add(
    node: Node, claim: Claim, topics: list[AddPartitionsToTxnTopic], *, version: int, verify_only: bool
) -> list[AddPartitionsToTxnTopicResult] | Refused:
    partitions = [(topic.name, index) for topic in topics for index in topic.partitions]
    errors = _not_addable(node, partitions, by_client=version < BROKER_FORM_SINCE)
    if errors:
        # One that cannot be added keeps all the others from being added.
        results = {each: errors.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED) for each in partitions}
    elif verify_only:
        verified = await _ask(
            node, claim.transactional_id, lambda coordinator: coordinator.verify_partitions(claim, partitions)
        )
        results = dict.fromkeys(partitions, verified.error) if isinstance(verified, Refused) else verified
        if not node.release.verification.answers_abortable:
            results = {each: _BEFORE_ABORTABLE.get(error, error) for each, error in results.items()}
    else:
        by_broker = version >= BROKER_FORM_SINCE and node.release.has_transaction_version
        added = await _added(node, claim, partitions, client_version=BROKER_STYLE if by_broker else CLIENT_STYLE)
        if isinstance(added, Refused) and added.error is ErrorCode.UNSUPPORTED_VERSION:
            # The log of a cluster at level 0 cannot hold what a broker adds: as in Kafka the request fails as a whole.
            return added
        error = added.error if isinstance(added, Refused) else added
        if error is not ErrorCode.NONE:
            error = for_client(ApiKey.ADD_PARTITIONS_TO_TXN, version, error)
        results = dict.fromkeys(partitions, error)
    if partitions[1:] and (errors or verify_only):
        # These two Kafka keeps by partition, so that one that is named twice is answered once.
        topics = _merged(results)
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=results[topic.name, index]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _merged(partitions: Iterable[TopicPartition]) -> list[AddPartitionsToTxnTopic]:
    """Each topic once, with its partitions."""
    merged: dict[str, list[int]] = {}
    for topic, index in partitions:
        merged.setdefault(topic, []).append(index)
    return [AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in merged.items()]


async def _added(
    node: Node, claim: Claim, partitions: list[TopicPartition], *, client_version: int
) -> ErrorCode | Refused:
    while True:
        added = await _ask(
            node,
            claim.transactional_id,
            lambda coordinator: coordinator.add_partitions(
                claim, partitions, client_version=client_version, now=node.now, tv=node.image.transaction_version
            ),
        )
        # None: it has waited for an end of the transaction before, and is judged again.
        if added is not None:
            return added


def _not_addable(node: Node, partitions: list[TopicPartition], *, by_client: bool) -> dict[TopicPartition, ErrorCode]:
    errors = {}
    for topic, index in partitions:
        if by_client and topic in INTERNAL_TOPICS:
            errors[topic, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif node.image.partition(topic, index) is None:
            errors[topic, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return errors


async def add_offsets_to_txn(node: Node, call: Call) -> AddOffsetsToTxnResponse:
    """AddOffsetsToTxn (key 25), versions 0 to 4: adds the partition of the group's offsets."""
    request: AddOffsetsToTxnRequest = call.request
    offsets = node.image.topic(CoordinatorKind.GROUP.topic)
    count = node.config.offsets_topic_num_partitions if offsets is None else len(offsets.partitions)
    partition = (CoordinatorKind.GROUP.topic, partition_for(request.group_id, count))
    claim = Claim(request.transactional_id, request.producer_id, request.producer_epoch)
    added = await _added(node, claim, [partition], client_version=CLIENT_STYLE)
    error = added.error if isinstance(added, Refused) else added
    return AddOffsetsToTxnResponse(error_code=for_client(ApiKey.ADD_OFFSETS_TO_TXN, call.version, error))


async def end_txn(node: Node, call: Call) -> EndTxnResponse:
    """EndTxn (key 26), versions 0 to 5: answered when the outcome is in the log, before the markers are written."""
    request: EndTxnRequest = call.request
    outcome = await _ask(
        node,
        request.transactional_id,
        lambda coordinator: coordinator.end_txn(
            request, call.version, now=node.now, tv=node.image.transaction_version, ids=node.producer_ids
        ),
    )
    if isinstance(outcome, Refused):
        return EndTxnResponse(
            error_code=for_client(ApiKey.END_TXN, call.version, outcome.error), producer_id=-1, producer_epoch=-1
        )
    return outcome


async def describe_transactions(node: Node, call: Call) -> DescribeTransactionsResponse:
    """DescribeTransactions (key 65), version 0."""
    request: DescribeTransactionsRequest = call.request
    response = DescribeTransactionsResponse()
    async for some in node.turns.share(call, request.transactional_ids):
        response.transaction_states += [await _described(node, each) for each in some]
    return response


async def _described(node: Node, transactional_id: str) -> DescribedTransaction:
    shard = _shard(node, transactional_id)
    outcome = shard if isinstance(shard, Refused) else await shard.carry_out(shard.machine.describe(transactional_id))
    if isinstance(outcome, Refused):
        return DescribedTransaction(
            error_code=outcome.error, transactional_id=transactional_id, producer_id=0, producer_epoch=0
        )
    return outcome


async def list_transactions(node: Node, call: Call) -> ListTransactionsResponse:
    """ListTransactions (key 66), versions 0 to 2: of every coordinator on this broker."""
    request: ListTransactionsRequest = call.request
    wanted = TransactionFilter.of(request)
    if isinstance(wanted, Refused):
        return ListTransactionsResponse(error_code=wanted.error)
    shards = node.coordinators.of_transactions()
    if any(shard.loading for shard in shards):
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return ListTransactionsResponse(
        unknown_state_filters=wanted.unknown_state_filters,
        transaction_states=[listed for shard in shards for listed in shard.machine.listed(wanted, now=node.now)],
    )


def _shard(node: Node, transactional_id: str) -> TransactionShard | Refused:
    # An empty id is refused before anybody looks for its coordinator.
    return node.coordinators.transactional(transactional_id) if transactional_id else Refused(ErrorCode.INVALID_REQUEST)


async def _ask(node: Node, transactional_id: str, decide: Callable[[TxnCoordinator], Decision[T]]) -> T | Refused:
    """Ask the coordinator of an id; a failed append of its log is answered as Kafka calls it."""
    shard = _shard(node, transactional_id)
    if isinstance(shard, Refused):
        return shard
    outcome = await shard.carry_out(decide(shard.machine))
    return Refused(transaction_log_error(outcome.error)) if isinstance(outcome, Refused) else outcome
