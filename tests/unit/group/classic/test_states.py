from __future__ import annotations

from itertools import product

import pytest

from odradek.group.classic.states import (
    ALLOWED,
    HEARTBEAT,
    REBALANCEABLE,
    REJOIN,
    REPLACE,
    SYNC,
    GroupState,
    Rejoin,
    Replace,
    Sync,
)
from odradek.wire.errors import ErrorCode

EMPTY = GroupState.EMPTY
PREPARING = GroupState.PREPARING_REBALANCE
COMPLETING = GroupState.COMPLETING_REBALANCE
STABLE = GroupState.STABLE
DEAD = GroupState.DEAD


def test_states_have_the_names_that_admin_clients_parse() -> None:
    names = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]
    assert names == [state.value for state in GroupState]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (PREPARING, EMPTY),
        (EMPTY, PREPARING),
        (STABLE, PREPARING),
        (COMPLETING, PREPARING),
        (PREPARING, COMPLETING),
        (COMPLETING, STABLE),
        *((state, DEAD) for state in GroupState),
    ],
)
def test_allowed_transitions(before: GroupState, after: GroupState) -> None:
    assert before in ALLOWED[after]


def test_no_other_transition_is_allowed() -> None:
    assert 11 == sum(before in ALLOWED[after] for before, after in product(GroupState, GroupState))


def test_every_state_but_the_dead_can_rebalance_unless_it_does() -> None:
    assert {EMPTY, COMPLETING, STABLE} == set(REBALANCEABLE)


REJOIN_ROWS = {
    (EMPTY, False, False): Rejoin.UNKNOWN,
    (EMPTY, False, True): Rejoin.UNKNOWN,
    (EMPTY, True, False): Rejoin.UNKNOWN,
    (EMPTY, True, True): Rejoin.UNKNOWN,
    (PREPARING, False, False): Rejoin.UPDATE,
    (PREPARING, False, True): Rejoin.UPDATE,
    (PREPARING, True, False): Rejoin.UPDATE,
    (PREPARING, True, True): Rejoin.UPDATE,
    (COMPLETING, False, False): Rejoin.CURRENT,
    (COMPLETING, False, True): Rejoin.UPDATE,
    (COMPLETING, True, False): Rejoin.CURRENT,
    (COMPLETING, True, True): Rejoin.UPDATE,
    (STABLE, False, False): Rejoin.CURRENT,
    (STABLE, False, True): Rejoin.UPDATE,
    (STABLE, True, False): Rejoin.UPDATE,
    (STABLE, True, True): Rejoin.UPDATE,
    (DEAD, False, False): Rejoin.UNAVAILABLE,
    (DEAD, False, True): Rejoin.UNAVAILABLE,
    (DEAD, True, False): Rejoin.UNAVAILABLE,
    (DEAD, True, True): Rejoin.UNAVAILABLE,
}


def test_rejoin_rows() -> None:
    assert REJOIN_ROWS == REJOIN


def test_replace_rows() -> None:
    expected = {
        (STABLE, False): Replace.STORE,
        (STABLE, True): Replace.REBALANCE,
        (COMPLETING, False): Replace.REBALANCE,
        (COMPLETING, True): Replace.REBALANCE,
        (PREPARING, False): Replace.COMPLETE,
        (PREPARING, True): Replace.COMPLETE,
    }
    assert expected == REPLACE


def test_sync_rows() -> None:
    expected = {
        EMPTY: Sync.UNKNOWN,
        PREPARING: Sync.REBALANCE,
        COMPLETING: Sync.WAIT,
        STABLE: Sync.ANSWER,
        DEAD: Sync.UNAVAILABLE,
    }
    assert expected == SYNC


def test_heartbeat_rows() -> None:
    expected = {
        EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
        PREPARING: ErrorCode.REBALANCE_IN_PROGRESS,
        COMPLETING: ErrorCode.NONE,
        STABLE: ErrorCode.NONE,
        DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
    assert expected == HEARTBEAT
