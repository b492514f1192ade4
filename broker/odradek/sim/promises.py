"""What transactions promise, each promise with the name of its breach; and the breach itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct

__all__ = ["PROMISES", "Problem", "Violation"]

PROMISES: Mapping[str, str] = MappingProxyType(
    {
        "hanging transaction": "When its coordinator has ended a transaction, no partition keeps it open (KIP-890).",
        "late record": "No record is written to a transaction when the one that it was sent in is over (KIP-890).",
        "mixed transaction": "A record belongs to the transaction that it was sent in, and to no later one (KIP-890).",
        "lost write": "What a producer was told is committed, a read_committed consumer sees (KIP-98).",
        "dirty read": "A read_committed consumer sees nothing of a transaction that is open (KIP-98).",
        "aborted read": "What a producer was told is aborted, no read_committed consumer sees (KIP-98).",
        "wrong records": "A consumer sees committed transactions whole, and nothing twice (KIP-98).",
        "reordered write": "Records of one producer are read in the order in which it sent them (KIP-98).",
        "gap": "What a producer sends to a partition is there from its first batch on, without a gap (KIP-98).",
        "refused retry": "A batch that is sent again is told where it is, and not refused (KIP-98).",
        "shut out": "A producer writes to its open transaction, whatever is late of the one before (KIP-890).",
        "unrepeatable read": "Who read as it was written has seen what who reads later sees (KIP-98).",
        "wrong offset": "Records stand at the offset that their producer was told (KIP-98).",
        "wrong outcome": "What a producer was told about a transaction is what its coordinator has decided (KIP-98).",
        "wrong marker": "A partition has the marker that the coordinator has decided on (KIP-890).",
        "overlapping transactions": "A producer has one transaction at a time in a partition (KIP-98).",
        "wrong transition": "A transaction is begun, decided, and then complete, in this order (KIP-98).",
        "wrong verdict": "A leader hears yes only for a partition that is in the open transaction (KIP-890).",
        "zombie": "Who has been succeeded by another instance does nothing with its transactional id (KIP-98).",
        "fenced owner": "Who has a transactional id is not turned away while nobody else asks for it (KIP-360).",
        "older leader": "The leaders of a partition write one after the other, and none after its successor (KIP-101).",
        "uncounted replica": "What is committed every replica has that the controller has in sync (KIP-497).",
        "reused epoch": "An epoch that was fenced off is not given out again (KIP-360).",
        "work not done once": "What is consumed, transformed and produced in transactions is so once (KIP-447).",
        "slow rebalance": "Who does not join a rebalance holds the others up for its timeout, and no longer (KIP-62).",
        "silent member": "Who is not heard of for as long as its session lasts is a member no more (KIP-62, KIP-848).",
        "slow write": "A replica that lags holds a write up until it is out of sync, and no longer (KIP-16).",
        "wrong group offset": "A group has the offset of its last committed transaction (KIP-98).",
        "wrong description": "What brokers tell of transactions was so between the question and the answer (KIP-664).",
        "wrong lookup": "What a broker tells of leaders and coordinators is so in the metadata that it has (KIP-631).",
        "stale lookup": "When nothing goes wrong any more, every broker soon tells who leads what (KIP-631).",
        "older epoch": "The leader epochs that a broker tells of a partition never go back (KIP-320, KIP-951).",
        "broken lock": "A record is with one member of a share group at a time, until its lock is over (KIP-932).",
        "kept for ever": "What a member of a share group keeps goes to others when its lock is over (KIP-932).",
        "delivered again": "What a member of a share group has accepted is not delivered again (KIP-932).",
        "last stable offset": "The last stable offset never goes back, nor beyond the high watermark (KIP-98).",
        "unfinished request": "When nothing goes wrong any more, every request is answered.",
        "unfinished transaction": "When nothing goes wrong any more, every transaction ends in its time.",
        "no progress": "When nothing goes wrong any more, every client gets on within the timeouts.",
        "livelock": "Brokers come to rest when nobody asks anything of them.",
        "failure": "No broker fails by itself.",
    }
)
"""Names of breaches, after Jepsen's where it has one, and the promises that they break."""


class Problem(Struct, frozen=True):
    """A promise that was not kept."""

    name: str
    """One of `PROMISES`."""
    seen: str

    @property
    def promise(self) -> str:
        """What was promised."""
        return PROMISES[self.name]


class Violation(AssertionError):
    """Something that must hold does not."""

    def __init__(self, problems: Iterable[Problem], *, at_ms: int) -> None:
        self.problems = tuple(problems)
        self.at_ms = at_ms
        """When it was seen, in virtual milliseconds since the trouble began."""
        super().__init__("; ".join(f"{each.name}: {each.seen}" for each in self.problems[:5]))

    @property
    def names(self) -> frozenset[str]:
        """Which promises were broken."""
        return frozenset(each.name for each in self.problems)
