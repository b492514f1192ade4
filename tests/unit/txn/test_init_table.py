"""Every row of the InitProducerId table, and the checks of the request itself."""

from itertools import product

import pytest

from odradek.config.table import Config
from odradek.txn.entry import TIMEOUT_NEVER, Entry
from odradek.txn.init_table import (
    INIT,
    InitAction,
    InitAnswer,
    InitRelation,
    init_relation,
    init_timeout,
    request_refusal,
)
from odradek.txn.states import TxnState
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest

RESTING = {
    InitRelation.NEW_INSTANCE: (InitAction.BUMP, InitAction.ROTATE),
    InitRelation.CURRENT: (InitAction.BUMP_KEEPING_LAST, InitAction.ROTATE_KEEPING_LAST),
    InitRelation.RETRY: (InitAction.REPLAY, InitAction.REPLAY),
    InitRelation.STALE: (ErrorCode.PRODUCER_FENCED, ErrorCode.UNKNOWN_SERVER_ERROR),
    InitRelation.STRANGER: (ErrorCode.PRODUCER_FENCED, ErrorCode.PRODUCER_FENCED),
}
OPEN: dict[TxnState, InitAnswer] = {
    TxnState.ONGOING: InitAction.FENCE,
    TxnState.PREPARE_COMMIT: ErrorCode.CONCURRENT_TRANSACTIONS,
    TxnState.PREPARE_ABORT: ErrorCode.CONCURRENT_TRANSACTIONS,
}
NEVER = (TxnState.DEAD, TxnState.PREPARE_EPOCH_FENCE)


@pytest.mark.parametrize("state", [TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT])
@pytest.mark.parametrize(("relation", "answers"), RESTING.items())
def test_resting_states(state: TxnState, relation: InitRelation, answers: tuple[InitAnswer, InitAnswer]) -> None:
    assert answers == (INIT[state, relation, False], INIT[state, relation, True])


@pytest.mark.parametrize(("state", "answer"), OPEN.items())
def test_open_and_prepared_states(state: TxnState, answer: InitAnswer) -> None:
    for relation, exhausted in product(InitRelation, (False, True)):
        expected = ErrorCode.PRODUCER_FENCED if relation is InitRelation.STRANGER else answer
        assert expected is INIT[state, relation, exhausted]


def test_no_row_is_missing_and_no_id_is_ever_dead() -> None:
    assert set(product(TxnState, InitRelation, (False, True))) == set(INIT)
    for state, relation, exhausted in product(NEVER, InitRelation, (False, True)):
        assert ErrorCode.UNKNOWN_SERVER_ERROR is INIT[state, relation, exhausted]


@pytest.mark.parametrize(
    ("pair", "relation"),
    [
        ((-1, -1), InitRelation.NEW_INSTANCE),
        ((20, 0), InitRelation.CURRENT),
        ((20, 32766), InitRelation.RETRY),
        ((20, 7), InitRelation.STALE),
        ((10, 32766), InitRelation.RETRY),
        ((10, 32767), InitRelation.STALE),
        ((10, 32765), InitRelation.STRANGER),
        ((99, 32766), InitRelation.STRANGER),
        ((99, 0), InitRelation.STRANGER),
    ],
)
def test_relations_right_after_a_rotation(pair: tuple[int, int], relation: InitRelation) -> None:
    entry = Entry(
        transactional_id="x",
        producer_id=20,
        producer_epoch=0,
        timeout_ms=1,
        state=TxnState.EMPTY,
        last_update_timestamp=0,
        previous_producer_id=10,
        last_producer_epoch=32766,
    )
    request = InitProducerIdRequest(transactional_id="x", producer_id=pair[0], producer_epoch=pair[1])
    assert relation is init_relation(request, entry)


TWO_PHASE = Config(transaction_two_phase_commit_enable=True)


@pytest.mark.parametrize(
    ("fields", "config", "error"),
    [
        ({}, Config(), None),
        ({"producer_id": 5}, Config(), 42),
        ({"producer_epoch": 5}, Config(), 42),
        ({"producer_id": 5, "producer_epoch": 0}, Config(), None),
        ({"transactional_id": "", "transaction_timeout_ms": 0}, Config(), 42),
        ({"enable2_pc": True, "keep_prepared_txn": True}, Config(), 53),
        ({"keep_prepared_txn": True, "transaction_timeout_ms": 0}, Config(), 35),
        ({"enable2_pc": True, "keep_prepared_txn": True}, TWO_PHASE, 35),
        ({"enable2_pc": True, "transaction_timeout_ms": -5}, TWO_PHASE, None),
        ({"transaction_timeout_ms": 0}, Config(), 50),
        ({"transaction_timeout_ms": -1}, Config(), 50),
        ({"transaction_timeout_ms": 900_000}, Config(), None),
        ({"transaction_timeout_ms": 900_001}, Config(), 50),
        ({"transactional_id": None, "transaction_timeout_ms": 0}, Config(), None),
        ({"transactional_id": None, "producer_id": 5}, Config(), 42),
    ],
)
def test_request_checks_in_order(fields: dict[str, object], config: Config, error: int | None) -> None:
    values = {"transactional_id": "x", "transaction_timeout_ms": 60_000} | fields
    refused = request_refusal(InitProducerIdRequest(**values), config)  # type: ignore[arg-type]
    assert error == (None if refused is None else refused.error)


def test_a_two_phase_commit_has_no_timeout() -> None:
    assert TIMEOUT_NEVER == init_timeout(InitProducerIdRequest(transaction_timeout_ms=-5, enable2_pc=True))
    assert 60_000 == init_timeout(InitProducerIdRequest(transaction_timeout_ms=60_000))
