"""The end-transaction markers that a partition accepts: classify, then look up (KIP-98; KIP-890, "Bump Epoch").

Commit and abort are treated alike: the sender of a marker with a valid epoch has decided.
"""

from __future__ import annotations

from enum import Enum, auto

from odradek.wire.errors import ErrorCode

__all__ = ["ADMIT_MARKER", "PRODUCER_EPOCH_MAX", "MarkerEpoch", "MarkerRule", "TransactionHere", "admit_marker"]

PRODUCER_EPOCH_MAX = 32767
_EPOCH_BUMP_SINCE = 2
"""The `transaction.version` from which a marker carries the bumped epoch."""


class MarkerRule(Enum):
    """The rule for the marker's transaction version; a replay knows no version, and takes the older rule."""

    SAME_EPOCH = auto()
    BUMPED_EPOCH = auto()

    __hash__ = object.__hash__


class MarkerEpoch(Enum):
    """The marker's epoch compared with the one in the log; an unknown producer has the lowest."""

    OLDER = auto()
    SAME = auto()
    NEWER = auto()

    __hash__ = object.__hash__


class TransactionHere(Enum):
    """Whether the marker finds a transaction to end."""

    OPEN = auto()
    NONE = auto()

    __hash__ = object.__hash__


_OK, _FENCED = ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH

ADMIT_MARKER: dict[tuple[MarkerRule, MarkerEpoch, TransactionHere], ErrorCode] = {
    (MarkerRule.SAME_EPOCH, MarkerEpoch.OLDER, TransactionHere.OPEN): _FENCED,
    (MarkerRule.SAME_EPOCH, MarkerEpoch.OLDER, TransactionHere.NONE): _FENCED,
    (MarkerRule.SAME_EPOCH, MarkerEpoch.SAME, TransactionHere.OPEN): _OK,
    (MarkerRule.SAME_EPOCH, MarkerEpoch.SAME, TransactionHere.NONE): _OK,
    (MarkerRule.SAME_EPOCH, MarkerEpoch.NEWER, TransactionHere.OPEN): _OK,
    (MarkerRule.SAME_EPOCH, MarkerEpoch.NEWER, TransactionHere.NONE): _OK,
    (MarkerRule.BUMPED_EPOCH, MarkerEpoch.OLDER, TransactionHere.OPEN): _FENCED,
    (MarkerRule.BUMPED_EPOCH, MarkerEpoch.OLDER, TransactionHere.NONE): _FENCED,
    # A late marker of the transaction before must not end the one that is open with its epoch ...
    (MarkerRule.BUMPED_EPOCH, MarkerEpoch.SAME, TransactionHere.OPEN): _FENCED,
    # ... but if no transaction is open it is a retry whose answer was lost, and is written again (KAFKA-19999).
    (MarkerRule.BUMPED_EPOCH, MarkerEpoch.SAME, TransactionHere.NONE): _OK,
    (MarkerRule.BUMPED_EPOCH, MarkerEpoch.NEWER, TransactionHere.OPEN): _OK,
    (MarkerRule.BUMPED_EPOCH, MarkerEpoch.NEWER, TransactionHere.NONE): _OK,
}


def admit_marker(*, epoch: int, stored_epoch: int, is_open: bool, transaction_version: int) -> ErrorCode:
    """Whether a marker with this epoch is valid for a producer whose last epoch here is `stored_epoch`."""
    rule = MarkerRule.BUMPED_EPOCH if transaction_version >= _EPOCH_BUMP_SINCE else MarkerRule.SAME_EPOCH
    # At the last epoch there is nothing left to bump to, so the marker of an exhausted producer id may come again.
    here = TransactionHere.OPEN if is_open and epoch < PRODUCER_EPOCH_MAX else TransactionHere.NONE
    if epoch == stored_epoch:
        relation = MarkerEpoch.SAME
    else:
        relation = MarkerEpoch.NEWER if epoch > stored_epoch else MarkerEpoch.OLDER
    return ADMIT_MARKER[rule, relation, here]
