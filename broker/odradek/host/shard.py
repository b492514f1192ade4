"""A partition with the machine that folds it: the only way of a coordinator's decision to its log.

`carry_out` takes a decision of the machine: it appends, folds committed records, and answers. After each change the
pump
starts one flow for each work that is owed and not under way: so a repeated request never makes two flows do the same
work.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast

from odradek.core.internal_topics import partition_for
from odradek.core.machine import Answered, Awaited, Decision, LogRecord, Machine, Parked, Proposed, Refused
from odradek.records.batch import NO_SEQUENCE
from odradek.records.compression import Compression
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.host.host import Host
    from odradek.host.replication import Replication
    from odradek.log.partition import Guard, Partition
    from odradek.metadata.image import TopicImage

__all__ = ["Coordinator", "CoordinatorsOf", "Shard", "Work"]


STARTED_AT_ONCE = 20
"""Number of works that start between two turns; expirations often come in great numbers, and each is written."""
ANSWERED = "answered"
"""First part of the purgatory key of requests that wait for their coordinator's machine."""
NESTED_MAX = 3
"""How deep works may start others within one call."""


class Coordinator(ABC):
    """A machine over a partition that this broker leads."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.loading = True
        self.resigned = False

    @abstractmethod
    def load(self) -> None:
        """Replay the log, then start the works that the state owes."""

    @abstractmethod
    def advance(self) -> None:
        """Fold newly committed records, and act on the result."""

    @abstractmethod
    def resign(self) -> None:
        """Leadership is lost: parked requests are sent to the next coordinator."""

    async def topic_deleted(self, topic: TopicImage) -> None:  # noqa: B027 - most kinds keep nothing of topics
        """Remove everything about a deleted topic."""


_LOADING = Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
_NOT_HERE = Refused(ErrorCode.NOT_COORDINATOR)
C_co = TypeVar("C_co", bound=Coordinator, covariant=True)


class CoordinatorsOf(Generic[C_co]):
    """The coordinators of one kind, by the key of a group or transactional id."""

    def __init__(
        self,
        topic: str,
        node: Host,
        make: Callable[[Partition], C_co],
        load: Callable[[Coordinator], None],
        wake: Callable[[str, int], Partition | None],
        nameless: Refused | None = None,
    ) -> None:
        """`wake` leads a partition that is to be led from its first use on.

        `nameless`: the refusal of an empty key, before the look-up; None if it is a key like others."""
        self._topic = topic
        self._nameless = nameless
        self._metadata = node.metadata
        self._partitions = node.partitions
        self._make = make
        self._load = load
        self._wake = wake
        self._made: dict[int, C_co] = {}

    def of(self, key: str) -> C_co | Refused:
        """The coordinator of a key, if it is here and loaded.

        Only FindCoordinator answers that the topic is missing, and has it created. A deposed leader without the new
        metadata must
        refuse, because its state may be old.
        """
        if not key and self._nameless is not None:
            return self._nameless
        topic = self._metadata.image.topics.get(self._topic)
        if topic is None:
            return _NOT_HERE
        index = partition_for(key, len(topic.partitions))
        partition = self._partitions.get((self._topic, index)) or self._wake(self._topic, index)
        if partition is None or not partition.is_leader:
            return _NOT_HERE
        coordinator = self._made.get(index) or self.begin(partition)
        return _LOADING if coordinator.loading else coordinator

    def led(self) -> list[C_co]:
        """Every coordinator whose partition this broker still leads."""
        return [each for each in self._made.values() if each.partition.is_leader]

    def all(self) -> list[C_co]:
        """Every coordinator of this kind."""
        return list(self._made.values())

    def at(self, index: int) -> C_co | None:
        """The coordinator over this partition, if there is one."""
        return self._made.get(index)

    def begin(self, partition: Partition) -> C_co:
        """Make the coordinator over a partition, and have it replay its log."""
        made = self._made[partition.index] = self._make(partition)
        self._load(made)
        return made

    def end(self, index: int) -> None:
        """Leadership of this partition is lost."""
        coordinator = self._made.pop(index, None)
        if coordinator is not None:
            coordinator.resign()


T = TypeVar("T")


class Work(Protocol):
    """A work that a machine owes; of works with one key only one is under way at a time.

    A Protocol: the works of each machine are values in the room of their subject.
    """

    @property
    def key(self) -> Hashable: ...


W = TypeVar("W", bound=Work)


class Shard(Coordinator, Generic[W]):
    """A machine over a partition that this node leads; a subclass for each kind does its works."""

    def __init__(
        self,
        node: Host,
        replication: Replication,
        appended: Callable[[Partition, Coordinator | None], None],
        partition: Partition,
        folding: Machine[W],
        *,
        mark: int = 0,
    ) -> None:
        super().__init__(partition)
        self._clock = node.clock
        self._settings = node.settings
        self._kernel = node.kernel
        self._pumps = node.pumps
        self._purgatory = node.purgatory
        self._turns = node.turns
        self._facts = node.facts
        self._counters = node.counters
        self._replication = replication
        self._appended = appended
        self.compression = Compression.NONE
        """The compression of batches that it writes."""
        self.base_sequence = NO_SEQUENCE
        """The sequence of batches that it writes, with a producer id and without one."""
        self._folding = folding
        """The machine, whatever its kind: it lists works, and folds committed batches."""
        self._mark = mark
        """The next offset to fold."""
        self._replaying = False
        self._parked: dict[Hashable, None] = {}
        """Tokens of flows that wait for the machine's answer, oldest first."""
        self._working: set[Hashable] = set()
        self._nested = 0

    @abstractmethod
    async def perform(self, work: W) -> None:
        """Do one work of the machine."""

    async def carry_out(self, decision: Decision[T], *, guard: Guard | None = None) -> T | Refused:
        """Carry out a decision: the reply, or `Refused`. A guard is the proof of a verified transaction."""
        match decision:
            case Proposed():
                if self.partition.log.mark is not None:
                    return await self._propose_and_wait(decision, guard)
                return self.propose(decision, guard=guard)
            case Parked(token=token):
                # A machine releases a token with a reply of the kind that it promised, or with a refusal.
                return cast("T | Refused", await self._park(token))
            case Awaited(records=records, token=token):
                return cast("T | Refused", await self._park(token, Proposed(records, None)))
            case Answered(reply=reply):
                self.settle()
                return reply
            case Refused():
                self.settle()
                return decision

    def propose(self, proposed: Proposed[T], *, guard: Guard | None = None) -> T | Refused:
        """Append the records and fold them: all replicas acknowledge at once, so they are committed."""
        appended = self.partition.append_coordinator(
            proposed.records,
            now=self._clock.now,
            producer=proposed.transactional,
            guard=guard,
            verification_enabled=proposed.transactional is not None and self._settings.verifies_offsets,
            compression=self.compression,
            base_sequence=self.base_sequence,
        )
        if isinstance(appended, Refused):
            self.settle()
            return appended
        base_offset = appended.base_offset
        if base_offset == self._mark and self._folding.fold_own(proposed, base_offset):
            self._mark = appended.next_offset
        self._appended(self.partition, self)
        return proposed.reply

    def write(self, records: Sequence[LogRecord]) -> Refused | None:
        """Append records without a decision of the machine, and fold them when they are committed."""
        appended = self.partition.append_coordinator(records, now=self._clock.now, base_sequence=self.base_sequence)
        if isinstance(appended, Refused):
            return appended
        self._appended(self.partition, self)
        return None

    async def _propose_and_wait(self, proposed: Proposed[T], guard: Guard | None) -> T | Refused:
        """Append the records, and reply when the replicas in sync have them: they are folded then."""
        partition = self.partition
        deadline = self._clock.now + self.write_timeout_ms
        appended = partition.append_coordinator(
            proposed.records,
            now=self._clock.now,
            producer=proposed.transactional,
            guard=guard,
            verification_enabled=proposed.transactional is not None and self._settings.verifies_offsets,
            compression=self.compression,
            base_sequence=self.base_sequence,
        )
        if isinstance(appended, Refused):
            self.settle()
            return appended
        self._folding.awaits(proposed, appended.base_offset)
        self._appended(partition, self)
        error = await self._replication.committed(partition, appended.next_offset, deadline=deadline)
        return proposed.reply if error is ErrorCode.NONE else Refused(error)

    @property
    def write_timeout_ms(self) -> int:
        """How long (ms) a record may take to be committed before its request fails with a retriable error."""
        return self._settings.config.request_timeout_ms

    def advance(self) -> None:
        # What was adopted as it was proposed need not be looked for.
        if self._mark < self.partition.log.end_offset:
            for batch in self.partition.committed_since(self._mark):
                self._mark = batch.next_offset
                self._folding.apply(batch)
        if self._replaying and not self.partition.is_new:
            self._replaying = self.loading = False
            self._counters.coordinator_loads += 1
        self.settle()

    def load(self) -> None:
        # What the leader before has written may not be committed yet; whatever is decided has to follow from it.
        self._replaying = True
        self.advance()

    def settle(self) -> None:
        """Send released replies, emit facts, and start owed work.

        One flow for each work that is not under way; the machine says when to ask again.
        """
        machine = self._folding
        if machine.released:
            released, machine.released = machine.released, []
            for token, reply in released:
                # Nobody waits for the token of a client that has gone away.
                if token in self._parked:
                    self._answer(token, reply)
        if machine.facts:
            facts, machine.facts = machine.facts, []
            self._facts.emit(facts)
        if self.resigned or self.loading:
            return
        works, wakes_at = machine.owed(self._clock.now)
        if works:
            self._start_due(works)
        if wakes_at is not None:
            planned = self._pumps.planned.get(self)
            if planned is None or wakes_at < planned[0]:
                self._pumps.by(self, wakes_at)

    pump = settle

    def _start_due(self, works: Sequence[W]) -> None:
        at_once = STARTED_AT_ONCE if self._nested < NESTED_MAX else 0
        later: list[tuple[Hashable, W]] = []
        self._nested += 1
        for work in works:
            key = work.key
            if key not in self._working:
                self._working.add(key)
                if at_once:
                    at_once -= 1
                    self._kernel.spawn(self._work(key, work))
                else:
                    later.append((key, work))
        self._nested -= 1
        if later:
            self._kernel.spawn(self._start(later))

    def resign(self) -> None:
        self.resigned = True
        for token in list(self._parked):
            self._answer(token, Refused(ErrorCode.NOT_COORDINATOR))

    async def _start(self, owed: list[tuple[Hashable, W]]) -> None:
        """Start very many works, a few in each turn."""
        for key, work in owed:
            await self._turns.next()
            if self.resigned:
                return
            self._kernel.spawn(self._work(key, work))

    async def _work(self, key: Hashable, work: W) -> None:
        try:
            await self.perform(work)
        finally:
            self._working.discard(key)
            more = self._folding.ended(work)
        if more and not self.resigned:
            self._pumps.soon(self)

    async def _propose_for(self, token: Hashable, proposed: Proposed[None]) -> None:
        """Append for a parked request: the machine answers it, unless the records are lost."""
        outcome = await self.carry_out(proposed)
        if isinstance(outcome, Refused):
            self._purgatory.wake(self._key(token), outcome)

    async def _park(self, token: Hashable, proposed: Proposed[None] | None = None) -> object:
        self._parked[token] = None
        parking = self._purgatory.park([self._key(token)], deadline=None)
        self.settle()
        if proposed is not None:
            self._kernel.spawn(self._propose_for(token, proposed))
        try:
            return await parking
        finally:
            if token in self._parked:
                del self._parked[token]
                self._folding.abandoned(token)
                self.settle()

    def _answer(self, token: Hashable, reply: object) -> None:
        self._parked.pop(token, None)
        self._purgatory.wake(self._key(token), reply)

    def _key(self, token: Hashable) -> Hashable:
        return (ANSWERED, *self.partition.key, token)
