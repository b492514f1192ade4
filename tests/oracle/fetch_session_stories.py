"""Stories of fetch sessions: what they hold, what is made again under them, and who gets a place in the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from tests.oracle.telling import mostly, told

__all__ = ["END", "SLOTS", "FetchSessions"]

SLOTS: Mapping[str, str] = {"max.incremental.fetch.session.cache.slots": "16"}
"""Two in each shard, so that a story can fill the cache."""

BY_ID, BY_NAME = (13, 15, 16, 18), (7, 11, 12)
SESSIONS: Mapping[str, tuple[int, ...]] = {"a": BY_ID, "b": BY_NAME, "c": BY_ID}
"""The sessions that are used, and the versions of their requests."""
CROWD = "dfghijkl"
"""Sessions that are only opened."""
NO_TOPIC = "00112233445566778899aabbccddeeff"
PARTITIONS = ("t-0", "t-0", "t-1", "t-2", "u-0", "u-0", "v-0 id=w", "t-0 id=p", "u-0 id=q")
"""`p` and `q` are the first ids of `t` and `u`, `w` is that of no topic; by its name `v` is there at times."""

END = tuple(f"Fetch v12 session_id={name} session_epoch=-1 topics=[]" for name in (*SESSIONS, *CROWD))
"""Nothing stays open, so that stories do not take places from one another."""


@dataclass
class FetchSessions:
    """A session is closed by the request that opens another one under its name: none is lost."""

    dice: Random
    epochs: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SESSIONS, 1))
    """Of the next request of each session."""

    @staticmethod
    def begin(_dice: Random) -> list[str]:
        opened = (
            f"Fetch v{versions[0]} session_epoch=0 t-0 t-1 u-0 -> {name}=session_id"
            for name, versions in SESSIONS.items()
        )
        nobody = " ".join(f"{name}=0" for name in CROWD)
        return [
            "topic t 2",
            "topic u",
            f'let p=id(t) q=id(u) w=hex("{NO_TOPIC}") {nobody}',
            "Produce v9 null null null t-0 u-0",
            *opened,
        ]

    @classmethod
    def tell(cls, dice: Random, _level: int) -> Iterator[str]:
        teller = cls(dice)
        steps: dict[Callable[[], Iterator[str]], int] = {
            teller.fetch: 14,
            teller.open: 3,
            teller.close: 1,
            teller.crowd: 1,
            teller.produce: 5,
            teller.cut: 1,
            teller.delete: 2,
            teller.create: 3,
            teller.grow: 1,
        }
        return told(dice, steps)

    def session(self) -> str:
        return self.dice.choice(list(SESSIONS))

    def version(self, name: str) -> int:
        versions = SESSIONS[name]
        return mostly(self.dice, self.dice.choice(versions), 12 if versions is BY_ID else 13, weight=30)

    def partitions(self, most: int) -> str:
        chosen = self.dice.sample(PARTITIONS, self.dice.randrange(1, most + 1))
        return " ".join(
            f"{name} offset={offset}" if (offset := self.dice.randrange(4)) else name for name in dict.fromkeys(chosen)
        )

    def forgotten(self) -> str:
        name, index = self.dice.choice(("t", "t", "u")), self.dice.randrange(2)
        topic_id = self.dice.choice((f"id({name})", {"t": "p", "u": "q"}[name]))
        return f" forgotten_topics_data=[{{topic: {name}, topic_id: {topic_id}, partitions: [{index}]}}]"

    def fetch(self) -> Iterator[str]:
        name = self.session()
        version, due = self.version(name), self.epochs[name]
        epoch = mostly(self.dice, due, due + 1, max(1, due - 1), weight=16)
        if epoch == due and version in SESSIONS[name]:
            self.epochs[name] = due + 1
        waits = self.dice.choice(("", "", " max_wait_ms=30 min_bytes=1", " max_bytes=100"))
        forgotten = self.forgotten() if self.dice.random() < 0.2 else ""
        committed = mostly(self.dice, "", "committed ", weight=8)
        named = self.partitions(2) if self.dice.random() < 0.5 else "topics=[]"
        asked = f"{committed}session_id={name} session_epoch={epoch}{waits}{forgotten}"
        # A word that is no field makes a request a short form, which names its topics.
        yield f"Fetch v{version} {asked.removeprefix('committed ') if named == 'topics=[]' else asked} {named}"

    def open(self) -> Iterator[str]:
        name = self.session()
        self.epochs[name] = 1
        known, follower = mostly(self.dice, name, "0", weight=12), mostly(self.dice, "", " replica_id=1", weight=6)
        closes = [] if known == name else [f"Fetch v12 session_id={name} session_epoch=-1 topics=[]"]
        yield from closes
        asked = f"session_id={known} session_epoch=0{follower if SESSIONS[name] is BY_NAME else ''}"
        yield f"Fetch v{self.dice.choice(SESSIONS[name])} {asked} {self.partitions(4)} -> {name}=session_id"

    def close(self) -> Iterator[str]:
        name = self.session()
        yield f"Fetch v{self.dice.choice(SESSIONS[name])} session_id={name} session_epoch=-1 {self.partitions(2)}"

    def crowd(self) -> Iterator[str]:
        """Fill the cache, at times as a follower, for whom consumers have to go."""
        follower = mostly(self.dice, "", " replica_id=1", weight=1)
        for name in CROWD:
            yield f"Fetch v12 session_id={name} session_epoch=0{follower} t-0 -> {name}=session_id"

    def produce(self) -> Iterator[str]:
        yield f"Produce v9 null null null {self.dice.choice(('t-0', 't-1', 'u-0', 'v-0'))}"

    def cut(self) -> Iterator[str]:
        partitions = f"[{{partition_index: {self.dice.randrange(2)}, offset: -1}}]"
        yield f"DeleteRecords v2 topics=[{{name: t, partitions: {partitions}}}] timeout_ms=5000"

    def delete(self) -> Iterator[str]:
        name = self.dice.choice("ttuuv")
        yield f"DeleteTopics v5 topic_names=[{name}] timeout_ms=5000"
        yield "settle"
        if self.dice.random() < 0.5:
            yield f"topic {name}"

    def create(self) -> Iterator[str]:
        yield self.dice.choice(("topic t 2", "topic u", "topic v"))

    def grow(self) -> Iterator[str]:
        yield "CreatePartitions v3 topics=[{name: t, count: 3, assignments: [{broker_ids: [1]}]}] timeout_ms=5000"
        yield "settle"
