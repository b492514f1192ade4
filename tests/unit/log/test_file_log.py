"""Logs in files against the same logs in memory, through clean stops and kills at any moment."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.examples import examples
from tests.unit.log.helpers import NOW, TOPIC_ID, batch, new_store, offsets_and_keys, values

from odradek.cli.logs import make_logger
from odradek.config.table import TopicConfig
from odradek.core.machine import Refused
from odradek.log.compaction import Compaction, cleanable_until
from odradek.log.disk import DamagedFile, DiskError
from odradek.log.file_log import FileLog
from odradek.log.file_segment import ActiveFile, index_of
from odradek.log.file_store import FileStore
from odradek.log.files.checkpoints import read_epochs, read_offsets
from odradek.log.files.indexes import read_aborted, read_offset_index, read_time_index
from odradek.log.files.marks import read_quorum_state
from odradek.log.files.walk import SparseEntries, index_of_segment
from odradek.log.log_store import LogStore
from odradek.log.metadata_log import METADATA_TOPIC
from odradek.log.partition import Appended, Partition
from odradek.metadata.topic_names import LENGTH_MAX
from odradek.net.disk import MAPPED_BYTES, LocalDisk
from odradek.records.batch import batches
from odradek.records.control import leader_change
from odradek.sim.world.dice import Dice
from odradek.sim.world.disk import SimDisk
from odradek.wire.errors import ErrorCode

TOPIC = "topic"
CONFIG = TopicConfig(segment_bytes=600, index_interval_bytes=100, cleanup_policy=("compact", "delete"))


def open_store(disk: SimDisk, *, syncs: bool = False) -> FileStore:
    numbers = count()
    store = FileStore(disk, node_id=1, now=lambda: NOW, unique=lambda: f"{next(numbers):032x}", syncs=syncs)
    store.begin()
    return store


def lead(store: LogStore, epoch: int, config: TopicConfig = CONFIG) -> Partition:
    log = store.open(TOPIC_ID, 0, config)
    return Partition(TOPIC, TOPIC_ID, 0, log, epoch, config, NOW)


def new_log(disk: SimDisk | None = None, config: TopicConfig = CONFIG) -> tuple[SimDisk, FileStore, Partition]:
    disk = disk or SimDisk()
    store = open_store(disk)
    return disk, store, lead(store, 0, config)


def log_bytes(partition: Partition) -> list[bytes]:
    return [bytes(one.view) for one in partition.log.batches()]


def known(partition: Partition) -> list[tuple[object, ...]]:
    """The producers, as far as a snapshot of Kafka's tells them."""
    return sorted(
        (
            one.producer_id,
            one.epoch,
            one.coordinator_epoch,
            one.last_timestamp,
            one.last_sequence,
            one.first_offset,
            one.batches[-1:],
        )
        for one in partition.producers.producers.values()
    )


def check_what_is_known(files: Partition, twin: Partition) -> None:
    """Both tell the same about their batches."""
    assert (twin.log.start_offset, twin.log.end_offset) == (files.log.start_offset, files.log.end_offset)
    assert twin.last_stable_offset == files.last_stable_offset
    assert known(twin) == known(files)
    assert twin.log.aborted.entries == files.log.aborted.entries
    assert twin.log.epochs.entries() == files.log.epochs.entries()


def append(partition: Partition, *records: bytes, producer_id: int = -1, sequence: int = -1) -> None:
    one = batch(*records, producer_id=producer_id, epoch=-1 if producer_id < 0 else 0, sequence=sequence)
    assert isinstance(partition.append_client(one, now=NOW), Appended)


def test_a_clean_stop_leaves_a_log_alone_that_is_as_the_one_before_has_left_it() -> None:
    disk, store, partition = new_log()
    for number in range(8):
        append(partition, b"%d" % number * 50, producer_id=1, sequence=number)
    store.close(broker_epoch=1)
    files = {name: disk.content(name) for name in disk.names()}
    for appends in (False, True):
        store = open_store(disk)
        again = lead(store, 0)
        if appends:
            append(again, b"8" * 50, producer_id=1, sequence=8)
        disk.synced.clear()
        store.close(broker_epoch=1)
        assert appends == any(name.startswith(f"{TOPIC}-0") for name in disk.synced)
        assert appends == (files != {name: disk.content(name) for name in disk.names()})
    store = open_store(disk)
    assert 9 == lead(store, 0).log.end_offset


class InFiles(RuleBasedStateMachine):
    """The same is done to a log in files and to one in memory; a restart takes nothing away that counts."""

    syncs = False

    @initialize()
    def begin(self) -> None:
        self.disk = SimDisk()
        self.store = open_store(self.disk, syncs=self.syncs)
        self.memory = new_store()
        self.epoch = 0
        self.sequences: dict[int, int] = {}
        self.open: set[int] = set()
        self.lead()

    def lead(self) -> None:
        self.files, self.twin = lead(self.store, self.epoch), lead(self.memory, self.epoch)

    @property
    def both(self) -> tuple[Partition, Partition]:
        return self.files, self.twin

    @rule(key=st.integers(0, 3), size=st.integers(0, 150))
    def append_plain(self, key: int, size: int) -> None:
        for partition in self.both:
            partition.append_client(batch((b"k%d" % key, b"v" * size)), now=NOW)

    @rule(producer_id=st.integers(0, 2), transactional=st.booleans(), records=st.integers(1, 3))
    def append_of_producer(self, producer_id: int, transactional: bool, records: int) -> None:
        if producer_id in self.open:
            transactional = True
        sequence = self.sequences.get(producer_id, 0)
        for partition in self.both:
            one = batch(
                *[(b"k%d" % producer_id, b"v")] * records,
                producer_id=producer_id,
                epoch=0,
                sequence=sequence,
                transactional=transactional,
            )
            assert isinstance(partition.append_client(one, now=NOW, verification_enabled=False), Appended)
        self.sequences[producer_id] = sequence + records
        if transactional:
            self.open.add(producer_id)

    @rule(producer_id=st.integers(0, 2), commit=st.booleans())
    def end(self, producer_id: int, commit: bool) -> None:
        for partition in self.both:
            ended = partition.append_marker(
                producer_id=producer_id,
                producer_epoch=0,
                commit=commit,
                coordinator_epoch=0,
                transaction_version=0,
                now=NOW,
            )
            assert isinstance(ended, Appended)
        self.open.discard(producer_id)

    @rule()
    def seal(self) -> None:
        for partition in self.both:
            partition.log.seal()

    @rule()
    def flush(self) -> None:
        self.disk.work()

    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        offset = int(self.files.log.end_offset * part)
        for partition in self.both:
            partition.log.advance_start(offset)
        self.store.checkpoint()

    @rule(steps=st.integers(1, 400))
    def compact(self, steps: int) -> None:
        for partition in self.both:
            until = cleanable_until(partition.log, NOW, last_stable_offset=partition.last_stable_offset)
            Compaction(partition.log, NOW, until=until).step(steps)

    @rule()
    def stop_cleanly(self) -> None:
        self.store.close(broker_epoch=5)
        self.restart()
        assert self.store.was_clean
        assert 5 == self.store.broker_epoch

    @rule()
    def kill(self) -> None:
        self.restart()
        assert not self.store.was_clean

    def restart(self) -> None:
        self.disk = self.disk.killed()
        self.go_on()

    def go_on(self) -> None:
        self.store = open_store(self.disk, syncs=self.syncs)
        self.epoch += 1
        self.lead()
        # A log in files goes on in its last segment, and one in memory does not know of restarts.
        self.seal()

    @invariant()
    def says_the_same(self) -> None:
        if not hasattr(self, "files"):
            return
        files, twin = self.files, self.twin
        assert log_bytes(twin) == log_bytes(files)
        check_what_is_known(files, twin)
        assert not self.disk.warnings
        assert not self.store.cut


class OnTheDevice(InFiles):
    """The same where everything is on the device before it is acknowledged, and the machine may die at any moment."""

    syncs = True

    @rule(seed=st.integers(0, 2**32))
    def die(self, seed: int) -> None:
        self.disk = self.disk.crashed(Dice(seed))
        self.go_on()
        self.disk.warnings.clear()


TestOnTheDevice = OnTheDevice.TestCase
TestOnTheDevice.settings = examples(60, steps=25)
TestInFiles = InFiles.TestCase
TestInFiles.settings = examples(60, steps=25)


def test_a_folder_is_as_kafka_lays_it_out() -> None:
    disk, store, partition = new_log()
    for number in range(12):
        append(partition, b"v" * 100, producer_id=7, sequence=number)
    store.close(broker_epoch=3)
    bases = [segment.base_offset for segment in partition.log.segments]
    assert 3 <= len(bases)
    wanted = {f"{base:020d}{suffix}" for base in bases for suffix in (".log", ".index", ".timeindex")}
    wanted |= {f"{offset:020d}.snapshot" for offset in (*bases[1:], 12)}
    assert wanted | {"leader-epoch-checkpoint", "partition.metadata"} == disk.files("topic-0").keys()
    assert [(0, 0)] == read_epochs(disk.content("topic-0/leader-epoch-checkpoint"))
    offsets = {(TOPIC, 0): 12}
    assert offsets == read_offsets(disk.content("recovery-point-offset-checkpoint"))
    assert offsets == read_offsets(disk.content("replication-offset-checkpoint"))
    assert b'{"version":0,"brokerEpoch":3}' == disk.content(".kafka_cleanshutdown")


def test_a_clean_stop_cuts_off_the_room_that_was_reserved() -> None:
    disk, store, partition = new_log()
    append(partition, b"v")
    [segment] = partition.log.segments
    assert 600 == disk.files("topic-0")["00000000000000000000.log"]
    store.close(broker_epoch=0)
    assert segment.size == disk.files("topic-0")["00000000000000000000.log"]


def test_the_mark_of_the_clean_stop_is_gone_while_it_runs() -> None:
    disk, store, _ = new_log()
    store.close(broker_epoch=0)
    assert ".kafka_cleanshutdown" in disk.files("")
    open_store(disk)
    assert ".kafka_cleanshutdown" not in disk.files("")


@pytest.mark.parametrize("kept", [0, 30, 61, 65])
def test_a_batch_that_was_not_written_wholly_is_cut_off(kept: int) -> None:
    disk, _, partition = new_log()
    for value in (b"a", b"b"):
        append(partition, value)
    name = "topic-0/00000000000000000000.log"
    [segment] = partition.log.segments
    after = disk.killed()
    content = after.content(name)
    after.put(name, content[: segment.positions[1] + kept] + bytes(100))
    store = open_store(after)
    assert [b"a"] == [value for one in store.find(TOPIC_ID, 0).batches() for value in values(one.view)]  # type: ignore[union-attr]
    told = [(folder, end) for folder, end, _, _ in store.cut]
    assert ([("topic-0", 1)] if kept else []) == told


def test_what_follows_a_damaged_batch_is_not_read_as_if_nothing_were() -> None:
    disk, store, partition = new_log()
    for number in range(15):
        append(partition, b"v%d" % number * 40)
    assert 3 <= len(partition.log.segments)
    after = disk.killed()
    name = "topic-0/00000000000000000000.log"
    content = bytearray(after.content(name))
    content[80] ^= 1
    after.put(name, bytes(content))
    store = open_store(after)
    log = store.find(TOPIC_ID, 0)
    assert log is not None
    assert 0 == log.end_offset
    assert [("topic-0", 0)] == [(folder, end) for folder, end, _, _ in store.cut]
    assert len(after.warnings) == len(partition.log.segments) - 1


def high_watermark(disk: SimDisk) -> int | None:
    data = disk.read("replication-offset-checkpoint")
    return None if data is None else read_offsets(data)[TOPIC, 0]


def test_checkpoints_that_are_put_off_have_the_newest_offsets() -> None:
    disk, store, partition = new_log()
    append(partition, b"a")
    store.checkpoint_later()
    assert high_watermark(disk) is None
    append(partition, b"b")
    store.checkpoint_later()
    disk.work()
    assert 2 == high_watermark(disk)


def test_work_that_was_put_off_takes_nothing_back_that_was_written_meanwhile() -> None:
    disk, store, partition = new_log()
    append(partition, b"a")
    store.checkpoint_later()
    append(partition, b"b")
    store.close(broker_epoch=0)
    disk.put("replication-offset-checkpoint", b"")
    disk.work()
    assert b"" == disk.read("replication-offset-checkpoint")


def test_nothing_is_put_off_where_no_checkpoint_has_changed() -> None:
    disk, store, partition = new_log()
    append(partition, b"a")
    store.checkpoint_later()
    disk.work()
    store.checkpoint_later()
    assert not disk.works
    append(partition, b"b")
    store.checkpoint_later()
    assert 1 == len(disk.works)


def test_a_checkpoint_that_failed_is_written_the_next_time() -> None:
    disk, store, partition = new_log()
    append(partition, b"a")
    partition.log.advance_start(1)
    disk.work()
    disk.is_broken = True
    store.checkpoint_later()
    with pytest.raises(DiskError):
        disk.work()
    disk.is_broken = False
    store.checkpoint_later()
    disk.work()
    assert 1 == high_watermark(disk)
    assert {(TOPIC, 0): 1} == read_offsets(disk.content("log-start-offset-checkpoint"))


def test_segments_that_are_on_the_device_are_not_read_at_the_start() -> None:
    disk, store, partition = new_log()
    for _ in range(20):
        append(partition, b"v" * 100)
    disk.work()
    store.checkpoint()
    after = disk.killed()
    again = open_store(after)
    last = partition.log.segments[-1]
    assert len(partition.log.segments) > 3
    assert {f"topic-0/{last.base_offset:020d}.log"} == set(after.read_names)
    reads = len(after.read_names)
    assert {NOW} == {segment.max_timestamp for segment in again.find(TOPIC_ID, 0).segments}  # type: ignore[union-attr]
    assert reads == len(after.read_names)
    assert 20 == len(log_bytes(lead(again, 1)))
    assert len(partition.log.segments) - 1 == len(after.read_names) - reads


def test_aborted_transactions_stand_beside_their_segment() -> None:
    disk, store, partition = new_log()
    append(partition, b"v")
    one = batch(b"v", producer_id=7, epoch=0, sequence=0, transactional=True)
    partition.append_client(one, now=NOW, verification_enabled=False)
    partition.append_marker(
        producer_id=7, producer_epoch=0, commit=False, coordinator_epoch=0, transaction_version=0, now=NOW
    )
    store.close(broker_epoch=0)
    assert partition.log.aborted.entries == read_aborted(disk.content("topic-0/00000000000000000000.txnindex"))
    assert [(7, 1, 2)] == [(e.producer_id, e.first_offset, e.last_offset) for e in partition.log.aborted.entries]


def test_a_compaction_that_was_interrupted_is_ended_or_undone() -> None:
    disk, _, partition = new_log()
    for number in range(8):
        append(partition, b"v%d" % number * 40)
    partition.log.seal()
    wanted = log_bytes(partition)
    first = partition.log.segments[0]
    name = f"topic-0/{first.base_offset:020d}.log"
    begun = disk.killed()
    begun.put(f"{name}.cleaned", b"half")
    assert wanted == log_bytes(lead(open_store(begun), 0))
    assert f"{name}.cleaned" not in begun.names()
    # The new file is whole; of the two that it replaces one is gone already.
    swapped = disk.killed()
    second = partition.log.segments[1]
    both = bytes(first.buffer[: first.size]) + bytes(second.buffer[: second.size])
    swapped.put(f"{name}.swap", both)
    swapped.remove(name)
    assert wanted == log_bytes(lead(open_store(swapped), 0))
    assert f"topic-0/{second.base_offset:020d}.log" not in swapped.names()


def test_outputs_of_compaction_count_where_those_before_are_whole() -> None:
    """Of several the last one is named first (KAFKA-6264): before the first one has its name, none is in its place."""
    disk, _, partition = new_log()
    for number in range(8):
        append(partition, b"v%d" % number * 40)
    partition.log.seal()
    wanted = log_bytes(partition)
    first, second = partition.log.segments[:2]
    for unfinished in (".log", ".index", ".txnindex"):
        died = disk.killed()
        died.put(f"topic-0/{first.base_offset:020d}{unfinished}.cleaned", b"half")
        for segment in (first, second):
            died.put(f"topic-0/{segment.base_offset:020d}.log.swap", bytes(segment.buffer[: segment.positions[-1]]))
        assert wanted == log_bytes(lead(open_store(died), 0))
        assert not [name for name in died.names() if name.endswith((".cleaned", ".swap"))]


def test_the_indexes_of_an_output_come_with_it() -> None:
    """A process may end between the names of an output's files, too."""
    disk, _, partition = new_log()
    for number in range(8):
        append(partition, b"v%d" % number * 40)
    partition.log.seal()
    store = open_store(disk.killed())
    lead(store, 0)
    store.close(broker_epoch=0)
    name = f"topic-0/{partition.log.segments[0].base_offset:020d}"
    assert isinstance(store.disk, SimDisk)
    for in_place in ((), (".log",), (".log", ".index")):
        died = store.disk.killed()
        wanted = {suffix: died.content(name + suffix) for suffix in (".log", ".index", ".timeindex")}
        for suffix in wanted:
            if suffix not in in_place:
                died.rename(name + suffix, f"{name}{suffix}.swap")
        again = lead(open_store(died), 1)
        assert log_bytes(partition) == log_bytes(again)
        assert wanted == {suffix: died.content(name + suffix) for suffix in wanted}
        assert [] == died.warnings


def test_a_log_that_ends_before_its_compacted_part_is_compacted_anew() -> None:
    """As Kafka does; else it would never be again."""
    disk, store, partition = new_log()
    append(partition, b"v")
    store.close(broker_epoch=0)
    disk.put("cleaner-offset-checkpoint", b"0\n1\ntopic 0 99\n")
    again = lead(open_store(disk), 1)
    assert 0 == again.log.first_dirty_offset
    assert [
        (
            "cleaner-offset-checkpoint",
            "topic-0 is compacted up to offset 99 there, and ends at 1; it is compacted anew",
        )
    ] == disk.warnings


def test_a_leader_epoch_that_no_batch_has_is_noted_and_forgotten() -> None:
    disk, store, partition = new_log()
    append(partition, b"a", b"b", b"c")
    store.close(broker_epoch=0)
    disk.put("topic-0/leader-epoch-checkpoint", b"0\n2\n0 0\n9 1\n")
    log = open_store(disk).find(TOPIC_ID, 0)
    assert log is not None
    assert [(0, 0)] == log.epochs.entries()
    [(name, reason)] = disk.warnings
    assert (
        "topic-0/leader-epoch-checkpoint",
        "epoch 9 begins at offset 1 there, and the batch at 0 is of epoch 0",
    ) == (
        name,
        reason,
    )


def test_a_full_disk_refuses_and_loses_nothing() -> None:
    disk, _, partition = new_log()
    append(partition, b"a")
    disk.is_full = True
    # There is room up to where it was reserved; a new segment has none.
    refused = [partition.append_client(batch(b"v" * 500), now=NOW) for _ in range(2)]
    assert [ErrorCode.KAFKA_STORAGE_ERROR] * 2 == [one.error for one in refused if isinstance(one, Refused)]
    disk.is_full = False
    append(partition, b"b")
    assert [b"a", b"b"] == [value for one in partition.log.batches() for value in values(one.view)]


@pytest.mark.parametrize("size", [1, 500], ids=["as large", "larger"])
def test_a_segment_whose_first_batch_was_refused_is_there_once(size: int) -> None:
    disk, store, partition = new_log()
    disk.is_full = True
    assert isinstance(partition.append_client(batch(b"-"), now=NOW), Refused)
    disk.is_full = False
    append(partition, b"a" * size)
    append(partition, b"b")
    bases = [each.base_offset for each in partition.log.segments]
    assert sorted({*bases}) == bases
    # What goes before the new beginning is not the file of the records that stay.
    partition.delete_records(1)
    store.close(broker_epoch=0)
    assert [b"b"] == [value for one in lead(open_store(disk), 1).log.batches(1) for value in values(one.view)]


LOG_NAME = "topic-0/00000000000000000000.log"


def test_flush_messages_says_how_much_is_acknowledged_that_the_device_does_not_have() -> None:
    disk, store, partition = new_log(config=TopicConfig(flush_messages=3))
    points = []
    for _ in range(7):
        append(partition, b"v")
        points.append(partition.log.recovery_point)  # type: ignore[attr-defined]
    assert [0, 0, 3, 3, 3, 6, 6] == points
    assert 2 == disk.synced.count(LOG_NAME)
    store.checkpoint()
    assert {(TOPIC, 0): 6} == read_offsets(disk.content("recovery-point-offset-checkpoint"))


def test_flush_ms_says_how_long_the_device_may_lack_a_record() -> None:
    disk, _, partition = new_log(config=TopicConfig(flush_ms=100))
    append(partition, b"v")
    for now in (NOW + 99, NOW + 100):
        partition.log.flush_if_old(now)
        disk.work()
        assert (1 if now == NOW + 100 else 0) == disk.synced.count(LOG_NAME)
    partition.log.flush_if_old(NOW + 500)
    disk.work()
    assert 1 == disk.synced.count(LOG_NAME), "there was nothing new"


def test_with_sync_each_append_is_on_the_device_with_the_name_of_its_file() -> None:
    disk = SimDisk()
    partition = lead(open_store(disk, syncs=True), 0)
    disk.synced.clear()
    append(partition, b"v")
    assert {LOG_NAME, "topic-0"} <= set(disk.synced)
    disk.synced.clear()
    append(partition, b"v")
    assert [LOG_NAME] == disk.synced
    # The segment that ends has its indexes there, before the mark is behind it.
    append(partition, b"v" * 500)
    assert {f"topic-0/{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")} <= set(disk.synced)
    assert 3 == partition.log.recovery_point  # type: ignore[attr-defined]


def test_after_a_flush_that_failed_nothing_is_appended() -> None:
    """What the device has is not known any more, and the next flush may say that all is well."""
    disk = SimDisk()
    store = open_store(disk, syncs=True)
    partition = lead(store, 0)
    append(partition, b"a")
    disk.is_broken = True
    refused = partition.append_client(batch(b"b"), now=NOW)
    assert Refused(ErrorCode.KAFKA_STORAGE_ERROR, "Input/output error") == refused
    disk.is_broken = False
    assert refused == partition.append_client(batch(b"c"), now=NOW)
    assert [b"a"] == [value for one in partition.log.batches() for value in values(one.view)]
    with pytest.raises(DiskError):
        store.close(broker_epoch=0)
    again = lead(open_store(disk.killed()), 1)
    assert [b"a"] == [value for one in again.log.batches() for value in values(one.view)]


def test_after_a_flush_in_the_background_that_failed_nothing_is_appended() -> None:
    disk, store, partition = new_log()
    append(partition, b"a")
    partition.log.flush_later()  # type: ignore[attr-defined]
    disk.is_broken = True
    with pytest.raises(DiskError):
        disk.work()
    disk.is_broken = False
    refused = Refused(ErrorCode.KAFKA_STORAGE_ERROR, "Input/output error")
    assert refused == partition.append_client(batch(b"b"), now=NOW)
    with pytest.raises(DiskError):
        store.close(broker_epoch=0)


class Failing(SimDisk):
    """A disk that refuses some kinds of calls."""

    refuses: str = ""

    def _call(self, name: str) -> None:
        if name == self.refuses:
            raise DiskError("No space left on device")

    def make_folder(self, name: str) -> None:
        self._call("make_folder")
        super().make_folder(name)

    def write(self, name: str, data: bytes, *, flush: bool = False) -> None:
        self._call("write")
        super().write(name, data, flush=flush)

    def rename(self, old: str, new: str) -> None:
        self._call("rename")
        super().rename(old, new)


@pytest.mark.parametrize("refuses", ["make_folder", "write"])
def test_a_partition_whose_folder_cannot_be_made_is_led_and_takes_records_when_it_can(refuses: str) -> None:
    disk = Failing()
    store = open_store(disk)
    disk.refuses = refuses
    partition = lead(store, 0)
    assert "No space left on device" == store.failure
    refused = partition.append_client(batch(b"a"), now=NOW)
    assert Refused(ErrorCode.KAFKA_STORAGE_ERROR, "No space left on device") == refused
    disk.refuses = ""
    append(partition, b"b")
    store.close(broker_epoch=0)
    again = open_store(disk)
    assert not again.unnamed
    assert [b"b"] == [value for one in lead(again, 1).log.batches() for value in values(one.view)]


def test_a_segment_that_cannot_be_ended_is_ended_later() -> None:
    disk = Failing()
    _, store, partition = new_log(disk)
    append(partition, b"a")
    disk.refuses = "write"
    assert isinstance(partition.append_client(batch(b"b" * 500), now=NOW), Refused)
    assert isinstance(partition.append_client(batch(b"b"), now=NOW), Refused)
    disk.refuses = ""
    append(partition, b"c" * 500)
    store.close(broker_epoch=0)
    assert len(disk.content(LOG_NAME)) == partition.log.segments[0].size
    assert read_time_index(disk.content(f"topic-0/{0:020d}.timeindex"), 0)
    assert [b"a", b"c" * 500] == [
        value for one in lead(open_store(disk), 1).log.batches() for value in values(one.view)
    ]


def test_a_deleted_topic_whose_folder_cannot_be_renamed_is_set_aside_by_the_next_process() -> None:
    disk = Failing()
    _, store, partition = new_log(disk)
    append(partition, b"a")
    disk.refuses = "rename"
    store.drop(TOPIC_ID)
    disk.refuses = ""
    assert "No space left on device" == store.failure
    again = open_store(disk)
    again.set_strays_aside(lambda topic_id, index: False)
    assert ["topic-0"] == again.strays


def test_a_log_gets_its_folder_although_a_stray_has_the_name() -> None:
    disk, store, partition = new_log()
    append(partition, b"of another topic")
    store.close(broker_epoch=0)
    again = open_store(disk)
    log = again.open(b"n" * 16, 0, CONFIG)
    new = Partition(TOPIC, b"n" * 16, 0, log, 0, CONFIG, NOW)
    append(new, b"new")
    again.set_strays_aside(lambda topic_id, index: topic_id == b"n" * 16)
    assert ["topic-0"] == again.strays
    assert ["topic-0", f"topic-0.{0:032x}-stray"] == disk.folders()
    again.close(broker_epoch=0)
    last = open_store(disk).open(b"n" * 16, 0, CONFIG)
    assert [b"new"] == [value for one in last.batches() for value in values(one.view)]


def test_two_folders_with_one_topic_id_are_refused() -> None:
    disk, store, _ = new_log()
    store.close(broker_epoch=0)
    for name in list(disk.names()):
        if name.startswith("topic-0/"):
            disk.put(name.replace("topic-0", "copy-0"), disk.content(name))
    disk.make_folder("copy-0")
    with pytest.raises(DamagedFile, match="copy-0 and topic-0 are the same partition"):
        open_store(disk)


def test_offsets_between_segments_that_are_gone_are_reported_where_nothing_is_compacted() -> None:
    for config, told in ((TopicConfig(segment_bytes=600), ["offsets 1 to 1 are in no segment"]), (CONFIG, [])):
        disk, store, partition = new_log(config=config)
        for value in (b"a", b"b", b"c"):
            append(partition, value * 500)
        store.close(broker_epoch=0)
        for suffix in (".log", ".index", ".timeindex"):
            disk.remove(f"topic-0/{1:020d}{suffix}")
        again = lead(open_store(disk), 1, config)
        assert [b"a" * 500, b"c" * 500] == [value for one in again.log.batches() for value in values(one.view)]
        assert told == [reason for name, reason in disk.warnings if name == "topic-0"]


@pytest.mark.parametrize("seed", range(60))
def test_what_was_flushed_outlives_the_machine_and_nothing_else_comes_to_be(seed: int) -> None:
    """What is left is a beginning of what was written."""
    dice = Dice(seed)
    disk = SimDisk()
    written: list[bytes] = []
    flushed = 0
    for epoch in range(6):
        store = open_store(disk)
        partition = lead(store, epoch)
        found = log_bytes(partition)
        assert found == written[: len(found)]
        assert flushed <= partition.log.end_offset
        for number in range(dice.below(12)):
            append(partition, b"%d" % number * dice.below(200))
            if not dice.below(3):
                disk.work()
        if not dice.below(3):
            store.close(broker_epoch=0)
        written, flushed = log_bytes(partition), partition.log.recovery_point  # type: ignore[attr-defined]
        disk = disk.crashed(dice)


def test_a_deleted_topic_leaves_no_folder() -> None:
    disk, store, partition = new_log()
    append(partition, b"v")
    store.drop(TOPIC_ID)
    assert ["topic-0.00000000000000000000000000000000-delete"] == disk.folders()
    gone = open_store(disk.killed())
    assert [] == gone.logs()


def test_what_was_deleted_is_on_the_disk_for_a_while() -> None:
    """`file.delete.delay.ms`: the names are changed at once, and go in their time, by the clock of the brokers."""
    disk, now = SimDisk(), [NOW]
    store = FileStore(disk, node_id=1, now=lambda: now[0], unique=lambda: "0" * 32)
    partition = lead(store, 0, TopicConfig(segment_bytes=200, file_delete_delay_ms=1_000))
    append(partition, b"a" * 150, b"b" * 150)
    append(partition, b"c" * 150)
    partition.log.advance_start(2)
    leaving = [name for name in disk.files("topic-0") if name.endswith(".deleted")]
    assert f"{0:020d}.log.deleted" in leaving
    now[0] += 999
    store.checkpoint()
    disk.work()
    assert leaving == [name for name in disk.files("topic-0") if name.endswith(".deleted")]
    now[0] += 1
    store.checkpoint()
    disk.work()
    assert [] == [name for name in disk.files("topic-0") if name.endswith(".deleted")]
    store.drop(TOPIC_ID)
    now[0] += 1_000
    store.checkpoint()
    disk.work()
    assert [] == disk.folders()


def test_a_topic_that_the_metadata_does_not_know_is_set_aside() -> None:
    disk, store, _ = new_log()
    store.close(broker_epoch=0)
    again = open_store(disk)
    again.set_strays_aside(lambda topic_id, index: False)
    assert ["topic-0"] == again.strays
    assert ["topic-0.00000000000000000000000000000000-stray"] == disk.folders()
    assert [] == again.logs()


def test_a_topic_with_the_longest_name_can_be_deleted_and_set_aside(tmp_path: Path) -> None:
    """The name of its folder grows by 40 characters then, and a file system allows 255."""
    longest = "t" * LENGTH_MAX

    def opened() -> FileStore:
        disk = LocalDisk(tmp_path, make_logger(level="error"))
        store = FileStore(disk, node_id=1, now=lambda: NOW, unique=lambda: "0" * 32)
        store.begin()
        return store

    def aside(state: str) -> str:
        return f"{longest[: 255 - 37 - len(state)]}-12.{'0' * 32}-{state}"

    def write(store: FileStore) -> None:
        append(Partition(longest, TOPIC_ID, 12, store.open(TOPIC_ID, 12, CONFIG), 0, CONFIG, NOW), b"v")

    store = opened()
    write(store)
    store.drop(TOPIC_ID)
    assert [aside("delete")] == store.disk.folders()
    write(opened())
    store = opened()
    store.set_strays_aside(lambda topic_id, index: False)
    assert [f"{longest}-12"] == store.strays
    assert [aside("stray")] == store.disk.folders()


@pytest.mark.parametrize("content", [b"", bytes(43), b"version: 0\ntopic", b"version: 0\ntopic_id: AAAA" + bytes(18)])
def test_a_folder_without_an_id_is_that_of_the_topic_of_its_name(content: bytes) -> None:
    disk, _, partition = new_log()
    append(partition, b"v")
    after = disk.killed()
    after.put("topic-0/partition.metadata", content)
    store = open_store(after)
    assert ["topic-0"] == list(store.unnamed)
    assert log_bytes(partition) == log_bytes(lead(store, 1))
    assert not store.unnamed


def test_an_id_that_cannot_be_read_is_no_reason_to_guess() -> None:
    disk, _, _ = new_log()
    after = disk.killed()
    after.put("topic-0/partition.metadata", b"version: 1\ntopic_id: x")
    with pytest.raises(DamagedFile, match=r"topic-0/partition.metadata: it is of version 1, and version 0 is known"):
        open_store(after)


def test_until_everything_is_in_order_no_file_changes() -> None:
    """Kafka would take the room that is reserved for a part of the log, where the mark of a clean stop stands."""
    disk, store, partition = new_log()
    append(partition, b"v")
    store.close(broker_epoch=0)
    before = {name: disk.content(name) for name in disk.names()}
    FileStore(disk, node_id=1, now=lambda: NOW, unique=lambda: "")
    assert before == {name: disk.content(name) for name in disk.names()}


def test_an_emptied_log_goes_on_where_it_ended() -> None:
    disk, store, partition = new_log()
    append(partition, b"v", producer_id=7, sequence=0)
    partition.log.advance_start(1)
    partition.log.advance_start(partition.log.end_offset)
    store.checkpoint()
    again = lead(open_store(disk.killed()), 1)
    assert (1, 1) == (again.log.start_offset, again.log.end_offset)
    assert known(partition) == known(again)


@pytest.mark.parametrize("damage", [lambda data: data[:10], lambda data: b"\xa5" * len(data)], ids=["half", "garbage"])
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "killed"])
def test_an_index_of_aborted_transactions_that_lies_is_made_of_the_batches_again(
    damage: Callable[[bytes], bytes], number: int, is_clean: bool
) -> None:
    """Else readers of committed records get what was aborted."""
    disk, store, partition = new_log()
    for sequence in range(3):
        one = batch(b"v", producer_id=7, epoch=0, sequence=sequence, transactional=True)
        partition.append_client(one, now=NOW, verification_enabled=False)
        partition.append_marker(
            producer_id=7, producer_epoch=0, commit=False, coordinator_epoch=0, transaction_version=0, now=NOW
        )
        partition.log.seal()
    store.checkpoint()
    if is_clean:
        store.close(broker_epoch=5)
    left = disk if is_clean else disk.killed()
    name = sorted(each for each in left.names() if each.endswith(".txnindex"))[number]
    whole = left.read(name) or b""
    left.put(name, damage(whole))
    again = lead(open_store(left), 1)
    assert partition.log.aborted.entries == again.log.aborted.entries
    assert 3 == len(again.log.aborted.entries)
    assert known(partition) == known(again)
    if number < 2:  # that of the last segment is written at its end
        assert whole == left.read(name)


def test_the_indexes_of_an_empty_log_are_empty() -> None:
    """A Kafka that is killed leaves 10 MiB of zeros in each, and Kafka's tools look for batches there."""
    disk, _, _ = new_log()
    left = disk.killed()
    names = [f"topic-0/{0:020d}{suffix}" for suffix in (".index", ".timeindex")]
    for name in names:
        left.put(name, bytes(4096))
    open_store(left)
    assert [b"", b""] == [left.read(name) for name in names]


def test_a_log_begins_where_it_began_when_its_first_segments_are_compacted_away() -> None:
    """The next process reads from the name of the first segment where the log begins, so Kafka's cleaner keeps it."""
    disk, store, partition = new_log()
    for _ in range(8):
        partition.append_client(batch((b"key", b"v" * 200)), now=NOW)
    until = cleanable_until(partition.log, NOW, last_stable_offset=partition.last_stable_offset)
    assert Compaction(partition.log, NOW, until=until).step(1 << 20)
    partition.append_client(batch((b"key", b"last" * 100)), now=NOW)
    until = cleanable_until(partition.log, NOW, last_stable_offset=partition.last_stable_offset)
    assert Compaction(partition.log, NOW, until=until).step(1 << 20)
    assert 0 < partition.log.segments[0].base_offset
    store.checkpoint()
    for left in (disk.killed(), disk):
        if left is disk:
            store.close(broker_epoch=5)
        again = lead(open_store(left), 1)
        assert (0, partition.log.end_offset) == (again.log.start_offset, again.log.end_offset)
        assert log_bytes(partition) == log_bytes(again)
        # The next compaction goes on from there.
        assert 0 == again.log.segments[0].size
        again.append_client(batch((b"key", b"newer" * 100)), now=NOW)
        until = cleanable_until(again.log, NOW, last_stable_offset=again.last_stable_offset)
        assert Compaction(again.log, NOW, until=until).step(1 << 20)
        assert 0 == again.log.start_offset
        assert b"newer" * 100 == offsets_and_keys(again.log)[-1][2]
        # It goes with the beginning of the log.
        again.log.advance_start(again.log.end_offset)
        assert f"topic-0/{0:020d}.log" not in left.names()


def test_a_checkpoint_that_lies_is_noted_and_everything_is_checked() -> None:
    disk, store, partition = new_log()
    append(partition, b"v")
    store.checkpoint()
    after = disk.killed()
    after.put("recovery-point-offset-checkpoint", b"0\n7\n")
    again = open_store(after)
    assert log_bytes(partition) == log_bytes(lead(again, 1))
    assert [
        ("recovery-point-offset-checkpoint", "it announces 7 lines and has 0; it is written anew")
    ] == after.warnings


def test_a_snapshot_that_lies_is_noted_and_made_of_the_batches_again() -> None:
    disk, store, partition = new_log()
    for number in range(3):
        append(partition, b"v", producer_id=7, sequence=number)
    store.close(broker_epoch=0)
    after = disk.killed()
    after.put("topic-0/00000000000000000003.snapshot", b"\0\1nonsense")
    again = lead(open_store(after), 1)
    assert known(partition) == known(again)
    assert ["topic-0/00000000000000000003.snapshot"] == [name for name, _ in after.warnings]


def test_a_producer_is_known_when_its_batches_go_after_a_kill() -> None:
    """What recovery has read is written where each segment begins, for retention takes what it was read from."""
    disk, _, partition = new_log()
    append(partition, b"v", producer_id=7, sequence=0)
    for _ in range(12):
        append(partition, b"v" * 100)
    again = lead(open_store(disk.killed()), 1)
    after = again.log.disk  # type: ignore[attr-defined]
    again.log.advance_start(again.log.segments[-1].base_offset)
    assert known(partition) == known(lead(open_store(after.killed()), 2))


def test_transactions_are_not_aborted_twice_where_a_snapshot_lies() -> None:
    disk, store, partition = new_log()
    for sequence in range(2):
        one = batch(b"v", producer_id=7, epoch=0, sequence=sequence, transactional=True)
        partition.append_client(one, now=NOW, verification_enabled=False)
        partition.append_marker(
            producer_id=7, producer_epoch=0, commit=False, coordinator_epoch=0, transaction_version=0, now=NOW
        )
    store.close(broker_epoch=0)
    disk.put("topic-0/00000000000000000004.snapshot", b"")
    again = lead(open_store(disk), 1)
    assert 2 == len(again.log.aborted.entries)
    assert partition.log.aborted.entries == again.log.aborted.entries


@pytest.mark.parametrize("checkpoint", [b"", b"0\n1\n0 0\n", b"0\n1\n9 x\n"])
def test_the_last_leader_epoch_is_that_of_the_last_batch_at_least(checkpoint: bytes) -> None:
    disk, _, first = new_log()
    append(first, b"v")
    after = disk.killed()
    append(lead(open_store(after), 5), b"v")
    killed = after.killed()
    killed.put("topic-0/leader-epoch-checkpoint", checkpoint)
    log = open_store(killed).find(TOPIC_ID, 0)
    assert log is not None
    assert 5 == log.leader_epoch
    assert (5, 1) == log.epochs.entries()[-1]


def test_an_epoch_that_the_quorum_has_seen_is_not_used_again() -> None:
    """Its leader may have had no time to write anything."""
    disk = SimDisk()
    log = open_store(disk).open(METADATA_TOPIC, 0, TopicConfig(cleanup_policy=()))
    Partition("__cluster_metadata", METADATA_TOPIC, 0, log, 1, log.config, NOW)
    after = disk.killed()
    state = after.content("__cluster_metadata-0/quorum-state")
    after.put("__cluster_metadata-0/quorum-state", state.replace(b'"leaderEpoch":1', b'"leaderEpoch":6'))
    found = open_store(after).find(METADATA_TOPIC, 0)
    assert found is not None
    assert 6 == found.leader_epoch


def test_the_metadata_log_begins_each_epoch_with_who_leads() -> None:
    disk = SimDisk()
    for epoch in (1, 2):
        store = open_store(disk)
        log = store.open(METADATA_TOPIC, 0, TopicConfig(cleanup_policy=()))
        assert isinstance(log, FileLog)
        assert epoch == log.leader_epoch + 1
        Partition("__cluster_metadata", METADATA_TOPIC, 0, log, epoch, log.config, NOW)
        state = read_quorum_state(disk.content("__cluster_metadata-0/quorum-state"))
        assert (1, epoch, (1,)) == (state.leader_id, state.leader_epoch, state.voters)
        assert [(number, True, number + 1) for number in range(epoch)] == [
            (one.base_offset, one.is_control, one.partition_leader_epoch) for one in log.batches()
        ]
        disk = disk.killed()


def test_the_change_of_leader_is_written_as_by_kafka() -> None:
    """The bytes behind offset, length and epoch are those of a broker of Kafka 4.4 but for its time."""
    kafkas = bytes.fromhex(
        "02 4fb2b314 0020 00000000 000001a216b1ee26 000001a216b1ee26 ffffffffffffffff ffff ffffffff 00000001"
        "3a 00 00 00 08 0000 0002 26 0000 00000001 02 00000001 00 02 00000001 00 00 00"
    )
    assert kafkas == bytes(leader_change(1, timestamp=0x1A216B1EE26).view[16:])


def test_the_last_segment_is_gone_on_with() -> None:
    disk, store, partition = new_log()
    append(partition, b"a")
    killed = disk.killed()
    store.close(broker_epoch=0)
    for after in (killed, disk):
        again = lead(open_store(after), 1)
        append(again, b"b")
        assert [0] == [segment.base_offset for segment in again.log.segments]
        assert [b"a", b"b"] == [value for one in again.log.batches() for value in values(one.view)]


def test_reads_are_the_same_before_and_after() -> None:
    disk, store, partition = new_log()
    for number in range(10):
        append(partition, b"v%d" % number * 30)
    store.close(broker_epoch=0)
    again = lead(open_store(disk), 1)
    for offset in range(10):
        before, after = (each.log.read(offset, max_bytes=1 << 20, until=1 << 60) for each in (partition, again))
        assert [one.base_offset for one in batches(before)] == [one.base_offset for one in batches(after)]
        assert bytes(before) == bytes(after)


def test_a_large_segment_grows_as_it_is_written(tmp_path: Path) -> None:
    """`segment.bytes` is 1 GiB in Kafka: nothing of it is visible in a file before it is written, or after a stop."""
    config = TopicConfig(segment_bytes=1024**3)
    store = local_store(tmp_path)
    partition = lead(store, 0, config)
    append(partition, b"first")
    name = tmp_path / "topic-0" / f"{0:020d}.log"
    assert MAPPED_BYTES == name.stat().st_size
    [segment] = partition.log.segments
    early = segment.buffer[: segment.size]
    for number in range(20):
        append(partition, bytes([number]) * 2**20)
    assert [segment] == partition.log.segments
    assert 2 * MAPPED_BYTES == name.stat().st_size
    assert bytes(early) == bytes(segment.buffer[: len(early)])
    expected = index_of_segment(segment.buffer, index_of(segment), interval_bytes=config.index_interval_bytes)
    store.close(broker_epoch=1)
    assert segment.size == name.stat().st_size
    index, time_index = (name.with_suffix(suffix).read_bytes() for suffix in (".index", ".timeindex"))
    assert (expected[0], expected[1]) == (read_offset_index(index, 0), read_time_index(time_index, 0))
    again = lead(local_store(tmp_path), 1, config)
    assert log_bytes(partition) == log_bytes(again)
    append(again, b"x" * 2**20)
    assert 1 == len(again.log.segments)
    assert 22 == again.log.end_offset


def local_store(path: Path) -> FileStore:
    numbers = count()
    disk = LocalDisk(path, make_logger(level="error"))
    store = FileStore(disk, node_id=1, now=lambda: NOW, unique=lambda: f"{next(numbers):032x}")
    store.begin()
    return store


def test_a_large_segment_that_was_killed_is_gone_on_with(tmp_path: Path) -> None:
    config = TopicConfig(segment_bytes=1024**3)
    partition = lead(local_store(tmp_path), 0, config)
    for number in range(20):
        append(partition, bytes([number]) * 2**20)
    again = lead(local_store(tmp_path), 1, config)
    assert log_bytes(partition) == log_bytes(again)
    for number in range(20):
        append(again, bytes([number]) * 2**20)
    assert 1 == len(again.log.segments)
    assert 40 == again.log.end_offset


def test_recovery_does_not_read_room_that_was_never_written_to(tmp_path: Path) -> None:
    """A killed process leaves a file of up to twice its batches; room behind the last written page is not mapped."""
    partition = lead(local_store(tmp_path), 0, TopicConfig(segment_bytes=1024**3))
    append(partition, b"v" * 2**20)
    log = partition.log
    assert isinstance(log, FileLog)
    name = f"{log.folder}/{0:020}.log"
    disk = LocalDisk(tmp_path, make_logger(level="error"))
    size = (tmp_path / name).stat().st_size
    assert 16 * 2**20 == size
    view = disk.map_to_read(name)
    assert log.size_bytes <= len(view) < size // 4
    with (tmp_path / name).open("r+b") as file:
        file.seek(size // 2)
        file.write(b"torn")
    assert b"torn" == bytes(disk.map_to_read(name)[size // 2 :][:4])
    again = local_store(tmp_path)
    [(_, _, torn, _)] = again.cut
    assert torn == size // 2 + 4 - log.size_bytes
    (tmp_path / "holes").write_bytes(b"")
    os.truncate(tmp_path / "holes", 2**20)
    assert b"" == bytes(disk.map_to_read("holes"))


def test_an_entry_of_a_batch_that_was_taken_back_is_not_in_the_index() -> None:
    """The device has failed, and the batch was not acknowledged."""
    entries = SparseEntries(100)
    _, _, partition = new_log(config=TopicConfig(index_interval_bytes=100))
    for number in range(6):
        append(partition, b"v" * 80 * (number + 1))
    log = partition.log
    assert isinstance(log, FileLog)
    [segment] = log.segments
    assert isinstance(segment, ActiveFile)
    before = segment.entries()
    log.take_back(5)
    after = segment.entries()
    assert after[0] == [entry for entry in before[0] if entry[0] < 5] != before[0]
    assert after == entries.ended(segment.buffer, segment.offsets, segment.positions, segment.timestamps)
