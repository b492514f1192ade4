"""The effect of EndTxn, by state, outcome and epoch relation (Kafka's `TransactionCoordinator.endTransaction`).

The version of the request selects the table, not the finalized level of the feature:
up to v4 a transaction ends in its own epoch, from v5 on its end bumps the epoch (KIP-890).
The tables are complete, with rows that the checks before them make unreachable.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import product
from types import MappingProxyType

from msgspec import Struct

from odradek.txn.checks import Condition
from odradek.txn.states import EpochRelation, Outcome, TxnState
from odradek.wire.errors import ErrorCode

__all__ = [
    "ADD_CLIENT_VERSIONS",
    "END_CLIENT_VERSIONS",
    "END_TXN",
    "END_TXN_BUMPING",
    "EndAction",
    "EndAnswer",
    "EndProtocol",
    "EndTable",
]


class EndAction(Enum):
    """The effect of a request that is not refused."""

    PREPARE = "prepare"
    """Decide the outcome of the open transaction."""
    PREPARE_EMPTY = "abort of nothing"
    """No transaction was open: bump the epoch all the same; no partition gets a marker."""
    REPLAY = "answer again"
    """Repeat the answer to a retry."""


EndAnswer = EndAction | ErrorCode
EndTable = Mapping[tuple[TxnState, Outcome, EpochRelation], EndAnswer]

_BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
_WRONG_STATE = ErrorCode.INVALID_TXN_STATE
_FENCED = ErrorCode.PRODUCER_FENCED
_NEVER = ErrorCode.UNKNOWN_SERVER_ERROR
"""States that no stored id has."""

_COMMIT, _ABORT = Outcome.COMMIT, Outcome.ABORT
_CURRENT, _BUMPED, _OVERFLOW = EpochRelation.CURRENT, EpochRelation.BUMPED_RETRY, EpochRelation.OVERFLOW_RETRY


def _end_txn() -> EndTable:
    # The check of the epoch comes before the table, so that only the present one reaches it.
    answers: dict[tuple[TxnState, Outcome], EndAnswer] = {
        (TxnState.EMPTY, _COMMIT): _WRONG_STATE,
        (TxnState.EMPTY, _ABORT): _WRONG_STATE,
        (TxnState.ONGOING, _COMMIT): EndAction.PREPARE,
        (TxnState.ONGOING, _ABORT): EndAction.PREPARE,
        (TxnState.PREPARE_COMMIT, _COMMIT): _BUSY,
        (TxnState.PREPARE_COMMIT, _ABORT): _WRONG_STATE,
        (TxnState.PREPARE_ABORT, _COMMIT): _WRONG_STATE,
        (TxnState.PREPARE_ABORT, _ABORT): _BUSY,
        (TxnState.COMPLETE_COMMIT, _COMMIT): EndAction.REPLAY,
        (TxnState.COMPLETE_COMMIT, _ABORT): _WRONG_STATE,
        (TxnState.COMPLETE_ABORT, _COMMIT): _WRONG_STATE,
        (TxnState.COMPLETE_ABORT, _ABORT): EndAction.REPLAY,
        (TxnState.DEAD, _COMMIT): _NEVER,
        (TxnState.DEAD, _ABORT): _NEVER,
        (TxnState.PREPARE_EPOCH_FENCE, _COMMIT): _NEVER,
        (TxnState.PREPARE_EPOCH_FENCE, _ABORT): _NEVER,
    }
    return MappingProxyType(
        {
            (state, outcome, relation): answers[state, outcome] if relation is _CURRENT else _FENCED
            for state, outcome, relation in product(TxnState, Outcome, EpochRelation)
        }
    )


def _end_txn_bumping() -> EndTable:
    answers: dict[tuple[TxnState, Outcome, EpochRelation], EndAnswer] = dict.fromkeys(
        product(TxnState, Outcome, EpochRelation), _FENCED
    )
    answers |= {
        (TxnState.EMPTY, _COMMIT, _CURRENT): _WRONG_STATE,
        (TxnState.EMPTY, _ABORT, _CURRENT): EndAction.PREPARE_EMPTY,
        (TxnState.ONGOING, _COMMIT, _CURRENT): EndAction.PREPARE,
        (TxnState.ONGOING, _ABORT, _CURRENT): EndAction.PREPARE,
        (TxnState.PREPARE_COMMIT, _COMMIT, _BUMPED): _BUSY,
        (TxnState.PREPARE_COMMIT, _ABORT, _BUMPED): _WRONG_STATE,
        (TxnState.PREPARE_ABORT, _COMMIT, _BUMPED): _WRONG_STATE,
        (TxnState.PREPARE_ABORT, _ABORT, _BUMPED): _BUSY,
        (TxnState.COMPLETE_COMMIT, _COMMIT, _CURRENT): _WRONG_STATE,
        (TxnState.COMPLETE_COMMIT, _ABORT, _CURRENT): EndAction.PREPARE_EMPTY,
        (TxnState.COMPLETE_ABORT, _COMMIT, _CURRENT): _WRONG_STATE,
        (TxnState.COMPLETE_ABORT, _ABORT, _CURRENT): EndAction.PREPARE_EMPTY,
        (TxnState.DEAD, _COMMIT, _CURRENT): _NEVER,
        (TxnState.DEAD, _ABORT, _CURRENT): _NEVER,
        (TxnState.PREPARE_EPOCH_FENCE, _COMMIT, _CURRENT): _NEVER,
        (TxnState.PREPARE_EPOCH_FENCE, _ABORT, _CURRENT): _NEVER,
        # An end that kept its epoch has bumped nothing: the other outcome is refused as to a retry, and the same one,
        # which Kafka takes for a retry, as to the older instance that asks: it must not learn of its successor's epoch.
        (TxnState.COMPLETE_COMMIT, _ABORT, EpochRelation.ONE_BEHIND): _WRONG_STATE,
        (TxnState.COMPLETE_ABORT, _COMMIT, EpochRelation.ONE_BEHIND): _WRONG_STATE,
    }
    for retry in (_BUMPED, _OVERFLOW):
        answers |= {
            (TxnState.COMPLETE_COMMIT, _COMMIT, retry): EndAction.REPLAY,
            (TxnState.COMPLETE_COMMIT, _ABORT, retry): _WRONG_STATE,
            (TxnState.COMPLETE_ABORT, _COMMIT, retry): _WRONG_STATE,
            (TxnState.COMPLETE_ABORT, _ABORT, retry): EndAction.REPLAY,
        }
    return MappingProxyType(answers)


END_TXN = _end_txn()
"""EndTxn v0-4."""

END_TXN_BUMPING = _end_txn_bumping()
"""EndTxn v5."""


class EndProtocol(Struct, frozen=True):
    """EndTxn in one range of versions."""

    checks: tuple[Condition, ...]
    table: EndTable
    bumps: bool


ADD_CLIENT_VERSIONS: Mapping[int, int] = MappingProxyType({0: 0, 2: 2})
"""The client version in the record of an add: 2 if a broker adds for the client."""

END_CLIENT_VERSIONS: Mapping[tuple[int, bool], int] = MappingProxyType(
    {(level, bumps): 2 if bumps else 0 for level in range(3) for bumps in (False, True)}
)
"""The client version in the record of an end, by the level of transaction.version and whether the end bumps."""
