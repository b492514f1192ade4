"""Before a Produce opens a transaction in a partition, the coordinator is asked (KIP-890).

Old clients have their partition verified, new ones have it added.
Every partition is looked at again after each answer: a marker may have passed while the request was parked, its topic
may have been deleted, or another broker may lead it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from odradek.log.machine import Refused
from odradek.log.partition import AlreadyOpen
from odradek.node.hosting.replicas import HasReplicas
from odradek.node.seams import HasClock, HasConfig, HasKernel, HasRules
from odradek.txn.verification_errors import (
    ERROR_DESCRIPTIONS,
    TransactionOperation,
    produce_operation,
    retry_add_after,
)
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.node.routes.produce import Write
    from odradek.node.verification import Verification
    from odradek.txn.rules import Rules
    from odradek.txn.verification import Failures
    from odradek.wire.messages.produce_request import ProduceRequest

__all__ = ["verify"]


class HasVerifier(Protocol):
    """Questions to transaction coordinators."""

    @property
    def verification(self) -> Verification: ...


class Node(HasVerifier, HasClock, HasConfig, HasKernel, HasReplicas, HasRules, Protocol):
    """What asking a coordinator about a Produce touches of the broker."""


SEVERAL_PRODUCERS = Refused(
    ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID"
)


async def verify(node: Node, request: ProduceRequest, writes: list[Write], version: int) -> None:
    """Give each write its guard, or its refusal."""
    transactional_id = request.transactional_id
    if transactional_id is None:
        _refuse_all(writes, Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        return
    if not node.release.verification.records:
        return
    # A batch without a producer id is plain data, whatever its transactional bit says.
    producing = [write for write in writes if write.batch.producer_id >= 0]
    producers = {(write.batch.producer_id, write.batch.producer_epoch) for write in producing}
    if len(producers) > 1:
        _refuse_all(writes, SEVERAL_PRODUCERS)
        return
    operation = produce_operation(version, node.rules.since)
    if not producing or (operation.verifies_only and not node.config.verifies_records):
        return
    started = node.now
    while True:
        asked = _begin(node, producing, operation)
        if not asked:
            break
        failures = await node.verification.ask(
            transactional_id=transactional_id,
            producer_id=asked[0].batch.producer_id,
            producer_epoch=asked[0].batch.producer_epoch,
            partitions=[(write.partition.topic, write.partition.index) for write in asked],
            operation=operation,
        )
        backoff_ms = retry_add_after(
            operation,
            failures,
            elapsed_ms=node.now - started,
            backoff_ms=node.config.add_partitions_to_txn_retry_backoff_ms,
            backoff_max_ms=min(node.config.add_partitions_to_txn_retry_backoff_max_ms, request.timeout_ms),
        )
        if backoff_ms is None:
            break
        await node.kernel.sleep(backoff_ms)
    if asked:
        _judge(asked, failures, operation, node.rules)
    if node.release.verification.explains_errors:
        _explain(producing)


def _begin(node: Node, writes: list[Write], operation: TransactionOperation) -> list[Write]:
    """The writes about which the coordinator is to be asked, each with its guard."""
    asked = []
    for write in writes:
        batch = write.batch
        write.guard, write.refused = None, node.replicas.lost(write.partition)
        if write.refused is not None:
            continue
        begun = write.partition.begin_verification(
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            supports_epoch_bump=operation is TransactionOperation.ADD_PARTITION,
            now=node.now,
        )
        match begun:
            case Refused():
                write.refused = begun
            case AlreadyOpen():
                pass
            case guard:
                write.guard = guard
                asked.append(write)
    return asked


def _judge(asked: list[Write], failures: Failures, operation: TransactionOperation, rules: Rules) -> None:
    for write in asked:
        failure = failures.get((write.partition.topic, write.partition.index))
        if failure is not None:
            error = rules.produce_error(operation, failure)
            write.refused = Refused(error.error, error.message)


def _explain(writes: list[Write]) -> None:
    for write in writes:
        if write.refused is not None and write.refused.message is None:
            write.refused = Refused(write.refused.error, ERROR_DESCRIPTIONS.get(write.refused.error))


def _refuse_all(writes: list[Write], refused: Refused) -> None:
    for write in writes:
        write.refused = refused
