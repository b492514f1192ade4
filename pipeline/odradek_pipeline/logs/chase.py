"""One pass over the batches of a mapped segment, by chasing their lengths; and on behind what is no batch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from struct import Struct

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from odradek.records.batch import MAGIC_AT, Batch, InvalidBatch, parse_batch
from odradek.records.control import read_marker
from odradek.records.legacy import batch_at
from odradek.records.record import iterate_records
from odradek_pipeline.logs.files import Segment
from odradek_pipeline.logs.headers import (
    COLUMNS,
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LENGTH_BASE,
    TRANSACTIONAL,
    ByteRange,
    Chunk,
    batch_begins,
    index_entries,
)
from odradek_pipeline.logs.scanned import Scan

__all__ = ["Chase"]

BATCHES_PER_CHUNK = 65_536
SEARCHED_BYTES, SEARCHED_PLACES = 16 << 20, 100_000
"""How far behind damage the next whole batch is looked for, where no index says where one begins."""

_LENGTH_MIN = 14  # the smallest message of the oldest format
_CRC_AT = 17
_CHECKSUMMED_AT = 21
_NAMES = {"leader_epoch": "partition_leader_epoch"}
"""The fields of a batch that have another name than the columns of headers."""
_length_at = Struct(">i").unpack_from
_offset_at = Struct(">q").unpack_from

# A marker's record as brokers write it (KIP-98, "Control Messages"), but for the bytes of its timestamp delta: one, or
# more where the cleaner has put a delete horizon in place of the base timestamp.
_MARKER_RECORD = np.dtype(
    [
        ("offset_delta", "i1"),
        ("key_length", "i1"),
        ("key_version", ">i2"),
        ("type", ">i2"),
        ("value_length", "i1"),
        ("version", ">i2"),
        ("coordinator_epoch", ">i4"),
        ("headers", "i1"),
    ]
)
_BEFORE_DELTA = 2  # length and attributes
_REST_OF_RECORD = _MARKER_RECORD.itemsize + 1  # what the length counts beside the timestamp delta
_DELTA_BYTES_MAX = 10
_KEY_OF_4, _VALUE_OF_6 = 8, 12  # zigzag
_NO_MARKER = -1
_CODEC, _SNAPPY, _CODEC_MAX = 7, 2, 4
_MAGIC_OF_CODEC = {1: b"\x1f\x8b\x08", 3: b"\x04\x22\x4d\x18", 4: b"\x28\xb5\x2f\xfd"}
"""What gzip, frames of lz4, and zstd begin with."""
_BEGIN_BYTES = 5
"""The bytes of the longest varint of 32 bits."""


class Chase:
    """One pass over the batches of a segment."""

    def __init__(self, part: ByteRange, segment: Segment, scan: Scan) -> None:
        self.part, self.file, self.segment, self.scan = part, part.file, segment, scan
        self.mapped, self.end = segment.mapped, segment.end
        self.position = part.start
        self.goes_on = False
        """Whether the last batches that were found are followed by more that are whole."""
        self.has_old = False
        """Whether a message of the formats before 0.11 was found."""

    def chunks(self) -> Iterator[Chunk]:
        while self.position < self.end:
            positions, lengths = self.positions()
            if positions:
                chunk = self.gather(np.array(positions, np.int64), np.array(lengths, np.int64))
                if len(chunk):
                    yield chunk
            if not self.goes_on and self.position < self.end:
                self.segment.load(self.end)
                short = self.skip()
                if short is not None:
                    yield short
            self.segment.free(self.position)

    def positions(self) -> tuple[list[int], list[int]]:
        """Where the next batches begin, up to the first that is not whole."""
        mapped, end, position = self.mapped, self.end, self.position
        positions: list[int] = []
        lengths: list[int] = []
        last_start = end - HEADER_BYTES
        bound = self.bound(position + HEADER_BYTES)
        most = position + self.segment.stride
        self.goes_on = False
        for _ in range(BATCHES_PER_CHUNK):
            if position > last_start:
                break
            (length,) = _length_at(mapped, position + 8)
            following = position + LENGTH_BASE + length
            if length < _LENGTH_MIN or following > bound:
                if length < _LENGTH_MIN or following > end:
                    break
                if following > most and positions:
                    self.goes_on = True
                    break
                bound = self.bound(following + HEADER_BYTES)
            positions.append(position)
            lengths.append(length)
            position = following
        else:
            self.goes_on = True
        self.scan.bytes_read += position - self.position
        self.position = position
        return positions, lengths

    def bound(self, upto: int) -> int:
        """Up to where a batch may reach so that the header behind it is there, too, once that many bytes are."""
        self.segment.load(upto)
        return self.end if self.segment.loaded >= self.end else self.segment.loaded - HEADER_BYTES

    # ------------------------------------------------------------------ what is no batch

    def skip(self) -> Chunk | None:
        """Note what stands where a batch should begin, and go on where the next one does.

        A message of the formats before 0.11 that is shorter than the header of a batch is one.
        """
        rest = self.end - self.position
        if not self.mapped[self.position : min(self.position + HEADER_BYTES, self.end)].strip(b"\0") and self.is_zero():
            self.note_zeros(rest)
            self.position = self.end
            return None
        if self.is_old_message(rest):
            return self.short_message()
        begins = self.next_start()
        length = _length_at(self.mapped, self.position + 8)[0] if rest >= LENGTH_BASE else None
        whole = length is not None and length >= _LENGTH_MIN
        if begins == self.end and (rest < HEADER_BYTES or (whole and self.looks_like_batch())):
            self.scan.note(
                self.file,
                self.position,
                "half-written",
                f"{rest} bytes at the end are not a whole batch"
                + (f" of {length + LENGTH_BASE}" if length is not None else ""),
                severity="info" if self.part.active else "bad",
            )
        else:
            what = f"a batch length of {length}" if length is not None else "no batch"
            self.scan.note(self.file, self.position, "broken", f"{what}; {begins - self.position} bytes skipped")
        self.position = begins
        return None

    def note_zeros(self, rest: int) -> None:
        """Zeros up to the end: a segment that is closed is cut to what is in it, so there they are damage."""
        if self.part.active or self.part.is_last:
            detail = f"{rest} bytes of zeros (allocated in advance, or lost in a crash)"
            self.scan.note(self.file, self.position, "zero-tail", detail, severity="info")
        else:
            detail = f"{rest} bytes of zeros at the end of a segment that another one follows"
            self.scan.note(self.file, self.position, "broken", detail)

    def is_old_message(self, rest: int) -> bool:
        """Whether a message of the formats before 0.11 begins here."""
        if rest < LENGTH_BASE + _LENGTH_MIN:
            return False
        following = self.position + LENGTH_BASE + int(_length_at(self.mapped, self.position + 8)[0])
        magic = self.mapped[self.position + MAGIC_AT]
        return magic <= 1 and self.position + LENGTH_BASE + _LENGTH_MIN <= following <= self.end

    def short_message(self) -> Chunk:
        """The message here, which is shorter than the header of a batch; goes past it."""
        length = int(_length_at(self.mapped, self.position + 8)[0])
        headers = np.zeros(1, HEADER)
        headers["magic"] = self.mapped[self.position + MAGIC_AT]
        positions, lengths = np.array([self.position], np.int64), np.array([length], np.int64)
        self.read_old(positions, lengths, headers, [0])
        self.scan.bytes_read += LENGTH_BASE + length
        self.position += LENGTH_BASE + length
        return Chunk(self.file, self.columns(positions, lengths, headers))

    def read_old(
        self, positions: NDArray[np.int64], lengths: NDArray[np.int64], headers: NDArray[np.void], which: Sequence[int]
    ) -> None:
        """Give messages of the formats before 0.11 the headers of batches: they have offsets and times, no producers.

        The first one of a segment is noted.
        """
        checks = self.scan.check_crc or self.part.unflushed
        for at in which:
            position = int(positions[at])
            batch = batch_at(memoryview(self.mapped[position : position + LENGTH_BASE + int(lengths[at])]))
            if not self.has_old:
                self.has_old = True
                detail = f"messages of format v{batch.magic}, from before 0.11: without producers"
                self.scan.note(self.file, position, "old-magic", detail, severity="info")
            if checks and not batch.crc_is_valid():
                self.scan.note(self.file, position, "bad-crc", f"the message says {batch.crc:08x}, its bytes do not")
            for name in HEADER.names or ():
                headers[name][at] = getattr(batch, _NAMES.get(name, name))

    def is_zero(self) -> bool:
        return not any(
            self.mapped[start : min(start + (1 << 20), self.end)].strip(b"\0")
            for start in range(self.position, self.end, 1 << 20)
        )

    def looks_like_batch(self) -> bool:
        """Whether the bytes here pass for the beginning of a batch that belongs to this segment."""
        if self.position + HEADER_BYTES > self.end:
            return True
        (offset,) = _offset_at(self.mapped, self.position)
        return self.mapped[self.position + 16] == 2 and self.file.base_offset <= offset

    def next_start(self) -> int:
        """The first position behind this one at which the index says a batch begins, and one does."""
        for offset, position in index_entries(self.file.path):
            if self.position < position < self.end and batch_begins(self.mapped, position, self.end, offset):
                return min(position, self.searched(position))
        return self.searched(self.end)

    def searched(self, limit: int) -> int:
        """The first place before the limit where a batch begins whose checksum is right; else the limit."""
        end = min(limit, self.position + SEARCHED_BYTES)
        magics = np.frombuffer(self.mapped, np.uint8, offset=0)[self.position + 1 + MAGIC_AT : end + MAGIC_AT]
        for found in np.flatnonzero(magics == 2)[:SEARCHED_PLACES].tolist():
            position = self.position + 1 + found
            if position < end and batch_begins(self.mapped, position, self.end) and self.is_sealed(position):
                return position
        return limit

    def is_sealed(self, position: int) -> bool:
        """Whether the bytes here are those of a batch by its checksum."""
        end = position + LENGTH_BASE + int(_length_at(self.mapped, position + 8)[0])
        wanted = int.from_bytes(self.mapped[position + _CRC_AT : position + _CHECKSUMMED_AT])
        return crc32c(self.mapped[position + _CHECKSUMMED_AT : end]) == wanted

    # ------------------------------------------------------------------ columns

    def gather(self, positions: NDArray[np.int64], lengths: NDArray[np.int64]) -> Chunk:
        everywhere = np.ndarray((self.end - HEADER_BYTES + 1,), HEADER, buffer=self.mapped, strides=(1,))
        headers = everywhere[positions]
        del everywhere
        keep = self.check(positions, lengths, headers)
        if not keep.all():
            positions, lengths, headers = positions[keep], lengths[keep], headers[keep]
        return Chunk(self.file, self.columns(positions, lengths, headers))

    def check(
        self, positions: NDArray[np.int64], lengths: NDArray[np.int64], headers: NDArray[np.void]
    ) -> NDArray[np.bool_]:
        """Which batches are of a known format; notes the others, and wrong checksums if they are asked for."""
        magic = headers["magic"].copy()
        is_old = (magic == 0) | (magic == 1)
        self.read_old(positions, lengths, headers, np.flatnonzero(is_old).tolist())
        whole = (magic == 2) & (lengths >= HEADER_BYTES - LENGTH_BASE)
        keep = whole & (headers["last_offset_delta"] >= 0)
        for at in np.flatnonzero(whole & ~keep):
            delta = int(headers["last_offset_delta"][at])
            self.scan.note(
                self.file, int(positions[at]), "broken", f"a batch whose last offset is {delta} from its first"
            )
        for at in np.flatnonzero(~whole & ~is_old):
            number = int(magic[at])
            name = "unknown-magic" if number != 2 else "broken"
            self.scan.note(self.file, int(positions[at]), name, f"magic {number}, length {lengths[at]}")
        if self.scan.check_crc or self.part.unflushed:
            self.check_crc(positions[keep], lengths[keep], headers["crc"][keep])
        self.check_records(positions[keep], lengths[keep] + LENGTH_BASE - HEADER_BYTES, headers[keep])
        return keep | is_old

    def check_records(self, positions: NDArray[np.int64], room: NDArray[np.int64], headers: NDArray[np.void]) -> None:
        """Whether the records of each batch begin as records do; a checksum does not say so where it was made of noise.

        Where they are not compressed that is the length of the first one, all of the room if it is alone, and its
        attributes, of which there are none yet. Where they are it is what their codec begins with; raw snappy begins
        with nothing of its own, and with nothing of another's.
        """
        codec = headers["attributes"] & _CODEC
        count = headers["record_count"].astype(np.int64)
        at = np.flatnonzero(count > 0)
        if not len(at):
            return
        begins = np.zeros((len(at), _BEGIN_BYTES), np.uint8)
        content = np.frombuffer(self.mapped, np.uint8)
        starts = positions[at] + HEADER_BYTES
        for number in range(_BEGIN_BYTES):
            place = starts + number
            begins[:, number] = np.where(number < room[at], content[np.minimum(place, self.end - 1)], 0)
        size, width = _varints(begins)
        attributes = content[np.minimum(starts + width, self.end - 1)]
        del content
        rest = room[at] - width
        plain = (width > 0) & (size > 0) & np.where(count[at] == 1, size == rest, size < rest) & (attributes == 0)
        of_another = np.zeros(len(at), bool)
        for magic in _MAGIC_OF_CODEC.values():
            of_another |= (begins[:, : len(magic)] == np.frombuffer(magic, np.uint8)).all(axis=1)
        fits = np.where(codec[at] == 0, plain, (codec[at] <= _CODEC_MAX) & ~((codec[at] == _SNAPPY) & of_another))
        for number, magic in _MAGIC_OF_CODEC.items():
            same = (begins[:, : len(magic)] == np.frombuffer(magic, np.uint8)).all(axis=1)
            fits = np.where(codec[at] == number, same, fits)
        for wrong in at[~fits].tolist():
            detail = f"the records of the batch at offset {headers['base_offset'][wrong]} cannot be read"
            self.scan.note(self.file, int(positions[wrong]), "bad-records", detail)

    def check_crc(self, positions: NDArray[np.int64], lengths: NDArray[np.int64], crcs: NDArray[np.uint32]) -> None:
        with memoryview(self.mapped) as view:
            for position, length, wanted in zip(positions.tolist(), lengths.tolist(), crcs.tolist(), strict=True):
                with view[position + _CHECKSUMMED_AT : position + LENGTH_BASE + length] as covered:
                    found = crc32c(covered)
                if found != wanted:
                    self.scan.note(
                        self.file, position, "bad-crc", f"the batch says {wanted:08x}, its bytes {found:08x}"
                    )

    def columns(
        self, positions: NDArray[np.int64], lengths: NDArray[np.int64], headers: NDArray[np.void]
    ) -> dict[str, NDArray[np.generic]]:
        sequence = headers["base_sequence"].astype(np.int64)
        last_sequence = np.where(sequence < 0, -1, (sequence + headers["last_offset_delta"]) & 0x7FFFFFFF)
        marker_type, coordinator_epoch = self.markers(positions, headers)
        computed = {
            "position": positions,
            "size": lengths + LENGTH_BASE,
            "last_offset": headers["base_offset"] + headers["last_offset_delta"],
            "last_sequence": last_sequence,
            "marker_type": marker_type,
            "coordinator_epoch": coordinator_epoch,
        }
        return {
            name: np.ascontiguousarray((computed[name] if name in computed else headers[name]).astype(kind))
            for name, kind in COLUMNS.items()
        }

    def markers(
        self, positions: NDArray[np.int64], headers: NDArray[np.void]
    ) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
        """Type and coordinator epoch of every marker: by columns where it is as brokers write it, else one by one."""
        kinds = np.full(len(positions), _NO_MARKER, np.int16)
        epochs = np.full(len(positions), -1, np.int32)
        inside = (headers["attributes"] & TRANSACTIONAL) != 0
        of_producer = ((headers["attributes"] & CONTROL) != 0) & (inside | (headers["producer_id"] >= 0))
        at = np.flatnonzero(of_producer & (headers["record_count"] > 0))
        for outside in positions[at[~inside[at]]].tolist():
            self.scan.note(self.file, outside, "odd-marker", "a marker that says it is of no transaction")
        if len(at) == 0:
            return kinds, epochs
        usual = self.usual_markers(positions[at], headers["batch_length"][at].astype(np.int64) + LENGTH_BASE)
        found = at[usual >= 0]
        everywhere = np.ndarray(
            (self.end - _MARKER_RECORD.itemsize + 1,), _MARKER_RECORD, buffer=self.mapped, strides=(1,)
        )
        records = everywhere[usual[usual >= 0]]
        del everywhere
        plain = (
            (records["key_length"] == _KEY_OF_4)
            & (records["value_length"] == _VALUE_OF_6)
            & (records["key_version"] == 0)
            & (records["version"] == 0)
            & (records["type"] >= 0)
            & (records["type"] <= 1)
        )
        kinds[found[plain]] = records["type"][plain]
        epochs[found[plain]] = records["coordinator_epoch"][plain]
        for other in np.concatenate((at[usual < 0], found[~plain])).tolist():
            kinds[other], epochs[other] = self.odd_marker(int(positions[other]), headers[other])
        return kinds, epochs

    def usual_markers(self, positions: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the part of each marker's record behind its timestamp delta begins; -1 where it is none."""
        starts = positions + HEADER_BYTES
        room = sizes - HEADER_BYTES
        length = np.frombuffer(self.mapped, np.uint8)[np.minimum(starts, self.end - 1)].astype(np.int64) >> 1
        delta = length - _REST_OF_RECORD
        fits = (delta >= 1) & (delta <= _DELTA_BYTES_MAX) & (room == 1 + length)
        return np.where(fits, starts + _BEFORE_DELTA + delta, -1)

    def odd_marker(self, position: int, header: np.void) -> tuple[int, int]:
        """A control batch that is not as brokers write it: read as any batch of records."""
        size = int(header["batch_length"]) + LENGTH_BASE
        batch = None
        with contextlib.suppress(InvalidBatch):
            batch = parse_batch(memoryview(self.mapped[position : position + size]))
        marker = read_marker(batch) if batch is not None else None
        if batch is None or marker is None:
            detail = "a control batch of a producer that is no end-of-transaction marker"
            self.scan.note(self.file, position, "odd-marker", detail)
            return _NO_MARKER, -1
        version = key_version(batch)
        if version != 0 or marker.version != 0:
            detail = f"a marker with version {version} of its key and {marker.version} of its value"
            self.scan.note(self.file, position, "unknown-version", detail)
        return int(marker.commit), marker.coordinator_epoch


def key_version(batch: Batch) -> int:
    """The version of a control record's key."""
    record = next(iterate_records(batch))
    return int.from_bytes((record.key or b"")[:2], signed=True)


def _varints(begins: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The zigzag varint that each row begins with, and how many bytes it has; 0 where it has no end."""
    ends = begins < 0x80
    width = np.where(ends.any(axis=1), ends.argmax(axis=1) + 1, 0)
    value = np.zeros(len(begins), np.int64)
    for number in range(begins.shape[1]):
        value |= np.where(number < width, (begins[:, number].astype(np.int64) & 0x7F) << (7 * number), 0)
    return (value >> 1) ^ -(value & 1), width
