"""What a node does without being asked, each chore at its own interval.

Retention, the cleaner and the expiry of producers have an interval each, as in Kafka; a log that is compacted and
deleted from is the cleaner's in both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from odradek.host.exchange import HasConnections
from odradek.host.seams import HasClock, HasConfig, HasKernel, HasMetadata, HasPartitions, HasTimers, HasTurns
from odradek.metadata.controller_role import HasController

if TYPE_CHECKING:
    from odradek.config.table import Config
    from odradek.log.partition import Partition

__all__ = ["Housekeeping"]


class Node(
    HasClock,
    HasConfig,
    HasConnections,
    HasController,
    HasKernel,
    HasMetadata,
    HasPartitions,
    HasTimers,
    HasTurns,
    Protocol,
):
    """What the chores touch of their broker."""


IDLE_SWEEP_MS = 1000
"""Idle connections are looked for so often, or as often as `connections.max.idle.ms` if that is less."""
LOOKED_AT_ONCE = 200
"""How many partitions are looked at before others may go on."""
COMPACT_ON_MS = 5
"""A large compaction is done in steps, with so much time between them for clients."""


class Chore(Struct, frozen=True):
    """Something to be done again and again."""

    interval_ms: Callable[[Config], int | None]
    """How often; None: never."""
    act: Callable[[Housekeeping], None]


class Housekeeping:
    """The chores of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._intervals: dict[str, int | None] = {}
        self._compacting: list[Partition] = []

    def adopt(self) -> None:
        """Plan every chore whose interval is new; the others stay as they are planned."""
        for name, chore in CHORES.items():
            interval_ms = chore.interval_ms(self._node.config)
            if name not in self._intervals or self._intervals[name] != interval_ms:
                self._intervals[name] = interval_ms
                self._plan(name)

    def _plan(self, name: str) -> None:
        interval_ms = self._intervals[name]
        at = None if interval_ms is None else self._node.now + max(1, interval_ms)
        self._node.timers.set(name, at, partial(self._do, name))

    def _do(self, name: str) -> None:
        self._plan(name)
        CHORES[name].act(self)

    # ------------------------------------------------------------------ the chores

    def hang_up_on_the_idle(self) -> None:
        """End the connections of clients that have said nothing for `connections.max.idle.ms`."""
        node = self._node
        for connection in list(node.connections.values()):
            silent_ms = node.now - connection.last_active
            if not connection.broker and connection.idle and silent_ms > node.config.connections_max_idle_ms:
                connection.close("idle")

    def retain(self) -> None:
        """Delete from the logs that are only deleted from."""
        self._look_through(self._retain)

    def _retain(self, partition: Partition) -> None:
        if not partition.config.compacts:
            partition.retain(self._node.now)

    def _look_through(self, look: Callable[[Partition], None]) -> None:
        """Look at all partitions, a few at a time."""
        self._node.kernel.spawn(self._looking(look, list(self._node.partitions.values())))

    async def _looking(self, look: Callable[[Partition], None], every: Sequence[Partition]) -> None:
        node = self._node
        for count, partition in enumerate(every):
            if count and not count % LOOKED_AT_ONCE:
                await node.turns.breathe_behind()
            if node.partitions.get(partition.key) is partition:
                look(partition)

    def clean(self) -> None:
        """Delete from the logs that are compacted as well, and compact those that need it."""
        if self._compacting:
            return  # the pass before is not over
        for partition in self._node.partitions.values():
            if partition.config.compacts:
                partition.retain(self._node.now)
                self._compacting.append(partition)
        self._compact_on()

    def _compact_on(self) -> None:
        """One step of each compaction; clients need not wait for a large one."""
        node = self._node
        led = [each for each in self._compacting if node.partitions.get((each.topic, each.index)) is each]
        self._compacting = [partition for partition in led if partition.compact(node.now)]
        if self._compacting:
            node.timers.set("compact on", node.now + COMPACT_ON_MS, self._compact_on)

    def forget_tokens(self) -> None:
        """Forget the delegation tokens whose time is over, where this node is the controller."""
        if self._node.image.tokens:
            self._node.controller.forget_tokens()

    def elect_unclean(self) -> None:
        """Give leaders to partitions that nobody leads and whose topics allow one out of sync, as the controller."""
        self._node.controller.elect_unclean()

    def forget_producers(self) -> None:
        """Forget the producers that have written nothing for `producer.id.expiration.ms`."""
        config = self._node.config
        as_ids = self._node.release.producers.kept_as_long_as_ids
        after_ms = config.transactional_id_expiration_ms if as_ids else config.producer_id_expiration_ms
        self._look_through(lambda partition: partition.forget_producers(self._node.now, after_ms=after_ms))


def _idle_sweep_ms(config: Config) -> int | None:
    idle_ms = config.connections_max_idle_ms
    return None if idle_ms < 0 else min(IDLE_SWEEP_MS, idle_ms)


def _token_sweep_ms(config: Config) -> int | None:
    settings = config.security()
    secret, interval_ms = settings.delegation_token_secret_key, settings.delegation_token_expiry_check_interval_ms
    return None if secret is None else interval_ms


CHORES: dict[str, Chore] = {
    "idle connections": Chore(_idle_sweep_ms, Housekeeping.hang_up_on_the_idle),
    "retention": Chore(lambda config: config.log_retention_check_interval_ms, Housekeeping.retain),
    "cleaner": Chore(lambda config: config.log_cleaner_backoff_ms, Housekeeping.clean),
    "tokens": Chore(_token_sweep_ms, Housekeeping.forget_tokens),
    "unclean elections": Chore(lambda config: config.unclean_leader_election_interval_ms, Housekeeping.elect_unclean),
    "producers": Chore(lambda config: config.producer_id_expiration_check_interval_ms, Housekeeping.forget_producers),
}
