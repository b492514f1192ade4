"""The states of a transactional id, and their permitted order (Kafka's `TransactionState`).

Three small enums classify a request; they are the keys of `end_table` and `init_table`.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from types import MappingProxyType

__all__ = [
    "ALLOWED",
    "EXPIRABLE",
    "PREPARED",
    "RESTING",
    "STATE_NAMES",
    "EpochRelation",
    "Outcome",
    "TxnState",
    "COMPLETED_STATES",
    "OUTCOMES",
    "PREPARED_STATES",
]


class TxnState(IntEnum):
    """The value is the status byte of the transaction log; `DEAD` and `PREPARE_EPOCH_FENCE` are never stored."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    # Tables are keyed by states: Enum's own hash is a function in Python.
    __hash__ = int.__hash__

    @property
    def title(self) -> str:
        """The name that the APIs show."""
        return _TITLES[self]


class Outcome(Enum):
    """The outcome of a transaction."""

    COMMIT = "commit"
    ABORT = "abort"

    __hash__ = object.__hash__


class EpochRelation(Enum):
    """The producer id and epoch of an EndTxn compared with those of the transactional id.

    The epochs alone identify the two retries, without any memory of requests, so a new coordinator finds them too
    (KIP-890,
    "Bump Epoch on Each Transaction for New Clients").
    """

    CURRENT = "current"
    BUMPED_RETRY = "bumped retry"
    """One below: the transaction that this request ended has bumped the epoch."""
    OVERFLOW_RETRY = "overflow retry"
    """The last epoch of the previous producer id: the end of that transaction moved on to the present producer id."""
    ONE_BEHIND = "one behind"
    """One below, and no retry: the last transaction used the present epoch, and kept it."""
    STALE = "stale"
    FUTURE = "future"

    __hash__ = object.__hash__


_TITLES = MappingProxyType(
    {
        TxnState.EMPTY: "Empty",
        TxnState.ONGOING: "Ongoing",
        TxnState.PREPARE_COMMIT: "PrepareCommit",
        TxnState.PREPARE_ABORT: "PrepareAbort",
        TxnState.COMPLETE_COMMIT: "CompleteCommit",
        TxnState.COMPLETE_ABORT: "CompleteAbort",
        TxnState.DEAD: "Dead",
        TxnState.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
    }
)

STATE_NAMES = MappingProxyType({title: state for state, title in _TITLES.items()})
"""States by their names in the APIs."""

RESTING = frozenset({TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT})
"""No transaction is open and none is ending."""

PREPARED = frozenset({TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT})
"""The outcome is decided, and markers are owed. Kafka has a pending transition to Complete all the while."""

EXPIRABLE = RESTING
"""An id in these states may expire."""

ALLOWED = MappingProxyType(
    {
        TxnState.EMPTY: RESTING,
        TxnState.ONGOING: RESTING | {TxnState.ONGOING},
        TxnState.PREPARE_COMMIT: frozenset({TxnState.ONGOING}),
        TxnState.PREPARE_ABORT: RESTING | {TxnState.ONGOING, TxnState.PREPARE_EPOCH_FENCE},
        TxnState.COMPLETE_COMMIT: frozenset({TxnState.PREPARE_COMMIT}),
        TxnState.COMPLETE_ABORT: frozenset({TxnState.PREPARE_ABORT}),
        TxnState.DEAD: EXPIRABLE,
        TxnState.PREPARE_EPOCH_FENCE: frozenset({TxnState.ONGOING}),
    }
)
"""For each state its permitted previous states (Kafka's valid previous states)."""

PREPARED_STATES = MappingProxyType({Outcome.COMMIT: TxnState.PREPARE_COMMIT, Outcome.ABORT: TxnState.PREPARE_ABORT})
"""The state in which markers of an outcome are owed."""

COMPLETED_STATES = MappingProxyType(
    {TxnState.PREPARE_COMMIT: TxnState.COMPLETE_COMMIT, TxnState.PREPARE_ABORT: TxnState.COMPLETE_ABORT}
)
"""The state of a prepared transaction after its last marker."""

OUTCOMES = (Outcome.ABORT, Outcome.COMMIT)
"""The outcome for a request's flag `committed`."""
