"""How a write gets into a transaction (KIP-890): begin, ask, judge; for records and for offsets of groups.

`Admission` is the part of the leader of the partition, `Registration` that of the transaction coordinator.

Before a write opens a transaction in a partition the transaction coordinator is asked: the partition of an old client
is verified, that of a new one added. The request is parked in the purgatory meanwhile.
Every partition is looked at again after each answer: a marker may have passed while the request was parked, its topic
may have been deleted, or another broker may lead it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from odradek.core.internal_topics import INTERNAL_TOPICS, CoordinatorKind, partition_for
from odradek.core.machine import Answered, Awaited, Fact, Parked, Proposed, Refused
from odradek.host.exchange import asks_itself
from odradek.log.partition import AlreadyOpen
from odradek.txn.checks import Claim
from odradek.txn.verification import Verifier
from odradek.txn.verification_errors import TransactionOperation, retry_add_after
from odradek.wire.error_maps import transaction_log_error
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.host.exchange import Serving
    from odradek.host.peers import Peers
    from odradek.host.replicas import Replicas
    from odradek.host.shard import CoordinatorsOf
    from odradek.log.partition import Guard, Partition
    from odradek.txn.decision_tables import Rules
    from odradek.txn.partitions import TopicPartition
    from odradek.txn.shard import TransactionShard
    from odradek.txn.verification import Failures, VerificationRequest

__all__ = ["CLIENT_STYLE", "Admission", "Applicant", "Registration", "as_answered"]


class Applicant(Struct):
    """A write that may open a transaction in a partition: with a guard it may, with a refusal it may not.

    With neither, its transaction is open there already, or no verification is needed.
    """

    partition: Partition
    producer_id: int
    producer_epoch: int
    sequence: int
    guard: Guard | None = None
    refused: Refused | None = None


CLIENT_STYLE = 0
BROKER_STYLE = 2
"""The client's transaction version in the record of an add: 2 if a broker adds for its client."""
_BEFORE_ABORTABLE = {ErrorCode.TRANSACTION_ABORTABLE: ErrorCode.INVALID_TXN_STATE}
_NONE_FAILED: Failures = {}
_TRANSACTIONS = CoordinatorKind.TRANSACTION.topic
Judge = Callable[["TransactionOperation", ErrorCode], Refused]
"""Turns the coordinator's verdict into the error for the client."""


class Registration:
    """Adds partitions to transactions, or verifies them, at the coordinators on this broker."""

    def __init__(self, node: Serving, coordinators: CoordinatorsOf[TransactionShard]) -> None:
        self._node = node
        self._coordinators = coordinators
        self._metadata = node.metadata
        self._clock = node.clock
        self._answers_abortable = node.release.verification.answers_abortable
        self._style_of_brokers = BROKER_STYLE if node.release.has_transaction_version else CLIENT_STYLE

    async def register(
        self, claim: Claim, partitions: Sequence[TopicPartition], *, by_client: bool, verify_only: bool
    ) -> Mapping[TopicPartition, ErrorCode] | Refused:
        """Add or verify partitions: the result of each.

        `Refused` for the whole request: the log of a cluster at level 0 cannot store partitions that a broker adds.
        """
        if verify_only:
            shard = self._coordinators.of(claim.transactional_id)
            verified = (
                shard
                if isinstance(shard, Refused)
                else await shard.carry_out(shard.machine.verify_partitions(claim, partitions))
            )
            results = dict.fromkeys(partitions, verified.error) if isinstance(verified, Refused) else verified
            if not self._answers_abortable:
                results = {each: _BEFORE_ABORTABLE.get(error, error) for each, error in results.items()}
            return results
        added = await self.add(claim, partitions, client_version=CLIENT_STYLE if by_client else self._style_of_brokers)
        if not isinstance(added, Refused):
            return dict.fromkeys(partitions, added)
        # As in Kafka the whole request fails of a broker that adds what the log cannot hold.
        return added if added.error is ErrorCode.UNSUPPORTED_VERSION else dict.fromkeys(partitions, added.error)

    def add_at_once(self, claim: Claim, partitions: Sequence[TopicPartition]) -> ErrorCode | Refused | None:
        """Add partitions for a leader on this broker; None where that may have to wait, and nothing was done."""
        shard = self._coordinators.of(claim.transactional_id)
        if (
            isinstance(shard, Refused)
            or shard.partition.log.mark is not None
            or shard.machine.adding_waits
            or self.not_addable(partitions, by_client=False)
            or not asks_itself(self._node, self._node.node_id, ApiKey.ADD_PARTITIONS_TO_TXN)
        ):
            return None
        decision = shard.machine.add_partitions(
            claim,
            partitions,
            client_version=self._style_of_brokers,
            now=self._clock.now,
            tv=self._metadata.transaction_version,
        )
        added: ErrorCode | Refused | None
        if isinstance(decision, Proposed):
            added = shard.propose(decision)
        else:
            shard.settle()
            assert not isinstance(decision, Parked | Awaited), "this coordinator lets nobody wait"
            added = decision if isinstance(decision, Refused) else decision.reply
        return as_answered(added) if isinstance(added, Refused) else added

    async def add(
        self, claim: Claim, partitions: Sequence[TopicPartition], *, client_version: int
    ) -> ErrorCode | Refused:
        """Add partitions, all or none: the error for all of them."""
        while True:
            shard = self._coordinators.of(claim.transactional_id)
            if isinstance(shard, Refused):
                return shard
            added = await shard.carry_out(
                shard.machine.add_partitions(
                    claim,
                    partitions,
                    client_version=client_version,
                    now=self._clock.now,
                    tv=self._metadata.transaction_version,
                )
            )
            # None: it has waited for an end of the transaction before, and is judged again.
            if added is not None:
                return as_answered(added) if isinstance(added, Refused) else added

    def not_addable(self, partitions: Sequence[TopicPartition], *, by_client: bool) -> dict[TopicPartition, ErrorCode]:
        """Errors by partition if one of them cannot be added; then none is."""
        errors = {}
        topics = self._metadata.image.topics
        for topic, index in partitions:
            if by_client and topic in INTERNAL_TOPICS:
                errors[topic, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif topic not in topics or index not in topics[topic].partitions:
                errors[topic, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not errors:
            return errors
        return {each: errors.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED) for each in partitions}


def as_answered(refused: Refused) -> Refused:
    """A refusal of the coordinator; a failed append to its log has Kafka's error."""
    return Refused(transaction_log_error(refused.error))


class Admission:
    """Asks transaction coordinators on behalf of this broker's clients, and interprets their answers."""

    def __init__(
        self, node: Serving, registration: Registration, replicas: Replicas, peers: Peers, *, rules: Rules, version: int
    ) -> None:
        """`version`: of AddPartitionsToTxn, as brokers of this release use it."""
        self._registration = registration
        self.rules = rules
        self._replicas = replicas
        self._node = node
        self._peers = peers
        self._metadata = node.metadata
        self._settings = node.settings
        self._clock = node.clock
        self._kernel = node.kernel
        self._purgatory = node.purgatory
        self._pumps = node.pumps
        self._facts = node.facts
        self._version = version
        self.verifier = Verifier(request_timeout_ms=node.settings.config.request_timeout_ms, rules=rules)
        self.verifier.tells = node.facts.told
        self._asking: Hashable = None
        """The token of the current question; without an immediate answer the flow parks under it."""
        self._verdict: object = None
        """The answer to the current question."""
        self._pumping = False
        """Whether questions are being sent; their verdicts are given when all are sent."""

    async def admit(
        self,
        applicants: Sequence[Applicant],
        *,
        transactional_id: str,
        operation: TransactionOperation,
        judge: Judge,
        retry_within_ms: int = 0,
    ) -> None:
        """Give each applicant its guard or its refusal; all of them have one producer.

        While the previous transaction is about to end, adds are repeated within `retry_within_ms`.
        """
        started = self._clock.now
        while True:
            asked = self._begin(applicants, operation)
            if not asked:
                return
            producer = applicants[0]
            failures = await self._ask(
                transactional_id, producer.producer_id, producer.producer_epoch, tuple(asked), operation
            )
            if not failures:
                return
            if not await self._waits_to_retry(operation, failures, started, retry_within_ms):
                break
        for key, applicant in asked.items():
            failure = failures.get(key)
            if failure is not None:
                applicant.refused = judge(operation, failure)

    async def _waits_to_retry(
        self, operation: TransactionOperation, failures: Failures, started: int, retry_within_ms: int
    ) -> bool:
        """Wait until the question may be repeated; False at once if it may not."""
        backoff_ms = retry_add_after(
            operation,
            failures,
            elapsed_ms=self._clock.now - started,
            backoff_ms=self._settings.config.add_partitions_to_txn_retry_backoff_ms,
            backoff_max_ms=retry_within_ms,
        )
        if backoff_ms is not None:
            await self._kernel.sleep(backoff_ms)
        return backoff_ms is not None

    async def add(
        self,
        partitions: Sequence[TopicPartition],
        *,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        retry_within_ms: int,
    ) -> Failures:
        """Add partitions, which other brokers may lead, to a transaction; the failures.

        It is asked for again within that time while the transaction before is about to end.
        """
        operation, started = TransactionOperation.ADD_PARTITION, self._clock.now
        while failures := await self._ask(transactional_id, producer_id, producer_epoch, partitions, operation):
            if not await self._waits_to_retry(operation, failures, started, retry_within_ms):
                break
        return failures

    def _begin(
        self, applicants: Sequence[Applicant], operation: TransactionOperation
    ) -> dict[TopicPartition, Applicant]:
        """The applicants that need a question to the coordinator, each with its guard, by partition."""
        asked: dict[TopicPartition, Applicant] = {}
        now, lost = self._clock.now, self._replicas.lost
        for applicant in applicants:
            partition = applicant.partition
            applicant.guard, applicant.refused = None, lost(partition)
            if applicant.refused is not None:
                continue
            begun = partition.begin_verification(
                applicant.producer_id,
                applicant.producer_epoch,
                applicant.sequence,
                supports_epoch_bump=not operation.verifies_only,
                now=now,
            )
            match begun:
                case Refused():
                    applicant.refused = begun
                case AlreadyOpen():
                    pass
                case guard:
                    applicant.guard = guard
                    asked[partition.key] = applicant
        return asked

    async def _ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        operation: TransactionOperation,
    ) -> Failures:
        """Have the partitions verified or added; the errors of those that failed."""
        if not operation.verifies_only:
            failures = self._add_at_once(Claim(transactional_id, producer_id, producer_epoch), partitions, operation)
            if failures is not None:
                return failures
        decision = self.verifier.ask(
            coordinator=self._coordinator(transactional_id),
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            partitions=partitions,
            operation=operation,
            now=self._clock.now,
        )
        if isinstance(decision, Answered):
            self.pump()
            return decision.reply
        assert isinstance(decision, Parked), "the verifier answers or parks"
        token = decision.token
        tells = self._facts.told
        if tells:
            fields = {
                "transactional_id": transactional_id,
                "producer_id": producer_id,
                "producer_epoch": producer_epoch,
            }
            self._tell("parked", fields, partitions)
        self._asking = token
        self.pump()
        verdict, self._asking, self._verdict = self._verdict, None, None
        if verdict is None:
            verdict = await self._purgatory.park([token], deadline=None)
        if tells:
            self._tell("resumed", fields, partitions)
        return cast("Failures", verdict)

    def _add_at_once(
        self, claim: Claim, partitions: Sequence[TopicPartition], operation: TransactionOperation
    ) -> Failures | None:
        """Add partitions at the coordinator on this broker; None if the question has to be put to the verifier.

        Nearly every question is answered so: no other one is under way to the coordinator, which is here and loaded.
        """
        verifier = self.verifier
        if self._node.node_id in verifier.under_way:
            return None
        added = self._registration.add_at_once(claim, partitions)
        if added is None:
            return None
        failures = _NONE_FAILED
        if isinstance(added, Refused):
            error, rules = added.error, self.rules
            is_of_request = error is ErrorCode.UNSUPPORTED_VERSION
            verdict = rules.request_verdict(error) if is_of_request else rules.verdict(operation, error)
            failures = dict.fromkeys(partitions, verdict)
        verifier.metrics.at_once(len(failures))
        return failures

    async def _send(self, request: VerificationRequest) -> None:
        if asks_itself(self._node, request.node_id, ApiKey.ADD_PARTITIONS_TO_TXN):
            await self._ask_here(request)
        else:
            response = await self._peers.call(
                request.node_id,
                ApiKey.ADD_PARTITIONS_TO_TXN,
                self._version,
                request.request,
                AddPartitionsToTxnResponse,
                deadline=request.deadline,
            )
            if response is None:
                self.verifier.lost(request, self._clock.now)
            else:
                self.verifier.answered(request, response, self._clock.now)
        if not self._pumping:
            self.pump()

    async def _ask_here(self, request: VerificationRequest) -> None:
        """Ask the coordinator on this broker, without a message."""
        registration = self._registration
        results = {}
        for question in request.questions:
            partitions = question.partitions
            claim = Claim(question.transactional_id, question.producer_id, question.producer_epoch)
            outcome = registration.not_addable(partitions, by_client=False) or await registration.register(
                claim, partitions, by_client=False, verify_only=question.verify_only
            )
            if isinstance(outcome, Refused):
                self.verifier.refused(request, outcome.error, self._clock.now)
                return
            results[question.transactional_id] = outcome
        self.verifier.decided(request, results, self._clock.now)

    def pump(self) -> None:
        """Send due questions, expire old ones, resume flows with a verdict, and emit facts."""
        verifier = self.verifier
        self._pumping = True
        for request in verifier.due(self._clock.now):
            self._kernel.spawn(self._send(request))
        self._pumping = False
        if verifier.under_way and (wakes_at := verifier.wake_at()) is not None:
            self._pumps.by(self, wakes_at)
        released, verifier.released = verifier.released, []
        for token, failures in released:
            if token == self._asking:
                self._verdict = failures
            else:
                self._purgatory.wake(token, failures)
        if verifier.facts:
            facts, verifier.facts = verifier.facts, []
            self._facts.emit(facts)

    def _coordinator(self, transactional_id: str) -> int | None:
        image = self._metadata.image
        topic = image.topics.get(_TRANSACTIONS)
        if topic is None:
            return None
        leader = topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader
        broker = image.brokers.get(leader)
        return None if broker is None or broker.fenced else leader

    def _tell(self, kind: str, fields: dict[str, object], partitions: Sequence[TopicPartition]) -> None:
        self._facts.emit([Fact(kind, {**fields, "topic": topic, "partition": index}) for topic, index in partitions])
