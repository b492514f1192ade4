"""Every row of the EndTxn tables, against the answers of Kafka 4.4."""

from itertools import product

import pytest

from odradek.txn.decision_tables import SHIPPED
from odradek.txn.end_table import END_TXN, END_TXN_BUMPING, EndAction, EndAnswer
from odradek.txn.states import EpochRelation, Outcome, TxnState
from odradek.wire.errors import ErrorCode

ANSWERS: dict[str, EndAnswer] = {
    "48": ErrorCode.INVALID_TXN_STATE,
    "51": ErrorCode.CONCURRENT_TRANSACTIONS,
    "90": ErrorCode.PRODUCER_FENCED,
    "-1": ErrorCode.UNKNOWN_SERVER_ERROR,
    "prepare": EndAction.PREPARE,
    "empty": EndAction.PREPARE_EMPTY,
    "ok": EndAction.REPLAY,
}

OLD = """
    EMPTY               48       48
    ONGOING             prepare  prepare
    PREPARE_COMMIT      51       48
    PREPARE_ABORT       48       51
    COMPLETE_COMMIT     ok       48
    COMPLETE_ABORT      48       ok
    DEAD                -1       -1
    PREPARE_EPOCH_FENCE -1       -1
"""
"""EndTxn v0-4 with the present epoch: commit, abort."""

BUMPING = """
    EMPTY               48       90   90   empty    90   90
    ONGOING             prepare  90   90   prepare  90   90
    PREPARE_COMMIT      90       51   90   90       48   90
    PREPARE_ABORT       90       48   90   90       51   90
    COMPLETE_COMMIT     48       ok   ok   empty    48   48
    COMPLETE_ABORT      48       48   48   empty    ok   ok
    DEAD                -1       90   90   -1       90   90
    PREPARE_EPOCH_FENCE -1       90   90   -1       90   90
"""
"""EndTxn v5: commit with the present epoch, as a bumped retry, as an overflow retry; the same for abort."""

RETRIES = (EpochRelation.CURRENT, EpochRelation.BUMPED_RETRY, EpochRelation.OVERFLOW_RETRY)


def rows(text: str) -> list[tuple[TxnState, list[EndAnswer]]]:
    lines = [line.split() for line in text.strip().splitlines()]
    return [(TxnState[state], [ANSWERS[answer] for answer in answers]) for state, *answers in lines]


@pytest.mark.parametrize(("state", "answers"), rows(OLD))
def test_old_end_txn(state: TxnState, answers: list[EndAnswer]) -> None:
    for outcome, answer in zip((Outcome.COMMIT, Outcome.ABORT), answers, strict=True):
        assert answer is END_TXN[state, outcome, EpochRelation.CURRENT]
        for relation in set(EpochRelation) - {EpochRelation.CURRENT}:
            assert ErrorCode.PRODUCER_FENCED is END_TXN[state, outcome, relation]


@pytest.mark.parametrize(("state", "answers"), rows(BUMPING))
def test_bumping_end_txn(state: TxnState, answers: list[EndAnswer]) -> None:
    for (outcome, relation), answer in zip(product((Outcome.COMMIT, Outcome.ABORT), RETRIES), answers, strict=True):
        assert answer is END_TXN_BUMPING[state, outcome, relation]
    behind = {(TxnState.COMPLETE_COMMIT, Outcome.ABORT), (TxnState.COMPLETE_ABORT, Outcome.COMMIT)}
    for outcome in Outcome:
        expected = ErrorCode.INVALID_TXN_STATE if (state, outcome) in behind else ErrorCode.PRODUCER_FENCED
        assert expected is END_TXN_BUMPING[state, outcome, EpochRelation.ONE_BEHIND]
    for outcome, relation in product(Outcome, (EpochRelation.STALE, EpochRelation.FUTURE)):
        assert ErrorCode.PRODUCER_FENCED is END_TXN_BUMPING[state, outcome, relation]


@pytest.mark.parametrize("table", [END_TXN, END_TXN_BUMPING])
def test_no_row_is_missing(table: dict[tuple[TxnState, Outcome, EpochRelation], EndAnswer]) -> None:
    assert set(product(TxnState, Outcome, EpochRelation)) == set(table)


@pytest.mark.parametrize(("version", "bumps"), [(0, False), (4, False), (5, True)])
def test_the_version_of_the_request_picks_the_table(version: int, bumps: bool) -> None:
    assert bumps == (version >= SHIPPED.since.end_bumps)
    assert bumps == (SHIPPED.bumping if bumps else SHIPPED.keeping).bumps
