"""What transactions promise, each promise with the name of its breach; and the breach itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct

__all__ = ["MEANINGS", "PROMISES", "Problem", "Violation"]

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
        "older offset": "A group has the offset that was written last of those in force (KIP-98).",
        "unstable offset": "Who asks for stable offsets is told none while a transaction holds one (KIP-447).",
        "lost offset": "An offset that counts or is held by a transaction does not expire too early (KIP-211).",
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

MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "hanging transaction": "read_committed consumers of the partition stop there until somebody aborts by hand.",
        "late record": "a record that its producer has given up may be committed with another transaction.",
        "mixed transaction": "the outcome of one transaction decides about a record of another.",
        "lost write": "data that a producer may rely on is gone.",
        "dirty read": "a consumer acts on data that may still be aborted.",
        "aborted read": "a consumer acts on data that never came into force.",
        "wrong records": "exactly-once is broken: something was read in part, or twice.",
        "reordered write": "a consumer sees a later change before an earlier one.",
        "gap": "a batch is missing between two that are there.",
        "refused retry": "a producer gives up although its batch was written.",
        "shut out": "a producer cannot write to the transaction that it has begun.",
        "unrepeatable read": "two readers of one log come to different results.",
        "wrong offset": "an offset that a producer was told leads to another record.",
        "wrong outcome": "a producer takes an aborted transaction for committed, or the other way round.",
        "wrong marker": "the partitions of one transaction have different outcomes.",
        "overlapping transactions": "the outcome of one transaction decides about the records of another.",
        "wrong transition": "a transaction could come to an end that nobody decided on.",
        "wrong verdict": "a late record gets into a log although the leader has asked.",
        "zombie": "an instance that was replaced still changes data.",
        "fenced owner": "a healthy producer has to end.",
        "older leader": "two brokers write one partition at once, and one of them is lost.",
        "uncounted replica": "an election can lose what was committed.",
        "reused epoch": "a fenced producer passes for its successor.",
        "work not done once": "an input record has no output, or two.",
        "slow rebalance": "a whole group stands still for longer than one member may hold it up.",
        "silent member": "the partitions of a dead member are read by nobody.",
        "slow write": "one slow replica holds producers up without an end.",
        "wrong group offset": "a group reads records again, or skips some.",
        "older offset": "a group goes back behind what it has committed, and reads records again.",
        "unstable offset": "a group acts on an offset whose transaction may still be aborted.",
        "lost offset": "a group has no offset where it committed one, and begins anew.",
        "wrong description": "an operator acts on a state that never was.",
        "wrong lookup": "a client is sent to a broker that cannot serve it.",
        "stale lookup": "clients keep asking a broker that cannot serve them.",
        "older epoch": "a client goes back to a leader that was replaced.",
        "broken lock": "two members of a share group work on one record at once.",
        "kept for ever": "a record of a share group is never delivered again.",
        "delivered again": "an accepted record is processed twice.",
        "last stable offset": "a read_committed consumer has seen what it should not have seen yet.",
        "unfinished request": "a client waits for ever.",
        "unfinished transaction": "read_committed consumers wait for a transaction that nobody ends.",
        "no progress": "a client stands still although nothing is wrong any more.",
        "livelock": "a broker uses a whole processor for nothing.",
        "failure": "a broker meets a fault of its own, and ends.",
    }
)
"""The consequence of each breach for the users of a cluster."""


class Problem(Struct, frozen=True):
    """A promise that was not kept."""

    name: str
    """One of `PROMISES`."""
    seen: str

    @property
    def meaning(self) -> str:
        """The consequence of the breach."""
        return MEANINGS[self.name]

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
