"""The smaller draft of KIP-939: keeping answers the pair of the open transaction, and changes nothing."""

from __future__ import annotations

from odradek.releases.dialects.tables import InitRow, Tables
from odradek.txn.init_table import INIT, InitAction, InitAnswer, InitRelation, RequestCheck
from odradek.txn.states import TxnState
from odradek.wire.errors import ErrorCode

__all__ = ["TABLES"]

KEEPERS = (InitRelation.NEW_INSTANCE, InitRelation.CURRENT)


def _init_keeping() -> dict[InitRow, InitAnswer]:
    """The rows of INIT, except for an open transaction, which a newcomer or its owner goes on with."""
    rows = dict(INIT)
    for relation in InitRelation:
        for exhausted in (False, True):
            keeps = relation in KEEPERS
            rows[TxnState.ONGOING, relation, exhausted] = InitAction.ANSWER if keeps else ErrorCode.PRODUCER_FENCED
    return rows


TABLES = Tables(
    request_checks={
        "no prepared transaction is to be kept": RequestCheck(
            "a transaction that is kept has two-phase commit",
            ErrorCode.INVALID_REQUEST,
            lambda request, config: request.enable2_pc or not request.keep_prepared_txn,
        )
    },
    init_keeping=_init_keeping(),
)
