"""A partition with the machine that folds it: the one way in which a coordinator's decision reaches its log.

`ask` decides, appends, waits for the commit, and answers.
After each change the pump starts one flow for each work that has come to be owed and that is not already under way:
a repeated request can therefore never leave two loops working on the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from odradek.log.machine import Answered, Decision, Machine, Parked, Proposed, Refused
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.log.partition import Guard, Partition
    from odradek.node.flow import Wait
    from odradek.node.node import Node

__all__ = ["Perform", "Shard"]

M = TypeVar("M", bound=Machine)
Perform = Callable[["Shard[Any]", Any], Coroutine[Any, Any, None]]
"""Does one work that a machine owes."""


class Shard(Generic[M]):
    """A machine over a partition that this node leads."""

    def __init__(self, node: Node, partition: Partition, machine: M, perform: Perform, *, mark: int = 0) -> None:
        self.node = node
        self.partition = partition
        self.machine = machine
        self.loading = True
        self.resigned = False
        self._perform = perform
        self._mark = mark
        """Where the machine goes on to fold."""
        self._parked: dict[Hashable, Wait[Any]] = {}
        self._working: set[Hashable] = set()

    async def ask(self, decide: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Decide, and carry the decision out: the reply, or `Refused`."""
        return await self.carry_out(decide(*args, **kwargs))

    async def carry_out(self, decision: Decision[Any], *, guard: Guard | None = None) -> Any:
        """What a decision leads to: the reply, or `Refused`. A guard is the proof of a verified transaction."""
        match decision:
            case Proposed():
                return self.propose(decision, guard=guard)
            case Parked(token=token):
                return await self._park(token)
            case Answered(reply=reply):
                self.settle()
                return reply
            case Refused():
                self.settle()
                return decision

    def propose(self, proposed: Proposed[Any], *, guard: Guard | None = None) -> Any:
        """Append the records and fold them; with one copy of the log they are committed at once."""
        appended = self.partition.append_coordinator(
            proposed.records,
            now=self.node.now,
            producer=proposed.transactional,
            guard=guard,
            verification_enabled=self.node.verifies_offsets,
        )
        if isinstance(appended, Refused):
            self.settle()
            return appended
        self.node.appended(self.partition)
        return proposed.reply

    def advance(self) -> None:
        """Fold what has been committed since, whoever appended it, and do what that brings about."""
        for batch in self.partition.committed_since(self._mark):
            self._mark = batch.next_offset
            self.machine.apply(batch)
        self.settle()

    def load(self) -> None:
        """Replay the log, then take up the duties that it shows."""
        self.advance()
        self.loading = False
        self.node.metrics.coordinator_loads += 1
        self.settle()

    def settle(self) -> None:
        """Give released replies to the flows that wait for them, pass facts on, and start the work that is owed."""
        machine = self.machine
        if machine.released:
            released, machine.released = machine.released, []
            for token, reply in released:
                # Nobody waits for the token of a client that has gone away.
                wait = self._parked.pop(token, None)
                if wait is not None:
                    wait.settle(reply)
        if machine.facts:
            facts, machine.facts = machine.facts, []
            self.node.emit(facts)
        self.pump()

    def pump(self) -> None:
        """Start one flow for each work that is owed and not under way; ask again when the machine says so."""
        if self.resigned or self.loading:
            return
        for work in self.machine.due(self.node.now):
            key = getattr(work, "key", work)
            if key not in self._working:
                self._working.add(key)
                self.node.spawn(self._work(key, work))
        self.node.wake_shard_at(self, self.machine.wake_at())

    def resign(self) -> None:
        """Leadership is gone: everybody who waits is sent to the next coordinator."""
        self.resigned = True
        parked, self._parked = self._parked, {}
        for wait in parked.values():
            wait.settle(Refused(ErrorCode.NOT_COORDINATOR))

    async def _work(self, key: Hashable, work: Any) -> None:
        try:
            await self._perform(self, work)
        finally:
            self._working.discard(key)
            self.machine.ended(work)
        if not self.resigned:
            self.node.pump_soon(self)

    async def _park(self, token: Hashable) -> Any:
        self._parked[token] = wait = self.node.kernel.wait()
        self.settle()
        try:
            return await wait
        finally:
            if self._parked.pop(token, None) is not None:
                self.machine.abandoned(token)
                self.settle()
