"""The states of a classic group and its answers in each, as tables.

Kafka's `ClassicGroupState` names the states.
A state is volatile: the log only has the last generation, and a new coordinator begins in `STABLE` or, without members,
in `EMPTY`.
Each table is keyed by small enums, so that every row can be listed; guards are computed before the lookup.
"""

from __future__ import annotations

from enum import Enum
from itertools import product

from odradek.wire.errors import ErrorCode

__all__ = [
    "ALLOWED",
    "HEARTBEAT",
    "REBALANCEABLE",
    "REJOIN",
    "REPLACE",
    "SYNC",
    "GroupState",
    "Rejoin",
    "Replace",
    "Sync",
]


class GroupState(Enum):
    """The progress of a group's rebalance."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_EMPTY = GroupState.EMPTY
_PREPARING = GroupState.PREPARING_REBALANCE
_COMPLETING = GroupState.COMPLETING_REBALANCE
_STABLE = GroupState.STABLE
_DEAD = GroupState.DEAD

ALLOWED: dict[GroupState, frozenset[GroupState]] = {
    _EMPTY: frozenset({_PREPARING}),
    _PREPARING: frozenset({_STABLE, _COMPLETING, _EMPTY}),
    _COMPLETING: frozenset({_PREPARING}),
    _STABLE: frozenset({_COMPLETING}),
    _DEAD: frozenset({_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD}),
}
"""For each state the states before it (Kafka's `validPreviousStates`)."""

REBALANCEABLE = ALLOWED[_PREPARING]
"""States in which a change of membership starts a rebalance; in `PREPARING_REBALANCE` one is under way."""


class Rejoin(Enum):
    """The effect of a JoinGroup from a known member."""

    UPDATE = "take the new metadata and rebalance"
    CURRENT = "answer the current generation"
    UNKNOWN = "UNKNOWN_MEMBER_ID"
    UNAVAILABLE = "COORDINATOR_NOT_AVAILABLE"


def _rejoin(state: GroupState, leader: bool, changed: bool) -> Rejoin:
    match state:
        case GroupState.PREPARING_REBALANCE:
            return Rejoin.UPDATE
        case GroupState.COMPLETING_REBALANCE:
            # Unchanged: most likely the answer to the first JoinGroup was lost.
            return Rejoin.UPDATE if changed else Rejoin.CURRENT
        case GroupState.STABLE:
            # A leader rejoins when the topics have changed, which its metadata need not show.
            return Rejoin.UPDATE if leader or changed else Rejoin.CURRENT
        case GroupState.EMPTY:
            return Rejoin.UNKNOWN
        case GroupState.DEAD:
            return Rejoin.UNAVAILABLE


REJOIN: dict[tuple[GroupState, bool, bool], Rejoin] = {
    row: _rejoin(*row) for row in product(GroupState, (False, True), (False, True))
}
"""By state, whether the member is the leader, and whether its protocols have changed."""


class Replace(Enum):
    """The effect of a static member that returns with a new member id (KIP-345)."""

    STORE = "keep the generation, store the new member id"
    REBALANCE = "rebalance"
    COMPLETE = "complete the rebalance if this was the last member it waited for"


REPLACE: dict[tuple[GroupState, bool], Replace] = {
    (_STABLE, False): Replace.STORE,
    (_STABLE, True): Replace.REBALANCE,
    # The leader may already be assigning partitions to the old member id.
    (_COMPLETING, False): Replace.REBALANCE,
    (_COMPLETING, True): Replace.REBALANCE,
    (_PREPARING, False): Replace.COMPLETE,
    (_PREPARING, True): Replace.COMPLETE,
}
"""By state, and whether the group would now select another protocol; a group without members has nothing to replace."""


class Sync(Enum):
    """The effect of a member's valid SyncGroup."""

    WAIT = "wait for the leader's assignment, or bring it"
    ANSWER = "answer the member's assignment"
    REBALANCE = "REBALANCE_IN_PROGRESS"
    UNKNOWN = "UNKNOWN_MEMBER_ID"
    UNAVAILABLE = "COORDINATOR_NOT_AVAILABLE"


SYNC: dict[GroupState, Sync] = {
    _EMPTY: Sync.UNKNOWN,
    _PREPARING: Sync.REBALANCE,
    _COMPLETING: Sync.WAIT,
    _STABLE: Sync.ANSWER,
    _DEAD: Sync.UNAVAILABLE,
}

HEARTBEAT: dict[GroupState, ErrorCode] = {
    _EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    _PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
    # Members may send heartbeats as soon as they have their JoinGroup answer.
    _COMPLETING: ErrorCode.NONE,
    _STABLE: ErrorCode.NONE,
    _DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""The answer to a heartbeat of a known member with the current generation."""
