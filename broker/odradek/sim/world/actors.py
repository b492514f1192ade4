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
"""How many events brokers had told by then, and a number that grows: what comes later is greater."""
BEFORE_ALL: Moment = (0, 0)


class Sleep(Struct, frozen=True):
    """Do nothing for a while."""

    milliseconds: int


class Ask(Struct, frozen=True):
    """Send a request; what comes back is the response, or None if there was none in time."""

    node_id: int
    request: Struct
    version: int
    timeout_ms: int = 3_000


class AskAll(Struct, frozen=True):
    """Send requests at once, one behind the other; a response or None for each comes back."""

    node_id: int
    requests: tuple[Struct, ...]
    version: int
    timeout_ms: int = 3_000
    hangs_up: bool = True
    """Whether the broker learns that nobody waits any more, or the connection seems to stand."""


class Asked(Struct):
    """A request that somebody has sent, for who tells the story."""

    name: str
    at: int
    node_id: int
    request: Struct
    version: int
    ended_at: int | None = None
    """When the client went on: with its answer, or without one."""
    response: Any = None
    knew: int = -1
    """The offset of the metadata that the broker had when it was asked."""
    knew_after: int = -1
    """The same when the client went on."""
    began: Moment = BEFORE_ALL
    """When it was sent; many things happen in one millisecond."""
    ended: Moment = BEFORE_ALL
    """When the client went on."""


Script = Generator[Sleep | Ask | AskAll, Any, Any]


class Actor:
    """One script on its way; it has one connection to each broker, and waits for one thing at a time."""

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
        """So many answers are neither here nor lost."""
        self._half_open: list[SimClient] = []
        self._own: list[Asked] = []
        self.wake_at = stage.world.now

    def step(self) -> None:
        """Go on to the next thing to wait for."""
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
        """An answer to what it waits for has come, or will never come."""
        self._missing -= 1
        if not self._missing:
            self._stage.ready.add(self.number)

    def _outcome(self) -> Any:
        wanted, answers = self._wanted, self._answers
        assert not isinstance(wanted, Sleep), "nobody answers who sleeps"
        for answer in answers:
            answer.then = None
        if not all(answer.arrived for answer in answers):
            # As real clients do: what has no answer in time costs the connection; the request may still arrive.
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
    """All actors of a world. Who has nothing to go on with is not looked at."""

    def __init__(self, world: World, *, after_each: Callable[[], None]) -> None:
        self.world = world
        self._after_each = after_each
        self.actors: list[Actor] = []
        self.asked: list[Asked] = []
        self.ready: set[int] = set()
        """The numbers of those who can go on."""
        self._alarms: list[tuple[int, int]] = []
        """When who can go on in any case; who has gone on before is passed over."""
        self._moments = 0

    def moment(self) -> Moment:
        """The present one."""
        self._moments += 1
        return len(self.world.facts), self._moments

    def add(self, name: str, script: Script) -> Actor:
        """Another one comes in."""
        actor = Actor(self, len(self.actors), name, script)
        self.actors.append(actor)
        self.ready.add(actor.number)
        return actor

    def play(self, awaited: Sequence[Actor], *, within_ms: int) -> bool:
        """Let everybody act until these are done; whether they are."""
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
        """Note who has waited for long enough."""
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
