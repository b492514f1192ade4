"""Shrinks a schedule: deletes and simplifies parts of it while the same promise is still broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from odradek.sim.model.promises import Violation
from odradek.sim.run import Run
from odradek.sim.schedules.schedule import Deed, Player, Schedule, Send, Txn

__all__ = ["RUNS_MAX", "shrink"]

T = TypeVar("T")
LAST, SKIPS = 4, 4
RUNS_MAX = 600
"""More runs than any finding has needed."""


class _Shrinker:
    def __init__(self, schedule: Schedule, name: str, runs_max: int) -> None:
        self.schedule = schedule
        self.runs = 0
        self._name = name
        self._runs_max = runs_max
        self._tried: set[bytes] = set()

    def takes(self, schedule: Schedule) -> bool:
        """Keep this schedule in place of the last one if it breaks the promise too; True if it does."""
        text = msgspec.json.encode(schedule)
        if schedule == self.schedule or text in self._tried or self.runs >= self._runs_max:
            return False
        self._tried.add(text)
        self.runs += 1
        if not _breaks(schedule, self._name):
            return False
        self.schedule = schedule
        return True

    def shrink(self) -> None:
        self._forget_what_was_not_begun()
        while True:
            before = self.schedule
            self._without_some(lambda: self.schedule.consumers, lambda kept: replace(self.schedule, consumers=kept))
            self._without_some(lambda: self.schedule.players, lambda kept: replace(self.schedule, players=kept))
            self._without_some(lambda: self.schedule.deeds, lambda kept: replace(self.schedule, deeds=kept))
            for number in range(len(self.schedule.players)):
                self._shrink_player(number)
            self._simplify()
            self._bring_forward()
            if self.schedule == before or self.runs >= self._runs_max:
                return

    def _forget_what_was_not_begun(self) -> None:
        """Delete the transactions that producers did not begin: a schedule has more than fit into a run."""
        run = Run(self.schedule)
        with suppress(Violation):
            run.play()
        begun = {player.name: 0 for player in self.schedule.players}
        for transaction in run.journal:
            begun[transaction.producer] = transaction.number + 1
        players = tuple(
            replace(each, transactions=each.transactions[: begun[each.name]]) for each in self.schedule.players
        )
        self.takes(replace(self.schedule, players=players))

    def _without_some(self, parts: Callable[[], tuple[T, ...]], keep: Callable[[tuple[T, ...]], Schedule]) -> None:
        """Delete all parts, then halves, quarters, … and single ones, while the promise stays broken."""
        size = len(parts())
        while size >= 1:
            at = 0
            while at < len(parts()):
                kept = parts()[:at] + parts()[at + size :]
                if not self.takes(keep(kept)):
                    at += size
            size //= 2

    def _shrink_player(self, number: int) -> None:
        def player() -> Player:
            return self.schedule.players[number]

        def with_transactions(kept: tuple[Txn, ...]) -> Schedule:
            changed = replace(player(), transactions=kept)
            return replace(self.schedule, players=_with(self.schedule.players, number, changed))

        if player().works:
            self.takes(
                replace(self.schedule, players=_with(self.schedule.players, number, replace(player(), works=False)))
            )
        if player().looks_up:
            self.takes(
                replace(self.schedule, players=_with(self.schedule.players, number, replace(player(), looks_up=False)))
            )
        self._without_some(lambda: player().transactions, with_transactions)
        for at in range(len(player().transactions)):

            def of_transaction(txn: Txn, at: int = at) -> Schedule:
                return with_transactions(_with(player().transactions, at, txn))

            def sends(at: int = at) -> tuple[Send, ...]:
                return player().transactions[at].sends

            def with_sends(kept: tuple[Send, ...], at: int = at) -> Schedule:
                return of_transaction(replace(player().transactions[at], sends=kept), at)

            self._without_some(sends, with_sends)
            for txn in _simpler_transactions(player().transactions[at]):
                self.takes(of_transaction(txn))
            for position in range(len(sends())):
                for send in _simpler_sends(sends()[position]):
                    self.takes(with_sends(_with(sends(), position, send)))

    def _bring_forward(self) -> None:
        """Keep only the last transactions, and count faults in requests in place of milliseconds."""
        schedule = self.schedule
        for count in range(1, LAST):
            players = tuple(
                replace(each, transactions=tuple(replace(txn, pause_ms=0) for txn in each.transactions[-count:]))
                for each in schedule.players
            )
            for skip, once in product(range(SKIPS), (True, False)):
                deeds = tuple(_from_the_start(deed, skip, once=once) for deed in schedule.deeds)
                if self.takes(replace(schedule, players=players, deeds=deeds)):
                    return

    def _simplify(self) -> None:
        schedule = self.schedule
        last = max((deed.at_ms for deed in schedule.deeds), default=0)
        for brokers in range(1, schedule.brokers):
            if self.takes(_with_brokers(schedule, brokers)):
                break
        for change in (
            {"slowest_ms": 0},
            {"load_ms": 0},
            {"sessions": False},
            {"heartbeats": False},
            {"sharers": min(schedule.sharers, 1)},
            {"watchers": 0},
            {"committers": min(schedule.committers, 1)},
            {"committers": 0},
            {"lookers": 0},
            {"consumers_look_up": False},
            {"id_expiration_ms": 0},
            {"producer_expiration_ms": 0},
            {"segments_ms": 0},
            {"min_insync": 1},
            {"levels": schedule.levels[:1]},
            {"duration_ms": last + 500},
            {"duration_ms": schedule.duration_ms // 2},
        ):
            self.takes(replace(self.schedule, **change))
        for number, deed in enumerate(self.schedule.deeds):
            rule = deed.rule
            if rule is None:
                continue
            if deed.then:
                self.takes(replace(self.schedule, deeds=_with(self.schedule.deeds, number, replace(deed, then=""))))
                deed = self.schedule.deeds[number]
            once = replace(deed, at_ms=0, rule=replace(rule, when=replace(rule.when, times=1)))
            for other in (replace(deed, at_ms=0), replace(once, at_ms=deed.at_ms), once):
                self.takes(replace(self.schedule, deeds=_with(self.schedule.deeds, number, other)))


def _breaks(schedule: Schedule, name: str) -> bool:
    try:
        Run(schedule).play()
    except Violation as violation:
        return name in violation.names
    return False


def _simpler_transactions(txn: Txn) -> Iterator[Txn]:
    if txn.offset:
        yield replace(txn, offset=False)
    if txn.groups:
        yield replace(txn, groups=())
        yield replace(txn, groups=txn.groups[:1])
    if txn.rests_ms:
        yield replace(txn, rests_ms=0)
    if txn.together:
        yield replace(txn, together=False)
    if txn.changes_mind:
        yield replace(txn, changes_mind=False)
    if txn.pause_ms:
        yield replace(txn, pause_ms=0)
    if txn.ending != "commit":
        yield replace(txn, ending="commit")


def _simpler_sends(send: Send) -> Iterator[Send]:
    if len(send.records) > 1:
        yield replace(send, records=send.records[:1])
    if send.records != (1,) * len(send.records):
        yield replace(send, records=(1,) * len(send.records))
    if send.gives_up:
        yield replace(send, gives_up=False, patience_ms=3_000)
    if send.pause_ms:
        yield replace(send, pause_ms=0)


def _from_the_start(deed: Deed, skip: int, *, once: bool) -> Deed:
    rule = deed.rule
    if rule is None:
        return replace(deed, at_ms=0)
    return replace(
        deed, at_ms=0, rule=replace(rule, when=replace(rule.when, skip=skip, times=1 if once else rule.when.times))
    )


def _with(parts: Sequence[T], at: int, part: T) -> tuple[T, ...]:
    return (*parts[:at], part, *parts[at + 1 :])


def _with_brokers(schedule: Schedule, brokers: int) -> Schedule:
    """The schedule with fewer brokers; faults of the others move to the last one that is left."""
    deeds = []
    for deed in schedule.deeds:
        rule = deed.rule
        if rule is not None and rule.match.broker is not None and rule.match.broker > brokers:
            deed = replace(deed, rule=replace(rule, match=replace(rule.match, broker=brokers)))
        deeds.append(deed)
    return replace(schedule, brokers=brokers, replicas=min(schedule.replicas, brokers), deeds=tuple(deeds))


def shrink(schedule: Schedule, name: str, *, runs_max: int = RUNS_MAX) -> tuple[Schedule, int]:
    """The smallest schedule found that breaks the promise of this name, and the number of runs that it took.

    Raises ValueError if `schedule` itself does not break it.
    """
    if not _breaks(schedule, name):
        raise ValueError(f"the schedule has no {name} to be shrunk to")
    shrinker = _Shrinker(schedule, name, runs_max)
    shrinker.shrink()
    return shrinker.schedule, shrinker.runs
