"""The state that a recorded cluster begins with, where it is not empty: it is part of the recording, in pieces.

For a data directory, and for a fork of a snapshot that is one, the pieces are the files as they were found; for a fork
of a snapshot in memory they are its logs. What follows from them is not kept, so that a recorded run and its replay
read the same bytes in the same way.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import compress, crc32, decompress
from zlib import error as ZlibError  # noqa: N812 - a name of zlib's own says nothing

import msgspec
from msgspec import Struct

from odradek.cli.usage import UsageError
from odradek.log.files.names import LOCK
from odradek.log.kept_log import KeptLog, kept, restored
from odradek.log.log_store import LogStore
from odradek.metadata.controller_role import METADATA_TOPIC_ID
from odradek.metadata.loader import MetadataLoader
from odradek.metadata.snapshot_file import read_snapshot

if TYPE_CHECKING:
    from odradek.metadata.image import MetadataImage

__all__ = [
    "BYTES_MAX",
    "Began",
    "Complete",
    "Piece",
    "metadata_at_start",
    "pieces_of_folder",
    "pieces_of_store",
    "read_pieces",
    "store_of",
]

BYTES_MAX = 1 << 28
"""A beginning with more bytes is not recorded: each recording has a copy of it."""
PIECE_BYTES = 1 << 22
LEVEL = 1
"""Of the compression: a cluster waits for it when it starts."""
ZEROS = bytes(PIECE_BYTES)
METADATA = "metadata"
BLOCK_BYTES = 512
"""The unit of `st_blocks`, whatever the file system's own is."""


class Began(Struct, frozen=True, kw_only=True):
    """The kind of a beginning, and what clients see of it."""

    is_fork: bool = False
    directory: str | None = None
    """The data directory, as clients are told it; None of a fork in memory."""
    taken_at_ms: int = 0
    is_frozen: bool = False
    cluster_id: str = ""
    controller_id: int = -1
    cleanly: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()
    """The rest of a fork's snapshot; see `ClusterSnapshot`."""


def metadata_at_start(store: LogStore) -> MetadataImage:
    """The metadata in the logs of a cluster that has not started."""
    loader, log = MetadataLoader(), store.find(METADATA_TOPIC_ID, 0)
    if store.metadata_snapshot is not None:
        end_offset, epoch, data = store.metadata_snapshot
        loader.load_snapshot(read_snapshot(data), offset=end_offset - 1, epoch=epoch)
    for batch in () if log is None else log.batches(loader.last_offset + 1):
        loader.apply(batch)
    return loader.image


class Piece(Struct, array_like=True, tag=7):
    """A part of the beginning: bytes of a file, or of a log."""

    name: str
    """A path below the directory; that of a folder ends in `/`. Consecutive pieces of a name follow each other."""
    size: int
    data: bytes
    """Compressed; empty for zeros."""
    checksum: int
    """Of the name, and of the bytes before they were compressed."""


class Complete(Struct, array_like=True, tag=8):
    """The beginning is complete with so many pieces."""

    pieces: int


def _cut(name: str, data: memoryview) -> Iterator[Piece]:
    for start in range(0, len(data), PIECE_BYTES):
        yield _piece(name, bytes(data[start : start + PIECE_BYTES]))


def _piece(name: str, data: bytes) -> Piece:
    is_zero = data == ZEROS[: len(data)]
    return Piece(name, len(data), b"" if is_zero else compress(data, LEVEL), _checksum(name, data))


def _checksum(name: str, data: bytes) -> int:
    return crc32(data, crc32(name.encode()))


def _check_size(size: int, of: str) -> None:
    if size > BYTES_MAX:
        raise UsageError(f"{of} has {size:,} bytes, and a recording begins with {BYTES_MAX:,} bytes at most.")


def pieces_of_folder(path: Path) -> list[Piece]:
    """All files of a directory. Raises `UsageError` if they are too large, or cannot be read."""
    try:
        places = sorted((Path(root), sorted(names)) for root, _, names in os.walk(path))
        files = [file for root, names in places for name in names if (file := root / name).name != LOCK]
        # A file that has been mapped is longer than what was written to it.
        _check_size(sum(min(of.st_size, of.st_blocks * BLOCK_BYTES) for of in map(os.stat, files)), f"{path}")
        pieces = [_piece(f"{root.relative_to(path)}/", b"") for root, _ in places if root != path]
        for file in files:
            pieces += _pieces_of_file(file, str(file.relative_to(path)))
    except OSError as error:
        raise UsageError(f"{path} cannot be recorded: {error.strerror}.") from None
    return pieces


def _pieces_of_file(file: Path, name: str) -> Iterator[Piece]:
    is_empty = True
    with file.open("rb") as opened:
        while data := opened.read(PIECE_BYTES):
            is_empty = False
            yield _piece(name, data)
    if is_empty:
        yield _piece(name, b"")


def pieces_of_store(store: LogStore) -> list[Piece]:
    """All logs of a snapshot in memory. Raises `UsageError` if they are too large."""
    _check_size(store.bytes_held, "The snapshot")
    pieces: list[Piece] = []
    if store.metadata_snapshot is not None:
        pieces += _cut(METADATA, memoryview(msgspec.msgpack.encode(store.metadata_snapshot)))
    for number, log in enumerate(store.logs()):
        state = kept(log)
        pieces += _cut(f"{number}/log", memoryview(msgspec.msgpack.encode(state)))
        for segment in log.segments:
            pieces += _cut(f"{number}/{segment.base_offset}", segment.buffer[: segment.size])
    return pieces


def store_of(folder: Path, *, bytes_max: int) -> LogStore:
    """The logs in a folder that has the pieces of a store."""
    store = LogStore(bytes_max=bytes_max)
    metadata = folder / METADATA
    if metadata.exists():
        store.metadata_snapshot = msgspec.msgpack.decode(metadata.read_bytes(), type=tuple[int, int, bytes])
    number = 0
    while (file := folder / str(number) / "log").exists():
        state = msgspec.msgpack.decode(file.read_bytes(), type=KeptLog)
        buffers = [memoryview((file.parent / str(each.base_offset)).read_bytes()) for each in state.segments]
        store.take_in(restored(store, state, buffers))
        number += 1
    return store


def read_pieces(entries: Iterable[object], path: Path, into: Path) -> None:
    """Write the beginning of a recording to a folder. Raises `UsageError` where it is not there, or was changed."""
    begun = set[str]()
    for count, entry in enumerate(entries):
        if isinstance(entry, Complete):
            if entry.pieces != count:
                raise UsageError(f"{path} lacks a part of its beginning: {count} pieces of {entry.pieces} are there.")
            return
        if not isinstance(entry, Piece):
            break
        _write(entry, path, into, is_first=entry.name not in begun)
        begun.add(entry.name)
    raise UsageError(f"{path} is cut off within its beginning, the state before its first input: nothing is played.")


def _write(piece: Piece, path: Path, into: Path, *, is_first: bool) -> None:
    target = into / piece.name
    if not target.resolve().is_relative_to(into.resolve()):
        raise UsageError(f"{path} has a beginning that was changed: {piece.name} lies outside of its directory.")
    try:
        data = decompress(piece.data) if piece.data else ZEROS[: piece.size]
    except ZlibError:
        data = None
    if data is None or len(data) != piece.size or _checksum(piece.name, data) != piece.checksum:
        raise UsageError(f"{path} has a beginning that was changed: {piece.name} is not as it was recorded.")
    if piece.name.endswith("/"):
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with target.open("wb" if is_first else "ab") as file:
            if piece.data:
                file.write(data)
            else:
                file.truncate(file.tell() + piece.size)
    except OSError as error:
        raise UsageError(f"The beginning of {path} cannot be written to {into}: {error.strerror}.") from None
