"""A client that looks up leaders and coordinators all the time, and once more at every broker after the trouble."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from odradek.core.internal_topics import CoordinatorKind
from odradek.sim.clients.directories import find_request, metadata_request, offered
from odradek.sim.clients.workers import WORK_GROUP
from odradek.sim.world.actors import Ask, Script, Sleep
from odradek.sim.world.world import World
from odradek.wire.registry import ApiKey

__all__ = ["NEWS_MS", "Looker"]

TOPIC = "t"
ALL = [TOPIC, CoordinatorKind.GROUP.topic, CoordinatorKind.TRANSACTION.topic]
PATIENCE_MS = 1_000
NEWS_MS = 1_000
"""Time after the trouble until every broker has the metadata that the controller had at its end."""


class Looker:
    """Asks random brokers."""

    def __init__(
        self, world: World, *, random: Random, transactional_ids: Sequence[str], goes_on: Callable[[], bool]
    ) -> None:
        self.world = world
        self._random = random
        self._transactional_ids = transactional_ids or [""]
        self._goes_on = goes_on
        self._find_version = offered(world, ApiKey.FIND_COORDINATOR, 6)
        self._metadata_version = offered(world, ApiKey.METADATA, 13)

    def script(self) -> Script:
        while self._goes_on():
            yield from self._ask(self._random.choice(list(self.world.nodes)))
            yield Sleep(self._random.randint(5, 60))
        yield Sleep(NEWS_MS)
        for node_id in self.world.nodes:
            yield from self._ask(node_id)

    def _ask(self, node_id: int) -> Script:
        yield Ask(node_id, metadata_request(ALL), self._metadata_version, PATIENCE_MS)
        for kind, keys in (
            (CoordinatorKind.TRANSACTION, [*self._transactional_ids]),
            (CoordinatorKind.GROUP, [WORK_GROUP]),
        ):
            for key in keys:
                request = find_request(kind, [key], self._find_version)
                yield Ask(node_id, request, self._find_version, PATIENCE_MS)
