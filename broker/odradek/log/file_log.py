"""The log of a partition in a folder, as Kafka 4.4 lays it out.

BASE.log .index .timeindex .txnindex       a segment and its indexes; those of the active one are written at its end
OFFSET.snapshot                            producers, at the beginning of each segment, and at the end after a clean
stop leader-epoch-checkpoint, partition.metadata

Records are in the file when they are appended. All other files can be made from them again; after a process that ended
without a clean stop, they are (see `recover`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from odradek.log.aborted import AbortedIndex, AbortedTransaction
from odradek.log.disk import DamagedFile, DiskError
from odradek.log.epochs import NO_EPOCH, LeaderEpochs
from odradek.log.file_segment import ActiveFile, Gaps, SealedFile, adopt_index, index_of
from odradek.log.files.checkpoints import read_epochs, write_epochs
from odradek.log.files.indexes import (
    last_entry,
    last_timestamp,
    read_aborted,
    write_aborted,
    write_offset_index,
    write_time_index,
)
from odradek.log.files.marks import write_partition_metadata
from odradek.log.files.names import (
    CLEAN_STOP,
    CLEANED_OFFSETS,
    DELETED,
    LEADER_EPOCHS,
    LOG_STARTS,
    PARTITION_METADATA,
    Folder,
    folder_aside,
    read_segment_file,
    segment_file,
)
from odradek.log.files.producer_snapshot import read_producers, write_producers
from odradek.log.files.walk import SegmentIndex, index_of_segment, walk, walk_end
from odradek.log.found_log import FoundLog, FoundSegment
from odradek.log.log import NO_REPLICA, Log, Room
from odradek.log.producers import ProducerState, Snapshot
from odradek.log.segment import Segment

if TYPE_CHECKING:
    from odradek.config.table import TopicConfig
    from odradek.log.disk import Disk
    from odradek.records.batch import Batch

__all__ = ["Directory", "FileLog"]

LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT = ".log", ".index", ".timeindex", ".txnindex", ".snapshot"
SWAP, CLEANED = ".swap", ".cleaned"
"""The output of compaction, whole and not in its place yet; and before it is whole."""
_OF_SEGMENT = (LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT)


class Directory(Room, Protocol):
    """Where the folders of all logs lie, as one of them needs to know it.

    A Protocol: the store of logs imports the logs.
    """

    disk: Disk
    node_id: int
    voters: tuple[int, ...]
    """The brokers of the quorum that has the metadata log."""
    syncs: bool
    """Whether everything is on the device before it is acknowledged."""
    settles_late: bool
    """Whether a log has no folder before its first batch, as in a fork, which has to begin soon."""
    was_clean: bool
    """Whether the process before has stopped cleanly, so that its files can be trusted."""
    unnamed: dict[str, None]
    """Folders in which no topic id stands."""
    log_starts: dict[tuple[str, int], int]
    recovery_points: dict[tuple[str, int], int]
    cleaned: dict[tuple[str, int], int]
    """The checkpoints of the process before, by topic and partition."""

    def now(self) -> int:
        """The time (ms)."""

    def unique(self) -> str:
        """32 hexadecimal digits that were never given."""

    def checkpoint(self) -> None:
        """Write down how far all logs are, and where they begin."""

    def note_failure(self, failed: DiskError) -> None:
        """The disk has failed where others go on: a start is refused for it, a running broker has reported it."""

    def vacate(self, folder: str) -> None:
        """Set aside the folder of another log, which has the name that a log needs."""

    def place(self, topic_id: bytes, index: int, config: TopicConfig) -> FileLog:
        """The log of this partition; it is made if necessary."""

    def adopt(self, log: FileLog) -> None:
        """This log is the one that lies here."""

    def forget(self, topic_id: bytes, index: int | None = None) -> None:
        """The log of a partition, or those of a topic, are not here any more."""

    def remove_later(self, name: str, delay_ms: int) -> None:
        """Remove a file or a folder, which has a name for that already, when this time is over."""

    def note_cut(self, folder: str, index: SegmentIndex, data: memoryview) -> bool:
        """Recovery has ended a log behind these batches; whether there is anything in the segment behind them."""


class FileLog(Log):
    """A log in a folder; made by `FileStore.open`."""

    def __init__(self, store: Directory, *, topic_id: bytes, index: int, config: TopicConfig) -> None:
        self.files: Directory = store
        self.disk: Disk = store.disk
        self.folder = ""
        """Name of its folder; empty until the partition has a leader, because it contains the topic's name."""
        self.recovery_point = 0
        """Everything before this offset is on the device."""
        self.is_gone = False
        self.had = 0
        """Up to which offset the process before had its records on the device; they may have gone since."""
        self._epochs_written: list[tuple[int, int]] = []
        self._has_new_names = False
        self._truncations = 0
        self._flushed_at = store.now()
        self._failure = ""
        """Why nothing is appended any more: what the device has is not known."""
        self._last: tuple[int, SegmentIndex, memoryview | None] | None = None
        """The last segment of the process before, until `begin`; with its bytes, if its file has no others."""
        self._found: tuple[int, int, list[tuple[int, int]]] | None = None
        """The end, the number of segments and the epochs of what the process before has left as a clean stop does."""
        self._is_in_order = False
        """Whether the last segment has indexes that can be trusted."""
        self._has_empty_end = False
        """Whether that is no more than an empty file, with empty indexes."""
        self._is_cut = False
        """Whether there were other bytes behind it, or other segments."""
        self._gaps = Gaps(store.disk)
        """Reported once it is led."""
        self.origin: FileLog | None = None
        """Of a copy: the log that its broker follows."""
        self.diverges_at: int | None = None
        """Of a copy: where records begin that the log has not, until its broker follows again."""
        super().__init__(store, topic_id=topic_id, index=index, config=config)

    def configure(self, config: TopicConfig) -> None:
        super().configure(config)
        self._flush_messages = 1 if self.syncs else config.flush_messages
        self._gaps.are_damage = not config.compacts

    @property
    def syncs(self) -> bool:
        return self.files.syncs

    @property
    def checks_all(self) -> bool:
        """Whether checksums are compared at each start, whatever the stop before was."""
        return False

    def lead(self, leader_epoch: int, *, topic: str = "", replica: int = NO_REPLICA) -> int:
        """See `Log`. A partition whose folder cannot be made is led: its appends are refused until it can be."""
        try:
            self.settle_with(replica, topic)
        except DiskError as failed:
            self.files.note_failure(failed)
        self._gaps.tell()
        lost = super().lead(leader_epoch, topic=topic, replica=replica)
        try:
            self._write_epochs()
        except DiskError as failed:
            # They are written with the next segment; until then recovery reads them from the batches.
            self.files.note_failure(failed)
        return lost

    def settle_with(self, replica: int, topic: str) -> None:
        """Before this replica leads: have a folder."""
        if not self.folder and not self.files.settles_late:
            self.settle(topic)
        elif topic and self.folder not in ("", f"{topic}-{self.index}"):
            self.files.note_failure(DiskError(f"{self.folder} has the id of the topic {topic}"))

    def settle(self, topic: str) -> None:
        """Have a folder: a new one, or that of an earlier process that had no time to name the topic's id in it."""
        folder = f"{topic}-{self.index}"
        self.files.vacate(folder)
        self.folder = self._gaps.folder = folder
        try:
            if folder in self.files.unnamed:
                if self.files.was_clean:
                    self.disk.warn(f"{folder}/{PARTITION_METADATA}", "it has no topic id; the folder's name decides")
                self.load(Folder(topic, self.index))
                self.begin()
                del self.files.unnamed[folder]
            self.disk.make_folder(folder)
            if self.syncs:
                self.disk.sync("")
            self.disk.write(f"{folder}/{PARTITION_METADATA}", write_partition_metadata(self.topic_id), flush=self.syncs)
            if not self.segments:
                # Kafka's tools expect a segment, and the next process reads the end of the log from its name.
                self._write_empty()
        except DiskError:
            # The next append tries again.
            self.folder = "" if not self.segments else folder
            raise

    def _name(self, base_offset: int, suffix: str) -> str:
        return f"{self.folder}/{segment_file(base_offset, suffix)}"

    def _write_empty(self) -> None:
        for suffix in (LOG, INDEX, TIME_INDEX):
            self.disk.write(self._name(self.end_offset, suffix), b"")
        self._has_new_names = True

    def _write_epochs(self) -> None:
        if not self.folder or self.is_gone:
            return
        epochs = self.epochs.entries()
        if epochs != self._epochs_written:
            self.disk.write(f"{self.folder}/{LEADER_EPOCHS}", write_epochs(epochs), flush=self.syncs)
            self._epochs_written = epochs

    def append(self, batch: Batch, *, leader_epoch: int, now: int, log_append_time: bool = False) -> int:
        """See `Log`. `flush.messages` says how much may be acknowledged that is not on the device.

        Raises `DiskError`, and then the batch is not there. After a flush that failed nobody knows what the device has,
        so that nothing is appended until a later process has checked it.
        """
        if self._failure:
            raise DiskError(self._failure)
        base = super().append(batch, leader_epoch=leader_epoch, now=now, log_append_time=log_append_time)
        if self.end_offset - self.recovery_point >= self._flush_messages:
            try:
                self.flush()
            except DiskError:
                self.take_back(base)
                raise
        return base

    def take(self, batch: Batch, *, leader_epoch: int, now: int, log_append_time: bool) -> None:
        """Append what the leader has at this offset, as its follower: an epoch begins with its first record."""
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, self.end_offset)
            self._write_epochs()
        self.append(batch, leader_epoch=leader_epoch, now=now, log_append_time=log_append_time)

    def take_old(self, batch: Batch, *, now: int) -> None:
        """The same with a message of magic 0 or 1, which has no epoch, and its offsets for good."""
        segment = self._active
        if (
            segment is None
            or segment.size + batch.size > segment.capacity
            or batch.max_timestamp - segment.first_timestamp > self._segment_ms
        ):
            segment = self._begin(max(batch.size, self._segment_bytes), now=now)
        segment.keep(batch)
        self.end_offset = segment.next_offset
        self._account(batch.size)

    def take_back(self, offset: int) -> None:
        """Have no batch at this offset, the last one, after all."""
        active = self._active
        assert isinstance(active, ActiveFile), "a batch was appended"
        self.end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self._account(-active.take_back(offset))

    def _begin(self, capacity: int, *, now: int) -> Segment:
        if not self.folder:
            self.settle(self.topic)
            self._write_epochs()
        is_first = self._active is None
        base = self.end_offset
        last = self.segments[-1] if self.segments else None
        if last is not None and last.base_offset == base:
            # Its first batch was refused, and nothing came instead: the new segment is the same file.
            self.segments.pop()
            self._bases.pop()
            self._active = None
        self.seal()
        if is_first and base > 0:
            self._write_snapshot()
        segment = ActiveFile(
            self.disk,
            self._name(base, LOG),
            base,
            capacity=capacity,
            created=now,
            number=self.store.next_number(),
            interval_bytes=self.config.index_interval_bytes,
            note_gap=self._gaps.note,
        )
        self.segments.append(segment)
        self._bases.append(base)
        self._active = segment
        self._has_new_names = True
        return segment

    def seal(self) -> None:
        """See `Log`: the indexes are written at once, the segment is flushed to the device in the background."""
        active = self._active
        if isinstance(active, ActiveFile) and not self.is_gone:
            # If this fails the segment is still the active one, and has no room: the next append tries again.
            self._finish(active)
        super().seal()
        if isinstance(active, ActiveFile) and not self.is_gone:
            self._write_snapshot()
            self._write_epochs()
            self.flush_later()

    def flush(self) -> None:
        """Have everything on the device; the recovery point says so afterwards. Raises `DiskError`."""
        self._flush()()

    def flush_later(self) -> None:
        """Have everything that there is now on the device some time later, while others go on."""
        self.disk.later(self._flush())

    def flush_if_old(self, now: int) -> None:
        if self.end_offset > self.recovery_point and now - self._flushed_at >= self.config.flush_ms:
            self.flush_later()

    def _flush(self) -> Callable[[], None]:
        """The work that brings the present content to the device: the bytes first, then the recovery point."""
        end, truncations, disk = self.end_offset, self._truncations, self.disk
        names = self._names_to_flush()
        if self._has_new_names:
            names.append(self.folder)
            self._has_new_names = False
        self._flushed_at = self.files.now()

        def flush() -> None:
            try:
                disk.sync(*names)
            except DiskError as failed:
                # A later sync may succeed, and the device would still lack the bytes.
                self._failure = str(failed)
                raise
            if truncations == self._truncations:
                self.recovery_point = max(self.recovery_point, end)

        return flush

    def _names_to_flush(self) -> list[str]:
        """The files of the segments that are not wholly on the device, and the producers where the log ends."""
        names = []
        for segment in reversed(self.segments):
            if segment.next_offset <= self.recovery_point:
                break
            of_segment = (LOG,) if segment is self._active and not self._has_new_names else _OF_SEGMENT
            names += [self._name(segment.base_offset, suffix) for suffix in of_segment]
        if self._active is None:
            names.append(self._name(self.end_offset, SNAPSHOT))
        return names

    def _finish(self, active: ActiveFile) -> None:
        """Cut the file behind its last batch, and write its indexes."""
        active.end_file()
        active.capacity = active.size
        if active.is_read:
            self._write_indexes(active)
        else:
            # Nothing was appended, and its indexes are those that the process before has left, or a fork's snapshot.
            self._complete(active.base_offset)
        # A segment before the mark is trusted with its indexes, and the device may not have these.
        self.recovery_point = min(self.recovery_point, active.base_offset)

    def _write_indexes(self, segment: Segment, *, flush: bool = False) -> None:
        base = segment.base_offset
        if isinstance(segment, ActiveFile):
            by_offset, by_time = segment.entries()
        else:
            interval_bytes = self.config.index_interval_bytes
            by_offset, by_time = index_of_segment(segment.buffer, index_of(segment), interval_bytes=interval_bytes)
        self.disk.write(self._name(base, INDEX), write_offset_index(base, by_offset), flush=flush)
        self.disk.write(self._name(base, TIME_INDEX), write_time_index(base, by_time), flush=flush)
        aborted = [each for each in self.known_aborted.entries if base <= each.last_offset < segment.next_offset]
        if aborted:
            self.disk.write(self._name(base, TXN_INDEX), write_aborted(aborted), flush=flush)
        else:
            self.disk.remove(self._name(base, TXN_INDEX))

    def _complete(self, base_offset: int) -> None:
        """Have the indexes of a segment that a fork was made without."""
        self.disk.complete(*(self._name(base_offset, suffix) for suffix in (INDEX, TIME_INDEX, TXN_INDEX)))

    def _write_snapshot(self) -> None:
        """The producers as of the end of the log."""
        self.snapshot()
        newest = self.snapshots[-1] if self.snapshots else None
        producers = newest.producers if newest is not None and newest.offset == self.end_offset else ()
        self.disk.write(self._name(self.end_offset, SNAPSHOT), write_producers(producers))

    def close(self) -> list[str]:
        """The clean stop: everything is in its file; the names of what has to be on the device. Raises `DiskError`."""
        if self._failure:
            raise DiskError(self._failure)
        active = self._active
        if self._is_as_found():
            self._active = None
            self._complete(self.end_offset if active is None else active.base_offset)
            return []
        if isinstance(active, ActiveFile):
            self._active = None
            self._finish(active)
        else:
            self._complete(self.end_offset)
        self._write_epochs()
        if self.end_offset == 0:
            return []
        self._write_snapshot()
        return [*self._names_to_flush(), f"{self.folder}/{LEADER_EPOCHS}", self.folder]

    def _is_as_found(self) -> bool:
        """Whether the clean stop before has left all files as this one would."""
        active = self._active
        return self._found == (self.end_offset, len(self.segments), self.epochs.entries()) and (
            active is None or (isinstance(active, ActiveFile) and active.is_untouched)
        )

    def advance_start(self, offset: int) -> list[Segment]:
        before = self.start_offset
        dropped = super().advance_start(offset)
        if offset > 0 and self.folder:
            self._write_epochs()
        if self.files.syncs and self.start_offset > before:
            self.files.checkpoint()
        return dropped

    def truncate(self, offset: int) -> None:
        """See `Log`. Somebody may look at the bytes that go, so the file is written anew."""
        if offset >= self.end_offset:
            return
        super().truncate(offset)
        self._truncations += 1
        self._found = None
        last = self.segments[-1] if self.segments else None
        if last is not None:
            self.disk.write(self._name(last.base_offset, LOG), bytes(last.buffer[: last.size]), flush=True)
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
            self.disk.write(self._name(first, LOG) + CLEANED, bytes(new.buffer[: new.size]), flush=True)
            self.disk.rename(self._name(first, LOG) + CLEANED, self._name(first, LOG) + SWAP)
        else:
            # The name stays, as Kafka leaves it: the next process reads from the first one where the log begins.
            self.disk.write(self._name(first, LOG), b"", flush=True)
        there = self.disk.files(self.folder)
        for segment in old:
            # The snapshot of the first one is that of the new one.
            kept = () if segment.base_offset != first else (SNAPSHOT,) if new is not None else (LOG, SNAPSHOT)
            self._remove(segment.base_offset, there, kept=kept)
        if new is not None:
            self.disk.rename(self._name(first, LOG) + SWAP, self._name(first, LOG))
            self._write_indexes(new, flush=True)
            return True
        for suffix in (INDEX, TIME_INDEX):
            self.disk.write(self._name(first, suffix), b"")
        if not self.segments:
            self._write_empty()
        return True

    def end(self) -> None:
        """See `Log`: the folder gets a name by which it is known to be on its way out, and goes in its time."""
        folder, self.is_gone = self.folder, True
        super().end()
        if folder:
            leaving = folder_aside(self.topic, self.index, unique=self.files.unique(), state="delete")
            try:
                self.disk.rename(folder, leaving)
            except DiskError as failed:
                # The next process sets the folder aside: no metadata has its topic.
                self.files.note_failure(failed)
            else:
                self.files.remove_later(leaving, self.config.file_delete_delay_ms)

    def _forget(self, segments: Sequence[Segment]) -> None:
        super()._forget(segments)
        if self.is_gone or not segments:
            return
        if not self.segments:
            self._write_snapshot()
        # Of producers whose batches go nothing else will tell.
        first = self.segments[0].base_offset if self.segments else self.end_offset
        self.disk.sync(self._name(first, SNAPSHOT), self.folder)
        there = self.disk.files(self.folder)
        # Among them those that compaction has left empty.
        before = (each.base_offset for each in map(read_segment_file, there) if each is not None)
        for base in {*(segment.base_offset for segment in segments), *(base for base in before if base < first)}:
            self._remove(base, there)
        if not self.segments:
            self._write_empty()

    def _remove(self, base_offset: int, there: Container[str], *, kept: Sequence[str] = ()) -> None:
        """The files of a segment are not part of the log from now on, and go some time later."""
        for suffix in _OF_SEGMENT:
            if suffix not in kept and segment_file(base_offset, suffix) in there:
                leaving = self._name(base_offset, suffix) + DELETED
                self.disk.rename(self._name(base_offset, suffix), leaving)
                self.files.remove_later(leaving, self.config.file_delete_delay_ms)

    def start_again(self, origin: FileLog) -> None:
        """Forget everything, and begin where the leader's log does: retention has taken what comes next."""
        self.start_offset = self.end_offset = origin.start_offset
        self.epochs = LeaderEpochs()
        self.snapshots = []
        self._forget(list(self.segments))
        for name in self.disk.files(self.folder):
            found = read_segment_file(name)
            if found is not None and found.base_offset < self.end_offset:
                self.disk.remove(f"{self.folder}/{name}")
        self._write_empty()
        self._write_epochs()

    def begin_in(self, store: Directory) -> None:
        """Have the folder in this directory, when it is made: there is none yet."""
        self.store = self.files = store
        self.disk = store.disk
        self._gaps = Gaps(store.disk)
        self._gaps.are_damage = not self.config.compacts

    def trade_files(self, other: FileLog) -> None:
        """Lie where the other log lies, and the other way round."""
        self.store, other.store = other.store, self.store
        self.files, other.files = other.files, self.files
        self.disk, other.disk = other.disk, self.disk
        self.folder, other.folder = other.folder, self.folder
        self._gaps, other._gaps = other._gaps, self._gaps
        self.recovery_point, other.recovery_point = other.recovery_point, self.recovery_point
        self.first_dirty_offset, other.first_dirty_offset = other.first_dirty_offset, self.first_dirty_offset
        self.size_bytes, other.size_bytes = other.size_bytes, self.size_bytes
        self.segments, other.segments = other.segments, self.segments
        self._bases, other._bases = other._bases, self._bases
        self._active, other._active = other._active, self._active
        self._epochs_written, other._epochs_written = other._epochs_written, self._epochs_written
        self._has_new_names, other._has_new_names = other._has_new_names, self._has_new_names
        self._flushed_at, other._flushed_at = other._flushed_at, self._flushed_at
        self._failure, other._failure = other._failure, self._failure
        self._found, other._found = other._found, self._found
        # A flush that is under way says nothing about the files that lie here now.
        self._truncations += 1
        other._truncations += 1

    @property
    def known_aborted(self) -> AbortedIndex:
        """The aborted transactions; a copy asks the log that it follows."""
        return self.aborted if self.origin is None else self.origin.aborted

    @property
    def committed(self) -> int:
        """Up to where its broker knows that the records are committed."""
        mark = (self.origin or self).mark
        return self.end_offset if mark is None else min(mark, self.end_offset)

    def load(self, folder: Folder) -> None:
        """Take over the folder of an earlier process. Raises `DamagedFile` and `DiskError`."""
        store = self.files
        self.topic = folder.topic
        self.folder = self._gaps.folder = f"{folder.topic}-{folder.partition}"
        key = folder.topic, folder.partition
        self.start_offset = store.log_starts.get(key, 0)
        self.first_dirty_offset = store.cleaned.get(key, 0)
        self.recovery_point = self.had = store.recovery_points.get(key, 0)
        there = self._end_compactions()
        bases = _bases_of(there)
        if bases:
            self.start_offset = max(self.start_offset, bases[0])
        self.end_offset = self.start_offset
        checked_from = self._load_segments(bases, there)
        self._tell_lost(store.log_starts.get(key, 0), self.recovery_point)
        if self.first_dirty_offset > self.end_offset:
            self.disk.warn(
                CLEANED_OFFSETS,
                f"{self.folder} is compacted up to offset {self.first_dirty_offset} there, and ends at"
                f" {self.end_offset}; it is compacted anew",
            )
            self.first_dirty_offset = 0
        self.start_offset = min(self.start_offset, self.end_offset)
        self.recovery_point = self.end_offset if store.was_clean else min(self.recovery_point, self.end_offset)
        self._load_epochs()
        self._load_producers(checked_from, there)
        epochs = self.epochs.entries()
        if self._is_in_order and epochs == self._epochs_written and segment_file(self.end_offset, SNAPSHOT) in there:
            self._found = self.end_offset, len(self.segments), epochs

    def found(self) -> FoundLog | None:
        """The outcome of `load`, for other forks of a snapshot; None unless it is a plain one."""
        if self._last is None or self._is_cut or self._gaps.are_waiting:
            return None
        base, index, view = self._last
        if view is None:
            return None
        return FoundLog(
            topic_id=self.topic_id,
            folder=Folder(self.topic, self.index),
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            first_dirty_offset=self.first_dirty_offset,
            recovery_point=self.recovery_point,
            had=self.had,
            leader_epoch=self.leader_epoch,
            epochs=self.epochs.entries(),
            epochs_written=self._epochs_written,
            aborted=self.aborted.copy(),
            snapshots=list(self.snapshots),
            segments=[
                FoundSegment(each.base_offset, each.size, each.next_offset)
                for each in self.segments
                if each.base_offset != base
            ],
            last=(base, index.copy(), view),
            has_empty_end=self._has_empty_end,
            is_in_order=self._is_in_order,
            is_as_stopped=self._found is not None,
        )

    def load_found(self, found: FoundLog) -> None:
        """Take over the folder of an earlier process, in which another fork has found this."""
        self.topic = found.folder.topic
        self.folder = self._gaps.folder = f"{self.topic}-{self.index}"
        self.start_offset = self.end_offset = found.start_offset
        self.first_dirty_offset = found.first_dirty_offset
        self.recovery_point, self.had = found.recovery_point, found.had
        now = self.files.now()
        for each in found.segments:
            self._take(self._sealed(each.base_offset, each.size, each.next_offset, now))
        base, index, view = found.last
        self._resume(base, index.copy(), view, now, is_whole=True)
        self.end_offset = found.end_offset
        for epoch, start in found.epochs:
            self.epochs.assign(epoch, start)
        self._epochs_written, self.leader_epoch = found.epochs_written, found.leader_epoch
        self.aborted, self.snapshots = found.aborted.copy(), list(found.snapshots)
        self._has_empty_end, self._is_in_order = found.has_empty_end, found.is_in_order
        if found.is_as_stopped:
            self._found = self.end_offset, len(self.segments), found.epochs

    def _sealed(self, base_offset: int, size: int, next_offset: int, now: int) -> SealedFile:
        return SealedFile(
            self.disk,
            self._name(base_offset, LOG),
            base_offset,
            size=size,
            next_offset=next_offset,
            created=now,
            number=self.store.next_number(),
            note_gap=self._gaps.note,
        )

    def _tell_lost(self, start: int, flushed: int) -> None:
        """Report records that checkpoints know of, and that no segment has."""
        if start > self.end_offset:
            self.disk.warn(LOG_STARTS, f"{self.folder} begins at offset {start} there, and ends at {self.end_offset}")
        if flushed > self.end_offset:
            self.disk.warn(
                self.folder, f"it ends at offset {self.end_offset}, and everything up to {flushed} was on the device"
            )

    def _end_compactions(self) -> dict[str, int]:
        """A compaction that was interrupted has either not happened, or happens now; the files that are there then.

        Of one with several outputs the last one gets its name first, so that an output is whole if none of this offset
        or before is `.cleaned` any more (Kafka's `LogLoader`, KAFKA-6264).
        """
        there = self.disk.files(self.folder)
        aside = [(name, found) for name in there if (found := read_segment_file(name)) is not None and found.state]
        if not aside:
            return there
        before = min((found.base_offset for _, found in aside if found.state == CLEANED), default=None)
        swapped: dict[int, list[str]] = {}
        for name, found in aside:
            if found.state == SWAP and (before is None or found.base_offset < before):
                swapped.setdefault(found.base_offset, []).append(found.suffix)
            else:
                self.disk.remove(f"{self.folder}/{name}")
        for base, suffixes in swapped.items():
            has_segment = segment_file(base, LOG) in there
            if LOG in suffixes and self._is_output(base, replaces=has_segment):
                self._put_in_place(base, suffixes)
                continue
            for suffix in suffixes:
                if has_segment and LOG not in suffixes and segment_file(base, suffix) not in there:
                    # The segment had come into its place, and they are its indexes.
                    self.disk.rename(self._name(base, suffix) + SWAP, self._name(base, suffix))
                else:
                    self.disk.remove(self._name(base, suffix) + SWAP)
        return self.disk.files(self.folder)

    def _is_output(self, base: int, *, replaces: bool) -> bool:
        """Whether this output of compaction can take the place of its input; it has to where there is none."""
        name = self._name(base, LOG) + SWAP
        index = walk(self.disk.map_to_read(name), base, checks=True)
        if replaces and (index.problem or not index.size):
            self.disk.warn(name, f"{index.problem or 'it is empty'}; the segments that it replaces are kept")
            return False
        return True

    def _put_in_place(self, base: int, suffixes: Sequence[str]) -> None:
        """The output of compaction replaces the segments of its offsets; its own indexes come with it."""
        end = walk(self.disk.map_to_read(self._name(base, LOG) + SWAP), base, checks=False).next_offset
        for name in self.disk.files(self.folder):
            found = read_segment_file(name)
            if found is None or found.state or not base <= found.base_offset < end:
                continue
            if found.suffix != SNAPSHOT or found.base_offset != base:
                self.disk.remove(f"{self.folder}/{name}")
        for suffix in (LOG, *(each for each in suffixes if each != LOG)):
            self.disk.rename(self._name(base, suffix) + SWAP, self._name(base, suffix))

    def _load_segments(self, bases: Sequence[int], there: dict[str, int]) -> int:
        """Open the segments; the offset from which on their bytes were checked rather than trusted.

        `there` are the files of the folder with their sizes; those that go are taken out.
        """
        checked_from: int | None = None
        now = self.files.now()
        for number, base in enumerate(bases):
            following = bases[number + 1] if number + 1 < len(bases) else None
            size = there[segment_file(base, LOG)]
            is_flushed = following is not None and following <= self.recovery_point
            trusted = (self.files.was_clean or is_flushed) and not self.checks_all
            if trusted and following is not None:
                self._take(self._sealed(base, size, following, now))
                continue
            if checked_from is None and not trusted:
                checked_from = base
            view, index = self._read_end(base, size) if trusted else self._read(base, size, checks=True)
            if index.size < size:
                self._cut(base, index, view, bases[number + 1 :], there)
                following = None
            if following is None:
                ends = (LOG, INDEX, TIME_INDEX)
                self._has_empty_end = not any(there.get(segment_file(base, suffix), 1) for suffix in ends)
                self._is_in_order = trusted and (self._is_in_order or self._has_empty_end)
                self._resume(base, index, view, now, is_whole=index.size == size)
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
        return view, walk(view, base, checks=checks)

    def _read_end(self, base: int, size: int) -> tuple[memoryview, SegmentIndex]:
        """The last segment after a clean stop: its end, by its indexes; all of it where they do not fit.

        A file that somebody has changed since is not trusted.
        """
        names = [self._name(base, suffix) for suffix in (LOG, INDEX, TIME_INDEX)]
        if not size or not self.disk.are_unchanged(*names, since=CLEAN_STOP):
            return self._read(base, size, checks=False)
        try:
            entry = last_entry(self.disk.read(names[1]) or b"", base)
            newest = last_timestamp(self.disk.read(names[2]) or b"")
        except DamagedFile:
            entry = newest = None
        else:
            self._is_in_order = entry is None
        if entry is None:
            return self._read(base, size, checks=False)
        view = self.disk.map_to_read(names[0])
        index = walk_end(view, base, entry=entry, newest=newest) if len(view) == size else None
        self._is_in_order = index is not None
        return (view, index) if index is not None else self._read(base, size, checks=False)

    def _cut(
        self, base: int, index: SegmentIndex, view: memoryview, later: Sequence[int], there: dict[str, int]
    ) -> None:
        """A batch was not written wholly, so it was not acknowledged: it goes, with everything behind it."""
        for gone in later:
            self.disk.warn(self._name(gone, LOG), f"it follows offset {index.next_offset - 1}, where the log ends")
            self._remove(gone, there)
            for suffix in _OF_SEGMENT:
                there.pop(segment_file(gone, suffix), None)
        self._is_cut = self.files.note_cut(self.folder, index, view) or bool(later)

    def _take_checked(self, base: int, index: SegmentIndex, following: int, now: int) -> None:
        self._take(self._sealed(base, index.size, max(following, index.next_offset), now))

    def _resume(self, base: int, index: SegmentIndex, view: memoryview, now: int, *, is_whole: bool) -> None:
        """The last segment is gone on with, from `begin` on."""
        self._last = base, index, view if is_whole else None
        if not index.size:
            # It is begun anew by the first batch.
            self.end_offset = max(self.end_offset, base)
            return
        segment = self._sealed(base, index.size, index.next_offset, now)
        segment.buffer = view
        if index.begins_at:
            segment.max_timestamp = index.timestamps[-1]
        else:
            adopt_index(segment, index)
        self._take(segment)

    def begin(self) -> None:
        """Everything was found in order: from now on files change."""
        if self._last is None:
            return
        (base, index, view), self._last = self._last, None
        name = self._name(base, LOG)
        if not index.size:
            if self._has_empty_end:
                return
            self.disk.write(name, b"", flush=self._is_cut)
            for suffix in (INDEX, TIME_INDEX):
                # A Kafka that was killed has left the room there that it had reserved.
                self.disk.write(self._name(base, suffix), b"")
            return
        if self._is_cut:
            # Else the next recovery may find a batch of then behind one of ours, and nobody can tell.
            self.disk.map(name, index.size, until=index.size)
            self.disk.sync(name, self.folder)
        before = self.segments[-1]
        if index.begins_at and isinstance(before, SealedFile) and before.is_read:
            index = index_of(before)
        segment = ActiveFile(
            self.disk,
            name,
            base,
            capacity=max(self._segment_bytes, index.size),
            created=before.created,
            number=before.number,
            interval_bytes=self.config.index_interval_bytes,
            note_gap=self._gaps.note,
            index=index,
            view=view,
        )
        self.segments[-1] = self._active = segment

    def resume(self) -> None:
        """Go on after `close`: the last segment is appended to again."""
        last = self.segments[-1] if self.segments else None
        if self._active is None and last is not None and last.size and not self.is_gone:
            self._last, self._is_cut = (last.base_offset, index_of(last), None), False
            self.begin()

    def _load_epochs(self) -> None:
        data = self.disk.read(f"{self.folder}/{LEADER_EPOCHS}")
        entries: list[tuple[int, int]] = []
        if data is not None:
            try:
                entries = read_epochs(data)
            except DamagedFile as error:
                self.disk.warn(f"{self.folder}/{LEADER_EPOCHS}", str(error))
        self._epochs_written = entries
        base = self._bases[0] if self._bases else 0
        if (
            self.files.was_clean
            and entries
            and entries[0][1] < base > self.files.log_starts.get((self.topic, self.index), 0)
        ):
            # Retention lets the epochs begin with the log.
            self.disk.warn(self.folder, f"it begins at offset {base}, and its leader epochs at {entries[0][1]}")
        newest = self._newest_batch()
        for epoch, start in entries:
            if newest is not None and start < newest.next_offset and epoch > newest.partition_leader_epoch > NO_EPOCH:
                # The others would lose their records for it (KIP-101): the replica with the newest epoch is the log.
                self.disk.warn(
                    f"{self.folder}/{LEADER_EPOCHS}",
                    f"epoch {epoch} begins at offset {start} there, and the batch at {newest.base_offset} is of epoch"
                    f" {newest.partition_leader_epoch}",
                )
                break
            if start <= self.end_offset:
                self.epochs.assign(epoch, start)
        # A leader may have appended without having had the time to say when it began.
        if newest is not None and newest.partition_leader_epoch > self.epochs.latest:
            self.epochs.assign(newest.partition_leader_epoch, newest.base_offset)
        self.leader_epoch = self.epochs.latest

    def _newest_batch(self) -> Batch | None:
        last = self.segments[-1] if self.segments else None
        known = self._last[1] if self._last is not None and self._last[1].size else last
        if last is None or known is None or not known.positions:
            return None
        return last.batch_at(known.positions[-1])

    def _load_producers(self, checked_from: int, there: Collection[str]) -> None:
        """The newest valid snapshot, and the state after the batches behind it."""
        aborted, checked_from = self._aborted_found(checked_from, there)
        snapshot = self._newest_snapshot(checked_from, there)
        state = ProducerState()
        state.restore(snapshot)
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

    def _newest_snapshot(self, checked_from: int, there: Collection[str]) -> Snapshot:
        found = sorted(
            each.base_offset for each in map(read_segment_file, there) if each is not None and each.suffix == SNAPSHOT
        )
        newest: Snapshot | None = None
        for offset in reversed(found):
            name = self._name(offset, SNAPSHOT)
            if offset > self.end_offset or (offset > checked_from and not self.files.was_clean):
                self.disk.remove(name)
                continue
            if offset > checked_from:
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

    def _aborted_found(self, until: int, there: Collection[str]) -> tuple[list[AbortedTransaction], int]:
        """The transactions beside the segments up to this offset, or to a damaged index; and how far that is.

        Those of the segments behind are made of the batches. Without them readers would take what was aborted for
        committed.
        """
        found: list[AbortedTransaction] = []
        for segment in self.segments:
            base = segment.base_offset
            if base >= until:
                break
            if segment_file(base, INDEX) not in there:
                # The process before has ended between a segment and its indexes, which are written together.
                if self.files.was_clean:
                    self.disk.warn(self._name(base, INDEX), "it is missing; the indexes are made of the batches again")
                until = base
                break
            name = self._name(base, TXN_INDEX)
            data = self.disk.read(name) if segment_file(base, TXN_INDEX) in there else None
            try:
                found += _of_segment(read_aborted(data or b""), base, segment.next_offset)
            except DamagedFile as error:
                self.disk.warn(name, f"{error}; it is made of the batches again")
                until = segment.base_offset
                break
        return [each for each in found if each.last_offset < until], until


def _bases_of(names: Iterable[str]) -> list[int]:
    """Where the segments begin that are among these files."""
    found = map(read_segment_file, names)
    return sorted(each.base_offset for each in found if each is not None and each.suffix == LOG)


def _of_segment(entries: list[AbortedTransaction], base: int, end: int) -> list[AbortedTransaction]:
    """The entries of a transaction index, if they can be those of this segment. Raises `DamagedFile`."""
    for each in entries:
        if not base <= each.last_offset < end or each.first_offset > each.last_offset:
            raise DamagedFile(f"it has a transaction from offset {each.first_offset} to {each.last_offset}")
    return entries
