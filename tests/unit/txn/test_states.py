"""The states, and which may follow which."""

from odradek.txn.states import ALLOWED, COMPLETED_STATES, OUTCOMES, PREPARED_STATES, STATE_NAMES, Outcome, TxnState

KAFKA = {
    "Empty": {"Empty", "CompleteCommit", "CompleteAbort"},
    "Ongoing": {"Ongoing", "Empty", "CompleteCommit", "CompleteAbort"},
    "PrepareCommit": {"Ongoing"},
    "PrepareAbort": {"Ongoing", "PrepareEpochFence", "Empty", "CompleteCommit", "CompleteAbort"},
    "CompleteCommit": {"PrepareCommit"},
    "CompleteAbort": {"PrepareAbort"},
    "Dead": {"Empty", "CompleteCommit", "CompleteAbort"},
    "PrepareEpochFence": {"Ongoing"},
}


def test_allowed_are_the_valid_previous_states_of_kafka() -> None:
    allowed = {state.title: {before.title for before in previous} for state, previous in ALLOWED.items()}
    assert KAFKA == allowed


def test_ids_and_names_are_those_of_the_log_and_the_apis() -> None:
    names = list(KAFKA)
    assert names == [state.title for state in sorted(TxnState)]
    assert set(names) == set(STATE_NAMES)


def test_an_outcome_leads_through_its_prepared_to_its_completed_state() -> None:
    assert TxnState.COMPLETE_COMMIT is COMPLETED_STATES[PREPARED_STATES[OUTCOMES[True]]]
    assert TxnState.COMPLETE_ABORT is COMPLETED_STATES[PREPARED_STATES[Outcome.ABORT]]
