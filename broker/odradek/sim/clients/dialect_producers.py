"""Producers of a dialect: the steps of `odradek.releases.dialects.producer`, played as a script.

If the dialect keeps prepared transactions (KIP-939) they commit in two phases: the id and epoch of the prepared
transaction go to a store outside, and the next owner of the transactional id, for example after a crash, keeps the
transaction and ends it as the store says.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from msgspec import Struct

from odradek.core.internal_topics import CoordinatorKind
from odradek.releases.dialects.producer import NOBODY, Pair, Pause, Refusal, Role, Steps, run_by
from odradek.releases.dialects.producer import Ask as Wanted
from odradek.releases.dialects.producer import Producer as Core
from odradek.sim.clients.directories import Directory, Looks
from odradek.sim.clients.producers import TOPIC, MustAbort, MustRestart, Producer, Transaction, WalksAway
from odradek.sim.schedules.schedule import Send, Txn
from odradek.sim.world.actors import Ask, AskAll, Script, Sleep
from odradek.sim.world.world import World

__all__ = ["Speaker", "Store", "place_of"]

T = TypeVar("T")
PATIENCE_MS = 3_000


class Store(Struct):
    """The other participant of a two-phase commit: its commits, and the instances that may still ask for one."""

    owners: dict[str, Speaker] = {}
    prepared: dict[str, Pair] = {}


class Speaker(Producer):
    """One instance of a transactional id that uses the dialect of its brokers."""

    def __init__(self, world: World, *, kind: type[Core], careful: bool, level: int, store: Store, **how: Any) -> None:
        super().__init__(world, **how)
        self._kind = kind
        self._careful = careful
        self._level = level
        self._store = store
        self.core = self._new_core()
        self.new = self.core.adds_implicitly

    def _new_core(self) -> Core:
        how: dict[str, Any] = {"level": self._level, "careful": self._careful, "now": lambda: self.world.now}
        core = self._kind(self.world.config.release, self.tid, timeout_ms=self.timeout_ms, **how)
        if core.keeps:
            core = self._kind(self.world.config.release, self.tid, two_phase=True, **how)
        return core

    def _restart(self) -> Script:
        """Start again as a new instance, and end the transaction that the old one left."""
        while True:
            core = self.core = self._new_core()
            try:
                yield from self._run(core.init(keep=core.keeps))
                if core.keeps:
                    # From here on no other instance decides about this transactional id.
                    self._store.owners[self.tid] = self
                    yield from self._run(core.complete(self._store.prepared.get(self.tid, NOBODY)))
                return
            except (MustAbort, MustRestart):
                yield Sleep(100)

    def _transact(self, transaction: Transaction, plan: Txn) -> Script:
        core = self.core
        partitions = [(TOPIC, send.partition) for send in plan.sends]
        try:
            yield from self._run(core.begin(partitions))
            for number, send in enumerate(plan.sends):
                yield from self._send(transaction, send, number)
                yield Sleep(send.pause_ms)
            if plan.offset:
                transaction.with_offset = True
                yield from self._run(core.commit_offsets(self.group, {(TOPIC, 0): transaction.number}))
            dies = plan.ending == "walk away" or (not self.goes_on() and plan.seed % 2 == 1)
            if dies and not core.keeps:
                raise WalksAway
            if dies:
                # It would stay open for ever: a two-phase transaction has no timeout.
                raise MustRestart
        except MustAbort:
            yield from self._finish(transaction, commit=False)
            return
        yield from self._finish(transaction, commit=plan.ending == "commit", crashes=plan.seed % 3 == 0)

    def _send(self, transaction: Transaction, send: Send, number: int) -> Script:
        # Without `careful` it cannot abandon a batch that may still be written, so it waits.
        gives_up = send.gives_up and (self._careful or self.core.adds_implicitly)
        partition = (TOPIC, send.partition)
        for batch_number, records in enumerate(send.records):
            name = f"{self.name}/{transaction.number}/{send.partition}/{number}/{batch_number}"
            values = [f"{name}/{each}".encode() for each in range(records)]
            transaction.values.setdefault(partition, []).extend(values)
            steps = self.core.send(*partition, *values)
            offset = yield from self._run(
                steps, patience_ms=send.patience_ms if gives_up else PATIENCE_MS, send=send, gives_up=gives_up
            )
            transaction.told.append((partition, offset, values))

    def _finish(self, transaction: Transaction, *, commit: bool, crashes: bool = False) -> Script:
        core = self.core
        if commit and core.keeps:
            if self._store.owners.get(self.tid) is not self:
                raise MustRestart
            self._store.prepared[self.tid] = core.prepare()
            # A transaction that the store has committed is committed, whichever instance ends it.
            transaction.outcome, transaction.commit_asked = "committed", True
            if crashes:
                raise MustRestart
        transaction.commit_asked = commit
        try:
            yield from self._run(core.end(commit=commit))
        except MustAbort:
            raise MustRestart from None
        transaction.outcome = "committed" if commit else "aborted"

    def _run(
        self, steps: Steps[T], *, patience_ms: int = PATIENCE_MS, send: Send | None = None, gives_up: bool = False
    ) -> Generator[Sleep | Ask | AskAll, Any, T]:
        def serve(step: Wanted | Pause) -> Generator[Sleep | Ask | AskAll, Any, object]:
            if isinstance(step, Pause):
                yield Sleep(self.random.randint(5, 100))
                return None
            answer: object = None
            node_id = yield from place_of(step, self.directory)
            if node_id >= 0 and step.role is Role.LEADER:
                hangs_up = send is None or send.hangs_up
                [answer] = yield AskAll(node_id, (step.request,), step.version, patience_ms, hangs_up)
            elif node_id >= 0:
                answer = yield Ask(node_id, step.request, step.version)
            if answer is None:
                self._meet(type(step.request).__name__, None)
                if gives_up and step.role is Role.LEADER:
                    steps.close()
                    self.core.gave_up()
                    raise MustAbort
            return answer

        try:
            done = yield from run_by(serve, steps)
        except Refusal as refusal:
            self._note()
            raise (MustRestart if refusal.is_fatal else MustAbort) from None
        self._note()
        return done

    def _note(self) -> None:
        """Take over the id and epoch; nothing more is written with those that InitProducerId has replaced."""
        if self.core.pair == self.pair:
            return
        if not self.new:
            self.over[self.pair] = {(log.topic, log.index): log.end_offset for log in self.world.store.logs()}
        self.pair = self.core.pair


def place_of(step: Wanted, directory: Directory) -> Looks:
    """The broker that a step of a dialect's client is for; -1 if there is none now."""
    match step.role, step.key:
        case Role.LEADER, (str(topic), int(index)):
            return (yield from directory.leader((topic, index)))
        case Role.GROUP, str(group):
            return (yield from directory.coordinator(CoordinatorKind.GROUP, group))
        case Role.TRANSACTIONS, str(tid):
            return (yield from directory.coordinator(CoordinatorKind.TRANSACTION, tid))
        case Role.BROKER, str(node_id):
            return int(node_id)
        case _:
            return directory.anyone()
