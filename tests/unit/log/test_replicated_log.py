"""Logs with a replica in each broker's directory, against one log in memory, through lags, new leaders and kills."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, islice

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.examples import examples
from tests.unit.log.helpers import NOW, TOPIC_ID, batch, new_store
from tests.unit.log.test_file_log import check_what_is_known

from odradek.config.table import TopicConfig
from odradek.log.compaction import Compaction, cleanable_until
from odradek.log.disk import DiskError
from odradek.log.file_log import FileLog
from odradek.log.file_store import FileStore
from odradek.log.files.checkpoints import read_epochs, read_offsets
from odradek.log.files.marks import QuorumState, read_quorum_state
from odradek.log.files.names import SnapshotId, checkpoint_file, read_checkpoint_file
from odradek.log.files.producer_snapshot import read_producers, write_producers
from odradek.log.files.walk import walk
from odradek.log.log_store import LogStore
from odradek.log.metadata_log import METADATA_FOLDER, METADATA_TOPIC
from odradek.log.partition import Partition
from odradek.log.replicated_log import ReplicatedLog
from odradek.log.replicated_store import ReplicatedStore
from odradek.records.batch import batches
from odradek.records.control import control_type
from odradek.records.record import iterate_records
from odradek.sim.world.disk import SimDisk

TOPIC = "topic"
CONFIG = TopicConfig(segment_bytes=600, cleanup_policy=("compact", "delete"))
NODES = (1, 2, 3)
BROKERS = st.sampled_from(NODES)


def open_stores(disks: dict[int, SimDisk], *, settles_late: bool = False) -> ReplicatedStore:
    numbers = count()
    store = ReplicatedStore(
        {
            node_id: FileStore(
                disk,
                node_id=node_id,
                now=lambda: NOW,
                unique=lambda: f"{next(numbers):032x}",
                voters=NODES,
                segment_bytes=4096,
            )
            for node_id, disk in disks.items()
        }
    )
    for one in store.stores.values():
        one.settles_late = settles_late
    store.begin()
    return store


def new_disks() -> dict[int, SimDisk]:
    return {node_id: SimDisk() for node_id in NODES}


def killed(disks: dict[int, SimDisk]) -> dict[int, SimDisk]:
    return {node_id: disk.killed() for node_id, disk in disks.items()}


def lead(store: LogStore, epoch: int, leader: int, config: TopicConfig = CONFIG) -> Partition:
    log = store.open(TOPIC_ID, 0, config)
    partition = Partition(TOPIC, TOPIC_ID, 0, log, epoch, config, NOW, leader=leader)
    log.place(NODES)
    return partition


def replica(store: ReplicatedStore, node_id: int) -> FileLog:
    found = store.stores[node_id].find(TOPIC_ID, 0)
    assert isinstance(found, FileLog)
    return found


def bytes_on(disk: SimDisk) -> bytes:
    """All batches of the partition as they stand in its files, without room that was reserved."""
    found = b""
    for name in sorted(name for name in disk.files("topic-0") if name.endswith(".log")):
        content = disk.content(f"topic-0/{name}")
        found += content[: walk(memoryview(content), int(name.removesuffix(".log")), checks=True).size]
    return found


def log_bytes(partition: Partition) -> list[bytes]:
    """From the start of the log on: segments that begin before it are cut elsewhere in each replica."""
    log = partition.log
    return [bytes(one.view) for one in log.batches(log.start_offset)]


class Replicated(RuleBasedStateMachine):
    """The same is done to a log with three replicas in files and to one in memory."""

    settles_late = False

    @initialize()
    def begin(self) -> None:
        self.disks = new_disks()
        self.store = open_stores(self.disks, settles_late=self.settles_late)
        self.memory = new_store()
        self.epoch, self.leader = 0, 1
        self.sequences: dict[int, int] = {}
        self.gone: set[int] = set()
        self.lead()

    def lead(self) -> None:
        self.files = lead(self.store, self.epoch, self.leader)
        self.twin = lead(self.memory, self.epoch, self.leader)
        assert self.files.lost_offsets == self.twin.lost_offsets

    @property
    def both(self) -> tuple[Partition, Partition]:
        return self.files, self.twin

    @rule(key=st.integers(0, 3), size=st.integers(0, 150))
    def append_plain(self, key: int, size: int) -> None:
        for partition in self.both:
            partition.append_client(batch((b"k%d" % key, b"v" * size)), now=NOW)

    @rule(producer_id=st.integers(0, 2), records=st.integers(1, 3))
    def append_in_a_transaction(self, producer_id: int, records: int) -> None:
        sequence = self.sequences.get(producer_id, 0)
        answers = []
        for partition in self.both:
            sent = [(b"k%d" % producer_id, b"v")] * records
            one = batch(*sent, producer_id=producer_id, epoch=0, sequence=sequence, transactional=True)
            answers.append(type(partition.append_client(one, now=NOW, verification_enabled=False)))
        assert answers[0] is answers[1]
        self.sequences[producer_id] = sequence + records

    @rule(producer_id=st.integers(0, 2), commit=st.booleans())
    def end(self, producer_id: int, commit: bool) -> None:
        for partition in self.both:
            partition.append_marker(
                producer_id=producer_id,
                producer_epoch=0,
                commit=commit,
                coordinator_epoch=0,
                transaction_version=0,
                now=NOW,
            )

    @rule(node_id=BROKERS)
    def take_time(self, node_id: int) -> None:
        """From now on this replica acknowledges nothing by itself."""
        for partition in self.both:
            if node_id != self.leader:
                partition.log.acknowledge(node_id, partition.log.behind.get(node_id, partition.log.end_offset))

    @rule(node_id=BROKERS, batches=st.integers(1, 3))
    def acknowledge(self, node_id: int, batches: int) -> None:
        for partition in self.both:
            log = partition.log
            if node_id in log.behind and node_id not in self.gone:
                ends = [one.next_offset for one in log.batches(log.behind[node_id])]
                log.acknowledge(node_id, [log.behind[node_id], *ends][: batches + 1][-1])

    @rule(node_id=BROKERS)
    def catch_up(self, node_id: int) -> None:
        for partition in self.both:
            if node_id not in self.gone:
                partition.log.catch_up(node_id)

    @rule(node_id=BROKERS)
    def go(self, node_id: int) -> None:
        """A broker that does not lead is stopped: its directory stays as it is."""
        if node_id != self.leader:
            self.take_time(node_id)
            self.store.absent(node_id)
            self.gone.add(node_id)

    @rule(node_id=BROKERS)
    def come(self, node_id: int) -> None:
        self.gone.discard(node_id)
        self.store.back(node_id)
        self.catch_up(node_id)

    @rule(node_id=BROKERS)
    def elect(self, node_id: int) -> None:
        self.gone.discard(node_id)
        self.store.back(node_id)
        self.leader = node_id
        self.epoch += 1
        self.lead()
        self.seal()

    @rule()
    def seal(self) -> None:
        """In memory nothing is appended to a segment that was cut, nor after a restart."""
        for partition in self.both:
            partition.log.seal()

    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        offset = int(min([self.files.log.end_offset, *self.files.log.behind.values()]) * part)
        for partition in self.both:
            partition.log.advance_start(offset)
        for store in self.store.stores.values():
            store.checkpoint()

    @rule()
    def stop_cleanly(self) -> None:
        for store in self.store.stores.values():
            store.close(broker_epoch=5)
        self.restart()
        assert all(store.was_clean for store in self.store.stores.values())

    @rule()
    def kill(self) -> None:
        for store in self.store.stores.values():
            store.checkpoint()
        self.restart()
        assert not any(store.was_clean for store in self.store.stores.values())

    def restart(self) -> None:
        behind = {node_id: end for node_id, end in self.twin.log.behind.items() if end < self.twin.log.end_offset}
        self.disks = killed(self.disks)
        self.gone = set()
        self.store = open_stores(self.disks)
        found = self.store.find(TOPIC_ID, 0)
        assert found is not None
        assert behind == found.behind
        for node_id in NODES:
            if node_id not in behind:
                self.twin.log.behind.pop(node_id, None)
        self.epoch += 1
        self.lead()
        self.seal()

    @invariant()
    def says_the_same(self) -> None:
        if not hasattr(self, "files"):
            return
        files, twin = self.files, self.twin
        assert log_bytes(twin) == log_bytes(files)
        check_what_is_known(files, twin)
        assert twin.log.behind == files.log.behind

    @invariant()
    def each_replica_has_what_it_acknowledged(self) -> None:
        if not hasattr(self, "files"):
            return
        log = self.files.log
        assert isinstance(log, ReplicatedLog)
        assert log.copies is not None
        assert self.leader == log.copies.home
        for node_id in NODES:
            if node_id in log.copies.owed:
                assert not log.end_offset
                continue
            mine = replica(self.store, node_id)
            if mine.diverges_at is None:
                end = log.behind.get(node_id, log.end_offset)
                wanted = [bytes(one.view) for one in log.batches(log.start_offset) if one.next_offset <= end]
                found = [bytes(one.view) for one in mine.batches(log.start_offset)]
                assert wanted == found
                on_disk = [bytes(one.view) for one in batches(memoryview(bytes_on(self.disks[node_id])))]
                assert found == on_disk[len(on_disk) - len(found) :]
            assert not self.disks[node_id].warnings


TestReplicated = Replicated.TestCase
TestReplicated.settings = examples(60, steps=25)


class ReplicatedInAFork(Replicated):
    """The same where a log has no folder, and no copies, before its first batch; a fork is not gone on with here."""

    settles_late = True

    def stop_cleanly(self) -> None: ...

    def kill(self) -> None: ...


TestReplicatedInAFork = ReplicatedInAFork.TestCase
TestReplicatedInAFork.settings = examples(60, steps=25)


def append(partition: Partition, *values: bytes) -> None:
    for value in values:
        partition.append_client(batch(value), now=NOW)


@pytest.mark.parametrize("leaders", [[1], [2], [1, 2], [2, 3, 1]])
def test_in_a_fork_a_log_has_no_copies_before_its_first_batch(leaders: list[int]) -> None:
    disks = new_disks()
    store = open_stores(disks, settles_late=True)
    for epoch, leader in enumerate(leaders):
        partition = lead(store, epoch, leader)
    assert {leaders[-1]} == {node_id for node_id in NODES if store.stores[node_id].find(TOPIC_ID, 0) is not None}
    assert not any(disk.folders() for disk in disks.values())
    append(partition, b"a", b"b")
    assert 2 == len(log_bytes(partition))
    assert b"".join(log_bytes(partition)) == bytes_on(disks[1]) == bytes_on(disks[2]) == bytes_on(disks[3])
    partition = lead(store, len(leaders), 3)
    append(partition, b"c")
    assert 3 == len(log_bytes(partition))
    assert b"".join(log_bytes(partition)) == bytes_on(disks[1]) == bytes_on(disks[2]) == bytes_on(disks[3])


def test_in_a_fork_a_replica_that_is_stopped_gets_its_copy_when_it_is_back() -> None:
    disks = new_disks()
    store = open_stores(disks, settles_late=True)
    partition = lead(store, 0, 1)
    store.absent(3)
    partition.log.acknowledge(3, 0)
    append(partition, b"a")
    assert b"".join(log_bytes(partition)) == bytes_on(disks[2])
    assert not disks[3].folders()
    store.back(3)
    partition.log.catch_up(3)
    append(partition, b"b")
    assert b"".join(log_bytes(partition)) == bytes_on(disks[2]) == bytes_on(disks[3])


def test_in_a_fork_a_broker_that_has_no_replica_any_more_gets_no_copy() -> None:
    disks = new_disks()
    partition = lead(open_stores(disks, settles_late=True), 0, 1)
    partition.log.place([1, 2])
    append(partition, b"a")
    assert bytes_on(disks[1]) == bytes_on(disks[2])
    assert not disks[3].folders()


def test_a_new_leader_goes_on_in_its_own_directory() -> None:
    """KIP-101: what only the leader before had is cut off in its files when its broker follows again."""
    disks = new_disks()
    store = open_stores(disks)
    partition = lead(store, 0, 1)
    append(partition, b"a", b"b")
    partition.log.acknowledge(2, 2)
    append(partition, b"c")
    alone = bytes_on(disks[1])
    store.absent(1)
    partition = lead(store, 1, 2)
    assert 1 == partition.lost_offsets
    assert [(0, 0), (1, 2)] == read_epochs(disks[2].content("topic-0/leader-epoch-checkpoint"))
    append(partition, b"d")
    assert alone == bytes_on(disks[1])
    assert bytes_on(disks[2]) == bytes_on(disks[3])
    store.back(1)
    partition.log.catch_up(1)
    assert bytes_on(disks[2]) == bytes_on(disks[1])
    assert [(0, 0), (1, 2)] == read_epochs(disks[1].content("topic-0/leader-epoch-checkpoint"))


PLAIN = TopicConfig(segment_bytes=600)


def stopped() -> tuple[dict[int, SimDisk], Partition]:
    """Three replicas of a log with an aborted transaction in its second segment."""
    disks = new_disks()
    store = open_stores(disks)
    partition = lead(store, 0, 3, PLAIN)
    append(partition, b"a" * 550)
    one = batch(b"b" * 300, producer_id=7, epoch=0, sequence=0, transactional=True)
    partition.append_client(one, now=NOW, verification_enabled=False)
    partition.append_marker(
        producer_id=7, producer_epoch=0, commit=False, coordinator_epoch=0, transaction_version=0, now=NOW
    )
    append(partition, b"c" * 550, b"d")
    for each in store.stores.values():
        each.close(broker_epoch=0)
    return disks, partition


def open_at_4(data: bytes) -> bytes:
    """A snapshot of producers that says that each has an open transaction."""
    producers = read_producers(data)
    for each in producers:
        each.first_offset = 4
    return write_producers(producers)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (f"{1:020d}.log", None),
        (f"{1:020d}.txnindex", None),
        (f"{0:020d}.log", None),
        ("leader-epoch-checkpoint", lambda _: b"0\n2\n0 0\n9 1\n"),
        (f"{5:020d}.snapshot", open_at_4),
    ],
)
def test_a_leader_goes_on_with_what_its_own_directory_says(name: str, change: Callable[[bytes], bytes] | None) -> None:
    """Of three equal replicas the first one is the log until there is a leader; its files may be damaged."""
    disks, partition = stopped()
    if change is None:
        disks[1].remove(f"topic-0/{name}")
    else:
        disks[1].put(f"topic-0/{name}", change(disks[1].content(f"topic-0/{name}")))
    again = lead(open_stores(disks), 1, 3, PLAIN)
    assert 0 == again.log.start_offset
    assert log_bytes(partition) == log_bytes(again)
    assert partition.log.aborted.entries == again.log.aborted.entries
    assert [(0, 0), (1, 5)] == again.log.epochs.entries()
    assert partition.last_stable_offset == again.last_stable_offset


def test_offsets_that_the_leader_lacks_are_reported_for_its_directory() -> None:
    disks, _ = stopped()
    for suffix in (".log", ".index", ".timeindex"):
        disks[3].remove(f"topic-0/{1:020d}{suffix}")
    again = lead(open_stores(disks), 1, 3, PLAIN)
    assert 3 == len(log_bytes(again))
    assert [("topic-0", "offsets 1 to 2 are in no segment")] == disks[3].warnings
    assert [] == disks[1].warnings


def compacted(partition: Partition) -> None:
    until = cleanable_until(partition.log, NOW, last_stable_offset=partition.last_stable_offset)
    Compaction(partition.log, NOW, until=until).step(1_000_000)


def test_replicas_are_compacted_with_their_leader() -> None:
    disks = new_disks()
    store = open_stores(disks)
    partition = lead(store, 0, 1)
    for number in range(12):
        partition.append_client(batch((b"k", b"%d" % number * 100)), now=NOW)
    before = bytes_on(disks[2])
    compacted(partition)
    assert bytes_on(disks[1]) == bytes_on(disks[2]) == bytes_on(disks[3])
    assert len(bytes_on(disks[2])) < len(before)
    assert 3 * [partition.log.first_dirty_offset] == cleaned_offsets(store, disks)
    found = open_stores(killed(disks)).find(TOPIC_ID, 0)
    assert found is not None
    assert {} == found.behind


def cleaned_offsets(store: ReplicatedStore, disks: dict[int, SimDisk]) -> list[int]:
    """Up to where the partition is compacted, as the checkpoints of the brokers say."""
    for one in store.stores.values():
        one.checkpoint()
    contents = [disk.read("cleaner-offset-checkpoint") for disk in disks.values()]
    return [read_offsets(content or b"").get((TOPIC, 0), 0) for content in contents]


@pytest.mark.parametrize("lags", [False, True])
def test_a_replica_that_lags_is_not_said_to_be_compacted(*, lags: bool) -> None:
    disks = new_disks()
    store = open_stores(disks)
    partition = lead(store, 0, 1)
    for _ in range(2):
        if lags:
            partition.log.acknowledge(3, replica(store, 3).end_offset)
        for number in range(12):
            partition.append_client(batch((b"k", b"%d" % number * 100)), now=NOW)
        compacted(partition)
        until = partition.log.first_dirty_offset
        assert until > 0
        assert [until, until, 0 if lags else until] == cleaned_offsets(store, disks)
        partition.log.catch_up(3)


def test_nor_is_one_that_an_earlier_pass_has_not_changed() -> None:
    """The next pass has nothing to change."""
    disks = new_disks()
    store = open_stores(disks)
    partition = lead(store, 0, 1)
    partition.log.acknowledge(3, 0)
    for number in range(12):
        partition.append_client(batch((b"k%d" % max(4, number), b"v" * 450)), now=NOW)
    compacted(partition)
    partition.log.catch_up(3)
    for number in range(4):
        partition.append_client(batch((b"more %d" % number, b"v" * 450)), now=NOW)
    before, bytes_before = partition.log.first_dirty_offset, bytes_on(disks[1])
    compacted(partition)
    until = partition.log.first_dirty_offset
    assert until > before
    assert bytes_before == bytes_on(disks[1])
    assert [until, until, 0] == cleaned_offsets(store, disks)


def test_a_replica_with_other_segments_is_left_as_it_is() -> None:
    """In Kafka each replica is compacted by itself."""
    disks = new_disks()
    store = open_stores(disks)
    partition = lead(store, 0, 1)
    append(partition, b"a")
    partition.log.acknowledge(3, 1)
    replica(store, 3).seal()
    for number in range(12):
        partition.append_client(batch((b"k", b"%d" % number * 100)), now=NOW)
    replica(store, 3).configure(TopicConfig())
    partition.log.catch_up(3)
    before = bytes_on(disks[3])
    compacted(partition)
    assert len(bytes_on(disks[1])) < len(before)
    assert before == bytes_on(disks[3])
    assert [partition.log.first_dirty_offset] * 2 + [0] == cleaned_offsets(store, disks)


def test_a_replica_that_comes_too_late_begins_where_its_leader_does() -> None:
    """Kafka's `truncateFullyAndStartAt`: retention has taken what it would have fetched."""
    disks = new_disks()
    store = open_stores(disks)
    partition = lead(store, 0, 1)
    append(partition, b"a")
    partition.log.acknowledge(3, 1)
    append(partition, *[b"v" * 300] * 4)
    partition.log.advance_start(4)
    partition.log.catch_up(3)
    assert (4, 5) == (replica(store, 3).start_offset, replica(store, 3).end_offset)
    assert [f"{4:020d}.log"] == [name for name in disks[3].files("topic-0") if name.endswith(".log")]
    after = open_stores(killed(disks)).find(TOPIC_ID, 0)
    assert after is not None
    assert {} == after.behind


def test_a_disk_that_is_full_refuses_the_batch_for_all_replicas() -> None:
    disks = new_disks()
    partition = lead(open_stores(disks), 0, 1)
    append(partition, b"a")
    before = [bytes_on(disk) for disk in disks.values()]
    disks[3].is_full = True
    with pytest.raises(DiskError):
        partition.log.append(batch(b"b"), leader_epoch=0, now=NOW)
    assert 1 == partition.log.end_offset
    assert before == [bytes_on(disk) for disk in disks.values()]
    disks[3].is_full = False
    append(partition, b"c")
    assert 1 == len({bytes_on(disk) for disk in disks.values()})


def test_nothing_is_written_for_a_broker_that_is_away() -> None:
    """Whatever its leader believes: it gets what it lacks when it is back."""
    disks = new_disks()
    store = open_stores(disks)
    partition = lead(store, 0, 1)
    append(partition, b"a")
    store.absent(3)
    before = bytes_on(disks[3])
    append(partition, b"b")
    assert before == bytes_on(disks[3])
    partition.log.acknowledge(3, 2)
    assert before == bytes_on(disks[3])
    partition.log.catch_up(3)
    assert before == bytes_on(disks[3])
    store.back(3)
    assert bytes_on(disks[1]) == bytes_on(disks[3])


def test_replicas_whose_records_have_all_gone_agree_in_different_epochs() -> None:
    """A follower learns a leader's epoch with the first record in it."""
    disks = new_disks()
    store = open_stores(disks)
    append(lead(store, 0, 1), b"a")
    partition = lead(store, 1, 1)
    partition.log.advance_start(1)
    for each in store.stores.values():
        each.checkpoint()
    epochs = [read_epochs(disk.content("topic-0/leader-epoch-checkpoint")) for disk in disks.values()]
    assert [[(1, 1)], [(0, 1)], [(0, 1)]] == epochs
    found = open_stores(killed(disks)).find(TOPIC_ID, 0)
    assert found is not None
    assert 1 == found.end_offset
    assert {} == found.behind


def test_a_partition_that_moves_leaves_its_old_folder() -> None:
    disks = new_disks()
    partition = lead(open_stores(disks), 0, 1)
    append(partition, b"a")
    partition.log.place([1, 2])
    assert [name for name in disks[3].folders() if name.endswith("-delete")]
    assert {} == disks[3].files("topic-0")
    partition.log.place(NODES)
    append(partition, b"b")
    assert bytes_on(disks[1]) == bytes_on(disks[3])


def test_each_broker_knows_up_to_where_records_are_committed() -> None:
    disks = new_disks()
    store = open_stores(disks)
    partition = lead(store, 0, 1)
    append(partition, b"a", b"b", b"c")
    partition.log.mark = 2
    partition.log.acknowledge(3, 3)
    for each in store.stores.values():
        each.checkpoint()
    known = [read_offsets(disk.content("replication-offset-checkpoint")) for disk in disks.values()]
    assert [{(TOPIC, 0): 2}] * 3 == known


def metadata(store: ReplicatedStore, epoch: int, leader: int) -> Partition:
    config = TopicConfig(cleanup_policy=())
    log = store.open(METADATA_TOPIC, 0, config)
    return Partition("__cluster_metadata", METADATA_TOPIC, 0, log, epoch, config, NOW, leader=leader)


def test_every_voter_has_the_metadata_log() -> None:
    """As recorded from a cluster of three: a voter that was stopped has what there was until then, in its epoch."""
    disks = new_disks()
    store = open_stores(disks)
    partition = metadata(store, 1, 1)
    append(partition, b"a")
    store.absent(1)
    partition = metadata(store, 2, 2)
    append(partition, b"b")
    name = f"{METADATA_FOLDER}/quorum-state"
    assert [1, 2, 2] == [read_quorum_state(disk.content(name)).leader_epoch for disk in disks.values()]
    ends = [each.find(METADATA_TOPIC, 0).end_offset for each in store.stores.values()]  # type: ignore[union-attr]
    assert [2, 4, 4] == ends
    store.back(1)
    assert [QuorumState(2, 2, NODES)] * 3 == [read_quorum_state(disk.content(name)) for disk in disks.values()]
    [first] = [
        record
        for one in islice(batches(memoryview(disks[3].content(f"{METADATA_FOLDER}/{0:020d}.log"))), 1)
        for record in iterate_records(one)
    ]
    # LeaderChangeMessage of a cluster whose three voters have granted their votes.
    voters = bytes.fromhex("04 00000001 00 00000002 00 00000003 00")
    assert "LEADER_CHANGE" == control_type(first).name
    assert bytes.fromhex("0000 00000001") + voters + voters + b"\0" == first.value


def test_a_voter_that_comes_too_late_gets_the_snapshot_first() -> None:
    """KIP-630: without it nobody could read a log that begins behind 0."""
    disks = new_disks()
    store = open_stores(disks)
    partition = metadata(store, 1, 1)
    append(partition, b"a")
    store.absent(3)
    append(partition, b"b")
    partition.log.seal()
    disks[1].write(f"{METADATA_FOLDER}/{checkpoint_file(SnapshotId(3, 1))}", b"a snapshot")
    partition.log.advance_start(3)
    append(partition, b"c")
    store.back(3)
    files = disks[3].files(METADATA_FOLDER)
    assert [SnapshotId(3, 1)] == [each for each in map(read_checkpoint_file, files) if each is not None]
    assert f"{0:020d}.log" not in files
