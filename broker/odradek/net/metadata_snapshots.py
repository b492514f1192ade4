"""Snapshots of the metadata log of one directory (KIP-630): when one is taken, and what goes with it.

As in Kafka: a snapshot is due after so many bytes, or so much time, since the last one (`SnapshotGenerator`); once a
minute the oldest snapshot goes, and the log up to the next one, if both together are too large or too old
(`KafkaMetadataLog`). The newest snapshot always stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from odradek.log.disk import DamagedFile
from odradek.log.files.names import DELETED, SnapshotId, checkpoint_file, read_checkpoint_file
from odradek.log.metadata_log import METADATA_FOLDER, METADATA_TOPIC, MetadataFileLog
from odradek.metadata.snapshot_file import read_last_timestamp, read_quorum, write_snapshot
from odradek.records.control import quorum_records

if TYPE_CHECKING:
    from odradek.broker import Logger
    from odradek.config.table import Config
    from odradek.log.file_store import FileStore
    from odradek.metadata.image import MetadataImage
    from odradek.records.control import ControlType
    from odradek.records.record import Record

__all__ = ["MetadataSnapshots"]

CLEAN_MS = 60_000
"""How often old snapshots are looked for."""
DELETE_DELAY_MS = 60_000
"""How long a snapshot stays after it was forgotten (Kafka's `internal.metadata.delete.delay.millis`)."""


class MetadataSnapshots:
    """The snapshots in the directory of one broker."""

    def __init__(self, store: FileStore, *, log: Logger, now: Callable[[], int]) -> None:
        self._store = store
        self._log = log
        self._now = now
        newest = store.metadata_snapshot
        self._end_offset = -1 if newest is None else newest[0]
        self._since = self._cleaned_at = now()

    def _metadata(self) -> MetadataFileLog | None:
        log = self._store.find(METADATA_TOPIC, 0)
        return log if isinstance(log, MetadataFileLog) else None

    def is_due(self, image: MetadataImage, config: Config) -> bool:
        """Whether there is enough metadata behind the last snapshot, or it is old enough and there is any."""
        log = self._metadata()
        if log is None or image.offset < max(0, self._end_offset):
            return False
        interval_ms = config.metadata_log_max_snapshot_interval_ms
        return (
            _bytes_from(log, self._end_offset) >= config.metadata_log_max_record_bytes_between_snapshots
            or 0 < interval_ms <= self._now() - self._since
        )

    def write(self, image: MetadataImage) -> None:
        """Write a snapshot of this image. A published image never ends within a metadata transaction (KIP-868)."""
        log = self._metadata()
        assert log is not None, "the metadata log is there while the broker runs"
        snapshot = SnapshotId(image.offset + 1, log.epochs.epoch_of(image.offset))
        last = next(log.batches(image.offset), None)
        now = self._now()
        timestamp = -1 if last is None else last.max_timestamp
        quorum = self._quorum(log, snapshot.end_offset)
        data = write_snapshot(image, epoch=snapshot.epoch, last_timestamp=timestamp, now=now, quorum=quorum)
        self._store.disk.write(_path(snapshot), data, flush=True)
        self._end_offset, self._since = snapshot.end_offset, now
        self._log.info("metadata_snapshot_written", end_offset=snapshot.end_offset, bytes=len(data))

    def _quorum(self, log: MetadataFileLog, end_offset: int) -> Sequence[Record]:
        """The records of a quorum whose voters are in the log, before this offset."""
        names = self._store.disk.files(METADATA_FOLDER)
        before = sorted(each for each in map(read_checkpoint_file, names) if each is not None)
        found: dict[ControlType, Record] = {}
        start = log.start_offset
        for snapshot in before:
            if snapshot.end_offset < end_offset:
                found |= read_quorum(self._store.disk.read(_path(snapshot)) or b"")
                start = max(start, snapshot.end_offset)
        found |= quorum_records(takewhile(lambda batch: batch.base_offset < end_offset, log.batches(start)))
        return [found[kind] for kind in sorted(found)]

    def clean(self, config: Config) -> None:
        """Forget old snapshots, and the metadata before those that stay, if the last look was a minute ago."""
        log, now = self._metadata(), self._now()
        if log is None or now - self._cleaned_at < CLEAN_MS:
            return
        self._cleaned_at = now
        sizes = self._store.disk.files(METADATA_FOLDER)
        found = sorted(each for each in map(read_checkpoint_file, sizes) if each is not None)
        total = sum(sizes[checkpoint_file(each)] for each in found)
        for snapshot, following in pairwise(found):
            too_much = log.size_bytes + total > config.metadata_max_retention_bytes
            if not too_much and now - self._timestamp(snapshot) <= config.metadata_max_retention_ms:
                return
            total -= sizes[checkpoint_file(snapshot)]
            if following.end_offset > log.end_offset:
                return
            log.advance_start(following.end_offset)
            self._store.disk.rename(_path(snapshot), _path(snapshot) + DELETED)
            self._store.remove_later(_path(snapshot) + DELETED, DELETE_DELAY_MS)
            self._log.info("metadata_snapshot_forgotten", end_offset=snapshot.end_offset)

    def _timestamp(self, snapshot: SnapshotId) -> int:
        try:
            return read_last_timestamp(self._store.disk.read(_path(snapshot)) or b"")
        except DamagedFile as error:
            self._store.disk.warn(_path(snapshot), str(error))
            return self._now()


def _path(snapshot: SnapshotId) -> str:
    return f"{METADATA_FOLDER}/{checkpoint_file(snapshot)}"


def _bytes_from(log: MetadataFileLog, offset: int) -> int:
    """Bytes of the batches from this offset on."""
    total = 0
    for segment in log.segments:
        if segment.base_offset >= offset:
            total += segment.size
        elif segment.next_offset > offset:
            index = segment.index_of(offset)
            total += segment.size - (segment.positions[index] if index < len(segment.positions) else segment.size)
    return total
