"""All logs of a broker in a directory of Kafka's format, which outlives the process.

The directory is read when the store is made; nothing is written before the first leader. The checkpoints have for every
log the offset up to which it is flushed, its start, and the offset up to which it is compacted. They are written at
intervals, and at the clean stop, whose mark comes last.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from threading import Lock
from typing import TYPE_CHECKING

from odradek.config.table import TopicConfig
from odradek.log.disk import DamagedFile, DiskError
from odradek.log.file_log import FileLog
from odradek.log.files.checkpoints import read_offsets, write_offsets
from odradek.log.files.marks import is_cut_off, read_clean_stop, read_partition_metadata, write_clean_stop
from odradek.log.files.names import (
    CLEAN_STOP,
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    Folder,
    folder_aside,
    read_folder,
)
from odradek.log.log_store import LogStore
from odradek.log.metadata_log import METADATA_FOLDER, METADATA_TOPIC, MetadataFileLog
from odradek.log.replicated_log import ReplicatedLog
from odradek.wire.primitives import uuid_text

if TYPE_CHECKING:
    from odradek.log.disk import Disk
    from odradek.log.files.walk import SegmentIndex
    from odradek.log.found_log import FoundBefore
    from odradek.log.log import Log

__all__ = ["FileStore"]

SEGMENT_BYTES_MAX = 2**31 - 1
"""No segment is larger: `segment.bytes` is a number of 32 bits, as positions in indexes are."""
UNBOUNDED = 1 << 62
"""Bytes that fit: the disk says when it is full."""


class FileStore(LogStore):
    """The logs of one broker, in files."""

    def __init__(
        self,
        disk: Disk,
        *,
        node_id: int,
        now: Callable[[], int],
        unique: Callable[[], str],
        voters: tuple[int, ...] = (),
        syncs: bool = False,
        segment_bytes: int = SEGMENT_BYTES_MAX,
        before: FoundBefore | None = None,
    ) -> None:
        """Open what is there. Raises `DamagedFile` where that cannot be gone on with, and `DiskError`.

        `now` tells the time (ms), `unique` gives 32 hexadecimal digits that were never given. `voters` are all brokers
        of the cluster, which have the metadata log: this one alone unless they are given. With `syncs` everything is on
        the device before it is acknowledged. Segments are of `segment_bytes` at most. `before` has what other forks of
        a snapshot have found.
        """
        super().__init__(bytes_max=UNBOUNDED)
        self.segment_bytes = segment_bytes
        self.disk = disk
        self.node_id = node_id
        self.voters = voters or (node_id,)
        self.syncs = syncs
        self._now = now
        self._unique = unique
        self.marks_epoch = True
        """Whether the mark of a clean stop has the broker's epoch, as since 3.7."""
        self._leaving: list[tuple[int, str]] = []
        """Files and folders that are removed at a time (ms), as a heap."""
        self.unnamed: dict[str, None] = {}
        """Folders in which no topic id stands: their process ended before it was written."""
        self.cut: list[tuple[str, int, int, str]] = []
        """Recovered logs: folder, end offset, bytes that were cut off, reason."""
        mark = disk.read(CLEAN_STOP)
        self.was_clean = mark is not None
        """Whether the process before has stopped cleanly."""
        self.broker_epoch = -1 if mark is None else read_clean_stop(mark)
        """That of the broker that did."""
        self.failure = ""
        """Why a partition cannot be led as it should: a start is refused for it."""
        self.strays: list[str] = []
        """Folders that were set aside: the metadata does not know them, or another log needs their name."""
        self._before = before
        self._loaded: dict[str, FileLog] = {}
        """Logs of the process before, by folder."""
        self._checkpoints: dict[str, bytes] = {}
        """What the checkpoints are to have."""
        self._written: dict[str, bytes] = {}
        """What they have."""
        self.recovery_points = self._offsets(RECOVERY_POINTS)
        self.log_starts = self._offsets(LOG_STARTS)
        self.cleaned = self._offsets(CLEANED_OFFSETS)
        self._found = frozenset(disk.folders())
        for name in sorted(self._found):
            self._open_folder(name)
        self._writing = Lock()
        """Held while they are written, now or by work that was put off."""

    def _offsets(self, name: str) -> dict[tuple[str, int], int]:
        data = self.disk.read(name)
        if data is None:
            return {}
        try:
            offsets = read_offsets(data)
        except DamagedFile as error:
            self.disk.warn(name, f"{error}; it is written anew")
            return {}
        if self.was_clean:
            self._written[name] = data
        return offsets

    def _open_folder(self, name: str) -> None:
        known = None if self._before is None else self._before.found(name)
        if known is not None:
            log = self._make(known.topic_id, known.folder.partition, TopicConfig())
            log.load_found(known)
            self._add(log)
            return
        folder = read_folder(name)
        if folder is None:
            if name != "lost+found":
                self.disk.warn(name, "it is no folder of a partition, and is left alone")
            return
        if folder.state == "delete":
            self.disk.remove(name)
            return
        if folder.state:
            self.disk.warn(name, "it is no replica that is in use, and is left alone")
            return
        data = self.disk.read(f"{name}/{PARTITION_METADATA}")
        if not data or is_cut_off(data):
            if name == METADATA_FOLDER:
                self._load(folder, METADATA_TOPIC)
            else:
                self.unnamed[name] = None
            return
        try:
            topic_id = read_partition_metadata(data)
        except DamagedFile as error:
            raise DamagedFile(f"{name}/{PARTITION_METADATA}: {error}") from None
        self._load(folder, topic_id)

    def _load(self, folder: Folder, topic_id: bytes) -> None:
        log = self._make(topic_id, folder.partition, TopicConfig())
        log.load(folder)
        if self._before is not None and (found := log.found()) is not None:
            self._before.keep(log.folder, found)
        self._add(log)

    def _add(self, log: FileLog) -> None:
        other = self.find(log.topic_id, log.index)
        if isinstance(other, FileLog):
            raise DamagedFile(
                f"{other.folder} and {log.folder} are the same partition of the topic {uuid_text(log.topic_id)}, so one"
                " of them is a copy"
            )
        self._logs.setdefault(log.topic_id, {})[log.index] = log
        self._loaded[log.folder] = log

    def _make(self, topic_id: bytes, index: int, config: TopicConfig) -> FileLog:
        kind = MetadataFileLog if topic_id == METADATA_TOPIC else ReplicatedLog if len(self.voters) > 1 else FileLog
        return kind(self, topic_id=topic_id, index=index, config=config)

    def begin(self) -> None:
        """From now on the directory is not as a clean stop has left it."""
        self.disk.remove(CLEAN_STOP)
        # Else the mark may be there again after the machine's death, beside files that are not as it says.
        self.disk.sync("")
        for log in self.logs():
            assert isinstance(log, FileLog)
            log.begin()

    def open(self, topic_id: bytes, index: int, config: TopicConfig) -> Log:
        return self.place(topic_id, index, config)

    def place(self, topic_id: bytes, index: int, config: TopicConfig) -> FileLog:
        log = self.find(topic_id, index)
        if log is None:
            made = self._make(topic_id, index, config)
            self.adopt(made)
            return made
        assert isinstance(log, FileLog), "all logs of a directory are in files"
        log.configure(config)
        return log

    def adopt(self, log: FileLog) -> None:
        self._logs.setdefault(log.topic_id, {})[log.index] = log

    def forget(self, topic_id: bytes, index: int | None = None) -> None:
        if index is None:
            self._logs.pop(topic_id, None)
        else:
            self._logs.get(topic_id, {}).pop(index, None)

    def volume(self) -> tuple[int, int]:
        """See `LogStore`; zeros of a disk that does not say."""
        try:
            return self.disk.space()
        except DiskError as error:
            self.disk.warn("", str(error))
            return 0, 0

    def shed(self, size: int) -> bool:
        """See `LogStore`: there is always room, until the disk is full."""
        return True

    def now(self) -> int:
        return self._now()

    def unique(self) -> str:
        return self._unique()

    def remove_later(self, name: str, delay_ms: int) -> None:
        """Remove a file or a folder, which has a name for that already, when this time is over."""
        heappush(self._leaving, (self.now() + delay_ms, name))

    def _remove_due(self) -> None:
        while self._leaving and self._leaving[0][0] <= self.now():
            self.disk.later(partial(self.disk.remove, heappop(self._leaving)[1]))

    def note_cut(self, folder: str, index: SegmentIndex, data: memoryview) -> bool:
        """Recovery has ended a log here; room that was reserved and never written to is nothing to speak of."""
        torn = bytes(data[index.size :]).rstrip(b"\0")
        if torn:
            self.cut.append((folder, index.next_offset, len(torn), index.problem))
        return bool(torn)

    def missing(self, is_known: Callable[[str, int], object | None]) -> list[str]:
        """The folders of partitions that had records on the device, and are not there; the metadata has them."""
        return [
            folder
            for (topic, index), flushed in self.recovery_points.items()
            if flushed and (folder := f"{topic}-{index}") not in self._found and is_known(topic, index) is not None
        ]

    def set_strays_aside(self, is_known: Callable[[bytes, int], bool]) -> None:
        """Folders of partitions that the metadata does not know get a name that says so."""
        for log in list(self._loaded.values()):
            if log.topic_id != METADATA_TOPIC and not log.is_gone and not is_known(log.topic_id, log.index):
                self._set_aside(log)
        self._loaded.clear()

    def _set_aside(self, log: FileLog) -> None:
        self.disk.rename(log.folder, folder_aside(log.topic, log.index, unique=self.unique(), state="stray"))
        self.strays.append(log.folder)
        self.forget(log.topic_id, log.index)
        del self._loaded[log.folder]
        log.is_gone = True

    def vacate(self, folder: str) -> None:
        """See `Directory`."""
        log = self._loaded.get(folder)
        if log is not None and not log.is_gone:
            self._set_aside(log)

    def note_failure(self, failed: DiskError) -> None:
        """See `Directory`."""
        self.failure = self.failure or str(failed)

    def checkpoint(self) -> None:
        """Write down how far all logs are, and remove what has had its time. Raises `DiskError`."""
        self._remove_due()
        self._note_checkpoints()
        self._write_checkpoints()

    def checkpoint_later(self) -> None:
        """The same while others go on: a file that replaces another one may wait for the device."""
        self._remove_due()
        self._note_checkpoints()
        if self._checkpoints != self._written:
            self.disk.later(self._write_checkpoints)

    def _note_checkpoints(self) -> None:
        logs = [
            log
            for log in self.logs()
            if isinstance(log, FileLog) and log.folder and not log.is_gone and log.topic_id != METADATA_TOPIC
        ]
        keys = {(log.topic, log.index): log for log in logs}
        offsets: dict[str, dict[tuple[str, int], int]] = {
            RECOVERY_POINTS: {key: log.recovery_point for key, log in keys.items()},
            HIGH_WATERMARKS: {key: log.committed for key, log in keys.items()},
            LOG_STARTS: {key: log.start_offset for key, log in keys.items() if log.start_offset > 0},
            CLEANED_OFFSETS: {key: log.first_dirty_offset for key, log in keys.items() if log.first_dirty_offset > 0},
        }
        self._checkpoints = {name: write_offsets(each) for name, each in offsets.items()}

    def _write_checkpoints(self) -> None:
        """Write the newest ones; work that was put off finds nothing to do where somebody was faster."""
        with self._writing:
            for name, data in self._checkpoints.items():
                if self._written.get(name) != data:
                    self.disk.write(name, data, flush=name != HIGH_WATERMARKS)
                    self._written[name] = data

    def resume(self) -> None:
        """The broker goes on after `close` in the same process, or after a crash: the mark of a clean stop goes."""
        self.disk.remove(CLEAN_STOP)
        self.disk.sync("")
        for log in self.logs():
            assert isinstance(log, FileLog)
            log.resume()

    def close(self, *, broker_epoch: int) -> None:
        """The clean stop. Raises `DiskError`, and then there is no mark of it."""
        logs = [log for log in self.logs() if isinstance(log, FileLog) and log.folder and not log.is_gone]
        self.disk.sync(*(name for log in logs for name in log.close()))
        for log in logs:
            log.recovery_point = log.end_offset
        self.checkpoint()
        mark = write_clean_stop(broker_epoch if self.marks_epoch else None)
        self.disk.write(CLEAN_STOP, mark, flush=True)
