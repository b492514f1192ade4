"""Producer epochs that would take thousands of transactions to reach."""

from __future__ import annotations

from msgspec.structs import replace

from odradek.core.machine import LogRecord, Refused
from odradek.txn.entry import NONE, VALUE_VERSIONS, encode_id
from odradek.txn.rules import rules_of
from odradek.txn.shard import TransactionShard
from odradek.txn.states import EXPIRABLE

__all__ = ["force_epoch"]


def force_epoch(shard: TransactionShard, transactional_id: str, epoch: int) -> None:
    """Write a record that gives an idle transactional id this epoch; who had another one retries nothing with it.

    Raises LookupError if the coordinator does not know the id, ValueError if a transaction is open, RuntimeError if the
    coordinator's log cannot be written now.
    """
    entry = shard.machine.entry(transactional_id)
    if entry is None:
        raise LookupError(f"the transactional id {transactional_id} is not known")
    if entry.state not in EXPIRABLE:
        raise ValueError(f"the transactional id {transactional_id} is in state {entry.state.title}")
    parts = shard.parts
    version = VALUE_VERSIONS[shard.metadata.transaction_version]
    forced = replace(entry, producer_epoch=epoch, last_producer_epoch=NONE)
    value = rules_of(parts.settings.release).value.encode(forced.fitting(version), version)
    appended = shard.partition.append_coordinator([LogRecord(encode_id(transactional_id), value)], now=parts.clock.now)
    if isinstance(appended, Refused):
        raise RuntimeError(f"the coordinator of {transactional_id} cannot write to its log: {appended.error.name}")
    parts.appended(shard.partition, shard)
