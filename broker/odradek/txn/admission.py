"""How a write gets into a transaction (KIP-890): begin, ask, judge; for records and for offsets of groups.

Before a write opens a transaction in a partition the transaction coordinator is asked: the partition of an old client
is verified, that of a new one added. The request is parked in the purgatory meanwhile.
Every partition is looked at again after each answer: a marker may have passed while the request was parked, its topic
may have been deleted, or another broker may lead it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.core.machine import Answered, Fact, Parked, Refused
from odradek.log.partition import AlreadyOpen
from odradek.txn.verification import Verifier
from odradek.txn.verification_errors import retry_add_after
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.core.clock import Clock
    from odradek.core.flow import Kernel, Purgatory
    from odradek.core.timers import Pumps
    from odradek.host.facts import Facts
    from odradek.host.metadata import Metadata
    from odradek.host.peers import Peers
    from odradek.host.replicas import Replicas
    from odradek.host.settings import Settings
    from odradek.log.partition import Guard, Partition
    from odradek.txn.api import TransactionApi
    from odradek.txn.partitions import TopicPartition
    from odradek.txn.rules import Rules
    from odradek.txn.verification import Failures, VerificationRequest
    from odradek.txn.verification_errors import TransactionOperation

__all__ = ["Admission", "Applicant"]


class Applicant(Struct):
    """A write that may open a transaction in a partition: with a guard it may, with a refusal it may not.

    With neither, the transaction is open there already, or nobody has to be asked.
    """

    partition: Partition
    producer_id: int
    producer_epoch: int
    sequence: int
    guard: Guard | None = None
    refused: Refused | None = None


_TRANSACTIONS = CoordinatorKind.TRANSACTION.topic
Judge = Callable[["TransactionOperation", ErrorCode], Refused]
"""How a verdict of the coordinator is put to the client."""


class Admission:
    """Asks transaction coordinators on behalf of this broker's clients, and judges what they say."""

    def __init__(
        self,
        transactions: TransactionApi,
        replicas: Replicas,
        peers: Peers,
        *,
        rules: Rules,
        metadata: Metadata,
        settings: Settings,
        clock: Clock,
        kernel: Kernel,
        purgatory: Purgatory,
        pumps: Pumps,
        facts: Facts,
        version: int,
    ) -> None:
        """`version`: of AddPartitionsToTxn, as brokers of this release speak it."""
        self._transactions = transactions
        self._replicas = replicas
        self._peers = peers
        self._metadata = metadata
        self._settings = settings
        self._clock = clock
        self._kernel = kernel
        self._purgatory = purgatory
        self._pumps = pumps
        self._facts = facts
        self._version = version
        self.verifier = Verifier(request_timeout_ms=settings.config.request_timeout_ms, rules=rules)
        self.verifier.tells = facts.told
        self._asking: Hashable = None
        """The token of the question that is being put: unless it is answered at once, it is parked under this key."""
        self._verdict: object = None
        """The answer to it."""

    async def admit(
        self,
        applicants: Sequence[Applicant],
        *,
        transactional_id: str,
        operation: TransactionOperation,
        judge: Judge,
        retry_within_ms: int = 0,
    ) -> None:
        """Give each applicant its guard, or its refusal; all of them are of one producer.

        What is to be added while the transaction before is about to end is asked for again within that time.
        """
        started = self._clock.now
        while True:
            asked = self._begin(applicants, operation)
            if not asked:
                return
            failures = await self._ask(asked, transactional_id, operation)
            if not failures:
                return
            backoff_ms = retry_add_after(
                operation,
                failures,
                elapsed_ms=self._clock.now - started,
                backoff_ms=self._settings.config.add_partitions_to_txn_retry_backoff_ms,
                backoff_max_ms=retry_within_ms,
            )
            if backoff_ms is None:
                break
            await self._kernel.sleep(backoff_ms)
        for applicant in asked:
            failure = failures.get(applicant.partition.key)
            if failure is not None:
                applicant.refused = judge(operation, failure)

    def _begin(self, applicants: Sequence[Applicant], operation: TransactionOperation) -> list[Applicant]:
        """Those about whom the coordinator is to be asked, each with its guard."""
        asked = []
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
                    asked.append(applicant)
        return asked

    async def _ask(
        self, asked: Sequence[Applicant], transactional_id: str, operation: TransactionOperation
    ) -> Failures:
        """Have the partitions verified or added; which of them failed, and how."""
        producer_id, producer_epoch = asked[0].producer_id, asked[0].producer_epoch
        partitions = [applicant.partition.key for applicant in asked]
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
        fields = {"transactional_id": transactional_id, "producer_id": producer_id, "producer_epoch": producer_epoch}
        tells = self._facts.told
        if tells:
            self._tell("parked", fields, partitions)
        self._asking = token
        self.pump()
        verdict, self._asking, self._verdict = self._verdict, None, None
        if verdict is None:
            verdict = await self._purgatory.park([token], deadline=None)
        if tells:
            self._tell("resumed", fields, partitions)
        return cast("Failures", verdict)

    async def _send(self, request: VerificationRequest) -> None:
        if self._peers.asks_itself(request.node_id, ApiKey.ADD_PARTITIONS_TO_TXN):
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
        self.pump()

    async def _ask_here(self, request: VerificationRequest) -> None:
        """Ask the coordinator on this broker, without a message."""
        results = {}
        for question in request.questions:
            outcome = await self._transactions.register(question)
            if isinstance(outcome, Refused):
                self.verifier.refused(request, outcome.error, self._clock.now)
                return
            results[question.transactional_id] = outcome
        self.verifier.decided(request, results, self._clock.now)

    def pump(self) -> None:
        """Send what is to be asked, give up what has taken too long, resume who has a verdict, and pass facts on."""
        verifier = self.verifier
        for request in verifier.due(self._clock.now):
            self._kernel.spawn(self._send(request))
        wakes_at = verifier.wake_at()
        if wakes_at is not None:
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
