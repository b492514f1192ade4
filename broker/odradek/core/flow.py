"""Flows: requests being served, as coroutines that only this kernel runs, and where they wait.

A flow may await nothing but a `Wait`.
No event loop takes part, so the order of events is the node's own,
and a request that never parks costs a function call.
A settled wait does not run its flow at once: it queues it, and the node drains the queue in order at the end of a step.
In the purgatory flows wait by key for something to happen: for a partition that becomes readable, for a transactional
id that is verified.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator, Hashable, Iterable
from heapq import heappop, heappush
from typing import Generic, TypeVar

from odradek.core.timers import Alarm

__all__ = ["Pending", "Flow", "Kernel", "Parking", "Purgatory", "Wait"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Pending:
    """The wait of a parked flow, with any type of value."""

    __slots__ = ("_flow", "_kernel", "settled")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._flow: Flow[object] | None = None
        self.settled = False

    def expire(self) -> None:
        """The deadline has come: settle it with the value that is kept for that (`Kernel.limit`)."""
        raise NotImplementedError


class Wait(Pending, Generic[T]):
    """The wait of a parked flow: settled once with a value, by an event, a deadline or a shutdown."""

    __slots__ = ("otherwise", "value")

    value: T
    """The value, once it is settled."""
    otherwise: T
    """The value that it has after its deadline, if it has one."""

    def __await__(self) -> Generator[Wait[T], None, T]:
        if not self.settled:
            yield self
        return self.value

    def settle(self, value: T) -> bool:
        """Give the value; False if the wait was settled before."""
        if self.settled:
            return False
        self.settled = True
        self.value = value
        if self._flow is not None:
            self._kernel.ready.append(self._flow)
        return True

    def expire(self) -> None:
        self.settle(self.otherwise)


class Flow(Generic[T_co]):
    """One coroutine on its way; `done` gets its result, or the exception that ended it.

    The kernel runs flows of any result: `done` of a flow gets no other value than its own coroutine's.
    """

    __slots__ = ("coroutine", "done", "finished", "waiting")

    def __init__(
        self, coroutine: Coroutine[object, None, T_co], done: Callable[[T_co | None, BaseException | None], None]
    ) -> None:
        self.coroutine = coroutine
        self.done = done
        self.finished = False
        self.waiting: Pending | None = None


class Kernel:
    """Runs flows, and keeps the deadlines of waits."""

    def __init__(self, alarm: Alarm | None = None) -> None:
        self.now = 0
        """The time of the step (ms), which whoever drives the kernel sets."""
        self.on_failure: Callable[[BaseException], None] = _ignore
        """Told of what ended a flow that nobody waits for."""
        self.ready: deque[Flow[object]] = deque()
        self._deadlines: list[tuple[int, int, Pending]] = []
        self._deadline_count = 0
        self._alarm = alarm or Alarm()

    def wait_until(self, deadline: int, otherwise: T) -> Wait[T]:
        """A new wait; at `deadline` (ms) it is settled with `otherwise` if nothing came before."""
        wait: Wait[T] = Wait(self)
        self.limit(wait, deadline, otherwise)
        return wait

    def limit(self, wait: Wait[T], deadline: int, otherwise: T) -> None:
        """Settle a wait, which has no deadline yet, at this time (ms) if nothing comes before."""
        wait.otherwise = otherwise
        self._deadline_count += 1
        heappush(self._deadlines, (deadline, self._deadline_count, wait))
        if deadline < self._alarm.at:
            self._alarm.at = deadline

    def start(
        self, coroutine: Coroutine[object, None, T], done: Callable[[T | None, BaseException | None], None]
    ) -> Flow[T]:
        """Run a coroutine until it ends or parks."""
        flow = Flow(coroutine, done)
        self.advance(flow)
        return flow

    def spawn(self, coroutine: Coroutine[object, None, None]) -> None:
        """Start a flow that nobody waits for."""
        try:
            wait = coroutine.send(None)
        except StopIteration:
            return
        except Exception as error:
            self.on_failure(error)
        else:
            self.park(Flow(coroutine, self._spawned), wait)

    def _spawned(self, value: object, error: BaseException | None) -> None:
        if error is not None:
            self.on_failure(error)

    def sleep(self, milliseconds: int) -> Wait[None]:
        """Something to await that takes this long."""
        return self.wait_until(self.now + milliseconds, None)

    def park(self, flow: Flow[T], wait: object) -> None:
        """Note what a flow that ran outside `advance` is waiting for."""
        if not isinstance(wait, Pending):
            flow.coroutine.close()
            raise TypeError(f"a flow may await only the node's Wait, not {wait!r}")
        flow.waiting = wait
        wait._flow = flow

    def advance(self, flow: Flow[object]) -> None:
        """Run a flow on to its next park or its end."""
        flow.waiting = None
        try:
            wait = flow.coroutine.send(None)
        except StopIteration as stop:
            flow.finished = True
            flow.done(stop.value, None)
        except Exception as error:
            flow.finished = True
            flow.done(None, error)
        else:
            self.park(flow, wait)

    def run_ready(self) -> None:
        """Run every flow whose wait was settled, in the order in which they were settled."""
        ready = self.ready
        while ready:
            flow = ready.popleft()
            if not flow.finished:
                self.advance(flow)

    def close(self, flow: Flow[object]) -> None:
        """End a parked flow: its `finally` clauses run, its `done` is not called."""
        if flow.finished:
            return
        flow.finished = True
        if flow.waiting is not None:
            flow.waiting.settled = True
            flow.waiting = None
        flow.coroutine.close()

    def expire(self, now: int) -> None:
        """Settle the waits whose deadline has come."""
        deadlines = self._deadlines
        while deadlines and (deadlines[0][2].settled or deadlines[0][0] <= now):
            heappop(deadlines)[2].expire()

    def deadline_of(self, wait: object) -> int | None:
        """When this wait is settled if nothing comes before (ms); looks at every deadline that there is."""
        return next((deadline for deadline, _, each in self._deadlines if each is wait), None)

    def wake_at(self) -> int | None:
        """The next deadline (ms)."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][2].settled:
            heappop(deadlines)
        return deadlines[0][0] if deadlines else None


class Purgatory:
    """Waits by key; a wait under several keys leaves all of them when the first one wakes it."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.waits: dict[Hashable, dict[int, Wait[object]]] = {}
        """Waits by key; keys without waits are absent."""

    def __len__(self) -> int:
        return sum(len(waits) for waits in self.waits.values())

    def park(self, keys: Iterable[Hashable], *, deadline: int | None) -> Parking:
        """A wait that `wake` of any of the keys settles with its value, and the deadline (ms) with None."""
        parking = self.watch()
        parking.add(keys)
        return parking if deadline is None else parking.until(deadline)

    def watch(self) -> Parking:
        """A wait for whoever looks at one thing after the other, and lets others go on in between.

        It is woken by what happens between the look at a thing, whose keys are added before, and its `await`. Who does
        not await it leaves it.
        """
        return Parking(self, self._kernel)

    def wake(self, key: Hashable, value: object = True) -> None:
        """Settle every wait under this key."""
        waits = self.waits.pop(key, None)
        if waits is not None:
            for wait in waits.values():
                wait.settle(value)

    def keys_of(self, wait: object) -> list[Hashable]:
        """The keys of this wait; searches all waits."""
        return [key for key, waits in self.waits.items() if id(wait) in waits]

    def _enter(self, keys: Iterable[Hashable], wait: Wait[object]) -> None:
        for key in keys:
            self.waits.setdefault(key, {})[id(wait)] = wait

    def _leave(self, keys: Iterable[Hashable], wait: Wait[object]) -> None:
        for key in keys:
            waits = self.waits.get(key)
            if waits is not None and waits.pop(id(wait), None) is not None and not waits:
                del self.waits[key]


class Parking:
    """One stay in the purgatory: `async with`-free, so that a flow reads `await parking` and leaves every key."""

    __slots__ = ("_kernel", "_keys", "_purgatory", "_wait")

    def __init__(self, purgatory: Purgatory, kernel: Kernel) -> None:
        self._purgatory = purgatory
        self._kernel = kernel
        self._keys: list[Hashable] = []
        self._wait: Wait[object] = Wait(kernel)

    def add(self, keys: Iterable[Hashable]) -> None:
        """From now on these wake it, too."""
        keys = tuple(keys)
        self._keys += keys
        self._purgatory._enter(keys, self._wait)

    def until(self, deadline: int) -> Parking:
        """Itself; it waits no longer than to this time (ms)."""
        self._kernel.limit(self._wait, deadline, None)
        return self

    def look_again(self) -> None:
        """Do not wait: what was looked at is not so any more."""
        self._wait.settle(True)

    def leave(self) -> None:
        """Nobody waits any more."""
        self._purgatory._leave(self._keys, self._wait)
        self._keys = []

    def __await__(self) -> Generator[Wait[object], None, object]:
        try:
            yield from self._wait.__await__()
        finally:
            self.leave()
        return self._wait.value


def _ignore(error: BaseException) -> None:
    pass
