"""Random requests, marker answers, failovers and level changes: what must hold whatever happens.

Works are kept after they are done, and their results delivered again later: a coordinator must not fall for that.
"""

from __future__ import annotations

from collections import defaultdict

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.examples import examples
from tests.unit.txn.helpers import P, Pair, Q, Shard

from odradek.records.batch import parse_batch
from odradek.records.record import iterate_records
from odradek.txn.entry import Entry, decode_entry, decode_id
from odradek.txn.partitions import TopicPartition
from odradek.txn.states import ALLOWED, PREPARED, TxnState
from odradek.txn.works import MARKED, WriteMarkers
from odradek.wire.errors import ErrorCode

IDS = st.sampled_from(["x", "y"])
PARTITIONS = st.lists(st.sampled_from([P, Q, ("u", 0)]), max_size=2)
ANSWERS = st.sampled_from([0, 0, 0, 47, 6, 52, 2, 7])
REQUESTS_BY_WHOM = st.sampled_from(
    ["owner", "owner", "owner", "owner", "retry", "early", "before rotation", "stranger"]
)


class Records:
    """The log of a shard, read without the coordinator."""

    def __init__(self) -> None:
        self.read = 0
        self.last: dict[str, tuple[int, Entry, int]] = {}
        self.transitions: list[tuple[Entry | None, Entry, int]] = []

    def follow(self, log: list[bytes]) -> list[tuple[int, Entry | None, Entry]]:
        """What is new: offset of the record before, entry before, entry."""
        news = []
        for data in log[self.read :]:
            for record in iterate_records(parse_batch(memoryview(data))):
                assert record.key is not None
                tid = decode_id(record.key)
                assert tid is not None
                if record.value is None:
                    self.last.pop(tid, None)
                    continue
                entry = decode_entry(tid, record.value)
                assert entry is not None
                offset, before, _ = self.last.get(tid, (-1, None, 0))
                news.append((offset, before, entry))
                self.last[tid] = (record.offset, entry, record.value[1])
        self.read = len(log)
        return news


class CoordinatorMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.shard = Shard()
        self.records = Records()
        self.works: list[WriteMarkers] = []
        self.acknowledged: dict[int, set[TopicPartition]] = defaultdict(set)
        self.handed_out: dict[str, set[Pair]] = defaultdict(set)
        self.of_new_instances: set[Pair] = set()
        self.left_ids: set[int] = set()

    @initialize(tv=st.sampled_from([0, 1, 2]), near_the_end=st.booleans())
    def begin(self, tv: int, near_the_end: bool) -> None:
        self.shard.tv = tv
        for tid in ("x", "y"):
            pair = self.shard.init(tid)
            assert isinstance(pair, tuple)
            self.handed_out[tid].add(pair)
            if near_the_end:
                self.shard.plant_epoch(32764, tid)
        self.shard.machine.facts.clear()

    def claim(self, tid: str, who: str) -> Pair:
        entry = self.shard.machine.entry(tid)
        if entry is None:
            return 7000, 0
        pair = entry.producer_id, entry.producer_epoch
        return {
            "owner": pair,
            "retry": (pair[0], max(pair[1] - 1, 0)),
            "early": (pair[0], min(pair[1] + 1, 32767)),
            "before rotation": (entry.previous_producer_id, 32766),
            "stranger": (3, 0),
        }[who]

    # ---------------------------------------------------------------- requests

    @rule(tid=IDS)
    def new_instance(self, tid: str) -> None:
        answer = self.shard.init(tid)
        if isinstance(answer, tuple):
            assert answer not in self.handed_out[tid], "two instances share an epoch"
            self.handed_out[tid].add(answer)
            self.of_new_instances.add(answer)

    @rule(tid=IDS, who=REQUESTS_BY_WHOM)
    def init_again(self, tid: str, who: str) -> None:
        pair = self.claim(tid, who)
        if pair[0] == -1:
            return
        answer = self.shard.init(tid, pair)
        if isinstance(answer, tuple):
            assert answer not in self.of_new_instances, "an old instance has the epoch of a new one"
            self.handed_out[tid].add(answer)
            for _ in range(2):
                assert answer == self.shard.init(tid, pair), "a retry is answered differently"

    @rule(tid=IDS, who=REQUESTS_BY_WHOM, partitions=PARTITIONS, client_version=st.sampled_from([0, 2]))
    def add(self, tid: str, who: str, partitions: list[TopicPartition], client_version: int) -> None:
        self.shard.add(self.claim(tid, who), *partitions, tid=tid, client_version=client_version)

    @rule(tid=IDS, who=REQUESTS_BY_WHOM, partitions=PARTITIONS)
    def verify(self, tid: str, who: str, partitions: list[TopicPartition]) -> None:
        written = len(self.shard.log)
        self.shard.verify(self.claim(tid, who), *partitions, tid=tid)
        assert written == len(self.shard.log)

    @rule(tid=IDS, who=REQUESTS_BY_WHOM, commit=st.booleans(), version=st.sampled_from([4, 5]), times=st.integers(1, 2))
    def end(self, tid: str, who: str, commit: bool, version: int, times: int) -> None:
        pair = self.claim(tid, who)
        for _ in range(times):
            answer = self.shard.end(pair, commit=commit, version=version, tid=tid)
            if isinstance(answer, tuple):
                self.handed_out[tid].add(answer)

    @rule(tid=IDS, commit=st.booleans(), version=st.sampled_from([4, 5]), far=st.integers(0, 3))
    def owner_goes_on(self, tid: str, commit: bool, version: int, far: int) -> None:
        """A whole transaction, or as much of it as goes at once."""
        client_version = 2 if version == 5 else 0
        self.shard.add(self.claim(tid, "owner"), P, tid=tid, client_version=client_version)
        if far >= 1:
            self.end(tid, "owner", commit, version, 1)
        if far >= 2:
            self.look()
        if far >= 3:
            for work in [work for work in self.works[-6:] if work.transactional_id == tid]:
                self.deliver(work, 0)

    # ---------------------------------------------------------------- the world

    def deliver(self, work: WriteMarkers, code: int) -> None:
        results = {} if work.leader is None else dict.fromkeys(work.partitions, ErrorCode(code))
        if ErrorCode(code) in MARKED:
            self.acknowledged[work.offset] |= set(work.partitions)
        self.shard.report(work, results)

    @rule()
    def look(self) -> None:
        for work in self.shard.works():
            if isinstance(work, WriteMarkers):
                entry = self.shard.entry(work.transactional_id)
                assert entry.state in PREPARED
                assert (entry.state is TxnState.PREPARE_COMMIT) == work.commit
                assert (entry.producer_id, entry.producer_epoch) == (work.producer_id, work.producer_epoch)
                assert set(work.partitions) <= set(entry.partitions)
                assert work.leader is not None or not work.partitions, "no partition is ever deleted here"
                self.works.append(work)
            else:
                self.shard.perform(work)

    @precondition(lambda self: self.works)
    @rule(data=st.data(), code=ANSWERS)
    def report(self, data: st.DataObject, code: int) -> None:
        work = data.draw(st.sampled_from(self.works[-6:]))
        self.deliver(work, code)

    @rule(leader=st.sampled_from([1, 2, -1]), partition=st.sampled_from([P, Q]))
    def move_leader(self, leader: int, partition: TopicPartition) -> None:
        self.shard.leaders[partition] = leader

    @rule(tv=st.sampled_from([0, 1, 2]))
    def change_level(self, tv: int) -> None:
        self.shard.tv = tv

    @rule(milliseconds=st.sampled_from([1, 60, 10_000, 70_000]))
    def wait(self, milliseconds: int) -> None:
        self.shard.after(milliseconds)

    @rule()
    def fail_over(self) -> None:
        self.shard.fail_over()

    @rule(tid=IDS, commit=st.booleans())
    def lose_a_record(self, tid: str, commit: bool) -> None:
        before = self.shard.machine.entry(tid)
        self.shard.losing = True
        self.shard.end(self.claim(tid, "owner"), commit=commit, version=5, tid=tid)
        self.shard.losing = False
        assert before == self.shard.machine.entry(tid)

    # ---------------------------------------------------------------- what must hold

    @invariant()
    def records_follow_from_each_other(self) -> None:
        for offset, before, after in self.records.follow(self.shard.log):
            if before is None:
                continue
            assert before.state in ALLOWED[after.state]
            assert after.producer_id not in self.left_ids, "a producer id came back"
            if before.producer_id == after.producer_id:
                assert before.producer_epoch <= after.producer_epoch
            else:
                self.left_ids.add(before.producer_id)
            if before.state in PREPARED:
                assert set(before.partitions) <= self.acknowledged[offset], "completed without all its markers"

    @invariant()
    def the_log_says_what_the_coordinator_knows(self) -> None:
        known = {
            entry.transactional_id: entry.as_stored(self.records.last[entry.transactional_id][2])
            for entry in self.shard.machine.entries()
        }
        assert {tid: entry for tid, (_, entry, _) in self.records.last.items()} == known

    @invariant()
    def whoever_sleeps_until_told_does_not_spin(self) -> None:
        self.shard.works()
        wake_at = self.shard.machine.wake_at()
        assert wake_at is None or wake_at > self.shard.now

    def teardown(self) -> None:
        """When nothing is in the way any more, every id goes on."""
        self.shard.leaders.clear()
        self.shard.after(1000)
        self.shard.settle()
        for tid in ("x", "y"):
            entry = self.shard.machine.entry(tid)
            if entry is None:
                continue
            assert entry.state not in PREPARED
            if entry.state is TxnState.ONGOING:
                assert 51 == self.shard.init(tid)
                self.shard.settle()
            pair = self.shard.init(tid)
            assert isinstance(pair, tuple)
            assert 0 == self.shard.add(pair, P, tid=tid)
            assert 0 == self.shard.commit4(pair, tid=tid)
            self.shard.settle()
            assert "CompleteCommit" == self.shard.state(tid)


CoordinatorMachine.TestCase.settings = examples(250, steps=50)
TestCoordinator = CoordinatorMachine.TestCase
