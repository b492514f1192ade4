"""What earlier audits have read of segments that have not changed since, so that an audit reads only what is new.

A sealed segment is never written to again. Of one in which nothing was wrong the headers are kept, by columns, under
its path, size and time; a later audit takes them from there and reads the segment not at all. The segment that a
broker writes to is only appended to, or cut back by a follower: of it the headers of what was there are kept, and hold
as long as the last of these batches stands where it stood, with its offset, leader epoch and checksum. That all before
it is the same, too, follows from how logs are replicated: two that have a batch of one leader epoch at one offset agree
up to it (KIP-101). What stands beside a segment is small and is read again each time, and so is every segment of which
there was something to tell, and the coordinators' log, whose records are decoded.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from odradek.cli.usage import UsageError
from odradek_pipeline.logs import files
from odradek_pipeline.logs.headers import COLUMNS, HEADER, HEADER_BYTES, ByteRange, Chunk
from odradek_pipeline.logs.layout import TRANSACTION_STATE, LogFile

__all__ = ["Recalled", "SegmentMemory", "open_memory"]

LAYOUT = 3
"""Of what is kept; another one is not read."""
BYTES_MIN = 256 << 10
"""What is smaller is read as fast as it is looked up."""
_ABOUT = "memory.json"
_SUFFIX = ".headers"

Stamp = tuple[int, int]
"""Size and time of a segment, in nanoseconds."""


@cache
def _schema() -> pa.Schema:
    return pa.schema([(name, pa.from_numpy_dtype(kind)) for name, kind in COLUMNS.items()])


@dataclass(frozen=True, slots=True)
class Recalled:
    """Headers of a range, up to the position from which on it has to be read; -1 where all of it is known."""

    chunks: list[Chunk]
    upto: int


@dataclass(frozen=True, slots=True)
class _About:
    """What is written about kept headers: the segment as it was, how far they reach, and what was compared."""

    stamp: Stamp
    upto: int
    is_open: bool
    """The segment was one that a broker may write to."""
    checked: bool

    def text(self) -> dict[bytes, bytes]:
        return {b"about": json.dumps([LAYOUT, *self.stamp, self.upto, self.is_open, self.checked]).encode()}

    @classmethod
    def of(cls, file: pa.RecordBatchFileReader) -> _About | None:
        try:
            layout, size, time, upto, is_open, checked = json.loads((file.schema.metadata or {})[b"about"])
        except (KeyError, ValueError):
            return None
        return cls((size, time), upto, is_open, checked) if layout == LAYOUT else None


class SegmentMemory:
    """A folder of headers; workers of Spark have it at the same path."""

    def __init__(self, folder: str | Path, *, bytes_min: int = BYTES_MIN) -> None:
        self.folder = Path(folder)
        self.bytes_min = bytes_min

    def recall(self, part: ByteRange, *, checked: bool) -> Recalled | None:
        """The headers of a range; None where they are not known, or no checksums were compared that are wanted now."""
        for path in self.paths(part):
            try:
                with pa.memory_map(str(path)) as opened, pa.ipc.open_file(opened) as file:
                    upto = self.known_upto(part, file, checked=checked)
                    if upto is not None:
                        return Recalled(list(_chunks(part, file)), upto)
            except (OSError, pa.ArrowException, KeyError):
                continue  # then it is read as if for the first time
        return None

    def known_bytes(self, part: ByteRange, *, checked: bool) -> int:
        """How many bytes of a range need not be read, by what is written about its headers alone."""
        for path in self.paths(part):
            try:
                with pa.memory_map(str(path)) as opened, pa.ipc.open_file(opened) as file:
                    upto = self.known_upto(part, file, checked=checked)
            except (OSError, pa.ArrowException, KeyError):
                continue
            if upto is not None:
                return part.size if upto < 0 else upto - part.start
        return 0

    def known_upto(self, part: ByteRange, file: pa.RecordBatchFileReader, *, checked: bool) -> int | None:
        """Up to where kept headers are those of a range as it is now (-1: all of it); None if they are not."""
        about, stamp = _About.of(file), self.stamp(part)
        if about is None or stamp is None or ((checked or part.unflushed) and not about.checked):
            return None
        if about.stamp == stamp:
            return -1
        if not about.is_open or not file.num_record_batches:
            return None
        if not _stands(part.file.path, file.get_batch(file.num_record_batches - 1)):
            return None
        return -1 if 0 <= part.end <= about.upto else about.upto

    def stamp(self, part: ByteRange) -> Stamp | None:
        """What tells a segment from what it was; None where nothing is to be kept of it."""
        if part.size < self.bytes_min or part.file.topic == TRANSACTION_STATE:
            return None
        try:
            found = files.stat(part.file.path)
        except OSError:
            return None
        return found.size, found.mtime_ns

    def keep(self, part: ByteRange, chunks: Sequence[Chunk], stamp: Stamp, *, checked: bool) -> None:
        """Keep headers, whole or not at all; of a sealed segment only if it is what it was before it was read."""
        if not chunks or (not part.is_last and self.stamp(part) != stamp):
            return
        path = self.path(part)
        path.parent.mkdir(parents=True, exist_ok=True)
        end = chunks[-1].columns
        about = _About(stamp, int(end["position"][-1] + end["size"][-1]), part.is_last, checked)
        handle, beside = tempfile.mkstemp(dir=path.parent)
        os.close(handle)
        try:
            schema, options = _schema(), pa.ipc.IpcWriteOptions(compression="zstd")
            about_it = schema.with_metadata(about.text())
            with pa.OSFile(beside, "wb") as opened, pa.ipc.new_file(opened, about_it, options=options) as file:
                for chunk in chunks:
                    file.write_batch(
                        pa.record_batch([pa.array(chunk.columns[name]) for name in COLUMNS], schema=schema)
                    )
            os.replace(beside, path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise

    def forget_others(self, segments: Iterable[LogFile]) -> None:
        """Remove what was kept of segments that are no more, in the directories of these."""
        kept: dict[Path, set[str]] = {}
        for one in segments:
            kept.setdefault(self.directory(one), set()).add(Path(one.path).stem)
        for directory, stems in kept.items():
            for path in directory.glob(f"*{_SUFFIX}"):
                if path.name.partition("-")[0] not in stems:
                    path.unlink(missing_ok=True)

    def directory(self, segment: LogFile) -> Path:
        """Where the headers of a partition's segments lie."""
        parent = Path(segment.path).parent
        return self.folder / f"{parent.name}-{hashlib.sha256(os.fsencode(files.absolute(parent))).hexdigest()[:16]}"

    def path(self, part: ByteRange) -> Path:
        """Where the headers of a range lie."""
        return self.directory(part.file) / f"{Path(part.file.path).stem}-{part.start}-{part.end}{_SUFFIX}"

    def paths(self, part: ByteRange) -> Iterator[Path]:
        """Where they may lie: also where those up to the end do, from before the segment was long enough to be cut."""
        yield self.path(part)
        if part.end >= 0:
            yield self.path(replace(part, end=-1))


def _chunks(part: ByteRange, file: pa.RecordBatchFileReader) -> Iterator[Chunk]:
    for number in range(file.num_record_batches):
        batch = file.get_batch(number)
        columns = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in COLUMNS}
        if part.end >= 0 and columns["position"][-1] >= part.end:
            here = columns["position"] < part.end
            columns = {name: column[here] for name, column in columns.items()}
        if len(columns["position"]):
            yield Chunk(part.file, columns)


def _stands(path: str, batch: pa.RecordBatch) -> bool:
    """Whether the last of these batches stands in the segment where it stood."""
    last = {name: batch.column(name)[-1].as_py() for name in ("position", "base_offset", "leader_epoch", "crc", "size")}
    with files.opened(path) as opened:
        opened.seek(last["position"])
        content = opened.read(HEADER_BYTES)
        end = opened.seek(0, os.SEEK_END)
    if len(content) < HEADER_BYTES or end < last["position"] + last["size"]:
        return False
    header = np.frombuffer(content, HEADER)[0]
    return all(int(header[name]) == last[name] for name in ("base_offset", "leader_epoch", "crc"))


def open_memory(folder: Path, clusters: Iterable[str]) -> SegmentMemory:
    """The memory in a folder, which is made if it is not there; a `UsageError` where it is of another cluster."""
    known = sorted({one for one in clusters if one})
    about = folder / _ABOUT
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if about.exists():
            of = json.loads(about.read_text())["clusters"]
            if known and of and not set(known) & set(of):
                raise UsageError(f"{folder} is of another cluster: {', '.join(of)}, not {', '.join(known)}.")
        elif any(folder.iterdir()):
            raise UsageError(f"{folder} is no memory of audits: it has other files.")
        else:
            about.write_text(json.dumps({"clusters": known}) + "\n")
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UsageError(f"{folder} cannot be a memory of audits: {why}.") from None
    return SegmentMemory(folder)
