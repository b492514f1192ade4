"""All logs of a broker in a directory of Kafka's: what outlives its process.

What an earlier process has left is looked at when the store is made, and nothing is written before the first leader.
The checkpoints say for all logs how far they are on the device, where they begin, and up to where compaction has seen
them; they are written now and then, and at the clean stop, whose mark comes last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.config.table import TopicConfig
from odradek.log.file_log import FileLog
from odradek.log.files.checkpoints import read_offsets, write_offsets
from odradek.log.files.damaged import DamagedFile
from odradek.log.files.marks import read_clean_stop, read_partition_metadata, write_clean_stop
from odradek.log.files.names import (
    CLEAN_STOP,
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    Folder,
    read_folder,
)
from odradek.log.log_store import LogStore
from odradek.log.metadata_log import METADATA_FOLDER, METADATA_TOPIC, MetadataFileLog

if TYPE_CHECKING:
    from odradek.log.disk import Disk
    from odradek.log.files.walk import SegmentIndex
    from odradek.log.log import Log

__all__ = ["FileStore"]

UNBOUNDED = 1 << 62
"""Bytes that fit: the disk says when it is full."""


class FileStore(LogStore):
    """The logs of one broker, in files."""

    def __init__(self, disk: Disk, *, node_id: int, now: Callable[[], int], unique: Callable[[], str]) -> None:
        """Open what is there. Raises `DamagedFile` where that cannot be gone on with, and `DiskError`.

        `now` tells the time (ms), `unique` gives 32 hexadecimal digits that were never given.
        """
        super().__init__(bytes_max=UNBOUNDED)
        self.segment_bytes = 16 * 1024 * 1024
        self.disk = disk
        self.node_id = node_id
        self._now = now
        self._unique = unique
        self.unnamed: dict[str, None] = {}
        """Folders in which no topic id stands: their process ended before it was written."""
        self.cut: list[tuple[str, int, int, str]] = []
        """Of recovery: folder, end offset, bytes that were cut off, why."""
        mark = disk.read(CLEAN_STOP)
        self.was_clean = mark is not None
        """Whether the process before has stopped cleanly."""
        self.broker_epoch = -1 if mark is None else read_clean_stop(mark)
        """That of the broker that did."""
        self.recovery_points = self._offsets(RECOVERY_POINTS)
        self.log_starts = self._offsets(LOG_STARTS)
        self.cleaned = self._offsets(CLEANED_OFFSETS)
        for name in disk.folders():
            self._open_folder(name)
        self._written: dict[str, bytes] = {}

    def _offsets(self, name: str) -> dict[tuple[str, int], int]:
        data = self.disk.read(name)
        try:
            return {} if data is None else read_offsets(data)
        except DamagedFile as error:
            self.disk.warn(name, f"{error}; it is written anew")
            return {}

    def _open_folder(self, name: str) -> None:
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
        if not data:
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
        self._logs.setdefault(topic_id, {})[folder.partition] = log

    def _make(self, topic_id: bytes, index: int, config: TopicConfig) -> FileLog:
        kind = MetadataFileLog if topic_id == METADATA_TOPIC else FileLog
        return kind(self, topic_id=topic_id, index=index, config=config)

    def begin(self) -> None:
        """From now on the directory is not as a clean stop has left it."""
        self.disk.remove(CLEAN_STOP)
        for log in self.logs():
            assert isinstance(log, FileLog)
            log.begin()

    # ------------------------------------------------------------------ see `LogStore`

    def open(self, topic_id: bytes, index: int, config: TopicConfig) -> Log:
        """See `LogStore`."""
        log = self.find(topic_id, index)
        if log is None:
            log = self._make(topic_id, index, config)
            self._logs.setdefault(topic_id, {})[index] = log
        else:
            log.configure(config)
        return log

    def shed(self, size: int) -> bool:
        """See `LogStore`: there is always room, until the disk says that there is none."""
        return True

    # ------------------------------------------------------------------ what its logs ask for

    def now(self) -> int:
        """The time (ms)."""
        return self._now()

    def unique(self) -> str:
        """32 hexadecimal digits that were never given."""
        return self._unique()

    def note_cut(self, folder: str, index: SegmentIndex, data: memoryview) -> None:
        """Recovery has ended a log here; room that was reserved and never written to is nothing to speak of."""
        torn = bytes(data[index.size :]).rstrip(b"\0")
        if torn:
            self.cut.append((folder, index.next_offset, len(torn), index.problem))

    # ------------------------------------------------------------------ what happens now and then

    def set_strays_aside(self, is_known: Callable[[bytes], bool]) -> list[str]:
        """Folders of topics that the metadata does not know get a name that says so; which they are."""
        moved = []
        for topic_id in [each for each in self._logs if each != METADATA_TOPIC and not is_known(each)]:
            for log in self._logs.pop(topic_id).values():
                assert isinstance(log, FileLog)
                self.disk.rename(log.folder, f"{log.folder}.{self.unique()}-stray")
                moved.append(log.folder)
        return moved

    def checkpoint(self) -> None:
        """Write down how far all logs are."""
        logs = [
            log
            for log in self.logs()
            if isinstance(log, FileLog) and log.folder and not log.is_gone and log.topic_id != METADATA_TOPIC
        ]
        keys = {(log.topic, log.index): log for log in logs}
        self._write(RECOVERY_POINTS, {key: log.recovery_point for key, log in keys.items()})
        self._write(
            HIGH_WATERMARKS,
            {key: log.end_offset if log.mark is None else log.mark for key, log in keys.items()},
        )
        self._write(LOG_STARTS, {key: log.start_offset for key, log in keys.items() if log.start_offset > 0})
        self._write(
            CLEANED_OFFSETS, {key: log.first_dirty_offset for key, log in keys.items() if log.first_dirty_offset > 0}
        )

    def _write(self, name: str, offsets: dict[tuple[str, int], int]) -> None:
        data = write_offsets(offsets)
        if self._written.get(name) != data:
            self.disk.write(name, data)
            self._written[name] = data

    def close(self, *, broker_epoch: int) -> None:
        """The clean stop."""
        for log in self.logs():
            assert isinstance(log, FileLog)
            log.close(flush=True)
        self.checkpoint()
        self.disk.write(CLEAN_STOP, write_clean_stop(broker_epoch), flush=True)
