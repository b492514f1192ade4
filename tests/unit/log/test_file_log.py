"""Logs in files against the same logs in memory, through clean stops and kills at any moment."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.examples import examples
from tests.unit.log.helpers import NOW, TOPIC_ID, batch, new_store, values
from tests.unit.log.memory_disk import MemoryDisk

from odradek.config.table import TopicConfig
from odradek.core.machine import Refused
from odradek.log.compaction import Compaction, cleanable_until
from odradek.log.file_log import FileLog
from odradek.log.file_store import FileStore
from odradek.log.files.checkpoints import read_epochs, read_offsets
from odradek.log.files.damaged import DamagedFile
from odradek.log.files.indexes import read_aborted
from odradek.log.files.marks import read_quorum_state
from odradek.log.log_store import LogStore
from odradek.log.metadata_log import METADATA_TOPIC
from odradek.log.partition import Appended, Partition
from odradek.records.batch import batches
from odradek.records.control import leader_change
from odradek.wire.errors import ErrorCode

TOPIC = "topic"
CONFIG = TopicConfig(segment_bytes=600, cleanup_policy=("compact", "delete"))


def open_store(disk: MemoryDisk) -> FileStore:
    numbers = count()
    store = FileStore(disk, node_id=1, now=lambda: NOW, unique=lambda: f"{next(numbers):032x}")
    store.begin()
    return store


def lead(store: LogStore, epoch: int, config: TopicConfig = CONFIG) -> Partition:
    log = store.open(TOPIC_ID, 0, config)
    return Partition(TOPIC, TOPIC_ID, 0, log, epoch, config, NOW)


def new_log(disk: MemoryDisk | None = None, config: TopicConfig = CONFIG) -> tuple[MemoryDisk, FileStore, Partition]:
    disk = disk or MemoryDisk()
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


def append(partition: Partition, *records: bytes, producer_id: int = -1, sequence: int = -1) -> None:
    one = batch(*records, producer_id=producer_id, epoch=-1 if producer_id < 0 else 0, sequence=sequence)
    assert isinstance(partition.append_client(one, now=NOW), Appended)


class InFiles(RuleBasedStateMachine):
    """The same is done to a log in files and to one in memory; a restart takes nothing away that counts."""

    @initialize()
    def begin(self) -> None:
        self.disk = MemoryDisk()
        self.store = open_store(self.disk)
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
        self.store = open_store(self.disk)
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
        assert (twin.log.start_offset, twin.log.end_offset) == (files.log.start_offset, files.log.end_offset)
        assert twin.last_stable_offset == files.last_stable_offset
        assert known(twin) == known(files)
        assert twin.log.aborted.entries == files.log.aborted.entries
        assert twin.log.epochs.entries() == files.log.epochs.entries()
        assert not self.disk.warnings
        assert not self.store.cut


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
    assert f"{name}.cleaned" not in begun.data
    # The new file is whole; of the two that it replaces one is gone already.
    swapped = disk.killed()
    second = partition.log.segments[1]
    both = bytes(first.buffer[: first.size]) + bytes(second.buffer[: second.size])
    swapped.put(f"{name}.swap", both)
    swapped.remove(name)
    assert wanted == log_bytes(lead(open_store(swapped), 0))
    assert f"topic-0/{second.base_offset:020d}.log" not in swapped.data


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


def test_a_deleted_topic_leaves_no_folder() -> None:
    disk, store, partition = new_log()
    append(partition, b"v")
    store.drop(TOPIC_ID)
    assert ["topic-0.00000000000000000000000000000000-delete"] == disk.folders()
    gone = open_store(disk.killed())
    assert [] == gone.logs()
    disk.work()
    assert [] == disk.folders()


def test_a_topic_that_the_metadata_does_not_know_is_set_aside() -> None:
    disk, store, _ = new_log()
    store.close(broker_epoch=0)
    again = open_store(disk)
    assert ["topic-0"] == again.set_strays_aside(lambda topic_id: False)
    assert ["topic-0.00000000000000000000000000000000-stray"] == disk.folders()
    assert [] == again.logs()


def test_a_folder_without_an_id_is_that_of_the_topic_of_its_name() -> None:
    disk, _, partition = new_log()
    append(partition, b"v")
    after = disk.killed()
    after.put("topic-0/partition.metadata", b"")
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
    before = {name: disk.content(name) for name in disk.data}
    FileStore(disk, node_id=1, now=lambda: NOW, unique=lambda: "")
    assert before == {name: disk.content(name) for name in disk.data}


def test_an_emptied_log_goes_on_where_it_ended() -> None:
    disk, store, partition = new_log()
    append(partition, b"v", producer_id=7, sequence=0)
    partition.log.advance_start(1)
    partition.log.advance_start(partition.log.end_offset)
    store.checkpoint()
    again = lead(open_store(disk.killed()), 1)
    assert (1, 1) == (again.log.start_offset, again.log.end_offset)
    assert known(partition) == known(again)


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
    disk = MemoryDisk()
    log = open_store(disk).open(METADATA_TOPIC, 0, TopicConfig(cleanup_policy=()))
    Partition("__cluster_metadata", METADATA_TOPIC, 0, log, 1, log.config, NOW)
    after = disk.killed()
    state = after.content("__cluster_metadata-0/quorum-state")
    after.put("__cluster_metadata-0/quorum-state", state.replace(b'"leaderEpoch":1', b'"leaderEpoch":6'))
    found = open_store(after).find(METADATA_TOPIC, 0)
    assert found is not None
    assert 6 == found.leader_epoch


def test_the_metadata_log_begins_each_epoch_with_who_leads() -> None:
    disk = MemoryDisk()
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
