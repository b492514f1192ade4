"""Clients as scripts: generators that ask brokers and sleep, run side by side over one simulated world."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from heapq import heappop, heappush
from typing import Any, TypeAlias

from msgspec import Struct

from odradek.sim.world.client import Answer, SimClient
from odradek.sim.world.world import World

__all__ = ["BEFORE_ALL", "Actor", "Ask", "AskAll", "Asked", "Moment", "Script", "Sleep", "Stage"]


Moment: TypeAlias = tuple[int, int]
"""(Number of events so far, a counter): orders everything that happens, also within one millisecond."""
BEFORE_ALL: Moment = (0, 0)


class Sleep(Struct, frozen=True):
    """Wait for some virtual time."""

    milliseconds: int


class Ask(Struct, frozen=True):
    """Send a request. The script resumes with the response, or with None if none came in time."""

    node_id: int
    request: Struct
    version: int
    timeout_ms: int = 3_000


class AskAll(Struct, frozen=True):
    """Send several requests without waiting in between. The script resumes with a response or None for each."""

    node_id: int
    requests: tuple[Struct, ...]
    version: int
    timeout_ms: int = 3_000
    hangs_up: bool = True
    """Whether the client closes the connection after a timeout; otherwise it looks open to the broker."""


class Asked(Struct):
    """A request of a client and its answer, for checks and for the story."""

    name: str
    at: int
    node_id: int
    request: Struct
    version: int
    ended_at: int | None = None
    """When the client continued, with an answer or without one; None while it waits."""
    response: Any = None
    knew: int = -1
    """The metadata offset that the broker had applied when the request was sent."""
    knew_after: int = -1
    """The same, when the client continued."""
    began: Moment = BEFORE_ALL
    """When it was sent, in an order that is finer than milliseconds."""
    ended: Moment = BEFORE_ALL
    """When the client continued, in the same order."""


Script = Generator[Sleep | Ask | AskAll, Any, Any]


class Actor:
    """A running script: it has one connection to each broker, and waits for one thing at a time."""

    def __init__(self, stage: Stage, number: int, name: str, script: Script) -> None:
        self.name = name
        self.done = False
        self.number = number
        self._stage = stage
        self._world = stage.world
        self._script = script
        self._clients: dict[int, SimClient] = {}
        self._wanted: Sleep | Ask | AskAll = Sleep(0)
        self._answers: list[Answer] = []
        self._missing = 0
        """Number of answers that are still to come."""
        self._half_open: list[SimClient] = []
        self._own: list[Asked] = []
        self.wake_at = stage.world.now

    def step(self) -> None:
        """Run the script to its next wait."""
        outcome = self._outcome() if self._answers else None
        self._answers = []
        try:
            wanted = self._wanted = self._script.send(outcome)
        except StopIteration:
            self.done = True
            for client in (*self._clients.values(), *self._half_open):
                client.close()
            return
        now = self._world.now
        if isinstance(wanted, Sleep):
            self.wake_at = now + wanted.milliseconds
            return
        client = self._client(wanted.node_id)
        requests = wanted.requests if isinstance(wanted, AskAll) else (wanted.request,)
        self._missing = len(requests)
        began = self._stage.moment()
        self._answers = [client.send(request, wanted.version, then=self._answered) for request in requests]
        self.wake_at = now + wanted.timeout_ms
        knew = self._world.nodes[wanted.node_id].image.offset
        self._own = [
            Asked(self.name, now, wanted.node_id, request, wanted.version, knew=knew, began=began)
            for request in requests
        ]
        self._stage.asked += self._own

    def _answered(self) -> None:
        """An answer that it waits for has arrived or is lost."""
        self._missing -= 1
        if not self._missing:
            self._stage.ready.add(self.number)

    def _outcome(self) -> Any:
        wanted, answers = self._wanted, self._answers
        assert not isinstance(wanted, Sleep), "nobody answers who sleeps"
        for answer in answers:
            answer.then = None
        if not all(answer.arrived for answer in answers):
            # As real clients do: a request without an answer in time closes the connection; it may still arrive.
            client = self._clients.pop(wanted.node_id)
            if isinstance(wanted, Ask) or wanted.hangs_up:
                client.close()
            else:
                self._half_open.append(client)
        knew_after = self._world.nodes[wanted.node_id].image.offset
        ended = self._stage.moment()
        for asked, answer in zip(self._own, answers, strict=True):
            asked.ended_at, asked.ended = self._world.now, ended
            asked.knew_after = knew_after
            asked.response = answer.response if answer.arrived else None
        responses = [answer.response if answer.arrived else None for answer in answers]
        return responses if isinstance(wanted, AskAll) else responses[0]

    def _client(self, node_id: int) -> SimClient:
        client = self._clients.get(node_id)
        if client is None or client.closed:
            client = self._clients[node_id] = self._world.client(node_id, client_id=self.name, hands=True)
        return client


class Stage:
    """All actors of a world. Only those that can continue are stepped."""

    def __init__(self, world: World, *, after_each: Callable[[], None]) -> None:
        self.world = world
        self._after_each = after_each
        self.actors: list[Actor] = []
        self.asked: list[Asked] = []
        self.ready: set[int] = set()
        """Numbers of the actors that can continue."""
        self._alarms: list[tuple[int, int]] = []
        """(Virtual ms, actor number): when an actor continues at the latest. Out of date if it continued before."""
        self._moments = 0

    def moment(self) -> Moment:
        """The present moment."""
        self._moments += 1
        return len(self.world.facts), self._moments

    def add(self, name: str, script: Script) -> Actor:
        """Start another script."""
        actor = Actor(self, len(self.actors), name, script)
        self.actors.append(actor)
        self.ready.add(actor.number)
        return actor

    def play(self, awaited: Sequence[Actor], *, within_ms: int) -> bool:
        """Run all actors until those awaited are done, or the time is over; True if they are done."""
        world, actors, alarms, ready = self.world, self.actors, self._alarms, self.ready
        end = world.now + within_ms
        missing = {actor.number for actor in awaited if not actor.done}
        while missing:
            if world.now >= end:
                return False
            if not ready or (alarms and alarms[0][0] <= world.now):
                self._wake()
            if not ready:
                next_at = min(alarms[0][0], end) if alarms else end
                world.go_on_until(ready.__len__, within_ms=next_at - world.now)
                self._after_each()
                continue
            turns = sorted(ready)
            ready.clear()
            for number in turns:
                actor = actors[number]
                actor.step()
                if actor.done:
                    missing.discard(number)
                else:
                    heappush(alarms, (actor.wake_at, number))
        return True

    def _wake(self) -> None:
        """Mark the actors ready whose waiting time is over."""
        now, alarms, actors = self.world.now, self._alarms, self.actors
        while alarms:
            at, number = alarms[0]
            actor = actors[number]
            if actor.done or actor.wake_at != at:
                heappop(alarms)
            elif at <= now:
                heappop(alarms)
                self.ready.add(number)
            else:
                return
