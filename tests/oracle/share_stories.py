"""Stories of share sessions: members that fetch, acknowledge, forget, close and go, and a topic that is made again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from tests.oracle.telling import mostly, told

__all__ = ["END", "SOON", "ShareSessions"]

SOON: Mapping[str, str] = {"group.share.assignment.interval.ms": "0", "group.share.min.record.lock.duration.ms": "1000"}
"""Groups are assigned without delay."""

END = (
    'ShareFetch v2 g "A" -1',
    'ShareFetch v2 g "B" -1',
    "pause 50",
    "DescribeShareGroupOffsets v1 groups=[{group_id: g, topics: [{topic_name: t, partitions: [0, 1]}]}]",
)
RESET = (
    "IncrementalAlterConfigs v1 resources=[{resource_type: 32, resource_name: g,"
    ' configs: [{name: "share.auto.offset.reset", config_operation: 0, value: "earliest"}]}]'
)
MEMBERS = ("A", "B")
PARTITIONS = ("t-0", "t-0", "t-1", "t-1", "t-0 id=p", "t-9", "v-0")
"""`p` is the first id of `t`."""
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


@dataclass
class ShareSessions:
    """Each member has a connection. All partitions are of one topic: Kafka goes through several in no order."""

    dice: Random
    epochs: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MEMBERS, 1))
    """Of the next request of each session."""

    @staticmethod
    def begin(_dice: Random) -> list[str]:
        joined = ('ShareGroupHeartbeat v1 g "A" 0 t -> e', 'ShareGroupHeartbeat v1 g "A" e until member_epoch=3')
        # Whoever asks first has the state of all partitions read.
        opened = (f'@{member} ShareFetch v2 g "{member}" 0 max_wait_ms=300 t-0 t-1' for member in MEMBERS)
        return ["topic t 2", "let p=id(t)", RESET, *joined, *opened, "Produce v9 null null null t-0 records=3"]

    @classmethod
    def tell(cls, dice: Random, _level: int) -> Iterator[str]:
        teller = cls(dice)
        steps: dict[Callable[[], Iterator[str]], int] = {
            teller.fetch: 12,
            teller.acknowledge: 6,
            teller.open: 2,
            teller.close: 2,
            teller.go: 1,
            teller.produce: 5,
            teller.cut: 1,
            teller.make_again: 1,
            teller.look: 1,
        }
        return told(dice, steps, length=20)

    def member(self) -> str:
        return self.dice.choice(MEMBERS)

    def epoch(self, member: str) -> int:
        """The epoch of a request, which is mostly the next one."""
        due = self.epochs[member]
        epoch = mostly(self.dice, due, due + 1, max(1, due - 1), weight=20)
        self.epochs[member] = due + 1 if epoch == due else due
        return epoch

    def batches(self) -> str:
        """What is said of records: mostly of one batch."""
        first = self.dice.randrange(5)
        said = []
        for _ in range(mostly(self.dice, 1, 2, weight=4)):
            last = first + self.dice.randrange(3)
            types = [self.kind() for _ in range(last - first + 1)] if self.dice.random() < 0.2 else [self.kind()]
            said.append([first, last, types])
            first = last + 1
        return str(said)

    def kind(self) -> int:
        return mostly(self.dice, self.dice.choice((ACCEPT, RELEASE)), REJECT, 0, RENEW, weight=10)

    def acknowledged(self) -> str:
        return f"{mostly(self.dice, self.dice.choice(('t-0', 't-1')), *PARTITIONS[4:])} ack={self.batches()}"

    def fetch(self) -> Iterator[str]:
        member = self.member()
        limits = mostly(self.dice, "", " max_records=1 batch_size=1", " max_records=2", weight=3)
        forgets = self.dice.random() < 0.15
        topic_id, index = self.dice.choice(("id(t)", "id(t)", "p")), self.dice.randrange(2)
        forgotten = f" forgotten_topics_data=[{{topic_id: {topic_id}, partitions: [{index}]}}]" if forgets else ""
        named = self.dice.choice(("", "", f" {self.dice.choice(PARTITIONS)}", f" {self.acknowledged()}"))
        asked = f'"{member}" {self.epoch(member)} max_wait_ms=60{limits}{forgotten}{named}'
        yield f"@{member} ShareFetch v{self.dice.choice((1, 2, 2))} g {asked}"

    def acknowledge(self) -> Iterator[str]:
        member = self.member()
        asked = f'"{member}" {self.epoch(member)} {self.acknowledged()}'
        yield f"@{member} ShareAcknowledge v{self.dice.choice((1, 2, 2))} g {asked}"

    def open(self) -> Iterator[str]:
        member = self.member()
        self.epochs[member] = 1
        named = mostly(self.dice, " t-0 t-1", "", " t-1", " t-0 t-9", " t-0 id=p", weight=3)
        yield f'@{member} ShareFetch v2 g "{member}" 0 max_wait_ms=100{named}'

    def close(self) -> Iterator[str]:
        member = self.member()
        said = self.dice.choice(("", f" {self.acknowledged()}"))
        api = self.dice.choice(("ShareFetch", "ShareAcknowledge"))
        yield f'@{member} {api} v2 g "{member}" -1{said}'
        # What it had is given back behind the answer.
        yield "pause 50"

    def go(self) -> Iterator[str]:
        """A connection ends, and its session with it."""
        yield f"@{self.member()} close"
        yield "pause 200"

    def produce(self) -> Iterator[str]:
        partition = self.dice.choice(("t-0", "t-0", "t-1"))
        yield f"Produce v9 null null null {partition} records={self.dice.randrange(1, 3)}"

    def cut(self) -> Iterator[str]:
        before = self.dice.choice((1, 2, -1))
        partitions = f"[{{partition_index: {self.dice.randrange(2)}, offset: {before}}}]"
        yield f"DeleteRecords v2 topics=[{{name: t, partitions: {partitions}}}] timeout_ms=5000"

    def make_again(self) -> Iterator[str]:
        yield "DeleteTopics v5 topic_names=[t] timeout_ms=5000"
        yield "settle"
        if self.dice.random() < 0.7:
            yield "topic t 2"

    def look(self) -> Iterator[str]:
        yield "DescribeShareGroupOffsets v1 groups=[{group_id: g, topics: [{topic_name: t, partitions: [0, 1]}]}]"
