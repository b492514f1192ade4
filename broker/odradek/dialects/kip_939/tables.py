"""KIP-939: what its tables say otherwise than Kafka 4.4, which has the fields of InitProducerId 6 and refuses them."""

from __future__ import annotations

from odradek.dialects.tables import InitRow, Tables
from odradek.txn.checks import CHECKS, CheckOfOwn, Claim, Operation
from odradek.txn.entry import Entry
from odradek.txn.init_table import INIT, InitAction, InitAnswer, InitRelation
from odradek.txn.states import TxnState
from odradek.wire.errors import ErrorCode

__all__ = ["NOT_KEPT", "TABLES"]


def _is_not_kept(claim: Claim, entry: Entry | None) -> bool:
    return entry is None or not entry.is_kept


NOT_KEPT = CheckOfOwn("the transaction is its owner's own, not kept", ErrorCode.INVALID_TXN_STATE, _is_not_kept)
"""After keeping one may only commit and abort. That is the client's promise; here the coordinator holds it to that."""


def _init_keeping() -> dict[InitRow, InitAnswer]:
    """As without keeping, but where a transaction is open: there its owner gets the next epoch and it stays."""
    rows = dict(INIT)
    for relation in InitRelation:
        may_keep = relation in (InitRelation.NEW_INSTANCE, InitRelation.CURRENT)
        rows[TxnState.ONGOING, relation, False] = InitAction.KEEP if may_keep else ErrorCode.PRODUCER_FENCED
        rows[TxnState.ONGOING, relation, True] = InitAction.KEEP_ROTATING if may_keep else ErrorCode.PRODUCER_FENCED
    return rows


TABLES = Tables(
    request_checks={"no prepared transaction is to be kept": None},
    init_keeping=_init_keeping(),
    checks={
        operation: (*CHECKS[operation], NOT_KEPT)
        for operation in (Operation.ADD, Operation.ADD_BEFORE_4_0, Operation.VERIFY)
    },
)
