"""The directory of one broker's logs: found or created, locked, closed cleanly."""

from __future__ import annotations

import os
import resource
import uuid
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.cli.usage import UsageError
from odradek.log.disk import DamagedFile, DiskError
from odradek.log.file_store import FileStore
from odradek.log.files.marks import Meta, read_meta, write_meta
from odradek.log.files.names import LOCK, META, SnapshotId, checkpoint_file, read_checkpoint_file
from odradek.log.metadata_log import METADATA_FOLDER, METADATA_TOPIC, MetadataFileLog
from odradek.metadata.features import METADATA_VERSION, level_in
from odradek.metadata.snapshot_file import read_quorum, read_snapshot
from odradek.net.disk import DirectoryLock, LocalDisk
from odradek.net.metadata_snapshots import MetadataSnapshots

if TYPE_CHECKING:
    from collections.abc import Callable

    from odradek.broker import Logger
    from odradek.log.disk import Disk
    from odradek.metadata.image import MetadataImage
    from odradek.net.fork_dir import SnapshotFiles

__all__ = ["DataDir"]

BOOTSTRAP = SnapshotId(0, 0)
BOOTSTRAP_BEFORE = "bootstrap.checkpoint"
"""The file of this name of releases before 4.4."""


def _itself(disk: LocalDisk) -> Disk:
    return disk


def _forked(path: Path, log: Logger, made_of: SnapshotFiles, *, late: bool) -> LocalDisk:
    from odradek.net.fork_dir import ForkedDisk  # most directories are of no fork

    return ForkedDisk(path, log, made_of, late=late)


def _new_id() -> bytes:
    return uuid.uuid4().bytes


class DataDir:
    """One of Kafka's log directories, from its lock to its release."""

    def __init__(
        self,
        path: Path,
        *,
        node_id: int | None,
        cluster_id: str | None,
        log: Logger,
        now: Callable[[], int],
        new_cluster_id: Callable[[], str],
        voters: tuple[int, ...] = (),
        syncs: bool = False,
        names_directories: bool = True,
        made_of: SnapshotFiles | None = None,
        made_late: bool = False,
        disk_of: Callable[[LocalDisk], Disk] = _itself,
        new_id: Callable[[], bytes] = _new_id,
    ) -> None:
        """Open it, or make it. `node_id` and `cluster_id` are None where any will do; the rest as for `FileStore`.

        Nothing that is there changes before `begin`. That of a fork was `made_of` these files just now: it waits for no
        device yet, and if it is `made_late`, folders come with their first change. The store gets what `disk_of` makes
        of the disk; `new_id` gives a new directory its id. Without `names_directories` the files are those of a release
        before 3.7.

        Raises `UsageError` where it cannot be used.
        """
        self.path = path
        self._log = log
        self._now = now
        self._new_id = new_id if names_directories else bytes
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = DirectoryLock(path, LOCK)
        except DiskError as error:
            raise UsageError(f"The data directory cannot be used: {error}.") from None
        except FileExistsError:
            raise UsageError(
                f"The data directory {path} is a file: name a directory, or a path where none is yet."
            ) from None
        except OSError as error:
            raise UsageError(f"The data directory {path} cannot be made: {error.strerror}.") from None
        self.disk = LocalDisk(path, log) if made_of is None else _forked(path, log, made_of, late=made_late)
        self.disk.waits_for_device = made_of is None
        try:
            self.meta = self._own(node_id, cluster_id, new_cluster_id)
            _allow_descriptors()
            disk = disk_of(self.disk)
            self.store = FileStore(
                disk,
                node_id=self.meta.node_id,
                now=now,
                unique=_unique,
                voters=voters,
                syncs=syncs,
                # A recorded fork, and its replay, ask their disk for everything.
                before=self.disk.before if disk is self.disk else None,
            )
            self.store.settles_late = made_of is not None
            self.store.marks_epoch = names_directories
            self.store.path = os.fspath(path.absolute())
            self.store.directories = (self.meta.directory_id,) if self.meta.directory_id else ()
            self._check_voters()
            self.store.metadata_snapshot = self._newest_snapshot()
            metadata = self.store.find(METADATA_TOPIC, 0)
            if isinstance(metadata, MetadataFileLog):
                metadata.tell_lost_end()
            self.store.bootstrap = self._first_records()
        except (DamagedFile, DiskError) as error:
            self.release()
            raise UsageError(f"The data directory {path} cannot be used: {error}.") from None
        except BaseException:
            self.release()
            raise
        self.snapshots = MetadataSnapshots(self.store, log=log, now=now)
        self._tell()

    def _own(self, node_id: int | None, cluster_id: str | None, new_cluster_id: Callable[[], str]) -> Meta:
        data = self.disk.read(META)
        if data is None:
            there = [name for name in (*self.disk.folders(), *self.disk.files("")) if name not in (LOCK, "lost+found")]
            if there:
                raise UsageError(
                    f"The data directory {self.path} has no {META} and is not empty: half a copy, or something else."
                )
            meta = Meta(cluster_id or new_cluster_id(), 1 if node_id is None else node_id, self._new_id())
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

    def _check_voters(self) -> None:
        """Raises `DamagedFile` where the directory belongs to none of the quorum's nodes."""
        log = self.store.find(METADATA_TOPIC, 0)
        quorum = log.quorum if isinstance(log, MetadataFileLog) else None
        if quorum is not None and quorum.voters and self.meta.node_id not in quorum.voters:
            raise DamagedFile(
                f"{META} is of node {self.meta.node_id}, and the quorum has the voters"
                f" {', '.join(map(str, quorum.voters))}"
            )

    def _newest_snapshot(self) -> tuple[int, int, bytes] | None:
        """The newest readable snapshot of the metadata. Raises `DamagedFile` if one is needed and none can be read."""
        log = self.store.find(METADATA_TOPIC, 0)
        names = self.disk.files(METADATA_FOLDER)
        found = sorted((each for each in map(read_checkpoint_file, names) if each is not None), reverse=True)
        for snapshot in found:
            if snapshot == BOOTSTRAP or not isinstance(log, MetadataFileLog):
                continue
            name = f"{METADATA_FOLDER}/{checkpoint_file(snapshot)}"
            data = self.disk.read(name) or b""
            try:
                read_snapshot(data)
            except DamagedFile as error:
                self.disk.warn(name, str(error))
                continue
            if snapshot.end_offset > log.end_offset:
                self.disk.warn(METADATA_FOLDER, f"it ends at offset {log.end_offset}, before the snapshot {name}")
                log.begin_behind(snapshot)
            return snapshot.end_offset, snapshot.epoch, data
        if log is not None and log.start_offset > 0:
            raise DamagedFile(f"{METADATA_FOLDER} begins at offset {log.start_offset} and has no snapshot")
        return None

    def _first_records(self) -> bytes | None:
        """What `kafka-storage format` has left. Raises `DamagedFile` if the cluster has to begin with it and cannot."""
        log = self.store.find(METADATA_TOPIC, 0)
        has_begun = log is not None and log.end_offset > 0
        for name in (f"{METADATA_FOLDER}/{checkpoint_file(BOOTSTRAP)}", BOOTSTRAP_BEFORE):
            data = self.disk.read(name)
            if data is None:
                continue
            has_quorum = bool(read_quorum(data))
            if has_quorum:
                self.store.first_quorum = data
            try:
                if not level_in(read_snapshot(data), METADATA_VERSION):
                    if has_quorum:
                        continue  # tools before 4.2 put all others into the older file
                    raise DamagedFile(f"it has no level of {METADATA_VERSION}")
            except DamagedFile as error:
                if has_begun:
                    return None
                raise DamagedFile(f"{name}: {error}") from None
            return data
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

    def started(self, image: MetadataImage) -> None:
        """The brokers lead their partitions now: report what the metadata does not know."""
        self.disk.reports = True
        for folder in self.store.missing(image.partition):
            self._log.warning("folder_is_missing", folder=folder)
        self.store.set_strays_aside(partial(_is_known, image))
        if self.store.strays:
            self._log.warning("stray_logs_set_aside", folders=self.store.strays)
        for folder in self.store.unnamed:
            self._log.warning("folder_without_topic_id", folder=folder)

    def finish(self, *, broker_epoch: int) -> None:
        """Stop cleanly."""
        try:
            self.store.close(broker_epoch=broker_epoch)
        except DiskError as error:
            self._log.error("stop_is_not_clean", path=os.fspath(self.path), reason=str(error))

    def resume(self) -> None:
        """Go on after `finish`, or after a crash of the broker that its process has outlived."""
        with suppress(DiskError):  # it is in the log
            self.store.resume()

    def release(self) -> None:
        """Give the directory back."""
        self.disk.close()
        self._lock.release()


def _is_known(image: MetadataImage, topic_id: bytes, index: int) -> bool:
    topic = image.topic_by_id(topic_id)
    return topic is not None and index in topic.partitions


def _unique() -> str:
    return uuid.uuid4().hex


def _date(now: int) -> str:
    """The time as `java.util.Date` writes it."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(now / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")


def _allow_descriptors() -> None:
    """Raise the limit of file descriptors: each mapped segment has one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return
