"""Clients as scripts: generators that ask brokers and sleep, run side by side over one simulated world."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from msgspec import Struct

from odradek.sim.client import Answer, SimClient
from odradek.sim.world import World

__all__ = ["Actor", "Ask", "AskAll", "Asked", "Script", "Sleep", "Stage"]


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


Script = Generator[Sleep | Ask | AskAll, Any, Any]


class Actor:
    """One script on its way; it has one connection to each broker, and waits for one thing at a time."""

    def __init__(self, world: World, name: str, script: Script, asked: list[Asked]) -> None:
        self.name = name
        self.done = False
        self._world = world
        self._script = script
        self._clients: dict[int, SimClient] = {}
        self._wanted: Sleep | Ask | AskAll = Sleep(0)
        self._answers: list[Answer] = []
        self._half_open: list[SimClient] = []
        self._asked = asked
        self._own: list[Asked] = []
        self.wake_at = world.now

    @property
    def is_ready(self) -> bool:
        """Whether there is something to go on with."""
        if self.done:
            return False
        if self._world.now >= self.wake_at:
            return True
        return bool(self._answers) and all(answer.arrived or answer.lost for answer in self._answers)

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
        if isinstance(wanted, Sleep):
            self.wake_at = self._world.now + wanted.milliseconds
            return
        client = self._client(wanted.node_id)
        requests = wanted.requests if isinstance(wanted, AskAll) else (wanted.request,)
        self._answers = [client.send(request, wanted.version) for request in requests]
        now = self._world.now
        self.wake_at = now + wanted.timeout_ms
        self._own = [Asked(self.name, now, wanted.node_id, request, wanted.version) for request in requests]
        self._asked += self._own

    def _outcome(self) -> Any:
        wanted, answers = self._wanted, self._answers
        assert not isinstance(wanted, Sleep), "nobody answers who sleeps"
        if not all(answer.arrived for answer in answers):
            # As real clients do: what has no answer in time costs the connection; the request may still arrive.
            client = self._clients.pop(wanted.node_id)
            if isinstance(wanted, Ask) or wanted.hangs_up:
                client.close()
            else:
                self._half_open.append(client)
        for asked, answer in zip(self._own, answers, strict=True):
            asked.ended_at = self._world.now
            asked.response = answer.response if answer.arrived else None
        responses = [answer.response if answer.arrived else None for answer in answers]
        return responses if isinstance(wanted, AskAll) else responses[0]

    def _client(self, node_id: int) -> SimClient:
        client = self._clients.get(node_id)
        if client is None or client.closed:
            client = self._clients[node_id] = self._world.client(node_id, client_id=self.name)
        return client


class Stage:
    """All actors of a world."""

    def __init__(self, world: World, *, after_each: Callable[[], None]) -> None:
        self._world = world
        self._after_each = after_each
        self.actors: list[Actor] = []
        self.asked: list[Asked] = []

    def add(self, name: str, script: Script) -> Actor:
        """Another one comes in."""
        actor = Actor(self._world, name, script, self.asked)
        self.actors.append(actor)
        return actor

    def play(self, until: Callable[[], bool], *, within_ms: int) -> bool:
        """Let everybody act until the condition holds; whether it does."""
        world = self._world
        end = world.now + within_ms
        while not until():
            if world.now >= end:
                return False
            ready = [actor for actor in self.actors if actor.is_ready]
            for actor in ready:
                actor.step()
            if not ready:
                next_at = min((actor.wake_at for actor in self.actors if not actor.done), default=end)
                world.run_until(lambda: any(a.is_ready for a in self.actors), within_ms=min(end, next_at) - world.now)
            self._after_each()
        return True
