"""The indexes beside a segment: by offset, by time, and of aborted transactions.

Offset and time index are sparse and have fixed entries, big endian, relative to the segment's base offset (Kafka's
`OffsetIndex`, `TimeIndex`). Those of an active segment are allocated in advance and end in zeros.
A transaction index has an entry of version 0 for each transaction that a marker in the segment aborts (KIP-98, "Index
for aborted transactions"; Kafka's `AbortedTxn`).
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct as Layout

from odradek.log.aborted import AbortedTransaction
from odradek.log.disk import DamagedFile

__all__ = [
    "last_entry",
    "last_timestamp",
    "read_aborted",
    "read_offset_index",
    "read_time_index",
    "write_aborted",
    "write_offset_index",
    "write_time_index",
]

_OFFSET = Layout(">ii")  # relative offset, position
_TIME = Layout(">qi")  # timestamp (ms), relative offset
_ABORTED = Layout(">hqqqq")  # version, producer id, first offset, last offset, last stable offset
_ABORTED_VERSION = 0
_RELATIVE_MAX = 2**31 - 1
_ROOM = bytes(64 * 1024)


def write_offset_index(base_offset: int, entries: Iterable[tuple[int, int]]) -> bytes:
    """Entries of offset and position (bytes)."""
    return b"".join(
        _OFFSET.pack(offset - base_offset, position)
        for offset, position in entries
        if offset - base_offset <= _RELATIVE_MAX
    )


def read_offset_index(data: bytes, base_offset: int) -> list[tuple[int, int]]:
    """Offsets and positions, without the unused zeros at the end. Raises `DamagedFile`."""
    entries = _entries(_used(data, _OFFSET), _OFFSET)
    return [(base_offset + relative, position) for relative, position in entries]


def last_entry(data: bytes, base_offset: int) -> tuple[int, int] | None:
    """The last offset and position of an offset index; None if it has none. Raises `DamagedFile`."""
    entries = read_offset_index(_used(data, _OFFSET)[-_OFFSET.size :], base_offset)
    return entries[-1] if entries else None


def write_time_index(base_offset: int, entries: Iterable[tuple[int, int]]) -> bytes:
    """Entries of timestamp (ms) and offset."""
    return b"".join(
        _TIME.pack(timestamp, offset - base_offset)
        for timestamp, offset in entries
        if offset - base_offset <= _RELATIVE_MAX
    )


def read_time_index(data: bytes, base_offset: int) -> list[tuple[int, int]]:
    """Timestamps and offsets, without the unused zeros at the end. Raises `DamagedFile`."""
    entries = _entries(_used(data, _TIME), _TIME)
    return [(timestamp, base_offset + relative) for timestamp, relative in entries]


def last_timestamp(data: bytes) -> int | None:
    """The greatest timestamp of a segment by its time index; None if that has no entry. Raises `DamagedFile`."""
    entries = read_time_index(_used(data, _TIME)[-_TIME.size :], 0)
    return entries[-1][0] if entries else None


def write_aborted(entries: Iterable[AbortedTransaction]) -> bytes:
    """A transaction index."""
    return b"".join(
        _ABORTED.pack(
            _ABORTED_VERSION, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset
        )
        for entry in entries
    )


def read_aborted(data: bytes) -> list[AbortedTransaction]:
    """The aborted transactions in the order of their markers. Raises `DamagedFile`."""
    found: list[AbortedTransaction] = []
    for version, *fields in _entries(data, _ABORTED):
        if version != _ABORTED_VERSION:
            raise DamagedFile(f"it is of version {version}, and version {_ABORTED_VERSION} is known")
        entry = AbortedTransaction(*fields)
        if found and entry.last_offset <= found[-1].last_offset:
            raise DamagedFile(f"the transaction that ends at {entry.last_offset} follows one that ends later")
        found.append(entry)
    return found


def _used(data: bytes, layout: Layout) -> bytes:
    """Without the zeros at the end: an index that a running Kafka has left has 10 MiB of them. Raises `DamagedFile`."""
    _check_size(data, layout)
    end = len(data)
    while data[max(0, end - len(_ROOM)) : end] == _ROOM:  # a block at a time: `rstrip` takes 0.1 s for all of it
        end -= len(_ROOM)
    return data[: -(-len(data[:end].rstrip(b"\0")) // layout.size) * layout.size]


def _check_size(data: bytes, layout: Layout) -> None:
    if len(data) % layout.size:
        raise DamagedFile(f"its {len(data)} bytes are no multiple of {layout.size}")


def _entries(data: bytes, layout: Layout) -> list[tuple[int, ...]]:
    _check_size(data, layout)
    return list(layout.iter_unpack(data))
