"""The APIs of a transaction coordinator (KIP-98, KIP-360, KIP-890, KIP-664).

InitProducerId: version 2 is flexible, 3 takes the id and epoch that the producer has (KIP-360), 4 knows
PRODUCER_FENCED, 6 (unstable) brings two-phase commit (KIP-939).
AddPartitionsToTxn: up to 3 for clients, from 4 for brokers, with several transactions and verify-only (KIP-890).
EndTxn: 5 bumps the epoch and answers with the id and epoch to go on with (KIP-890, part 2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import DENIED, allowed, allowed_on_each, asks, denied, in_series, part_of, refused
from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.core.machine import Refused
from odradek.host.call import Serve
from odradek.host.endpoint import Since, endpoint
from odradek.txn.admission import CLIENT_STYLE, as_answered
from odradek.txn.checks import Claim
from odradek.txn.init_table import request_refusal
from odradek.txn.listing import TransactionFilter
from odradek.txn.partitions import by_topic
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnTopic
from odradek.wire.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from odradek.wire.messages.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
)
from odradek.wire.messages.describe_transactions_response import DescribeTransactionsResponse
from odradek.wire.messages.describe_transactions_response import TransactionState as DescribedTransaction
from odradek.wire.messages.end_txn_response import EndTxnResponse
from odradek.wire.messages.init_producer_id_response import InitProducerIdResponse
from odradek.wire.messages.list_transactions_response import ListTransactionsResponse

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.host.call import Call
    from odradek.host.host import Host
    from odradek.host.shard import CoordinatorsOf
    from odradek.txn.admission import Registration
    from odradek.txn.decision_tables import Rules
    from odradek.txn.producer_id_supply import ProducerIdSupply
    from odradek.txn.shard import TransactionShard
    from odradek.wire.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
    from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
    from odradek.wire.messages.describe_transactions_request import DescribeTransactionsRequest
    from odradek.wire.messages.end_txn_request import EndTxnRequest
    from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
    from odradek.wire.messages.list_transactions_request import ListTransactionsRequest

__all__ = ["TransactionApi"]

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
GROUP, TOPIC, TRANSACTIONAL_ID = AclResource.GROUP, AclResource.TOPIC, AclResource.TRANSACTIONAL_ID
FORBIDDEN = DENIED[TRANSACTIONAL_ID]

BROKER_FORM_SINCE = 4


def _fenced_since(version: int) -> list[Since]:
    """PRODUCER_FENCED from this version on, INVALID_PRODUCER_EPOCH before (KIP-588)."""
    return [Since(version, ErrorCode.PRODUCER_FENCED, before=ErrorCode.INVALID_PRODUCER_EPOCH)]


@asks(
    "WRITE on the transactional id, and TWO_PHASE_COMMIT with it; without one IDEMPOTENT_WRITE on the cluster, or "
    "WRITE on some topic (KIP-679)"
)
async def _may_init(
    authority: Authority,
    call: Call[InitProducerIdRequest],
    serve: Serve[InitProducerIdRequest, InitProducerIdResponse],
) -> InitProducerIdResponse:
    request = call.request
    if request.transactional_id is None:
        if authority.allows(call, AclOperation.IDEMPOTENT_WRITE) or authority.allows_some(call, WRITE, TOPIC):
            return await serve(call)
        return denied(call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, InitProducerIdResponse)
    needed = [WRITE, AclOperation.TWO_PHASE_COMMIT] if request.enable2_pc else [WRITE]
    if not all(authority.allows(call, each, TRANSACTIONAL_ID, request.transactional_id) for each in needed):
        return denied(call, FORBIDDEN, InitProducerIdResponse)
    return await serve(call)


@asks("WRITE on the transactional id and on every topic; of brokers (from version 4 on) CLUSTER_ACTION on the cluster")
async def _may_add(
    authority: Authority,
    call: Call[AddPartitionsToTxnRequest],
    serve: Serve[AddPartitionsToTxnRequest, AddPartitionsToTxnResponse],
) -> AddPartitionsToTxnResponse:
    """A client adds all or nothing: without the permission for one topic it adds none."""
    request = call.request
    if call.version >= BROKER_FORM_SINCE:
        if authority.allows(call, AclOperation.CLUSTER_ACTION):
            return await serve(call)
        return denied(call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, AddPartitionsToTxnResponse)
    if not authority.allows(call, WRITE, TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        return refused(call, FORBIDDEN, AddPartitionsToTxnResponse)
    topics = request.v3_and_below_topics
    bad = [each for each in topics if not authority.allows(call, WRITE, TOPIC, each.name)]
    if not bad:
        return await serve(call)
    good = [each for each in topics if each not in bad]
    answer = _refused_topics(call, bad, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if good:
        untried = _refused_topics(call, good, ErrorCode.OPERATION_NOT_ATTEMPTED)
        answer.results_by_topic_v3_and_below += untried.results_by_topic_v3_and_below
    return answer


def _refused_topics(
    call: Call[AddPartitionsToTxnRequest], topics: list[AddPartitionsToTxnTopic], error: ErrorCode
) -> AddPartitionsToTxnResponse:
    part = part_of(call, lambda request: request.v3_and_below_topics, topics)
    return refused(part, error, AddPartitionsToTxnResponse)


@asks("DESCRIBE on each topic of a transaction")
async def _described_topics(
    authority: Authority,
    call: Call[DescribeTransactionsRequest],
    serve: Serve[DescribeTransactionsRequest, DescribeTransactionsResponse],
) -> DescribeTransactionsResponse:
    """A transaction without DESCRIBE permission is answered with its id and the error only."""
    response = await serve(call)
    response.transaction_states = [
        DescribedTransaction(error_code=FORBIDDEN, transactional_id=each.transactional_id)
        if each.error_code == FORBIDDEN
        else each
        for each in response.transaction_states
    ]
    for state in response.transaction_states:
        state.topics = [each for each in state.topics if authority.allows(call, DESCRIBE, TOPIC, each.topic)]
    return response


@asks("lists the transactional ids with DESCRIBE")
async def _listed(
    authority: Authority,
    call: Call[ListTransactionsRequest],
    serve: Serve[ListTransactionsRequest, ListTransactionsResponse],
) -> ListTransactionsResponse:
    response = await serve(call)
    response.transaction_states = [
        each
        for each in response.transaction_states
        if authority.allows(call, DESCRIBE, TRANSACTIONAL_ID, each.transactional_id)
    ]
    return response


class TransactionApi:
    """InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, DescribeTransactions, ListTransactions."""

    def __init__(
        self,
        node: Host,
        coordinators: CoordinatorsOf[TransactionShard],
        registration: Registration,
        producer_ids: ProducerIdSupply,
        *,
        rules: Rules,
    ) -> None:
        self._coordinators = coordinators
        self._registration = registration
        self._producer_ids = producer_ids
        self._rules = rules
        self._metadata = node.metadata
        self._settings = node.settings
        self._clock = node.clock
        self._turns = node.turns

    @endpoint(INIT_PRODUCER_ID, needs=_may_init, errors=_fenced_since(4))
    async def init_producer_id(self, call: Call[InitProducerIdRequest]) -> InitProducerIdResponse:
        """InitProducerId (key 22): an id and epoch, with or without a transactional id."""
        request = call.request
        if (request.producer_id == -1) != (request.producer_epoch == -1):
            return _init_refused(ErrorCode.INVALID_REQUEST)
        if request.transactional_id is None:
            producer_id = self._producer_ids.take()
            if producer_id is None:
                # Kafka's answer while the broker waits for its block of ids; producers ask again.
                return _init_refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
        refusal = request_refusal(request, self._settings.config, self._rules.request_checks)
        if refusal is not None:
            return _init_refused(refusal.error)
        shard = self._coordinators.of(request.transactional_id)
        if isinstance(shard, Refused):
            return _init_refused(shard.error)
        outcome = await shard.carry_out(
            shard.machine.init_producer_id(
                request, now=self._clock.now, tv=self._metadata.transaction_version, ids=self._producer_ids
            )
        )
        return _init_refused(as_answered(outcome).error) if isinstance(outcome, Refused) else outcome

    @endpoint(ADD_PARTITIONS_TO_TXN, needs=_may_add, errors=_fenced_since(2))
    async def add_partitions_to_txn(self, call: Call[AddPartitionsToTxnRequest]) -> AddPartitionsToTxnResponse:
        """AddPartitionsToTxn (key 24)."""
        request = call.request
        if call.version < BROKER_FORM_SINCE:
            claim = Claim(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
            )
            added = await self._add(claim, request.v3_and_below_topics, by_client=True)
            assert not isinstance(added, Refused), "what a client adds itself can be stored at every level"
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=added)
        answers = []
        for transaction in request.transactions:
            claim = Claim(transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
            added = await self._add(claim, transaction.topics, by_client=False, verify_only=transaction.verify_only)
            if isinstance(added, Refused):
                return AddPartitionsToTxnResponse(error_code=added.error)
            answers.append(AddPartitionsToTxnResult(transactional_id=claim.transactional_id, topic_results=added))
        return AddPartitionsToTxnResponse(results_by_transaction=answers)

    async def _add(
        self, claim: Claim, topics: list[AddPartitionsToTxnTopic], *, by_client: bool, verify_only: bool = False
    ) -> list[AddPartitionsToTxnTopicResult] | Refused:
        partitions = [(topic.name, index) for topic in topics for index in topic.partitions]
        errors = self._registration.not_addable(partitions, by_client=by_client)
        results = errors or await self._registration.register(
            claim, partitions, by_client=by_client, verify_only=verify_only
        )
        if isinstance(results, Refused):
            return results
        named = [(topic.name, topic.partitions) for topic in topics]
        if partitions[1:] and (errors or verify_only):
            # These two Kafka keeps by partition, so that one that is named twice is answered once.
            named = list(by_topic(results).items())
        return [
            AddPartitionsToTxnTopicResult(
                name=name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=results[name, index])
                    for index in indexes
                ],
            )
            for name, indexes in named
        ]

    @endpoint(
        ADD_OFFSETS_TO_TXN,
        needs=in_series(
            allowed(WRITE, TRANSACTIONAL_ID, of=lambda request: request.transactional_id),
            allowed(READ, GROUP, of=lambda request: request.group_id),
        ),
        errors=_fenced_since(2),
    )
    async def add_offsets_to_txn(self, call: Call[AddOffsetsToTxnRequest]) -> AddOffsetsToTxnResponse:
        """AddOffsetsToTxn (key 25): adds the partition of the group's offsets."""
        request = call.request
        offsets = self._metadata.image.topic(CoordinatorKind.GROUP.topic)
        count = self._settings.config.offsets_topic_num_partitions if offsets is None else len(offsets.partitions)
        partition = (CoordinatorKind.GROUP.topic, partition_for(request.group_id, count))
        claim = Claim(request.transactional_id, request.producer_id, request.producer_epoch)
        added = await self._registration.add(claim, [partition], client_version=CLIENT_STYLE)
        return AddOffsetsToTxnResponse(error_code=added.error if isinstance(added, Refused) else added)

    @endpoint(
        END_TXN,
        needs=allowed(WRITE, TRANSACTIONAL_ID, of=lambda request: request.transactional_id),
        errors=_fenced_since(2),
    )
    async def end_txn(self, call: Call[EndTxnRequest]) -> EndTxnResponse:
        """EndTxn (key 26): answered when the outcome is in the log, before the markers are written.

        Up to version 4 a transaction ends in its own epoch, from 5 on its end bumps the epoch (KIP-890).
        """
        request = call.request
        shard = self._coordinators.of(request.transactional_id)
        if isinstance(shard, Refused):
            return EndTxnResponse(error_code=shard.error, producer_id=-1, producer_epoch=-1)
        outcome = await shard.carry_out(
            shard.machine.end_txn(
                request,
                call.version,
                now=self._clock.now,
                tv=self._metadata.transaction_version,
                ids=self._producer_ids,
            )
        )
        if isinstance(outcome, Refused):
            return EndTxnResponse(error_code=as_answered(outcome).error, producer_id=-1, producer_epoch=-1)
        return outcome

    @endpoint(
        DESCRIBE_TRANSACTIONS,
        needs=in_series(
            _described_topics,
            allowed_on_each(
                DESCRIBE,
                TRANSACTIONAL_ID,
                asked=lambda request: request.transactional_ids,
                answered=lambda response: response.transaction_states,
                name=lambda transactional_id: transactional_id,
            ),
        ),
        in_parts=True,
    )
    async def describe_transactions(self, call: Call[DescribeTransactionsRequest]) -> DescribeTransactionsResponse:
        """DescribeTransactions (key 65)."""
        response = DescribeTransactionsResponse()
        async for some in self._turns.share(call, call.request.transactional_ids):
            response.transaction_states += [await self._described(each) for each in some]
        return response

    async def _described(self, transactional_id: str) -> DescribedTransaction:
        shard = self._coordinators.of(transactional_id)
        outcome = (
            shard if isinstance(shard, Refused) else await shard.carry_out(shard.machine.describe(transactional_id))
        )
        if isinstance(outcome, Refused):
            return DescribedTransaction(
                error_code=outcome.error, transactional_id=transactional_id, producer_id=0, producer_epoch=0
            )
        return outcome

    @endpoint(LIST_TRANSACTIONS, needs=_listed)
    async def list_transactions(self, call: Call[ListTransactionsRequest]) -> ListTransactionsResponse:
        """ListTransactions (key 66): of every coordinator on this broker."""
        wanted = TransactionFilter.of(call.request)
        if isinstance(wanted, Refused):
            return ListTransactionsResponse(error_code=wanted.error)
        shards = self._coordinators.led()
        if any(shard.loading for shard in shards):
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        now = self._clock.now
        return ListTransactionsResponse(
            unknown_state_filters=wanted.unknown_state_filters,
            transaction_states=[listed for shard in shards for listed in shard.machine.listed(wanted, now=now)],
        )


def _init_refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
