"""KIP-939: its tables where they differ from Kafka 4.4, which has the fields of InitProducerId 6 and refuses them."""

from __future__ import annotations

from odradek.releases.dialects.tables import InitRow, Tables
from odradek.txn.checks import CHECKS, CheckOfOwn, Claim, Operation
from odradek.txn.entry import Entry
from odradek.txn.init_table import INIT, InitAction, InitAnswer, InitRelation
from odradek.txn.states import TxnState
from odradek.wire.errors import ErrorCode

__all__ = ["NOT_KEPT", "TABLES"]


def _is_not_kept(claim: Claim, entry: Entry | None) -> bool:
    return entry is None or not entry.is_kept


NOT_KEPT = CheckOfOwn("the transaction is its owner's own, not kept", ErrorCode.INVALID_TXN_STATE, _is_not_kept)
"""A kept transaction may only be committed or aborted; the KIP leaves that to the client, we to the coordinator."""


def _init_keeping() -> dict[InitRow, InitAnswer]:
    """The rows of INIT, except for an open transaction: its owner gets the next epoch, and it stays open."""
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
