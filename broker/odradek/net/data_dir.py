"""The directory that a broker keeps its logs in: found or made, locked, written to now and then, left in order."""

from __future__ import annotations

import os
import resource
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.cli.usage import UsageError
from odradek.log.disk import DiskError
from odradek.log.file_store import FileStore
from odradek.log.files.damaged import DamagedFile
from odradek.log.files.marks import Meta, read_meta, write_meta
from odradek.log.files.names import LOCK, META, SnapshotId, checkpoint_file, read_checkpoint_file
from odradek.log.metadata_log import METADATA_FOLDER, METADATA_TOPIC, MetadataFileLog
from odradek.metadata.snapshot_file import read_snapshot, write_snapshot
from odradek.net.disk import DirectoryLock, LocalDisk

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from odradek.broker import Logger, Node
    from odradek.metadata.image import MetadataImage

__all__ = ["DataDir", "the_one"]

LOOK_S = 1.0
"""How often checkpoints are written, if there is anything new in them."""
SNAPSHOT_BYTES = 20 * 1024 * 1024
"""`metadata.log.max.record.bytes.between.snapshots`: so much behind the last snapshot makes the next one."""
SNAPSHOT_MS = 3_600_000
"""`metadata.log.max.snapshot.interval.ms`: and so does a record that is so old."""
RETAINED_BYTES = 100 * 1024 * 1024
"""`metadata.max.retention.bytes`: a log that is longer begins at its last snapshot."""
BOOTSTRAP = SnapshotId(0, 0)


class DataDir:
    """A log directory of Kafka's, from its lock to its release."""

    def __init__(
        self,
        path: Path,
        *,
        node_id: int | None,
        cluster_id: str | None,
        log: Logger,
        now: Callable[[], int],
        new_cluster_id: Callable[[], str],
    ) -> None:
        """Open it, or make it. `node_id` and `cluster_id` are None where any will do.

        Raises `UsageError` where it cannot be used.
        """
        self.path = path
        self._log = log
        self._now = now
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = DirectoryLock(path, LOCK)
        except DiskError as error:
            raise UsageError(f"The data directory cannot be used: {error}.") from None
        except OSError as error:
            raise UsageError(f"The data directory {path} cannot be made: {error.strerror}.") from None
        self.disk = LocalDisk(path, log)
        try:
            self.meta = self._own(node_id, cluster_id, new_cluster_id)
            _allow_descriptors()
            self.store = FileStore(self.disk, node_id=self.meta.node_id, now=now, unique=_unique)
            self.store.directories = (self.meta.directory_id,) if self.meta.directory_id else ()
            self.store.metadata_snapshot = self._newest_snapshot()
            self.store.begin()
        except (DamagedFile, DiskError) as error:
            self._release()
            raise UsageError(f"The data directory {path} cannot be used: {error}.") from None
        except BaseException:
            self._release()
            raise
        self._snapshot_at = -1 if self.store.metadata_snapshot is None else self.store.metadata_snapshot[0]
        self._metadata_bytes = 0
        metadata = self.store.find(METADATA_TOPIC, 0)
        self.was_new = metadata is None or metadata.end_offset == 0
        """Whether nobody had written to the metadata log."""
        self._timer: asyncio.TimerHandle | None = None
        self._tell()

    def _own(self, node_id: int | None, cluster_id: str | None, new_cluster_id: Callable[[], str]) -> Meta:
        data = self.disk.read(META)
        if data is None:
            there = [name for name in (*self.disk.folders(), *self.disk.files("")) if name not in (LOCK, "lost+found")]
            if there:
                raise UsageError(
                    f"The data directory {self.path} has no {META} and is not empty: half a copy, or something else."
                )
            meta = Meta(cluster_id or new_cluster_id(), 1 if node_id is None else node_id, uuid.uuid4().bytes)
            self.disk.write(META, write_meta(meta, date=_date(self._now())), flush=True)
            return meta
        try:
            meta = read_meta(data)
        except DamagedFile as error:
            raise DamagedFile(f"{META}: {error}") from None
        if cluster_id not in (None, meta.cluster_id):
            raise UsageError(f"The data directory {self.path} is of cluster {meta.cluster_id}, not of {cluster_id}.")
        if node_id not in (None, meta.node_id):
            raise UsageError(f"The data directory {self.path} is of broker {meta.node_id}, not of {node_id}.")
        return meta

    def _newest_snapshot(self) -> tuple[int, int, bytes] | None:
        """The newest snapshot of the metadata that can be read. Raises `DamagedFile` where one is needed."""
        log = self.store.find(METADATA_TOPIC, 0)
        names = self.disk.files(METADATA_FOLDER)
        found = sorted((each for each in map(read_checkpoint_file, names) if each is not None), reverse=True)
        for snapshot in found:
            if snapshot == BOOTSTRAP or log is None or snapshot.end_offset > log.end_offset:
                continue
            name = f"{METADATA_FOLDER}/{checkpoint_file(snapshot)}"
            data = self.disk.read(name) or b""
            try:
                read_snapshot(data)
            except DamagedFile as error:
                self.disk.warn(name, str(error))
                continue
            return snapshot.end_offset, snapshot.epoch, data
        if log is not None and log.start_offset > 0:
            raise DamagedFile(f"{METADATA_FOLDER} begins at offset {log.start_offset} and has no snapshot")
        return None

    def _tell(self) -> None:
        store = self.store
        self._log.info(
            "data_dir_opened",
            path=os.fspath(self.path),
            cluster_id=self.meta.cluster_id,
            logs=len(store.logs()),
            clean=store.was_clean,
        )
        for folder, end, torn, why in store.cut:
            self._log.warning("log_tail_cut", folder=folder, end_offset=end, bytes=torn, reason=why)

    # ------------------------------------------------------------------ while the cluster runs

    def started(self, node: Node, loop: asyncio.AbstractEventLoop) -> None:
        """The broker leads what it has: look after the directory from now on."""
        image = node.controller.image
        strays = self.store.set_strays_aside(image.topics_by_id.__contains__)
        if strays:
            self._log.warning("stray_logs_set_aside", folders=strays)
        for folder in self.store.unnamed:
            self._log.warning("folder_without_topic_id", folder=folder)
        self._look(node, loop)

    def _look(self, node: Node, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self.store.checkpoint()
            self._snapshot_if_due(node.controller.image)
        except DiskError as error:
            self._log.error("disk_failed", reason=str(error))
        self._timer = loop.call_later(LOOK_S, self._look, node, loop)

    def _snapshot_if_due(self, image: MetadataImage) -> None:
        log = self.store.find(METADATA_TOPIC, 0)
        if log is None or image.offset < self._snapshot_at:
            return
        behind = sum(segment.size for segment in log.segments if segment.next_offset > self._snapshot_at)
        following = next(log.batches(max(self._snapshot_at, log.start_offset)), None)
        if following is None:
            return
        if behind - self._metadata_bytes >= SNAPSHOT_BYTES or self._now() - following.max_timestamp >= SNAPSHOT_MS:
            self.write_snapshot(image)
            self._metadata_bytes = behind

    def write_snapshot(self, image: MetadataImage) -> None:
        """Write a snapshot of this image, which was published, and so is not from within a metadata transaction."""
        log = self.store.find(METADATA_TOPIC, 0)
        assert isinstance(log, MetadataFileLog), "the metadata log is there while the broker runs"
        snapshot = SnapshotId(image.offset + 1, log.epochs.epoch_of(image.offset))
        last = next(log.batches(image.offset), None)
        data = write_snapshot(
            image,
            epoch=snapshot.epoch,
            last_timestamp=-1 if last is None else last.max_timestamp,
            now=self._now(),
        )
        self.disk.write(f"{METADATA_FOLDER}/{checkpoint_file(snapshot)}", data, flush=True)
        self._snapshot_at = snapshot.end_offset
        self._log.info("metadata_snapshot_written", end_offset=snapshot.end_offset, bytes=len(data))
        self._trim(log, snapshot)

    def _trim(self, log: MetadataFileLog, snapshot: SnapshotId) -> None:
        """What the snapshot says need not be in the log, when that is long."""
        if log.size_bytes <= RETAINED_BYTES:
            return
        log.advance_start(snapshot.end_offset)
        for name in self.disk.files(METADATA_FOLDER):
            older = read_checkpoint_file(name)
            if older is not None and BOOTSTRAP < older < snapshot:
                self.disk.remove(f"{METADATA_FOLDER}/{name}")

    # ------------------------------------------------------------------ the end

    def close(self, *, broker_epoch: int) -> None:
        """The clean stop."""
        if self._timer is not None:
            self._timer.cancel()
        try:
            self.store.close(broker_epoch=broker_epoch)
        except DiskError as error:
            self._log.error("disk_failed", reason=str(error))
        self._release()

    def abandon(self) -> None:
        """The start has failed: leave everything as it is."""
        if self._timer is not None:
            self._timer.cancel()
        self._release()

    def _release(self) -> None:
        self.disk.close()
        self._lock.release()


def the_one(brokers: int | None, node_ids: Sequence[int] | None) -> int | None:
    """The id of the only broker, None for any. Raises `UsageError` for more brokers than one."""
    count = len(node_ids) if node_ids is not None else brokers or 1
    if count > 1:
        raise UsageError(f"A data directory is for one broker as yet, not for {count}.")
    return None if node_ids is None else node_ids[0]


def _unique() -> str:
    return uuid.uuid4().hex


def _date(now: int) -> str:
    """As `java.util.Date` writes it."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(now / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")


def _allow_descriptors() -> None:
    """Each segment that is mapped has a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return
