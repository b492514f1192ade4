"""KIP-890's older page: its differences from the page of today."""

from __future__ import annotations

from msgspec.structs import replace

from odradek.releases.dialects.tables import Tables
from odradek.txn.decision_tables import ValueFormat
from odradek.txn.entry import NONE, Entry, decode_entry, encode_entry
from odradek.txn.states import PREPARED, TxnState
from odradek.txn.transitions import BUMPING

__all__ = ["TABLES", "decode", "encode"]

_ENDED = PREPARED | {TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT}


def encode(entry: Entry, version: int) -> bytes:
    """A value without a client version; it has the previous id only at the end of a new client's transaction.

    "We use this field to signify that a new client + new server (with epoch bump) set the field." "Once we move past
    the Prepare and Complete states, we don't need to worry about tagged fields and clear them."
    """
    is_new = entry.state in _ENDED and entry.client_transaction_version == BUMPING
    return encode_entry(
        replace(
            entry,
            client_transaction_version=0,
            previous_producer_id=entry.previous_producer_id if is_new else NONE,
            last_producer_epoch=NONE,
            epoch_used=False,
        ),
        version,
    )


def decode(transactional_id: str, data: bytes) -> Entry | None:
    """The entry: a previous id means a new client, and the last epoch is the one below."""
    entry = decode_entry(transactional_id, data)
    if entry is None or entry.state not in _ENDED:
        return entry
    if entry.previous_producer_id == NONE:
        # An older client has used its epoch; a retry with the epoch below is not possible.
        return replace(entry, client_transaction_version=0, epoch_used=True)
    return replace(
        entry, client_transaction_version=BUMPING, last_producer_epoch=entry.producer_epoch - 1, epoch_used=False
    )


TABLES = Tables(
    end_client_versions={(1, False): 0, (2, False): 0},
    value=ValueFormat(encode, decode),
)
