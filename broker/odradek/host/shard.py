"""A partition with the machine that folds it: the one way in which a coordinator's decision reaches its log.

`carry_out` takes what the machine has decided: it appends, folds what is committed, and answers.
After each change the pump starts one flow for each work that has come to be owed and that is not already under way:
a repeated request can therefore never leave two loops working on the same thing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast

from msgspec import Struct

from odradek.core.machine import Answered, Awaited, Decision, Machine, Parked, Proposed, Refused
from odradek.host.replication import Replication
from odradek.records.compression import Compression
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.core.clock import Clock
    from odradek.core.flow import Kernel, Purgatory
    from odradek.core.timers import Pumps
    from odradek.core.turns import Turns
    from odradek.host.counters import Counters
    from odradek.host.facts import Facts
    from odradek.host.settings import Settings
    from odradek.log.partition import Guard, Partition

__all__ = ["Folds", "Shard", "ShardParts", "Work"]


STARTED_AT_ONCE = 20
"""How many works are started before others may go on; what expires often does so with many others, and is written."""
ANSWERED = "answered"
"""First part of the purgatory key of requests that wait for their coordinator's machine."""
NESTED_MAX = 3
"""How deep a work may start others that have come due by what it has done."""


class Folds(Protocol):
    """A shard, for whoever appends to its partition."""

    def advance(self) -> None:
        """Fold what has been committed since."""


class ShardParts(Struct, frozen=True):
    """The parts of a broker that a coordinator of any kind touches."""

    clock: Clock
    settings: Settings
    kernel: Kernel
    pumps: Pumps
    purgatory: Purgatory
    turns: Turns
    facts: Facts
    counters: Counters
    replication: Replication
    appended: Callable[[Partition, Folds | None], None]
    """Says that something was appended: whoever waits for it is woken, and the shard over the partition folds it."""


T = TypeVar("T")


class Work(Protocol):
    """Something that a machine owes; no two works with one key are under way at once."""

    @property
    def key(self) -> Hashable: ...


W = TypeVar("W", bound=Work)


class Shard(ABC, Generic[W]):
    """A machine over a partition that this node leads; each kind of machine has a subclass that does its works."""

    def __init__(self, parts: ShardParts, partition: Partition, folding: Machine[W], *, mark: int = 0) -> None:
        self.parts = parts
        self._clock = parts.clock
        self._settings = parts.settings
        self._kernel = parts.kernel
        self._pumps = parts.pumps
        self._purgatory = parts.purgatory
        self._turns = parts.turns
        self._facts = parts.facts
        self._counters = parts.counters
        self._replication = parts.replication
        self._appended = parts.appended
        self.partition = partition
        self.loading = True
        self.resigned = False
        self.compression = Compression.NONE
        """Of the batches that it writes."""
        self._folding = folding
        """The machine, whatever its kind: it is asked what it owes, and given what is committed."""
        self._mark = mark
        """Where the machine goes on to fold."""
        self._replaying = False
        self._parked: set[Hashable] = set()
        """The tokens of the flows that wait in the purgatory for the machine to answer."""
        self._working: set[Hashable] = set()
        self._nested = 0

    @abstractmethod
    async def perform(self, work: W) -> None:
        """Do one work that the machine owes."""

    async def carry_out(self, decision: Decision[T], *, guard: Guard | None = None) -> T | Refused:
        """What a decision leads to: the reply, or `Refused`. A guard is the proof of a verified transaction."""
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
        """Append the records and fold them: all replicas acknowledge at once, so that they are committed."""
        appended = self.partition.append_coordinator(
            proposed.records,
            now=self._clock.now,
            producer=proposed.transactional,
            guard=guard,
            verification_enabled=proposed.transactional is not None and self._settings.verifies_offsets,
            compression=self.compression,
        )
        if isinstance(appended, Refused):
            self.settle()
            return appended
        base_offset = appended.base_offset
        if base_offset == self._mark and self._folding.fold_own(proposed, base_offset):
            self._mark = appended.next_offset
        self._appended(self.partition, self)
        return proposed.reply

    async def _propose_and_wait(self, proposed: Proposed[T], guard: Guard | None) -> T | Refused:
        """Append the records, and give the reply when the replicas in sync have them: by then they are folded."""
        partition = self.partition
        deadline = self._clock.now + self.write_timeout_ms
        appended = partition.append_coordinator(
            proposed.records,
            now=self._clock.now,
            producer=proposed.transactional,
            guard=guard,
            verification_enabled=proposed.transactional is not None and self._settings.verifies_offsets,
            compression=self.compression,
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
        """How long a record may take to be committed before whoever asked is told to ask again."""
        return self._settings.config.request_timeout_ms

    def advance(self) -> None:
        """Fold what has been committed since, whoever appended it, and do what that brings about."""
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
        """Replay the log, then take up the duties that it shows.

        What the leader before has written may not be committed yet; whatever is decided has to follow from it.
        """
        self._replaying = True
        self.advance()

    def settle(self) -> None:
        """Give released replies to the flows that wait for them, pass facts on, and start the work that is owed.

        One flow for each work that is not under way; the machine says when to ask it again.
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
        """Leadership is gone: everybody who waits is sent to the next coordinator."""
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
        """Append for somebody who is parked: the machine answers, unless the records are lost."""
        outcome = await self.carry_out(proposed)
        if isinstance(outcome, Refused):
            self._purgatory.wake(self._key(token), outcome)

    async def _park(self, token: Hashable, proposed: Proposed[None] | None = None) -> object:
        self._parked.add(token)
        parking = self._purgatory.park([self._key(token)], deadline=None)
        self.settle()
        if proposed is not None:
            self._kernel.spawn(self._propose_for(token, proposed))
        try:
            return await parking
        finally:
            if token in self._parked:
                self._parked.discard(token)
                self._folding.abandoned(token)
                self.settle()

    def _answer(self, token: Hashable, reply: object) -> None:
        self._parked.discard(token)
        self._purgatory.wake(self._key(token), reply)

    def _key(self, token: Hashable) -> Hashable:
        return (ANSWERED, *self.partition.key, token)
