"""Keys and values of the internal logs: conversion of generated messages to records and back.

A coordinator's key begins with an int16 for the kind of record, its value with an int16 version. A record of
`__cluster_metadata` or `__remote_log_metadata` has no key; its value begins with three unsigned varints: frame version,
kind, version.
A record of a later release becomes `Unknown`, so that its log still loads.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct as Layout
from struct import error as LayoutError  # noqa: N812 - struct's own name says nothing
from typing import TypeVar

import msgspec

from odradek.wire.errors import DecodeError
from odradek.wire.messages import METADATA_RECORDS
from odradek.wire.primitives import Malformed, read_varint, write_varint
from odradek.wire.registry import encode, message_type, metadata_record_type, reader, valid_versions, writer

__all__ = [
    "GROUP_RECORDS",
    "REMOTE_RECORDS",
    "SHARE_RECORDS",
    "TRANSACTION_RECORDS",
    "Unknown",
    "decode_key",
    "decode_metadata",
    "decode_record",
    "decode_remote",
    "decode_value",
    "encode_key",
    "encode_metadata",
    "encode_remote",
    "encode_value",
    "kind_of",
    "not_known",
]

M = TypeVar("M", bound=msgspec.Struct)

TRANSACTION_RECORDS = {0: "TransactionLog"}
"""Kinds of record in `__transaction_state`: of each a key and a value, named so with Key or Value behind."""

GROUP_RECORDS = {
    0: "LegacyOffsetCommit",
    1: "OffsetCommit",
    2: "GroupMetadata",
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    16: "ConsumerGroupRegularExpression",
    17: "StreamsGroupMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}
"""Kinds of record in `__consumer_offsets`."""

SHARE_RECORDS = {0: "ShareSnapshot", 1: "ShareUpdate"}
"""Kinds of record in `__share_group_state`."""

REMOTE_RECORDS = {
    0: "RemoteLogSegmentMetadataRecord",
    1: "RemoteLogSegmentMetadataUpdateRecord",
    2: "RemotePartitionDeleteMetadataRecord",
}
"""Kinds of record in `__remote_log_metadata` (KIP-405), which have no key either."""

_KINDS = {
    f"{stem}Key": kind for table in (TRANSACTION_RECORDS, GROUP_RECORDS, SHARE_RECORDS) for kind, stem in table.items()
}
_METADATA_KINDS = {stem: kind for kind, stem in METADATA_RECORDS.items()}
_REMOTE_KINDS = {name: kind for kind, name in REMOTE_RECORDS.items()}

_INT16 = Layout(">h")
_KEY_VERSION = 0
_FRAME_VERSION = 1


class Unknown(msgspec.Struct, frozen=True):
    """A record of a kind or a version that this release does not know."""

    kind: int
    """-1 if the kind is known and the version is not."""
    version: int
    data: bytes


# Records of coordinators


def encode_key(message: msgspec.Struct) -> bytes:
    """A coordinator's key."""
    out = bytearray(_INT16.pack(_KINDS[type(message).__name__]))
    writer(type(message), _KEY_VERSION)(message, out, [])
    return bytes(out)


def encode_value(message: msgspec.Struct, version: int) -> bytes:
    """A coordinator's value."""
    out = bytearray(_INT16.pack(version))
    writer(type(message), version)(message, out, [])
    return bytes(out)


def kind_of(key: bytes) -> int:
    """The kind of record, from a coordinator's key."""
    return _int16(key, "kind")


def decode_key(data: bytes, cls: type[M]) -> M | None:
    """A key of this kind; None for one of another kind."""
    if _int16(data, "kind") != _KINDS[cls.__name__]:
        return None
    return reader(cls, _KEY_VERSION)(memoryview(data), _INT16.size)[0]


def decode_value(data: bytes, cls: type[M]) -> M | None:
    """A value of this kind; None for an unknown version."""
    version = _int16(data, "version")
    low, high = valid_versions(cls)
    if not low <= version <= high:
        return None
    return reader(cls, version)(memoryview(data), _INT16.size)[0]


def decode_record(
    table: dict[int, str], key: bytes, value: bytes | None
) -> tuple[msgspec.Struct | Unknown, msgspec.Struct | Unknown | None]:
    """Key and value of a record of the log with this table of kinds; a value of None is a tombstone."""
    kind = _int16(key, "kind")
    stem = table.get(kind)
    if stem is None:
        return Unknown(kind, -1, key), None if value is None else Unknown(kind, -1, value)
    read_key = reader(message_type(f"{stem}Key"), _KEY_VERSION)(memoryview(key), _INT16.size)[0]
    if value is None:
        return read_key, None
    read_value = decode_value(value, message_type(f"{stem}Value"))
    return read_key, Unknown(-1, _int16(value, "version"), value) if read_value is None else read_value


def _int16(data: bytes, field: str) -> int:
    try:
        (number,) = _INT16.unpack_from(data)
    except LayoutError:
        raise DecodeError("the record is shorter than its prefix", field=field, offset=0) from None
    return int(number)


# Records of the metadata log, and of that of remote segments


def encode_metadata(message: msgspec.Struct, version: int) -> bytes:
    """A value of `__cluster_metadata`."""
    return _encode_framed(message, version, _METADATA_KINDS[type(message).__module__.rpartition(".")[2]])


def encode_remote(message: msgspec.Struct, version: int) -> bytes:
    """A value of `__remote_log_metadata`."""
    return _encode_framed(message, version, _REMOTE_KINDS[type(message).__name__])


def _encode_framed(message: msgspec.Struct, version: int, kind: int) -> bytes:
    out = bytearray()
    for number in (_FRAME_VERSION, kind, version):
        write_varint(out, number)
    return bytes(out) + encode(message, version)


def decode_metadata(data: bytes) -> msgspec.Struct:
    """The message in a value of `__cluster_metadata`; `Unknown` for a record of a later release."""
    return _decode_framed(data, lambda kind: metadata_record_type(kind) if kind in METADATA_RECORDS else None)


def not_known(record: Unknown) -> str:
    """Why a record of the metadata log cannot be read, in words."""
    name = METADATA_RECORDS.get(record.kind)
    if name is None:
        return f"records of type {record.kind} are not known"
    low, high = valid_versions(metadata_record_type(record.kind))
    return f"the record is of type {record.kind} in version {record.version}, and versions {low} to {high} are known"


def decode_remote(data: bytes) -> msgspec.Struct:
    """The message in a value of `__remote_log_metadata`; `Unknown` for a record of a later release."""
    return _decode_framed(data, lambda kind: message_type(REMOTE_RECORDS[kind]) if kind in REMOTE_RECORDS else None)


def _decode_framed(data: bytes, type_of: Callable[[int], type[msgspec.Struct] | None]) -> msgspec.Struct:
    buf = memoryview(data)
    try:
        frame_version, position = read_varint(buf, 0)
        kind, position = read_varint(buf, position)
        version, position = read_varint(buf, position)
    except (IndexError, Malformed):
        raise DecodeError("the record is shorter than its frame", field="frame", offset=len(data)) from None
    if frame_version != _FRAME_VERSION:
        raise DecodeError(f"there is no frame version {frame_version}", field="frame_version", offset=0)
    cls = type_of(kind)
    if cls is None:
        return Unknown(kind, version, data)
    low, high = valid_versions(cls)
    if not low <= version <= high:
        return Unknown(kind, version, data)
    message, end = reader(cls, version)(buf, position)
    if end != len(data):
        raise DecodeError("bytes follow the record", field="frame", offset=end)
    return message
