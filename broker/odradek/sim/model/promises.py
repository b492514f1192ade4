"""The promises of transactions, each by the name of its breach; and the breach as an exception."""

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
        "lost write": "A read_committed consumer sees every record that its producer was told is committed (KIP-98).",
        "dirty read": "A read_committed consumer sees no record of an open transaction (KIP-98).",
        "aborted read": "No read_committed consumer sees a record that its producer was told is aborted (KIP-98).",
        "wrong records": "A consumer sees committed transactions whole, and nothing twice (KIP-98).",
        "reordered write": "Records of one producer are read in the order in which it sent them (KIP-98).",
        "gap": "All batches of a producer are in its partition from the first one on, without a gap (KIP-98).",
        "refused retry": "A batch that is sent again is answered with its offset, and not refused (KIP-98).",
        "shut out": "No late request of the last transaction keeps a producer from its open one (KIP-890).",
        "unrepeatable read": "A consumer of a growing log sees the records that one of the finished log sees (KIP-98).",
        "wrong offset": "Records stand at the offsets in the answer to their producer (KIP-98).",
        "wrong outcome": "A producer is told the outcome that the coordinator has decided on (KIP-98).",
        "wrong marker": "The marker in a partition is the one that the coordinator has decided on (KIP-890).",
        "overlapping transactions": "A producer has one transaction at a time in a partition (KIP-98).",
        "wrong transition": "A transaction is begun, decided, and then complete, in this order (KIP-98).",
        "wrong verdict": "A leader hears yes only for a partition that is in the open transaction (KIP-890).",
        "zombie": "An instance that another one has replaced does nothing more with its transactional id (KIP-98).",
        "fenced owner": "The owner of a transactional id is not refused while no other one asks for it (KIP-360).",
        "older leader": "The leaders of a partition write one after the other, and none after its successor (KIP-101).",
        "uncounted replica": "Every replica that the controller has in sync has all committed records (KIP-497).",
        "reused epoch": "An epoch that was fenced off is not given out again (KIP-360).",
        "work not done once": "A record is consumed, transformed and produced exactly once (KIP-447).",
        "slow rebalance": "A member that does not rejoin delays a rebalance for its timeout at most (KIP-62).",
        "silent member": "A member that is silent for longer than its session timeout is removed (KIP-62, KIP-848).",
        "slow write": "A replica that lags delays a write until it is out of sync, and no longer (KIP-16).",
        "older offset": "The offset of a group is the last one that was committed and not aborted (KIP-98).",
        "unstable offset": "OffsetFetch with require_stable returns no offset while a transaction holds one (KIP-447).",
        "lost offset": "An offset that counts or is held by a transaction does not expire too early (KIP-211).",
        "wrong group offset": "The offset of a group is that of its last committed transaction (KIP-98).",
        "wrong description": "A description was true at some time between its request and its response (KIP-664).",
        "wrong lookup": "The leaders and coordinators that a broker names are those in its metadata (KIP-631).",
        "stale lookup": "After the faults have ended, every broker soon names the present leaders (KIP-631).",
        "older epoch": "The leader epochs that a broker reports for a partition never go back (KIP-320, KIP-951).",
        "broken lock": "A record is with one member of a share group at a time, until its lock is over (KIP-932).",
        "kept for ever": "A record that a member of a share group keeps goes to others after its lock (KIP-932).",
        "delivered again": "A record that a member of a share group has accepted is not delivered again (KIP-932).",
        "lost dead letter": "A record that a share group rejects gets into its dead letter queue (KIP-1191).",
        "wrong dead letter": "No other record is in the dead letter queue of a share group (KIP-1191).",
        "last stable offset": "The last stable offset never goes back, nor beyond the high watermark (KIP-98).",
        "unfinished request": "After the faults have ended, every request is answered.",
        "unfinished transaction": "After the faults have ended, every transaction ends within its timeout.",
        "no progress": "After the faults have ended, every client makes progress within the timeouts.",
        "livelock": "Brokers without requests come to rest.",
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
        "wrong transition": "a transaction could end without a decision.",
        "wrong verdict": "a late record gets into a log although the leader has asked.",
        "zombie": "an instance that was replaced still changes data.",
        "fenced owner": "a healthy producer has to end.",
        "older leader": "two brokers write one partition at once, and one of them is lost.",
        "uncounted replica": "an election can lose what was committed.",
        "reused epoch": "a fenced producer passes for its successor.",
        "work not done once": "an input record has no output, or two.",
        "slow rebalance": "a whole group stands still for longer than one member may hold it up.",
        "silent member": "no member reads the partitions of a dead one.",
        "slow write": "one slow replica holds producers up without an end.",
        "wrong group offset": "a group reads records again, or skips some.",
        "older offset": "a group goes back behind what it has committed, and reads records again.",
        "unstable offset": "a group acts on an offset whose transaction may still be aborted.",
        "lost offset": "a group has no offset where it committed one, and begins anew.",
        "wrong description": "an operator acts on a state that never existed.",
        "wrong lookup": "a client is sent to a broker that cannot serve it.",
        "stale lookup": "clients keep asking a broker that cannot serve them.",
        "older epoch": "a client goes back to a leader that was replaced.",
        "broken lock": "two members of a share group work on one record at once.",
        "kept for ever": "a record of a share group is never delivered again.",
        "delivered again": "an accepted record is processed twice.",
        "lost dead letter": "a record of a share group is gone, and nobody can look at it.",
        "wrong dead letter": "a record that was processed is processed as a failure, too.",
        "last stable offset": "a read_committed consumer has seen what it should not have seen yet.",
        "unfinished request": "a client waits for ever.",
        "unfinished transaction": "read_committed consumers wait for a transaction that never ends.",
        "no progress": "a client stands still although nothing is wrong any more.",
        "livelock": "a broker uses a whole processor for nothing.",
        "failure": "a broker meets a fault of its own, and ends.",
    }
)
"""The consequence of each breach for the users of a cluster."""


class Problem(Struct, frozen=True):
    """A broken promise."""

    name: str
    """One of `PROMISES`."""
    seen: str

    @property
    def meaning(self) -> str:
        """The consequence of the breach."""
        return MEANINGS[self.name]

    @property
    def promise(self) -> str:
        """The sentence of the promise."""
        return PROMISES[self.name]


class Violation(AssertionError):
    """At least one promise was broken."""

    def __init__(self, problems: Iterable[Problem], *, at_ms: int) -> None:
        self.problems = tuple(problems)
        self.at_ms = at_ms
        """Virtual milliseconds from the start of the trouble until the breach was seen."""
        super().__init__("; ".join(f"{each.name}: {each.seen}" for each in self.problems[:5]))

    @property
    def names(self) -> frozenset[str]:
        return frozenset(each.name for each in self.problems)
