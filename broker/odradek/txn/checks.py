"""What a request about a transactional id must satisfy before its table is asked: named checks in Kafka's order.

The order shows: a stale EndTxn v4 learns that it is fenced while markers are being written, a v5 one does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
    "Judge",
    "Operation",
    "epoch_relation",
    "judges",
    "refusal",
]


class Claim(Struct, frozen=True, gc=False):
    """Who a request says it is."""

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
    """One condition; the error of those that fail it is in `_RULES`."""

    NAMED = "the transactional id is not empty"
    KNOWN = "the transactional id is known"
    SAME_PRODUCER = "the producer id is the present one"
    SAME_OR_ROTATED_PRODUCER = "the producer id is the present one, or the one before with its last epoch"
    SAME_EPOCH = "the epoch is the present one"
    NOT_PREPARED = "no markers are owed"
    """Nor does a record of the id wait to be committed, but for who only asks."""

    @property
    def meaning(self) -> str:
        """What has to hold."""
        return self.value

    @property
    def error(self) -> ErrorCode:
        """The answer to a request that fails the check."""
        return _RULES[self][0]


class CheckOfOwn(Struct, frozen=True):
    """A condition that Kafka does not have, and a dialect does."""

    meaning: str
    error: ErrorCode
    holds: Callable[[Claim, Entry | None], bool]


Condition = Check | CheckOfOwn
Judge = tuple[ErrorCode, Callable[[Claim, Entry | None], bool]]
"""The answer to those that fail a check, and who passes it."""

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
"""The checks of each operation, in order: the first that fails answers."""


def judges(checks: Iterable[Condition]) -> tuple[Judge, ...]:
    """The checks, ready to be asked."""
    return tuple(_RULES[each] if isinstance(each, Check) else (each.error, each.holds) for each in checks)


def refusal(judges: Iterable[Judge], claim: Claim, entry: Entry | None, *, pending: bool = False) -> Refused | None:
    """The first check that the claim fails; `pending`: a record of the id waits to be committed."""
    for error, holds in judges:
        if not holds(claim, entry) or (pending and holds is _is_not_prepared):
            return Refused(error)
    return None


def epoch_relation(claim: Claim, entry: Entry) -> EpochRelation:
    """How the claim of an EndTxn lies to the entry (KIP-890, "Bump Epoch on Each Transaction for New Clients")."""
    epoch, present = claim.producer_epoch, entry.owner_epoch
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


def _is_named(claim: Claim, entry: Entry | None) -> bool:
    return bool(claim.transactional_id)


def _is_known(claim: Claim, entry: Entry | None) -> bool:
    return entry is not None


def _is_same_producer(claim: Claim, entry: Entry | None) -> bool:
    return entry is not None and claim.producer_id == (
        entry.producer_id if entry.next_producer_epoch == NONE else entry.owner_id
    )


def _is_same_or_rotated_producer(claim: Claim, entry: Entry | None) -> bool:
    return _is_same_producer(claim, entry) or (entry is not None and _is_overflow_retry(claim, entry))


def _is_same_epoch(claim: Claim, entry: Entry | None) -> bool:
    return entry is not None and claim.producer_epoch == (
        entry.producer_epoch if entry.next_producer_epoch == NONE else entry.owner_epoch
    )


def _is_not_prepared(claim: Claim, entry: Entry | None) -> bool:
    return entry is None or entry.state not in PREPARED


_RULES: dict[Check, Judge] = {
    Check.NAMED: (ErrorCode.INVALID_REQUEST, _is_named),
    Check.KNOWN: (ErrorCode.INVALID_PRODUCER_ID_MAPPING, _is_known),
    Check.SAME_PRODUCER: (ErrorCode.INVALID_PRODUCER_ID_MAPPING, _is_same_producer),
    Check.SAME_OR_ROTATED_PRODUCER: (ErrorCode.INVALID_PRODUCER_ID_MAPPING, _is_same_or_rotated_producer),
    Check.SAME_EPOCH: (ErrorCode.PRODUCER_FENCED, _is_same_epoch),
    Check.NOT_PREPARED: (ErrorCode.CONCURRENT_TRANSACTIONS, _is_not_prepared),
}
