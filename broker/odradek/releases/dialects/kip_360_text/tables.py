"""The tables of KIP-360's text where they differ from Kafka's, and its format of a value in the log."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, cast

from msgspec.structs import replace

from odradek.records import state as log_records
from odradek.releases.dialects.messages import load_message
from odradek.releases.dialects.tables import Tables
from odradek.txn.decision_tables import ValueFormat
from odradek.txn.entry import NONE, Entry, decode_entry, encode_entry
from odradek.txn.init_table import InitAction, InitRelation
from odradek.txn.states import RESTING, TxnState
from odradek.wire.errors import DecodeError, ErrorCode
from odradek.wire.messages.transaction_log_value import TransactionLogValue

__all__ = ["TABLES", "VALUE", "decode", "encode"]

VERSION = 1
"""The version of every value: "we will bump the version of the transaction state message"."""
_FILE = Path(__file__).parent / "messages" / "TransactionLogValue.json"
VALUE = load_message(_FILE, _FILE.read_text(encoding="utf-8"))


class _Value(Protocol):
    """The fields that the text's value has in addition to Kafka's.

    A Protocol: the class is generated from a schema when the dialect is loaded.
    """

    last_producer_id: int
    last_epoch: int


def encode(entry: Entry, version: int) -> bytes:
    """The value of the text, with plain fields only, at every level of the cluster, for the text has no levels.

    "The last producer id is the previous producer ID associated with the transaction. For a new producer instance, the
    value will be -1." Once a transaction has begun after a rotation no retry needs that id any more: then both are
    empty.
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
    """Whether the last id and epoch come before the present ones."""
    same = entry.previous_producer_id == entry.producer_id
    return not same or entry.last_producer_epoch < entry.producer_epoch


def decode(transactional_id: str, data: bytes) -> Entry | None:
    """The entry in a value of the text, or of the older version 0."""
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
        # 2c: "Else return INVALID_PRODUCER_EPOCH", whichever other error would apply.
        **{
            (state, relation, exhausted): ErrorCode.INVALID_PRODUCER_EPOCH
            for state in (*RESTING, TxnState.ONGOING)
            for relation in _OTHERS
            for exhausted in (False, True)
        },
        # 2b: "The current producerId/epoch will be returned": also for a retry while a transaction is open.
        **{(TxnState.ONGOING, InitRelation.RETRY, exhausted): InitAction.ANSWER for exhausted in (False, True)},
    },
    value=ValueFormat(encode, decode),
)
