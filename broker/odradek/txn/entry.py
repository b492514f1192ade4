"""One transactional id as an immutable value, and as a record of `__transaction_state` (Kafka's `TransactionLog`).

The value version follows transaction.version: version 1 has tagged fields, version 0 cannot carry them.

KIP-360 wants the last epoch stored with the id, so that the retry of an InitProducerId is told even after a failover;
Kafka kept no field for it and forgets it when it loads.
We keep it in a tagged field of our own, and another one for the epoch that has been used up without a bump: readers of
Kafka's skip tags that they do not know.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct as Layout

from msgspec import Struct
from msgspec.structs import replace

from odradek.records import state as log_records
from odradek.txn.partitions import ManyPartitions, Partitions, by_topic, encoded_few, sorted_partitions
from odradek.txn.states import TxnState
from odradek.wire.errors import DecodeError
from odradek.wire.messages.transaction_log_key import TransactionLogKey
from odradek.wire.messages.transaction_log_value import PartitionsSchema, TransactionLogValue

__all__ = [
    "VALUE_VERSIONS",
    "EPOCH_LAST_USABLE",
    "EPOCH_MAX",
    "EPOCH_USED_TAG",
    "LAST_PRODUCER_EPOCH_TAG",
    "NONE",
    "TIMEOUT_NEVER",
    "Entry",
    "decode_entry",
    "decode_id",
    "encode_entry",
    "encode_id",
    "log_value",
]

VALUE_VERSIONS = (0, 1, 1)
"""The version of written values, by the level of transaction.version."""
NONE = -1
"""No producer id, no epoch, no timestamp."""
EPOCH_MAX = 2**15 - 1
EPOCH_LAST_USABLE = EPOCH_MAX - 1
"""Clients begin no transaction with an epoch beyond this one, so that one is always left for fencing."""
TIMEOUT_NEVER = 2**31 - 1
"""The timeout of a two-phase commit (KIP-939): the coordinator never aborts it."""
LAST_PRODUCER_EPOCH_TAG = 360
EPOCH_USED_TAG = 890

_EPOCH = Layout(">h")
_NEWEST = 1
_HEAD = Layout(">hqhib")
"""Version, producer id and epoch, timeout, state."""
_TIMES = Layout(">qq")
_TAGGED_ID, _TAGGED_INT16, _LAST_EPOCH = Layout(">BBq"), Layout(">BBh"), Layout(">2sBh")
"""Tag, size, value; a tag above 127 takes two bytes."""
_USUAL_TAIL = Layout(">qqBBBqBBh2sBh")
"""Times and tagged fields of clients that let EndTxn bump the epoch: previous producer id, version, last epoch."""
_NO_PARTITIONS = b"\0"
_COUNTS = tuple(bytes([count]) for count in range(7))
IDS_REMEMBERED = 16_384
"""Each step of a transaction writes the same key."""
_LAST_EPOCH_TAG, _EPOCH_USED = b"\xe8\x02", b"\xfa\x06\0"
_STORED_STATES = frozenset(TxnState) - {TxnState.DEAD, TxnState.PREPARE_EPOCH_FENCE}


class Entry(Struct, frozen=True, gc=False):
    """The coordinator's knowledge of one transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TxnState
    last_update_timestamp: int
    start_timestamp: int = NONE
    partitions: Partitions = ()
    """In order and without duplicates, so that equal sets are equal values."""
    previous_producer_id: int = NONE
    """The producer id before the latest transition; differs from the present one only directly after a rotation."""
    next_producer_id: int = NONE
    """Reserved while a transaction with the last epoch ends; or the owner's, for a kept transaction."""
    next_producer_epoch: int = NONE
    """Epoch of the next producer id: the owner's beside a kept transaction, and after its end (KIP-939).

    Without one the next producer id begins at 0.
    """
    last_producer_epoch: int = NONE
    """The epoch before the latest bump, if its holder may learn of the bump by a retry."""
    client_transaction_version: int = 0
    """2 for a client that lets EndTxn bump the epoch, 0 for other clients."""
    epoch_used: bool = False
    """Whether the last transaction used the present epoch, so that only the owner can have it."""

    @property
    def is_kept(self) -> bool:
        """Whether the owner has kept a transaction of its predecessor: their ids and epochs differ (KIP-939)."""
        return self.next_producer_epoch != NONE and self.state is TxnState.ONGOING

    @property
    def owner_id(self) -> int:
        """The producer id that may end the transaction."""
        if self.next_producer_epoch != NONE and self.is_kept:
            return self.next_producer_id
        return self.producer_id

    @property
    def owner_epoch(self) -> int:
        """The epoch of `owner_id`."""
        if self.next_producer_epoch != NONE and self.is_kept:
            return self.next_producer_epoch
        return self.producer_epoch

    @property
    def is_exhausted(self) -> bool:
        """Whether the owner's producer id has no further epoch for a client."""
        return self.owner_epoch >= EPOCH_LAST_USABLE

    def fitting(self, version: int) -> Entry:
        """The entry without fields that a value of this version cannot hold."""
        if version >= 1 or (self.client_transaction_version == 0 and self.next_producer_id == NONE):
            return self
        return replace(self, client_transaction_version=0, next_producer_id=NONE, next_producer_epoch=NONE)

    def as_stored(self, version: int) -> Entry:
        """The entry as it is read back from a value of this version."""
        if version >= 1:
            return self
        return replace(self.fitting(version), previous_producer_id=NONE, last_producer_epoch=NONE, epoch_used=False)


@lru_cache(maxsize=IDS_REMEMBERED)
def encode_id(transactional_id: str) -> bytes:
    return log_records.encode_key(TransactionLogKey(transactional_id=transactional_id))


def decode_id(key: bytes) -> str | None:
    """The id of a key; None for another kind of key or none at all: a log must load in any case."""
    try:
        message = log_records.decode_key(key, TransactionLogKey)
    except DecodeError:
        return None
    return None if message is None else message.transactional_id


def encode_entry(entry: Entry, version: int) -> bytes:
    """The value of an id's record."""
    if version < 1:
        assert entry.client_transaction_version == 0, "a value of version 0 cannot hold the client's version"
        return log_records.encode_value(log_value(entry, version), version)
    # The same bytes as of `log_value`, with less work: one is written at each step of a transaction.
    state = entry.state
    value = _HEAD.pack(_NEWEST, entry.producer_id, entry.producer_epoch, entry.timeout_ms, state)
    partitions = entry.partitions
    if state is TxnState.EMPTY:
        value += _NO_PARTITIONS
    else:
        value += partitions.encoded() if type(partitions) is ManyPartitions else encoded_few(partitions)
    if (
        entry.previous_producer_id != NONE
        and entry.client_transaction_version
        and entry.last_producer_epoch != NONE
        and entry.next_producer_id == NONE == entry.next_producer_epoch
        and not entry.epoch_used
    ):
        return value + _USUAL_TAIL.pack(
            entry.last_update_timestamp,
            entry.start_timestamp,
            3,
            0,
            8,
            entry.previous_producer_id,
            2,
            2,
            entry.client_transaction_version,
            _LAST_EPOCH_TAG,
            2,
            entry.last_producer_epoch,
        )
    value += _TIMES.pack(entry.last_update_timestamp, entry.start_timestamp)
    count, tagged = 0, b""
    if entry.previous_producer_id != NONE:
        count, tagged = 1, _TAGGED_ID.pack(0, 8, entry.previous_producer_id)
    if entry.next_producer_id != NONE:
        count, tagged = count + 1, tagged + _TAGGED_ID.pack(1, 8, entry.next_producer_id)
    if entry.client_transaction_version:
        count, tagged = count + 1, tagged + _TAGGED_INT16.pack(2, 2, entry.client_transaction_version)
    if entry.next_producer_epoch != NONE:
        count, tagged = count + 1, tagged + _TAGGED_INT16.pack(3, 2, entry.next_producer_epoch)
    if entry.last_producer_epoch != NONE:
        count, tagged = count + 1, tagged + _LAST_EPOCH.pack(_LAST_EPOCH_TAG, 2, entry.last_producer_epoch)
    if entry.epoch_used:
        count, tagged = count + 1, tagged + _EPOCH_USED
    return value + _COUNTS[count] + tagged


def log_value(entry: Entry, version: int) -> TransactionLogValue:
    """The value of an id's record as a message."""
    value = TransactionLogValue(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        transaction_timeout_ms=entry.timeout_ms,
        transaction_status=entry.state,
        transaction_partitions=None if entry.state is TxnState.EMPTY else _by_topic(entry.partitions),
        transaction_last_update_timestamp_ms=entry.last_update_timestamp,
        transaction_start_timestamp_ms=entry.start_timestamp,
    )
    if version >= 1:
        value.previous_producer_id = entry.previous_producer_id
        value.next_producer_id = entry.next_producer_id
        value.next_producer_epoch = entry.next_producer_epoch
        value.client_transaction_version = entry.client_transaction_version
        if entry.last_producer_epoch != NONE:
            value.unknown_tagged_fields.append((LAST_PRODUCER_EPOCH_TAG, _EPOCH.pack(entry.last_producer_epoch)))
        if entry.epoch_used:
            value.unknown_tagged_fields.append((EPOCH_USED_TAG, b""))
    return value


def decode_entry(transactional_id: str, data: bytes) -> Entry | None:
    """The entry of a value; None for an unknown version or state, or no value at all."""
    try:
        value = log_records.decode_value(data, TransactionLogValue)
    except DecodeError:
        return None
    if value is None or value.transaction_status not in _STORED_STATES:
        return None
    return Entry(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TxnState(value.transaction_status),
        last_update_timestamp=value.transaction_last_update_timestamp_ms,
        start_timestamp=value.transaction_start_timestamp_ms,
        partitions=_flat(value.transaction_partitions),
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch,
        last_producer_epoch=_last_epoch(value.unknown_tagged_fields),
        client_transaction_version=value.client_transaction_version,
        epoch_used=any(tag == EPOCH_USED_TAG for tag, _ in value.unknown_tagged_fields),
    )


def _by_topic(partitions: Partitions) -> list[PartitionsSchema]:
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in by_topic(partitions).items()]


def _flat(topics: list[PartitionsSchema] | None) -> Partitions:
    return sorted_partitions((topic.topic, index) for topic in topics or () for index in topic.partition_ids)


def _last_epoch(tagged: list[tuple[int, bytes]]) -> int:
    for tag, data in tagged:
        if tag == LAST_PRODUCER_EPOCH_TAG and len(data) == _EPOCH.size:
            epoch: int = _EPOCH.unpack(data)[0]
            return epoch
    return NONE
