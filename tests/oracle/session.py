"""Plays many scenarios with as few brokers as they allow."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from itertools import groupby

from tests.oracle.player import Broker, Neighbour, Player
from tests.oracle.scenario import Scenario
from tests.oracle.transcript import Entry
from tests.oracle.verbs import VERBS, seed, warm_up

__all__ = ["Stage", "Stages", "Start", "groups", "needs"]

SLOW_S = 2.0
log = logging.getLogger(__name__)

Start = Callable[[int, Mapping[str, str], Neighbour], AbstractContextManager[Broker]]
"""Starts a broker of a transaction.version with these properties, and perhaps another beside it."""


def needs(scenario: Scenario) -> tuple[str, ...]:
    """What a broker must be to play it; scenarios with the same needs share one."""
    alone = (scenario.path,) if scenario.fresh else ()
    restarts = ("restarts",) if scenario.has("seed", "restart", "crash") else ()
    neighbour = (neighbour_of(scenario).name,) if neighbour_of(scenario) else ()
    return (*(f"{key}={value}" for key, value in sorted(scenario.properties.items())), *restarts, *neighbour, *alone)


def neighbour_of(scenario: Scenario) -> Neighbour:
    """What the scenario needs another broker for."""
    if scenario.brokers > 1:
        return Neighbour.COORDINATES if scenario.brokers == 2 else Neighbour.COME_AND_GO
    if scenario.has("follower"):
        return Neighbour.FOLLOWS
    return Neighbour.HOLDS if scenario.has("hold") else Neighbour.NONE


def groups(scenarios: Iterable[Scenario]) -> Iterator[list[Scenario]]:
    """The scenarios, by what they need of a broker."""
    for _, members in groupby(sorted(scenarios, key=needs), key=needs):
        yield list(members)


class Stage:
    """One broker at one level, prepared for the scenarios of a group."""

    def __init__(self, group: Iterable[Scenario], level: int, start: Start) -> None:
        self.scenarios = [scenario for scenario in group if level in scenario.levels]
        self.level = level
        self.start = start
        self.players: dict[str, Player] = {}
        self.exits = ExitStack()

    def __enter__(self) -> Stage:
        if self.scenarios:
            first = self.scenarios[0]
            broker = self.exits.enter_context(self.start(self.level, first.properties, neighbour_of(first)))
            with self.exits:  # closed by what follows, unless it succeeds
                self.players = {each.path: Player(each, self.level, broker, VERBS) for each in self.scenarios}
                if not first.fresh:
                    self.prepare(broker)
                self.exits = self.exits.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self.exits.close()

    def prepare(self, broker: Broker) -> None:
        """Have everything loaded that scenarios take for granted."""
        first, *_ = self.players.values()
        warm_up(first)
        seeded = False
        for player in self.players.values():
            for step in player.scenario.at(self.level):
                if step.verb == "seed":
                    player.seeds[step.words[0]] = seed(player, step)
                    seeded = True
            player.close()
        if seeded:
            broker.restart(crash=False)
            warm_up(first)
            first.close()

    def play(self, scenario: Scenario) -> list[Entry]:
        """Play one of them, once."""
        started = time.monotonic()
        try:
            return self.players[scenario.path].play()
        finally:
            if time.monotonic() - started > SLOW_S:
                log.info("%s took %.1f s at %d", scenario.path, time.monotonic() - started, self.level)


class Stages:
    """Stages that are set up when the first scenario needs them, and all taken down at the end."""

    def __init__(self) -> None:
        self.exits = ExitStack()
        self.stages: dict[Hashable, Stage] = {}

    def __enter__(self) -> Stages:
        return self

    def __exit__(self, *_: object) -> None:
        self.exits.close()

    def get(self, key: Hashable, make: Callable[[], Stage]) -> Stage:
        """The one of this key."""
        if key not in self.stages:
            self.stages[key] = self.exits.enter_context(make())
        return self.stages[key]
