"""What earlier audits have read of segments that have not changed since, so that an audit reads only what is new.

A sealed segment is never written to again. Of one in which nothing was wrong the headers are kept, by columns, under
its path, size and time; a later audit takes them from there and reads the segment not at all. What stands beside it is
small and is read again each time, and so is every segment of which there was something to tell.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from odradek.usage import UsageError
from odradek_pipeline.headers import COLUMNS, ByteRange, Chunk
from odradek_pipeline.layout import LogFile

__all__ = ["SegmentMemory", "open_memory"]

LAYOUT = 1
"""Of what is kept; another one is not read."""
BYTES_MIN = 256 << 10
"""What is smaller is read as fast as it is looked up."""
_ABOUT = "memory.json"
_SUFFIX = ".headers"

Stamp = tuple[int, int]
"""Size and time of a segment, in nanoseconds."""

_SCHEMA = pa.schema([(name, pa.from_numpy_dtype(kind)) for name, kind in COLUMNS.items()])
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


class SegmentMemory:
    """A folder of headers; workers of Spark have it at the same path."""

    def __init__(self, folder: str | Path, *, bytes_min: int = BYTES_MIN) -> None:
        self.folder = Path(folder)
        self.bytes_min = bytes_min

    def recall(self, part: ByteRange, *, checked: bool) -> list[Chunk] | None:
        """The headers of a range; None where they are not known, or no checksums were compared that are wanted now."""
        if not self.may_hold(part, checked=checked):
            return None
        chunks: list[Chunk] = []
        try:
            with pa.memory_map(str(self.path(part))) as opened, pa.ipc.open_file(opened) as file:
                for number in range(file.num_record_batches):
                    batch = file.get_batch(number)
                    columns = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in COLUMNS}
                    chunks.append(Chunk(part.file, columns))
        except (OSError, pa.ArrowException, KeyError):
            return None  # then it is read as if for the first time
        return chunks

    def may_hold(self, part: ByteRange, *, checked: bool) -> bool:
        """Whether the headers of a range are there, by what is written about them alone."""
        if part.active or part.size < self.bytes_min:
            return False
        try:
            with pa.memory_map(str(self.path(part))) as opened, pa.ipc.open_file(opened) as file:
                about = file.schema.metadata or {}
        except (OSError, pa.ArrowException):
            return False
        stamp = self.stamp(part)
        wanted = checked or part.unflushed
        return stamp is not None and about.get(b"stamp") == _text(stamp) and (not wanted or about[b"checked"] == b"1")

    def stamp(self, part: ByteRange) -> Stamp | None:
        """What tells a segment from what it was; None where nothing is to be kept of it."""
        if part.active or part.size < self.bytes_min:
            return None
        try:
            found = os.stat(part.file.path)
        except OSError:
            return None
        return found.st_size, found.st_mtime_ns

    def keep(self, part: ByteRange, chunks: Sequence[Chunk], stamp: Stamp, *, checked: bool) -> None:
        """Keep headers; whole or not at all, and only if the segment is what it was before it was read."""
        if self.stamp(part) != stamp:
            return
        path = self.path(part)
        path.parent.mkdir(parents=True, exist_ok=True)
        about = {b"stamp": _text(stamp), b"checked": b"1" if checked else b"0"}
        handle, beside = tempfile.mkstemp(dir=path.parent)
        os.close(handle)
        try:
            schema = _SCHEMA.with_metadata(about)
            with pa.OSFile(beside, "wb") as opened, pa.ipc.new_file(opened, schema, options=_OPTIONS) as file:
                for chunk in chunks:
                    file.write_batch(
                        pa.record_batch([pa.array(chunk.columns[name]) for name in COLUMNS], schema=_SCHEMA)
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
        return self.folder / f"{parent.name}-{hashlib.sha256(os.fsencode(parent.absolute())).hexdigest()[:16]}"

    def path(self, part: ByteRange) -> Path:
        """Where the headers of a range lie."""
        return self.directory(part.file) / f"{Path(part.file.path).stem}-{part.start}-{part.end}{_SUFFIX}"


def _text(stamp: Stamp) -> bytes:
    return f"{LAYOUT} {stamp[0]} {stamp[1]}".encode()


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
        raise UsageError(f"{folder} cannot be a memory of audits: {error}.") from None
    return SegmentMemory(folder)
