"""The log of a partition in a folder, as Kafka 4.4 lays it out.

    BASE.log .index .timeindex .txnindex       a segment and its indexes; those of the active one are written at its end
    OFFSET.snapshot                            producers, wherever a segment begins, and at the end after a clean stop
    leader-epoch-checkpoint, partition.metadata

Records are in the file when they are appended. Everything else beside them can be made from them again, and is when the
process before ended without a clean stop (see `recover`).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from odradek.log.aborted import AbortedIndex, AbortedTransaction
from odradek.log.file_segment import ActiveFile, SealedFile, adopt_index, index_of
from odradek.log.files.checkpoints import read_epochs, write_epochs
from odradek.log.files.damaged import DamagedFile
from odradek.log.files.indexes import read_aborted, write_aborted, write_offset_index, write_time_index
from odradek.log.files.marks import write_partition_metadata
from odradek.log.files.names import (
    DELETED,
    LEADER_EPOCHS,
    PARTITION_METADATA,
    Folder,
    read_segment_file,
    segment_file,
)
from odradek.log.files.producer_snapshot import read_producers, write_producers
from odradek.log.files.walk import SegmentIndex, index_of_segment, walk
from odradek.log.log import NO_REPLICA, Log, Room
from odradek.log.producers import ProducerState, Snapshot
from odradek.log.segment import Segment

if TYPE_CHECKING:
    from odradek.config.table import TopicConfig
    from odradek.log.disk import Disk

__all__ = ["Directory", "FileLog"]

LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT = ".log", ".index", ".timeindex", ".txnindex", ".snapshot"
_OF_SEGMENT = (LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT)


class Directory(Room, Protocol):
    """Where the folders of all logs lie, as one of them needs to know it."""

    disk: Disk
    node_id: int
    was_clean: bool
    """Whether the process before has stopped cleanly, so that its files can be trusted."""
    unnamed: dict[str, None]
    """Folders in which no topic id stands."""
    log_starts: dict[tuple[str, int], int]
    recovery_points: dict[tuple[str, int], int]
    cleaned: dict[tuple[str, int], int]
    """What the checkpoints of the process before say, by topic and partition."""

    def now(self) -> int:
        """The time (ms)."""

    def unique(self) -> str:
        """32 hexadecimal digits that were never given."""

    def note_cut(self, folder: str, index: SegmentIndex, data: memoryview) -> None:
        """Recovery has ended a log behind these batches; `data` are the bytes of the segment."""


class FileLog(Log):
    """A log in a folder; made by `FileStore.open`."""

    def __init__(self, store: Directory, *, topic_id: bytes, index: int, config: TopicConfig) -> None:
        self.files: Directory = store
        self.disk: Disk = store.disk
        self.folder = ""
        """Name of its folder; empty until somebody leads the partition, because it is made of the topic's name."""
        self.recovery_point = 0
        """Everything before this offset is on the device."""
        self.is_gone = False
        self._last: tuple[int, SegmentIndex] | None = None
        """The last segment of the process before, until `begin`."""
        super().__init__(store, topic_id=topic_id, index=index, config=config)

    # ------------------------------------------------------------------ the folder

    def lead(self, leader_epoch: int, *, topic: str = "", replica: int = NO_REPLICA) -> int:
        """See `Log`."""
        if not self.folder:
            self._settle(topic)
        lost = super().lead(leader_epoch, topic=topic, replica=replica)
        self._write_epochs()
        return lost

    def _settle(self, topic: str) -> None:
        """Have a folder: a new one, or that of an earlier process that had no time to name the topic's id in it."""
        folder = f"{topic}-{self.index}"
        self.folder = folder
        if folder in self.files.unnamed:
            del self.files.unnamed[folder]
            self.load(Folder(topic, self.index))
            self.begin()
        self.disk.make_folder(folder)
        self.disk.write(f"{folder}/{PARTITION_METADATA}", write_partition_metadata(self.topic_id))
        if not self.segments:
            # Kafka's tools look for a segment, and who comes next learns from its name where the log ends.
            self._write_empty()

    def _name(self, base_offset: int, suffix: str) -> str:
        return f"{self.folder}/{segment_file(base_offset, suffix)}"

    def _write_empty(self) -> None:
        for suffix in (LOG, INDEX, TIME_INDEX):
            self.disk.write(self._name(self.end_offset, suffix), b"")

    def _write_epochs(self) -> None:
        if not self.is_gone:
            self.disk.write(f"{self.folder}/{LEADER_EPOCHS}", write_epochs(self.epochs.entries()))

    # ------------------------------------------------------------------ writing

    def _begin(self, capacity: int, *, now: int) -> Segment:
        self.seal()
        base = self.end_offset
        if base > 0:
            self._write_snapshot()
        segment = ActiveFile(
            self.disk,
            self._name(base, LOG),
            base,
            capacity=capacity,
            created=now,
            number=self.store.next_number(),
        )
        self.segments.append(segment)
        self._bases.append(base)
        self._active = segment
        return segment

    def seal(self) -> None:
        """See `Log`: the indexes are written, and what is in the file goes to the device while others go on."""
        active = self._active
        super().seal()
        if isinstance(active, ActiveFile) and not self.is_gone:
            self._finish(active)
            end = active.next_offset

            def flush() -> None:
                active.file.flush()
                self.recovery_point = max(self.recovery_point, end)

            self.disk.later(flush)

    def _finish(self, active: ActiveFile) -> None:
        """End the file where its batches end, and write what stands beside it."""
        active.file.cut(active.size)
        active.capacity = active.size
        self._write_indexes(active)

    def _write_indexes(self, segment: Segment) -> None:
        base = segment.base_offset
        index = index_of(segment)
        by_offset, by_time = index_of_segment(segment.buffer, index, interval_bytes=self.config.index_interval_bytes)
        self.disk.write(self._name(base, INDEX), write_offset_index(base, by_offset))
        self.disk.write(self._name(base, TIME_INDEX), write_time_index(base, by_time))
        aborted = [each for each in self.aborted.entries if base <= each.last_offset < segment.next_offset]
        if aborted:
            self.disk.write(self._name(base, TXN_INDEX), write_aborted(aborted))
        else:
            self.disk.remove(self._name(base, TXN_INDEX))

    def _write_snapshot(self) -> None:
        """The producers as of the end of the log."""
        self.snapshot()
        newest = self.snapshots[-1] if self.snapshots else None
        producers = newest.producers if newest is not None and newest.offset == self.end_offset else ()
        self.disk.write(self._name(self.end_offset, SNAPSHOT), write_producers(producers))

    def close(self, *, flush: bool) -> None:
        """The clean stop: everything is in its file, and on the device if that is wanted."""
        if self.is_gone or not self.folder:
            return
        active = self._active
        if isinstance(active, ActiveFile):
            self._active = None
            self._finish(active)
            if flush:
                active.file.flush()
        if self.end_offset > 0:
            self._write_snapshot()
        self._write_epochs()
        self.recovery_point = self.end_offset

    # ------------------------------------------------------------------ removing

    def advance_start(self, offset: int) -> list[Segment]:
        """See `Log`."""
        dropped = super().advance_start(offset)
        if offset > 0 and self.folder:
            self._write_epochs()
        return dropped

    def truncate(self, offset: int) -> None:
        """See `Log`. Somebody may look at the bytes that go, so the file is written anew."""
        if offset >= self.end_offset:
            return
        super().truncate(offset)
        last = self.segments[-1] if self.segments else None
        if last is not None:
            self.disk.write(self._name(last.base_offset, LOG), bytes(last.buffer[: last.size]))
            self._write_indexes(last)
        for name in self.disk.files(self.folder):
            found = read_segment_file(name)
            if found is not None and found.base_offset > self.end_offset:
                self.disk.remove(f"{self.folder}/{name}")
        if not self.segments:
            self._write_empty()
        self.recovery_point = min(self.recovery_point, self.end_offset)
        self._write_epochs()

    def replace(self, old: Sequence[Segment], new: Segment | None) -> bool:
        """See `Log`. At every moment a process may end, and the next one finds the old files or the new one."""
        if not super().replace(old, new):
            return False
        first = old[0].base_offset
        if new is not None:
            self.disk.write(self._name(first, LOG) + ".cleaned", bytes(new.buffer[: new.size]), flush=True)
            self.disk.rename(self._name(first, LOG) + ".cleaned", self._name(first, LOG) + ".swap")
        there = self.disk.files(self.folder)
        for segment in old:
            # The snapshot of the first one is that of the new one.
            kept = (SNAPSHOT,) if segment.base_offset == first else ()
            self._remove(segment.base_offset, there, kept=kept)
        if new is not None:
            self.disk.rename(self._name(first, LOG) + ".swap", self._name(first, LOG))
            self._write_indexes(new)
        elif not self.segments:
            self._write_empty()
        return True

    def end(self) -> None:
        """See `Log`: the folder gets a name by which it is known to be on its way out, and goes."""
        folder, self.is_gone = self.folder, True
        super().end()
        if folder:
            leaving = f"{folder}.{self.files.unique()}-delete"
            self.disk.rename(folder, leaving)
            self.disk.later(partial(self.disk.remove, leaving))

    def _forget(self, segments: Sequence[Segment]) -> None:
        super()._forget(segments)
        if self.is_gone or not segments:
            return
        there = self.disk.files(self.folder)
        for segment in segments:
            self._remove(segment.base_offset, there)
        if not self.segments:
            self._write_snapshot()
            self._write_empty()

    def _remove(self, base_offset: int, there: Container[str], *, kept: Sequence[str] = ()) -> None:
        """The files of a segment are not part of the log from now on, and go some time later."""
        for suffix in _OF_SEGMENT:
            if suffix not in kept and segment_file(base_offset, suffix) in there:
                leaving = self._name(base_offset, suffix) + DELETED
                self.disk.rename(self._name(base_offset, suffix), leaving)
                self.disk.later(partial(self.disk.remove, leaving))

    # ------------------------------------------------------------------ what an earlier process has left

    def load(self, folder: Folder) -> None:
        """Take over the folder of an earlier process. Raises `DamagedFile` and `DiskError`."""
        store = self.files
        self.topic, self.folder = folder.topic, f"{folder.topic}-{folder.partition}"
        key = folder.topic, folder.partition
        self.start_offset = store.log_starts.get(key, 0)
        self.first_dirty_offset = store.cleaned.get(key, 0)
        self.recovery_point = store.recovery_points.get(key, 0)
        self._end_compactions()
        bases = self._bases_found()
        if bases:
            self.start_offset = max(self.start_offset, bases[0])
        self.end_offset = self.start_offset
        checked_from = self._load_segments(bases)
        self.start_offset = min(self.start_offset, self.end_offset)
        self._load_epochs()
        self._load_producers(checked_from)

    def _end_compactions(self) -> None:
        """A compaction that was interrupted has either not happened, or happens now."""
        there = self.disk.files(self.folder)
        swapped = []
        for name in there:
            found = read_segment_file(name)
            if found is None or not found.state:
                continue
            if found.state == ".swap" and found.suffix == LOG:
                swapped.append(found.base_offset)
            else:
                self.disk.remove(f"{self.folder}/{name}")
        for base in swapped:
            new = self._name(base, LOG) + ".swap"
            end = walk(self.disk.map_to_read(new), base, checks=False).next_offset
            for name in self.disk.files(self.folder):
                found = read_segment_file(name)
                if found is None or found.state or not base <= found.base_offset < end:
                    continue
                if found.suffix != SNAPSHOT or found.base_offset != base:
                    self.disk.remove(f"{self.folder}/{name}")
            self.disk.rename(new, self._name(base, LOG))

    def _bases_found(self) -> list[int]:
        names = map(read_segment_file, self.disk.files(self.folder))
        return sorted(found.base_offset for found in names if found is not None and found.suffix == LOG)

    def _load_segments(self, bases: Sequence[int]) -> int:
        """Open the segments; the offset from which on their bytes were checked rather than trusted."""
        sizes = self.disk.files(self.folder)
        checked_from: int | None = None
        now = self.files.now()
        for number, base in enumerate(bases):
            following = bases[number + 1] if number + 1 < len(bases) else None
            size = sizes[segment_file(base, LOG)]
            trusted = self.files.was_clean or (following is not None and following <= self.recovery_point)
            if trusted and following is not None:
                segment: Segment = SealedFile(
                    self.disk,
                    self._name(base, LOG),
                    base,
                    size=size,
                    next_offset=following,
                    created=now,
                    number=self.store.next_number(),
                )
                self._take(segment)
                continue
            if checked_from is None and not trusted:
                checked_from = base
            view, index = self._read(base, size, checks=not trusted)
            if index.size < size:
                self._cut(base, index, view, bases[number + 1 :])
                following = None
            if following is None:
                self._resume(base, index, view, now)
                break
            self._take_checked(base, index, following, now)
        return self.end_offset if checked_from is None else checked_from

    def _take(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._bases.append(segment.base_offset)
        self.end_offset = segment.next_offset
        self._account(segment.size)

    def _read(self, base: int, size: int, *, checks: bool) -> tuple[memoryview, SegmentIndex]:
        view = self.disk.map_to_read(self._name(base, LOG)) if size else memoryview(b"")
        try:
            return view, walk(view, base, checks=checks)
        except DamagedFile as error:
            raise DamagedFile(f"{self._name(base, LOG)}: {error}") from None

    def _cut(self, base: int, index: SegmentIndex, view: memoryview, later: Sequence[int]) -> None:
        """A batch was not written wholly, so it was not acknowledged: it goes, with everything behind it."""
        there = self.disk.files(self.folder)
        for gone in later:
            self.disk.warn(self._name(gone, LOG), f"it follows offset {index.next_offset - 1}, where the log ends")
            self._remove(gone, there)
        self.files.note_cut(self.folder, index, view)

    def _take_checked(self, base: int, index: SegmentIndex, following: int, now: int) -> None:
        segment = SealedFile(
            self.disk,
            self._name(base, LOG),
            base,
            size=index.size,
            next_offset=max(following, index.next_offset),
            created=now,
            number=self.store.next_number(),
        )
        self._take(segment)

    def _resume(self, base: int, index: SegmentIndex, view: memoryview, now: int) -> None:
        """The last segment is gone on with, from `begin` on."""
        self._last = base, index
        if not index.size:
            # It is begun anew by the first batch.
            self.end_offset = max(self.end_offset, base)
            return
        segment = SealedFile(
            self.disk,
            self._name(base, LOG),
            base,
            size=index.size,
            next_offset=index.next_offset,
            created=now,
            number=self.store.next_number(),
        )
        segment.buffer = view
        adopt_index(segment, index)
        self._take(segment)

    def begin(self) -> None:
        """Everything was found in order: from now on files change."""
        if self._last is None:
            return
        (base, index), self._last = self._last, None
        if not index.size:
            self.disk.write(self._name(base, LOG), b"")
            return
        before = self.segments[-1]
        segment = ActiveFile(
            self.disk,
            self._name(base, LOG),
            base,
            capacity=max(self._segment_bytes, index.size),
            created=before.created,
            number=before.number,
            index=index,
        )
        self.segments[-1] = self._active = segment

    def _load_epochs(self) -> None:
        data = self.disk.read(f"{self.folder}/{LEADER_EPOCHS}")
        entries: list[tuple[int, int]] = []
        if data is not None:
            try:
                entries = read_epochs(data)
            except DamagedFile as error:
                self.disk.warn(f"{self.folder}/{LEADER_EPOCHS}", str(error))
        for epoch, start in entries:
            if start <= self.end_offset:
                self.epochs.assign(epoch, start)
        # A leader may have appended without having had the time to say when it began.
        last = self.segments[-1] if self.segments else None
        if last is not None and last.offsets:
            newest = last.batch(len(last.offsets) - 1)
            if newest.partition_leader_epoch > self.epochs.latest:
                self.epochs.assign(newest.partition_leader_epoch, newest.base_offset)
        self.leader_epoch = self.epochs.latest

    def _load_producers(self, checked_from: int) -> None:
        """The newest snapshot that can be trusted, and what the batches behind it say."""
        snapshot = self._newest_snapshot(checked_from)
        state = ProducerState()
        state.restore(snapshot)
        aborted = [each for each in self._aborted_found() if each.last_offset < max(snapshot.offset, checked_from)]
        known = aborted[-1].last_offset if aborted else -1
        following = iter([segment.base_offset for segment in self.segments if segment.base_offset > snapshot.offset])
        begins = next(following, None)
        for batch in self.batches_of_producers(snapshot.offset):
            while begins is not None and begins <= batch.base_offset:
                self._write_producers(begins, state)
                begins = next(following, None)
            completed = state.apply(batch, batch.base_offset)
            if completed is not None and not completed.commit and completed.last_offset > known:
                aborted.append(
                    AbortedTransaction(
                        completed.producer_id,
                        completed.first_offset,
                        completed.last_offset,
                        state.stable_offset_after(completed),
                    )
                )
        for offset in (begins, *following) if begins is not None else ():
            self._write_producers(offset, state)
        self.aborted = AbortedIndex()
        for entry in aborted:
            self.aborted.append(entry)
        self.snapshots = [Snapshot(self.end_offset, state.snapshot(self.end_offset).producers)]
        for segment in self.segments:
            # The process before may have ended between the end of a segment and its indexes.
            if segment is not self.segments[-1] and segment.base_offset >= checked_from:
                self._write_indexes(segment)

    def _write_producers(self, offset: int, state: ProducerState) -> None:
        """Where a segment begins there is a snapshot, in case that those before go."""
        self.disk.write(self._name(offset, SNAPSHOT), write_producers(state.producers.values()))

    def _newest_snapshot(self, checked_from: int) -> Snapshot:
        found = sorted(
            each.base_offset
            for each in map(read_segment_file, self.disk.files(self.folder))
            if each is not None and each.suffix == SNAPSHOT
        )
        newest: Snapshot | None = None
        for offset in reversed(found):
            name = self._name(offset, SNAPSHOT)
            if offset > self.end_offset or (offset > checked_from and not self.files.was_clean):
                self.disk.remove(name)
                continue
            if newest is not None:
                if offset not in self._bases:
                    self.disk.remove(name)
                continue
            try:
                newest = Snapshot(offset, read_producers(self.disk.read(name) or b""))
            except DamagedFile as error:
                self.disk.warn(name, str(error))
                self.disk.remove(name)
        return newest or Snapshot(0, ())

    def _aborted_found(self) -> list[AbortedTransaction]:
        found: list[AbortedTransaction] = []
        for segment in self.segments:
            name = self._name(segment.base_offset, TXN_INDEX)
            data = self.disk.read(name)
            try:
                found += read_aborted(data or b"")
            except DamagedFile as error:
                self.disk.warn(name, str(error))
        return [each for each in found if each.last_offset < self.end_offset]
