"""Segments that are files: one that is written to, and one that is opened when somebody reads it.

The bytes of an active segment are a mapped file in place of anonymous memory, so that they are in the file as soon as
they are written, whatever becomes of the process. A sealed segment of an earlier process is a name, a size and an end
until its first read: ten thousand of them cost a start next to nothing.
"""

from __future__ import annotations

from array import array
from struct import Struct as Layout
from typing import TYPE_CHECKING

from odradek.log.files.damaged import DamagedFile
from odradek.log.files.indexes import last_timestamp
from odradek.log.files.walk import SegmentIndex, walk
from odradek.log.segment import Segment
from odradek.records.batch import stamp

if TYPE_CHECKING:
    from odradek.log.disk import Disk, MappedFile
    from odradek.records.batch import Batch

__all__ = ["ActiveFile", "SealedFile", "adopt_index", "index_of"]

_STAMPED = Layout(">qii")
"""The beginning of a batch: offset, length, leader epoch."""
_UNKNOWN_UNTIL_READ = frozenset({"buffer", "offsets", "positions", "timestamps", "first_timestamp", "max_timestamp"})


class ActiveFile(Segment):
    """A segment that is appended to."""

    __slots__ = ("_reserved", "file", "name")

    def __init__(
        self,
        disk: Disk,
        name: str,
        base_offset: int,
        *,
        capacity: int,
        created: int,
        number: int,
        index: SegmentIndex | None = None,
    ) -> None:
        """A new file of this name, or the one that has these batches. Raises `DiskError`."""
        super().__init__(base_offset, capacity=0, created=created, number=number)
        self.name = name
        self.capacity = capacity
        self.file: MappedFile = disk.map(name, capacity, until=0 if index is None else index.size)
        self.buffer = self.file.buffer
        self._reserved = 0
        self.busy = True  # huge pages are for anonymous memory
        if index is not None:
            adopt_index(self, index)

    def append(self, batch: Batch, base_offset: int, *, size: int, leader_epoch: int, log_append_time: bool) -> None:
        """See `Segment`. Until the very last write there is no batch: whoever recovers the file finds a length of 0.

        Raises `DiskError` where the disk is full, and then nothing has changed.
        """
        start = self.size
        end = start + size
        if end > self._reserved:
            self._reserved = self.file.reserve(end)
        view: memoryview | bytearray = batch.view
        if log_append_time:
            view = bytearray(view)
            stamp(
                view,
                0,
                base_offset=base_offset,
                leader_epoch=leader_epoch,
                max_timestamp=batch.max_timestamp,
                log_append_time=True,
            )
        buffer = self.buffer
        buffer[start + _STAMPED.size : end] = view[_STAMPED.size :]
        buffer[start : start + _STAMPED.size] = _STAMPED.pack(base_offset, batch.batch_length, leader_epoch)
        self._note(batch, base_offset, start=start, end=end)


class SealedFile(Segment):
    """A segment that an earlier process has sealed: opened by whoever looks into it first."""

    __slots__ = ("_disk", "name")

    def __init__(
        self, disk: Disk, name: str, base_offset: int, *, size: int, next_offset: int, created: int, number: int
    ) -> None:
        super().__init__(base_offset, capacity=0, created=created, number=number)
        self.name = name
        self._disk = disk
        self.size = self.capacity = size
        self.next_offset = next_offset
        self.has_producers = True
        """Until somebody has looked."""
        for unknown in _UNKNOWN_UNTIL_READ:
            delattr(self, unknown)

    def __getattr__(self, name: str) -> object:
        """Called for what is not known yet."""
        if name not in _UNKNOWN_UNTIL_READ:
            raise AttributeError(name)
        if name == "max_timestamp" and (newest := self._newest_by_index()) is not None:
            self.max_timestamp = newest
            return newest
        view = self._disk.map_to_read(self.name)
        index = walk(view, self.base_offset, checks=False)
        next_offset = self.next_offset
        if index.problem:
            self._disk.warn(self.name, f"{index.problem} (position {index.size}); what follows is not read")
        self.buffer = view
        adopt_index(self, index)
        # Compaction may have taken the last batches, and their offsets are not given again.
        self.next_offset = max(next_offset, index.next_offset)
        return {
            "buffer": self.buffer,
            "offsets": self.offsets,
            "positions": self.positions,
            "timestamps": self.timestamps,
            "first_timestamp": self.first_timestamp,
            "max_timestamp": self.max_timestamp,
        }[name]

    def _newest_by_index(self) -> int | None:
        """The greatest timestamp as the time index has it: retention and a search by time ask every segment."""
        data = self._disk.read(self.name.removesuffix(".log") + ".timeindex")
        try:
            return None if data is None else last_timestamp(data)
        except DamagedFile:
            return None


def adopt_index(segment: Segment, index: SegmentIndex) -> None:
    """Let a segment have the batches that were found in its bytes."""
    segment.offsets = index.offsets
    segment.positions = index.positions
    segment.timestamps = index.timestamps
    segment.size = index.size
    segment.next_offset = index.next_offset
    segment.max_timestamp = index.timestamps[-1] if index.timestamps else -1
    segment.first_timestamp = index.first_timestamp if index.first_timestamp >= 0 else segment.created
    segment.has_producers = index.has_producers


def index_of(segment: Segment) -> SegmentIndex:
    """What is known of the batches of a segment."""
    return SegmentIndex(
        array("q", segment.offsets),
        array("I", segment.positions),
        array("q", segment.timestamps),
        segment.size,
        segment.next_offset,
        segment.first_timestamp,
        segment.has_producers,
    )
