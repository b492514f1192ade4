"""How a write gets into a transaction (KIP-890): begin, ask, judge; for records and for offsets of groups.

Before a write opens a transaction in a partition the transaction coordinator is asked: the partition of an old client
is verified, that of a new one added. The request is parked in the purgatory meanwhile.
Every partition is looked at again after each answer: a marker may have passed while the request was parked, its topic
may have been deleted, or another broker may lead it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from msgspec import Struct

from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.core.machine import Answered, Fact, Parked, Refused
from odradek.host.peers import HasPeers
from odradek.host.replicas import HasReplicas
from odradek.host.router import HasRouter
from odradek.host.seams import HasClock, HasConfig, HasFacts, HasKernel, HasMetadata, HasPumps, HasPurgatory, HasRules
from odradek.log.partition import AlreadyOpen
from odradek.txn.verification_errors import retry_add_after
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.log.partition import Guard, Partition
    from odradek.txn.partitions import TopicPartition
    from odradek.txn.verification import Failures, VerificationRequest
    from odradek.txn.verification_errors import TransactionOperation

__all__ = ["Admission", "Applicant", "HasAdmission"]


class HasAdmission(Protocol):
    """How a write gets into a transaction."""

    @property
    def admission(self) -> Admission: ...


class Node(
    HasClock,
    HasConfig,
    HasFacts,
    HasKernel,
    HasMetadata,
    HasPeers,
    HasPumps,
    HasPurgatory,
    HasReplicas,
    HasRouter,
    HasRules,
    Protocol,
):
    """What asking transaction coordinators touches of a broker."""


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


Judge = Callable[["TransactionOperation", ErrorCode], Refused]
"""How a verdict of the coordinator is put to the client."""


class Admission:
    """Asks transaction coordinators on behalf of this broker's clients, and judges what they say."""

    def __init__(self, node: Node) -> None:
        # Most of it is for transactions alone, and imported by the first one.
        from odradek.txn.verification import Verifier
        from odradek.wire.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse

        self._node = node
        self._answer = AddPartitionsToTxnResponse
        self.verifier = Verifier(request_timeout_ms=node.config.request_timeout_ms, rules=node.rules)
        self.verifier.tells = node.facts.told
        self._version = node.router.newest(ApiKey.ADD_PARTITIONS_TO_TXN)
        self._keys: dict[Hashable, Hashable] = {}
        """Purgatory key of each question that is open."""
        self._verdicts: dict[Hashable, object] = {}
        """Those that came while they were asked for, so that nobody has to be parked."""

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
        node = self._node
        started = node.now
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
                elapsed_ms=node.now - started,
                backoff_ms=node.config.add_partitions_to_txn_retry_backoff_ms,
                backoff_max_ms=retry_within_ms,
            )
            if backoff_ms is None:
                break
            await node.kernel.sleep(backoff_ms)
        for applicant in asked:
            failure = failures.get(applicant.partition.key)
            if failure is not None:
                applicant.refused = judge(operation, failure)

    def _begin(self, applicants: Sequence[Applicant], operation: TransactionOperation) -> list[Applicant]:
        """Those about whom the coordinator is to be asked, each with its guard."""
        asked = []
        node = self._node
        for applicant in applicants:
            partition = applicant.partition
            applicant.guard, applicant.refused = None, node.replicas.lost(partition)
            if applicant.refused is not None:
                continue
            begun = partition.begin_verification(
                applicant.producer_id,
                applicant.producer_epoch,
                applicant.sequence,
                supports_epoch_bump=not operation.verifies_only,
                now=node.now,
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
        node = self._node
        decision = self.verifier.ask(
            coordinator=self._coordinator(transactional_id),
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            partitions=partitions,
            operation=operation,
            now=node.now,
        )
        if isinstance(decision, Answered):
            self.pump()
            return decision.reply
        assert isinstance(decision, Parked), "the verifier answers or parks"
        token = decision.token
        fields = {"transactional_id": transactional_id, "producer_id": producer_id, "producer_epoch": producer_epoch}
        tells = node.facts.told
        if tells:
            self._tell("parked", fields, partitions)
        self.pump()
        verdict = self._verdicts.pop(token, None)
        if verdict is None:
            key = self._keys[token] = ("verified", transactional_id, token)
            verdict = await node.purgatory.park([key], deadline=None)
        if tells:
            self._tell("resumed", fields, partitions)
        return cast("Failures", verdict)

    async def _send(self, request: VerificationRequest) -> None:
        node = self._node
        response = await node.peers.call(
            request.node_id,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            self._version,
            request.request,
            self._answer,
            deadline=request.deadline,
        )
        if response is None:
            self.verifier.lost(request, node.now)
        else:
            self.verifier.answered(request, response, node.now)
        self.pump()

    def pump(self) -> None:
        """Send what is to be asked, give up what has taken too long, resume who has a verdict, and pass facts on."""
        node, verifier = self._node, self.verifier
        for request in verifier.due(node.now):
            node.kernel.spawn(self._send(request))
        wakes_at = verifier.wake_at()
        if wakes_at is not None:
            node.pumps.by(self, wakes_at)
        released, verifier.released = verifier.released, []
        for token, failures in released:
            key = self._keys.pop(token, None)
            if key is None:
                self._verdicts[token] = failures
            else:
                node.purgatory.wake(key, failures)
        if verifier.facts:
            facts, verifier.facts = verifier.facts, []
            node.facts.emit(facts)

    def _coordinator(self, transactional_id: str) -> int | None:
        image = self._node.image
        topic = image.topic(CoordinatorKind.TRANSACTION.topic)
        if topic is None:
            return None
        leader = topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader
        return leader if image.is_alive(leader) else None

    def _tell(self, kind: str, fields: dict[str, object], partitions: Sequence[TopicPartition]) -> None:
        self._node.facts.emit(
            [Fact(kind, {**fields, "topic": topic, "partition": index}) for topic, index in partitions]
        )
