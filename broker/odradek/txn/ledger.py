"""The state of one partition of `__transaction_state`: its folded log, and the works that follow from it.

Facts that are not in the log are kept in memory and may be lost: partitions that have acknowledged their marker, and
times of retries.

A prepared transaction owes markers until every partition has acknowledged one.
They are owed by the record that prepared the transaction, not by producer id and epoch:
clients that never bump the epoch end one transaction after the other with the same, and a late acknowledgement of one
must not count for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from odradek.core.machine import Fact, LogRecord, Machine, Parked, Proposed
from odradek.records.record import iterate_records
from odradek.txn.decision_tables import rules_of
from odradek.txn.entry import NONE, TIMEOUT_NEVER, VALUE_VERSIONS, Entry, decode_id, encode_id
from odradek.txn.partitions import TopicPartition
from odradek.txn.states import COMPLETED_STATES, EXPIRABLE, PREPARED, TxnState
from odradek.txn.works import NO_LEADER, AbortTimedOut, ExpireId, TxnWork, WriteMarkers

if TYPE_CHECKING:
    from odradek.config.table import Config
    from odradek.records.batch import Batch

__all__ = [
    "MARKERS_AT_ONCE",
    "MARKER_RETRY_BACKOFF_MS",
    "Deadlines",
    "OwedTransaction",
    "LeaderOf",
    "Ledger",
    "next_tick",
    "producer_fields",
]

T = TypeVar("T")

LeaderOf = Callable[[str, int], int | None]
"""The leader of a partition: `NO_LEADER` while there is none, None if there is no such partition."""

MARKER_RETRY_BACKOFF_MS = 50
MARKERS_AT_ONCE = 5_000
"""Number of partitions of a transaction that are processed together; others follow when the leaders have answered."""


_STALE_MAX = 64
LISTED_AT_ONCE = 1_000
"""Number of keys that are listed at a time; the next call lists more."""


class OwedTransaction(Struct):
    """An entry, the offset of its record, and the partitions that still need a marker."""

    entry: Entry
    offset: int
    owing: dict[TopicPartition, None]
    under_way: dict[int | None, tuple[TopicPartition, ...]] = {}
    """Partitions sent to a leader without a result so far."""


class ProposedEntry(Proposed[T], frozen=True):
    """A proposal of one entry, or of its removal."""

    transactional_id: str = ""
    entry: Entry | None = None
    tv: int | None = None
    facts: tuple[Fact, ...] = ()


class _Pending(Struct, frozen=True):
    """A proposal for an id that waits to be committed (Kafka's `pendingState`)."""

    offset: int
    proposed: ProposedEntry[object]


def next_tick(at: int, interval_ms: int) -> int:
    """The first run at or after `at` of a task that runs every `interval_ms`."""
    return -(-at // interval_ms) * interval_ms


class Deadlines:
    """When to look at each key again (ms); the cost is proportional to the keys that are due.

    A due key is listed once; it is listed again only after `put` or `again`.
    """

    def __init__(self) -> None:
        self._at: dict[str, tuple[int, int]] = {}
        """Time of each key, and the unique number of the `put` that set it."""
        self._heap: list[tuple[int, int, str]] = []
        """Keys to list; entries that a later `put` or `drop` has replaced are skipped."""
        self._listed: set[str] = set()
        self._count = 0

    def __len__(self) -> int:
        return len(self._at)

    def put(self, key: str, at: int) -> None:
        """Look at the key at this time, in place of an earlier one."""
        self._count += 1
        if key in self._listed:
            self._listed.remove(key)
        self._at[key] = (at, self._count)
        heappush(self._heap, (at, self._count, key))
        # Now and then is often enough: between two looks there come no more stale ones than that.
        if not self._count % _STALE_MAX and len(self._heap) > 2 * len(self._at) + _STALE_MAX:
            self._heap = [entry for entry in self._heap if self._at.get(entry[2]) == entry[:2]]
            heapify(self._heap)

    def drop(self, key: str) -> None:
        self._at.pop(key, None)
        self._listed.discard(key)

    def again(self, key: str) -> bool:
        """List a key once more that was listed and is still there; False if it was not listed."""
        if key not in self._listed:
            return False
        self.put(key, self._at[key][0])
        return True

    def due(self, now: int) -> list[str]:
        """The keys whose time has come since the last listing, by time."""
        listed: list[str] = []
        if not self._heap or self._heap[0][0] > now:
            return listed
        room = LISTED_AT_ONCE
        while room and self._heap and self._heap[0][0] <= now:
            room -= 1
            at, count, key = heappop(self._heap)
            if self._at.get(key) == (at, count):
                listed.append(key)
        self._listed.update(listed)
        return listed

    def owed(self, now: int) -> tuple[list[str], int | None]:
        """The keys that are `due`, and when there will be others."""
        heap, held = self._heap, self._at
        listed = self.due(now) if heap and heap[0][0] <= now else []
        while heap and held.get(heap[0][2]) != heap[0][:2]:
            heappop(heap)
        return listed, heap[0][0] if heap else None

    def wake_at(self) -> int | None:
        """When `due` lists something next, or None."""
        heap, held = self._heap, self._at
        while heap and held.get(heap[0][2]) != heap[0][:2]:
            heappop(heap)
        return heap[0][0] if heap else None


class Ledger(Machine["TxnWork"]):
    """The entries of a partition in one term of its leader; `TxnCoordinator` decides over it."""

    def __init__(self, *, config: Config, coordinator_epoch: int, leader_of: LeaderOf) -> None:
        super().__init__()
        self._config = config
        self._rules = rules_of(config.release)
        self._coordinator_epoch = coordinator_epoch
        self._leader_of = leader_of
        self._held: dict[str, OwedTransaction] = {}
        self._pending: dict[str, _Pending] = {}
        self._waiting: dict[str, dict[Hashable, None]] = {}
        """Requests that wait for a decision about an id."""
        self._waits_for: dict[Hashable, str] = {}
        self._tokens = 0
        self._deadlines = Deadlines()
        """When to look at each id again; its state says what it owes then."""
        self.tells = True
        """Whether facts have any reader; otherwise none are made."""

    def entry(self, transactional_id: str) -> Entry | None:
        """The committed entry of an id."""
        held = self._held.get(transactional_id)
        return None if held is None else held.entry

    def entries(self) -> Iterator[Entry]:
        """All committed entries."""
        return (held.entry for held in self._held.values())

    def beginning(self, transactional_id: str) -> Entry | None:
        """For descriptions: an id whose first record waits to be committed."""
        pending = self._pending.get(transactional_id)
        entry = None if pending is None or transactional_id in self._held else pending.proposed.entry
        return None if entry is None else replace(entry, producer_epoch=NONE)

    def owing(self, transactional_id: str) -> Collection[TopicPartition]:
        """The partitions without a marker for the ending transaction of this id."""
        held = self._held.get(transactional_id)
        return () if held is None or held.entry.state not in PREPARED else held.owing

    def aborted_at(self, transactional_id: str) -> int | None:
        """When the open transaction of this id is aborted (ms); None if it has no deadline."""
        entry = self.entry(transactional_id)
        if entry is None or entry.state in PREPARED or entry.state in EXPIRABLE or entry.timeout_ms == TIMEOUT_NEVER:
            return None
        return self._times_out_at(entry)

    @property
    def transactions_owing_markers(self) -> int:
        """Number of transactions that wait for markers."""
        return sum(held.entry.state in PREPARED for held in self._held.values())

    def _propose(self, after: Entry, reply: T, *, tv: int, facts: tuple[Fact, ...] = ()) -> Proposed[T]:
        value = self._rules.value.encode(after, VALUE_VERSIONS[tv])
        transactional_id = after.transactional_id
        record = LogRecord(encode_id(transactional_id), value)
        return ProposedEntry((record,), reply, None, transactional_id, after, tv, facts)

    def _propose_removal(self, transactional_id: str, reply: T) -> Proposed[T]:
        return ProposedEntry((LogRecord(encode_id(transactional_id), None),), reply, None, transactional_id)

    def fold_own(self, proposed: Proposed[object], base_offset: int) -> bool:
        """Adopt a proposal without reading it back from the log."""
        if type(proposed) is not ProposedEntry:
            return False
        transactional_id = proposed.transactional_id
        held, after = self._held.get(transactional_id), proposed.entry
        if after is not None:
            self._rules.transitions.check(None if held is None else held.entry, after)
        self._hold(transactional_id, after, base_offset)
        if self.tells:
            self._tell(proposed, None if held is None else held.entry)
        return True

    def awaits(self, proposed: Proposed[object], base_offset: int) -> None:
        """The id is busy until its record is committed."""
        if isinstance(proposed, ProposedEntry):
            self._pending[proposed.transactional_id] = _Pending(base_offset, proposed)

    def apply(self, batch: Batch) -> None:
        """Fold committed records: the last one of an id is its entry, a tombstone removes it."""
        if batch.is_control:
            return
        for record in iterate_records(batch):
            transactional_id = None if record.key is None else decode_id(record.key)
            if transactional_id is not None:
                self._fold(transactional_id, record.value, record.offset)

    def _fold(self, transactional_id: str, value: bytes | None, offset: int) -> None:
        pending = self._pending.get(transactional_id)
        if pending is not None and pending.offset == offset:
            del self._pending[transactional_id]
            self.fold_own(pending.proposed, offset)
        elif value is None:
            self._hold(transactional_id, None, offset)
        else:
            # Another coordinator's record: after compaction it need not follow from the one before it.
            entry = self._rules.value.decode(transactional_id, value)
            if entry is not None:
                self._hold(transactional_id, entry, offset)

    def _tell(self, proposal: ProposedEntry[object], before: Entry | None) -> None:
        after = proposal.entry
        shown = after or before
        assert shown is not None
        state_from = None if before is None else before.state
        state_to = TxnState.DEAD if after is None else after.state
        for step_from, step_to in _steps(state_from, state_to):
            fields = producer_fields(shown)
            if step_from is not None:
                fields["state_from"] = step_from.title
            fields["state_to"] = step_to.title
            if proposal.tv is not None:
                fields["tv"] = proposal.tv
            self.facts.append(Fact("state_change", fields))
        self.facts.extend(proposal.facts)

    def _wait(self, transactional_id: str) -> Parked[T]:
        """Park a request until something happens to the id; the reply is always None."""
        self._tokens += 1
        token = ("waiting", transactional_id, self._tokens)
        self._waiting.setdefault(transactional_id, {})[token] = None
        self._waits_for[token] = transactional_id
        return Parked(token)

    def abandoned(self, token: Hashable) -> None:
        transactional_id = self._waits_for.pop(token, None)
        if transactional_id is not None:
            tokens = self._waiting[transactional_id]
            del tokens[token]
            if not tokens:
                del self._waiting[transactional_id]

    def _hold(self, transactional_id: str, entry: Entry | None, offset: int) -> None:
        if self._waiting:
            for token in self._waiting.pop(transactional_id, ()):
                del self._waits_for[token]
                self.released.append((token, None))
        if entry is None:
            self._held.pop(transactional_id, None)
            self._deadlines.drop(transactional_id)
            return
        state = entry.state
        owing = dict.fromkeys(entry.partitions) if state in PREPARED else {}
        self._held[transactional_id] = OwedTransaction(entry, offset, owing)
        if state in PREPARED:
            self._deadlines.put(transactional_id, 0)
        elif state in EXPIRABLE:
            # Kafka looks at regular intervals, for ids that were not used for long.
            interval_ms = self._config.transaction_remove_expired_transaction_cleanup_interval_ms
            expires_at = entry.last_update_timestamp + self._config.transactional_id_expiration_ms
            self._deadlines.put(transactional_id, next_tick(expires_at, interval_ms))
        elif entry.timeout_ms != TIMEOUT_NEVER:
            self._deadlines.put(transactional_id, self._times_out_at(entry))
        else:
            self._deadlines.drop(transactional_id)

    def _times_out_at(self, entry: Entry) -> int:
        # Kafka looks at regular intervals, for transactions that are older than their timeout.
        interval_ms = self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        return next_tick(entry.start_timestamp + entry.timeout_ms + 1, interval_ms)

    def owed(self, now: int) -> tuple[Sequence[TxnWork], int | None]:
        """The works that are `due`, and the time of the next ones."""
        listed, wakes_at = self._deadlines.owed(now)
        if not listed:
            return (), wakes_at
        works = self._works(listed, now)
        return works, self._deadlines.wake_at()

    def due(self, now: int) -> Sequence[TxnWork]:
        """Markers of prepared transactions, aborts of those that have timed out, ids to forget."""
        return self._works(self._deadlines.due(now), now)

    def _works(self, listed: Sequence[str], now: int) -> list[TxnWork]:
        works: list[TxnWork] = []
        for transactional_id in listed:
            held = self._held[transactional_id]
            state, offset = held.entry.state, held.offset
            if state in PREPARED:
                works += self._markers(held, now)
            elif state in EXPIRABLE:
                works.append(ExpireId(("expire", transactional_id, offset), transactional_id, offset))
            else:
                works.append(AbortTimedOut(("abort", transactional_id, offset), transactional_id, offset))
        return works

    def _markers(self, held: OwedTransaction, now: int) -> list[WriteMarkers]:
        under_way = held.under_way
        owing: Iterable[TopicPartition] = held.owing
        if under_way:
            # Whoever leads it by now: a second marker may come when the next transaction is open, and end that one.
            sent = {partition for partitions in under_way.values() for partition in partitions}
            owing = [partition for partition in islice(owing, len(sent) + MARKERS_AT_ONCE) if partition not in sent]
        by_leader: dict[int | None, list[TopicPartition]] = {}
        for partition in islice(owing, MARKERS_AT_ONCE):
            by_leader.setdefault(self._leader_of(*partition), []).append(partition)
        # A partition that is merely without a leader keeps its transaction open:
        # left out, its records would join the next transaction and be committed with it.
        leaderless = by_leader.pop(NO_LEADER, None)
        if leaderless is not None:
            self._deadlines.put(held.entry.transactional_id, now + MARKER_RETRY_BACKOFF_MS)
            if len(held.owing) > MARKERS_AT_ONCE:
                # The next look is at others.
                for partition in leaderless:
                    held.owing[partition] = held.owing.pop(partition)
        elif not by_leader and not under_way:
            by_leader[None] = []
        works: list[WriteMarkers] = []
        entry = held.entry
        for leader, partitions in by_leader.items():
            if leader not in under_way:
                under_way[leader] = sending = tuple(partitions)
                works += (
                    WriteMarkers(
                        key=("markers", entry.transactional_id, held.offset, leader),
                        leader=leader,
                        transactional_id=entry.transactional_id,
                        offset=held.offset,
                        producer_id=entry.producer_id,
                        producer_epoch=entry.producer_epoch,
                        coordinator_epoch=self._coordinator_epoch,
                        commit=entry.state is TxnState.PREPARE_COMMIT,
                        transaction_version=entry.client_transaction_version,
                        partitions=sending,
                    ),
                )
        return works

    def ended(self, work: TxnWork) -> bool:
        """A work is over: its result was reported, or it is owed again."""
        if type(work) is WriteMarkers and work.transactional_id in self._held:
            held = self._held[work.transactional_id]
            if held.offset == work.offset and work.leader in held.under_way:
                del held.under_way[work.leader]
        return self._deadlines.again(work.transactional_id)

    def wake_at(self) -> int | None:
        return self._deadlines.wake_at()


def _steps(before: TxnState | None, after: TxnState) -> Iterator[tuple[TxnState | None, TxnState]]:
    """The state changes of one record: a record that opens a transaction has also completed the one before."""
    if before is after:
        return
    if before in PREPARED and after is TxnState.ONGOING:
        assert before is not None
        yield before, COMPLETED_STATES[before]
        before = COMPLETED_STATES[before]
    yield before, after


def producer_fields(entry: Entry) -> dict[str, object]:
    """The producer in a fact."""
    return {
        "transactional_id": entry.transactional_id,
        "producer_id": entry.producer_id,
        "producer_epoch": entry.producer_epoch,
    }
