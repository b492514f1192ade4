"""Those who wait for the state of a cluster: each is woken when what it waits for has changed, and is so.

A wait names one or several subjects: a transactional id, a partition, a group, a rule, a kind of events. After the
steps of brokers each subject is read once, however many wait for it; if it has another value than before, those who
wait for it are asked whether all that they wait for is so. Nothing is read while no broker makes a step.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.net.changes import Changes

if TYPE_CHECKING:
    from odradek.net.cluster import RunningCluster

__all__ = ["ClusterGone", "Condition", "NotYet", "TookTooLong", "Waits", "waits_of"]

REST = 4
"""After each look at the subjects there is none for so many times as long as it took: a fifth of the processor at most.

Looking at a few takes microseconds, and a thousand some milliseconds.
"""


class NotYet(Struct, frozen=True):
    """It is not so: what there is instead."""

    sentence: str
    nearest: object = None


class TookTooLong(Exception):
    """What was waited for did not come in time; the text is one sentence."""

    def __init__(self, pending: list[NotYet], timeout_s: float) -> None:
        super().__init__(f"After {round(timeout_s * 1000)} ms: {'; '.join(each.sentence for each in pending)}.")
        self.nearest = [each.nearest for each in pending]


class ClusterGone(LookupError):
    """The cluster was removed while somebody waited for its state."""

    def __init__(self) -> None:
        super().__init__("the cluster was removed or reset meanwhile")


class Condition(ABC):
    """Something that is to be so.

    `read` and `holds` are called often, and so they take a few microseconds; `found` and `lacking` are called once.
    """

    def __init__(self, subject: Hashable) -> None:
        self.subject = subject
        """What it is about; conditions with the same subject read the same."""

    @abstractmethod
    def read(self) -> object:
        """What decides whether it is so. Raises LookupError or RuntimeError where it can never be."""

    @abstractmethod
    def holds(self) -> bool:
        """Whether it is so. Raises what `read` raises."""

    @abstractmethod
    def found(self) -> object:
        """What there is, when it is so."""

    @abstractmethod
    def lacking(self) -> NotYet:
        """What there is instead, when it is not so."""


class _Waiter:
    """One wait, for one or several conditions."""

    def __init__(self, conditions: Sequence[Condition], loop: asyncio.AbstractEventLoop) -> None:
        self.conditions = conditions
        self.over: asyncio.Future[None] = loop.create_future()
        self.found: list[object] | None = None
        self.error: Exception | None = None

    def look(self) -> bool:
        """Whether the wait is over: everything is so, or something can never be."""
        if self.over.done():
            return True
        try:
            if all(each.holds() for each in self.conditions):
                self.found = [each.found() for each in self.conditions]
                self.over.set_result(None)
        except Exception as error:
            self.fail(error)
        return self.over.done()

    def fail(self, error: Exception) -> None:
        """End the wait with an error, if it is not over."""
        if not self.over.done():
            self.error = error
            self.over.set_result(None)

    def outcome(self) -> list[object] | None:
        """What was found, None where the wait is not over. Raises what ended it."""
        if self.error is not None:
            raise self.error
        return self.found


class _Subject:
    """Something that is waited for, and its last value."""

    def __init__(self, read: Callable[[], object]) -> None:
        self._read = read
        self._value = self._present()
        self.waiters: dict[_Waiter, None] = {}

    def _present(self) -> object:
        try:
            return self._read()
        except Exception:
            # Whoever waits for it reads it again, and is told.
            return object()

    def moves(self) -> bool:
        """Whether it has another value than at the last look."""
        before, self._value = self._value, self._present()
        return before != self._value


class Waits:
    """The open waits of one cluster, in its event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, changes: Changes) -> None:
        self._loop = loop
        self._changes = changes
        self._subjects: dict[Hashable, _Subject] = {}
        self._planned: asyncio.Handle | None = None
        self._rests_until = 0.0

    def __len__(self) -> int:
        """How many are open."""
        return len({waiter for subject in self._subjects.values() for waiter in subject.waiters})

    async def until(self, conditions: Sequence[Condition], timeout_s: float) -> list[object]:
        """Return what was found as soon as all conditions are so, in their order.

        Raises:
            ClusterGone: the cluster ends before.
            TookTooLong: after so many seconds.
            LookupError, RuntimeError: what a condition raises.
        """
        if self._changes.over:
            raise ClusterGone
        waiter = _Waiter(conditions, self._loop)
        if not waiter.look():
            await self._wait(waiter, timeout_s)
        found = waiter.outcome()
        if found is None:
            raise TookTooLong([each.lacking() for each in conditions if not each.holds()], timeout_s)
        return found

    async def _wait(self, waiter: _Waiter, timeout_s: float) -> None:
        """Return when the wait is over, or after so many seconds."""
        if timeout_s <= 0:
            return
        for each in waiter.conditions:
            subject = self._subjects.get(each.subject)
            if subject is None:
                subject = self._subjects[each.subject] = _Subject(each.read)
            subject.waiters[waiter] = None
        self._changes.watcher = self
        try:
            await asyncio.wait([waiter.over], timeout=timeout_s)
        finally:
            self._leave(waiter)
        if not waiter.over.done():
            # A look may be due that others have delayed.
            waiter.look()

    def _leave(self, waiter: _Waiter) -> None:
        for each in waiter.conditions:
            subject = self._subjects.get(each.subject)
            if subject is not None:
                subject.waiters.pop(waiter, None)
                if not subject.waiters:
                    del self._subjects[each.subject]
        if not self._subjects:
            self._changes.watcher = None

    # ------------------------------------------------------------------ a watcher of the cluster

    def changed(self) -> None:
        """Look when the brokers have done what they are doing, and not too often."""
        if self._planned is None:
            wait_s = self._rests_until - perf_counter()
            look = self._look
            self._planned = self._loop.call_later(wait_s, look) if wait_s > 0 else self._loop.call_soon(look)

    def ended(self) -> None:
        """End every wait."""
        for subject in self._subjects.values():
            for waiter in subject.waiters:
                waiter.fail(ClusterGone())

    def _look(self) -> None:
        self._planned = None
        began = perf_counter()
        moved: dict[_Waiter, None] = {}
        for subject in self._subjects.values():
            if subject.moves():
                moved |= subject.waiters
        for waiter in moved:
            waiter.look()
        ended = perf_counter()
        self._rests_until = ended + REST * (ended - began)


def waits_of(cluster: RunningCluster) -> Waits:
    """The waits that are open, or new ones; to be used in the event loop of the cluster, at once."""
    watcher = cluster.changes.watcher
    return watcher if isinstance(watcher, Waits) else Waits(cluster.loop, cluster.changes)
