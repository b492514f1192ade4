"""Segments as files: an active one that is written, and sealed ones that are opened at their first read.

The bytes of an active segment are a mapped file in place of anonymous memory, so they are in the file as soon as they
are written, even if the process is killed. A sealed segment of an earlier process is only a name, a size and an end
until its first read: ten thousand of them cost a start next to nothing. Of the last segment after a clean stop a start
reads the end, as Kafka does; its first read or append reads the rest.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from struct import Struct as Layout
from typing import TYPE_CHECKING

from odradek.log.disk import DamagedFile
from odradek.log.files.indexes import last_timestamp
from odradek.log.files.walk import SegmentIndex, SparseEntries, walk
from odradek.log.segment import Segment
from odradek.records.batch import stamp

if TYPE_CHECKING:
    from odradek.log.disk import Disk, MappedFile
    from odradek.records.batch import Batch

__all__ = ["ActiveFile", "Gaps", "SealedFile", "adopt_index", "index_of"]

_STAMPED = Layout(">qii")
"""The beginning of a batch: offset, length, leader epoch."""
_INDEX = frozenset({"offsets", "positions", "timestamps"})
_UNKNOWN_UNTIL_READ = _INDEX | {"buffer", "first_timestamp", "max_timestamp"}


class Gaps:
    """Offsets between the segments of a folder that are in none of them, as they are found."""

    __slots__ = ("_disk", "_waiting", "are_damage", "folder")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.folder = ""
        self.are_damage = True
        """Compaction leaves such gaps, too."""
        self._waiting: list[tuple[int, int]] | None = []
        """Those that were found before the settings of the topic were known; None afterwards."""

    @property
    def are_waiting(self) -> bool:
        """Whether any were found that are not reported yet."""
        return bool(self._waiting)

    def note(self, first: int, following: int) -> None:
        """The offsets from `first` on up to `following`, which is there, are missing."""
        if self._waiting is not None:
            self._waiting.append((first, following))
        elif self.are_damage:
            self._disk.warn(self.folder, f"offsets {first} to {following - 1} are in no segment")

    def tell(self) -> None:
        """Report them from now on, and those that were found before: the settings of the topic are known."""
        waiting, self._waiting = self._waiting, None
        for first, following in waiting or ():
            self.note(first, following)


class ActiveFile(Segment):
    """A segment that is appended to."""

    __slots__ = ("_disk", "_entries", "_file", "_interval_bytes", "_note_gap", "_reserved", "is_read", "name")
    is_file = True

    def __init__(
        self,
        disk: Disk,
        name: str,
        base_offset: int,
        *,
        capacity: int,
        created: int,
        number: int,
        interval_bytes: int,
        note_gap: Callable[[int, int], None],
        index: SegmentIndex | None = None,
        view: memoryview | None = None,
    ) -> None:
        """A new file of this name, or the one that has these batches. Raises `DiskError`.

        A file that ends with its last batch is made ready for more at the first append; until then it is read from
        `view`. `note_gap` is called with the offsets that it should have and lacks, where only its end was read before.
        """
        super().__init__(base_offset, capacity=0, created=created, number=number)
        self.name = name
        self.is_read = True
        """Whether all its batches are known, and not just the last ones."""
        self._disk = disk
        self._note_gap = note_gap
        self.capacity = capacity
        self._file: MappedFile | None = None
        if view is None:
            self._file = disk.map(name, capacity, until=0 if index is None else index.size)
            view = self._file.buffer
        self.buffer = view
        self._reserved = 0
        self._interval_bytes = interval_bytes
        self._entries = SparseEntries(interval_bytes)
        self.busy = True  # huge pages are for anonymous memory
        if index is not None:
            adopt_index(self, index)
            if index.begins_at:
                self.is_read = False
                # Whoever looks at them comes to `__getattr__`. An append looks at the first timestamp before all else.
                del self.offsets, self.positions, self.timestamps, self.first_timestamp

    def __getattr__(self, name: str) -> object:
        """Called for attributes that are not loaded yet."""
        if name not in _INDEX and name != "first_timestamp":
            raise AttributeError(name)
        _read_all(self, self._disk, self.buffer[: self.size], self._note_gap)
        return {
            "offsets": self.offsets,
            "positions": self.positions,
            "timestamps": self.timestamps,
            "first_timestamp": self.first_timestamp,
        }[name]

    def _put(
        self, batch: Batch, base_offset: int, *, start: int, end: int, leader_epoch: int, log_append_time: bool
    ) -> None:
        """See `Segment`. The length of a batch is written last: recovery of a half-written batch finds a length of 0.

        Raises `DiskError` if the disk is full, and then nothing has changed.
        """
        if end > self._reserved:
            self._reserve(end)
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

    def _reserve(self, end: int) -> None:
        if self._file is None:
            self._file = self._disk.map(self.name, self.capacity, until=self.size)
        self._reserved = self._file.reserve(end)
        self.buffer = self._file.buffer
        self._entries.extend(self.buffer, self.offsets, self.positions, self.timestamps)

    def _copy(self, view: memoryview, start: int, end: int) -> None:
        """See `_put`."""
        if end > self._reserved:
            self._reserve(end)
        self.buffer[start + _STAMPED.size : end] = view[_STAMPED.size :]
        self.buffer[start : start + _STAMPED.size] = view[: _STAMPED.size]

    def modified(self) -> int:
        """See `Segment`; what this process has written to a mapped file does not count."""
        return _modified(self, self._disk)

    @property
    def is_untouched(self) -> bool:
        """Whether its file is as the process before has left it."""
        return self._file is None

    def end_file(self) -> None:
        """Cut the file behind its last batch. Raises `DiskError`."""
        if self._file is not None:
            self._file.cut(self.size)

    def take_back(self, offset: int) -> int:
        """Have no batch at this offset, the last one, after all: how many bytes that are. Nobody has read it."""
        position = self.positions[-1]
        self.buffer[position : position + _STAMPED.size] = bytes(_STAMPED.size)
        return self.truncate(offset)

    def truncate(self, offset: int) -> int:
        self._entries = SparseEntries(self._interval_bytes)
        return super().truncate(offset)

    def entries(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Entries of its offset index and of its time index."""
        return self._entries.ended(self.buffer, self.offsets, self.positions, self.timestamps)


class SealedFile(Segment):
    """A sealed segment of an earlier process, opened at its first read."""

    __slots__ = ("_disk", "_note_gap", "is_read", "name")

    def __init__(
        self,
        disk: Disk,
        name: str,
        base_offset: int,
        *,
        size: int,
        next_offset: int,
        created: int,
        number: int,
        note_gap: Callable[[int, int], None],
    ) -> None:
        """`note_gap` is called with the offsets between its last batch and `next_offset`, if it lacks any."""
        super().__init__(base_offset, capacity=0, created=created, number=number)
        self.name = name
        self.is_read = False
        """Whether its batches are known."""
        self._disk = disk
        self._note_gap = note_gap
        self.size = self.capacity = size
        self.next_offset = next_offset
        self.has_producers = True
        """None until the first read."""
        # Whoever looks at one of them, and finds none, comes to `__getattr__`.
        del self.buffer, self.offsets, self.positions, self.timestamps, self.first_timestamp, self.max_timestamp

    def __getattr__(self, name: str) -> object:
        """Called for attributes that are not loaded yet."""
        if name not in _UNKNOWN_UNTIL_READ:
            raise AttributeError(name)
        if name == "max_timestamp" and (newest := self._newest_by_index()) is not None:
            self.max_timestamp = newest
            return newest
        view = self._disk.map_to_read(self.name)
        self.buffer = view
        _read_all(self, self._disk, view, self._note_gap)
        return {
            "buffer": self.buffer,
            "offsets": self.offsets,
            "positions": self.positions,
            "timestamps": self.timestamps,
            "first_timestamp": self.first_timestamp,
            "max_timestamp": self.max_timestamp,
        }[name]

    def share(self) -> None:
        """See `Segment`. It is opened, because its file may go before anybody reads it."""
        assert self.offsets is not None
        super().share()

    def modified(self) -> int:
        return _modified(self, self._disk)

    def _newest_by_index(self) -> int | None:
        """The greatest timestamp as the time index has it: retention and a search by time ask every segment."""
        data = self._disk.read(self.name.removesuffix(".log") + ".timeindex")
        try:
            return None if data is None else last_timestamp(data)
        except DamagedFile:
            return None


def _modified(segment: ActiveFile | SealedFile, disk: Disk) -> int:
    found = disk.modified(segment.name)
    return segment.created if found is None else found


def _read_all(
    segment: ActiveFile | SealedFile, disk: Disk, view: memoryview, note_gap: Callable[[int, int], None]
) -> None:
    """Let a segment of which only the end was known have all its batches; what it lacks is reported."""
    next_offset = segment.next_offset
    index = walk(view, segment.base_offset, checks=False)
    if index.problem:
        disk.warn(segment.name, f"{index.problem} (position {index.size}); what follows is not read")
    elif index.next_offset < next_offset:
        note_gap(index.next_offset, next_offset)
    adopt_index(segment, index)
    segment.is_read = True
    # Compaction may have taken the last batches, and their offsets are not given again.
    segment.next_offset = max(next_offset, index.next_offset)


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
    """The index of a segment's batches."""
    return SegmentIndex(
        array("q", segment.offsets),
        array("I", segment.positions),
        array("q", segment.timestamps),
        segment.size,
        segment.next_offset,
        segment.first_timestamp,
        segment.has_producers,
    )
