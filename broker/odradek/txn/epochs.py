"""Producer epochs that thousands of transactions would have to pass."""

from __future__ import annotations

from msgspec.structs import replace

from odradek.core.machine import LogRecord
from odradek.txn.decision_tables import rules_of
from odradek.txn.entry import NONE, VALUE_VERSIONS, encode_id
from odradek.txn.shard import TransactionShard
from odradek.txn.states import EXPIRABLE

__all__ = ["force_epoch"]


def force_epoch(shard: TransactionShard, transactional_id: str, epoch: int) -> None:
    """Write a record that gives an idle transactional id this epoch; the former epoch cannot be retried.

    Raises LookupError if the coordinator does not know the id, ValueError if a transaction is open, RuntimeError if the
    coordinator's log cannot be written now.
    """
    entry = shard.machine.entry(transactional_id)
    if entry is None:
        raise LookupError(f"the transactional id {transactional_id} is not known")
    if entry.state not in EXPIRABLE:
        raise ValueError(f"the transactional id {transactional_id} is in state {entry.state.title}")
    version = VALUE_VERSIONS[shard.metadata.transaction_version]
    forced = replace(entry, producer_epoch=epoch, last_producer_epoch=NONE)
    value = rules_of(shard.settings.release).value.encode(forced.fitting(version), version)
    refused = shard.write([LogRecord(encode_id(transactional_id), value)])
    if refused is not None:
        raise RuntimeError(f"the coordinator of {transactional_id} cannot write to its log: {refused.error.name}")
