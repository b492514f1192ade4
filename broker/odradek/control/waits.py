"""Waits for the state of a cluster: each is woken when its subject has changed and its condition holds.

A wait names one or several subjects: a transactional id, a partition, a group, a rule, a kind of events. After steps of
brokers each subject is read once, however many waits name it; if its value has changed, the conditions of those waits
are checked. Nothing is read while no broker makes a step.
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
"""After reading the subjects none is read for this multiple of the time that it took: a fifth of the processor at most.

Reading a few takes microseconds, a thousand some milliseconds.
"""


class NotYet(Struct, frozen=True):
    """The condition does not hold: the state in its place."""

    sentence: str
    nearest: object = None


class TookTooLong(Exception):
    """The condition was not met in time; the text is one sentence."""

    def __init__(self, pending: list[NotYet], timeout_s: float) -> None:
        super().__init__(f"After {round(timeout_s * 1000)} ms: {'; '.join(each.sentence for each in pending)}.")
        self.nearest = [each.nearest for each in pending]


class ClusterGone(LookupError):
    """The cluster was removed during a wait."""

    def __init__(self) -> None:
        super().__init__("the cluster was removed or reset meanwhile")


class Condition(ABC):
    """A condition on the state of a cluster.

    `read` and `holds` are called often, so they take a few microseconds; `found` and `lacking` are called once.
    """

    def __init__(self, subject: Hashable) -> None:
        self.subject = subject
        """The subject; conditions with the same subject read the same value."""

    @abstractmethod
    def read(self) -> object:
        """The value that decides the condition. Raises LookupError or RuntimeError if the condition can never hold."""

    @abstractmethod
    def holds(self) -> bool:
        """Whether the condition holds for this value. Raises what `read` raises."""

    @abstractmethod
    def found(self) -> object:
        """The state that met the condition."""

    @abstractmethod
    def lacking(self) -> NotYet:
        """The state in place of it, while the condition does not hold."""


class _Waiter:
    """One wait, for one or several conditions."""

    def __init__(self, conditions: Sequence[Condition], loop: asyncio.AbstractEventLoop) -> None:
        self.conditions = conditions
        self.over: asyncio.Future[None] = loop.create_future()
        self.found: list[object] | None = None
        self.error: Exception | None = None

    def look(self) -> bool:
        """Whether the wait is over: all conditions hold, or one can never hold."""
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
        """The states that were found; None while the wait goes on. Raises the error that ended it."""
        if self.error is not None:
            raise self.error
        return self.found


class _Subject:
    """A subject of waits, and its last value."""

    def __init__(self, read: Callable[[], object]) -> None:
        self._read = read
        self._value = self._present()
        self.waiters: dict[_Waiter, None] = {}

    def _present(self) -> object:
        try:
            return self._read()
        except Exception:
            # Each of its waits reads it again, and gets the error.
            return object()

    def moves(self) -> bool:
        """Whether the value has changed since the last time."""
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
        """The number of open waits."""
        return len({waiter for subject in self._subjects.values() for waiter in subject.waiters})

    async def until(self, conditions: Sequence[Condition], timeout_s: float) -> list[object]:
        """Return the states that meet the conditions, in their order, as soon as all hold.

        Raises ClusterGone if the cluster ends before, TookTooLong after this time, and the errors of conditions.
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
        """Return when the wait is over, or after this many seconds."""
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
            # Other waits may have delayed the next look at the subjects until now.
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

    def changed(self) -> None:
        """Read the subjects after the current steps of brokers, and not too often."""
        if self._planned is None:
            wait_s = self._rests_until - perf_counter()
            look = self._look
            self._planned = self._loop.call_later(wait_s, look) if wait_s > 0 else self._loop.call_soon(look)

    def ended(self) -> None:
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
    """The open waits of the cluster; created at the first call. For the event loop of the cluster only."""
    watcher = cluster.changes.watcher
    return watcher if isinstance(watcher, Waits) else Waits(cluster.loop, cluster.changes)
