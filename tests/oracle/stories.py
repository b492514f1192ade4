"""Stories that nobody thought of: the steps of a scenario, drawn from a seed.

Their requests are those of clients of all ages, with ids, epochs and sequences that are mostly right. Behind a request
that may begin to end a transaction a story waits for the end, so that its answers do not depend on how fast that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from tests.oracle import fetch_session_stories, share_stories
from tests.oracle.classic_stories import Members
from tests.oracle.fetch_session_stories import FetchSessions
from tests.oracle.share_stories import ShareSessions
from tests.oracle.telling import PARTITIONS, Kind, mostly, of_clients, told, wait_for_the_end
from tests.oracle.topic_stories import Topics

__all__ = ["KINDS"]

LOGS = tuple(f"log {partition}" for partition in PARTITIONS)

# ---------------------------------------------------------------------- transactions

PRODUCERS: Mapping[str, tuple[str, str]] = {"one": ("x", "e"), "two": ("y", "f"), "null": ("z", "h")}
"""The transactional ids, and what their producer ids and epochs are called; the last has none."""

INIT_VERSIONS = (2, 3, 4, 5)


@dataclass
class Transactions:
    """Two transactional ids and an idempotent producer, a topic of two partitions, a group."""

    dice: Random
    level: int
    sequences: dict[tuple[str, str], int] = field(default_factory=dict)
    """What each producer sends next to a partition."""

    @staticmethod
    def begin(dice: Random) -> list[str]:
        versions = {name: dice.choice(INIT_VERSIONS) for name in PRODUCERS}
        inits = (f"InitProducerId v{versions[name]} {name} -> {x} {e}" for name, (x, e) in PRODUCERS.items())
        return ["topic t 2", *inits]

    @classmethod
    def tell(cls, dice: Random, level: int) -> Iterator[str]:
        teller = cls(dice, level)
        steps: dict[Callable[[], Iterator[str]], int] = {
            teller.initialize: 3,
            teller.add: 4,
            teller.verify: 2,
            teller.produce: 9,
            teller.end: 6,
            teller.add_group: 2,
            teller.commit_offsets: 3,
            teller.look: 2,
            teller.mark: 1,
        }
        return told(dice, steps)

    def name(self) -> str:
        return self.dice.choice(("one", "one", "one", "two"))

    def identity(self, name: str) -> str:
        """Producer id and epoch, seldom those of before or of tomorrow."""
        producer_id, epoch = PRODUCERS[name]
        if self.dice.random() < 0.03:
            producer_id = self.dice.choice([other for other, _ in PRODUCERS.values()])
        return f"{producer_id} {epoch}{mostly(self.dice, '', '-1', '+1')}"

    def captures(self, name: str) -> str:
        return "-> {} {}".format(*PRODUCERS[name])

    def forget(self, name: str) -> None:
        """A producer that begins a new epoch counts anew."""
        for partition in PARTITIONS:
            self.sequences.pop((name, partition), None)

    def initialize(self) -> Iterator[str]:
        name = self.name()
        known = f" {self.identity(name)}" if self.dice.random() < 0.4 else ""
        version = self.dice.choice(INIT_VERSIONS[1:] if known else INIT_VERSIONS)
        yield f"InitProducerId v{version} {name}{known} until settled {self.captures(name)}"
        self.forget(name)
        yield wait_for_the_end(name)

    def add(self) -> Iterator[str]:
        name, partition = self.name(), self.dice.choice(PARTITIONS)
        version = self.dice.choice((0, 2, 3))
        yield f"AddPartitionsToTxn v{version} {name} {self.identity(name)} {partition} until settled"

    def verify(self) -> Iterator[str]:
        name, partition = self.name(), self.dice.choice(PARTITIONS)
        verify = "verify " if not self.level else self.dice.choice(("verify ", ""))
        version = self.dice.choice((4, 5))
        yield f"AddPartitionsToTxn v{version} {name} {self.identity(name)} {verify}{partition} until settled"

    def produce(self) -> Iterator[str]:
        name, partition = self.dice.choice(("one", "one", "two", "null")), self.dice.choice(PARTITIONS)
        used = self.sequences.get((name, partition), 0)
        sequence = mostly(self.dice, used, 0, max(0, used - 1), used + 1)
        self.sequences[name, partition] = sequence + 1
        identity = self.identity(name)
        versions = (9, 11, 12) if name == "null" else of_clients(self.level, "Produce", 9, 11, 12)
        # A late batch of an older client is one of the differences that are meant.
        version = max(versions) if identity.endswith("-1") else self.dice.choice(versions)
        yield f"Produce v{version} {name} {identity} {partition} sequence={sequence} until settled"

    def end(self) -> Iterator[str]:
        name, outcome = self.name(), self.dice.choice(("commit", "abort"))
        version = self.dice.choice(of_clients(self.level, "EndTxn", 1, 3, 4, 5))
        captures = self.captures(name) if self.dice.random() < 0.8 else ""
        yield f"EndTxn v{version} {name} {self.identity(name)} {outcome} until settled {captures}".rstrip()
        yield wait_for_the_end(name)
        if self.dice.random() < 0.5:
            self.forget(name)

    def add_group(self) -> Iterator[str]:
        name = self.name()
        yield f"AddOffsetsToTxn v{self.dice.choice((1, 3, 4))} {name} {self.identity(name)} g until settled"

    def commit_offsets(self) -> Iterator[str]:
        name, offset = self.name(), self.dice.randrange(10)
        version = self.dice.choice(of_clients(self.level, "TxnOffsetCommit", 2, 3, 4, 5))
        yield f"TxnOffsetCommit v{version} {name} g {self.identity(name)} t-0 offset={offset} until settled"

    def look(self) -> Iterator[str]:
        yield self.dice.choice(
            (
                "DescribeTransactions v0 one two",
                "DescribeTransactions v0 one three",
                "DescribeProducers v0 t-0 t-1",
                "DescribeProducers v0 t-0 t-9 unknown-0",
                f"ListTransactions v2 {self.listed()}",
                "ListOffsets v8 committed t-0 at=-1",
                "OffsetFetch v7 g t-0",
                "log t-0",
            )
        )

    def listed(self) -> str:
        """Filters of ListTransactions; the pattern keeps the ids of other stories out."""
        more = (
            ' state_filters=["Ongoing"]',
            ' state_filters=["CompleteCommit", "CompleteAbort"]',
            " duration_filter=0",
        )
        return f"transactional_id_pattern={self.name()}{mostly(self.dice, '', *more, weight=2)}"

    def mark(self) -> Iterator[str]:
        name, outcome = self.name(), self.dice.choice(("commit", "abort"))
        version = self.dice.choice(("v1", "v2", "v2"))
        level = " transaction_version=2" if version == "v2" and self.dice.random() < 0.5 else ""
        # Behind a marker of tomorrow's epoch Kafka sends none of the coordinator's any more, which is meant to differ.
        producer_id, epoch = PRODUCERS[name]
        whose = f"{producer_id} {epoch}{mostly(self.dice, '', '-1')}"
        yield f"WriteTxnMarkers {version} {whose} {outcome}{level} {self.dice.choice(PARTITIONS)}"


# ---------------------------------------------------------------------- logs

HOUR_MS = 3_600_000
SEQUENCES = 1 << 31
ODD_BATCHES = ("flip=62", "value=null", "batches=2", "control=true", "transactional=true")


@dataclass
class Logs:
    """Batches of all kinds in two partitions, which lose their beginning, and are read from everywhere."""

    dice: Random
    level: int
    sequence: int = 0
    transactional: int = 0
    """What the transactional producer sends next, where it keeps its epoch."""
    asked: int = 1
    """The epoch of the fetch session's next request."""

    @staticmethod
    def begin(dice: Random) -> list[str]:
        kept = dice.choice(("", " message.timestamp.type=LogAppendTime", " cleanup.policy=compact"))
        first = dice.choice((0, 0, 0, SEQUENCES - 3))
        inits = ("InitProducerId v4 null -> x e", "InitProducerId v4 tid -> y f")
        session = "Fetch v12 session_epoch=0 t-0 t-1 -> s=session_id"
        return [f"topic t 2 retention.ms=-1{kept}", *inits, f"Produce v9 null x e t-0 sequence={first}", session]

    @classmethod
    def tell(cls, dice: Random, level: int) -> Iterator[str]:
        teller = cls(dice, level)
        steps: dict[Callable[[], Iterator[str]], int] = {
            teller.produce: 6,
            teller.produce_in_sequence: 5,
            teller.transaction: 2,
            teller.cut: 2,
            teller.list: 4,
            teller.fetch: 5,
            teller.fetch_in_session: 4,
            teller.epochs: 1,
        }
        return told(dice, steps)

    def partition(self) -> str:
        return mostly(self.dice, "t-0", "t-1", "t-9", "unknown-0", weight=9)

    def batch(self) -> str:
        """Fields of a batch: how many records, when, and how they are written."""
        chosen = [f"records={self.dice.randrange(1, 5)}"]
        if self.dice.random() < 0.5:
            chosen.append(f"timestamp={self.dice.randrange(1, 30) * HOUR_MS}")
        if self.dice.random() < 0.6:
            chosen.append('key="k"')
        if self.dice.random() < 0.3:
            chosen.append(f'compression="{self.dice.choice(("gzip", "snappy", "lz4", "zstd"))}"')
        if self.dice.random() < 0.1:
            chosen.append(self.dice.choice(ODD_BATCHES))
        return " ".join(chosen)

    def produce(self) -> Iterator[str]:
        version, acks = self.dice.choice((3, 5, 7, 8, 9, 11, 12)), mostly(self.dice, "", " acks=1", " acks=2")
        yield f"Produce v{version} null null null{acks} {self.partition()} {self.batch()}"

    def produce_in_sequence(self) -> Iterator[str]:
        after = (self.sequence + 1) % SEQUENCES
        self.sequence = mostly(self.dice, after, self.sequence, 0, SEQUENCES - 1, SEQUENCES - 2)
        epoch = mostly(self.dice, "e", "e+1", "e-1", weight=20)
        yield f"Produce v{self.dice.choice((9, 12))} null x {epoch} t-0 sequence={self.sequence}"

    def transaction(self) -> Iterator[str]:
        records, outcome = self.dice.randrange(1, 3), self.dice.choice(("commit", "abort"))
        if self.level:
            # Each transaction has an epoch of its own.
            yield f"Produce v12 tid y f t-0 sequence=0 records={records} until settled"
            yield f"EndTxn v5 tid y f {outcome} until settled -> y f"
        else:
            yield "AddPartitionsToTxn v3 tid y f t-0 until settled"
            yield f"Produce v11 tid y f t-0 sequence={self.transactional} records={records} until settled"
            yield f"EndTxn v4 tid y f {outcome} until settled"
            self.transactional += records
        yield wait_for_the_end("tid")

    def cut(self) -> Iterator[str]:
        name, _, index = self.partition().rpartition("-")
        before = mostly(self.dice, self.dice.randrange(8), -1, -2, 1000)
        partitions = f"[{{partition_index: {index}, offset: {before}}}]"
        yield f"DeleteRecords v2 topics=[{{name: {name}, partitions: {partitions}}}] timeout_ms=5000"

    def list(self) -> Iterator[str]:
        at = self.dice.choice((-1, -2, -3, -4, -5, -6, 0, 7 * HOUR_MS, 7 * HOUR_MS + 1, 20 * HOUR_MS, 40 * HOUR_MS))
        committed = self.dice.choice(("committed ", ""))
        yield f"ListOffsets v{self.dice.choice((5, 7, 8, 9, 11))} {committed}{self.partition()} at={at}"

    def fetch(self) -> Iterator[str]:
        committed = self.dice.choice(("committed ", ""))
        offset = mostly(self.dice, self.dice.randrange(10), -1, 1000)
        more = self.dice.choice(("", "", " bytes=1", " bytes=200", " leader_epoch=0", " leader_epoch=5"))
        version = self.dice.choice((4, 7, 10, 12, 13, 16))
        yield f"Fetch v{version} {committed}{self.partition()} offset={offset}{more if version >= 12 else ''}"

    def fetch_in_session(self) -> Iterator[str]:
        epoch = mostly(self.dice, self.asked, 0, -1, self.asked + 1, max(1, self.asked - 1), weight=16)
        self.asked = epoch + 1 if epoch == self.asked else self.asked
        session = mostly(self.dice, "s", "0", "1", weight=16)
        changed = self.dice.choice(("", "", f" t-0 offset={self.dice.randrange(8)}", " t-1", " t-9"))
        forgotten = mostly(self.dice, "", " forgotten_topics_data=[{topic: t, partitions: [1]}]", weight=6)
        committed = mostly(self.dice, "", "committed ", weight=6)
        asked = f"{committed}session_id={session} session_epoch={epoch}{forgotten}"
        yield f"Fetch v{self.dice.choice((7, 12))} {asked}{changed or ' topics=[]'}"
        if (session, epoch) == ("s", 0):
            # Nobody knows the id of the new session, so that the next request opens another.
            yield "Fetch v12 session_epoch=0 t-0 t-1 -> s=session_id"
            self.asked = 1

    def epochs(self) -> Iterator[str]:
        name, _, index = self.partition().rpartition("-")
        asked = f"{{partition: {index}, leader_epoch: {self.dice.choice((0, 0, 1, -1))}}}"
        yield f"OffsetForLeaderEpoch v4 replica_id=-1 topics=[{{topic: {name}, partitions: [{asked}]}}]"


# ---------------------------------------------------------------------- groups

MEMBERS: Mapping[str, str] = {"A": "a", "B": "b"}
"""The members, and what their epochs are called."""


@dataclass
class Groups:
    """A consumer group (KIP-848) with members that come, own, commit and go, and others that only commit."""

    dice: Random
    level: int

    @staticmethod
    def begin(_dice: Random) -> list[str]:
        joined = (f'ConsumerGroupHeartbeat v1 g "{member}" 0 t -> {epoch}' for member, epoch in MEMBERS.items())
        return ["topic t 2", "topic u", "InitProducerId v5 tid -> x e", *joined]

    @classmethod
    def tell(cls, dice: Random, level: int) -> Iterator[str]:
        teller = cls(dice, level)
        steps: dict[Callable[[], Iterator[str]], int] = {
            teller.join: 5,
            teller.beat: 9,
            teller.leave: 2,
            teller.commit: 4,
            teller.commit_in_transaction: 2,
            teller.fetch: 3,
            teller.remove: 1,
            teller.describe: 2,
        }
        return told(dice, steps)

    def member(self) -> tuple[str, str]:
        return self.dice.choice(list(MEMBERS.items()))

    def epoch(self, epoch: str) -> str:
        return f"{epoch}{mostly(self.dice, '', '-1', '+1')}"

    def join(self) -> Iterator[str]:
        member, epoch = self.member()
        topics = mostly(self.dice, "t", "u", "t u", "unknown", weight=4)
        more = mostly(self.dice, "", ' server_assignor="range"', ' instance_id="i"', ' server_assignor="none"')
        yield f'ConsumerGroupHeartbeat v1 g "{member}" 0 {topics}{more} -> {epoch}'

    def beat(self) -> Iterator[str]:
        member, epoch = self.member()
        owned = self.dice.choice(("", "", " t-0", " t-1", " t-0 t-1", " u-0"))
        topics = mostly(self.dice, "", " t u", " u")
        yield f'ConsumerGroupHeartbeat v1 g "{member}" {self.epoch(epoch)}{topics}{owned} -> {epoch}'

    def leave(self) -> Iterator[str]:
        member, _ = self.member()
        yield f'ConsumerGroupHeartbeat v1 g "{member}" {mostly(self.dice, "-1", "-2", "-3")}'

    def commit(self) -> Iterator[str]:
        member, epoch = self.member()
        whose = f' generation_id_or_member_epoch={self.epoch(epoch)} member_id="{member}"'
        version, offset = self.dice.choice((7, 8, 9, 10)), self.dice.randrange(9)
        yield f"OffsetCommit v{version} g{mostly(self.dice, whose, '', weight=4)} t-0 offset={offset}"

    def commit_in_transaction(self) -> Iterator[str]:
        member, epoch = self.member()
        whose = f'generation_id_or_member_epoch={self.epoch(epoch)} member_id="{member}"'
        version, offset = self.dice.choice(of_clients(self.level, "TxnOffsetCommit", 3, 5)), self.dice.randrange(9)
        if version < 5:
            yield "AddOffsetsToTxn v3 tid x e g until settled"
        yield f"TxnOffsetCommit v{version} tid g x e {whose} t-0 offset={offset} until settled"
        if self.dice.random() < 0.7:
            end = max(of_clients(self.level, "EndTxn", 4, 5))
            yield f"EndTxn v{end} tid x e {self.dice.choice(('commit', 'abort'))} until settled -> x e"
            yield wait_for_the_end("tid")

    def fetch(self) -> Iterator[str]:
        member, epoch = self.member()
        topics = "topics: [{name: t, partition_indexes: [0]}]"
        asked = f'{{group_id: g, member_id: "{member}", member_epoch: {self.epoch(epoch)}, {topics}}}'
        yield self.dice.choice(
            (f"OffsetFetch v9 groups=[{asked}]", "OffsetFetch v7 g stable t-0", "OffsetFetch v10 g t-0")
        )

    def remove(self) -> Iterator[str]:
        deleted = "OffsetDelete v0 group_id=g topics=[{name: t, partitions: [{partition_index: 0}]}]"
        yield self.dice.choice((deleted, "DeleteGroups v2 groups_names=[g]"))

    def describe(self) -> Iterator[str]:
        yield self.dice.choice(("ConsumerGroupDescribe v1 group_ids=[g]", "DescribeGroups v5 groups=[g]"))


def ended(*names: str) -> Iterable[str]:
    return (wait_for_the_end(name) for name in names)


KINDS: Mapping[str, Kind] = {
    "transactions": Kind(
        Transactions.begin, Transactions.tell, (*ended("one", "two"), *LOGS, "OffsetFetch v7 g stable t-0")
    ),
    "logs": Kind(Logs.begin, Logs.tell, LOGS),
    "classic": Kind(Members.begin, Members.tell, ("DescribeGroups v5 groups=[g]", "OffsetFetch v7 g stable")),
    "topics": Kind(Topics.begin, Topics.tell, ("settle", "Fetch v12 t-0", "Fetch v12 t-1")),
    "groups": Kind(Groups.begin, Groups.tell, ("ConsumerGroupDescribe v1 group_ids=[g]", "OffsetFetch v7 g t-0")),
    "sessions": Kind(FetchSessions.begin, FetchSessions.tell, fetch_session_stories.END, fetch_session_stories.SLOTS),
    "shares": Kind(ShareSessions.begin, ShareSessions.tell, share_stories.END, share_stories.SOON),
}
"""What stories may be about."""
