"""KIP-890's page: its tables where they differ from Kafka 4.4."""

from __future__ import annotations

from odradek.releases.dialects.tables import Tables
from odradek.txn.checks import Check, CheckOfOwn, Claim, Operation
from odradek.txn.end_table import EndAction
from odradek.txn.entry import Entry
from odradek.txn.states import PREPARED, EpochRelation, Outcome, TxnState
from odradek.txn.verification_errors import TransactionOperation
from odradek.wire.errors import ErrorCode

__all__ = ["NOT_NEXT", "RETRIABLE", "TABLES"]


def _is_not_next(claim: Claim, entry: Entry | None) -> bool:
    return entry is None or entry.state not in PREPARED or claim.producer_id != entry.next_producer_id


NOT_NEXT = CheckOfOwn(
    "the producer id is not the one that waits for the markers of the last",
    ErrorCode.CONCURRENT_TRANSACTIONS,
    _is_not_next,
)

RETRIABLE = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)

TABLES = Tables(
    # PREPARE: a retry that is one epoch behind, with the same outcome, is answered with the new epoch. A request with
    # the new epoch has to wait for the markers.
    checks={Operation.END_BUMPING: (Check.NAMED, Check.KNOWN, NOT_NEXT, Check.SAME_OR_ROTATED_PRODUCER)},
    end_txn_bumping={
        (TxnState.PREPARE_COMMIT, Outcome.COMMIT, EpochRelation.BUMPED_RETRY): EndAction.REPLAY,
        (TxnState.PREPARE_ABORT, Outcome.ABORT, EpochRelation.BUMPED_RETRY): EndAction.REPLAY,
        **{
            (state, outcome, EpochRelation.CURRENT): ErrorCode.CONCURRENT_TRANSACTIONS
            for state in PREPARED
            for outcome in Outcome
        },
    },
    # "Tv 1 on server + old end txn -> tv 1 in record; Tv 2 on server + old end txn -> tv 1 in record."
    end_client_versions={(1, False): 1, (2, False): 1},
    # "This value is used in the Prepare and Complete states": not before.
    add_client_versions={2: 0},
    # "All the retriable errors will be converted to COORDINATOR_NOT_AVAILABLE."
    offset_commit_errors={
        (TransactionOperation.DEFAULT_ERROR, error): ErrorCode.COORDINATOR_NOT_AVAILABLE for error in RETRIABLE
    },
)
