"""KIP-360 as its text stands: what its tables say otherwise than Kafka's, and the value that it has in the log."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, cast

from msgspec.structs import replace

from odradek.dialects.messages import load_message
from odradek.dialects.tables import Tables
from odradek.records import state as log_records
from odradek.txn.entry import NONE, Entry, decode_entry, encode_entry
from odradek.txn.init_table import InitAction, InitRelation
from odradek.txn.rules import ValueFormat
from odradek.txn.states import RESTING, TxnState
from odradek.wire.errors import DecodeError, ErrorCode
from odradek.wire.messages.transaction_log_value import TransactionLogValue

__all__ = ["TABLES", "VALUE", "decode", "encode"]

VERSION = 1
"""The version of every value: "we will bump the version of the transaction state message"."""
VALUE = load_message(Path(__file__).parent / "messages" / "TransactionLogValue.json")


class _Value(Protocol):
    """What the text's value has beside Kafka's."""

    last_producer_id: int
    last_epoch: int


def encode(entry: Entry, version: int) -> bytes:
    """The value of the text, in which all fields are plain; at every level of the cluster, for the text knows none.

    "The last producer id is the previous producer ID associated with the transaction. For a new producer instance, the
    value will be -1." Once a transaction has begun after a rotation nobody retries that any more: then both are empty.
    """
    value = cast(
        "TransactionLogValue", log_records.decode_value(encode_entry(entry.fitting(0), 0), TransactionLogValue)
    )
    last = (NONE, NONE)
    if entry.last_producer_epoch != NONE and _is_before(entry):
        last = (entry.previous_producer_id, entry.last_producer_epoch)
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    return log_records.encode_value(VALUE(**fields, last_producer_id=last[0], last_epoch=last[1]), VERSION)


def _is_before(entry: Entry) -> bool:
    """Whether the last pair lies before the present one."""
    same = entry.previous_producer_id == entry.producer_id
    return not same or entry.last_producer_epoch < entry.producer_epoch


def decode(transactional_id: str, data: bytes) -> Entry | None:
    """The entry of a value of the text, or of version 0 from before it."""
    try:
        value = log_records.decode_value(data, VALUE)
    except DecodeError:
        return None
    if value is None:
        return None
    ordinary = TransactionLogValue(**{name: getattr(value, name) for name in TransactionLogValue.__struct_fields__})
    entry = decode_entry(transactional_id, log_records.encode_value(ordinary, 0))
    if entry is None:
        return None
    told = cast("_Value", value)
    return replace(entry, previous_producer_id=told.last_producer_id, last_producer_epoch=told.last_epoch)


_OTHERS = (InitRelation.STALE, InitRelation.STRANGER)

TABLES = Tables(
    init={
        # 2c: "Else return INVALID_PRODUCER_EPOCH", whatever else might be said of an open transaction, or of epochs.
        **{
            (state, relation, exhausted): ErrorCode.INVALID_PRODUCER_EPOCH
            for state in (*RESTING, TxnState.ONGOING)
            for relation in _OTHERS
            for exhausted in (False, True)
        },
        # 2b: "The current producerId/epoch will be returned": also to a retry that comes when a transaction is open.
        **{(TxnState.ONGOING, InitRelation.RETRY, exhausted): InitAction.ANSWER for exhausted in (False, True)},
    },
    value=ValueFormat(encode, decode),
)
