"""Forks of logs: each against a log that has the same history and shares nothing, whatever happens to the others."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.examples import examples
from tests.unit.log.helpers import NOW, TOPIC_ID, batch, new_partition, new_store, values

from odradek.config.table import TopicConfig
from odradek.log.compaction import Compaction, cleanable_until
from odradek.log.log_store import LogStore
from odradek.log.partition import Appended, Duplicate, Partition
from odradek.log.retention import retain

CONFIG = TopicConfig(segment_bytes=600, segment_ms=5_000, retention_ms=60_000, cleanup_policy=("compact", "delete"))
Deed = Callable[[Partition], object]
WHICH = st.integers(0, 5)


def lead(store: LogStore, epoch: int) -> Partition:
    return Partition("topic", TOPIC_ID, 0, store.open(TOPIC_ID, 0, CONFIG), epoch, CONFIG, NOW)


class Member:
    """A log, what has happened to it, and a log to which only the same has happened."""

    def __init__(self, partition: Partition, history: list[Deed]) -> None:
        self.partition = partition
        self.history = history
        self.epoch = 0
        self.twin = lead(new_store(), 0)
        for deed in history:
            self.twin = done(deed, self.twin)
        self.sequences: dict[int, int] = {}
        self.open: set[int] = set()

    def do(self, deed: Deed) -> None:
        self.partition, self.twin = done(deed, self.partition), done(deed, self.twin)
        self.history.append(deed)

    def fork(self) -> Member:
        store = self.partition.log.store
        assert isinstance(store, LogStore)
        # What was never written to is not forked: its first leader has the epoch of now all the same.
        forked = store.fork()
        member = Member(lead(forked, self.partition.leader_epoch), list(self.history))
        member.sequences, member.open = dict(self.sequences), set(self.open)
        return member


def done(deed: Deed, partition: Partition) -> Partition:
    """The leader after this deed."""
    after = deed(partition)
    return after if isinstance(after, Partition) else partition


def state(partition: Partition) -> tuple[object, ...]:
    """Everything that a client, the cleaner or the next leader can find out."""
    log = partition.log
    return (
        [bytes(one.view) for one in log.batches()],
        [(each.base_offset, each.next_offset, each.size, each.max_timestamp) for each in log.segments],
        [each.base_offset for each in log.sealed_segments()],
        (log.start_offset, log.end_offset, log.size_bytes, log.first_dirty_offset),
        partition.last_stable_offset,
        log.aborted.entries,
        log.epochs.entries() if log.end_offset else [],
        sorted(
            (
                each.producer_id,
                each.epoch,
                each.last_sequence,
                each.first_offset,
                each.last_timestamp,
                [(cached.base_sequence, cached.last_sequence, cached.base_offset) for cached in each.batches],
            )
            for each in partition.producers.producers.values()
        ),
    )


class Forks(RuleBasedStateMachine):
    """Forks, and forks of forks; none sees anything of another."""

    @initialize()
    def begin(self) -> None:
        self.members = [Member(lead(new_store(), 0), [])]

    def member(self, which: int) -> Member:
        return self.members[which % len(self.members)]

    @rule(which=WHICH)
    def fork(self, which: int) -> None:
        if len(self.members) < 6:
            self.members.append(self.member(which).fork())

    @rule(which=WHICH)
    def forget(self, which: int) -> None:
        if len(self.members) > 1:
            del self.members[which % len(self.members)]

    @rule(which=WHICH, key=st.integers(0, 3), size=st.integers(0, 150), later=st.integers(0, 9_000))
    def append_plain(self, which: int, key: int, size: int, later: int) -> None:
        value, now = (b"k%d" % key, b"v" * size), NOW + later

        def append(one: Partition) -> None:
            for _ in range(3):
                one.append_client(batch(value, timestamp=now), now=now)

        self.member(which).do(append)

    @rule(which=WHICH, producer_id=st.integers(0, 2), transactional=st.booleans())
    def append_of_producer(self, which: int, producer_id: int, transactional: bool) -> None:
        member = self.member(which)
        transactional = transactional or producer_id in member.open
        sequence = member.sequences.get(producer_id, 0)

        def append(one: Partition) -> None:
            sent = batch(
                (b"p%d" % producer_id, b"v"),
                producer_id=producer_id,
                epoch=0,
                sequence=sequence,
                transactional=transactional,
            )
            assert isinstance(one.append_client(sent, now=NOW, verification_enabled=False), Appended)

        member.do(append)
        member.sequences[producer_id] = sequence + 1
        if transactional:
            member.open.add(producer_id)

    @rule(which=WHICH, producer_id=st.integers(0, 2), commit=st.booleans())
    def end(self, which: int, producer_id: int, commit: bool) -> None:
        member = self.member(which)
        member.do(
            lambda one: one.append_marker(
                producer_id=producer_id,
                producer_epoch=0,
                commit=commit,
                coordinator_epoch=0,
                transaction_version=0,
                now=NOW,
            )
        )
        member.open.discard(producer_id)

    @rule(which=WHICH)
    def seal(self, which: int) -> None:
        self.member(which).do(lambda one: one.log.seal())

    @rule(which=WHICH, part=st.floats(0, 1))
    def delete_records(self, which: int, part: float) -> None:
        self.member(which).do(lambda one: one.log.advance_start(int(one.log.end_offset * part)))

    @rule(which=WHICH, later=st.integers(50_000, 70_000))
    def retain(self, which: int, later: int) -> None:
        self.member(which).do(lambda one: retain(one.log, NOW + later))

    @rule(which=WHICH, part=st.floats(0, 1))
    def lose(self, which: int, part: float) -> None:
        """A leader takes over that lacks records."""

        def lose(one: Partition) -> Partition:
            store = one.log.store
            assert isinstance(store, LogStore)
            one.log.truncate(int(one.log.end_offset * part))
            return lead(store, one.leader_epoch + 1)

        member = self.member(which)
        member.do(lose)
        # Producers begin anew, because who had written what is lost is not known.
        known = member.partition.producers.producers
        member.sequences = {each.producer_id: each.last_sequence + 1 for each in known.values()}
        member.open = {each.producer_id for each in known.values() if each.first_offset >= 0}

    @rule(which=WHICH)
    def compact(self, which: int) -> None:
        def compact(one: Partition) -> None:
            until = cleanable_until(one.log, NOW, last_stable_offset=one.last_stable_offset)
            Compaction(one.log, NOW, until=until).step(1 << 20)

        self.member(which).do(compact)

    @rule(which=WHICH)
    def delete_topic(self, which: int) -> None:
        """The log ends here, and nowhere else; the next test of it begins with a fork or an empty log."""
        member = self.member(which)
        store = member.partition.log.store
        assert isinstance(store, LogStore)
        store.drop(TOPIC_ID)
        assert not list(member.partition.log.batches())
        self.members.remove(member)
        if not self.members:
            self.begin()

    @invariant()
    def says_what_its_twin_says(self) -> None:
        for member in getattr(self, "members", ()):
            assert state(member.twin) == state(member.partition)


TestForks = Forks.TestCase
TestForks.settings = examples(60, steps=40)


def test_a_replica_that_lacks_records_cuts_them_off_in_its_own_fork_alone() -> None:
    store = new_store()
    origin = new_partition(store.open(TOPIC_ID, 0, TopicConfig(segment_bytes=600)))
    for number in range(6):
        origin.append_client(batch(b"%d" % number * 100), now=NOW)
    fork = store.fork().find(TOPIC_ID, 0)
    assert fork is not None
    for kept in (4, 3, 1):
        fork.truncate(kept)
        assert kept == fork.end_offset
        assert [b"%d" % number * 100 for number in range(kept)] == read(fork)
    assert [b"%d" % number * 100 for number in range(6)] == read(origin.log)
    origin.append_client(batch(b"more"), now=NOW)
    leader = new_partition(fork, leader_epoch=1)
    leader.append_client(batch(b"other"), now=NOW)
    assert [b"0" * 100, b"other"] == read(fork)
    assert b"more" == read(origin.log)[-1]


def test_the_origin_cuts_off_what_a_fork_keeps() -> None:
    store = new_store()
    origin = new_partition(store.open(TOPIC_ID, 0, TopicConfig(segment_bytes=600)))
    for number in range(4):
        origin.append_client(batch(b"%d" % number * 100), now=NOW)
    fork = store.fork().find(TOPIC_ID, 0)
    assert fork is not None
    origin.log.truncate(1)
    new_partition(origin.log, leader_epoch=1).append_client(batch(b"other"), now=NOW)
    assert [b"%d" % number * 100 for number in range(4)] == read(fork)


def test_a_retry_is_recognized_in_a_fork() -> None:
    store = new_store()
    origin = new_partition(store.open(TOPIC_ID, 0, TopicConfig()))
    sent = [batch(b"v", producer_id=7, epoch=0, sequence=number) for number in range(4)]
    for one in sent:
        assert isinstance(origin.append_client(one, now=NOW), Appended)
    fork = store.fork().find(TOPIC_ID, 0)
    assert fork is not None
    retried = new_partition(fork).append_client(batch(b"v", producer_id=7, epoch=0, sequence=1), now=NOW)
    assert isinstance(retried, Duplicate)


def test_a_fork_shares_the_bytes_that_there_are() -> None:
    store = new_store()
    origin = new_partition(store.open(TOPIC_ID, 0, TopicConfig(segment_bytes=600)))
    for number in range(6):
        origin.append_client(batch(b"%d" % number * 100), now=NOW)
    fork = store.fork()
    log = fork.find(TOPIC_ID, 0)
    assert log is not None
    assert log.end_offset == log.snapshots[-1].offset
    assert [each.buffer.obj for each in origin.log.segments] == [each.buffer.obj for each in log.segments]
    assert fork.bytes_held == store.bytes_held
    new_partition(log).append_client(batch(b"v"), now=NOW)
    assert origin.log.segments[0] is log.segments[0]


def read(log: object) -> list[bytes | None]:
    found: list[bytes | None] = []
    for one in log.batches():  # type: ignore[attr-defined]
        found += values(one.view)
    return found
