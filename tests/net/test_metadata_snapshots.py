"""Snapshots of the metadata log (KIP-630): when they are taken, and what goes with them."""

from __future__ import annotations

from itertools import count

import pytest
from tests.unit.log.helpers import NOW

from odradek.cli.logs import make_logger
from odradek.config.table import Config, TopicConfig
from odradek.core.machine import LogRecord
from odradek.log.disk import DamagedFile
from odradek.log.file_store import FileStore
from odradek.log.files.names import SnapshotId, read_checkpoint_file
from odradek.log.metadata_log import METADATA_FOLDER, METADATA_TOPIC
from odradek.log.partition import Partition
from odradek.metadata.loader import MetadataLoader
from odradek.metadata.snapshot_file import read_last_timestamp, read_snapshot
from odradek.net.metadata_snapshots import CLEAN_MS, DELETE_DELAY_MS, MetadataSnapshots
from odradek.records.batch import plain_batch
from odradek.records.state import encode_metadata
from odradek.sim.world.disk import SimDisk
from odradek.wire.messages.begin_transaction_record import BeginTransactionRecord
from odradek.wire.messages.end_transaction_record import EndTransactionRecord
from odradek.wire.messages.topic_record import TopicRecord

BATCH_BYTES = 400
"""More than a topic's record, less than two."""
HOUR_MS = 3_600_000


class Directory:
    """A directory with a metadata log, at a time that the test sets."""

    def __init__(self, **settings: int) -> None:
        self.now = NOW
        self.disk = SimDisk()
        self.config = Config.parse({key.replace("_", "."): str(value) for key, value in settings.items()})
        numbers = count()
        self.store = FileStore(
            self.disk,
            node_id=1,
            now=lambda: self.now,
            unique=lambda: f"{next(numbers):032x}",
            segment_bytes=2 * BATCH_BYTES,
        )
        self.store.begin()
        config = TopicConfig(cleanup_policy=())
        log = self.store.open(METADATA_TOPIC, 0, config)
        self.partition = Partition("__cluster_metadata", METADATA_TOPIC, 0, log, 1, config, NOW, leader=1)
        self.loader = MetadataLoader()
        self.snapshots = MetadataSnapshots(self.store, log=make_logger(level="error"), now=lambda: self.now)
        self._topics = count(1)

    def write(self, *records: BeginTransactionRecord | EndTransactionRecord | TopicRecord) -> None:
        encoded = [LogRecord(None, encode_metadata(each, 0)) for each in records or (self.topic(),)]
        log = self.partition.log
        batch = plain_batch(encoded, timestamp=self.now)
        log.append(batch, leader_epoch=1, now=self.now)
        for one in log.batches(self.loader.last_offset + 1):
            self.loader.apply(one)

    def topic(self) -> TopicRecord:
        number = next(self._topics)
        return TopicRecord(name=f"topic-{number}".ljust(200, "x"), topic_id=number.to_bytes(16, "big"))

    @property
    def is_due(self) -> bool:
        return self.snapshots.is_due(self.loader.image, self.config)

    def snapshot(self) -> None:
        self.snapshots.write(self.loader.image)

    def clean(self) -> None:
        self.now += CLEAN_MS
        self.snapshots.clean(self.config)

    @property
    def found(self) -> list[int]:
        """Where its snapshots end."""
        files = self.disk.files(METADATA_FOLDER)
        return sorted(each.end_offset for each in map(read_checkpoint_file, files) if each is not None)


def test_so_many_bytes_cause_a_snapshot() -> None:
    directory = Directory(metadata_log_max_record_bytes_between_snapshots=2 * BATCH_BYTES)
    directory.write()
    directory.write()
    assert not directory.is_due
    directory.write()
    assert directory.is_due
    directory.snapshot()
    assert not directory.is_due
    directory.write()
    directory.write()
    assert not directory.is_due
    directory.write()
    assert directory.is_due


def test_so_much_time_causes_a_snapshot_if_there_is_anything_new() -> None:
    directory = Directory(metadata_log_max_snapshot_interval_ms=HOUR_MS)
    directory.write()
    directory.now += HOUR_MS - 1
    assert not directory.is_due
    directory.now += 1
    assert directory.is_due
    directory.snapshot()
    directory.now += 2 * HOUR_MS
    assert not directory.is_due
    directory.write()
    assert directory.is_due


def test_no_interval_is_for_ever() -> None:
    directory = Directory(metadata_log_max_snapshot_interval_ms=0)
    directory.write()
    directory.now += 1000 * HOUR_MS
    assert not directory.is_due


def test_a_snapshot_ends_before_an_open_transaction() -> None:
    """KIP-868: records of a transaction that may yet be aborted are in no snapshot."""
    directory = Directory(metadata_log_max_record_bytes_between_snapshots=1)
    directory.write()
    directory.write(BeginTransactionRecord(name="open"))
    directory.write()
    directory.snapshot()
    [end] = directory.found
    assert 2 == end
    names = [record.name for record in read_snapshot(data_of(directory, end)) if isinstance(record, TopicRecord)]
    assert [f"topic-{1}".ljust(200, "x")] == names
    assert not directory.is_due
    directory.write(EndTransactionRecord())
    assert directory.is_due


def data_of(directory: Directory, end_offset: int) -> bytes:
    return directory.disk.content(f"{METADATA_FOLDER}/{end_offset:020d}-{1:010d}.checkpoint")


def with_snapshots(**settings: int) -> Directory:
    """Three snapshots, an hour apart, with two batches before each."""
    directory = Directory(**settings)
    for _ in range(3):
        directory.write()
        directory.write()
        directory.snapshot()
        directory.now += HOUR_MS
    assert [3, 5, 7] == directory.found
    return directory


def test_the_oldest_go_where_log_and_snapshots_are_too_large() -> None:
    directory = with_snapshots()
    log = directory.partition.log
    sizes = sum(len(data_of(directory, end)) for end in directory.found)
    directory.config = Config.parse({"metadata.max.retention.bytes": str(log.size_bytes + sizes - 1)})
    directory.clean()
    assert [5, 7] == directory.found
    assert 5 == log.start_offset
    assert all(segment.next_offset > 5 for segment in log.segments)
    directory.clean()
    assert [5, 7] == directory.found


def test_no_more_go_than_have_to() -> None:
    directory = with_snapshots()
    log = directory.partition.log
    kept = sum(segment.size for segment in log.segments if segment.next_offset > 5)
    sizes = sum(len(data_of(directory, end)) for end in (5, 7))
    directory.config = Config.parse({"metadata.max.retention.bytes": str(kept + sizes)})
    directory.clean()
    assert [5, 7] == directory.found


def test_the_newest_stays_however_large_it_is() -> None:
    directory = with_snapshots(metadata_max_retention_bytes=1)
    directory.clean()
    assert [7] == directory.found
    assert 7 == directory.partition.log.start_offset
    directory.clean()
    assert [7] == directory.found


def test_old_ones_go() -> None:
    """By the time of the last record in them, which is in the header."""
    directory = with_snapshots(metadata_max_retention_ms=2 * HOUR_MS + 2 * CLEAN_MS)
    assert NOW + HOUR_MS == read_last_timestamp(data_of(directory, 5))
    directory.clean()
    assert [5, 7] == directory.found
    assert 5 == directory.partition.log.start_offset


def test_it_is_looked_at_once_a_minute() -> None:
    directory = with_snapshots(metadata_max_retention_bytes=1)
    directory.now = NOW + CLEAN_MS - 1
    directory.snapshots.clean(directory.config)
    assert [3, 5, 7] == directory.found
    directory.now += 1
    directory.snapshots.clean(directory.config)
    assert [7] == directory.found


def test_what_was_forgotten_is_on_the_disk_for_a_minute_more() -> None:
    directory = with_snapshots(metadata_max_retention_bytes=1)
    directory.clean()
    leaving = [name for name in directory.disk.files(METADATA_FOLDER) if name.endswith(".deleted")]
    assert 2 == sum(".checkpoint" in name for name in leaving)
    directory.now += DELETE_DELAY_MS - 1
    directory.store.checkpoint()
    directory.disk.work()
    assert leaving == [name for name in directory.disk.files(METADATA_FOLDER) if name.endswith(".deleted")]
    directory.now += 1
    directory.store.checkpoint()
    directory.disk.work()
    assert [] == [name for name in directory.disk.files(METADATA_FOLDER) if name.endswith(".deleted")]


def test_the_log_behind_a_snapshot_is_gone_on_with() -> None:
    directory = with_snapshots(metadata_max_retention_bytes=1)
    directory.clean()
    directory.write()
    after = FileStore(directory.disk.killed(), node_id=1, now=lambda: NOW, unique=lambda: "0" * 32)
    log = after.find(METADATA_TOPIC, 0)
    assert log is not None
    assert (7, 8) == (log.start_offset, log.end_offset)
    assert SnapshotId(7, 1) in [read_checkpoint_file(name) for name in after.disk.files(METADATA_FOLDER)]


@pytest.mark.parametrize("data", [b"", b"x" * 100, bytes(100)])
def test_what_has_no_header_has_no_time(data: bytes) -> None:
    with pytest.raises(DamagedFile):
        read_last_timestamp(data)
