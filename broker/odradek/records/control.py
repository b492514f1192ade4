"""Control batches: end-transaction markers (KIP-98), and those of KRaft (KIP-595, KIP-630, KIP-853)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import lru_cache
from struct import Struct as Layout

from msgspec import Struct

from odradek.records.batch import (
    CONTROL,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    Batch,
    InvalidBatch,
    KeyValue,
    batch_of,
    payload_of,
)
from odradek.records.record import Record, iterate_records
from odradek.wire.errors import DecodeError

__all__ = [
    "QUORUM_RECORDS",
    "ControlType",
    "Marker",
    "control_batch",
    "control_key",
    "control_type",
    "end_txn_marker",
    "leader_change",
    "quorum_records",
    "read_marker",
    "snapshot_footer",
    "snapshot_header",
    "snapshot_time",
]

_KEY = Layout(">hh")  # version, type
_MARKER = Layout(">hi")  # version, coordinator epoch
_LEADER_CHANGE = Layout(">hi")  # version, leader; behind them two arrays of voters, and no tagged fields
_VOTER = Layout(">iB")  # id; no tagged fields
_SNAPSHOT_HEADER = Layout(">hqB")  # version, timestamp of the last record that is contained (ms); no tagged fields
_SNAPSHOT_FOOTER = Layout(">hB")
_VERSION = 0
PAYLOADS_REMEMBERED = 256
"""Number of cached payloads of markers: each epoch of a coordinator has two."""


class ControlType(IntEnum):
    """The type of a control record."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


QUORUM_RECORDS = {"KRaftVersionRecord": ControlType.KRAFT_VERSION, "VotersRecord": ControlType.KRAFT_VOTERS}
"""Records of a quorum whose voters are in the log, by the names of their messages (KIP-853)."""
_TYPES = {int(known): known for known in ControlType}
_COMMIT_KEY = _KEY.pack(_VERSION, ControlType.COMMIT)
_ABORT_KEY = _KEY.pack(_VERSION, ControlType.ABORT)


class _MarkerRecord(Struct, frozen=True):
    key: bytes
    value: bytes


class Marker(Struct, frozen=True):
    """The end of a transaction in one partition."""

    commit: bool
    coordinator_epoch: int
    version: int = _VERSION


def end_txn_marker(
    *, producer_id: int, producer_epoch: int, commit: bool, coordinator_epoch: int, timestamp: int
) -> Batch:
    """A control batch that ends the producer's transaction."""
    return batch_of(
        _marker_payload(commit, coordinator_epoch),
        1,
        timestamp=timestamp,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


@lru_cache(maxsize=PAYLOADS_REMEMBERED)
def _marker_payload(commit: bool, coordinator_epoch: int) -> bytes:
    """The payload of a marker: it is the same for all markers of a coordinator with one outcome."""
    key = _COMMIT_KEY if commit else _ABORT_KEY
    return payload_of((_MarkerRecord(key, _MARKER.pack(_VERSION, coordinator_epoch)),))


def leader_change(node_id: int, *, timestamp: int, voters: Sequence[int] = ()) -> Batch:
    """The control batch with which a quorum's leader begins its epoch (KIP-595; LeaderChangeMessage v0).

    All voters, the leader alone unless they are given, have granted their votes.
    """
    # The length of a compact array is one more than the number of its elements.
    array = bytes([len(voters or (node_id,)) + 1]) + b"".join(_VOTER.pack(each, 0) for each in voters or (node_id,))
    value = _LEADER_CHANGE.pack(_VERSION, node_id) + array + array + b"\0"
    payload = payload_of((_MarkerRecord(_KEY.pack(_VERSION, ControlType.LEADER_CHANGE), value),))
    return control_batch(payload, timestamp=timestamp)


def control_batch(payload: bytes, *, timestamp: int, count: int = 1) -> Batch:
    """A control batch of KRaft: so many records, and no producer."""
    return batch_of(
        payload,
        count,
        timestamp=timestamp,
        attributes=CONTROL,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
    )


def snapshot_header(*, last_timestamp: int, timestamp: int, quorum: Iterable[KeyValue] = ()) -> Batch:
    """The control batch that a snapshot of the metadata log begins with (KIP-630; SnapshotHeaderRecord v0).

    With the records of a `quorum` whose voters are in the log (KIP-853).
    """
    value = _SNAPSHOT_HEADER.pack(_VERSION, last_timestamp, 0)
    header = _MarkerRecord(_KEY.pack(_VERSION, ControlType.SNAPSHOT_HEADER), value)
    records = [header, *(_MarkerRecord(record.key or b"", record.value or b"") for record in quorum)]
    return control_batch(payload_of(records), timestamp=timestamp, count=len(records))


def control_key(kind: ControlType) -> bytes:
    """The key of a control record."""
    return _KEY.pack(_VERSION, kind)


def quorum_records(batches: Iterable[Batch]) -> dict[ControlType, Record]:
    """The newest records of a quorum's version and of its voters (KIP-853); none where the voters are static."""
    found: dict[ControlType, Record] = {}
    for batch in batches:
        for record in iterate_records(batch) if batch.is_control else ():
            kind = control_type(record)
            if kind is ControlType.KRAFT_VERSION or kind is ControlType.KRAFT_VOTERS:
                found[kind] = record
    return found


def snapshot_time(header: Record) -> int:
    """The timestamp of the last record that a snapshot contains (ms), by its header. Raises `DecodeError`."""
    if len(header.value or b"") < _SNAPSHOT_HEADER.size:
        raise DecodeError("it is too short for the header of a snapshot", field="value", offset=0)
    return int(_SNAPSHOT_HEADER.unpack_from(header.value or b"")[1])


def snapshot_footer(*, timestamp: int) -> Batch:
    """The control batch that a snapshot of the metadata log ends with (KIP-630; SnapshotFooterRecord v0)."""
    payload = payload_of(
        (_MarkerRecord(_KEY.pack(_VERSION, ControlType.SNAPSHOT_FOOTER), _SNAPSHOT_FOOTER.pack(_VERSION, 0)),)
    )
    return control_batch(payload, timestamp=timestamp)


def control_type(record: Record) -> ControlType:
    """The type in the key of a control record; `UNKNOWN` for one that a later release may define."""
    key = record.key or b""
    if len(key) < _KEY.size:
        return ControlType.UNKNOWN
    version, number = _KEY.unpack_from(key)
    return ControlType.UNKNOWN if version < 0 else _TYPES.get(number, ControlType.UNKNOWN)


def read_marker(batch: Batch) -> Marker | None:
    """The marker in a batch; None for any other batch."""
    if not batch.is_control:
        return None
    try:
        record = next(iterate_records(batch), None)
    except InvalidBatch:
        return None
    if record is None or record.value is None or len(record.value) < _MARKER.size:
        return None
    kind = control_type(record)
    if kind is not ControlType.COMMIT and kind is not ControlType.ABORT:
        return None
    version, coordinator_epoch = _MARKER.unpack_from(record.value)
    return Marker(kind is ControlType.COMMIT, coordinator_epoch, version)
