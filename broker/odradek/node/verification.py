"""The node's side of verification: requests parked in the purgatory while their coordinator is asked (KIP-890)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Protocol

from odradek.log.machine import Answered, Fact, Parked
from odradek.node.coordinators import CoordinatorKind, partition_for
from odradek.node.seams import (
    HasClock,
    HasConfig,
    HasFacts,
    HasKernel,
    HasMetadata,
    HasPurgatory,
    HasRouter,
    HasRules,
    HasTimers,
)
from odradek.node.transport.peers import HasPeers
from odradek.txn.verification import Failures, VerificationRequest, Verifier
from odradek.wire.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.txn.entry import TopicPartition
    from odradek.txn.verification_errors import TransactionOperation

__all__ = ["Verification"]


class Node(
    HasClock,
    HasConfig,
    HasFacts,
    HasKernel,
    HasMetadata,
    HasPeers,
    HasPurgatory,
    HasRouter,
    HasRules,
    HasTimers,
    Protocol,
):
    """What asking transaction coordinators touches of a broker."""


class Verification:
    """Asks transaction coordinators on behalf of this broker's clients."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.verifier = Verifier(request_timeout_ms=node.config.request_timeout_ms, rules=node.rules)
        self._version = node.router.newest(ApiKey.ADD_PARTITIONS_TO_TXN)
        self._keys: dict[Hashable, Hashable] = {}
        """Purgatory key of each question that is open."""

    async def ask(
        self,
        *,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        operation: TransactionOperation,
    ) -> Failures:
        """Have the partitions verified or added; which of them failed, and how."""
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
            self._settle()
            return decision.reply
        assert isinstance(decision, Parked), "the verifier answers or parks"
        key = ("verified", transactional_id, decision.token)
        parking = node.purgatory.park([key], deadline=None)
        self._keys[decision.token] = key
        fields = {"transactional_id": transactional_id, "producer_id": producer_id, "producer_epoch": producer_epoch}
        self._tell("parked", fields, partitions)
        self._settle()
        failures: Failures = await parking
        self._tell("resumed", fields, partitions)
        return failures

    def pump(self) -> None:
        """Send what is to be asked, and give up what has taken too long."""
        node = self._node
        for request in self.verifier.due(node.now):
            node.kernel.spawn(self._send(request))
        node.timers.set("verifier", self.verifier.wake_at(), self._settle)

    async def _send(self, request: VerificationRequest) -> None:
        node = self._node
        response = await node.peers.call(
            request.node_id,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            self._version,
            request.request,
            AddPartitionsToTxnResponse,
            deadline=request.deadline,
        )
        if response is None:
            self.verifier.lost(request, node.now)
        else:
            self.verifier.answered(request, response, node.now)
        self._settle()

    def _settle(self) -> None:
        """Resume who has a verdict, pass facts on, and ask what comes next."""
        self.pump()
        verifier = self.verifier
        released, verifier.released = verifier.released, []
        for token, failures in released:
            self._node.purgatory.wake(self._keys.pop(token), failures)
        if verifier.facts:
            facts, verifier.facts = verifier.facts, []
            self._node.facts.emit(facts)

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
