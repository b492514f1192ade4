"""Segment files, read by chasing batch headers (KIP-98, "Message Format").

Payloads stay untouched unless checksums are asked for.
Positions come from a short loop over the lengths, everything else from one numpy gather over them, so a gigabyte of
log costs a few hundred milliseconds. Whatever is not a whole batch becomes a `Problem`, and the scan goes on behind it
where an index entry says that a batch begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path

from odradek_pipeline.logs import files
from odradek_pipeline.logs.chase import BATCHES_PER_CHUNK, Chase
from odradek_pipeline.logs.headers import (
    COLUMNS,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    TRANSACTIONAL,
    ByteRange,
    Chunk,
    batch_begins,
    index_entries,
)
from odradek_pipeline.logs.layout import CLUSTER_METADATA, FileKind, LogFile
from odradek_pipeline.logs.log_dirs import read_log_dir
from odradek_pipeline.logs.scanned import Scan
from odradek_pipeline.logs.segment_checks import BesideSegment

__all__ = [
    "BATCHES_PER_CHUNK",
    "COLUMNS",
    "CONTROL",
    "DELETE_HORIZON",
    "HEADER",
    "HEADER_BYTES",
    "TRANSACTIONAL",
    "ByteRange",
    "Chunk",
    "index_entries",
    "plan_ranges",
    "scan_range",
    "scan_segments",
]

RANGE_BYTES = 128 << 20
_NEVER = (-1, -1)
"""Size and time of no segment."""


def following_segments(listed: Iterable[LogFile]) -> dict[str, int | None]:
    """Where the segment behind each one begins; None for the last of its partition."""
    segments = [file for file in listed if file.kind is FileKind.SEGMENT]
    following: dict[str, int | None] = {file.path: None for file in segments}
    by_directory: dict[str, list[LogFile]] = {}
    for file in segments:
        by_directory.setdefault(str(Path(file.path).parent), []).append(file)
    for of in by_directory.values():
        for one, after in pairwise(of):
            following[one.path] = after.base_offset
    return following


def scan_segments(listed: Sequence[LogFile], scan: Scan) -> Iterator[Chunk]:
    """The headers of every segment."""
    parts = plan_ranges(listed, range_bytes=0, cleaned=scan.cleaned)
    done, total = 0, sum(part.size for part in parts)
    for part in parts:
        for chunk in scan_range(part, scan):
            if scan.reading is not None:
                scan.reading(done + int(chunk.columns["position"][-1]) - part.start, total)
            yield chunk
        done += part.size
    if scan.reading is not None:
        scan.reading(done, total)


def scan_range(part: ByteRange, scan: Scan) -> Iterator[Chunk]:
    """The headers of one range, in chunks; what cannot be read is noted in `scan`."""
    recalled = scan.memory.recall(part, checked=scan.check_crc) if scan.memory is not None else None
    known = [] if recalled is None else recalled.chunks
    if recalled is not None and recalled.upto < 0:
        scan.bytes_remembered += part.size
        yield from _checked(known, part, scan)
        return
    file = part.file
    start = part.start if recalled is None else recalled.upto
    try:
        with files.mapped_segment(file.path, file.size, start, part.end) as segment:
            if segment is None:
                yield from _checked(known, part, scan)
                return
            chase = Chase(part, segment, scan)
            if recalled is not None:
                chase.position = min(start, chase.end)
                scan.bytes_remembered += chase.position - part.start
            yield from _read(chase, part, scan, known)
    except FileNotFoundError as error:
        scan.note(file, 0, "vanished", f"{error.strerror}: deleted since the directory was read", severity="info")
    except (OSError, ValueError) as error:
        scan.note(file, 0, "unreadable", str(error))


def _read(chase: Chase, part: ByteRange, scan: Scan, known: Sequence[Chunk]) -> Iterator[Chunk]:
    """What is remembered of the beginning, and what is read now; kept for another time if there is nothing to say."""
    stamp = scan.memory.stamp(part) if scan.memory is not None else None
    beside = BesideSegment(part, scan) if part.file.topic != CLUSTER_METADATA else None
    kept: list[Chunk] = []
    before, of_beside = len(scan.problems), 0
    for number, chunk in enumerate(chain(known, chase.chunks()), 1):
        scan.batches += len(chunk)
        if beside is not None:
            noted = len(scan.problems)
            beside.check(chunk, is_last=chase.position >= chase.end and number >= len(known))
            of_beside += len(scan.problems) - noted
        if stamp is not None:
            kept.append(chunk)
        yield chunk
    told = scan.problems[before:]
    half = [one for one in told if part.active and one.problem == "half-written" and one.severity == "info"]
    if stamp is not None and scan.memory is not None and len(told) == of_beside + len(half):
        # What was half written is looked at again.
        scan.memory.keep(part, kept, _NEVER if half else stamp, checked=scan.check_crc or part.unflushed)


def _checked(chunks: Sequence[Chunk], part: ByteRange, scan: Scan) -> Iterator[Chunk]:
    """What is remembered, held against what stands beside the segment now."""
    beside = BesideSegment(part, scan) if part.file.topic != CLUSTER_METADATA else None
    for number, chunk in enumerate(chunks, 1):
        scan.batches += len(chunk)
        if beside is not None:
            beside.check(chunk, is_last=number == len(chunks))
        yield chunk


# ---------------------------------------------------------------------- planning


def plan_ranges(
    listed: Sequence[LogFile], *, range_bytes: int = RANGE_BYTES, cleaned: Mapping[tuple[str, int], int] | None = None
) -> list[ByteRange]:
    """Segments as ranges of about `range_bytes`, cut where the sparse index says a batch begins; 0 cuts none.

    `cleaned` is how far compaction may have gone in a partition, where that is further than its checkpoint says.
    """
    ranges: list[ByteRange] = []
    following = following_segments(listed)
    for file in listed:
        if file.kind is FileKind.SEGMENT and file.size:
            after = following[file.path]
            log_dir = read_log_dir(str(Path(file.path).parent.parent))
            unflushed = log_dir.is_unflushed(file, after)
            active = after is None and not log_dir.was_stopped_cleanly
            upto = log_dir.cleaned_upto((file.topic, file.partition), cleaned)
            cuts = [0, *(_cuts(file, range_bytes) if range_bytes else ()), -1]
            about = (active, unflushed, upto, after is None)
            ranges += [ByteRange(file, start, end, *about) for start, end in pairwise(cuts)]
    return ranges


def _cuts(file: LogFile, range_bytes: int) -> list[int]:
    if file.size < range_bytes * 3 // 2:
        return []
    cuts: list[int] = []
    wanted = range_bytes
    try:
        with files.opened(file.path) as opened:
            for _, position in index_entries(file.path):
                if position < wanted or file.size - position < range_bytes // 2:
                    continue
                opened.seek(position)
                if batch_begins(opened.read(HEADER_BYTES) + b"", 0, 1 << 62):
                    cuts.append(position)
                    wanted = position + range_bytes
    except OSError:
        return []  # the scan itself will say so
    return cuts
