"""The conditions for a request about a transactional id before its table is consulted: named checks in Kafka's order.

The order is visible: while markers are being written, a stale EndTxn v4 is fenced, and a v5 one is not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from types import MappingProxyType

from msgspec import Struct

from odradek.core.machine import Refused
from odradek.txn.entry import EPOCH_LAST_USABLE, NONE, Entry
from odradek.txn.states import PREPARED, EpochRelation
from odradek.wire.errors import ErrorCode

__all__ = [
    "CHECKS",
    "Check",
    "CheckOfOwn",
    "Claim",
    "Condition",
    "Operation",
    "epoch_relation",
    "failed_checks",
    "refusal",
]


class Claim(Struct, frozen=True, gc=False):
    """The producer that a request claims to be."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class Operation(Enum):
    """The requests that name a producer."""

    ADD = "AddPartitionsToTxn, AddOffsetsToTxn"
    ADD_BEFORE_4_0 = "AddPartitionsToTxn, AddOffsetsToTxn up to Kafka 3.9"
    VERIFY = "AddPartitionsToTxn, verify only"
    END = "EndTxn v0-4"
    END_BUMPING = "EndTxn v5"


class Check(Enum):
    """A condition; `_ERRORS` has the error for requests that fail it."""

    NAMED = "the transactional id is not empty"
    KNOWN = "the transactional id is known"
    SAME_PRODUCER = "the producer id is the present one"
    SAME_OR_ROTATED_PRODUCER = "the producer id is the present one, or the one before with its last epoch"
    SAME_EPOCH = "the epoch is the present one"
    NOT_PREPARED = "no markers are owed"
    """No record of this transactional id may be waiting for commit; read-only requests are exempt."""

    @property
    def meaning(self) -> str:
        """The condition in words."""
        return self.value

    @property
    def error(self) -> ErrorCode:
        """The error of a failed check."""
        return _ERRORS[self]

    # Each request looks for its checks among those that failed: Enum's own hash is a function in Python.
    __hash__ = object.__hash__


class CheckOfOwn(Struct, frozen=True):
    """A condition of a dialect that Kafka does not have."""

    meaning: str
    error: ErrorCode
    holds: Callable[[Claim, Entry | None], bool]


Condition = Check | CheckOfOwn

CHECKS: Mapping[Operation, tuple[Condition, ...]] = MappingProxyType(
    {
        Operation.ADD: (Check.NAMED, Check.KNOWN, Check.NOT_PREPARED, Check.SAME_PRODUCER, Check.SAME_EPOCH),
        Operation.ADD_BEFORE_4_0: (Check.NAMED, Check.KNOWN, Check.SAME_PRODUCER, Check.SAME_EPOCH, Check.NOT_PREPARED),
        Operation.VERIFY: (Check.NAMED, Check.KNOWN, Check.SAME_PRODUCER, Check.SAME_EPOCH, Check.NOT_PREPARED),
        Operation.END: (Check.NAMED, Check.KNOWN, Check.SAME_PRODUCER, Check.SAME_EPOCH, Check.NOT_PREPARED),
        # The epoch of a v5 request is judged by its table.
        Operation.END_BUMPING: (Check.NAMED, Check.KNOWN, Check.NOT_PREPARED, Check.SAME_OR_ROTATED_PRODUCER),
    }
)
"""The checks of each operation, in order: the first failed one is the error."""


def refusal(checks: Iterable[Condition], claim: Claim, entry: Entry | None, *, pending: bool = False) -> Refused | None:
    """The first check that the claim fails; `pending`: a record of the id waits to be committed."""
    failed = failed_checks(claim, entry, pending=pending)
    for check in checks:
        if not check.holds(claim, entry) if type(check) is CheckOfOwn else check in failed:
            return Refused(check.error)
    return None


def failed_checks(claim: Claim, entry: Entry | None, *, pending: bool) -> Collection[Check]:
    """All checks that the claim fails; each operation makes some of them, in its own order."""
    failed: set[Check] = set()
    if not claim.transactional_id:
        failed.add(Check.NAMED)
    if entry is None:
        return failed | OF_AN_ENTRY | ({Check.NOT_PREPARED} if pending else set())
    owner_id, owner_epoch = entry.producer_id, entry.producer_epoch
    if entry.next_producer_epoch != NONE:
        owner_id, owner_epoch = entry.owner_id, entry.owner_epoch
    if pending or entry.state in PREPARED:
        failed.add(Check.NOT_PREPARED)
    if claim.producer_epoch != owner_epoch:
        failed.add(Check.SAME_EPOCH)
    if claim.producer_id != owner_id:
        failed.add(Check.SAME_PRODUCER)
        if not _is_overflow_retry(claim, entry):
            failed.add(Check.SAME_OR_ROTATED_PRODUCER)
    return failed


def epoch_relation(claim: Claim, entry: Entry) -> EpochRelation:
    """The claim of an EndTxn compared with the entry (KIP-890, "Bump Epoch on Each Transaction for New Clients")."""
    epoch, present = claim.producer_epoch, entry.producer_epoch
    if entry.next_producer_epoch != NONE:
        present = entry.owner_epoch
    if epoch == EPOCH_LAST_USABLE and _is_overflow_retry(claim, entry):
        return EpochRelation.OVERFLOW_RETRY
    if present == epoch:
        return EpochRelation.CURRENT
    if present == epoch + 1:
        return EpochRelation.ONE_BEHIND if entry.epoch_used else EpochRelation.BUMPED_RETRY
    return EpochRelation.STALE if epoch < present else EpochRelation.FUTURE


def _is_overflow_retry(claim: Claim, entry: Entry) -> bool:
    return (
        claim.producer_epoch == EPOCH_LAST_USABLE
        and entry.producer_epoch == 0
        and claim.producer_id == entry.previous_producer_id
    )


OF_AN_ENTRY = frozenset({Check.KNOWN, Check.SAME_PRODUCER, Check.SAME_OR_ROTATED_PRODUCER, Check.SAME_EPOCH})
"""The checks that fail without an entry."""
_ERRORS: dict[Check, ErrorCode] = {
    Check.NAMED: ErrorCode.INVALID_REQUEST,
    Check.KNOWN: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    Check.SAME_PRODUCER: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    Check.SAME_OR_ROTATED_PRODUCER: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    Check.SAME_EPOCH: ErrorCode.PRODUCER_FENCED,
    Check.NOT_PREPARED: ErrorCode.CONCURRENT_TRANSACTIONS,
}
